"""One step of orthogonal matching pursuit for a block of samples: choose an atom each, project it out.

The correlations of all residuals with all atoms come from one matrix product outside; here, for every sample,

    j = argmax |⟨x_i, r⟩|,   q = x_j - Q Qᵀ x_j  scaled to length one,   r ← r - q qᵀ r

with Q the orthonormal atoms chosen so far (Gram-Schmidt, done twice so that rounding leaves q orthogonal to Q), and at
the end X_S' c = Q Qᵀ x by back substitution in the triangle T with X_S' = Q T.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["pursuit_step", "pursuit_weights"]

#: A new atom this short after projection is a combination of those chosen.
_DEPENDENT = 1e-8


def _step(
    X: Any, correlation: Any, tol: Any, support: Any, count: Any, Q: Any, T: Any, residual: Any, open_: Any
) -> Any:
    """Add an atom to every open sample of the block; give how many stay open."""
    n_block, N = correlation.shape
    D = X.shape[1]
    size = support.shape[1]
    still = 0
    for b in range(n_block):
        if not open_[b]:
            continue
        row, s = correlation[b], count[b]
        for i in range(s):
            row[support[b, i]] = 0.0
        best, top = -1, 0.0
        for i in range(N):
            value = abs(row[i])
            if value > top:
                best, top = i, value
        if best < 0:
            open_[b] = False
            continue
        q = Q[b, s]
        length = 0.0
        for d in range(D):
            q[d] = X[best, d]
            length += q[d] * q[d]
        for i in range(s):
            T[b, i, s] = 0.0
        for _ in range(2):
            for i in range(s):
                along = 0.0
                for d in range(D):
                    along += Q[b, i, d] * q[d]
                T[b, i, s] += along
                for d in range(D):
                    q[d] -= along * Q[b, i, d]
        left = 0.0
        for d in range(D):
            left += q[d] * q[d]
        if left <= _DEPENDENT * _DEPENDENT * length:
            open_[b] = False
            continue
        left = np.sqrt(left)
        T[b, s, s] = left
        along = 0.0
        for d in range(D):
            q[d] /= left
            along += q[d] * residual[b, d]
        rest = 0.0
        for d in range(D):
            residual[b, d] -= along * q[d]
            rest += residual[b, d] * residual[b, d]
        support[b, s] = best
        count[b] = s + 1
        if rest <= tol[b] or s + 1 == size:
            open_[b] = False
        else:
            still += 1
    return still


def _weights(target: Any, Q: Any, T: Any, count: Any, weights: Any) -> None:
    """T c = Qᵀ x, for every sample of the block."""
    D = target.shape[1]
    for b in range(target.shape[0]):
        for i in range(count[b] - 1, -1, -1):
            along = 0.0
            for d in range(D):
                along += Q[b, i, d] * target[b, d]
            for j in range(i + 1, count[b]):
                along -= T[b, i, j] * weights[b, j]
            weights[b, i] = along / T[b, i, i]


@lru_cache(maxsize=1)
def pursuit_step() -> Callable[..., int]:
    """Give the compiled step: ``step(X, correlation, tol, support, count, Q, T, residual, open)``.

    An atom of correlation 0 is never chosen, which is how a sample is barred from representing itself.  What is chosen
    already gets correlation 0 here.
    """
    from numba import types

    from consilience.kernels._compile import array, compiled

    matrix, rows = array("float64", 2, readonly=False), array("float64", 3, readonly=False)
    return compiled(
        _step,
        types.int64(
            array("float64", 2),
            matrix,
            array("float64"),
            array("int64", 2, readonly=False),
            array("int64", readonly=False),
            rows,
            rows,
            matrix,
            array("bool", readonly=False),
        ),
    )


@lru_cache(maxsize=1)
def pursuit_weights() -> Callable[..., None]:
    """Give the compiled back substitution: ``solve(target, Q, T, count, weights)`` fills ``weights``."""
    from numba import types

    from consilience.kernels._compile import array, compiled

    rows = array("float64", 3)
    return compiled(
        _weights,
        types.void(array("float64", 2), rows, rows, array("int64"), array("float64", 2, readonly=False)),
    )
