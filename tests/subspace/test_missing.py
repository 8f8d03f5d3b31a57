"""Codes from observed entries against one fit for each sample."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from consilience.exceptions import DataError
from consilience.subspace import missing as module
from consilience.subspace.lsr import default_lam, lsr
from consilience.subspace.missing import fill, lsr_missing, ssc_missing
from consilience.subspace.sketches import make_sketch
from consilience.subspace.ssc import ssc


def holed(N: int, D: int, share: float, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 5)) @ rng.standard_normal((5, D)) / np.sqrt(D) + 0.1 * rng.standard_normal((N, D))
    X[rng.random(X.shape) < share] = np.nan
    return X


def one_by_one(X: Any, B: Any, lam: float) -> Any:
    Z = []
    for x in X:
        o = ~np.isnan(x)
        Z.append(np.linalg.solve(lam * B[:, o] @ B[:, o].T + np.eye(len(B)), lam * B[:, o] @ x[o]))
    return np.stack(Z)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("n", [6, 60])
@pytest.mark.parametrize("lam", [1.0, 1e4])
def test_least_squares_is_the_fit_to_observed_entries(share: float, n: int, lam: float) -> None:
    """All patterns distinct: systems of the size of atoms, of observed and of missing features."""
    X = holed(150, 40, share)
    B = np.random.default_rng(1).standard_normal((n, 40))
    np.testing.assert_allclose(lsr_missing(X, B, lam), one_by_one(X, B, lam), atol=1e-8)


def test_many_products_of_atoms_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    X, B = holed(60, 40, 0.5), np.random.default_rng(1).standard_normal((6, 40))
    monkeypatch.setattr(module, "_HELD", 100)
    monkeypatch.setattr(np, "triu_indices", None)
    np.testing.assert_allclose(lsr_missing(X, B, 2.0), one_by_one(X, B, 2.0), atol=1e-8)


def test_least_squares_groups_equal_patterns() -> None:
    X = holed(200, 30, 0.0)
    X[:90, :7] = np.nan
    X[90:150, 20:] = np.nan
    X[150:155, ::2] = np.nan  # rare
    X[155] = np.nan  # nothing at all
    B = np.random.default_rng(1).standard_normal((12, 30))
    order = np.random.default_rng(2).permutation(200)
    Z = lsr_missing(X[order], B, 3.0)
    np.testing.assert_allclose(Z, one_by_one(X[order], B, 3.0), atol=1e-10)
    assert not Z[order == 155].any()
    assert lsr_missing(X.astype(np.float32), B, 3.0).dtype == np.float32


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_sparse_is_the_lasso_on_observed_entries(share: float) -> None:
    from sklearn.linear_model import Lasso

    X = holed(80, 30, share)
    B = make_sketch("rademacher", 80, 20, random_state=0).apply(fill(X))
    lam = default_lam(X, B, 10.0)
    Z = ssc_missing(X, B, lam, tol=1e-9, max_iter=50_000)
    for i in range(0, 80, 8):
        o = ~np.isnan(X[i])
        model = Lasso(alpha=1.0 / (lam * o.sum()), fit_intercept=False, tol=1e-13, max_iter=100_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_allclose(Z[i], model.fit(B[:, o].T, X[i, o]).coef_, atol=1e-6)


def test_batch_sparse_codes_leave_the_sample_out() -> None:
    X = holed(60, 20, 0.2)
    Z = ssc_missing(X, None, default_lam(X, None, 10.0))
    assert (np.diag(Z) == 0).all()
    assert (np.abs(Z).max(axis=1) > 0).all()


def test_sparse_code_of_a_sample_is_its_own() -> None:
    X = holed(80, 30, 0.2)
    B = make_sketch("rademacher", 80, 20, random_state=0).apply(fill(X))
    lam = default_lam(X, B, 10.0)
    np.testing.assert_allclose(ssc_missing(X[40:47], B, lam), ssc_missing(X, B, lam)[40:47], atol=1e-10)


def test_full_observation_is_the_plain_fit() -> None:
    X = holed(100, 20, 0.0)
    B = make_sketch("rademacher", 100, 15, random_state=0).apply(X)
    lam = default_lam(X, B, 10.0)
    np.testing.assert_allclose(lsr_missing(X, B, lam), lsr(X, B, lam), atol=1e-10)
    np.testing.assert_allclose(lsr_missing(X, None, lam), lsr(X, None, lam), atol=1e-10)
    tight: dict[str, Any] = {"tol": 1e-10, "max_iter": 50_000}
    np.testing.assert_allclose(ssc_missing(X, B, lam, **tight), ssc(X, B, lam, **tight), atol=1e-6)
    np.testing.assert_allclose(ssc_missing(X, None, lam, **tight), ssc(X, None, lam, **tight), atol=1e-6)


def test_codes_fill_in_what_was_missing() -> None:
    """Noiseless samples of one subspace: half of the entries determine the code, and the code the other half."""
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 24))
    B = make_sketch("rademacher", 200, 10, random_state=0).apply(whole)
    X = np.where(rng.random(whole.shape) < 0.5, np.nan, whole)
    X[(~np.isnan(X)).sum(axis=1) < 7] = 1.0  # too few to determine it
    known = np.isnan(X).any(axis=1)
    np.testing.assert_allclose(lsr_missing(X[known], B, 1e7) @ B, whole[known], atol=1e-2)


def test_bad_input_is_explained() -> None:
    X = holed(10, 5, 0.2)
    with pytest.raises(DataError, match="finite"):
        lsr_missing(X, np.full((2, 5), np.nan), 1.0)
    with pytest.raises(DataError, match="infinite"):
        lsr_missing(np.array([[np.inf, 1.0]]), np.ones((1, 2)), 1.0)
