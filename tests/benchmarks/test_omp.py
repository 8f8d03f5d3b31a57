"""Orthogonal matching pursuit of every sample by the others, against scikit-learn's, one sample at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.subspace_codes import chosen_rows
from benchmarks.subspace_codes.omp import omp
from sklearn.linear_model import orthogonal_mp

from consilience.datasets.subspaces import simulate_subspaces
from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Floats


def unit(X: Floats) -> Floats:
    scaled: Floats = X / np.linalg.norm(X, axis=1, keepdims=True)
    return scaled


def one_by_one(X: Floats, **options: Any) -> Floats:
    """Every sample by itself: the others are the dictionary."""
    Z = np.zeros((len(X), len(X)))
    for n in range(len(X)):
        others = np.delete(np.arange(len(X)), n)
        Z[n, others] = orthogonal_mp(X[others].T, X[n], **options)
    return Z


@pytest.mark.parametrize("s", [1, 3, 6])
def test_against_scikit_learn(s: int) -> None:
    X = unit(simulate_subspaces(50, 12, 3, 3, noise=0.2, random_state=s).data)
    Z = omp(X, s, tol=0.0)
    np.testing.assert_allclose(Z.toarray(), one_by_one(X, n_nonzero_coefs=s), atol=1e-10)
    assert Z.diagonal().max() == 0.0
    assert np.diff(Z.indptr).tolist() == [s] * 50


def test_stops_at_the_tolerance_as_scikit_learn_does() -> None:
    X = unit(simulate_subspaces(40, 10, 2, 3, noise=0.1, random_state=1).data)
    Z = omp(X, 10, tol=0.3).toarray()
    np.testing.assert_allclose(Z, one_by_one(X, tol=0.09), atol=1e-10)
    assert len(set((Z != 0).sum(axis=1))) > 1


def test_blocks_and_chosen_rows_change_nothing() -> None:
    X = simulate_subspaces(60, 10, 3, 2, noise=0.1).data
    whole = omp(X, 4).toarray()
    done: list[int] = []
    np.testing.assert_allclose(omp(X, 4, block=7, callback=done.append).toarray(), whole, atol=1e-12)
    assert done == [7, 14, 21, 28, 35, 42, 49, 56, 60]
    rows: Any = np.array([3, 59, 20])
    np.testing.assert_allclose(omp(X, 4, rows=rows).toarray(), whole[rows], atol=1e-12)
    mask = np.isin(np.arange(60), rows)
    np.testing.assert_allclose(omp(X, 4, rows=mask).toarray(), whole[np.flatnonzero(mask)], atol=1e-9)
    bad: list[Any] = [mask[:5], [0.5], [60], [-1], [[1]]]
    for rows in bad:
        with pytest.raises(ParameterError, match="rows"):
            omp(X, 4, rows=rows)


def test_rows_are_indices_or_a_mask() -> None:
    assert chosen_rows(None, 3).tolist() == [0, 1, 2]
    assert chosen_rows([2, 0], 3).tolist() == [2, 0]
    assert chosen_rows(np.array([True, False, True]), 3).tolist() == [0, 2]
    assert chosen_rows([], 3).tolist() == []


def test_independent_subspaces_are_kept_apart() -> None:
    drawn = simulate_subspaces(90, 30, 3, 4, random_state=2)
    Z = omp(drawn.data, 4).toarray()
    assert not Z[drawn.truth[:, None] != drawn.truth].any()
    X = unit(drawn.data)
    np.testing.assert_allclose(Z @ X, X, atol=1e-8)  # four samples of a subspace of dimension four span it


def test_scale_does_not_matter_unless_asked() -> None:
    X = simulate_subspaces(30, 8, 2, 2, noise=0.1).data
    scale = np.random.default_rng(0).uniform(0.1, 10.0, (30, 1))
    np.testing.assert_allclose(omp(scale * X, 3).toarray(), omp(X, 3).toarray(), atol=1e-10)
    plain = omp(scale * X, 3, tol=0.0, normalize=False).toarray()
    np.testing.assert_allclose(plain, one_by_one(scale * X, n_nonzero_coefs=3), atol=1e-9)


def test_zeros_and_copies() -> None:
    X = np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 0, 0], [0, 2.0, 0]])
    np.testing.assert_allclose(omp(X, 3).toarray(), [[0, 1, 0, 0], [1, 0, 0, 0], [0] * 4, [0] * 4], atol=1e-12)


def test_bad_input_is_refused() -> None:
    X = np.eye(3)
    with pytest.raises(ParameterError, match="n_nonzero"):
        omp(X, 0)
    with pytest.raises(ParameterError, match="n_nonzero"):
        omp(X, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="tol"):
        omp(X, 1, tol=-1.0)
    with pytest.raises(DataError, match="NaN"):
        omp(np.array([[1.0, np.nan], [0.0, 1.0]]), 1)
    with pytest.raises(DataError, match="shape"):
        omp(np.ones(4), 1)
