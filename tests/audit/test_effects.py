"""Effects: next to a regression written out, planted in simulated panels, and absent where there are none."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.audit import EFFECTS, detected, panel
from scipy import stats

import consilience as cs
from consilience.audit.effects import ALL, ITSELF, KNOWN, OTHERS, Effect, Property, effects_of, holm
from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Floats, Ints


def regression(X: Floats, y: Floats, item: Ints, Z: Floats | None = None) -> tuple[float, float]:
    """Return the first coefficient and its standard error, clustered by item, with instruments Z, from matrices."""
    Z = X if Z is None else Z
    n, p = X.shape
    bread = np.linalg.inv(Z.T @ X)
    beta = bread @ Z.T @ y
    meat = np.zeros((p, p))
    clusters = np.unique(item)
    for g in clusters:
        s = Z[item == g].T @ (y - X @ beta)[item == g]
        meat += np.outer(s, s)
    G = clusters.size
    V = bread @ meat @ bread.T * G / (G - 1) * (n - 1) / (n - p)
    return float(beta[0]), float(np.sqrt(V[0, 0]))


def sample(n: int = 150, M: int = 6, seed: int = 0) -> Property:
    rng = np.random.default_rng(seed)
    item, judge = np.repeat(np.arange(n), M), np.tile(np.arange(M), n)
    x = rng.integers(0, 2, n * M).astype(float)
    good = np.repeat(rng.integers(0, 2, n), M)
    y = (rng.random(n * M) < 0.1 + 0.6 * good + 0.2 * x).astype(float)
    return Property(item, judge, y, x)


def others(of: Floats, given: Property, half: int) -> Floats:
    pairs = zip(given.item, given.judge, strict=True)
    counts = given.judge % 2 == half
    return np.array([of[(given.item == i) & (given.judge != m) & counts].mean() for i, m in pairs])


def same(effect: Effect, beta: float, error: float, G: int) -> None:
    assert effect.size == pytest.approx(beta, abs=1e-10)
    step = stats.t.ppf(0.975, G - 1) * error
    assert (effect.low, effect.high) == pytest.approx((beta - step, beta + step), abs=1e-10)
    assert effect.p == pytest.approx(2 * stats.t.sf(abs(beta) / error, G - 1), abs=1e-10)


def test_effects_are_those_of_the_regression_written_out() -> None:
    given = sample()
    x_bar, y_bar, instrument = others(given.x, given, 0), others(given.y, given, 0), others(given.y, given, 1)
    found = {effect.judge: effect for effect in effects_of(given, 150, 6, None, 0.95)}
    one = np.ones(given.x.size)
    for m in range(6):
        of = given.judge == m
        X, Z = (np.column_stack([given.x, one, x_bar, last])[of] for last in (y_bar, instrument))
        same(found[m], *regression(X, given.y[of], given.item[of], Z), 150)
        assert found[m].against == ITSELF
    X, Z = (
        np.column_stack([given.x, *(column * (given.judge == m) for m in range(6) for column in (one, x_bar, last))])
        for last in (y_bar, instrument)
    )
    same(found[ALL], *regression(X, given.y, given.item, Z), 150)


def test_a_property_of_items_is_compared_with_others_and_with_known_answers() -> None:
    given = sample()
    rng = np.random.default_rng(1)
    long, truth = rng.integers(0, 2, 150).astype(float), rng.integers(0, 2, 150).astype(float)
    truth[40:] = np.nan
    given = Property(given.item, given.judge, given.y, long[given.item])
    found = {(effect.judge, effect.against): effect for effect in effects_of(given, 150, 6, truth, 0.95)}
    assert (ALL, OTHERS) not in found  # judges cannot differ from each other together
    assert (ALL, KNOWN) in found
    one = np.ones(given.x.size)
    known = (given.judge == 2) & (given.item < 40)
    X = np.column_stack([given.x, one, truth[given.item]])[known]
    same(found[2, KNOWN], *regression(X, given.y[known], given.item[known]), 40)
    of = given.judge == 2
    X, Z = (np.column_stack([given.x, one, others(given.y, given, half)])[of] for half in (0, 1))
    same(found[2, OTHERS], *regression(X, given.y[of], given.item[of], Z), 150)


@pytest.mark.parametrize("known", [False, True])
def test_better_answers_that_are_longer_are_no_effect_of_length(known: bool) -> None:
    false = []
    for seed in range(40):
        made = panel(seed, "length", 0.0)
        better = np.array([made.truth[item] == "A" for item in range(1000)])
        a_longer = better == (np.random.default_rng(seed).random(1000) < 0.75)
        length = made.length.assign(A=np.where(a_longer, 300, 100), B=200)
        gold = made.truth if known else None
        rows = cs.audit(cs.aggregate(made.annotations, "majority"), gold=gold, length=length, without=False).effects
        false.append(bool((rows["p"][rows["effect"] == "length"] < 0.05).any()))
    assert sum(false) <= 5


def test_holm_rejects_what_the_sequential_procedure_rejects() -> None:
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03]), np.ones(3)), [0.03, 0.06, 0.06])
    rng = np.random.default_rng(0)
    for _ in range(50):
        p, w = rng.random(5) ** 3, rng.random(5) + 0.1
        corrected = holm(p, w)
        for alpha in (0.01, 0.05, 0.2):
            rejected: set[int] = set()
            while len(rejected) < 5:
                left = [i for i in range(5) if i not in rejected]
                first = min(left, key=lambda i: p[i] / w[i])
                if p[first] > alpha * w[first] / w[left].sum():
                    break
                rejected.add(first)
            assert {i for i in range(5) if corrected[i] <= alpha} == rejected


@pytest.mark.parametrize("effect", EFFECTS)
def test_planted_effects_are_found_and_others_are_not(effect: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [detected(seed, effect, 0.05)[0] for seed in range(20)]
        false = [detected(seed, effect, 0.0)[1] for seed in range(40)]
    assert np.mean(found) >= 0.9
    # 6 or more of 40 have a probability below 2 % if that of each is 5 %
    assert sum(false) <= 5


@pytest.mark.parametrize("effect", EFFECTS)
def test_the_size_of_an_effect_is_that_of_the_simulation(effect: str) -> None:
    made = panel(3, effect, 0.05, n=4000)
    given: dict[str, Any] = {
        "position": {"order": made.order},
        "length": {"length": made.length, "gold": made.truth},
        "self-preference": {"author": made.author},
    }[effect]
    rows = cs.audit(cs.aggregate(made.annotations, "majority"), without=False, **given).effects
    row = rows[(rows["effect"] == effect) & (rows["judge"] == "all judges")].iloc[0]
    # three standard errors, not two: a test must not fail by chance
    assert abs(row["points"] - 5.0) < 0.75 * (row["high"] - row["low"])
    assert row["high"] - row["low"] < 5.0


def test_two_orders_of_one_judge_are_variants() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(400) < 0.5
    columns = {}
    for judge, pull in (("x", 0.15), ("y", 0.0), ("z", 0.0), ("w", 0.0)):
        for order, sign in (("ab", 1), ("ba", -1)):
            columns[f"{judge}|{order}"] = rng.random(400) < np.where(truth, 0.8, 0.2) + sign * pull
    a = cs.Annotations.from_matrix(
        np.where(np.column_stack(list(columns.values())), "A", "B"), annotators=list(columns)
    )
    first = {name: "A" if name.endswith("ab") else "B" for name in columns}
    judges = {name: name[0] for name in columns}
    found = cs.audit(cs.aggregate(a, "majority"), order=first, judges=judges, without=False).effects
    position = found[found["effect"] == "position"].set_index("judge")
    assert position.loc["x", "p"] < 0.001
    assert position.loc["x", "low"] < 30 < position.loc["x", "high"]
    assert (position.loc[["w", "y", "z"], "p"] > 0.05).all()


def test_drift_is_found_in_the_judge_who_drifts() -> None:
    rng = np.random.default_rng(0)
    n, M = 1500, 5
    truth = rng.integers(0, 2, n)
    skill = np.full((n, M), 0.85)
    skill[:, 2] = np.linspace(0.95, 0.65, n)
    said = np.where(rng.random((n, M)) < skill, truth[:, None], 1 - truth[:, None])
    frame = pd.DataFrame(
        {
            "item": np.repeat(np.arange(n), M),
            "annotator": np.tile([f"j{m}" for m in range(M)], n),
            "label": said.ravel(),
            "time": np.repeat(np.arange(n), M).astype(float),
        }
    )
    found = cs.audit(cs.aggregate(frame, "majority"), without=False).effects
    drift = found[found["effect"] == "drift"].set_index("judge")
    assert drift.loc["j2", "p"] < 0.001
    assert drift.loc["j2", "points"] < -10  # agreement falls by less than accuracy
    assert (drift.drop("j2")["points"] > -5).all()


def test_what_does_not_fit_is_an_error() -> None:
    made = panel(0, "position", 0.0, n=50)
    consensus = cs.aggregate(made.annotations, "majority")
    with pytest.raises(ParameterError, match="order names 'C', which is not one of the classes A, B"):
        cs.audit(consensus, order={"judge 0": "C"})
    with pytest.raises(DataError, match="must name two classes"):
        cs.audit(consensus, order={"judge 0": "A"})
    with pytest.raises(DataError, match="no judge is an author"):
        cs.audit(consensus, author=dict.fromkeys(range(50), "somebody"))
    with pytest.raises(DataError, match="length must be numbers"):
        cs.audit(consensus, length=dict.fromkeys(range(50), "long"))
    with pytest.raises(ParameterError, match="judges names 'nobody'"):
        cs.audit(consensus, judges={"nobody": "x"})
    with pytest.raises(ParameterError, match="families needs authors"):
        cs.audit(consensus, families={"judge 0": "x"})
