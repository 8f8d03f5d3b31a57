"""Codes of samples with missing entries: the fit covers the observed ones.

    min_Z  h(Z) + λ/2 ‖P_Ω(X - Z B)‖_F²                                                    (2.21)

where P_Ω keeps the observed entries and sets the others to 0 (2.22); NaN in X is a missing entry.

* *Least squares*.  Samples with the same pattern o of observed features share z = λ x_o B_oᵀ (λ B_o B_oᵀ + I)⁻¹.
  Frequent patterns are solved one by one.  Samples of rare patterns are solved in batches of systems, of the smallest
  of three sizes: n; the observed features, z = λ x_o (λ B_oᵀ B_o + I)⁻¹ B_oᵀ; or the missing features m, which optimal
  codes fill in.  With W = (λ Bᵀ B + I)⁻¹, (D, D),

      x_m = -x_o W_om W_mm⁻¹,     then     z = λ x W Bᵀ.
* *Sparse*.  :mod:`consilience.subspace.splitting`, whose factorisation does not depend on the pattern.
* *Low-rank*.  A ridge regression on the factor that all samples share, see :mod:`consilience.subspace.encoding`.

The thesis sketches the dictionary from :func:`fill`, P_Ω(X); :mod:`consilience.subspace.completion` fills gaps better.

====== ============================== ============
symbol name                           shape
====== ============================== ============
X      ``X``, NaN where missing       (N, D)
Ω      ``observed``                   (N, D)
B      ``B``, dictionary              (n, D)
Z      the codes returned             (N, n)
====== ============================== ============

P. A. Traganitis (2019), Section 2.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.exceptions import ConvergenceWarning, DataError, warn
from consilience.kernels._arrays import Bools, Ints
from consilience.subspace.lsr import lsr, samples_and_dictionary
from consilience.subspace.splitting import split

__all__ = ["fill", "lsr_missing", "ssc_missing"]

#: Doubles in a batch of systems.
_HELD = 1 << 22
#: Entries of a block of sparse codes.
_ENTRIES = 1 << 19
#: Patterns of fewer samples are solved in batches of one system per sample.
_SHARED = 8


def fill(X: Any) -> Any:
    """Return P_Ω(X): missing entries (NaN) become 0; X itself if there are none."""
    X = np.asarray(X)
    gaps = np.isnan(X)
    return np.where(gaps, X.dtype.type(0), X) if gaps.any() else X


def lsr_missing(X: Any, B: Any | None, lam: float) -> Any:
    """Return least-squares codes from the observed entries; ``B=None`` takes P_Ω(X) for the dictionary.

    The code of a sample without observed entries is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.subspace.missing import lsr_missing
    >>> lsr_missing(np.array([[2.0, np.nan]]), np.eye(2), 1.0)
    array([[1., 0.]])
    """
    X, B, observed = _checked(X, B, lam)
    _, first, pattern, count = np.unique(
        np.packbits(observed, axis=1), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    pattern = pattern.reshape(-1)
    Z = np.empty((len(X), len(B)), X.dtype)
    order = np.argsort(pattern, kind="stable")
    ends = np.cumsum(count)
    alone = np.ones(len(X), np.bool_)
    for p in np.flatnonzero(count >= _SHARED):
        members = order[ends[p] - count[p] : ends[p]]
        o = observed[first[p]]
        Z[members] = lsr(X[np.ix_(members, o)], B[:, o], lam) if o.any() else 0.0
        alone[members] = False
    rest = np.flatnonzero(alone)
    if rest.size:
        Z[rest] = _batched(X[rest].astype(np.float64), B.astype(np.float64), lam, observed[rest])
    return Z


def _batched(X: Any, B: Any, lam: float, observed: Bools) -> Any:
    n, D = B.shape
    seen = observed.sum(axis=1)
    Z = np.empty((len(X), n))
    size = np.minimum(seen, D - seen)
    # A mask times outer products costs n² D next to the n³ of the systems, without gathering.
    by_atoms = n < size
    if by_atoms.any():
        Z[by_atoms] = _by_atoms(X[by_atoms], B, lam, observed[by_atoms])
    filled = ~by_atoms & (D - seen <= seen)
    if filled.any():
        W = lam * (B.T @ B)
        W[np.diag_indices(D)] += 1.0
        W = np.linalg.inv(W)
        Z[filled] = (X[filled] + _restricted(-(X[filled] @ W), W, ~observed[filled])) @ (lam * (W @ B.T))
    direct = ~by_atoms & ~filled
    if direct.any():
        K = lam * (B.T @ B)
        K[np.diag_indices(D)] += 1.0
        Z[direct] = _restricted(X[direct], K, observed[direct]) @ (lam * B.T)
    return Z


def _by_atoms(X: Any, B: Any, lam: float, observed: Bools) -> Any:
    """Solve (λ B_o B_oᵀ + I) z = λ B_o x_o for every sample; (n, n) systems."""
    n = len(B)
    if len(B[0]) * n * (n + 1) // 2 > 4 * _HELD:  # too many products of atoms to keep
        Z = np.empty((len(X), n))
        for x, o, z in zip(X, observed, Z, strict=True):
            part = B[:, o]
            z[:] = np.linalg.solve(lam * (part @ part.T) + np.eye(n), lam * (part @ x[o]))
        return Z
    i, j = np.triu_indices(n)
    outer = B[i].T * B[j].T  # B_o B_oᵀ is symmetric: one triangle of it, (D, n (n + 1) / 2)
    place = np.empty((n, n), np.int64)
    place[i, j] = place[j, i] = np.arange(i.size)
    right = lam * (X @ B.T)
    Z = np.empty_like(right)
    rows = max(_HELD // (n * n), 1)
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        K = np.take(lam * observed[part].astype(np.float64) @ outer, place, axis=1)
        K[:, np.arange(n), np.arange(n)] += 1.0
        Z[part] = np.linalg.solve(K, right[part, :, None])[:, :, 0]
    return Z


def _restricted(right: Any, K: Any, chosen: Bools) -> Any:
    """Solve u_c K_cc = r_c for the chosen features c of every sample; return u with zeros elsewhere, (samples, D)."""
    U = np.zeros_like(right)
    size = chosen.sum(axis=1)
    order = np.argsort(size, kind="stable")  # systems of similar size go together
    start = 0
    while start < order.size:
        # Sizes ascend, so the batch is cut by the largest one in it.
        rows = max(_HELD // max(int(size[order[start]]), 1) ** 2, 1)
        rows = max(_HELD // max(int(size[order[min(start + rows, order.size) - 1]]), 1) ** 2, 1)
        part = order[start : start + rows]
        start += rows
        h = int(size[part].max())
        if not h:
            continue
        at, valid = _places(chosen[part], h)
        both = valid[:, :, None] & valid[:, None, :]
        # Smaller systems are padded with an identity.
        system = np.where(both, K[at[:, :, None], at[:, None, :]], np.eye(h))
        values = np.where(valid, np.take_along_axis(right[part], at, axis=1), 0.0)
        solution = np.linalg.solve(system, values[:, :, None])[:, :, 0]
        row, column = np.nonzero(valid)
        U[part[row], at[row, column]] = solution[row, column]
    return U


def _places(chosen: Bools, h: int) -> tuple[Ints, Bools]:
    """Return the chosen features of every row in order, padded to ``h``, and a mask of those that are not padding."""
    at = np.argsort(~chosen, axis=1, kind="stable")[:, :h]
    return at, np.take_along_axis(chosen, at, axis=1)


def ssc_missing(
    X: Any, B: Any | None, lam: float, *, max_iter: int = 5000, tol: float = 1e-4, return_n_iter: bool = False
) -> Any:
    """Return sparse codes from the observed entries; see :func:`~consilience.subspace.ssc.ssc`.

    ``B=None`` takes P_Ω(X) for the dictionary, without a sample in its own code.
    """
    batch = B is None
    X, B, observed = _checked(X, B, lam)
    N, n = len(X), len(B)
    Z = np.empty((N, n), X.dtype)
    rows = max(_ENTRIES // max(n, X.shape[1]), 64)
    n_iter, left = 0, 0
    for start in range(0, N, rows):
        part = slice(start, start + rows)
        own = np.arange(start, min(start + rows, N)) if batch else None
        Z[part], steps, undone = split(
            X[part], B, lam, penalty="l1", observed=observed[part], own=own, max_iter=max_iter, tol=tol
        )
        n_iter, left = max(n_iter, steps), left + undone
    if left and tol:
        warn(f"{left} of {N} sparse codes did not meet tol={tol:g} in {max_iter} steps", ConvergenceWarning)
    return (Z, n_iter) if return_n_iter else Z


def _checked(X: Any, B: Any | None, lam: float) -> tuple[Any, Any, Bools]:
    """Return P_Ω(X), the dictionary and Ω."""
    X = np.asarray(X)
    if np.isinf(X).any():
        raise DataError("the samples have infinite entries; missing entries must be NaN")
    X, B = samples_and_dictionary(X, B, lam, missing=True)
    observed = ~np.isnan(X)
    filled = fill(X)
    return filled, filled if B is X else B, observed
