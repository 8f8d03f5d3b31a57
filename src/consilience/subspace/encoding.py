r"""From samples to codes between which distances are taken: the same map on all nodes that share a dictionary.

The codes of LSR (2.14) are a linear map of the samples.  So are those of LRR with a Frobenius fit (2.16): by (2.17)
:math:`\|Z\|_* = \min_{Z = Q P^\top} \frac{1}{2} (\|P\|_F^2 + \|Q\|_F^2)`, so each row is a ridge regression once P is
known,

.. math:: z = P (\lambda P^\top B B^\top P + I)^{-1} \lambda P^\top B x .

P is common to all samples and needs their Gram matrix only.  For :math:`X = U S` with orthonormal U the solution for X
is U times that for S, because U changes neither the nuclear nor the Frobenius norm; so the problem is solved for the
D × D root S of :math:`X^\top X`, for any N.

====== ================= ==================================================
symbol name              shape
====== ================= ==================================================
X      ``X``             (N, D)
B      ``dictionary``    (n, D)
..     ``gram``          (D, D), Xᵀ X (missing entries 0)
..     ``linear``        (D, m), m = min(n, D): to codes in m coordinates
                         that preserve distances
..     ``basis``         (n, m), to these coordinates
P      ``factor``        (n, rank), of LRR
====== ================= ==================================================

Codes of LSR and LRR lie in the range of B, (n, D).  Where n > D an orthonormal basis of it makes the search for
neighbours cheaper and changes no distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats
from consilience.validation import one_of

__all__ = ["Encoder", "Representation", "make_encoder", "ridge_lams"]

Representation: TypeAlias = Literal["lsr", "ssc", "lrr"]


def ridge_lams(B: Any) -> tuple[float, ...]:
    """Return the candidate λ of LSR and LRR for the dictionary ``B`` (n, D): 10 / mean, 5 / median, 50 / median.

    Of the eigenvalues of B Bᵀ, those above 1/λ are weighted alike, those below are shrunk, by LRR to zero.  A
    fraction of the mean lies between signal and noise if all of the signal is of one size.  A few directions dominate
    the mean of falling spectra, such as those of images; there the median counts, without zeros.
    """
    B = np.asarray(B, np.float64)
    values = np.linalg.eigvalsh(B @ B.T if B.shape[0] <= B.shape[1] else B.T @ B)
    values = values[values > 1e-12 * values.max(initial=0.0)]
    if not values.size:
        return (1.0,)
    mean, median = float(values.mean()), float(np.median(values))
    return 10.0 / mean, 5.0 / median, 50.0 / median


@dataclass(frozen=True, eq=False)
class Encoder:
    """Turns samples into codes, block by block."""

    dictionary: Floats
    representation: Representation
    lam: float
    linear: Floats | None
    basis: Floats | None
    factor: Floats | None
    max_iter: int
    tol: float
    n_iter: int  #: steps taken so far, at least 1

    def encode(self, X: Any) -> Any:
        """Return the codes (N, m) of the samples ``X`` (N, D); NaN is a missing entry, left out of the fit (2.21)."""
        return self.encode_counting(X)[0]

    def encode_counting(self, X: Any) -> tuple[Any, int]:
        """Return the codes, and the steps of the solver."""
        gaps = np.isnan(X).any(axis=1)
        if not gaps.any():
            return self._complete(X)
        # Row by row, so that the code of a sample does not depend on the others in its block.
        Z = np.empty((len(X), self._width), X.dtype)
        n_iter = self.n_iter
        if not gaps.all():
            Z[~gaps], n_iter = self._complete(X[~gaps])
        Z[gaps], steps = self._partial(X[gaps])
        return Z, max(n_iter, steps)

    def restore(self, X: Any) -> Any:
        """Return the samples that the codes of ``X`` stand for, Z B, also where entries of ``X`` are missing."""
        B = self.dictionary if self.basis is None else self.basis.T @ self.dictionary
        return self.encode(X) @ B

    @property
    def directions(self) -> float:
        """Effective number of directions of the codes of LSR, Σ λ s / (1 + λ s) over the eigenvalues s of B Bᵀ."""
        values = np.linalg.svd(self.dictionary, compute_uv=False) ** 2
        return float((self.lam * values / (1.0 + self.lam * values)).sum())

    @property
    def _width(self) -> int:
        return len(self.dictionary) if self.linear is None else self.linear.shape[1]

    def _complete(self, X: Any) -> tuple[Any, int]:
        if self.linear is not None:
            return X @ self.linear.astype(X.dtype), self.n_iter
        from consilience.subspace.ssc import ssc

        done = ssc(X, self.dictionary, self.lam, max_iter=self.max_iter, tol=self.tol, return_n_iter=True)
        return done[0], done[1]

    def _partial(self, X: Any) -> tuple[Any, int]:
        from consilience.subspace.missing import lsr_missing, ssc_missing

        if self.representation == "ssc":
            done = ssc_missing(X, self.dictionary, self.lam, max_iter=self.max_iter, tol=self.tol, return_n_iter=True)
            return done[0], done[1]
        if self.factor is not None and not self.factor.shape[1]:  # λ so small that every code is zero
            return np.zeros((len(X), self._width), X.dtype), self.n_iter
        if self.factor is None:
            Z = lsr_missing(X, self.dictionary, self.lam)
        else:  # z = P q with the ridge regression q on the dictionary Pᵀ B
            Z = lsr_missing(X, self.factor.T @ self.dictionary, self.lam) @ self.factor.T.astype(X.dtype)
        return (Z if self.basis is None else Z @ self.basis.astype(X.dtype)), self.n_iter


def make_encoder(
    dictionary: Floats,
    representation: Representation = "lsr",
    lam: float = 1.0,
    *,
    gram: Floats | None = None,
    max_iter: int = 5000,
    tol: float = 1e-4,
) -> Encoder:
    """Prepare the codes of all samples.

    Parameters
    ----------
    dictionary
        B, (n, D).
    representation
        ``"lsr"`` (2.14), ``"ssc"`` (2.15) or ``"lrr"`` (2.16) with a Frobenius fit.
    lam
        λ.
    gram
        Xᵀ X, for ``"lrr"``.
    max_iter, tol
        Of the solver, for ``"ssc"`` and ``"lrr"``.
    """
    one_of("representation", representation, get_args(Representation))
    B = np.asarray(dictionary, np.float64)
    n, D = B.shape
    basis = np.linalg.qr(B)[0] if n > D and representation != "ssc" else None
    linear = factor = None
    n_iter = 1
    if representation == "lsr":
        from consilience.subspace.lsr import lsr

        linear = lsr(np.eye(D), B, lam)
    elif representation == "lrr":
        linear, factor, n_iter = _low_rank_map(B, lam, gram, max_iter, tol)
    if linear is not None and basis is not None:
        linear = linear @ basis
    return Encoder(B, representation, float(lam), linear, basis, factor, max_iter, tol, max(n_iter, 1))


def _low_rank_map(B: Floats, lam: float, gram: Floats | None, max_iter: int, tol: float) -> tuple[Floats, Floats, int]:
    """Return the linear map (D, n) from samples to codes of LRR, P (n, rank), and the steps taken."""
    from consilience.subspace.lrr import lrr

    if gram is None:
        raise ParameterError('representation="lrr" needs gram, the matrix Xᵀ X of all samples')
    squares, V = np.linalg.eigh(np.asarray(gram, np.float64))
    S = (V * np.sqrt(np.maximum(squares, 0.0))).T
    # Z = U Σ Vᵀ = Q Pᵀ with P = V Σ^½, the pair that attains (2.17)
    codes, n_iter = lrr(S, B, lam, max_iter=max_iter, tol=tol, return_n_iter=True)
    _, values, rows = np.linalg.svd(codes, full_matrices=False)
    keep = values > values.max(initial=0.0) * 1e-10
    P = rows[keep].T * np.sqrt(values[keep])
    inner = P.T @ B
    linear: Floats = lam * np.linalg.solve(lam * (inner @ inner.T) + np.eye(len(inner)), inner).T @ P.T
    return linear, P, int(n_iter)
