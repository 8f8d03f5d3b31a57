"""Successive projection: find the columns of a separable matrix of which all other columns are mixtures.

    X = W Hᵀ,  H ≥ 0 with rows that sum to at most one, and X(:, Λ) = W for some Λ        (separability)

The norm is convex, so its maximum over the mixtures is at a column of W.  Take that column, project the matrix onto its
orthogonal complement, and repeat.  With noise below a bound that depends on the conditioning of W, the columns found
are near those of W (Theorem 3).

Options that make it robust, each to a kind of noise:

* *Columns of counts* (:func:`shrunk_counts`).  The most extreme column is often the one with the fewest counts.
  Columns are modelled as draws from Dirichlet(s μ) with mean column μ; s is estimated from their spread, and a column x
  of n counts becomes (x + s μ) / (n + s).
* *Noise in all directions* (``denoise="svd"``).  Only the leading singular directions of X are used.
* *Many nearly pure columns* (``average``).  A vertex is the mean of the columns that reach farthest in the direction
  found, and that mean is projected out (Nadisic, Gillis & Kervazo 2023).

====== ============================== ============
symbol name                           shape
====== ============================== ============
X      ``X``                          (rows, columns)
W      ``Vertices.columns``           (rows, ≤ n_components)
Λ      result of :func:`spa`          (≤ n_components,)
====== ============================== ============

N. Gillis and S. A. Vavasis, "Fast and robust recursive algorithms for separable nonnegative matrix factorization", IEEE
Transactions on Pattern Analysis and Machine Intelligence 36 (2014), Algorithm 1.  N. Nadisic, N. Gillis and C. Kervazo,
"Smoothed separable nonnegative matrix factorization", Linear Algebra and its Applications 676 (2023).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.validation import whole

__all__ = ["Vertices", "shrunk_counts", "spa", "vertices"]

#: A residual below this share of the longest column is rounding.
_NOTHING = 1e-10
#: Norms this close count as equal: rounding must not decide between them.
_TIE = 1e-9
#: Most pseudo-counts s, used if columns of counts spread no more than by chance.
_MOST_PRECISE = 1e3


@dataclass(frozen=True, eq=False)
class Vertices:
    """The columns that span the others."""

    columns: Floats  #: W: columns of X, or means of some; (rows, ≤ n_components)
    indices: Ints  #: Λ: the column of X that each was found at


def spa(X: Any, n_components: int, *, denoise: Literal["svd"] | None = None) -> Ints:
    """Return the indices of the columns that span the others, in the order found.

    They are fewer than ``n_components`` if X has a lower rank.  Of columns of the same length the first is taken.

    Parameters
    ----------
    X
        The matrix, (rows, columns), an array or SciPy sparse.  Scale the columns of a nonnegative X to sum to one
        first; then the rows of H do so too.  Columns of zeros are never chosen.
    n_components
        Number of columns to find.
    denoise
        ``"svd"`` restricts X to its ``n_components`` leading singular directions; always done for a sparse X.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.factor.spa import spa
    >>> W = np.array([[1.0, 0.1], [0.0, 0.9]])
    >>> spa(W @ np.array([[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]), 2).tolist()
    [2, 1]
    """
    return vertices(X, n_components, denoise=denoise).indices


def vertices(
    X: Any,
    n_components: int,
    *,
    scale: Literal["sum", "counts"] | None = None,
    denoise: Literal["svd"] | None = None,
    average: int = 1,
) -> Vertices:
    """Find the columns that span the others, with options for noisy data.

    Parameters
    ----------
    X, n_components, denoise
        As in :func:`spa`.
    scale
        ``"sum"`` scales columns of nonnegative numbers to sum to one, ``"counts"`` is :func:`shrunk_counts`.
    average
        Columns that are averaged for each vertex, or fewer if fewer reach in its direction.
    """
    whole("n_components", n_components)
    whole("average", average)
    if denoise not in (None, "svd"):
        raise ParameterError(f"denoise must be 'svd' or None, not {denoise!r}")
    sparse = hasattr(X, "tocsc")
    X = X.tocsc().astype(np.float64) if sparse else np.array(X, np.float64)
    if X.ndim != 2:
        raise ParameterError(f"successive projection needs a matrix of rows and columns, not shape {X.shape}")
    if not np.isfinite(X.data if sparse else X).all():
        raise ParameterError("the matrix has entries that are NaN or infinite; drop those columns first")
    if not X.shape[0] or not X.shape[1]:
        return Vertices(np.empty((X.shape[0], 0)), np.empty(0, np.int64))
    if average > X.shape[1]:
        raise ParameterError(f"average={average} is more than the {X.shape[1]} samples (columns)")
    if scale is not None:
        X = _scaled(X, scale)
    R = _leading(X, n_components) if sparse or denoise == "svd" else X.copy()
    found: list[int] = []
    columns: list[Floats] = []
    longest = float(np.sqrt(np.einsum("ij,ij->j", R, R).max()))
    for _ in range(min(n_components, *X.shape)):
        length = np.sqrt(np.einsum("ij,ij->j", R, R))
        top = float(length.max())
        if top <= _NOTHING * longest:
            break
        at = int(np.argmax(length >= (1.0 - _TIE) * top))
        found.append(at)
        u, members = R[:, at] / length[at], np.array([at])
        if average > 1:
            reach = u @ R
            # columns on the other side, or without residual, would cancel the direction; the one found always reaches
            members = np.argsort(-reach, kind="stable")[: min(average, int((reach > _NOTHING * longest).sum()))]
            u = R[:, members].mean(axis=1)
            u /= np.linalg.norm(u)
        columns.append(np.asarray(X[:, members].mean(axis=1)).ravel())
        # R ← (I - u uᵀ) R
        R -= np.outer(u, u @ R)
    W = np.stack(columns, axis=1) if columns else np.empty((X.shape[0], 0))
    return Vertices(W, np.array(found, np.int64))


def _scaled(X: Any, scale: str) -> Any:
    if scale not in ("sum", "counts"):
        raise ParameterError(f"scale must be 'sum', 'counts' or None, not {scale!r}")
    sparse = hasattr(X, "tocsc")
    if (X.data if sparse else X).min(initial=0.0) < 0:
        raise ParameterError(f"scale={scale!r} is for numbers ≥ 0, but the matrix has negative ones; use scale=None")
    if scale == "counts":
        X = X.toarray() if sparse else X
        return shrunk_counts(X) if X.any() else X
    total = np.asarray(X.sum(axis=0)).ravel()
    inverse = np.divide(1.0, total, out=np.zeros(total.size), where=total > 0)
    return X.multiply(inverse[None, :]).tocsc() if sparse else X * inverse


def shrunk_counts(counts: Any) -> Floats:
    """Return the columns of ``counts`` (rows, columns) as probabilities, shrunk towards the mean.

    A column x of n counts becomes (x + s μ) / (n + s), where Dirichlet(s μ) fits the columns.  One without counts
    becomes the mean.
    """
    x = np.asarray(counts, np.float64)
    if x.ndim != 2 or not np.isfinite(x).all() or (x < 0).any() or not x.any():
        raise ParameterError("counts must be a matrix of finite numbers ≥ 0, some of them above 0")
    n, mean = x.sum(axis=0), x.sum(axis=1) / x.sum()
    s = _precision(x, n, mean)
    total = n + s
    shrunk: Floats = (x + s * mean[:, None]) / np.where(total > 0, total, 1.0)
    return shrunk


def _precision(x: Floats, n: Floats, mean: Floats) -> float:
    """Return s of the Dirichlet(s μ) that fits the columns of counts, by moments.

    E ‖x/n - μ‖² = (1 - ‖μ‖²) (n + s) / (n (s + 1)), so with T = Σ n ‖x/n - μ‖² / (1 - ‖μ‖²) over C columns of N counts
    in total, T = (N + C s) / (s + 1).
    """
    spread = 1.0 - float(mean @ mean)
    if spread <= 1e-12:  # one row only
        return _MOST_PRECISE
    seen = n > 0
    T = float(n[seen] @ ((x[:, seen] / n[seen] - mean[:, None]) ** 2).sum(axis=0)) / spread
    beyond_chance = T - int(seen.sum())
    return min(max(float(n.sum()) - T, 0.0) / beyond_chance, _MOST_PRECISE) if beyond_chance > 0 else _MOST_PRECISE


def _leading(X: Any, n_components: int) -> Floats:
    """Return X in the basis of its leading left singular vectors, (≤ n_components, columns).

    From the smaller of X Xᵀ and Xᵀ X; for a sparse X by Lanczos from a fixed vector, so that the result is repeatable.
    """
    k = min(n_components, *X.shape)
    if hasattr(X, "tocsc"):
        if k < min(X.shape):
            from scipy.sparse.linalg import svds

            _, values, right = svds(X, k, v0=np.ones(min(X.shape)), solver="arpack")
            return np.ascontiguousarray(values[:, None] * right)
        X = X.toarray()
    if k == min(X.shape) == X.shape[0]:
        return np.array(X)
    if X.shape[0] <= X.shape[1]:
        return np.ascontiguousarray(np.linalg.eigh(X @ X.T)[1][:, -k:].T @ X)
    values, right = np.linalg.eigh(X.T @ X)
    values, right = values[-k:], right[:, -k:]
    # the square root of a rounding error in the eigenvalues is far above rounding of the columns
    known = values > np.finfo(np.float64).eps * max(X.shape) * max(values[-1], 0.0)
    return np.ascontiguousarray(np.sqrt(values[known])[:, None] * right[:, known].T)
