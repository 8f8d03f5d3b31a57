"""Bases, dimensions, centroids and coordinates of clusters; K-subspaces; incremental updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from tests.subspace.test_clustering import accuracy

import consilience as cs
from consilience.datasets.subspaces import simulate_subspaces
from consilience.subspace.unions import coordinates, fit_subspaces, k_subspaces


def drawn_dimensions(dimensions: tuple[int, ...], noise: float, offset: float = 0.0) -> tuple[Any, Any, list[Any]]:
    """Draw 150 samples of each of some subspaces of different dimensions in 25 features."""
    rng, X, bases = np.random.default_rng(0), [], []
    for d in dimensions:
        C = np.linalg.qr(rng.standard_normal((25, d)))[0]
        X.append(rng.standard_normal((150, d)) @ C.T + offset * rng.standard_normal(25))
        bases.append(C)
    data = np.concatenate(X)
    return data + noise * rng.standard_normal(data.shape), np.repeat(np.arange(len(dimensions)), 150), bases


@pytest.mark.parametrize("shape", [(300, 40), (200, 100), (400, 1000)])
def test_dimensions_need_no_more_samples_than_features(shape: tuple[int, int]) -> None:
    drawn = simulate_subspaces(*shape, 4, 3, noise=0.1, random_state=0)
    assert fit_subspaces(drawn.data, drawn.truth, 4).dimensions.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("affine", [False, True])
def test_dimensions_and_bases_are_recovered(noise: float, affine: bool) -> None:
    X, y, bases = drawn_dimensions((2, 5, 9), noise, offset=3.0 * affine)
    found = fit_subspaces(X, y, 3, affine=affine)
    assert found.dimensions.tolist() == [2, 5, 9]
    for C, true in zip(found.bases, bases, strict=True):
        np.testing.assert_allclose(C.T @ C, np.eye(C.shape[1]), atol=1e-10)
        assert np.linalg.norm(true - C @ (C.T @ true)) < (0.3 if noise else 1e-8)


def test_residuals_and_coordinates_are_those_of_pca() -> None:
    X, y, _ = drawn_dimensions((3, 4), 0.1, offset=1.0)
    found = fit_subspaces(X, y, 2, affine=True, dimensions=3)
    for k in range(2):
        pca = PCA(3).fit(X[y == k])
        rest = X - pca.inverse_transform(pca.transform(X))
        np.testing.assert_allclose(found.residuals(X)[:, k], (rest**2).sum(axis=1), atol=1e-9)
        np.testing.assert_allclose(found.centroids[k], pca.mean_)
        psi = coordinates(X, y, found)[k]
        np.testing.assert_allclose(psi @ found.bases[k].T + found.centroids[k], X[y == k] - rest[y == k], atol=1e-9)


def test_k_subspaces_never_raises_the_objective() -> None:
    drawn = simulate_subspaces(300, 20, 3, 3, noise=0.5, random_state=1)
    rng = np.random.default_rng(0)
    start = np.where(rng.random(300) < 0.3, rng.integers(0, 3, 300), drawn.truth)
    labels, found, history = k_subspaces(drawn.data, start, fit_subspaces(drawn.data, start, 3, dimensions=3), 50)
    assert np.all(np.diff(history) <= 1e-9)
    assert accuracy(labels, drawn.truth) > accuracy(start, drawn.truth) + 0.1
    np.testing.assert_array_equal(found.nearest(drawn.data), labels)


def test_an_empty_cluster_is_infinitely_far() -> None:
    X, y, _ = drawn_dimensions((2, 2), 0.1)
    found = fit_subspaces(X, y, 3)
    assert np.isinf(found.residuals(X)[:, 2]).all()
    assert found.dimensions[2] == 0


@pytest.mark.parametrize("affine", [False, True])
def test_updates_approach_a_fit_of_all_samples(affine: bool) -> None:
    X, y, _ = drawn_dimensions((3, 3), 0.05, offset=2.0 * affine)
    order = np.random.default_rng(1).permutation(len(y))
    X, y = X[order], y[order]
    found = fit_subspaces(X[:100], y[:100], 2, affine=affine, dimensions=3)
    for start in range(100, 300, 50):
        found = found.updated(X[start : start + 50], y[start : start + 50])
    whole = fit_subspaces(X, y, 2, affine=affine, dimensions=3)
    np.testing.assert_array_equal(found.counts, whole.counts)
    np.testing.assert_allclose(found.centroids, whole.centroids, atol=1e-12)
    for mine, theirs in zip(found.bases, whole.bases, strict=True):
        assert np.linalg.svd(mine.T @ theirs, compute_uv=False).min() > 0.999


def test_residuals_predict_digits_as_well_as_neighbours_do() -> None:
    """Pixels at the border are always 0, so noise is not the same in all features, and BIC alone would fail."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.data))[:900]
    X = digits.data[order] / np.linalg.norm(digits.data[order], axis=1)[:, None]
    y = digits.target[order]
    model = cs.SketchedSubspaceClustering(10).fit(X[:600])
    right = {
        how: accuracy(model.set_params(assign=how).predict(X[600:]), y[600:]) for how in ("residual", "neighbours")
    }
    assert right["residual"] > right["neighbours"] - 0.03
    assert model.dimensions_.max() < 25


def test_predict_does_not_depend_on_the_fitted_samples() -> None:
    drawn = simulate_subspaces(400, 30, 3, 3, noise=0.1)
    model = cs.SketchedSubspaceClustering(3).fit(drawn.data)
    before = model.predict(drawn.data)
    del model.codes_, model.embedding_
    np.testing.assert_array_equal(model.predict(drawn.data), before)
    parts = model.coordinates(drawn.data)
    assert [part.shape for part in parts] == [(int((before == k).sum()), 3) for k in range(3)]


def test_refinement_and_sparse_samples() -> None:
    drawn = simulate_subspaces(400, 40, 4, 4, noise=1.0, random_state=3)
    plain = cs.SketchedSubspaceClustering(4).fit(drawn.data)
    refined = cs.SketchedSubspaceClustering(4, refine=30).fit(drawn.data)
    assert accuracy(refined.labels_, drawn.truth) >= accuracy(plain.labels_, drawn.truth)
    assert np.all(np.diff(refined.refine_history_) <= 1e-9)
    X = np.where(np.random.default_rng(0).random(drawn.data.shape) < 0.5, drawn.data, 0.0)
    for options in ({}, {"representation": "lrr"}, {"n_features": 30}, {"refine": 2}):
        dense = cs.SketchedSubspaceClustering(4, **options).fit(X)
        thin = cs.SketchedSubspaceClustering(4, **options).fit(sparse.csr_array(X))
        np.testing.assert_allclose(thin.dictionary_, dense.dictionary_, atol=1e-12)
        np.testing.assert_array_equal(thin.labels_, dense.labels_)
        np.testing.assert_array_equal(thin.predict(sparse.csr_array(X[:20])), dense.predict(X[:20]))
