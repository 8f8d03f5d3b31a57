"""Strength of the pair blocks, next to their sampling error, and whether agreement exceeds chance.

* Sampling limits the accuracy of a block.  With S common items and probability 1 - δ (Ibrahim & Fu 2022, eq. (20)),

      ‖R̂[m, j] - R[m, j]‖ ≤ (1 + √log(1/δ)) / √S,

  which also bounds the error of its singular values.
* Annotators who never look at the items have independent labels: blocks ``R[m, j] = r_m r_jᵀ``, up to sampling.  In
  general the rank of the blocks is that of H: a model with K classes needs K classes that annotators distinguish.

====== ================ =======================================================================
symbol name             meaning
====== ================ =======================================================================
S      ``totals``       items in common, for each pair
B_m    ``tables[m]``    labels of m against the majority of the others on the same items, (K, K)
====== ================ =======================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.constants import BLOCK_ERRORS, DELTA, MOST_BLOCKS, MOST_TESTED
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.votes import vote_counts
from consilience.moments.cooccurrence import CoOccurrences

__all__ = [
    "BlockStrength",
    "Contrast",
    "agreement_in_pairs",
    "block_strength",
    "chance_of_pairs",
    "related_pairs",
    "sampling_error",
]


def sampling_error(totals: Any, delta: float = DELTA) -> Floats:
    """Return the bound of eq. (20) on the error of blocks with these numbers of common items."""
    # φ = (1 + √log(1/δ)) / √S                                          (Ibrahim & Fu 2022, eq. (20))
    S = np.asarray(totals, np.float64)
    error: Floats = np.divide(1.0 + np.sqrt(np.log(1.0 / delta)), np.sqrt(S), out=np.full(S.shape, np.inf), where=S > 0)
    return error


class Contrast(NamedTuple):
    """The class that annotators distinguish the least, and the one that they say instead."""

    classes: tuple[int, int]
    correlation: float  #: smallest canonical correlation of one annotator's labels and the majority of the others
    items: float  #: the items behind it

    @property
    def chance(self) -> float:
        """Probability of such a correlation if annotators do not distinguish the two."""
        # S ρ² has a χ² distribution with one degree of freedom when the last canonical correlation is zero (Bartlett)
        return float(_tail(self.items * self.correlation**2, 1.0, 2.0))

    @property
    def at_most(self) -> float:
        """Upper bound of the correlation."""
        return self.correlation + BLOCK_ERRORS / float(np.sqrt(max(self.items, 1.0)))


@dataclass(frozen=True, eq=False)
class BlockStrength:
    """Strength of the blocks, next to their sampling error."""

    common: Ints  #: items that each annotator shares with somebody, (M,)
    smallest: Floats  #: smallest singular value of B_m, (M,)
    condition: Floats  #: condition number of B_m; infinite where it is singular, (M,)
    error: Floats  #: sampling error of B_m by eq. (20), at most 1, (M,)
    chance: Floats  #: p-value of independence from the others, (M,)
    crowd_chance: float  #: the same for the whole crowd
    contrast: Contrast | None  #: the classes that are distinguished the least; None with fewer than three
    n_blocks: int  #: observed blocks
    pair: Ints  #: blocks whose singular values were computed
    pair_smallest: Floats  #: the smallest singular value of each
    pair_condition: Floats  #: its condition number
    pair_error: Floats  #: its sampling error by eq. (20)


def block_strength(answers: Annotations, pairs: CoOccurrences) -> BlockStrength:
    """Measure the blocks of pairs, and of each annotator with all others together."""
    tables, common = _against_the_others(answers)
    totals = tables.sum(axis=(1, 2))
    smallest, condition = _extremes(tables / np.maximum(totals, 1.0)[:, None, None])
    chosen = _best_observed(pairs)
    pair_smallest, pair_condition = _extremes(pairs.counts[chosen] / pairs.totals[chosen, None, None])
    return BlockStrength(
        common=common,
        smallest=smallest,
        condition=condition,
        error=np.minimum(sampling_error(totals), 1.0),
        chance=_chance_of_each(tables),
        crowd_chance=_chance_of_crowd(pairs, _pooled(answers, tables)),
        contrast=_contrast(_pooled(answers, tables)),
        n_blocks=len(pairs),
        pair=chosen,
        pair_smallest=pair_smallest,
        pair_condition=pair_condition,
        pair_error=np.minimum(sampling_error(pairs.totals[chosen]), 1.0),
    )


def _against_the_others(answers: Annotations) -> tuple[Floats, Ints]:
    """Return B_m in counts, (M, K, K), and m's common items, (M,).

    The majority of the others is one more annotator, independent of m given the truth.  Ties do not count.
    """
    a = answers
    M, K, lengths = a.n_annotators, a.n_classes, a.labels_per_item
    cells = np.zeros(M * K * K, np.int64)
    common = np.zeros(M, np.int64)
    step = max(1, (1 << 20) // K)
    for first in range(0, a.n_labels, step):
        labels = slice(first, min(first + step, a.n_labels))
        item = np.searchsorted(a.indptr, np.arange(labels.start, labels.stop), side="right") - 1
        m, i = a.annotator[labels].astype(np.int64), a.label[labels].astype(np.int64)
        inside = slice(item[0], item[-1] + 2)
        ends = a.indptr[inside]
        votes = vote_counts(ends - ends[0], a.label[ends[0] : ends[-1]], K)
        rest = votes[item - item[0]]
        rest[np.arange(item.size), i] -= 1.0
        most = rest.argmax(axis=1)
        top = rest[np.arange(item.size), most]
        clear = (top > 0) & ((rest == top[:, None]).sum(axis=1) == 1)
        cells += np.bincount(((m * K + i) * K + most)[clear], minlength=M * K * K)
        common += np.bincount(m[lengths[item] > 1], minlength=M)
    return cells.reshape(M, K, K).astype(np.float64), common


def _extremes(blocks: Floats) -> tuple[Floats, Floats]:
    """Return the smallest singular value and the condition number of each block; infinite where it is singular."""
    if not len(blocks):
        return np.empty(0), np.empty(0)
    low, condition = np.zeros(len(blocks)), np.full(len(blocks), np.inf)
    # a class that nobody used makes a block singular: with thousands of classes that saves minutes
    full = np.flatnonzero(np.all(np.any(blocks, axis=1), axis=1) & np.all(np.any(blocks, axis=2), axis=1))
    values = np.linalg.svd(blocks[full], compute_uv=False)
    top, least = values[:, 0], values[:, -1]
    clear = least > 1e-12 * top
    low[full[clear]] = least[clear]
    condition[full[clear]] = (top / np.where(clear, least, 1.0))[clear]
    return low, condition


def _best_observed(pairs: CoOccurrences) -> Ints:
    """Choose the blocks with the most common items, and the best of every annotator."""
    P, most = len(pairs), max(200, min(MOST_BLOCKS, 10**8 // pairs.n_classes**3))
    if most >= P:
        return np.arange(P)
    # items first, then the place, so that no two are the same
    rank = pairs.totals.astype(np.int64) * P + np.arange(P)
    best = np.full(pairs.n_annotators, -1, np.int64)
    for column in pairs.who.T:
        np.maximum.at(best, column, rank)
    chosen = np.argpartition(rank, P - most)[P - most :]
    return np.union1d(chosen, best[best >= 0] % P)


# ---- is it more than chance -------------------------------------------------------------------------------------


def _margins(tables: Floats) -> tuple[Floats, Floats]:
    """Return the sums of the rows and of the columns of each table."""
    # where these axes are short, einsum is four times as fast as sum
    return np.einsum("pij->pi", tables), np.einsum("pij->pj", tables)


def _chi_square(tables: Floats) -> tuple[Floats, Floats, Floats]:
    """Return Pearson's statistic of independence for each table, and its exact mean and variance given the margins.

    Zero for tables that are too small.  For S items and r × c used labels (Dawson 1954):

        mean = S (r - 1)(c - 1) / (S - 1),
        variance = 2 S (v₁ - w₁)(v₂ - w₂) / (S - 3) + S² w₁ w₂ / (S - 1),
        v₁ = (r - 1)(S - r) / (S - 1),   w₁ = (Σ_i S / a_i - r²) / (S - 2).
    """
    a, b = _margins(tables)
    S = a.sum(axis=1)
    r, c = (a > 0).sum(axis=1), (b > 0).sum(axis=1)
    fit = (S >= 4) & (r > 1) & (c > 1)
    N = np.where(fit, S, 4.0)
    # X² = S (Σ n_ij² / (a_i b_j) - 1)
    over_a, over_b = (np.divide(1.0, m, out=np.zeros_like(m), where=m > 0) for m in (a, b))
    statistic = np.where(fit, N * (np.einsum("pij,pij,pi,pj->p", tables, tables, over_a, over_b) - 1.0), 0.0)
    mean = np.where(fit, N * (r - 1) * (c - 1) / (N - 1), 0.0)
    (v1, w1), (v2, w2) = (
        (
            (k - 1) * (N - k) / (N - 1),
            (N * over.sum(axis=1) - k * k) / (N - 2),
        )
        for k, over in ((r, over_a), (c, over_b))
    )
    variance = 2 * N * (v1 - w1) * (v2 - w2) / (N - 3) + N * N * w1 * w2 / (N - 1)
    return statistic, mean, np.where(fit, np.maximum(variance, 0.0), 0.0)


def _agreement(tables: Floats) -> tuple[Floats, Floats]:
    """Return the agreements beyond chance in each table, and their exact variance given the margins.

    A permutation of one annotator's labels has the variance Σ_ij a_i b_j d_ij² / (S - 1), where d is the
    identity matrix centred over both annotators' labels.
    """
    K = tables.shape[1]
    a, b = _margins(tables)
    S = a.sum(axis=1, keepdims=True)
    fit = S[:, 0] >= 2
    S = np.maximum(S, 2.0)
    both = (a * b).sum(axis=1, keepdims=True) / S
    excess = np.einsum("pkk->p", tables) - both[:, 0]
    centred = np.eye(K) - (b / S)[:, :, None] - (a / S)[:, None, :] + (both / S)[:, :, None]
    variance = np.einsum("pi,pj,pij,pij->p", a, b, centred, centred) / (S[:, 0] - 1)
    return np.where(fit, excess, 0.0), np.where(fit, variance, 0.0)


def _tail(statistic: Any, mean: Any, variance: Any) -> Floats:
    """Return the probability that a scaled chi-square with this mean and variance exceeds the statistic."""
    from scipy.special import gammaincc

    # c χ²_f has the mean c f and the variance 2 c² f.  Its tail is a gamma function's: scipy.stats is slow to load.
    statistic, mean, variance = (np.asarray(x, np.float64) for x in (statistic, mean, variance))
    known = (mean > 0) & (variance > 1e-9 * mean)
    scale = np.where(known, variance, 2.0) / np.where(known, 2 * mean, 2.0)
    freedom = np.where(known, mean, 1.0) / scale
    return np.where(known, gammaincc(freedom / 2, np.maximum(statistic, 0.0) / scale / 2), 1.0)


def _two_sided(excess: Any, variance: Any) -> Floats:
    from scipy.special import ndtr

    excess, variance = np.asarray(excess, np.float64), np.asarray(variance, np.float64)
    known = variance > 1e-12
    return np.where(known, 2 * ndtr(-np.abs(excess) / np.sqrt(np.where(known, variance, 1.0))), 1.0)


def _chance_of_each(tables: Floats) -> Floats:
    """Return each annotator's p-value of independence from the others: twice the smaller one of two tests."""
    chance: Floats = np.minimum(1.0, 2 * np.minimum(_tail(*_chi_square(tables)), _two_sided(*_agreement(tables))))
    return chance


def _tested(pairs: CoOccurrences, which: Any) -> tuple[Ints, Floats]:
    """Return these pairs, or those of them with the most common items, and their tables."""
    where = np.arange(len(pairs))[which]
    most = max(1, MOST_TESTED // pairs.n_classes**2)
    if where.size > most:
        where = np.sort(where[np.argpartition(-pairs.totals[where], most)[:most]])
    return where, pairs.counts[where].astype(np.float64)


def agreement_in_pairs(pairs: CoOccurrences, which: Any = slice(None)) -> tuple[float, float]:
    """Return the agreement beyond chance of these pairs, in standard errors of one pair of labels, and their number."""
    tables = _tested(pairs, which)[1]
    (excess, variance), S = (float(part.sum()) for part in _agreement(tables)), float(tables.sum())
    return (excess / float(np.sqrt(S * variance)) if variance > 0 else 0.0), S


def related_pairs(pairs: CoOccurrences, level: float) -> Ints:
    """Return the annotators of pairs that are surely related, with this probability of any such pair by chance."""
    where, tables = _tested(pairs, slice(None))
    sure = where[_chance_of_each(tables) < level / max(where.size, 1)] if where.size else where
    return np.unique(pairs.who[sure])


def chance_of_pairs(pairs: CoOccurrences, which: Any = slice(None)) -> float:
    """Return the p-value of independence of all annotators in these pairs.

    The tables of independent annotators are uncorrelated, so means and variances add up over the pairs.  Of very many
    pairs, those with the most common items are tested.
    """
    tables = _tested(pairs, which)[1]
    sums = [float(part.sum()) for part in (*_chi_square(tables), *_agreement(tables))]
    return min(1.0, 2 * float(min(_tail(*sums[:3]), _two_sided(*sums[3:]))))


def _pooled(answers: Annotations, tables: Floats) -> Floats:
    """Return all labels against the majority of the others, (K, K), scaled so that each item counts once."""
    lengths = answers.labels_per_item[answers.labels_per_item > 1].astype(np.float64)
    whole: Floats = tables.sum(axis=0) * (lengths.sum() / max(float(lengths @ lengths), 1.0))
    return whole


def _chance_of_crowd(pairs: CoOccurrences, whole: Floats) -> float:
    by_pair = chance_of_pairs(pairs)
    S = pairs.totals
    if S[S >= 4].sum() >= 0.1 * S.sum():
        return by_pair
    # pairs with a few common items carry no evidence one by one: test one table of all labels instead
    return min(by_pair, float(_chance_of_each(whole[None])[0]))


def _contrast(whole: Floats) -> Contrast | None:
    """Return the smallest canonical correlation of the whole crowd's table, with its classes."""
    used = np.flatnonzero((whole.sum(axis=0) > 0) & (whole.sum(axis=1) > 0))
    table = whole[np.ix_(used, used)]
    if used.size < 3:
        return None
    S = float(table.sum())
    a, b = table.sum(axis=1) / S, table.sum(axis=0) / S
    # the singular values of (P - a bᵀ) / √(a bᵀ) are the canonical correlations; the last of K is zero
    margins = np.outer(a, b)
    u, values, _ = np.linalg.svd((table / S - margins) / np.sqrt(np.where(margins > 0, margins, 1.0)))
    blurred = int(np.abs(u[:, -2]).argmax())
    instead = np.where(np.arange(used.size) == blurred, -1.0, table[blurred])
    return Contrast((int(used[blurred]), int(used[instead.argmax()])), float(values[-2]), S)
