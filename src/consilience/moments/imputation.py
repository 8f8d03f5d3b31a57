"""Imputation of missing blocks of X = H Hᵀ (Ibrahim & Fu 2022, Section 3.1, 3.2 and App. B).

X holds R[m, j] = A_m D A_jᵀ for all pairs of annotators (eq. (6)).  Blocks of pairs without common items are missing,
and the diagonal ones always are.  There are two ways to complete it:

* *robust*: factors U_m with R[m, j] ≈ U_m U_jᵀ on the observed pairs (9)-(11), so that U stacked is a square root of
  the completed X, which is never formed;
* *designated*: along observed pairs (7)-(8), R[m, n] = R[m, r] R[ℓ, r]⁻¹ R[ℓ, n].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilience.exceptions import MethodError
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.moments.cooccurrence import CoOccurrences, SharedItems
from consilience.moments.graph import groups

__all__ = ["Completion", "RobustFactors", "block_matrix", "designated", "random_factors", "robust"]

#: Greatest number of rows of the block matrix (0.5 GB).
_MOST_ROWS = 8000
#: Paths of three pairs that are followed, approximately: about a second.
_MOST_PATHS = 1 << 23


@dataclass(frozen=True)
class RobustFactors:
    """Square root of the completed block matrix."""

    factors: Floats  #: U_m, (M, K, K)
    weights: Floats  #: weight of each observed block, (P,)
    converged: bool
    history: list[float] = field(default_factory=list)  #: objective after every sweep


def robust(
    pairs: CoOccurrences,
    start: Floats,
    *,
    reweigh: bool = True,
    count_weights: bool = True,
    xi: float | None = None,
    radius: float = 1.0,
    max_iter: int = 1000,
    tol: float = 1e-7,
    callback: Callable[[int, float], Any] | None = None,
) -> RobustFactors:
    """Fit factors to the observed blocks by iteratively reweighted least squares, eqs (9)-(11).

    With e = S ‖R[m, j] - U_m U_jᵀ‖² (S = 1 without ``count_weights``), minimise Σ √(e + ξ) subject to
    ‖U_m‖_F ≤ ``radius``.  The sampling error of a block makes e about one, so ξ = 1 treats deviations of that size as
    noise (squared) and larger ones as outliers (absolute).

    Parameters
    ----------
    pairs
        Observed blocks.
    start
        Initial factors, (M, K, K).  Those of annotators who share no item with anybody are not changed.
    reweigh
        False fits plain least squares, all blocks weighted alike: the paper's ``w = 1``.
    count_weights
        Weight a block by its number of items; not if ``reweigh`` is False.
    xi
        ξ; 1 with count weights, the paper's small number (1e-6) without.
    radius
        Bound on the factors' norms; ‖A_m D^(1/2)‖_F ≤ 1 always.
    max_iter, tol
        Sweeps over all annotators, and the relative change of the objective that ends them (0: run all).
    callback
        Called after every sweep with its number and the objective; ends the fit by returning True.
    """
    from consilience.kernels import imputation as kernels

    around = pairs.neighbours
    totals = pairs.totals
    scale = totals if count_weights and reweigh else np.ones(len(pairs))
    xi = (1.0 if count_weights else 1e-6) if xi is None else xi
    factors = np.array(start, np.float64, order="C")
    weights = np.empty(len(pairs))

    def renew() -> float:
        return kernels.reweigh(pairs.who, pairs.counts, totals, scale, factors, xi, reweigh, weights)

    history = [renew()]
    converged = len(pairs) == 0
    while not converged and len(history) <= max_iter:
        kernels.sweep_factors(*around, pairs.counts, totals, weights, factors, radius, 1e-12)
        history.append(renew())
        if callback is not None and callback(len(history) - 1, history[-1]) is True:
            break
        converged = tol > 0 and history[-2] - history[-1] <= tol * abs(history[-1])
    return RobustFactors(factors, weights, converged, history[1:])


def random_factors(rng: np.random.Generator, n_annotators: int, n_classes: int) -> Floats:
    """Draw initial factors A_m D^(1/2): annotators who are right half the time, with random errors."""
    M, K = n_annotators, n_classes
    wrong = rng.dirichlet(np.ones(K), size=(M, K)).transpose(0, 2, 1)
    factors: Floats = (0.5 * np.eye(K) + 0.5 * wrong) / np.sqrt(K)
    return factors


@dataclass(frozen=True)
class Completion:
    """The block matrix X, completed where possible."""

    matrix: Floats  #: (M K, M K), zero where a block is still missing
    known: Bools  #: (M, M), which blocks are observed or imputed
    observed: float  #: share of the off-diagonal blocks that were observed
    imputed: float  #: share of the missing blocks, diagonal ones included, that were imputed


def block_matrix(pairs: CoOccurrences) -> Completion:
    """Return X, eq. (6), with zeros in place of missing blocks."""
    M, K = pairs.n_annotators, pairs.n_classes
    if M * K > _MOST_ROWS:
        raise MethodError(
            f"the matrix of all pairs of {M} annotators with {K} classes would be too large; "
            "use rob-symnmf, which needs the observed pairs only"
        )
    X, known = np.zeros((M, K, M, K)), np.zeros((M, M), np.bool_)
    first, second = pairs.who.T
    R = pairs.frequencies
    X[first, :, second, :] = R
    X[second, :, first, :] = R.transpose(0, 2, 1)
    known[first, second] = known[second, first] = True
    return Completion(X.reshape(M * K, M * K), known, 1.0 - pairs.missing, 0.0)


def designated(pairs: CoOccurrences, *, through: Sequence[int] | None = None, rounds: int = 3) -> Completion:
    """Impute missing blocks along observed ones, eqs (7)-(8).

    For a missing (m, n), every ℓ and r with R[m, r], R[ℓ, r] and R[ℓ, n] observed gives the estimate

        R[m, n] = R[m, r] R[ℓ, r]⁻¹ R[ℓ, n],

    which is (8): U_m U_ℓ⁻¹ of the singular vectors (7) is R[m, r] R[ℓ, r]⁻¹.  Estimates are averaged with weights that
    fall with their sampling error (to first order, from the counts and R[ℓ, r]⁻¹); the diagonal blocks are m = n.
    Blocks that are still missing are tried again in the next round, through blocks imputed before.

    Parameters
    ----------
    pairs
        Observed blocks.
    through
        Codes of designated annotators, to which ℓ and r are restricted; all by default.
    rounds
        Number of rounds.
    """
    from consilience.kernels.imputation import follow_paths

    M, K = pairs.n_annotators, pairs.n_classes
    done = block_matrix(pairs)
    X, known = done.matrix.reshape(M, K, M, K), done.known.copy()
    # the sampling error of a block, E‖R̂ - R‖² ≤ 1 / S; imputed blocks have the error of their imputation
    noise = np.full((M, M), np.inf)
    noise[pairs.who[:, 0], pairs.who[:, 1]] = 1.0 / np.maximum(pairs.totals, 1e-300)
    reachable = np.zeros((M, M), np.bool_)
    for group in groups(pairs):
        if group.determined:
            reachable[np.ix_(group.members, group.members)] = True
    missing = left = int(M * (M + 1) // 2 - len(pairs))
    observed = pairs.frequencies
    inverse, strength = _inverses(observed, 1.0 / np.maximum(pairs.totals, 1e-300))
    links = _best_links(pairs.neighbours, strength, through)
    for _ in range(rounds):
        wanted = ~known & reachable
        if not wanted.any():
            break
        # the first step may be along what was imputed before; the others are observed
        first, second = np.nonzero(np.triu(known, 1))
        there = CoOccurrences(
            np.stack([first, second], axis=1), X[first, :, second, :], pairs.annotators, pairs.classes
        )
        sums, weights = follow_paths(
            there.neighbours,
            there.counts,
            noise[first, second],
            pairs.neighbours,
            observed,
            1.0 / np.maximum(pairs.totals, 1e-300),
            inverse,
            links,
            wanted,
        )
        # R[n, m] is R[m, n] transposed: both directions count
        sums += sums.transpose(1, 0, 3, 2)
        weights += weights.T
        m, n = np.nonzero(np.triu(weights > 0))
        if m.size == 0:
            break
        # a block of probabilities is nonnegative and sums to one
        R = np.maximum(sums[m, n] / weights[m, n][:, None, None], 0.0)
        total = R.sum(axis=(1, 2))
        m, n, R = m[total > 0], n[total > 0], R[total > 0] / total[total > 0][:, None, None]
        noise[m, n] = 1.0 / np.sqrt(weights[m, n])
        X[m, :, n, :] = R
        X[n, :, m, :] = R.transpose(0, 2, 1)
        known[m, n] = known[n, m] = True
        left -= m.size
    share = 1.0 - left / missing if missing else 1.0
    return Completion(X.reshape(M * K, M * K), known, done.observed, share)


def _inverses(blocks: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return the inverse of every block, and the ratio of its smallest singular value to its sampling error.

    Singular blocks, as of few labels, have strength zero, and no path leads through them.  If all are singular,
    singular values σ below the sampling error δ are damped instead, 1/σ → σ / (σ² + δ²), and the largest one is the
    strength.
    """
    left, singular, right = np.linalg.svd(blocks)
    lost, error = singular[:, -1] <= 1e-12, np.sqrt(noise)
    reciprocal, strength = 1.0 / np.where(lost[:, None], 1.0, singular), np.where(lost, 0.0, singular[:, -1] / error)
    if lost.all():
        reciprocal, strength = singular / (singular**2 + noise[:, None]), singular[:, 0] / error
    return np.ascontiguousarray(np.einsum("pji,pj,pkj->pik", right, reciprocal, left)), strength


def _best_links(around: SharedItems, strength: Floats, through: Sequence[int] | None) -> Ints:
    """Choose, for every r, the ℓ whose R[ℓ, r] has the greatest strength, as many as time allows.

    Returns positions among the neighbours, (M, links), -1 where there is none.
    """
    indptr, neighbour, pair = around
    M = indptr.size - 1
    degree = np.diff(indptr)
    quality = strength[pair]
    allowed = quality > 0
    if through is not None:
        chosen = np.zeros(M, np.bool_)
        chosen[list(through)] = True
        allowed &= chosen[neighbour] & np.repeat(chosen, degree)
    row = np.repeat(np.arange(M), degree)
    order = np.lexsort((-quality, ~allowed, row))
    rank = np.arange(order.size) - np.repeat(indptr[:-1], degree)
    # paths: Σ over (m, r) of links · degree of ℓ
    most = int(np.clip(_MOST_PATHS / max(1.0, degree.sum() * degree.mean()), 4, max(int(degree.max(initial=1)), 4)))
    links = np.full((M, most), -1, np.int64)
    take = (rank < most) & allowed[order]
    links[row[order][take], rank[take]] = order[take]
    return links
