"""Triangular estimation: against plain loops from the paper, recovery, published figures."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import error_percent, real_crowd

import consilience as cs
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Floats, Ints
from consilience.methods import te as module
from consilience.methods.te import te
from consilience.moments.cooccurrence import pair_moments


def reliability(done: Fit) -> Floats:
    return 2 * done.model.confusions[:, 1, 1] - 1


def full_crowd(seed: int, N: int, M: int, adversaries: int = 0) -> tuple[cs.Annotations, Ints, Floats]:
    rng = np.random.default_rng(seed)
    right = rng.uniform(0.6, 0.9, M)
    right[:adversaries] = 1 - right[:adversaries]
    truth = rng.integers(0, 2, N)
    matrix = np.where(rng.random((N, M)) < right, truth[:, None], 1 - truth[:, None])
    return cs.Annotations.from_matrix(matrix), truth, 2 * right - 1


def slow_te(a: cs.Annotations) -> Floats:
    """The paper's algorithm, everybody having labelled everything."""
    signs = np.zeros((a.n_items, a.n_annotators))
    signs[a.item_of_label(), a.annotator] = 2.0 * a.label - 1
    C, M = signs.T @ signs / a.n_items, a.n_annotators
    theta = np.zeros(M)
    for k in range(M):
        others = [m for m in range(M) if m != k]
        i, j = max(combinations(others, 2), key=lambda pair: abs(C[pair]))
        theta[k] = np.sqrt(abs(C[i, k] * C[j, k] / C[i, j]))
    support = [theta[k] ** 2 + sum(C[i, k] for i in range(M) if i != k) for k in range(M)]
    star = int(np.argmax(np.abs(support)))
    sign = np.sign(C[star] * support[star])
    sign[star] = np.sign(support[star])
    return np.asarray(theta * sign)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_papers_algorithm_where_everybody_labels_everything(seed: int) -> None:
    a, _, _ = full_crowd(seed, 400, 9, adversaries=2)
    np.testing.assert_allclose(reliability(te(a, center=False, smoothing=0)), slow_te(a), atol=1e-12)


@pytest.mark.parametrize("center", [False, True])
def test_reliabilities_are_recovered(center: bool) -> None:
    a, _, theta = full_crowd(5, 40000, 12, adversaries=3)
    assert np.abs(reliability(te(a, center=center)) - theta).max() < 0.03


def test_the_best_pair_is_found_among_those_who_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST", 3)  # so that it takes several rounds
    a = cs.simulate(60, 25, 2, labels_per_item=3, seed=4).annotations
    pairs = pair_moments(a)
    correlation = np.random.default_rng(0).normal(size=len(pairs))
    order = np.argsort(-np.abs(correlation))
    first, second = module.strongest_pairs(pairs, correlation, order)
    met = {tuple(pair) for pair in pairs.who.tolist()}
    none = 0
    for k in range(25):
        best = None
        for p in order:
            i, j = pairs.who[p].tolist()
            if k not in (i, j) and all(tuple(sorted((k, m))) in met for m in (i, j)):
                best = (i, j)
                break
        assert (first[k], second[k]) == (best or (-1, -1))
        none += best is None
    assert none < 20


def test_those_who_always_say_the_same_do_not_set_the_measure() -> None:
    a, truth, _ = full_crowd(1, 3000, 8)
    matrix = np.full((3000, 11), 1)
    matrix[a.item_of_label(), a.annotator.astype(int)] = a.label
    spoilt = cs.Annotations.from_matrix(matrix)
    clean = np.mean(te(a).choice.best != truth)
    assert np.mean(te(spoilt).choice.best != truth) < clean + 0.01
    # the paper's correlations take them for the best of all
    assert reliability(te(spoilt, center=False))[8:].min() > 0.95
    assert np.abs(reliability(te(spoilt))[8:]).max() < 0.05


def test_published_figures(data_folder: Path) -> None:
    annotations, truth = real_crowd("bluebird")
    # thesis, Table 3.9
    plain = te(annotations, center=False, smoothing=0)
    assert abs(error_percent(plain.choice.best, truth) - 17.59) < 0.01
    for name, limit in {"bluebird": 12.5, "rte": 8.0, "trec": 34.8}.items():
        annotations, truth = real_crowd(name)
        assert error_percent(te(annotations).choice.best, truth) <= limit, name


def test_labels_are_votes_weighted_by_log_odds() -> None:
    a = cs.simulate(200, 10, 2, labels_per_item=5, seed=6).annotations
    done = te(a)
    theta = reliability(done)
    weight = np.log((1 + theta) / (1 - theta))
    score = np.bincount(a.item_of_label(), (2.0 * a.label - 1) * weight[a.annotator], a.n_items)
    np.testing.assert_allclose(done.posterior[:, 1], 1 / (1 + np.exp(-score)), atol=1e-9)


def test_odd_crowds_and_gold() -> None:
    two = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [-1, -1]])
    lone = np.array([[0, 0, 0, -1], [1, 1, 0, -1], [0, 0, 0, -1], [1, 1, 1, -1], [-1, -1, -1, 1]])
    for matrix in (two, two[:4, :1], np.zeros((3, 2), int), np.array([[1]]), lone, np.array([[0, 1], [1, 0]])):
        done = te(cs.Annotations.from_matrix(matrix))
        assert np.isfinite(done.posterior).all()
        np.testing.assert_allclose(done.posterior.sum(axis=1), 1.0)
    assert te(cs.Annotations.from_matrix(lone)).choice.best[4] == 1
    gold = te(cs.Annotations.from_matrix(two, gold=[1, -1, -1, -1, 0]))
    np.testing.assert_array_equal(gold.posterior[[0, 4], [1, 0]], 1.0)
    a, truth, _ = full_crowd(0, 500, 9, adversaries=6)
    assert np.mean(te(a).choice.best != truth) > 0.8
    assert np.mean(te(a.with_gold({n: int(truth[n]) for n in range(20)})).choice.best != truth) < 0.2
