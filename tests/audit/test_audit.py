"""The audit as a whole: families, panels, the consensus without a judge, and the page."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from functools import cache

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.audit.panels import _by_record, _errors, _known
from consilience.exceptions import ConsilienceWarning, DataError, ParameterError
from consilience.kernels._arrays import Ints

NAMES = ["good 1", "good 2", "good 3", "weak 1", "weak 2", "weak 3", "weak 4"]


@cache
def panel(seed: int = 0) -> tuple[cs.Annotations, Ints]:
    """Three good judges, and a family of four who share most of their many errors."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, 600)
    fooled = rng.random(600) < 0.45
    right = rng.random((600, 7)) < np.array([0.88, 0.85, 0.83, 0.9, 0.9, 0.9, 0.9])
    right[:, 3:] &= ~fooled[:, None]
    said = np.where(right, truth[:, None], 1 - truth[:, None])
    return cs.Annotations.from_matrix(np.array(["no", "yes"])[said], annotators=NAMES), truth


def gold(truth: Ints, n: int) -> dict[int, str]:
    return {item: ("no", "yes")[truth[item]] for item in range(n)}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    warnings.simplefilter("ignore", ConsilienceWarning)


def test_known_answers_keep_the_good_judges_and_show_the_family() -> None:
    a, truth = panel()
    found = cs.audit(a, gold=gold(truth, 150))
    assert set(found.panel) <= set(NAMES[:3])
    assert found.families["judges"].tolist()[0] == "weak 1, weak 2, weak 3, weak 4"
    assert found.families_by_gold
    rows = found.judges.set_index("judge")
    said = np.stack([a.label[a.annotator == m] for m in range(7)], axis=1)
    wrong = (said[:150] != truth[:150, None]).mean(axis=0)
    np.testing.assert_allclose(rows["error"], wrong)
    assert ((rows["error_low"] < wrong) & (wrong < rows["error_high"])).all()
    assert rows.index[rows["keep"]].tolist() == list(found.panel)
    chosen = found.panels[found.panels["smallest"]].iloc[0]
    assert chosen["error"] <= found.panels["error"].min() + 0.005 + 1e-9
    assert chosen["error"] < found.panels["error"].iloc[-1] - 0.1


def test_errors_of_panels_are_those_of_votes_counted_one_by_one() -> None:
    crowd = cs.simulate(40, 6, 3, labels_per_item=4, seed=2)
    a, truth = crowd.annotations, np.asarray(crowd.truth, np.int32)
    known = _known(a, truth)
    order = _by_record(known, np.ones(known.truth.size, bool))
    on = np.arange(known.truth.size) % 2 == 0
    items = np.argsort(a.item_ids.sorted()[1])
    item_of_label = a.item_of_label()
    for size, wrong in enumerate(_errors(known, order, on), 1):
        expected = 0.0
        for n in items[on]:
            mine = (item_of_label == n) & np.isin(a.annotator, order[:size])
            votes = Counter(a.label[mine].tolist())
            best = [k for k in range(3) if votes[k] == max(votes.values(), default=0)]
            expected += 1.0 - (truth[n] in best) / len(best)
        assert wrong == pytest.approx(expected)


def test_the_consensus_without_a_judge_is_that_of_the_others() -> None:
    a, truth = panel()
    consensus = cs.aggregate(a, "one-coin")
    rows = cs.audit(consensus, gold=gold(truth, 200)).judges.set_index("judge")
    rest = cs.aggregate(a.select_annotators(np.arange(1, 7)), "one-coin")
    assert rows.loc["good 1", "changed_without"] == pytest.approx(np.mean(rest.choice.best != consensus.choice.best))
    errors = [np.mean(run.choice.best[:200] != truth[:200]) for run in (rest, consensus)]
    assert rows.loc["good 1", "more_errors_without"] == pytest.approx(errors[0] - errors[1])
    assert "changed_without" not in cs.audit(consensus, without=False).judges


def test_leniency_is_the_share_beyond_the_known_answers() -> None:
    a, truth = panel()
    effects = cs.audit(cs.aggregate(a, "majority"), gold=gold(truth, 200), without=False).effects
    row = effects[(effects["effect"] == "leniency") & (effects["judge"] == "weak 1")].iloc[0]
    said = a.label[a.annotator == 3][:200]
    assert row["class"] == "yes"
    assert row["points"] == pytest.approx(100 * (said.mean() - truth[:200].mean()))
    each = said.astype(float) - truth[:200]
    assert row["high"] - row["points"] == pytest.approx(100 * 1.972 * each.std(ddof=1) / np.sqrt(200), rel=1e-3)


def test_the_order_of_rows_does_not_matter() -> None:
    a, truth = panel()
    frame = a.to_frame("pandas")
    shuffled = frame.sample(frac=1.0, random_state=1)
    one, two = (cs.audit(rows, gold=gold(truth, 100), without=False) for rows in (frame, shuffled))
    assert set(one.panel) == set(two.panel)
    tables = [
        (x.judges.drop(columns="flags").sort_values("judge"), x.effects.sort_values(["effect", "judge"]))
        for x in (one, two)
    ]
    for first, second in zip(*tables, strict=True):
        pd.testing.assert_frame_equal(first.reset_index(drop=True), second.reset_index(drop=True), rtol=1e-6)
    pd.testing.assert_frame_equal(one.families, two.families, rtol=1e-6)
    pd.testing.assert_frame_equal(one.panels, two.panels)


def test_the_page_says_first_what_cannot_be_known() -> None:
    a, truth = panel()
    blind, known = cs.audit(a), cs.audit(a, gold=gold(truth, 100))
    lines = str(blind).splitlines()
    assert lines[0] == "7 judges, 600 items, 0 known answers."
    assert lines[1].startswith("Without known answers, errors that most judges share cannot be seen")
    assert blind.panel == ()
    assert blind.panels is None
    assert "Smallest panel within half a point of the best" in str(known)
    assert "Without known answers" not in str(known)
    assert known.effective is not None
    assert blind.effective is not None
    content = json.loads(json.dumps(known.to_dict(), default=float))
    assert [row["judge"] for row in content["judges"]] == NAMES
    assert content["known"] == 100


def test_a_known_class_that_nobody_uses_is_always_an_error() -> None:
    a, truth = panel()
    answers = gold(truth, 100) | dict.fromkeys(range(100, 120), "neither")
    rows = cs.audit(a, gold=answers, without=False).judges.set_index("judge")
    said = a.label[a.annotator == 0][:120]
    assert rows.loc["good 1", "error"] == pytest.approx(((said[:100] != truth[:100]).sum() + 20) / 120)


def test_too_few_known_answers_and_wrong_levels_are_errors() -> None:
    a, truth = panel()
    with pytest.raises(DataError, match="5 known answers are too few"):
        cs.audit(a, gold=gold(truth, 5))
    with pytest.raises(ParameterError, match="level must be"):
        cs.audit(a, level=95)
