"""Low-rank representation: the codes of all samples have the least nuclear norm.

    min_Z  ‖Z‖_* + λ/2 ‖X - Z B‖_F²                                          (2.16), ``fit="frobenius"``
    min_Z  ‖Z‖_* + λ/2 ‖X - Z B‖_{2,1}                                       (2.10), ``fit="l21"``

where ‖E‖_{2,1} sums the lengths of the samples' residuals (samples are rows here, columns in the thesis).

With the thin decomposition B = Q diag(t) Pᵀ of rank r the optimal Z is  Qᵀ: any other part adds cost but no fit.

* *Frobenius*.  X P = V G with V of q ≤ r orthonormal columns.  For the same reason  = V Ã, which leaves

      min_Ã ‖Ã‖_* + λ/2 ‖G - Ã diag(t)‖_F²,      Ã of q × r,

  for any N.  It is solved by (B.11)-(B.13), with + ν (C - Δ) in (B.11); there (λ diag(t²) + ν I)⁻¹ is elementwise.
  The codes are one linear map of the samples.  With B = X it has a closed form, Z = U diag(max(1 - 1/(λ t²), 0)) Uᵀ for
  X = U diag(t) Pᵀ (Favaro, Vidal & Ravichandran, CVPR 2011).
* *l2,1*.  A residual keeps its length in the r coordinates Pᵀ and one more for what lies outside the range of B, so the
  problem shrinks to r + 1 features and r atoms.  It is solved by :mod:`consilience.subspace.splitting`.

====== ============================== ============
symbol name                           shape
====== ============================== ============
X      ``X``, samples                 (N, D)
B      ``B``, dictionary              (n, D)
Z      result of :func:`lrr`          (N, n)
λ, ν   ``lam``, ``nu``                scalars
====== ============================== ============

P. A. Traganitis (2019), Section 2.2.1 and Appendix B.2; G. Liu et al., "Robust recovery of subspace structures by
low-rank representation", IEEE Transactions on Pattern Analysis and Machine Intelligence 35 (2013).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from consilience.exceptions import ConvergenceWarning, ParameterError, warn
from consilience.subspace.lsr import samples_and_dictionary
from consilience.subspace.splitting import split

__all__ = ["lrr"]

#: Samples whose Gram matrix is summed at once.
_ROWS = 1 << 14
_LOOK = 10
_RELAXATION = 1.6
_UNBALANCED = 4.0


def lrr(
    X: Any,
    B: Any | None,
    lam: float,
    *,
    fit: Literal["frobenius", "l21"] = "frobenius",
    max_iter: int = 2000,
    tol: float = 1e-5,
    return_n_iter: bool = False,
) -> Any:
    """Return low-rank codes of the samples X, (N, D), in the dictionary B, (n, D); ``B=None`` is X itself.

    Parameters
    ----------
    X, B
        Float32 samples give float32 codes.
    lam
        λ.
    fit
        ``"frobenius"`` costs two passes over the samples; ``"l21"`` is robust to samples far from all subspaces, and
        costs a pass in every step.
    max_iter, tol
        Steps end when the relative primal and dual residuals are below ``tol``; after ``max_iter`` steps without that
        there is a ConvergenceWarning.
    return_n_iter
        Also return the number of steps; 0 for the closed form.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.subspace.lrr import lrr
    >>> lrr(np.array([[2.0, 0.0], [0.0, 1.0]]), None, 1.0)
    array([[0.75, 0.  ],
           [0.  , 0.  ]])
    """
    if fit not in ("frobenius", "l21"):
        raise ParameterError(f"fit must be 'frobenius' or 'l21', not {fit!r}")
    if max_iter < 1 or not tol >= 0:
        raise ParameterError(f"max_iter must be ≥ 1 and tol ≥ 0, not {max_iter!r} and {tol!r}")
    batch = B is None
    X, B = samples_and_dictionary(X, B, lam)
    Q, t, P = _thin(B)
    n_iter, met = 0, True
    if not t.size:
        Z = np.zeros((len(X), len(B)), X.dtype)
    elif fit == "l21":
        Z, n_iter, met = _l21(X, Q, t, P, lam, max_iter, tol)
    elif batch:
        Z = ((Q * np.maximum(1.0 - 1.0 / (lam * t**2), 0.0)) @ Q.T).astype(X.dtype)
    else:
        Z, n_iter, met = _frobenius(X, Q, t, P, lam, max_iter, tol)
    if not met and tol:
        warn(
            f"the low-rank codes did not meet tol={tol:g} in {max_iter} steps; raise max_iter or tol",
            ConvergenceWarning,
        )
    return (Z, n_iter) if return_n_iter else Z


def _thin(B: Any) -> tuple[Any, Any, Any]:
    """Return Q, (n, r), t, (r,), and P, (D, r), of B = Q diag(t) Pᵀ, in double precision."""
    Q, t, Pt = np.linalg.svd(B.astype(np.float64), full_matrices=False)
    keep = t > t.max(initial=0.0) * max(B.shape) * np.finfo(B.dtype).eps
    return Q[:, keep], t[keep], Pt[keep].T


def _frobenius(X: Any, Q: Any, t: Any, P: Any, lam: float, max_iter: int, tol: float) -> tuple[Any, int, bool]:
    # Pᵀ Xᵀ X P = U diag(m) Uᵀ, so V = X P U diag(m^-½) and G = diag(m^½) Uᵀ
    M = np.zeros((t.size, t.size))
    for start in range(0, len(X), _ROWS):
        inner = X[start : start + _ROWS].astype(np.float64) @ P
        M += inner.T @ inner
    m, U = np.linalg.eigh(M)
    keep = m > max(m[-1], 0.0) * t.size * np.finfo(np.float64).eps
    m, U = m[keep], U[:, keep]
    if not m.size:
        return np.zeros((len(X), len(Q)), X.dtype), 0, True
    small, n_iter, met = _reduced(np.sqrt(m)[:, None] * U.T, t, lam, max_iter, tol)
    G = P @ (U / np.sqrt(m)) @ small @ Q.T
    return X @ G.astype(X.dtype), n_iter, met


def _reduced(G: Any, t: Any, lam: float, max_iter: int, tol: float) -> tuple[Any, int, bool]:
    """Solve min ‖Ã‖_* + λ/2 ‖G - Ã diag(t)‖_F² by (B.11)-(B.13)."""
    ridge = lam * G * t / (lam * t**2 + 1.0)
    length = float(np.linalg.norm(ridge))
    nu = np.sqrt(min(G.shape)) / length if length else 1.0
    C, S = np.zeros_like(G), np.zeros_like(G)  # S = A + Δ
    next_move = _LOOK
    for step in range(1, max_iter + 1):
        # (B.11): A ← (λ G t + ν (C - Δ)) / (λ t² + ν)
        A = (lam * G * t + nu * (2.0 * C - S)) / (lam * t**2 + nu)
        S += _RELAXATION * (A - C)
        # (B.12)
        left, sigma, right = np.linalg.svd(S, full_matrices=False)
        C_old, C = C, (left * np.maximum(sigma - 1.0 / nu, 0.0)) @ right
        # (B.13) is Δ = S - C
        if step % _LOOK and step < max_iter:
            continue
        dual_scale = float(np.linalg.norm(S - C))
        primal_scale = max(float(np.linalg.norm(A)), float(np.linalg.norm(C)), 1e-2 * dual_scale)
        primal, dual = float(np.linalg.norm(A - C)), float(np.linalg.norm(C - C_old))
        if primal <= tol * primal_scale and dual <= tol * dual_scale:
            return C, step, True
        # Instead of (B.14), which only increases ν: balance the two residuals, less and less often.
        ratio = (primal * dual_scale + 1e-300) / (dual * primal_scale + 1e-300)
        if step >= next_move:
            next_move = 2 * step
            if not 1.0 / _UNBALANCED < ratio < _UNBALANCED:
                leap = float(np.clip(np.sqrt(ratio), 1.0 / 16.0, 16.0))
                S, nu = C + (S - C) / leap, nu * leap
    return C, max_iter, False


def _l21(X: Any, Q: Any, t: Any, P: Any, lam: float, max_iter: int, tol: float) -> tuple[Any, int, bool]:
    N, r = len(X), t.size
    inner = np.empty((N, r + 1), X.dtype)
    for start in range(0, N, _ROWS):
        block = X[start : start + _ROWS].astype(np.float64)
        inside = block @ P
        outside = block - inside @ P.T
        inner[start : start + _ROWS, :r] = inside
        inner[start : start + _ROWS, r] = np.sqrt(np.einsum("ij,ij->i", outside, outside))
    # Z = 0 is optimal if the gradient of the fit there, λ/2 of the samples' directions times Bᵀ, has norm ≤ 1.
    length = np.sqrt(np.einsum("ij,ij->i", inner, inner))[:, None]
    directions = inner[:, :r] / np.where(length > 0, length, 1.0)
    gram = (directions.T @ directions).astype(np.float64) * np.outer(t, t)
    if lam / 2.0 * np.sqrt(np.linalg.eigvalsh(gram)[-1]) <= 1.0:
        return np.zeros((N, len(Q)), X.dtype), 0, True
    atoms = np.zeros((r, r + 1), X.dtype)
    atoms[np.diag_indices(r)] = t
    C, n_iter, left = split(inner, atoms, lam, penalty="nuclear", fit="l21", max_iter=max_iter, tol=tol)
    return C @ Q.T.astype(X.dtype), n_iter, not left
