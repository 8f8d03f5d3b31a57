"""The correlation of errors against the definition and against crowds drawn with and without it; softening by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from tests.conftest import random_model, real_crowd

import consilience as cs
from consilience.auto.calibration import applies, soften, temper
from consilience.data.annotations import Annotations
from consilience.diagnose.error_correlation import error_correlation
from consilience.fitting.em import Parameters
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Ints
from consilience.methods.hierarchical import hierarchical
from consilience.metrics import expected_calibration_error
from consilience.models.dawid_skene import DawidSkene


def parameters_of(model: DawidSkene) -> Parameters:
    return Parameters(model.prior, model.confusions)


def by_definition(a: Annotations, model: DawidSkene) -> float:
    """One pair of labels after the other."""
    A, K = model.confusions, model.prior.size
    excess = scale = 0.0
    for n in range(a.n_items):
        labels = range(a.indptr[n], a.indptr[n + 1])
        for i, j in combinations(labels, 2):
            q = model.prior.copy()
            for other in labels:
                if other not in (i, j):
                    q = q * A[a.annotator[other], a.label[other]]
            q /= q.sum()
            one, two = A[a.annotator[i]], A[a.annotator[j]]
            excess += float(a.label[i] == a.label[j]) - sum(q[k] * (one[:, k] @ two[:, k]) for k in range(K))
            v = [sum(q[k] * B[k, k] * (1 - B[k, k]) for k in range(K)) for B in (one, two)]
            scale += np.sqrt(v[0] * v[1])
    return excess / scale


def test_the_correlation_is_its_definition() -> None:
    model = random_model(6, 3, seed=1)
    a, _ = model.sample(40, label_probability=0.7, random_state=2)
    assert error_correlation(a, parameters_of(model)) == pytest.approx(by_definition(a, model), rel=1e-9)


def with_hard_items(share: float, seed: int) -> tuple[Annotations, Ints]:
    """Annotators who are right with 0.9, but with 0.4 on a share of items that are hard for all."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, 3000)
    accuracy = np.where(rng.random(3000) < share, 0.4, 0.9)
    labels = np.where(rng.random((3000, 7)) < accuracy[:, None], truth[:, None], 1 - truth[:, None])
    return Annotations.from_matrix(labels), truth


def test_independent_annotators_show_none_and_hard_items_do() -> None:
    for seed in range(3):
        easy = cs.simulate(3000, 30, 3, labels_per_item=5, seed=seed)
        fit = hierarchical(easy.annotations)
        assert abs(error_correlation(easy.annotations, parameters_of(fit.model))) < 0.04
        hard, _ = with_hard_items(0.2, seed)
        assert error_correlation(hard, parameters_of(hierarchical(hard).model)) > 0.06


def test_no_pair_of_labels_no_correlation() -> None:
    a = Annotations.from_matrix([[0, -1, -1], [-1, 1, -1], [-1, -1, 0]])
    assert error_correlation(a, parameters_of(random_model(3, 2, seed=0))) == 0.0


def test_softening_by_hand() -> None:
    a = Annotations.from_matrix([[0, 0, 1]])
    q, votes, n = np.array([[0.9, 0.1]]), np.array([[2 / 3, 1 / 3]]), np.array([3.0])
    odds = 9.0 ** (1 / 1.5)  # to the power 1 / (1 + 2 · 0.25)
    tempered = odds / (1 + odds)
    cautious = 0.97 * (9 * tempered + 2 / 3) / 10 + 0.03 / 2
    np.testing.assert_allclose(temper(q, n), [[tempered, 1 - tempered]])
    full = soften(a, q, temper(q, n), votes, n, 0.2)
    np.testing.assert_allclose(full, [[cautious, 1 - cautious]])
    half = soften(a, q, temper(q, n), votes, n, 0.035)
    np.testing.assert_allclose(half, 0.5 * q + 0.5 * full)
    assert soften(a, q, temper(q, n), votes, n, 0.02) is q
    assert applies(0.021)
    assert not applies(0.02)


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
    correlation = error_correlation(annotations, parameters_of(fit.model))
    n, votes = np.full(3000, 7.0), vote_posterior(annotations)
    softened = soften(annotations, fit.posterior, temper(fit.posterior, n), votes, n, correlation)
    before, after = (expected_calibration_error(q, truth) for q in (fit.posterior, softened))
    assert after < 0.6 * before


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("name", ["dog52", "rte", "labelme", "adult2", "sentence_polarity"])
def test_public_crowds_err_together(name: str) -> None:
    annotations, _ = real_crowd(name)
    assert error_correlation(annotations, parameters_of(hierarchical(annotations).model)) > 0.05
