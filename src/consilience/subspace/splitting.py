"""ADMM for codes with an l2,1 fit or a fit to observed entries: one factorisation serves all samples.

    min_A  h(A) + f(A B)      as      min  h(C) + f(Y)   subject to   C = A,  Y = A B

with h the l1 norm (2.15) or the nuclear norm (2.16), and f a fit to the observed entries Ω (2.21):

    λ/2 ‖P_Ω(X - Y)‖_F²         or         λ/2 ‖P_Ω(X - Y)‖_{2,1},  a sum of the samples' lengths (2.10).

The update of A is a projection onto the graph {(A, A B)}, the same for every sample, every pattern of missing entries
and every penalty ν; those of C and Y are thresholds.  As in :mod:`consilience.subspace.ssc` one state s = a + δ stands
for primal and dual, for C and Y each.  B is scaled, so that one ν suits both constraints.

====== ================================= ============
symbol name                              shape
====== ================================= ============
X      ``X``, samples, 0 if unobserved   (N, D)
Ω      ``observed``                      (N, D)
B      ``B``, dictionary                 (n, D)
C      result of :func:`split`           (N, n)
ν      ``nu``; one for all with the      (N, 1), (1, 1)
       nuclear norm
====== ================================= ============

P. A. Traganitis (2019), Sections 2.2.1 and 2.3, Appendix B; N. Parikh and S. Boyd, "Block splitting for distributed
optimization", Mathematical Programming Computation 6 (2014), for the graph form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

__all__ = ["split"]

_RELAXATION = 1.6
_LOOK = 10
#: Entries of a block of samples.
_ENTRIES = 1 << 18
#: Singular values of the scaled B are about this.  On random unions of subspaces 1 took up to 30 times the steps of 10
#: where λ is large, 30 up to 3 times where λ is small; where codes nearly vanish, 3 takes a third of the steps of 10.
_STRETCH = 10.0
_UNBALANCED = 4.0


def split(
    X: Any,
    B: Any,
    lam: float,
    *,
    penalty: Literal["l1", "nuclear"],
    fit: Literal["frobenius", "l21"] = "frobenius",
    observed: Any | None = None,
    own: Any | None = None,
    max_iter: int,
    tol: float,
) -> tuple[Any, int, int]:
    """Return the codes C, the steps taken and how many samples did not meet ``tol``.

    ``own`` is the index of the atom that is the sample itself and must not be in its code.  With the nuclear norm all
    samples finish together.
    """
    dtype = X.dtype
    tol = max(tol, 25.0 * float(np.finfo(dtype).eps)) if tol else 0.0
    wide = B.astype(np.float64)
    norm = float(np.linalg.norm(wide) / np.sqrt(min(wide.shape)))
    scale = _STRETCH / norm if norm else 1.0
    wide *= scale
    gram = wide @ wide.T
    gram[np.diag_indices(len(gram))] += 1.0
    inverse = np.linalg.inv(gram).astype(dtype)
    B = wide.astype(dtype)
    target = X * dtype.type(scale)
    # A Python float keeps the precision of arrays.
    weight = float(lam) / scale**2 if fit == "frobenius" else float(lam) / (2.0 * scale)

    joint = penalty == "nuclear"
    nu = _first_penalty(target, len(B), joint).astype(dtype)
    state = _State(np.zeros((len(X), len(B)), dtype), target.copy(), target, nu, observed, own, weight, fit, joint)
    Z, place = np.zeros((len(X), len(B)), dtype), np.arange(len(X))
    step, next_move, left = 0, _LOOK, len(X)
    while place.size and left and step < max_iter:
        step += 1
        look = step % _LOOK == 0 or step == max_iter
        before = []
        thresholds = state.thresholds()
        for part in state.parts():
            C, Y = state.nearest(part, thresholds)
            # A ← (W_c + W_y Bᵀ) (I + B Bᵀ)⁻¹ with W = c - δ = 2 c - s
            A = (2.0 * C - state.S_c[part] + (2.0 * Y - state.S_y[part]) @ B.T) @ inverse
            A_B = A @ B
            state.S_c[part] += dtype.type(_RELAXATION) * (A - C)
            state.S_y[part] += dtype.type(_RELAXATION) * (A_B - Y)
            if look:
                before.append((C, Y, A, A_B))
        if not look:
            continue
        thresholds = state.thresholds()
        lengths = [state.lengths(*of, part, thresholds) for of, part in zip(before, state.parts(), strict=True)]
        squares = np.concatenate(lengths, axis=1)
        primal, dual, primal_scale, dual_scale = np.sqrt(squares.sum(axis=1, keepdims=True) if joint else squares)
        done = (primal <= tol * primal_scale) & (dual <= tol * np.maximum(dual_scale, 1e-2 * primal_scale))
        left = 0 if done.all() else len(X) if joint else int((~done).sum())
        if step >= next_move and left:
            next_move = 2 * step
            ratio = (primal * dual_scale + 1e-30) / (dual * primal_scale + 1e-30)
            leap = np.clip(np.sqrt(ratio), 1.0 / 16.0, 16.0)
            leap[done | ((ratio < _UNBALANCED) & (ratio > 1.0 / _UNBALANCED))] = 1.0
            state.move(leap[:, None].astype(dtype), thresholds)
        if not joint and done.any():  # at once: its code must not depend on the other samples
            Z[place[done]] = state.codes()[done]
            place = place[~done]
            state.keep(~done)
    if place.size:
        Z[place] = state.codes()
    return Z, step, left


@dataclass
class _State:
    """The unfinished samples; s = a + δ for the codes and for what they represent."""

    S_c: Any
    S_y: Any
    target: Any
    nu: Any
    observed: Any | None
    own: Any | None
    weight: float
    fit: str
    joint: bool

    def parts(self) -> list[slice]:
        """Cut the samples into blocks that fit in the cache."""
        rows = max(_ENTRIES // max(self.S_c.shape[1], self.S_y.shape[1]), 64)
        return [slice(start, start + rows) for start in range(0, len(self.S_c), rows)]

    def thresholds(self) -> Any:
        """Return what maps S_c to C: a matrix to multiply by, or bounds of entries."""
        if not self.joint:
            return 1.0 / self.nu
        gram = np.zeros((self.S_c.shape[1],) * 2)
        for part in self.parts():
            gram += self.S_c[part].T @ self.S_c[part]
        return _shrinkage(gram, 1.0 / float(self.nu[0, 0])).astype(self.S_c.dtype)

    def nearest(self, part: slice, thresholds: Any) -> tuple[Any, Any]:
        """Return C and Y of a block: the proximal points of its states."""
        S, target = self.S_y[part], self.target[part]
        observed = None if self.observed is None else self.observed[part]
        weight = self.weight / (self.nu if self.joint else self.nu[part])
        Y = _towards(S, target, weight, self.fit, observed)
        S = self.S_c[part]
        if self.joint:
            return S @ thresholds, Y
        C = S - np.clip(S, -thresholds[part], thresholds[part])
        if self.own is not None:
            C[np.arange(len(C)), self.own[part]] = 0.0
        return C, Y

    def lengths(self, C: Any, Y: Any, A: Any, A_B: Any, part: slice, thresholds: Any) -> Any:
        """Return the squared primal and dual residuals of a block, and their squared scales, (4, rows)."""
        C_new, Y_new = self.nearest(part, thresholds)
        pairs = (
            (A - C_new, A_B - Y_new),
            (C_new - C, Y_new - Y),
            (C_new, Y_new),
            (self.S_c[part] - C_new, self.S_y[part] - Y_new),
        )
        return np.stack([sum(np.einsum("ij,ij->i", m, m, dtype=np.float64) for m in pair) for pair in pairs])

    def move(self, leap: Any, thresholds: Any) -> None:
        """Multiply penalties by ``leap``; ν δ stays the same."""
        for part in self.parts():
            C, Y = self.nearest(part, thresholds)
            by = leap if self.joint else leap[part]
            self.S_c[part] = C + (self.S_c[part] - C) / by
            self.S_y[part] = Y + (self.S_y[part] - Y) / by
        self.nu = self.nu * leap

    def codes(self) -> Any:
        thresholds = self.thresholds()
        return np.concatenate([self.nearest(part, thresholds)[0] for part in self.parts()])

    def keep(self, stay: Any) -> None:
        self.S_c, self.S_y, self.target, self.nu = self.S_c[stay], self.S_y[stay], self.target[stay], self.nu[stay]
        self.observed = None if self.observed is None else self.observed[stay]
        self.own = None if self.own is None else self.own[stay]


def _shrinkage(gram: Any, threshold: float) -> Any:
    """Return the matrix that thresholds the singular values of S (B.12) from the right, from Sᵀ S.

    S = U diag(σ) Vᵀ becomes U diag(max(σ - threshold, 0)) Vᵀ = S V diag(max(1 - threshold / σ, 0)) Vᵀ.
    """
    squares, V = np.linalg.eigh(gram)
    sigma = np.sqrt(np.maximum(squares, 0.0))
    kept = sigma > threshold
    V = V[:, kept]
    return (V * (1.0 - threshold / sigma[kept])) @ V.T


def _first_penalty(target: Any, n: int, joint: bool) -> Any:
    """Guess ν, the ratio of dual and primal lengths: codes are about as long as scaled samples."""
    squares = np.einsum("ij,ij->i", target, target, dtype=np.float64)[:, None]
    if joint:  # singular values of the dual are within 1
        squares = squares.sum(keepdims=True)
    length = np.sqrt(squares)
    return np.sqrt(n) / np.where(length > 0, length, 1.0)


def _towards(S: Any, target: Any, weight: Any, fit: str, observed: Any | None) -> Any:
    """Return the Y that is near S and fits the target; S where nothing was observed."""
    if fit == "frobenius":
        # (s + w x) / (1 + w)
        share = weight / (1.0 + weight)
        return S + (share if observed is None else share * observed) * (target - S)
    R = S - target if observed is None else (S - target) * observed
    length = np.sqrt(np.einsum("ij,ij->i", R, R))[:, None]
    return S - R * np.minimum(weight / np.where(length > 0, length, 1.0), 1.0)
