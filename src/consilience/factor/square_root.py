"""The best square root of given rank of a symmetric matrix: X ≈ U Uᵀ, (J, J) and (J, K)."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats

__all__ = ["as_symmetric", "square_root"]

#: From this many rows on, the leading eigenvectors are found by Lanczos (0.3 s for 4000 rows, where LAPACK takes 30 s).
_LANCZOS = 200


def square_root(X: Floats, K: int) -> Floats:
    """Return ``U``, (J, K), such that ``U Uᵀ`` is the matrix of rank K nearest to the symmetric ``X``.

    Its columns are eigenvectors times the roots of their eigenvalues, largest first, each with a sum ≥ 0.  Negative
    eigenvalues count as zero.
    """
    from scipy.linalg import eigh

    J = len(X)
    if not 1 <= K <= J:
        raise ParameterError(f"a matrix of {J} rows has square roots of 1 to {J} columns, not {K}")
    found = None if J < _LANCZOS or 10 * K > J else _lanczos(X, K)
    values, vectors = found or eigh(X, subset_by_index=[J - K, J - 1])
    U: Floats = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
    return U * np.where(U.sum(axis=0) < 0, -1.0, 1.0)


def _lanczos(X: Floats, K: int) -> tuple[Floats, Floats] | None:
    from scipy.sparse.linalg import ArpackError, eigsh

    try:
        # the default v0 differs from call to call
        values, vectors = eigsh(X, K, which="LA", v0=np.random.default_rng(0).standard_normal(len(X)))
    except ArpackError:
        return None
    return values, vectors


def as_symmetric(matrix: Any) -> Floats:
    """Return ``matrix`` as a symmetric array of floats, or raise; differences within rounding are averaged out."""
    X: Floats = np.asarray(matrix, np.float64)
    if X.ndim != 2 or X.shape[0] != X.shape[1] or not X.size:
        raise ParameterError(
            f"a symmetric factorisation needs a square matrix, not shape {X.shape}; "
            "for a table of rows and features pass X @ X.T"
        )
    if not np.isfinite(X).all():
        raise ParameterError("the matrix has entries that are NaN or infinite; impute them first")
    gap = X - X.T
    if gap.max() > 1e-6 * np.abs(X).max():
        i, j = np.unravel_index(gap.argmax(), gap.shape)
        raise ParameterError(
            f"the matrix must be symmetric, but entry ({i}, {j}) is {X[i, j]:g} and entry ({j}, {i}) is {X[j, i]:g}; "
            "if that is noise, pass (X + X.T) / 2"
        )
    return X - gap / 2 if gap.any() else X
