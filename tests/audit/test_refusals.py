"""Refusals, families of judges and authors, costs, and frames that say how judges were asked."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import consilience as cs
from consilience.exceptions import ConsilienceWarning, DataError, ParameterError
from consilience.kernels._arrays import Ints


@pytest.fixture(autouse=True)
def _quiet() -> None:
    warnings.simplefilter("ignore", ConsilienceWarning)


def verdicts(n: int = 500, seed: int = 0, **more: float) -> tuple[pd.DataFrame, Ints]:
    """Six judges of three companies; ``family`` and ``own`` raise the share of "good" for such authors."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n)
    judges = np.array(["a1", "a2", "b1", "b2", "c1", "c2"])
    author = rng.integers(0, 6, n)
    good = np.where(truth[:, None] == 1, 0.85, 0.15) * np.ones((1, 6))
    same = (author[:, None] // 2 == np.arange(6) // 2) & (author[:, None] != np.arange(6))
    good = good + more.get("family", 0.0) * same
    said = np.where(rng.random((n, 6)) < good, "good", "bad").astype(object)
    rows = pd.DataFrame(
        {
            "item": np.repeat(np.arange(n), 6),
            "judge": np.tile(judges, n),
            "answer": said.ravel(),
            "author": np.repeat(judges[author], 6),
            "cost": np.tile([1.0, 1.0, 2.0, 2.0, 5.0, 5.0], n),
        }
    )
    return rows, truth


FAMILIES = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}


def test_refusals_are_dropped_and_counted() -> None:
    rows, truth = verdicts()
    lost = (rows["judge"] == "a1") & (rows["item"] % 4 == 0)
    rows.loc[lost, "answer"] = "refused"
    gold = {n: ("bad", "good")[truth[n]] for n in range(100)}
    found = cs.audit(rows, gold=gold, refusals="refused", without=False)
    judge = found.judges.set_index("judge").loc["a1"]
    interval = stats.beta(125 + 0.5, 375 + 0.5).interval(0.95)
    assert judge["refused"] == 0.25
    assert (judge["refused_low"], judge["refused_high"]) == pytest.approx(interval, abs=1e-6)
    known = rows[(rows["judge"] == "a1") & (rows["item"] < 100)]
    wrong = (known["answer"] != np.array(["bad", "good"])[truth[known["item"]]]).mean()
    assert judge["error_with_refusals"] == pytest.approx(wrong)
    answered = known[known["answer"] != "refused"]
    assert judge["error"] == pytest.approx(
        (answered["answer"] != np.array(["bad", "good"])[truth[answered["item"]]]).mean()
    )
    assert "a1: 25.0% (" in str(found)
    # the same, if refused answers are missing
    missing = cs.audit(rows[~lost], gold=gold, refusals=True, without=False)
    by_name = [each.judges.sort_values("judge", ignore_index=True) for each in (missing, found)]
    pd.testing.assert_frame_equal(*by_name)
    assert "No answer was refused" in str(cs.audit(verdicts()[0], refusals=True, without=False))
    with pytest.raises(ParameterError, match="refusals names 'silent', which is not one of the classes bad, good"):
        cs.audit(verdicts()[0], refusals="silent")
    with pytest.raises(DataError, match="all labels are refusals"):
        cs.audit(verdicts()[0], refusals=["good", "bad"])


def test_families_that_favour_their_own_are_found() -> None:
    for size, seen in ((0.12, True), (0.0, False)):
        rows, _ = verdicts(1500, family=size)
        effects = cs.audit(rows, families=FAMILIES, good="good", without=False).effects
        everyone = effects[(effects["effect"] == "family-preference") & (effects["judge"] == "all judges")].iloc[0]
        assert (everyone["p"] < 0.05) == seen
        assert everyone["low"] <= 100 * size <= everyone["high"]
    with pytest.raises(DataError, match="no judge is of the family of an author"):
        cs.audit(rows, families=dict.fromkeys(["x"], "y"), without=False)


def test_panels_cost_what_their_judges_cost(tmp_path: Path) -> None:
    rows, truth = verdicts(300)
    gold = {n: ("bad", "good")[truth[n]] for n in range(150)}
    found = cs.audit(rows, gold=gold, without=False)
    price = dict(zip(FAMILIES, (1, 1, 2, 2, 5, 5), strict=True))
    np.testing.assert_allclose(found.panels["cost"], np.cumsum([price[name] for name in found.panels["joins"]]))
    assert f"of all judges {sum(price.values())}" in str(found)
    picture = tmp_path / "panels.svg"
    cs.plot.cost_against_error(found, picture)
    assert "<svg" in picture.read_text()
    with pytest.raises(DataError, match="need known answers"):
        cs.plot.cost_against_error(cs.audit(rows, without=False))


def test_prompts_and_orders_of_a_frame_are_variants() -> None:
    rng = np.random.default_rng(1)
    n = 400
    truth = rng.integers(0, 2, n)
    made = []
    for judge in ("w", "x", "y", "z"):
        for first in ("A", "B"):
            a = rng.random(n) < np.where(truth == 0, 0.75, 0.25) + (0.1 if first == "A" else -0.1)
            made.append(
                pd.DataFrame({"judge": judge, "item": range(n), "order": first, "answer": np.where(a, "A", "B")})
            )
    found = cs.audit(pd.concat(made), without=False)
    assert sorted(found.judges["judge"]) == [f"{judge}/{first}" for judge in "wxyz" for first in "AB"]
    position = found.effects[found.effects["effect"] == "position"].set_index("judge")
    assert position.loc["all judges", "low"] < 20 < position.loc["all judges", "high"]
    assert {"w", "x", "y", "z"} <= set(position.index)
