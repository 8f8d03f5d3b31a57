"""The ratio of eigenvectors: against dense matrices, exact moments, published figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import error_percent, real_crowd

import consilience as cs
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Floats
from consilience.methods.eigenratio import eigenratio


def log_odds(done: Fit) -> Floats:
    right = done.model.confusions[:, 1, 1]
    return np.log(right / (1 - right))


@pytest.mark.parametrize("count_weights", [False, True])
def test_weights_are_the_ratio_of_dense_eigenvectors(count_weights: bool) -> None:
    a = cs.simulate(400, 20, 2, labels_per_item=5, adversaries=0.1, seed=1).annotations
    signs = np.zeros((400, 20))
    signs[a.item_of_label(), a.annotator] = 2.0 * a.label - 1
    agree, met = signs.T @ signs, np.abs(signs).T @ np.abs(signs)
    if not count_weights:
        agree, met = agree / met, (met > 0).astype(float)
    np.fill_diagonal(agree, 0)
    np.fill_diagonal(met, 0)
    w = np.linalg.eigh(agree)[1][:, -1] / np.linalg.eigh(met)[1][:, -1]
    found = log_odds(eigenratio(a, count_weights=count_weights))
    assert abs(found @ w) / np.linalg.norm(found) / np.linalg.norm(w) > 1 - 1e-6


def test_skills_are_found_where_annotators_label_very_unequally() -> None:
    """Counts of agreements grow with how much one labels; their ratio to what is usual does not."""
    rng = np.random.default_rng(0)
    right, share = rng.uniform(0.55, 0.95, 30), rng.uniform(0.05, 0.9, 30)
    truth = rng.integers(0, 2, 6000)
    matrix = np.where(rng.random((6000, 30)) < right, truth[:, None], 1 - truth[:, None])
    matrix[rng.random((6000, 30)) > share] = -1
    a = cs.Annotations.from_matrix(matrix)
    for count_weights in (False, True):
        found = log_odds(eigenratio(a, count_weights=count_weights))
        # weights are skills up to scale: 2 Pr(right) - 1
        skill = 2 * right - 1
        scale = found @ skill / (skill @ skill)
        assert np.abs(found / scale - skill).mean() < 0.03


def test_published_figures(data_folder: Path) -> None:
    # SymNMF paper, Tables 4 and 5; on TREC our eigenvectors are those of each group alone, which is better
    for name, figure in {"bluebird": 27.77, "rte": 9.01, "trec": 43.95}.items():
        annotations, truth = real_crowd(name)
        found = error_percent(eigenratio(annotations).choice.best, truth)
        assert found <= figure + 0.02, name
        if name != "trec":
            assert abs(found - figure) <= 0.02, name


def test_odd_crowds_and_gold() -> None:
    two = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [-1, -1]])
    split = np.full((6, 4), -1)
    split[:3, :2], split[3:, 2:] = [[0, 0], [1, 1], [1, 0]], [[1, 1], [0, 0], [0, 0]]
    for matrix in (two, two[:4, :1], np.zeros((3, 2), int), np.array([[1]]), split, np.array([[0, 1], [1, 0]])):
        done = eigenratio(cs.Annotations.from_matrix(matrix))
        assert np.isfinite(done.posterior).all()
        np.testing.assert_allclose(done.posterior.sum(axis=1), 1.0)
    gold = eigenratio(cs.Annotations.from_matrix(two, gold=[1, -1, -1, -1, 0]))
    np.testing.assert_array_equal(gold.posterior[[0, 4], [1, 0]], 1.0)
