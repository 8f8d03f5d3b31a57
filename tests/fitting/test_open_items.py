"""Passes over open items: a lower bound of the likelihood that touches it, and rises with every EM step."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import random_model

import consilience as cs
from consilience.engine.passes import InMemory
from consilience.fitting.em import ConfusionStep, Parameters
from consilience.fitting.fit import vote_start
from consilience.fitting.open_items import OpenItems

CROWD = cs.simulate(1000, 20, 3, labels_per_item=10, accuracy=(0.55, 0.8), seed=5)


def settled(gold: bool = False) -> tuple[InMemory, OpenItems, Parameters]:
    """A crowd whose items are mostly settled, after a look."""
    a = CROWD.annotations
    if gold:
        a = a.with_gold(np.where(np.arange(a.n_items) % 4 == 0, CROWD.truth, -1))
    passes, step = InMemory(a), ConfusionStep(0.1)
    at = vote_start(a, step)
    for _ in range(4):
        at = step(passes.sweep(*at))
    items = OpenItems(passes)
    items.looking.e_step(at)
    return passes, items, at


def nearby(at: Parameters, far: float, seed: int) -> Parameters:
    M, K, _ = at.confusions.shape
    other = random_model(M, K, seed)
    return Parameters((1 - far) * at.prior + far * other.prior, (1 - far) * at.confusions + far * other.confusions)


@pytest.mark.parametrize("gold", [False, True])
def test_the_objective_is_a_lower_bound_that_touches(gold: bool) -> None:
    passes, items, at = settled(gold)
    assert items.are_few
    assert 0 < items.share < 0.4
    sums, bound = items.open.e_step(at)
    whole = passes.sweep(*at)
    assert bound == pytest.approx(whole.log_likelihood, rel=1e-13)
    np.testing.assert_allclose(sums.counts, whole.counts, atol=1e-9)
    np.testing.assert_allclose(sums.class_counts, whole.class_counts, atol=1e-9)
    gaps = []
    for far in (0.1, 1e-3, 1e-4):
        there = nearby(at, far, seed=1)
        gaps.append(passes.sweep(*there).log_likelihood - items.open.e_step(there)[1])
    assert gaps[0] > gaps[1] > gaps[2] > 0
    # it touches: near the look, the gap shrinks as the square of the way
    assert gaps[2] < 0.03 * gaps[1]


def test_em_steps_over_open_items_raise_the_bound_and_with_it_the_likelihood() -> None:
    passes, items, at = settled()
    step, bounds = ConfusionStep(), []
    begun = passes.sweep(*at).log_likelihood
    for _ in range(6):
        sums, bound = items.open.e_step(at)
        bounds.append(bound)
        assert passes.sweep(*at).log_likelihood >= bound - 1e-9
        at = step(sums)
    assert (np.diff(bounds) > 0).all()
    assert bounds[0] == pytest.approx(begun, rel=1e-13)


def test_a_pass_over_all_items_renews_the_others() -> None:
    passes, items, at = settled()
    items.open.e_step(at)
    there = nearby(at, 0.05, seed=2)
    before = items.open.e_step(there)[1]
    sums, likelihood = items.all.e_step(there)
    assert likelihood == passes.sweep(*there).log_likelihood > before
    assert sums.counts.tobytes() == passes.sweep(*there).counts.tobytes()
    assert items.open.e_step(there)[1] == pytest.approx(likelihood, rel=1e-13)
    # the items that are open are still those of the look
    assert items.looked is at
    assert items.open.labels == passes.look(*at).open_labels != passes.look(*there).open_labels


def test_few_are_worth_it_and_many_are_not() -> None:
    _, items, at = settled()
    assert items.worth_a_look
    assert not items.open.whole
    assert items.all.whole
    assert items.looking.whole
    vague = Parameters(at.prior, np.full_like(at.confusions, 1 / 3))
    items.looking.e_step(vague)
    assert items.share == 1.0
    assert not items.are_few
    # nothing is open: there is nothing to pass over
    everything = OpenItems(InMemory(CROWD.annotations.with_gold(CROWD.truth)))
    everything.looking.e_step(at)
    assert everything.share == 0.0
    assert not everything.are_few
    # what is spared has to be more than what the model has probabilities
    few_labels = OpenItems(InMemory(CROWD.annotations.select_items(np.arange(70))))
    assert 700 < 4 * 20 * 9
    assert not few_labels.worth_a_look
    many_classes = OpenItems(InMemory(cs.simulate(4000, 2, 17, labels_per_item=2, seed=0).annotations))
    assert not many_classes.worth_a_look
