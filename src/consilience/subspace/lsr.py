"""Least-squares representation: every sample as a ridge regression on the dictionary, in closed form.

    min_Z  ½ ‖Z‖_F² + λ/2 ‖X - Z B‖_F²                     (2.14); with B = X it is LSR (2.11)

    Z = λ X Bᵀ (λ B Bᵀ + I)⁻¹ = λ X (λ Bᵀ B + I)⁻¹ Bᵀ

(the thesis has the transposes: samples are rows here).  The codes are one linear map of the samples; the factorisation
is of the smaller of n × n and D × D.

====== ============================== ============
symbol name                           shape
====== ============================== ============
X      ``X``, samples                 (N, D)
B      ``B``, dictionary              (n, D)
Z      result of :func:`lsr`          (N, n)
λ      ``lam``                        scalar
====== ============================== ============

P. A. Traganitis (2019), Section 2.2.1.  The default λ follows E. Elhamifar and R. Vidal, "Sparse subspace clustering:
algorithm, theory, and applications", IEEE Transactions on Pattern Analysis and Machine Intelligence 35 (2013),
Proposition 1, reference [37] there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.exceptions import DataError, ParameterError

__all__ = ["default_lam", "lsr", "samples_and_dictionary"]

#: Correlations in memory at once, in entries.
_HELD = 1 << 22


def lsr(X: Any, B: Any | None, lam: float) -> Any:
    """Return the codes of the samples X, (N, D), in the dictionary B, (n, D); ``B=None`` is X itself.

    Codes have the precision of the samples; the factorisation is always in double precision.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.subspace.lsr import lsr
    >>> lsr(np.array([[2.0, 0.0]]), np.eye(2), 1.0)
    array([[1., 0.]])
    """
    X, B = samples_and_dictionary(X, B, lam)
    return X @ _map(B, lam).astype(X.dtype)


def _map(B: Any, lam: float) -> Any:
    """Return the G, (D, n), of Z = X G."""
    from scipy.linalg import cho_factor, cho_solve

    B = B.astype(np.float64)
    n, D = B.shape
    if n <= D:
        K = lam * (B @ B.T)
        K[np.diag_indices(n)] += 1.0
        return lam * cho_solve(cho_factor(K, overwrite_a=True), B).T
    K = lam * (B.T @ B)
    K[np.diag_indices(D)] += 1.0
    return lam * cho_solve(cho_factor(K, overwrite_a=True), B.T)


def default_lam(X: Any, B: Any | None = None, alpha: float = 800.0) -> float:
    """Return λ = α / μ with μ = min_i max_j |x_iᵀ b_j|, Elhamifar & Vidal (2013), eqs (14)-(15).

    By their Proposition 1 a sparse code is all zero exactly when λ max_j |x_iᵀ b_j| ≤ 1, so with α > 1 every sample
    has a nonzero code.  α = 800 is theirs for motion segmentation, and the thesis' for SSC there; on other data it uses
    1 to 12,000.  In the dictionary X (``B=None``) j = i is left out.  Samples that correlate with nothing, such as
    zeros, are skipped; missing entries (NaN) count as 0.
    """
    if not alpha > 0:
        raise ParameterError(f"alpha must be above 0, not {alpha!r}")
    X = np.asarray(X)
    atoms = np.nan_to_num(X if B is None else np.asarray(B))
    mu = np.inf
    rows = max(_HELD // max(len(atoms), 1), 1)
    for start in range(0, len(X), rows):
        block = np.nan_to_num(X[start : start + rows])
        correlation = np.abs(block @ atoms.T)
        if B is None:
            at = np.arange(len(block))
            correlation[at, start + at] = 0.0
        largest = correlation.max(axis=1, initial=0.0)
        mu = min(mu, float(largest[largest > 0].min(initial=np.inf)))
    if not np.isfinite(mu):
        raise DataError("no sample correlates with the dictionary, so λ cannot be chosen; are all samples zero?")
    return alpha / mu


def samples_and_dictionary(X: Any, B: Any | None, lam: float, *, missing: bool = False) -> tuple[Any, Any]:
    """Check samples, dictionary and λ; return both arrays in the precision of X.

    Entries of X must be finite; ``missing`` allows NaN.
    """
    X = np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if X.ndim != 2:
        raise DataError(f"samples must be a matrix (samples, features), not shape {X.shape}")
    if not (np.isfinite(lam) and lam > 0):
        raise ParameterError(f"lam must be a number above 0, not {lam!r}")
    if not missing and not np.isfinite(X.sum(dtype=np.float64)) and not np.isfinite(X).all():
        raise DataError(
            "the samples have entries that are NaN or infinite; with NaN for missing entries use "
            "consilience.subspace.missing"
        )
    if B is None:
        return X, X
    B = np.asarray(B, X.dtype)
    if B.ndim != 2 or B.shape[1] != X.shape[1]:
        raise DataError(
            f"the dictionary must have the {X.shape[1]} features of the samples as columns, and has shape {B.shape}"
        )
    if not len(B) or not np.isfinite(B).all():
        raise DataError("the dictionary must have at least one atom and only finite entries; fill gaps first")
    return X, B
