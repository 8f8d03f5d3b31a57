"""The compiled ADMM against the iteration as it is written, and its end for each problem."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.factor.simplex import project_to_simplex
from consilience.kernels import simplex
from consilience.kernels.simplex import simplex_admm


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize(("J", "rows", "K"), [(5, 3, 3), (1, 1, 4), (4, 2, 7), (3, 1, 1), (300, 3, 2)])
def test_it_is_the_iteration_as_written(
    J: int, rows: int, K: int, columns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simplex, "_MANY", 100)  # several threads
    rng = np.random.default_rng(J)
    fixed, start, dual = rng.normal(size=(3, J, rows, K))
    pull = 0.3 * rng.normal(size=(J, K, K))
    X, U = start, dual
    for _ in range(20):
        phi = fixed + (X + U) @ pull
        X = project_to_simplex(phi - U, 1 if columns else -1)
        U = U + X - phi
    found = simplex_admm(fixed, pull, start, dual, columns=columns, iterations=20, tol=0.0)
    np.testing.assert_allclose(found[0], X, atol=1e-10)
    np.testing.assert_allclose(found[1], U, atol=1e-9)


def test_a_problem_ends_when_it_is_solved_whatever_the_others_do() -> None:
    rng = np.random.default_rng(0)
    fixed, start = rng.normal(size=(2, 6, 3, 3))
    pull, dual = 0.2 * rng.normal(size=(6, 3, 3)), np.zeros((6, 3, 3))
    together = simplex_admm(fixed, pull, start, dual, columns=True, iterations=500, tol=1e-6)
    for j in range(6):
        one = slice(j, j + 1)
        alone = simplex_admm(fixed[one], pull[one], start[one], dual[one], columns=True, iterations=500, tol=1e-6)
        np.testing.assert_array_equal(alone[0], together[0][one])
    assert not np.shares_memory(together[0], start)


def test_ties_and_missing_values_end() -> None:
    for value in (0.0, 1e300, np.nan):
        fixed = np.full((1, 4, 2), value)
        simplex_admm(fixed, np.zeros((1, 2, 2)), fixed, np.zeros((1, 4, 2)), columns=True, iterations=3, tol=0.0)
