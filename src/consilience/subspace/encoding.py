r"""From samples to codes between which distances are taken: the same map on all nodes that share a dictionary.

The codes of LSR (2.14) are a linear map of the samples.  So are those of LRR with a Frobenius fit (2.16): by (2.17)
:math:`\|Z\|_* = \min_{Z = Q P^\top} \frac{1}{2} (\|P\|_F^2 + \|Q\|_F^2)`, so each row is a ridge regression once P is
known,

.. math:: z = P (\lambda P^\top B B^\top P + I)^{-1} \lambda P^\top B x .

P is common to all samples and needs their Gram matrix only.  For :math:`X = U S` with orthonormal U the solution for X
is U times that for S, because U changes neither the nuclear nor the Frobenius norm; so the problem is solved for the
D × D root S of :math:`X^\top X`, for any N.

With an l2,1 fit (2.10) P comes from the codes of all samples.  Given P, the code of a sample is again a ridge
regression, whose weight depends on its own residual (:func:`robust_rows`), so that a distant sample counts less.

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

from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Floats
from consilience.validation import one_of

__all__ = ["Encoder", "FitNorm", "Representation", "make_encoder", "ridge_lams", "robust_rows"]

Representation: TypeAlias = Literal["lsr", "ssc", "lrr"]
FitNorm: TypeAlias = Literal["frobenius", "l21"]

#: Entries of a block of sparse samples that is made dense.
_HELD = 1 << 22
#: Halvings of the interval of log2 t in which the weight of a sample is searched.
_HALVINGS = 60


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
    affine: bool = False  #: sparse codes sum to one
    fit: FitNorm = "frobenius"

    def encode(self, X: Any) -> Any:
        """Return the codes (N, m) of the samples ``X`` (N, D); NaN is a missing entry, left out of the fit (2.21)."""
        return self.encode_counting(X)[0]

    def encode_counting(self, X: Any) -> tuple[Any, int]:
        """Return the codes, and the steps of the solver."""
        if hasattr(X, "tocsr"):
            return self._sparse(X)
        gaps = np.isnan(X).any(axis=1)
        if not gaps.any():
            return self._complete(X)
        if self.affine or self.fit == "l21":
            raise DataError("missing entries need affine=False and fit='frobenius'; or fill the gaps first")
        # Row by row, so that the code of a sample does not depend on the others in its block.
        Z = np.empty((len(X), self._width), X.dtype)
        n_iter = self.n_iter
        if not gaps.all():
            Z[~gaps], n_iter = self._complete(X[~gaps])
        Z[gaps], steps = self._partial(X[gaps])
        return Z, max(n_iter, steps)

    @property
    def _width(self) -> int:
        if self.linear is not None:
            return int(self.linear.shape[1])
        return len(self.dictionary) if self.basis is None else int(self.basis.shape[1])

    def _complete(self, X: Any) -> tuple[Any, int]:
        if self.linear is not None:
            return X @ self.linear.astype(X.dtype), self.n_iter
        if self.factor is not None:
            Z = robust_rows(X, self.factor.T @ self.dictionary, self.lam) @ self.factor.T
            return (Z if self.basis is None else Z @ self.basis).astype(X.dtype), self.n_iter
        from consilience.subspace.ssc import ssc

        options: Any = {"affine": self.affine, "max_iter": self.max_iter, "tol": self.tol}
        done = ssc(X, self.dictionary, self.lam, return_n_iter=True, **options)
        return done[0], done[1]

    def _sparse(self, X: Any) -> tuple[Any, int]:
        if self.linear is not None:
            return np.asarray(X @ self.linear.astype(X.dtype)), self.n_iter
        rows = max(_HELD // X.shape[1], 1)
        done = [self._complete(X[start : start + rows].toarray()) for start in range(0, X.shape[0], rows)]
        return np.concatenate([Z for Z, _ in done]), max(steps for _, steps in done)

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
    samples: Any | None = None,
    affine: bool = False,
    fit: FitNorm = "frobenius",
    max_iter: int = 5000,
    tol: float = 1e-4,
) -> Encoder:
    """Prepare the codes of all samples.

    Parameters
    ----------
    dictionary
        B, (n, D).
    representation
        ``"lsr"`` (2.14), ``"ssc"`` (2.15) or ``"lrr"`` (2.16).
    lam
        λ.
    gram
        Xᵀ X, for ``"lrr"`` with a Frobenius fit.
    samples
        X (N, D), for ``"lrr"`` with ``fit="l21"``.
    affine
        For ``"ssc"``: codes sum to one (2.9).
    fit
        For ``"lrr"``: ``"frobenius"`` (2.16) or ``"l21"`` (2.10).
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
    elif representation == "lrr" and fit == "l21":
        factor, n_iter = _robust_factor(B, lam, samples, max_iter, tol)
    elif representation == "lrr":
        linear, factor, n_iter = _low_rank_map(B, lam, gram, max_iter, tol)
    if linear is not None and basis is not None:
        linear = linear @ basis
    codes = (linear, basis, factor, max_iter, tol, max(n_iter, 1))
    return Encoder(B, representation, float(lam), *codes, affine=affine and representation == "ssc", fit=fit)


def robust_rows(X: Any, G: Floats, lam: float) -> Floats:
    """Return the q of each sample that minimise ½ ‖q‖² + λ/2 ‖x - q G‖ for the dictionary G (r, D), as (N, r).

    It is the ridge regression q = t x Gᵀ (t G Gᵀ + I)⁻¹ whose weight t and residual ρ(t) satisfy t ρ(t) = λ / 2.  The
    left side rises with t, so bisection finds it; a sample that G represents exactly may have any large t.
    """
    X = np.asarray(X, np.float64)
    W, g, Ht = np.linalg.svd(G, full_matrices=False)
    inside = X @ Ht.T
    outside = np.maximum(np.einsum("ij,ij->i", X, X) - np.einsum("ij,ij->i", inside, inside), 0.0)
    low, high = np.full(len(X), -60.0), np.full(len(X), 60.0)
    for _ in range(_HALVINGS):
        t = np.exp2(0.5 * (low + high))
        rho = np.sqrt(outside + np.einsum("ij,ij->i", *(2 * [inside / (1.0 + t[:, None] * g**2)])))
        below = t * rho < 0.5 * lam
        low, high = np.where(below, np.log2(t), low), np.where(below, high, np.log2(t))
    t = np.exp2(0.5 * (low + high))[:, None]
    rows: Floats = (inside * (t * g / (1.0 + t * g**2))) @ W.T
    return rows


def _robust_factor(B: Floats, lam: float, X: Any | None, max_iter: int, tol: float) -> tuple[Floats, int]:
    """Return P (n, rank) of the codes with an l2,1 fit, and the steps taken."""
    from consilience.subspace.lrr import lrr

    if X is None:
        raise ParameterError('fit="l21" needs samples, the matrix X of all samples')
    Z, n_iter = lrr(X, B, lam, fit="l21", max_iter=max_iter, tol=tol, return_n_iter=True)
    squares, V = np.linalg.eigh(Z.T.astype(np.float64) @ Z)
    keep = squares > max(squares[-1], 0.0) * 1e-16
    # Z = U Σ Vᵀ = Q Pᵀ with P = V Σ^½
    return V[:, keep] * squares[keep] ** 0.25, int(n_iter)


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
