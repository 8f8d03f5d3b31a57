"""The spectral meta-learner: recovery, both ways to the imbalance, a loop for the tensor, published figures."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import error_percent, real_crowd

import consilience as cs
from consilience.fitting.em import Progress
from consilience.methods.sml import rank_one, sml, third_moment, two_coins
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import pair_moments


def two_coin_crowd(seed: int, prior: float, M: int = 10, adversaries: int = 0) -> DawidSkene:
    rng = np.random.default_rng(seed)
    right = rng.uniform(0.6, 0.95, (M, 2))
    right[:adversaries] = 1 - right[:adversaries]
    A = np.empty((M, 2, 2))
    A[:, 0, 0], A[:, 1, 1] = right[:, 0], right[:, 1]
    A[:, 1, 0], A[:, 0, 1] = 1 - right[:, 0], 1 - right[:, 1]
    return DawidSkene(np.array([prior, 1 - prior]), A, [0, 1], list(range(M)))  # type: ignore[arg-type]


@pytest.mark.parametrize("imbalance", ["likelihood", "tensor"])
@pytest.mark.parametrize("prior", [0.5, 0.7, 0.88])
def test_prior_and_confusions_are_recovered(imbalance: str, prior: float) -> None:
    model = two_coin_crowd(1, prior, adversaries=2)
    annotations, _ = model.sample(40000, label_probability=0.6, random_state=0)
    done = sml(annotations, imbalance=imbalance)  # type: ignore[arg-type]
    assert done.converged
    assert abs(done.model.prior[0] - prior) < 0.03
    assert np.abs(done.model.confusions - model.confusions).mean() < 0.02


def test_skills_and_imbalance_give_back_the_confusions() -> None:
    model = two_coin_crowd(0, 0.8)
    b = -0.6
    psi, eta = model.confusions[:, 1, 1], model.confusions[:, 0, 0]
    mean = 0.2 * (2 * psi - 1) + 0.8 * (1 - 2 * eta)
    skill = np.sqrt(1 - b * b) * (psi + eta - 1)
    np.testing.assert_allclose(two_coins(skill, mean, b), model.confusions * np.sqrt(model.prior), atol=1e-12)


def test_the_tensor_is_that_of_all_triples() -> None:
    a = cs.simulate(60, 7, 2, label_probability=0.7, seed=2).annotations
    matrix = np.full((60, 7), np.nan)
    matrix[a.item_of_label(), a.annotator] = 2.0 * a.label - 1
    mean, skill = np.nanmean(matrix, axis=0), np.random.default_rng(0).uniform(0.2, 0.8, 7)
    above = below = 0.0
    for i, j, k in combinations(range(7), 3):
        triple = (matrix[:, [i, j, k]] - mean[[i, j, k]]).prod(axis=1)
        shared = np.isfinite(triple)
        # Σ S T v v v and Σ S (v v v)²
        above += triple[shared].sum() * skill[[i, j, k]].prod()
        below += shared.sum() * skill[[i, j, k]].prod() ** 2
    alpha = above / below
    np.testing.assert_allclose(third_moment(a, mean, skill), -alpha / np.sqrt(4 + alpha**2), rtol=1e-9)


def test_rank_one_fit_never_rises_and_ends_at_a_stationary_point() -> None:
    a = cs.simulate(300, 12, 2, labels_per_item=4, adversaries=0.2, seed=5).annotations
    n = a.labels_per_annotator
    mean = (2.0 * np.bincount(a.annotator, a.label, 12) - n) / n
    pairs = pair_moments(a)
    v, history, converged = rank_one(pairs, mean, 5000, 1e-12, None)
    assert converged
    assert np.all(np.diff(history) <= 1e-12)
    matrix = np.full((300, 12), np.nan)
    matrix[a.item_of_label(), a.annotator] = 2.0 * a.label - 1 - mean[a.annotator]
    most = np.sqrt(1 - mean**2)
    for i in range(12):
        # the best v(i) given the others, from the labels themselves: regress f_i f_j on v_j over all common items
        others = [j for j in range(12) if j != i]
        product = matrix[:, [i]] * matrix[:, others]
        shared = np.isfinite(product)
        best = np.nansum(product * v[others]) / (shared * v[others] ** 2).sum()
        np.testing.assert_allclose(v[i], np.clip(best, -most[i], most[i]), atol=1e-8)


def test_published_figures(data_folder: Path) -> None:
    # thesis, Table 3.9: 11.11 on Bird; its TREC (48.44) has 23 of the annotators
    for name, figure in {"bluebird": 11.11, "rte": 7.5, "trec": 30.5, "product": 7.0}.items():
        annotations, truth = real_crowd(name)
        assert error_percent(sml(annotations).choice.best, truth) <= figure + 0.01, name


@pytest.mark.parametrize(("prior", "figure"), [(0.9003, 12.26), (0.5856, 4.66)])
def test_thesis_simulations(prior: float, figure: float) -> None:
    """Tables 3.1 and 3.2, N = 10^4, M = 10: never far from the true model."""
    gap = []
    for seed in range(5):
        model = two_coin_crowd(seed, prior)
        annotations, truth = model.sample(10000, random_state=seed)
        ours = error_percent(sml(annotations).choice.best, truth)
        oracle = error_percent(model.posterior(annotations).argmax(axis=1), truth)
        gap.append(ours - oracle)
        assert ours <= figure
    assert np.mean(gap) < 0.2


def test_callback_running_out_and_details() -> None:
    a = cs.simulate(300, 10, 2, prior=[0.8, 0.2], accuracy=(0.7, 0.9), seed=5).annotations
    short = sml(a, max_iter=2, tol=1e-12)
    assert not short.converged
    assert "did not settle" in short.cautions[0][0]
    told: list[Progress] = []

    def tell(progress: Progress) -> bool:
        told.append(progress)
        return len(told) == 3

    sml(a, callback=tell)
    assert [p.iteration for p in told] == [1, 2, 3]
    assert sml(a).details["imbalance"] < -0.2


def test_odd_crowds_and_gold() -> None:
    two = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [-1, -1]])
    lone = np.array([[0, 0, 0, -1], [1, 1, 0, -1], [0, 0, 0, -1], [1, 1, 1, -1], [-1, -1, -1, 1]])
    for matrix in (two, two[:4, :1], np.zeros((3, 2), int), np.array([[1]]), lone, np.array([[0, 1], [1, 0]])):
        done = sml(cs.Annotations.from_matrix(matrix))
        assert np.isfinite(done.posterior).all()
        np.testing.assert_allclose(done.posterior.sum(axis=1), 1.0)
    assert sml(cs.Annotations.from_matrix(lone)).choice.best[4] == 1
    gold = sml(cs.Annotations.from_matrix(two, gold=[1, -1, -1, -1, 0]))
    np.testing.assert_array_equal(gold.posterior[[0, 4], [1, 0]], 1.0)


def test_gold_tells_when_most_are_adversaries() -> None:
    model = two_coin_crowd(3, 0.5, adversaries=7)
    annotations, truth = model.sample(2000, random_state=1)
    assert error_percent(sml(annotations).choice.best, truth) > 90
    told = sml(annotations.with_gold({n: int(truth[n]) for n in range(20)}))
    assert error_percent(told.choice.best, truth) < 10
