"""Low-rank codes against closed forms and the subgradient of the nuclear norm."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from consilience.exceptions import ConvergenceWarning, ParameterError
from consilience.subspace.lrr import lrr
from consilience.subspace.sketches import make_sketch


def subspaces(per: int = 20, D: int = 20, K: int = 4, d: int = 3, noise: float = 0.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((per, d)) @ rng.standard_normal((d, D)) for _ in range(K)])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X + noise * rng.standard_normal(X.shape) / np.sqrt(D), np.repeat(np.arange(K), per)


def far_from_subgradient(G: Any, Z: Any) -> float:
    """How far G is from the subgradients U Vᵀ + W (Uᵀ W = 0, W V = 0, ‖W‖₂ ≤ 1) of the nuclear norm at Z."""
    U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
    keep = sigma > 1e-5 * sigma[0]
    U, Vt = U[:, keep], Vt[keep]
    rest = G - U @ Vt
    W = rest - U @ (U.T @ rest)
    W = W - W @ Vt.T @ Vt
    return float(max(np.abs(rest - W).max(), np.linalg.norm(W, 2) - 1.0))


@pytest.mark.parametrize("n", [8, 30])
@pytest.mark.parametrize("lam", [1.0, 30.0])
def test_frobenius_fit_is_optimal(n: int, lam: float) -> None:
    X, _ = subspaces(noise=0.3)
    B = make_sketch("rademacher", len(X), n, random_state=0).apply(X)
    Z, n_iter = lrr(X, B, lam, tol=1e-10, return_n_iter=True)
    assert 0 < n_iter < 2000
    # 0 ∈ ∂‖Z‖_* - λ (X - Z B) Bᵀ
    assert far_from_subgradient(lam * (X - Z @ B) @ B.T, Z) < 1e-6
    assert far_from_subgradient(lam * (X - 1.01 * Z @ B) @ B.T, 1.01 * Z) > 1e-3


def test_orthonormal_atoms_give_a_threshold_of_singular_values() -> None:
    """With B Bᵀ = I the solution is that of X Bᵀ by singular values less 1/λ."""
    X, _ = subspaces(noise=0.3)
    B = np.linalg.qr(np.random.default_rng(1).standard_normal((20, 9)))[0].T
    U, sigma, Vt = np.linalg.svd(X @ B.T, full_matrices=False)
    expected = (U * np.maximum(sigma - 1 / 0.7, 0.0)) @ Vt
    np.testing.assert_allclose(lrr(X, B, 0.7, tol=1e-10), expected, atol=1e-7)
    assert 0 < np.linalg.matrix_rank(expected) < 9


def test_batch_closed_form_is_what_the_steps_find() -> None:
    X, _ = subspaces(noise=0.3)
    Z = lrr(X, None, 3.0)
    assert far_from_subgradient(3.0 * (X - Z @ X) @ X.T, Z) < 1e-8
    np.testing.assert_allclose(Z, lrr(X, X.copy(), 3.0, tol=1e-10), atol=1e-7)


@pytest.mark.parametrize(("n", "lam"), [(8, 0.6), (8, 4.0), (30, 0.3), (30, 0.6)])
def test_l21_fit_is_optimal(n: int, lam: float) -> None:
    """Optimality of ‖Z‖_* + λ/2 Σ ‖x_i - z_i B‖, where no residual is 0: the gradient of a length is a direction."""
    X, _ = subspaces(noise=0.5)
    X[::9] += 2.0 * np.random.default_rng(3).standard_normal(X[::9].shape)
    B = make_sketch("rademacher", len(X), n, random_state=0).apply(X)
    Z = lrr(X, B, lam, fit="l21", tol=1e-9, max_iter=20_000)
    E = X - Z @ B
    length = np.linalg.norm(E, axis=1, keepdims=True)
    assert length.min() > 0.1
    assert far_from_subgradient(lam / 2 * (E / length) @ B.T, Z) < 1e-5

    def cost(Z: Any) -> float:
        return float(np.linalg.norm(Z, "nuc") + lam / 2 * np.linalg.norm(X - Z @ B, axis=1).sum())

    rng = np.random.default_rng(4)
    least = cost(Z)
    for size in (1e-2, 1e-3, 1e-4):
        for _ in range(10):
            assert cost(Z + size * rng.standard_normal(Z.shape)) > least - 1e-6
    for other in (0 * Z, X @ np.linalg.pinv(B), lrr(X, B, lam), lrr(X, B, 10 * lam)):
        assert cost(other) > least - 1e-6


def test_l21_codes_vanish_where_they_should() -> None:
    """Z = 0 exactly when λ/2 times the directions of the samples, times Bᵀ, has norm at most 1."""
    X, _ = subspaces(noise=0.3)
    B = X[:10]
    bound = float(2.0 / np.linalg.norm(X / np.linalg.norm(X, axis=1, keepdims=True) @ B.T, 2))
    assert not lrr(X, B, 0.99 * bound, fit="l21").any()
    assert np.abs(lrr(X, B, 1.3 * bound, fit="l21", tol=1e-3)).max() > 1e-3


@pytest.mark.parametrize("fit", ["frobenius", "l21"])
def test_batch_recovers_independent_subspaces(fit: Literal["frobenius", "l21"]) -> None:
    """Noiseless codes are the projection V Vᵀ onto the row space (Liu et al. 2013, Theorem 4.1)."""
    X, y = subspaces()
    Z = lrr(X, None, 1e7 if fit == "frobenius" else 1e3, fit=fit, tol=1e-9, max_iter=20_000)
    V = np.linalg.svd(X, full_matrices=False)[0][:, :12]
    np.testing.assert_allclose(Z, V @ V.T, atol=1e-5)
    assert np.abs(Z[y[:, None] != y]).max() < 1e-5


@pytest.mark.parametrize("fit", ["frobenius", "l21"])
def test_sketched_codes_keep_subspaces_apart(fit: Literal["frobenius", "l21"]) -> None:
    X, y = subspaces()
    B = make_sketch("rademacher", len(X), 30, random_state=0).apply(X)
    Z = lrr(X, B, 1e7 if fit == "frobenius" else 1e3, fit=fit, tol=1e-8, max_iter=20_000)
    np.testing.assert_allclose(Z @ B, X, atol=1e-4)
    assert [np.linalg.matrix_rank(Z[y == k], tol=1e-3) for k in range(4)] == [3, 3, 3, 3]
    assert np.linalg.matrix_rank(Z, tol=1e-3) == 12


def test_l21_stands_outlying_samples() -> None:
    """A tenth of the samples far off every subspace: codes of the others keep their blocks better than by squares."""
    X, y = subspaces()
    bad = np.zeros(len(X), np.bool_)
    bad[::10] = True
    X[bad] += 3.0 * np.random.default_rng(0).standard_normal(X[bad].shape) / np.sqrt(20)
    across = (y[:, None] != y)[np.ix_(~bad, ~bad)]

    def leak(Z: Any) -> float:
        clean = np.abs(Z[np.ix_(~bad, ~bad)])
        return float(clean[across].mean() / clean[~across].mean())

    l21 = min(leak(lrr(X, None, lam, fit="l21")) for lam in (0.3, 0.5, 1.0))
    squares = min(leak(lrr(X, None, lam)) for lam in (0.3, 1.0, 3.0, 10.0))
    assert l21 < 0.7 * squares


def test_single_precision_and_order_of_samples() -> None:
    X, _ = subspaces(noise=0.3)
    B = make_sketch("rademacher", len(X), 15, random_state=0).apply(X)
    order = np.random.default_rng(0).permutation(len(X))
    fits: tuple[Literal["frobenius", "l21"], ...] = ("frobenius", "l21")
    for fit in fits:
        Z = lrr(X, B, 5.0, fit=fit)
        single = lrr(X.astype(np.float32), B, 5.0, fit=fit)
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, Z, atol=1e-3)
        np.testing.assert_allclose(lrr(X[order], B, 5.0, fit=fit), Z[order], atol=1e-7)


def test_nothing_to_code_and_bad_input() -> None:
    assert not lrr(np.zeros((4, 3)), None, 1.0).any()
    assert not lrr(np.zeros((4, 3)), np.eye(3), 1.0).any()
    X, _ = subspaces(noise=0.3)
    with pytest.raises(ParameterError, match="fit"):
        lrr(X, None, 1.0, fit="l1")  # type: ignore[arg-type]
    with pytest.warns(ConvergenceWarning, match="in 2 steps"):
        lrr(X, X[:5], 1.0, max_iter=2)
