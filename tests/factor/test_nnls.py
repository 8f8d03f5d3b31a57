"""Nonnegative least squares: optimality conditions, sparse right-hand sides, dependent and missing columns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csc_matrix

from consilience.factor.nnls import nonnegative_least_squares


@pytest.mark.parametrize("D", [1, 3, 12, 30])
def test_the_solution_meets_the_optimality_conditions(D: int) -> None:
    rng = np.random.default_rng(D)
    B, C = rng.standard_normal((35, D)), rng.standard_normal((35, 40))
    X = nonnegative_least_squares(B, C)
    dual = B.T @ (B @ X - C)
    assert (X >= 0).all()
    assert dual.min() > -1e-9
    assert np.abs(X * dual).max() < 1e-9
    np.testing.assert_allclose(nonnegative_least_squares(B, csc_matrix(C)), X, atol=1e-12)


def test_dependent_and_empty_columns() -> None:
    B = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    X = nonnegative_least_squares(B, np.array([[2.0, -1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(B @ X, [[2.0, 0.0], [0.0, 0.0]], atol=1e-9)
    assert nonnegative_least_squares(np.eye(2), np.zeros((2, 0))).shape == (2, 0)
    assert nonnegative_least_squares(np.zeros((2, 0)), np.zeros((2, 3))).shape == (0, 3)
