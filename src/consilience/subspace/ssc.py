"""Sparse representation: every sample as a lasso regression on the dictionary.

    min_Z  ‖Z‖₁ + λ/2 ‖X - Z B‖_F²                                                        (2.15)

and with B = X the batch method (2.9): z_ii = 0, and codes that sum to one when the subspaces are affine.  Samples are
rows here, columns in the thesis.  ADMM (B.4)-(B.7) on ½λ‖x - Bᵀ a‖² + ‖c‖₁ with a = c and scaled dual δ:

    a ← (λ B Bᵀ + ν I)⁻¹ (λ B x + ν (c - δ)),     c ← T_{1/ν}(a + δ),     δ ← δ + a - c.

Since T_σ(s) + clip(s, ±σ) = s, all of it follows from the one state s = a + δ: δ = clip(s, ±1/ν), c = s - δ and, over-
relaxed by ω, s ← s + ω (a - c).  A step is one matrix product for a block of samples.

One eigendecomposition of B Bᵀ serves every ν.  So each sample has its own ν, a power of two that balances its primal
and dual residuals; samples of the same ν are multiplied together, and those that have met the tolerance leave.  Up to
rounding, the code of a sample does not depend on the others in its block.

====== ============================== ============
symbol name                           shape
====== ============================== ============
X      ``X``, samples                 (N, D)
B      ``B``, dictionary              (n, D)
Z      result of :func:`ssc`, the c   (N, n)
λ, ν   ``lam``, ``nu``                scalar, one per sample
====== ============================== ============

P. A. Traganitis (2019), Section 2.2.1 and Appendix B.1; S. Boyd et al., "Distributed optimization and statistical
learning via the alternating direction method of multipliers", Foundations and Trends in Machine Learning 3 (2011),
Section 3.4; B. Wohlberg, "ADMM penalty parameter selection by residual balancing", arXiv:1704.06209.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from consilience.exceptions import ConvergenceWarning, ParameterError, warn
from consilience.kernels._arrays import Ints
from consilience.subspace.lsr import samples_and_dictionary

__all__ = ["ssc"]

#: Entries of a block of codes, so that the five arrays of a step fit in the cache.
_ENTRIES = 1 << 18
_FEWEST_ROWS = 256
#: Steps between convergence checks.
_LOOK = 10
#: ω; Boyd et al. recommend 1.5 to 1.8.
_RELAXATION = 1.6
#: A penalty changes when one relative residual is this many times the other, by at most 2^_LEAP.
_UNBALANCED = 4.0
_LEAP = 4


def ssc(
    X: Any,
    B: Any | None,
    lam: float,
    *,
    affine: bool = False,
    max_iter: int = 5000,
    tol: float = 1e-4,
    return_n_iter: bool = False,
) -> Any:
    """Return sparse codes of the samples X, (N, D), in the dictionary B, (n, D).

    Parameters
    ----------
    X, B
        ``B=None`` is the batch method: the dictionary is X, without a sample in its own code.  Codes have the precision
        of X.
    lam
        λ; :func:`~consilience.subspace.lsr.default_lam` chooses one.
    affine
        Make the entries of every code sum to one, as (2.9) does for affine subspaces.
    max_iter, tol
        A sample is done when its relative primal and dual residuals are below ``tol``, at least 3e-6 in single
        precision.  A ConvergenceWarning counts samples that are not done after ``max_iter`` steps.
    return_n_iter
        Also return the number of steps of the slowest sample.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.subspace.ssc import ssc
    >>> ssc(np.array([[3.0, 0.1]]), np.eye(2), 1.0, tol=1e-9).round(6)
    array([[2., 0.]])
    """
    if max_iter < 1 or not tol >= 0:
        raise ParameterError(f"max_iter must be ≥ 1 and tol ≥ 0, not {max_iter!r} and {tol!r}")
    batch = B is None
    X, B = samples_and_dictionary(X, B, lam)
    N, n = len(X), len(B)
    solver = _Solver(B, float(lam), affine, max_iter, max(tol, 25.0 * float(np.finfo(X.dtype).eps)) if tol else 0.0)
    Z = np.empty((N, n), X.dtype)
    rows = max(_ENTRIES // n, _FEWEST_ROWS)
    n_iter, left = 0, 0
    for start in range(0, N, rows):
        block = slice(start, start + rows)
        own = np.arange(start, min(start + rows, N)) if batch else None
        Z[block], steps, undone = solver.codes(X[block], own)
        n_iter, left = max(n_iter, steps), left + undone
    if left and tol:
        warn(
            f"{left} of {N} sparse codes did not meet tol={tol:g} in {max_iter} steps; raise max_iter or tol",
            ConvergenceWarning,
        )
    return (Z, n_iter) if return_n_iter else Z


class _Solver:
    """Solver of all blocks: the decomposition of B Bᵀ, and the maps of every penalty used."""

    def __init__(self, B: Any, lam: float, affine: bool, max_iter: int, tol: float) -> None:
        self.B, self.lam, self.affine, self.max_iter, self.tol = B, lam, affine, max_iter, tol
        wide = B.astype(np.float64)
        # B Bᵀ = Q diag(t²) Qᵀ, through the smaller of n × n and D × D
        if B.shape[0] <= B.shape[1]:
            squares, Q = np.linalg.eigh(wide @ wide.T)
            keep = squares > squares[-1] * len(B) * np.finfo(np.float64).eps
            self.squares, self.Q = squares[keep], Q[:, keep]
        else:
            squares, P = np.linalg.eigh(wide.T @ wide)
            keep = squares > squares[-1] * len(B) * np.finfo(np.float64).eps
            self.squares = squares[keep]
            self.Q = (wide @ P[:, keep]) / np.sqrt(self.squares)
        self.low_rank = 2 * self.squares.size < len(B)
        self.thin = self.Q.astype(B.dtype)
        self.by_exponent: dict[int, tuple[Any, Any]] = {}

    def _map(self, exponent: int) -> tuple[Any, Any]:
        """Return ν (λ B Bᵀ + ν I)⁻¹ for ν = 2^exponent, or the scale of its low-rank part; and its row sums."""
        if exponent not in self.by_exponent:
            nu = 2.0**exponent
            shrink = self.lam * self.squares / (self.lam * self.squares + nu)
            ones = np.ones(len(self.B))
            ones -= self.Q @ (shrink * self.Q.sum(axis=0))
            ones /= ones.sum()
            table: Any = shrink
            if not self.low_rank:
                table = (self.Q * -shrink) @ self.Q.T
                table[np.diag_indices(len(table))] += 1.0
            self.by_exponent[exponent] = table.astype(self.B.dtype), ones.astype(self.B.dtype)
        return self.by_exponent[exponent]

    def _solve(self, W: Any, exponent: int) -> Any:
        """Return W ν (λ B Bᵀ + ν I)⁻¹."""
        table, _ = self._map(exponent)
        if not self.low_rank:
            return W @ table
        inner = W @ self.thin
        inner *= table
        return W - inner @ self.thin.T

    def _first_exponents(self, X: Any) -> Ints:
        """Return log2 ν, where ν is about the ratio of the lengths of a dual and a primal solution.

        Entries of the dual ν δ are within ±1; the code of x is taken to be x divided by the mean singular value of B.
        """
        length = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
        mean_square = float(self.squares.mean()) if self.squares.size else 1.0
        guess = np.sqrt(len(self.B) * mean_square) / np.where(length > 0, length, 1.0)
        exponents: Ints = np.rint(np.log2(guess)).astype(np.int64)
        return exponents

    def codes(self, X: Any, own: Ints | None) -> tuple[Any, int, int]:
        """Return the codes of a block, the steps of the slowest sample, and how many did not finish."""
        Z = np.zeros((len(X), len(self.B)), X.dtype)
        place = np.arange(len(X))
        F = X @ (self.lam * self.B).T
        exponent = self._first_exponents(X)
        S = np.zeros_like(F)
        # A finished sample keeps its code, even if it stays in the block.
        finished = np.zeros(len(X), np.bool_)
        step, next_move, order = 0, _LOOK, True
        while place.size and step < self.max_iter:
            if order:
                sort = np.argsort(exponent, kind="stable")
                place, F, S, exponent, finished = place[sort], F[sort], S[sort], exponent[sort], finished[sort]
                own = None if own is None else own[sort]
                cuts = np.flatnonzero(np.diff(exponent, prepend=exponent[0] - 1, append=exponent[-1] + 1))
                parts = [(slice(a, b), int(exponent[a])) for a, b in pairwise(cuts)]
                # λ B x / ν, through the same map
                base = np.concatenate([self._solve(F[part], e) * F.dtype.type(2.0**-e) for part, e in parts])
                nu = np.exp2(exponent)[:, None].astype(F.dtype)
                order = False
            last = min(step + _LOOK, self.max_iter)
            for _ in range(last - step):
                A, C = self._step(S, base, 1.0 / nu, parts, own)
                A -= C
                S += F.dtype.type(_RELAXATION) * A
            step = last
            delta = self._clip(S, 1.0 / nu, own)
            C_new = S - delta
            A += C
            code, dual = _length(C_new), _length(delta)
            primal_residual = _length(A - C_new)
            dual_residual = _length(C_new - C)
            primal_scale = np.maximum(np.maximum(_length(A), code), 1e-2 * dual)
            done = (primal_residual <= self.tol * primal_scale) & (dual_residual <= self.tol * dual)
            Z[place[~finished]] = C_new[~finished]
            finished |= done
            if step >= next_move:  # less and less often, so that the last steps have one penalty and converge
                next_move = 2 * step
                # ν grows if the primal residual is larger
                ratio = (primal_residual * dual + 1e-30) / (dual_residual * primal_scale + 1e-30)
                leap = np.clip(np.rint(0.5 * np.log2(ratio)), -_LEAP, _LEAP).astype(np.int64)
                leap[(ratio < _UNBALANCED) & (ratio > 1.0 / _UNBALANCED)] = 0
                # ν δ stays the same
                S = C_new + delta * np.exp2(-leap)[:, None].astype(F.dtype)
                exponent = exponent + leap
                order = True
            if order or finished.mean() > 0.1:
                stay = ~finished
                place, F, S, exponent, finished = place[stay], F[stay], S[stay], exponent[stay], finished[stay]
                own = None if own is None else own[stay]
                order = True
        return Z, step, int((~finished).sum())

    def _step(self, S: Any, base: Any, bound: Any, parts: list[tuple[slice, int]], own: Ints | None) -> tuple[Any, Any]:
        delta = self._clip(S, bound, own)
        C = S - delta
        delta -= C
        A = base.copy()
        for part, exponent in parts:
            A[part] -= self._solve(delta[part], exponent)
            if self.affine:
                _, ones = self._map(exponent)
                A[part] += (1.0 - A[part].sum(axis=1, keepdims=True)) * ones
        return A, C

    @staticmethod
    def _clip(S: Any, bound: Any, own: Ints | None) -> Any:
        """Return δ, the projection of s; all of s where c must be 0."""
        delta = np.clip(S, -bound, bound)
        if own is not None:
            at = np.arange(len(S))
            delta[at, own] = S[at, own]
        return delta


def _length(rows: Any) -> Any:
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))
