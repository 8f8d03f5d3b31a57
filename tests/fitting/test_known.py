"""Known answers: counted by brute force, weighed by a textbook distribution, in order, and harmless when few."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import dirichlet_multinomial
from tests.conftest import random_model

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.engine.passes import passes_of
from consilience.fitting.known import (
    by_gold,
    class_order,
    permuted,
    start_counts,
    start_posterior,
    strength_beside,
    taught,
)
from consilience.fitting.m_steps import ConfusionStep, Parameters
from consilience.kernels._arrays import Ints
from consilience.kernels.em import Statistics
from consilience.models.dawid_skene import DawidSkene


def crowd(
    seed: int, n_items: int = 400, K: int = 3, M: int = 8, p: float = 0.7
) -> tuple[Annotations, Ints, DawidSkene]:
    model = random_model(M, K, seed)
    annotations, truth = model.sample(n_items, label_probability=p, random_state=seed)
    return annotations, truth, model


def some(truth: Ints, n: int) -> Ints:
    """The truth of every so many items, -1 for the others."""
    return np.where(np.arange(truth.size) % (truth.size // n) == 0, truth, -1)


def known_of(counts: Ints) -> Statistics:
    return Statistics(counts.astype(float), np.full(counts.shape[1], np.nan), float("nan"))


@pytest.mark.parametrize("seed", range(3))
def test_gold_counts_are_those_of_a_loop(seed: int) -> None:
    a, truth, _ = crowd(seed, p=0.3)
    a = a.with_gold(some(truth, 50))
    assert a.gold is not None
    counts, items = np.zeros((8, 3, 3)), np.zeros(3)
    for n in range(a.n_items):
        if a.gold[n] >= 0 and a.indptr[n + 1] > a.indptr[n]:
            items[a.gold[n]] += 1
            for i in range(a.indptr[n], a.indptr[n + 1]):
                counts[a.annotator[i], a.label[i], a.gold[n]] += 1
    found = passes_of(a).gold_counts
    np.testing.assert_array_equal(found.counts, counts)
    np.testing.assert_array_equal(found.class_counts, items)


def test_the_strength_makes_the_counts_most_probable() -> None:
    rng = np.random.default_rng(0)
    M, K, strength = 40, 3, 8.0
    B = random_model(M, K, 1).confusions
    columns = np.stack([[rng.dirichlet(strength * B[m, :, k]) for k in range(K)] for m in range(M)])
    G = np.stack([[rng.multinomial(20, columns[m, k]) for k in range(K)] for m in range(M)]).transpose(0, 2, 1)

    def log_probability(s: float) -> float:
        return float(
            sum(dirichlet_multinomial.logpmf(G[m, :, k], s * B[m, :, k], 20) for m in range(M) for k in range(K))
        )

    tried = 2.0 ** np.arange(-1, 13)
    best = tried[np.argmax([log_probability(s) for s in tried])]
    assert strength_beside(known_of(G), B) == best
    assert 4.0 <= best <= 16.0


def test_counts_drawn_from_the_confusions_change_nothing() -> None:
    rng = np.random.default_rng(1)
    B = random_model(6, 4, 2).confusions
    G = np.stack([[rng.multinomial(500, B[m, :, k]) for k in range(4)] for m in range(6)]).transpose(0, 2, 1)
    assert strength_beside(known_of(G), B) >= 1024


def test_gold_that_agrees_with_the_votes_leaves_them_alone() -> None:
    sim = cs.simulate(600, 8, 3, experts=1.0, seed=0)
    a = sim.annotations.with_gold({n: int(sim.truth[n]) for n in range(0, 600, 12)})
    np.testing.assert_allclose(start_counts(a).counts, passes_of(a).votes.counts)
    np.testing.assert_allclose(start_counts(a).class_counts, passes_of(a).votes.class_counts)


def misled(seed: int, n_items: int = 1500, K: int = 3) -> tuple[Annotations, Ints, DawidSkene]:
    """Seven of ten annotators take every class for the next one."""
    rng = np.random.default_rng(seed)
    right = rng.uniform(0.65, 0.8, 10)
    A = np.stack([np.where(np.eye(K, dtype=bool), r, (1 - r) / (K - 1)) for r in right])
    A[:7] = np.roll(A[:7], 1, axis=1)
    blank = random_model(10, K, 0)
    model = DawidSkene(np.full(K, 1 / K), A, blank.classes, blank.annotators)
    return *model.sample(n_items, random_state=seed), model


@pytest.mark.parametrize("seed", range(3))
def test_the_start_of_a_misled_crowd_is_near_its_confusions(seed: int) -> None:
    a, truth, model = misled(seed)
    a = a.with_gold(some(truth, 150))
    start = ConfusionStep()(start_counts(a))
    assert np.abs(start.confusions - model.confusions).mean() < 0.06
    unknown = some(truth, 150) < 0
    assert (start_posterior(a).argmax(axis=1) == truth)[unknown].mean() > 0.95
    votes = ConfusionStep()(start_counts(a.with_gold(None)))
    assert np.abs(votes.confusions - model.confusions).mean() > 0.2


@pytest.mark.parametrize("shift", [1, 2])
def test_a_model_in_another_order_is_put_in_order(shift: int) -> None:
    a, truth, model = misled(4)
    turned = Parameters(np.roll(model.prior, shift), np.roll(model.confusions, shift, axis=2))
    blind = permuted(turned, class_order(a, turned))  # labels alone: most annotators are wrong
    assert np.abs(blind.confusions - model.confusions).mean() > 0.2
    found = permuted(turned, class_order(a.with_gold(some(truth, 15)), turned))
    np.testing.assert_array_equal(found.confusions, model.confusions)


def test_a_few_answers_do_not_decide_the_order() -> None:
    for K, n in ((2, 2), (4, 2), (8, 3)):
        a, truth, model = crowd(3, K=K, M=6)
        wrong = a.with_gold({a.items[i]: int((truth[i] + 1) % K) for i in range(n)})
        np.testing.assert_array_equal(by_gold(passes_of(wrong), Parameters(model.prior, model.confusions)), range(K))


@pytest.mark.parametrize(("against", "order"), [(0, [1, 0]), (4, [0, 1])])
def test_doubtful_items_do_not_decide_the_order(against: int, order: list[int]) -> None:
    """Twelve answers against ten equal votes turn the order; eight of twelve against six votes in ten do not."""
    labels = np.repeat([0, 1] * 100, 10).reshape(200, 10)
    labels[:12, :against] = 1 - labels[:12, :against]
    gold = np.full(200, -1)
    gold[:12] = 1 - np.arange(12) % 2
    if against:
        gold[8:12] = np.arange(8, 12) % 2
    a = Annotations.from_matrix(labels).with_gold(gold)
    right = np.repeat([[[0.8, 0.2], [0.2, 0.8]]], 10, axis=0)
    np.testing.assert_array_equal(by_gold(passes_of(a), Parameters(np.array([0.5, 0.5]), right)), order)


def test_gold_items_are_taken_for_classes_by_their_labels_alone() -> None:
    a, truth, model = crowd(7)
    gold = some(truth, 40)
    posterior = model.posterior(a)
    expected = np.zeros((3, 3))
    for n in np.flatnonzero((gold >= 0) & (a.labels_per_item > 0)):
        votes = np.sort(np.bincount(a.label[a.indptr[n] : a.indptr[n + 1]], minlength=3)) / a.labels_per_item[n]
        expected[:, gold[n]] += posterior[n] * (votes[-1] - votes[-2])
    found = passes_of(a.with_gold(gold)).gold_taken_for(model.prior, model.confusions)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_without_gold_nothing_is_taught() -> None:
    a, _, model = crowd(5)
    parameters = Parameters(model.prior, model.confusions)
    assert taught(a, parameters) is parameters
    assert start_counts(a).counts.tobytes() == passes_of(a).votes.counts.tobytes()


def test_columns_of_the_start_keep_their_sums() -> None:
    """Models with one accuracy for all classes add the columns up, so each must weigh as many labels as it has."""
    a, truth, _ = misled(6)
    start = start_counts(a.with_gold(some(truth, 150)))
    assert start.counts.sum() == pytest.approx(a.n_labels)
    assert start.class_counts.sum() == pytest.approx(a.n_items)
