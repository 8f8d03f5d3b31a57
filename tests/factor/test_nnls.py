"""Nonnegative least squares: SciPy's solutions, optimality conditions, dependent columns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from consilience.exceptions import ConvergenceWarning
from consilience.factor.nnls import nonnegative_least_squares


@pytest.mark.parametrize("D", [1, 3, 12, 30])
def test_least_squares_are_scipys(D: int) -> None:
    rng = np.random.default_rng(D)
    B, C = rng.standard_normal((35, D)), rng.standard_normal((35, 40))
    ours = nonnegative_least_squares(B.T @ B, B.T @ C)
    for i in range(40):
        np.testing.assert_allclose(ours[:, i], nnls(B, C[:, i])[0], atol=1e-9)


def test_least_squares_meet_their_conditions_at_size() -> None:
    rng = np.random.default_rng(0)
    B, C = rng.random((200, 60)), rng.random((200, 500))
    G, t = B.T @ B, B.T @ C
    X = nonnegative_least_squares(G, t)
    dual = G @ X - t
    assert (X >= 0).all()
    assert dual.min() > -1e-8 * np.abs(t).max()
    assert np.abs(X * dual).max() < 1e-8 * np.abs(t).max()


def test_least_squares_of_dependent_and_empty_columns() -> None:
    B = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    X = nonnegative_least_squares(B.T @ B, B.T @ np.array([[2.0, -1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(B @ X, [[2.0, 0.0], [0.0, 0.0]], atol=1e-9)
    assert nonnegative_least_squares(np.eye(2), np.zeros((2, 0))).shape == (2, 0)
    assert (nonnegative_least_squares(np.eye(2), np.zeros((2, 3))) == 0).all()


def test_running_out_of_exchanges_warns() -> None:
    rng = np.random.default_rng(0)
    B, C = rng.standard_normal((30, 12)), rng.standard_normal((30, 40))
    with pytest.warns(ConvergenceWarning, match=r"of 40 columns .* after 1 exchanges"):
        nonnegative_least_squares(B.T @ B, B.T @ C, max_iter=1)
