"""Sparse codes against scikit-learn's lasso, the optimality conditions, and known subspaces."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from consilience.exceptions import ConvergenceWarning, ParameterError
from consilience.subspace.lsr import default_lam
from consilience.subspace.sketches import make_sketch
from consilience.subspace.ssc import ssc


def subspaces(per: int = 30, D: int = 20, K: int = 4, d: int = 3, noise: float = 0.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((per, d)) @ rng.standard_normal((d, D)) for _ in range(K)])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X + noise * rng.standard_normal(X.shape) / np.sqrt(D), np.repeat(np.arange(K), per)


def lasso(x: Any, atoms: Any, lam: float) -> Any:
    from sklearn.linear_model import Lasso

    # scikit-learn: 1/(2 D) ‖x - Bᵀ a‖² + α ‖a‖₁
    model = Lasso(alpha=1.0 / (lam * x.size), fit_intercept=False, tol=1e-13, max_iter=100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its duality gap stops at rounding, above 1e-13
        return model.fit(atoms.T, x).coef_


@pytest.mark.parametrize(("n", "alpha"), [(12, 3.0), (12, 100.0), (40, 3.0), (40, 30.0), (90, 10.0)])
def test_lasso_of_scikit_learn(n: int, alpha: float) -> None:
    """Atoms fewer than, as many as and more than features: both ways of solving."""
    X, _ = subspaces(noise=0.2)
    B = make_sketch("rademacher", len(X), n, random_state=0).apply(X)
    lam = default_lam(X, B, alpha)
    Z = ssc(X, B, lam, tol=1e-10, max_iter=50_000)
    for i in range(0, len(X), 10):
        np.testing.assert_allclose(Z[i], lasso(X[i], B, lam), atol=1e-6)


def test_batch_is_the_lasso_on_the_others() -> None:
    X, _ = subspaces(per=15, noise=0.1)
    lam = default_lam(X, None, 20.0)
    Z = ssc(X, None, lam, tol=1e-10, max_iter=50_000)
    assert (np.diag(Z) == 0).all()
    for i in range(0, len(X), 7):
        others = np.delete(np.arange(len(X)), i)
        np.testing.assert_allclose(Z[i, others], lasso(X[i], X[others], lam), atol=1e-6)


def test_affine_codes_sum_to_one_and_are_optimal() -> None:
    """(2.9): the gradient of the fit is a subgradient of the l1 norm up to one multiple of 1 for each sample."""
    X, _ = subspaces(per=15, noise=0.1)
    X = X + 0.5
    Z = ssc(X, None, 50.0, affine=True, tol=1e-9, max_iter=50_000)
    np.testing.assert_allclose(Z.sum(axis=1), 1.0, atol=1e-7)
    gradient = 50.0 * (X - Z @ X) @ X.T
    for i in range(len(X)):
        on = np.abs(Z[i]) > 1e-6
        shift = np.mean(gradient[i, on] - np.sign(Z[i, on]))
        others = np.delete(np.arange(len(X)), i)
        np.testing.assert_allclose(gradient[i, on] - shift, np.sign(Z[i, on]), atol=1e-4)
        assert np.abs(gradient[i, others] - shift).max() < 1 + 1e-4


def test_batch_recovers_independent_subspaces() -> None:
    X, y = subspaces()
    Z = np.abs(ssc(X, None, default_lam(X, None, 1000.0), tol=1e-6, max_iter=20_000))
    assert Z[y[:, None] != y].max() < 1e-5
    assert (Z.max(axis=1) > 0.1).all()


def test_sketched_codes_have_neighbours_of_their_subspace() -> None:
    """(2.26) as Alg. 2.3 uses it: the nearest code is of the same subspace, and codes represent their samples."""
    X, y = subspaces(per=100, d=2, noise=0.01)
    B = make_sketch("rademacher", len(X), 24, random_state=0).apply(X)
    Z = ssc(X, B, default_lam(X, B, 1000.0), tol=1e-6, max_iter=20_000)
    assert np.linalg.norm(X - Z @ B) < 0.05 * np.linalg.norm(X)
    distance = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    assert np.mean(y[distance.argmin(axis=1)] == y) > 0.97


def test_code_of_a_sample_is_its_own() -> None:
    """Neither the others in its block nor the order of samples changes it."""
    X, _ = subspaces(noise=0.2)
    X[::3] *= 40.0
    B = make_sketch("rademacher", len(X), 30, random_state=0).apply(X)
    lam = default_lam(X, B)
    Z = ssc(X, B, lam)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(ssc(X[order], B, lam), Z[order], atol=1e-10)
    np.testing.assert_allclose(ssc(X[:7], B, lam), Z[:7], atol=1e-10)


def test_many_blocks_and_single_precision() -> None:
    X, _ = subspaces(per=900, noise=0.2)
    B = make_sketch("rademacher", len(X), 100, random_state=0).apply(X)
    lam = default_lam(X, B, 10.0)
    exact = ssc(X[-300:], B, lam, tol=1e-8, max_iter=20_000)
    single = ssc(X.astype(np.float32), B, lam)
    assert single.dtype == np.float32
    assert np.abs(single[-300:] - exact).max() < 1e-2 * np.abs(exact).max()


def test_small_lam_and_zero_samples_give_empty_codes() -> None:
    X, _ = subspaces(per=5)
    B = X[:4]
    bound = np.abs(X @ B.T).max()
    assert not ssc(X, B, 0.99 / bound).any()
    assert ssc(X, B, 1.01 / bound, tol=1e-8).any()
    assert not ssc(np.zeros((3, 20)), B, 10.0).any()


def test_running_out_is_a_warning() -> None:
    X, _ = subspaces(noise=0.2)
    with pytest.warns(ConvergenceWarning, match="in 3 steps"):
        _, n_iter = ssc(X, X[:30], 1e4, max_iter=3, return_n_iter=True)
    assert n_iter == 3
    with pytest.raises(ParameterError, match="max_iter"):
        ssc(X, None, 1.0, max_iter=0)
