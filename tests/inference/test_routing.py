"""Routing: the ceiling holds, costs are counted, and the next step for new items follows the stages."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

import consilience as cs
from consilience.exceptions import ConsilienceWarning, DataError, ParameterError
from consilience.inference.routing import _decided, _grid, _tested, _wrong
from consilience.kernels._arrays import Ints

COSTS = {"cheap 1": 1, "cheap 2": 1, "cheap 3": 1, "strong": 10}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    warnings.simplefilter("ignore", ConsilienceWarning)


def panel(seed: int, n: int = 1500, fools: float = 0.02) -> tuple[cs.Annotations, Ints]:
    """Three cheap judges and a strong one; some items fool all of them, so that models are too sure."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n)
    right = rng.random((n, 4)) < np.array([0.8, 0.78, 0.82, 0.95])
    right &= ~(rng.random(n) < fools)[:, None]
    said = np.where(right, truth[:, None], 1 - truth[:, None])
    return cs.Annotations.from_matrix(np.array(["no", "yes"])[said], annotators=list(COSTS)), truth


def known(truth: Ints, items: Any) -> dict[int, str]:
    return {int(i): ("no", "yes")[truth[i]] for i in items}


def outcome(found: cs.Routing, a: cs.Annotations, truth: Ints) -> tuple[float, float]:
    """Follow the routing step by step for all items: the share of wrong labels and the mean cost."""
    wrong, spent, left = 0, 0.0, np.arange(a.n_items)
    for s, cost in enumerate(found.costs):
        asked = [name for names in found.stages[: s + 1] for name in names]
        part = a.select_annotators(np.isin(a.annotators, asked)).select_items(left)
        steps = found.next(part)
        spent += cost * left.size
        done = steps["ask"].isna().to_numpy()
        wrong += int((steps["label"] != np.array(["no", "yes"])[truth[left]])[done].sum())
        left = left[~done]
    return wrong / a.n_items, (spent + (found.person or 0) * left.size) / a.n_items


def test_the_ceiling_is_violated_in_at_most_delta_of_the_draws() -> None:
    """The probabilities are far too sure; the known answers are drawn again and again."""
    rng = np.random.default_rng(0)
    n, ceiling, delta = 20_000, 0.08, 0.1
    sure = rng.random((n, 2)).cumsum(axis=1) / 2.0
    truth = rng.integers(0, 2, n)
    right = rng.random((n, 2)) < 0.75 + 0.25 * sure**2
    best = np.where(right, truth[:, None], 1 - truth[:, None])
    decided = np.stack([_decided(sure, threshold) for threshold in _grid(sure)])
    error = np.array([_wrong(at, best, truth, True) for at in decided]) / n
    assert error.max() > 1.5 * ceiling
    violated, saved = 0, 0.0
    for _ in range(400):
        test = rng.choice(n, 200, replace=False)
        errors = np.array([_wrong(at[test], best[test], truth[test], True) for at in decided])
        chosen = _tested(errors, 200, ceiling, delta)[0]
        violated += error[chosen] > ceiling
        saved += float((decided[chosen] < 2).mean()) / 400
    assert violated <= stats.binom.ppf(0.99, 400, delta)
    assert saved > 0.2


def test_following_the_steps_costs_what_was_announced() -> None:
    for seed in range(2):
        a, truth = panel(seed)
        gold = known(truth, np.random.default_rng(seed).choice(1500, 300, replace=False))
        found = cs.route(a, gold, costs=COSTS, person=50, ceiling=0.1)
        assert found.verified
        error, cost = outcome(found, a, truth)
        assert error <= 0.1
        assert cost == pytest.approx(found.cost)
        assert cost < 25  # a person for each item costs 50


def test_tests_stop_at_the_first_that_fails() -> None:
    errors = np.array([0, 1, 2, 9, 2, 2])
    chosen, p = _tested(errors, 200, 0.05, 0.05)
    assert chosen == 2
    assert p[1] == pytest.approx(0.95**200 + 200 * 0.05 * 0.95**199)
    assert _tested(np.array([12]), 200, 0.05, 0.05)[0] == -1


def test_without_a_person_an_impossible_ceiling_is_not_verified() -> None:
    a, truth = panel(0, fools=0.2)
    found = cs.route(a, known(truth, range(300)), costs=COSTS, ceiling=0.05)
    assert not found.verified
    assert str(found).startswith("Not verified: no threshold keeps the error at 5.0%")
    assert cs.route(a, known(truth, range(300)), costs=COSTS, ceiling=0.05, person=50).verified


def test_stages_can_be_named_and_leave_judges_out() -> None:
    a, truth = panel(1)
    gold = known(truth, range(300))
    found = cs.route(a, gold, costs=COSTS, stages=[["cheap 2"], ["strong"]], person=50, ceiling=0.1)
    assert found.stages == (("cheap 2",), ("strong",))
    assert found.costs == (1.0, 10.0)
    assert found.to_dict()["decided"] == pytest.approx(found.table["decided"].tolist())
    with pytest.raises(ParameterError, match="stages names 'nobody', who is not an annotator"):
        cs.route(a, gold, stages=[["nobody"]])


def test_too_few_known_answers_are_refused_with_the_number_needed() -> None:
    a, truth = panel(2)
    with pytest.raises(DataError, match=r"50 known answers cannot verify an error below 0\.05 .* at least 59"):
        cs.route(a, known(truth, range(50)))
    with pytest.raises(ParameterError, match="ceiling must be a share"):
        cs.route(a, known(truth, range(100)), ceiling=1.5)
