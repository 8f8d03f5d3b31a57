"""ADMM for many small least-squares problems over the simplex, each with its own end.

For min ½ tr(X C Xᵀ) - tr(X Bᵀ), with probabilities along one axis of X, an iteration is (Traganitis 2019, (D.9)-(D.11))

    φ = F + (X + U) P,      X ← projection of φ - U,      U ← U + X - φ,

where F and P are fixed: products with the inverse of C + λ I.

C. Michelot, "A finite algorithm for finding the projection of a point onto the canonical simplex of ℝⁿ", Journal of
Optimization Theory and Applications 50 (1986).

====== ========== ==================
symbol name       shape
====== ========== ==================
F      ``fixed``  (J, I, K)
P      ``pull``   (J, K, K)
X, U   the same   (J, I, K)
====== ========== ==================
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Floats
from consilience.kernels._compile import kernel

__all__ = ["simplex_admm"]

#: Numbers in X beyond which the problems are divided among threads.
_MANY = 1 << 14


def simplex_admm(
    fixed: Floats, pull: Floats, start: Floats, dual: Floats, *, columns: bool, iterations: int, tol: float
) -> tuple[Floats, Floats]:
    """Return X and U after so many iterations, or once no entry of a problem changes by more than ``tol``.

    Probabilities are along the columns of X, (I,), or along its rows, (K,).
    """
    X, U = (np.array(x, np.float64, order="C") for x in np.broadcast_arrays(start, dual))
    data = np.ascontiguousarray(fixed), np.ascontiguousarray(pull)
    of_range = "int64 int64 float64[,,] float64[,,] float64[,,]! float64[,,]! boolean int64 float64"
    solve = kernel(_solve, of_range, helpers=(_lower,))
    parts = blocks.thread_count() if X.size > _MANY else 1
    edges = np.linspace(0, len(X), min(parts, max(len(X), 1)) + 1).astype(int).tolist()
    blocks.run(lambda a, b: solve(a, b, *data, X, U, columns, iterations, tol), list(pairwise(edges)))
    return X, U


def _solve(
    first: Any, stop: Any, fixed: Any, pull: Any, X: Any, U: Any, columns: Any, iterations: Any, tol: Any
) -> None:
    _, I, K = X.shape  # noqa: E741 - a symbol of the table
    phi, v = np.empty((I, K)), np.empty(I if columns else K)
    for j in range(first, stop):
        for _ in range(iterations):
            for i in range(I):
                for k in range(K):
                    phi[i, k] = fixed[j, i, k]
                for c in range(K):
                    x = X[j, i, c] + U[j, i, c]
                    for k in range(K):
                        phi[i, k] += x * pull[j, c, k]
            far = 0.0
            for at in range(K if columns else I):
                for e in range(v.size):
                    i, k = (e, at) if columns else (at, e)
                    v[e] = phi[i, k] - U[j, i, k]
                theta = _lower(v)
                for e in range(v.size):
                    i, k = (e, at) if columns else (at, e)
                    x = max(phi[i, k] - U[j, i, k] - theta, 0.0)
                    far = max(far, abs(x - phi[i, k]), abs(x - X[j, i, k]))
                    U[j, i, k] += x - phi[i, k]
                    X[j, i, k] = x
            if far <= tol:
                break


def _lower(v: Any) -> Any:
    """Return θ, by how much entries fall in the projection onto the simplex."""
    # θ starts from all entries, and those that fall below zero are left out until none does (Michelot 1986)
    total, left = -1.0, v.size
    for e in range(v.size):
        total += v[e]
    theta = total / left
    while True:
        above, total = 0, -1.0
        for e in range(v.size):
            if v[e] > theta:
                above += 1
                total += v[e]
        if above >= left or above == 0:  # rounding, or NaN
            return theta
        left, theta = above, total / above
