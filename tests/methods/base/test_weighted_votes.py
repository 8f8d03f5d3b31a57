"""Weighted votes: the vote is the label, the scale is the likeliest, signs and habits are what they should be."""

from __future__ import annotations

import numpy as np
import pytest

import consilience as cs
from consilience.kernels._arrays import Floats
from consilience.methods.base.weighted_votes import (
    label_shares,
    leading_eigenvector,
    oriented,
    steadied,
    tilted_confusions,
    weighted_vote,
)
from consilience.models.dawid_skene import DawidSkene


def votes(a: cs.Annotations, weights: Floats) -> Floats:
    """Σ w of those who said k, one label at a time."""
    score = np.zeros((a.n_items, a.n_classes))
    for n in range(a.n_items):
        for i in range(a.indptr[n], a.indptr[n + 1]):
            score[n, a.label[i]] += weights[a.annotator[i]]
    return score


@pytest.mark.parametrize("K", [2, 4])
def test_the_label_is_the_weighted_vote(K: int) -> None:
    sim = cs.simulate(300, 12, K, labels_per_item=5, seed=K)
    weights = np.random.default_rng(0).normal(0.5, 1.0, 12)
    done = weighted_vote(sim.annotations, weights)
    score = np.sort(votes(sim.annotations, weights), axis=1)
    clear = score[:, -1] - score[:, -2] > 1e-6
    np.testing.assert_array_equal(
        done.choice.best[clear], votes(sim.annotations, weights).argmax(axis=1)[clear], strict=False
    )
    assert clear.mean() > 0.9


def test_even_habits_make_the_one_coin_model() -> None:
    w, K = np.array([0.7, -0.4, 0.0]), 3
    made = tilted_confusions(np.repeat(w[:, None], K, 1), np.full((3, K), 1 / K))
    right = np.exp(w) / (np.exp(w) + K - 1)
    for m in range(3):
        expected = np.full((K, K), (1 - right[m]) / (K - 1))
        np.fill_diagonal(expected, right[m])
        np.testing.assert_allclose(made[m], expected)


def test_habits_are_discounted_to_first_order() -> None:
    habits, w = np.array([[0.8, 0.2]]), np.array([[1e-4, 1e-4]])
    log = np.log(tilted_confusions(w, habits)[0])
    # what saying i tells of class 1 against class 0: w ([i = 1] - h(1)) - w ([i = 0] - h(0))
    for i in range(2):
        expected = 1e-4 * (((i == 1) - 0.2) - ((i == 0) - 0.8))
        np.testing.assert_allclose(log[i, 1] - log[i, 0], expected, atol=1e-8)


def test_the_scale_finds_the_true_log_odds_and_so_the_probabilities_are_honest() -> None:
    rng = np.random.default_rng(1)
    right = rng.uniform(0.55, 0.9, 15)
    log_odds = np.log(right / (1 - right))
    truth = DawidSkene(
        np.array([0.5, 0.5]),
        tilted_confusions(np.repeat(log_odds[:, None], 2, 1), np.full((15, 2), 0.5)),
        ["a", "b"],  # type: ignore[arg-type]
        list(range(15)),  # type: ignore[arg-type]
    )
    annotations, labels = truth.sample(20000, labels_per_item=4, random_state=2)
    done = weighted_vote(annotations, 17.0 * log_odds)
    np.testing.assert_allclose(done.model.confusions, truth.confusions, atol=0.01)
    said = done.posterior.max(axis=1)
    hit = done.choice.best == labels
    for low in (0.5, 0.6, 0.7, 0.8, 0.9):
        bin_ = (said >= low) & (said < low + 0.1)
        assert abs(hit[bin_].mean() - said[bin_].mean()) < 0.02


def test_a_learned_prior_finds_an_unbalanced_one() -> None:
    sim = cs.simulate(6000, 15, 2, labels_per_item=5, prior=[0.85, 0.15], accuracy=(0.7, 0.9), seed=3)
    right = np.einsum("mkk->m", sim.model.confusions) / 2
    weights = np.log(right / (1 - right))
    learned = weighted_vote(sim.annotations, weights, prior="learned")
    assert abs(learned.model.prior[0] - 0.85) < 0.02
    flat = weighted_vote(sim.annotations, weights)
    assert np.mean(learned.choice.best != sim.truth) < np.mean(flat.choice.best != sim.truth)


def test_gold_tells_when_all_signs_are_wrong() -> None:
    sim = cs.simulate(300, 10, 2, seed=0, accuracy=(0.7, 0.9))
    gold = {n: int(sim.truth[n]) for n in range(30)}
    done = weighted_vote(sim.annotations.with_gold(gold), -np.ones(10))
    rest = np.arange(300) >= 30
    order = np.argsort(sim.annotations.items)
    assert np.mean(done.choice.best[order][rest] != sim.truth[order][rest]) < 0.3
    plain = weighted_vote(sim.annotations, -np.ones(10))
    assert np.mean(plain.choice.best != sim.truth) > 0.6


def test_unknown_weights_are_the_average_and_nobody_known_is_the_majority() -> None:
    a = cs.simulate(200, 6, 2, seed=1).annotations
    n = a.labels_per_annotator
    some = np.array([1.0, 2.0, 0.5, np.nan, 1.0, 1.5])
    known = np.isfinite(some)
    filled = np.where(known, some, n[known] @ some[known] / n[known].sum())
    np.testing.assert_allclose(weighted_vote(a, some).posterior, weighted_vote(a, filled).posterior)
    none = weighted_vote(a, np.full(6, np.nan))
    np.testing.assert_array_equal(none.choice.best, weighted_vote(a, np.ones(6)).choice.best)


def test_signs_are_chosen_for_each_group_that_shares_no_item() -> None:
    matrix = np.full((40, 4), -1)
    matrix[:20, :2], matrix[20:, 2:] = 1, 0
    a = cs.Annotations.from_matrix(matrix)
    np.testing.assert_array_equal(oriented(a, np.array([-1.0, -2.0, 3.0, -1.0])), [1.0, 2.0, 3.0, -1.0])


def test_shares_and_steadied_counts() -> None:
    a = cs.Annotations.from_matrix(np.array([[0, 0], [0, 1], [0, 1], [0, -1]]))
    crowd = (np.array([5, 2]) + 0.5) / 8
    np.testing.assert_allclose(label_shares(a), [(np.array([4, 0]) + crowd) / 5, (np.array([1, 2]) + crowd) / 4])
    np.testing.assert_allclose(steadied(np.array([0, 4, 8])), [1.5, 5.5, 9.5])


@pytest.mark.parametrize("size", [5, 150])
def test_the_leading_eigenvector(size: int) -> None:
    rng = np.random.default_rng(size)
    matrix = rng.normal(size=(size, size))
    matrix = matrix + matrix.T - 50.0 * np.eye(size)  # all negative: the largest, not the largest in size
    value, vector = leading_eigenvector(lambda x: matrix @ x, size)
    np.testing.assert_allclose(value, np.linalg.eigvalsh(matrix)[-1])
    np.testing.assert_allclose(matrix @ vector, value * vector, atol=1e-8)


def test_unlabelled_items_one_class_and_one_annotator() -> None:
    matrix = np.array([[0, 1], [-1, -1], [1, 1]])
    done = weighted_vote(cs.Annotations.from_matrix(matrix), np.ones(2))
    np.testing.assert_allclose(done.posterior[1], 0.5)
    for m in (np.zeros((3, 2), int), np.array([[0], [1], [0]])):
        a = cs.Annotations.from_matrix(m)
        done = weighted_vote(a, np.ones(a.n_annotators))
        np.testing.assert_allclose(done.posterior.sum(axis=1), 1.0)
        np.testing.assert_array_equal(done.choice.best, m[:, 0])
