"""Successive projection: find the columns of a separable matrix that all its other columns are mixtures of.

    X = W Hᵀ,  H ≥ 0 with rows that sum to at most one, and X(:, Λ) = W for some Λ        (separability)

The norm is convex, so its largest value over the mixtures is at a column of W.  Take that column, project what is left
onto its orthogonal complement, and repeat.  With noise below a bound that depends on the conditioning of W the columns
found are near W's (Theorem 3 there).

====== ============================== ============
symbol name                           shape
====== ============================== ============
X      ``X``                          (rows, columns)
Λ      what :func:`spa` gives         (≤ n_components,)
====== ============================== ============

N. Gillis and S. A. Vavasis, "Fast and robust recursive algorithms for separable nonnegative matrix factorization", IEEE
Transactions on Pattern Analysis and Machine Intelligence 36 (2014), Algorithm 1.
"""

from __future__ import annotations

import numpy as np

from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats, Ints

__all__ = ["spa"]

#: A residual this short beside the longest column is rounding.
_NOTHING = 1e-10
#: Norms this near to each other are the same: rounding must not decide between them.
_TIE = 1e-9


def spa(X: Floats, n_components: int) -> Ints:
    """Give the places of the columns that span the others, in the order found.

    They are fewer than ``n_components`` when X has a lower rank.  Of columns of the same length the first is taken.

    Parameters
    ----------
    X
        The matrix, (rows, columns).  Scale the columns of a nonnegative X to sum to one beforehand: then the rows of H
        do so too.  Columns of zeros are never chosen.
    n_components
        How many columns to find.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.factor.spa import spa
    >>> W = np.array([[1.0, 0.1], [0.0, 0.9]])
    >>> spa(W @ np.array([[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]), 2).tolist()
    [2, 1]
    """
    R = np.array(X, np.float64)
    if R.ndim != 2:
        raise ParameterError(f"successive projection needs a matrix of rows and columns, not shape {R.shape}")
    if n_components < 1:
        raise ParameterError(f"n_components must be a whole number ≥ 1, not {n_components!r}")
    if not np.isfinite(R).all():
        raise ParameterError("the matrix has entries that are NaN or infinite; drop those columns first")
    if not R.size:
        return np.empty(0, np.int64)
    found: list[int] = []
    longest = float(np.sqrt(np.einsum("ij,ij->j", R, R).max()))
    for _ in range(min(n_components, *R.shape)):
        length = np.sqrt(np.einsum("ij,ij->j", R, R))
        top = float(length.max())
        if top <= _NOTHING * longest:
            break
        at = int(np.argmax(length >= (1.0 - _TIE) * top))
        found.append(at)
        # R ← (I - u uᵀ) R
        u = R[:, at] / length[at]
        R -= np.outer(u, u @ R)
    return np.array(found, np.int64)
