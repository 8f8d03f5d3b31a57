"""The correlation of errors: its definition, crowds drawn with and without it, copies, and the sum over pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm
from tests.conftest import random_model, real_crowd

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import CORRELATION, INDEPENDENT
from consilience.diagnose.dependence import dependence
from consilience.diagnose.error_correlation import error_correlation, probability_of_dependence
from consilience.methods.hierarchical import hierarchical
from consilience.models.dawid_skene import DawidSkene


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
            g = [sum(q[k] * (1 - B[:, k] @ B[:, k]) for k in range(K)) for B in (one, two)]
            scale += np.sqrt(g[0] * g[1])
    return excess / scale


def test_the_correlation_is_its_definition() -> None:
    model = random_model(6, 3, seed=1)
    a, _ = model.sample(40, label_probability=0.7, random_state=2)
    assert error_correlation(a, model)[0] == pytest.approx(by_definition(a, model), rel=1e-9)


def test_the_crowd_is_the_sum_of_its_pairs() -> None:
    model = random_model(8, 3, seed=3)
    a, _ = model.sample(300, labels_per_item=5, random_state=4)
    pairs = dependence(a, model)
    assert error_correlation(a, model)[0] == pytest.approx(pairs.excess.sum() / pairs.scale.sum(), rel=1e-9)


@pytest.mark.parametrize("K", [2, 4])
def test_copies_have_correlation_one(K: int) -> None:
    rng = np.random.default_rng(K)
    truth = rng.integers(0, K, 4000)
    said = np.where(rng.random(4000) < 0.7, truth, (truth + rng.integers(1, K, 4000)) % K)
    a = Annotations.from_matrix(np.stack([said, said], axis=1))
    confusion = np.full((K, K), 0.3 / (K - 1)) + (0.7 - 0.3 / (K - 1)) * np.eye(K)
    model = DawidSkene(np.full(K, 1 / K), np.stack([confusion] * 2), a.class_ids, a.annotator_ids)
    assert error_correlation(a, model)[0] == pytest.approx(1.0, abs=1e-6)
    doubled = a.select_annotators([0])
    again = Annotations(
        2 * doubled.indptr,
        np.zeros(8000, int),
        np.repeat(doubled.label, 2),
        items=doubled.item_ids,
        annotators=doubled.annotator_ids,
        classes=doubled.class_ids,
    )
    part = DawidSkene(model.prior, model.confusions[:1], model.classes, doubled.annotator_ids)
    assert error_correlation(again, part)[0] == 0.0, "repeated answers of one annotator are no agreement of two"


def test_independent_annotators_show_none_and_hard_items_do() -> None:
    for seed in range(3):
        easy = cs.simulate(3000, 30, 3, labels_per_item=5, seed=seed).annotations
        assert abs(error_correlation(easy, hierarchical(easy).model)[0]) < 0.02
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 2, (3000, 1))
        accuracy = np.where(rng.random((3000, 1)) < 0.2, 0.4, 0.9)  # a fifth of the items are hard for all
        hard = Annotations.from_matrix(np.where(rng.random((3000, 7)) < accuracy, truth, 1 - truth))
        assert error_correlation(hard, hierarchical(hard).model)[0] > 0.03


def test_no_pair_of_labels_no_correlation() -> None:
    a = Annotations.from_matrix([[0, -1, -1], [-1, 1, -1], [-1, -1, 0]])
    none = error_correlation(a, random_model(3, 2, seed=0))
    assert none == (0.0, 0.0)
    assert probability_of_dependence(*none) == 1.0, "nothing speaks for independence"


@pytest.mark.parametrize(("r", "s"), [(0.0, 0.01), (0.02, 0.01), (-0.05, 0.02), (0.1, 0.2)])
def test_the_probability_of_dependence_follows_from_two_densities(r: float, s: float) -> None:
    rho = np.linspace(-1, 1, 200_001)
    prior = (rho / CORRELATION) ** 2 * norm.pdf(rho, scale=CORRELATION)
    assert np.trapezoid(prior, rho) == pytest.approx(1.0)
    independent = INDEPENDENT * norm.pdf(r, scale=s)
    dependent = (1 - INDEPENDENT) * np.trapezoid(prior * norm.pdf(r, rho, s), rho)
    assert probability_of_dependence(r, s) == pytest.approx(dependent / (dependent + independent), rel=1e-6)


def test_correlations_of_independent_crowds_stay_within_their_standard_error() -> None:
    """Fitted confusions take up part of what chance does, so the error is rather too large than too small."""
    found = []
    for seed in range(30):
        a = random_model(8, 3, seed=seed).sample(400, labels_per_item=4, random_state=seed)[0]
        found.append(error_correlation(a, hierarchical(a, tol=1e-5).model))
    correlations, errors = np.array(found).T
    z = correlations / errors
    assert 0.3 < z.std() < 1.2
    assert abs(z.mean()) < 0.5
    assert np.mean([probability_of_dependence(*each) for each in found]) < 0.85


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("name", ["dog52", "rte", "labelme", "adult2", "sentence_polarity"])
def test_public_crowds_err_together(name: str) -> None:
    annotations, _ = real_crowd(name)
    assert probability_of_dependence(*error_correlation(annotations, hierarchical(annotations).model)) > 0.98
