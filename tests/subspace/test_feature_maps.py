"""Kernels against the formula of the thesis, tensors against Kronecker products, added samples against one fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from tests.subspace.test_clustering import accuracy

import consilience as cs
from consilience.datasets.subspaces import simulate_curves, simulate_subspaces
from consilience.exceptions import DataError, ParameterError
from consilience.subspace.encoding import make_encoder, robust_rows
from consilience.subspace.feature_maps import kernel_map, mode_sketches
from consilience.subspace.lrr import lrr
from consilience.subspace.sketches import make_sketch


def test_landmarks_of_all_samples_are_the_formula_of_the_thesis() -> None:
    """A = λ (λ RᵀKR + I)⁻¹ RᵀK (5.2.1)."""
    X, _ = simulate_curves(60, 10, 2)
    lam, gamma = 3.0, 0.8
    K = rbf_kernel(X, gamma=gamma)
    R = make_sketch("gaussian", 60, 12, 0).toarray()
    A = lam * np.linalg.solve(lam * R.T @ K @ R + np.eye(12), R.T @ K)
    features = kernel_map("rbf", X, gamma=gamma, size=60).apply_right(X)
    np.testing.assert_allclose(features @ features.T, K, atol=1e-7)
    Z = make_encoder(R.T @ features, "lsr", lam).encode(features)
    np.testing.assert_allclose(Z, A.T, atol=1e-6)


def test_random_features_approach_the_kernel() -> None:
    X, _ = simulate_curves(50, 5, 2)
    features = kernel_map("rbf", X, how="random", gamma=0.5, size=20_000).apply_right(X)
    np.testing.assert_allclose(features @ features.T, rbf_kernel(X, gamma=0.5), atol=0.05)
    with pytest.raises(ParameterError, match="'rbf'"):
        kernel_map("laplacian", X, how="random")


def test_kernels_separate_curves() -> None:
    linear, curved = [], []
    for seed in (20, 21, 22):  # other seeds than those of the constants
        X, y = simulate_curves(900, 20, 3, random_state=seed)
        linear.append(accuracy(cs.SketchedSubspaceClustering(3).fit(X).labels_, y))
        model = cs.SketchedSubspaceClustering(3, kernel="rbf").fit(X)
        curved.append(accuracy(model.labels_, y))
        assert np.mean(model.predict(X) == model.labels_) > 0.9
    assert np.mean(curved) > np.mean(linear) + 0.2


def test_kernels_may_be_functions() -> None:
    X, _ = simulate_curves(600, 20, 3, random_state=0)
    own = cs.SketchedSubspaceClustering(3, kernel=lambda a, b: rbf_kernel(a, b, gamma=2.0), kernel_size=100).fit(X)
    same = cs.SketchedSubspaceClustering(3, kernel="rbf", gamma=2.0, kernel_size=100).fit(X)
    np.testing.assert_array_equal(own.labels_, same.labels_)
    with pytest.raises(ParameterError, match="kernel"):
        cs.SketchedSubspaceClustering(3, kernel="rbff").fit(X)
    X[0, 0] = np.nan
    with pytest.raises(DataError, match="kernel"):
        cs.SketchedSubspaceClustering(3, kernel="rbf").fit(X)


def test_sketches_of_modes_are_a_kronecker_product() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((7, 4, 5, 3))
    modes = mode_sketches("gaussian", (4, 5, 3), (2, 3, 2), 0)
    R = np.kron(np.kron(modes.sketches[0].toarray(), modes.sketches[1].toarray()), modes.sketches[2].toarray())
    np.testing.assert_allclose(modes.apply_right(X.reshape(7, -1)), X.reshape(7, -1) @ R, atol=1e-12)


def test_tensors_are_clustered() -> None:
    drawn = simulate_subspaces(300, 64, 3, 3, noise=0.1)
    X = drawn.data.reshape(300, 8, 8)
    model = cs.SketchedSubspaceClustering(3, n_features=(6, 6)).fit(X[:250])
    assert accuracy(np.append(model.labels_, model.predict(X[250:])), drawn.truth) == 1.0
    assert model.bases_[0].shape == (36, 3)
    with pytest.raises(DataError, match=r"shape \(8, 8\)"):
        model.predict(X.reshape(300, 4, 16))
    with pytest.raises(ParameterError, match="2 modes"):
        cs.SketchedSubspaceClustering(3, n_features=(6, 6, 6)).fit(X)


@pytest.mark.parametrize("sketch", ["rademacher", "gaussian"])
def test_added_samples_yield_the_dictionary_of_one_fit(sketch: Any) -> None:
    drawn = simulate_subspaces(900, 30, 3, 3, noise=0.2, random_state=4)
    whole = cs.SketchedSubspaceClustering(3, n_sketch=40, sketch=sketch).fit(drawn.data)
    model = cs.SketchedSubspaceClustering(3, n_sketch=40, sketch=sketch).partial_fit(drawn.data[:300])
    labels, weight = [model.labels_], np.linalg.norm(model.dictionary_) ** 2 * model.lam_
    labels += [model.partial_fit(drawn.data[start : start + 300]).labels_ for start in (300, 600)]
    np.testing.assert_allclose(model.dictionary_, whole.dictionary_, atol=1e-12)
    assert accuracy(np.concatenate(labels), drawn.truth) == 1.0
    assert np.linalg.norm(model.dictionary_) ** 2 * model.lam_ == pytest.approx(weight)


def test_sketches_that_cannot_grow_are_refused() -> None:
    with pytest.raises(ParameterError, match="rademacher or gaussian"):
        cs.SketchedSubspaceClustering(2, sketch="count").partial_fit(np.eye(6))


def test_robust_codes_of_new_samples_are_those_of_the_joint_problem() -> None:
    """Given the factor P of the joint solution, each sample alone gets the code that the joint problem gave it."""
    drawn = simulate_subspaces(80, 12, 2, 2, noise=0.2)
    B = make_sketch("gaussian", 80, 8, 0).apply(drawn.data)
    Z = lrr(drawn.data, B, 6.0, fit="l21", tol=1e-9, max_iter=20_000)
    encoder = make_encoder(B, "lrr", 6.0, samples=drawn.data, fit="l21", tol=1e-9, max_iter=20_000)
    np.testing.assert_allclose(encoder.encode(drawn.data), Z, atol=2e-4)
    # and its rows minimise ½‖q‖² + λ/2 ‖x - q G‖
    rng = np.random.default_rng(0)
    G = rng.standard_normal((3, 12))
    q = robust_rows(drawn.data[:5], G, 2.0)

    def cost(at: Any) -> Any:
        return 0.5 * (at**2).sum(axis=1) + np.linalg.norm(drawn.data[:5] - at @ G, axis=1)

    for _ in range(50):
        assert (cost(q + 0.01 * rng.standard_normal(q.shape)) >= cost(q)).all()


def test_outliers_and_affine_subspaces() -> None:
    drawn = simulate_subspaces(240, 30, 3, 3, noise=0.1, offset=1.5, random_state=2)
    ways: list[dict[str, Any]] = [{"representation": "ssc"}, {"similarity": "cosine"}]
    for options in ways:
        model = cs.SketchedSubspaceClustering(3, affine=True, **options).fit(drawn.data)
        assert accuracy(model.labels_, drawn.truth) > 0.98
        assert model.dimensions_.tolist() == [3, 3, 3]
        near = np.linalg.norm(model.centroids_[:, None] - drawn.centres[None], axis=2)
        assert near.min(axis=1).max() < 0.3
    codes = cs.SketchedSubspaceClustering(3, affine=True, representation="ssc").fit(drawn.data).codes_
    np.testing.assert_allclose(codes.sum(axis=1), 1.0, atol=0.02)
    robust = cs.SketchedSubspaceClustering(3, representation="lrr", fit_norm="l21").fit(drawn.data)
    assert accuracy(robust.labels_, drawn.truth) > 0.98
