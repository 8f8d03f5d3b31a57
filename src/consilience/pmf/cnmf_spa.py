"""CNMF-SPA: the joint distribution from pairs of variables, without iteration.

Split the variables into S1 and S2.  The pair marginals between them, one block for each pair, are (Ibrahim & Fu,
"Recovering joint PMF from pairwise marginals", eq. (3) and Algorithm 1)

    X̃ = [X_jk]  (j in S1, k in S2)  =  W Hᵀ,     W = [A_j] stacked,   H = [A_k] stacked · diag(λ).

A column of X̃, scaled to sum to one, is the distribution of S1 given z_k = b.  If for every component f there is a
(k, b) that occurs only in f (separability of H), that column is W(:, f), and successive projection finds it.  Then H
follows by nonnegative least squares, and λ by least squares on the simplex.

Of several splits, the one whose W has the smallest condition number κ(W) may be chosen: Theorem 1 bounds the error by
κ²(W).

Errata of the printed algorithm: line 11 takes the rows (n - M - 1) I + 1 : (n - M) I of H, and W Σ = X̃(:, Λ).

====== ============== ==================================
symbol name           shape
====== ============== ==================================
X̃      ``X``          (Σ I_j over S1, Σ I_k over S2)
W      ``W``          (Σ I_j over S1, F)
H      ``H``          (Σ I_k over S2, F)
λ      ``weights``    (F,)
A_n    ``stacked``    (Σ I_n, F), factors stacked
====== ============== ==================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from consilience.exceptions import MethodError, ParameterError
from consilience.factor.nnls import nonnegative_least_squares
from consilience.factor.simplex import minimise_on_simplex
from consilience.factor.spa import spa
from consilience.kernels._arrays import Floats, Ints
from consilience.pmf.pairs import PairMarginals
from consilience.validation import generator, whole

__all__ = ["cnmf_spa", "pseudo_inverse_weights", "simplex_weights"]

#: Random splits that are compared with the fixed one.
_CUTS = 16
#: Most iterations for the weights.
_STEPS = 2000


def cnmf_spa(
    pairs: PairMarginals,
    rank: int,
    *,
    split: Literal["conditioning", "random", "fixed"] | int | Sequence[int] = "conditioning",
    weights: Literal["simplex", "pseudo-inverse"] = "simplex",
    random_state: Any = 0,
) -> tuple[Floats, Floats]:
    """Estimate weights (F,) and stacked factors (Σ I_n, F) from pair marginals.

    Parameters
    ----------
    pairs
        Counts of all pairs.
    rank
        F.  Components beyond the rank of the pair marginals are random.
    split
        ``"fixed"`` (S1 is the first half), ``"random"``, ``"conditioning"``, the number M of first variables that are
        S1, or the variables of S1.
    weights
        λ by :func:`simplex_weights`, or by the ``"pseudo-inverse"`` of line 16.
    random_state
        Seed of random splits, and of components that the pairs do not determine.
    """
    N = len(pairs.sizes)
    rng = generator(random_state)
    if N == 1:
        return _of_one_variable(pairs, rank)
    columns = _conditionals(pairs)
    if isinstance(split, int | np.integer):
        split = range(whole("split", split, N - 1))
    if isinstance(split, str):
        cuts = _cuts(pairs, rank, split, rng)
    else:
        first = np.unique(np.asarray(split, np.int64))
        if not 0 < first.size < N or first[0] < 0 or first[-1] >= N:
            raise ParameterError(f"S1 must be some, not all, of the variables 0 … {N - 1}; got {list(split)}")
        cuts = [first]
    found = [(*_vertices(pairs, columns, first, rank), first) for first in cuts]
    # most components first, then the best conditioned; ties go to the first, the fixed split
    W, _, first = min(found, key=lambda each: (-each[0].shape[1], each[1]))
    W = _filled(pairs, W, first, rank, rng)
    stacked = np.empty((int(pairs.offsets[-1]), rank))
    stacked[pairs.rows_of(first)] = W
    second = np.setdiff1d(np.arange(N), first)
    H = _mixtures(pairs, W, first, second)
    stacked[pairs.rows_of(second)] = _normalised(
        H, [pairs.sizes[k] for k in second], pairs.shares[pairs.rows_of(second)]
    )
    if weights == "pseudo-inverse":
        return pseudo_inverse_weights(pairs, stacked, first, second), stacked
    return simplex_weights(pairs, stacked), stacked


# ---- splits -------------------------------------------------------------------------------------------------


def _cuts(pairs: PairMarginals, rank: int, split: str, rng: np.random.Generator) -> list[Ints]:
    """Return the candidate sets S1, each a sorted array of variables."""
    N = len(pairs.sizes)
    sizes = np.array(pairs.sizes)
    fixed = np.arange((N + 1) // 2)
    drawn = [np.sort(rng.permutation(N)[: (N + 1) // 2]) for _ in range(1 if split == "random" else _CUTS)]
    if split == "fixed":
        return [fixed]
    if split == "random":
        return drawn
    if split != "conditioning":
        raise MethodError(f"split must be fixed, random or conditioning, not {split!r}")
    # alphabets sorted by size and dealt in turn, so that both sides get large ones
    dealt = np.sort(np.argsort(-sizes, kind="stable")[::2])
    cuts = {tuple(cut.tolist()): cut for cut in (fixed, dealt, *drawn)}
    return list(cuts.values())


# ---- W ------------------------------------------------------------------------------------------------------


def _conditionals(pairs: PairMarginals) -> Floats:
    """Return Pr(z_j = a | z_k = b) for all pairs, (J, J): the columns of each block scaled to sum to one.

    All blocks of a column of X̃ are the same mixture of W's columns.  Scaling them one by one keeps this true if they
    come from different rows.
    """
    first, variable = pairs.offsets[:-1], np.repeat(np.arange(len(pairs.sizes)), pairs.sizes)
    total = np.add.reduceat(pairs.counts, first, axis=0)[variable]
    conditionals: Floats = np.where(total > 0, pairs.counts / np.where(total > 0, total, 1.0), pairs.shares[:, None])
    return conditionals


def _vertices(pairs: PairMarginals, columns: Floats, first: Ints, rank: int) -> tuple[Floats, float]:
    """Return the columns that successive projection picks, and their condition number."""
    rows, second = pairs.rows_of(first), np.setdiff1d(np.arange(len(pairs.sizes)), first)
    within = pairs.rows_of(second)
    within = within[pairs.counts[np.ix_(rows, within)].any(axis=0)]
    if not within.size:
        return np.empty((rows.size, 0)), np.inf
    X = columns[np.ix_(rows, within)]
    W = X[:, spa(X, rank)]
    values = np.linalg.svd(W, compute_uv=False)
    return W, float(values[0] / max(values[-1], 1e-300))


def _filled(pairs: PairMarginals, W: Floats, first: Ints, rank: int, rng: np.random.Generator) -> Floats:
    """Add random columns if the pairs gave fewer than F: half category shares, half random."""
    lacking = rank - W.shape[1]
    if lacking <= 0:
        return W
    chance = np.concatenate([rng.dirichlet(np.ones(pairs.sizes[j]), lacking).T for j in first])
    return np.concatenate([W, 0.5 * (chance + pairs.shares[pairs.rows_of(first)][:, None])], axis=1)


# ---- H and λ ------------------------------------------------------------------------------------------------


def _mixtures(pairs: PairMarginals, W: Floats, first: Ints, second: Ints) -> Floats:
    """Return argmin ‖X̃ - W Hᵀ‖ over H ≥ 0 (line 9), (Σ I_k, F)."""
    return nonnegative_least_squares(W, _between(pairs, first, second)).T


def _normalised(H: Floats, sizes: Sequence[int], shares: Floats) -> Floats:
    """Scale each variable's columns to sum to one (line 12); a column of zeros becomes the shares."""
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    total = np.add.reduceat(H, first, axis=0)[np.repeat(np.arange(len(sizes)), sizes)]
    factors: Floats = np.where(total > 0, H / np.where(total > 0, total, 1.0), shares[:, None])
    return factors


def simplex_weights(pairs: PairMarginals, stacked: Floats) -> Floats:
    """Return the λ on the simplex that minimises Σ S_jk ‖X_jk - A_j diag(λ) A_kᵀ‖² over all pairs.

    Unlike line 16 of Algorithm 1 (:func:`pseudo_inverse_weights`), λ stays on the simplex, pairs are weighted by their
    number of rows S_jk, and all pairs are used.

    The objective is λᵀ Q λ - 2 bᵀ λ, in F variables.
    """
    offsets, N, F = pairs.offsets, len(pairs.sizes), stacked.shape[1]
    totals = pairs.totals
    factors = [stacked[offsets[n] : offsets[n + 1]] for n in range(N)]
    grams = np.stack([factor.T @ factor for factor in factors])
    # vec(A_j D A_kᵀ) = (A_k ⊙ A_j) λ, and the Gram matrix of a Khatri-Rao product is the product of the Gram matrices
    Q = 0.5 * np.einsum("jk,jfg,kfg->fg", totals, grams, grams, optimize=True)
    first = offsets[:-1]
    by_variable = np.add.reduceat(stacked * (pairs.counts @ stacked), first, axis=0)
    b = 0.5 * by_variable.sum(axis=0)
    scale = float(np.linalg.norm(Q, 2))
    uniform = np.full(F, 1.0 / F)
    if scale <= 0:
        return uniform
    return minimise_on_simplex(Q / scale, b / scale, uniform, 1.0, _STEPS, 1e-15)[0]


def pseudo_inverse_weights(pairs: PairMarginals, stacked: Floats, first: Ints, second: Ints) -> Floats:
    """Return λ = (H ⊙ W)⁺ vec(X̃), line 16 of Algorithm 1; negative entries become zero, and the sum one."""
    W, H = stacked[pairs.rows_of(first)], stacked[pairs.rows_of(second)]
    X = _between(pairs, first, second)
    # the Gram matrix of a Khatri-Rao product is the product of the Gram matrices
    found = np.linalg.pinv((H.T @ H) * (W.T @ W)) @ np.einsum("af,ab,bf->f", W, X, H)
    weights = np.maximum(found, 0.0)
    total = float(weights.sum())
    return weights / total if total > 0 else np.full(weights.size, 1.0 / weights.size)


def _between(pairs: PairMarginals, first: Ints, second: Ints) -> Floats:
    """Return X̃, the pair marginals between S1 and S2."""
    return np.block([[pairs.block(j, k) for k in second.tolist()] for j in first.tolist()])


def _of_one_variable(pairs: PairMarginals, rank: int) -> tuple[Floats, Floats]:
    """Return components that all are the distribution of the only variable."""
    return np.full(rank, 1.0 / rank), np.repeat(pairs.shares[:, None], rank, axis=1)
