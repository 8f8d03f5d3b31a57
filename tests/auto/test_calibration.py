"""Tempering and softening of probabilities, by hand and on crowds with hard items."""

from __future__ import annotations

import numpy as np

from consilience.auto.calibration import applies, soften, temper
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import CHANCE, CLEAR
from consilience.diagnose.error_correlation import error_correlation
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Ints
from consilience.methods.hierarchical import hierarchical
from consilience.metrics import expected_calibration_error


def with_hard_items(share: float, seed: int) -> tuple[Annotations, Ints]:
    """Annotators who are right with 0.9, but with 0.4 on a share of items that are hard for all."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, 3000)
    accuracy = np.where(rng.random(3000) < share, 0.4, 0.9)
    labels = np.where(rng.random((3000, 7)) < accuracy[:, None], truth[:, None], 1 - truth[:, None])
    return Annotations.from_matrix(labels), truth


def test_softening_by_hand() -> None:
    a = Annotations.from_matrix([[0, 0, 1]])
    q, votes, n = np.array([[0.9, 0.1]]), np.array([[2 / 3, 1 / 3]]), np.array([3.0])
    odds = 9.0 ** (1 / 1.5)  # to the power 1 / (1 + 2 · 0.25)
    tempered = odds / (1 + odds)
    cautious = 0.97 * (9 * tempered + 2 / 3) / 10 + 0.03 / 2
    np.testing.assert_allclose(temper(q, n), [[tempered, 1 - tempered]])
    full = soften(a, q, temper(q, n), votes, n, 0.2)
    np.testing.assert_allclose(full, [[cautious, 1 - cautious]])
    half = soften(a, q, temper(q, n), votes, n, (CHANCE + CLEAR) / 2)
    np.testing.assert_allclose(half, 0.5 * q + 0.5 * full)
    assert soften(a, q, temper(q, n), votes, n, CHANCE) is q
    assert applies(1.05 * CHANCE)
    assert not applies(CHANCE)


def test_tempering_changes_no_label_and_bears_certainty() -> None:
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.full(4, 0.1), 500)
    q[:5] = np.eye(4)[[0, 1, 2, 3, 0]]
    n = rng.integers(0, 40, 500).astype(float)
    tempered = temper(q, n)
    np.testing.assert_allclose(tempered.sum(axis=1), 1.0)
    np.testing.assert_array_equal(tempered.argmax(axis=1), q.argmax(axis=1))
    assert (tempered.max(axis=1) <= q.max(axis=1) + 1e-12).all()
    one = n <= 1.0
    np.testing.assert_allclose(tempered[one], q[one])


def test_gold_and_unlabelled_items_stay() -> None:
    a = Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 1, 1]]).with_gold([1, -1, -1])
    q = np.array([[0.0, 1.0], [0.2, 0.8], [0.4, 0.6]])
    softened = soften(a, q, temper(q, np.full(3, 3.0)), vote_posterior(a), np.full(3, 3.0), 0.3)
    np.testing.assert_array_equal(softened[0], [0.0, 1.0])
    assert (softened[1:] != q[1:]).all()
    np.testing.assert_allclose(softened.sum(axis=1), 1.0)


def test_softened_probabilities_are_nearer_to_the_truth_where_items_are_hard() -> None:
    annotations, truth = with_hard_items(0.25, 5)
    fit = hierarchical(annotations)
    correlation = error_correlation(annotations, fit.model)
    n, votes = np.full(3000, 7.0), vote_posterior(annotations)
    softened = soften(annotations, fit.posterior, temper(fit.posterior, n), votes, n, correlation)
    before, after = (expected_calibration_error(q, truth) for q in (fit.posterior, softened))
    assert after < 0.6 * before
