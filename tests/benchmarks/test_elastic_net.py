"""Elastic nets of every sample by the others, against scikit-learn's and the conditions of optimality."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.subspace_codes.elastic_net import ROOM, elastic_net
from sklearn.linear_model import ElasticNet, Lasso

from consilience.datasets.subspaces import simulate_subspaces
from consilience.exceptions import ConvergenceWarning, DataError, ParameterError
from consilience.kernels._arrays import Floats


def unit(X: Floats) -> Floats:
    scaled: Floats = X / np.linalg.norm(X, axis=1, keepdims=True)
    return scaled


@pytest.mark.parametrize("tau", [1.0, 0.9, 0.3])
@pytest.mark.parametrize("lam", [5.0, 100.0])
def test_against_scikit_learn(lam: float, tau: float) -> None:
    """Theirs is ‖y - Xw‖² / 2D + α ρ ‖w‖₁ + α (1-ρ) / 2 ‖w‖²: α = 1 / (λ D), ρ = τ."""
    X = unit(simulate_subspaces(80, 12, 3, 3, noise=0.2, random_state=1).data)
    Z = elastic_net(X, lam, tau)
    assert Z.diagonal().max() == 0.0
    for n in range(0, 80, 9):
        others = np.delete(np.arange(80), n)
        options = {"fit_intercept": False, "tol": 1e-13, "max_iter": 1_000_000}
        alpha = 1.0 / (lam * 12)
        peer = Lasso(alpha, **options) if tau == 1.0 else ElasticNet(alpha, l1_ratio=tau, **options)
        np.testing.assert_allclose(Z[[n]].toarray()[0, others], peer.fit(X[others].T, X[n]).coef_, atol=1e-6)


@pytest.mark.parametrize("tau", [1.0, 0.9, 0.2])
def test_conditions_of_optimality_beyond_the_first_working_set(tau: float) -> None:
    """τ sign(z) + (1-τ) z = X δ where z is not 0, |X δ| ≤ τ elsewhere; λ as chosen from α."""
    X = unit(simulate_subspaces(400, 20, 4, 4, noise=0.3, random_state=2).data)
    Z = elastic_net(X, None, tau, alpha=30.0).toarray()
    gram = np.abs(X @ X.T - np.eye(400))
    lam = 30.0 * tau / gram.max(axis=1, keepdims=True)
    pull = lam * (X - Z @ X) @ X.T
    used = Z != 0
    np.testing.assert_allclose(pull[used], (tau * np.sign(Z) + (1 - tau) * Z)[used], atol=1e-5)
    outside = ~used & ~np.eye(400, dtype=bool)
    assert np.abs(pull[outside]).max() <= tau * (1 + 1e-6)
    if tau < 0.5:
        assert used.sum(axis=1).max() > ROOM  # sets grew past one round's room


def test_alpha_of_one_is_where_weights_begin() -> None:
    X = unit(simulate_subspaces(40, 10, 2, 2, noise=0.1).data)
    top = np.abs(X @ X.T - np.eye(40)).max(axis=1)
    assert elastic_net(X, 0.9 * 0.999 / top.max(), 0.9).nnz == 0
    assert (np.diff(elastic_net(X, None, 0.9, alpha=1.001).indptr) >= 1).all()


def test_blocks_and_chosen_rows_change_nothing() -> None:
    X = simulate_subspaces(60, 10, 3, 2, noise=0.1).data
    whole = elastic_net(X).toarray()
    rows: Any = np.array([3, 59, 20])
    np.testing.assert_allclose(elastic_net(X, rows=rows).toarray(), whole[rows], atol=1e-9)
    mask = np.isin(np.arange(60), rows)
    np.testing.assert_allclose(elastic_net(X, rows=mask).toarray(), whole[np.flatnonzero(mask)], atol=1e-9)
    bad: list[Any] = [mask[:5], [0.5], [60], [-1], [[1]]]
    for rows in bad:
        with pytest.raises(ParameterError, match="rows"):
            elastic_net(X, rows=rows)
    done: list[int] = []
    np.testing.assert_allclose(elastic_net(X, block=25, callback=done.append).toarray(), whole, atol=1e-9)
    assert done == [25, 50, 60]


def test_independent_subspaces_are_kept_apart() -> None:
    drawn = simulate_subspaces(120, 40, 3, 4, random_state=3)
    Z = elastic_net(drawn.data, alpha=50.0).toarray()
    assert not Z[drawn.truth[:, None] != drawn.truth].any()
    assert ((Z != 0).sum(axis=1) >= 2).all()


def test_zeros_and_copies() -> None:
    X = np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 0, 0], [0, 2.0, 0]])
    Z = elastic_net(X, 10.0, 1.0).toarray()
    expected = np.zeros((4, 4))
    expected[[0, 1], [1, 0]] = 0.9
    np.testing.assert_allclose(Z, expected, atol=1e-12)


def test_running_out_of_rounds_is_a_warning() -> None:
    X = simulate_subspaces(400, 20, 4, 4, noise=0.3).data
    with pytest.warns(ConvergenceWarning, match="not solved after 1 rounds"):
        elastic_net(X, None, 0.2, max_iter=1)


def test_bad_input_is_refused() -> None:
    X = np.eye(3)
    for name, bad in {"lam": 0.0, "tau": 0.0, "alpha": 1.0, "max_iter": 0}.items():
        with pytest.raises(ParameterError, match=name):
            elastic_net(X, **{name: bad})  # type: ignore[arg-type]
    with pytest.raises(DataError, match="NaN"):
        elastic_net(np.array([[1.0, np.nan], [0.0, 1.0]]))
