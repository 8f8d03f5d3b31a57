"""Least-squares codes against the normal equations, and what they recover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consilience.exceptions import DataError, ParameterError
from consilience.subspace.lsr import default_lam, lsr
from consilience.subspace.sketches import make_sketch


def independent_subspaces(
    per: int = 30, D: int = 20, K: int = 4, d: int = 3, seed: int = 0, noise: float = 0.0
) -> tuple[Any, Any]:
    """Samples on K independent subspaces (K d ≤ D), class after class."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.standard_normal((per, d)) @ rng.standard_normal((d, D)) for _ in range(K)])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X + noise * rng.standard_normal(X.shape) / np.sqrt(D), np.repeat(np.arange(K), per)


@pytest.mark.parametrize("n", [7, 50])
@pytest.mark.parametrize("lam", [0.3, 100.0])
def test_normal_equations(n: int, lam: float) -> None:
    rng = np.random.default_rng(0)
    X, B = rng.standard_normal((40, 20)), rng.standard_normal((n, 20))
    Z = lsr(X, B, lam)
    # The gradient of (2.14): Z - λ (X - Z B) Bᵀ = 0
    np.testing.assert_allclose(Z, lam * (X - Z @ B) @ B.T, atol=1e-9 * lam)
    np.testing.assert_allclose(Z, lsr(X.astype(np.float32), B, lam), atol=1e-4)
    assert lsr(X.astype(np.float32), B, lam).dtype == np.float32


def test_ridge_of_scikit_learn() -> None:
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(1)
    X, B = rng.standard_normal((10, 30)), rng.standard_normal((12, 30))
    ridge = Ridge(alpha=1 / 5.0, fit_intercept=False, solver="cholesky").fit(B.T, X.T)
    np.testing.assert_allclose(lsr(X, B, 5.0), ridge.coef_, atol=1e-9)


def test_batch_is_the_closed_form_of_the_thesis() -> None:
    X, _ = independent_subspaces()
    Z = lsr(X, None, 2.0)
    # (2.11) with samples in columns
    Xt = X.T
    np.testing.assert_allclose(Z.T, 2.0 * np.linalg.inv(2.0 * Xt.T @ Xt + np.eye(len(X))) @ Xt.T @ Xt, atol=1e-10)


def test_batch_is_block_diagonal() -> None:
    X, y = independent_subspaces()
    Z = np.abs(lsr(X, None, 1e7))
    across = y[:, None] != y
    assert Z[across].max() < 1e-5
    assert Z[~across].mean() > 1e-2


@pytest.mark.parametrize("kind", ["rademacher", "gaussian", "count", "hadamard"])
def test_sketched_codes_keep_subspaces_apart(kind: Any) -> None:
    """Codes of one subspace span as many dimensions as it has, and those of all are independent."""
    X, y = independent_subspaces()
    B = make_sketch(kind, len(X), 40, random_state=0).apply(X)
    Z = lsr(X, B, 1e7)
    np.testing.assert_allclose(Z @ B, X, atol=1e-5)
    assert [np.linalg.matrix_rank(Z[y == k], tol=1e-4) for k in range(4)] == [3, 3, 3, 3]
    assert np.linalg.matrix_rank(Z, tol=1e-4) == 12


def test_distances_of_codes_are_those_of_batch_codes() -> None:
    """Proposition 2.3, with ε as the sketch in hand has it: singular values of Rᵀ V are √(1 ± ε)."""
    X, _ = independent_subspaces()
    sketch = make_sketch("gaussian", len(X), 100, random_state=0)
    Z, A = lsr(X, None, 1e8), lsr(X, sketch.apply(X), 1e8)
    V = np.linalg.svd(X, full_matrices=False)[0][:, :12]
    sigma = np.linalg.svd(sketch.toarray().T @ V, compute_uv=False)
    i, j = np.triu_indices(len(X), 1)
    ratio = np.linalg.norm(A[i] - A[j], axis=1) / np.linalg.norm(Z[i] - Z[j], axis=1)
    assert ratio.min() >= 1 / sigma[0] - 1e-4
    assert ratio.max() <= 1 / sigma[-1] + 1e-4
    assert 0.5 < sigma[-1] < sigma[0] < 1.5


def test_default_lam_is_elhamifar_and_vidals() -> None:
    X, _ = independent_subspaces(noise=0.1)
    gram = np.abs(X @ X.T)
    np.fill_diagonal(gram, 0.0)
    assert default_lam(X, None, 7.0) == pytest.approx(7.0 / gram.max(axis=1).min())
    B = X[:5] * 3
    assert default_lam(np.vstack([X, np.zeros(20)]), B, 7.0) == pytest.approx(7.0 / np.abs(X @ B.T).max(axis=1).min())


def test_bad_input_is_explained() -> None:
    X = np.ones((3, 2))
    with pytest.raises(ParameterError, match="lam"):
        lsr(X, None, 0.0)
    with pytest.raises(DataError, match="2 features"):
        lsr(X, np.ones((2, 3)), 1.0)
    with pytest.raises(DataError, match="missing"):
        lsr(np.array([[np.nan, 1.0]]), np.ones((1, 2)), 1.0)
    with pytest.raises(DataError, match="all samples zero"):
        default_lam(np.zeros((3, 2)))
    with pytest.raises(ParameterError, match="alpha"):
        default_lam(X, None, 0.0)
