"""Sparse self-representation by orthogonal matching pursuit: SSC-OMP, a batch peer of the sketched methods.

    min ‖x_n - Σ_j z_nj x_j‖²   subject to   z_nn = 0 and at most s of the z_nj not 0        for every sample n

Greedy: s times the sample that correlates most with the residual joins, and the residual is projected onto the
complement of all that have joined.  Every step costs one product of a block of residuals with all samples, so the whole
costs O(s N² D) time and O(N) memory.

====== ============================== ============
symbol name                           shape
====== ============================== ============
x      ``X``, samples                 (N, D)
z      what :func:`omp` gives         (N, N), sparse
s      ``n_nonzero``                  scalar
====== ============================== ============

C. You, D. P. Robinson and R. Vidal, "Scalable sparse subspace clustering by orthogonal matching pursuit", CVPR 2016,
Algorithms 1 and 2; reference [156] of Traganitis (2019), Section 2.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from consilience.exceptions import DataError
from consilience.kernels._arrays import Floats
from consilience.validation import chosen_rows, number, whole

__all__ = ["omp"]

#: Correlations held at once, as many doubles.
_HELD = 1 << 23


def omp(
    X: Any,
    n_nonzero: int = 10,
    *,
    tol: float = 1e-6,
    normalize: bool = True,
    rows: Any = None,
    callback: Callable[[int], None] | None = None,
) -> Any:
    """Represent every sample by few of the others.

    Parameters
    ----------
    X
        Samples, (N, D).
    n_nonzero
        s, the most samples that represent another.
    tol
        A sample is done when its residual is this short beside itself.
    normalize
        Scale samples to length one first, as the authors do; the weights are those of the scaled samples.
    rows
        Code these samples alone, against all: their numbers, or a mask of all samples.  None codes all.
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

    from consilience.kernels.omp import pursuit_step, pursuit_weights

    X = samples(X, normalize=normalize)
    N, D = X.shape
    number("tol", tol, zero=True)
    size = min(whole("n_nonzero", n_nonzero), D, N - 1)
    chosen = chosen_rows(rows, N)
    step, solve = pursuit_step(), pursuit_weights()
    count = np.zeros(len(chosen), np.int64)
    index, weight = np.zeros((len(chosen), size), np.int64), np.zeros((len(chosen), size))
    n_block = max(1, min(_HELD // N, 1024, len(chosen)))
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


def samples(X: Any, *, normalize: bool) -> Floats:
    """Give the samples as finite doubles in rows, of length one where asked (rows of zeros stay)."""
    rows: Floats = np.ascontiguousarray(X, np.float64)
    if rows.ndim != 2 or rows.shape[0] < 2 or not rows.shape[1]:
        raise DataError(f"samples must be a matrix (N ≥ 2, D ≥ 1), not of shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise DataError("samples have entries that are NaN or infinite; fill them in, or use the sketched methods")
    if normalize:
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(length > 0, length, 1.0)
    return rows
