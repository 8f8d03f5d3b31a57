"""Sparse self-representation by orthogonal matching pursuit: SSC-OMP, a batch peer of the sketched methods.

    min ‖x_n - Σ_j z_nj x_j‖²   subject to   z_nn = 0 and at most s of the z_nj not 0        for every sample n

Greedy: s times the sample that correlates most with the residual joins, and the residual is projected onto the
complement of all that have joined.  Every step costs one product of a block of residuals with all samples, so the whole
costs O(s N² D) time and O(N) memory.

====== ============================== ============
symbol name                           shape
====== ============================== ============
x      ``X``, samples                 (N, D)
z      result of :func:`omp`          (N, N), sparse
s      ``n_nonzero``                  scalar
====== ============================== ============

C. You, D. P. Robinson and R. Vidal, "Scalable sparse subspace clustering by orthogonal matching pursuit", CVPR 2016,
Algorithms 1 and 2; reference [156] of Traganitis (2019), Section 2.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.subspace_codes import HELD, chosen_rows, samples
from consilience.kernels._compile import kernel
from consilience.validation import number, whole

__all__ = ["omp"]

#: A new atom this short after projection is a combination of those chosen.
_DEPENDENT = 1e-8


def omp(
    X: Any,
    n_nonzero: int = 10,
    *,
    tol: float = 1e-6,
    normalize: bool = True,
    rows: Any = None,
    block: int | None = None,
    callback: Callable[[int], None] | None = None,
) -> Any:
    """Represent every sample by few of the others.

    Parameters
    ----------
    X
        Samples, (N, D).
    n_nonzero
        s, the largest number of samples that represent another.
    tol
        A sample is done when its residual is this short beside itself.
    normalize
        Scale samples to length one first, as the authors do; the weights are those of the scaled samples.
    rows
        Code only these samples, against all: their indices, or a mask of all samples.  None codes all.
    block
        Samples coded together.  None: as many as keep 64 MB of correlations.
    callback
        Called with the number of samples done, after every block.

    Returns
    -------
    scipy.sparse.csr_array
        Z, (N or ``rows``, N), with zero diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> Z = omp(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, -3.0]]), 1)
    >>> Z.toarray().round(9).tolist()
    [[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, -1.0], [0.0, 0.0, -1.0, 0.0]]
    """
    from scipy.sparse import csr_array

    X = samples(X, normalize=normalize)
    N, D = X.shape
    number("tol", tol, zero=True)
    size = min(whole("n_nonzero", n_nonzero), D, N - 1)
    chosen = chosen_rows(rows, N)
    step = kernel(
        _step, "float64[,] float64[,]! float64[] int64[,]! int64[]! float64[,,]! float64[,,]! float64[,]! bool[]!"
    )
    solve = kernel(_weights, "float64[,] float64[,,] float64[,,] int64[] float64[,]!")
    count = np.zeros(len(chosen), np.int64)
    index, weight = np.zeros((len(chosen), size), np.int64), np.zeros((len(chosen), size))
    n_block = max(1, min(block or HELD // N, 1024, len(chosen)))
    held = np.empty((n_block, N))
    Q, T = np.empty((n_block, size, D)), np.empty((n_block, size, size))
    for first in range(0, len(chosen), n_block):
        own = chosen[first : first + n_block]
        b = slice(first, first + len(own))
        target = X[own]
        residual, square = target.copy(), np.einsum("nd,nd->n", target, target)
        open_ = square > 0
        for _ in range(size):
            if not open_.any():
                break
            correlation = np.matmul(residual, X.T, out=held[: len(own)])
            correlation[np.arange(len(own)), own] = 0.0
            step(X, correlation, tol * tol * square, index[b], count[b], Q, T, residual, open_)
        solve(target, Q, T, count[b], weight[b])
        if callback is not None:
            callback(first + len(own))
    used = np.arange(size) < count[:, None]
    indptr = np.concatenate([[0], np.cumsum(count)])
    Z = csr_array((weight[used], index[used], indptr), shape=(len(chosen), N))
    Z.sort_indices()
    return Z


def _step(
    X: Any, correlation: Any, tol: Any, support: Any, count: Any, Q: Any, T: Any, residual: Any, open_: Any
) -> None:
    """Add an atom to every open sample of the block.

    j = argmax |⟨x_i, r⟩|,   q = x_j - Q Qᵀ x_j  scaled to length one,   r ← r - q qᵀ r

    with Q the orthonormal atoms chosen so far (Gram-Schmidt, done twice so that rounding leaves q orthogonal to Q).  An
    atom of correlation 0 is never chosen, which keeps a sample out of its own representation.
    """
    n_block, N = correlation.shape
    D = X.shape[1]
    size = support.shape[1]
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


def _weights(target: Any, Q: Any, T: Any, count: Any, weights: Any) -> None:
    """Solve T c = Qᵀ x for every sample of the block, with X_S' = Q T."""
    D = target.shape[1]
    for b in range(target.shape[0]):
        for i in range(count[b] - 1, -1, -1):
            along = 0.0
            for d in range(D):
                along += Q[b, i, d] * target[b, d]
            for j in range(i + 1, count[b]):
                along -= T[b, i, j] * weights[b, j]
            weights[b, i] = along / T[b, i, i]
