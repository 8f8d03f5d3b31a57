"""Pair marginals of a table with missing entries: how often two variables have two categories together.

    X_jk(a, b) = #{rows with z_j = a and z_k = b} / #{rows where j and k are both observed}

(Ibrahim & Fu, "Recovering joint PMF from pairwise marginals", Section III; Lemma 5 for missing entries).  Alphabets may
differ, so blocks are rectangles of one matrix with a row for every category of every variable.

====== ================== ========================================
symbol name               shape
====== ================== ========================================
J      ``counts.shape``   Σ I_n
..     ``counts``         (J, J), blocks of variables j and k; zero where j = k
..     ``totals``         (N, N), rows where both are observed
..     ``shares``         (J,), how often each variable has each category
====== ================== ========================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from consilience.exceptions import MethodError, ParameterError
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.cooccurrence import count_pairs

__all__ = ["PairMarginals", "category_shares", "pair_marginals"]

#: Most categories of all variables together; the matrix of all pairs then has 800 MB.
_MOST_CATEGORIES = 10_000


@dataclass(frozen=True, eq=False)
class PairMarginals:
    """Counts of all pairs of variables (or other nonnegative weights)."""

    counts: Floats
    sizes: tuple[int, ...]
    shares: Floats

    @classmethod
    def from_blocks(cls, blocks: Mapping[tuple[int, int], Any]) -> Self:
        """Return pair marginals that were counted or computed elsewhere.

        ``blocks[j, k]`` is the joint distribution, or the counts, of variables j and k, (I_j, I_k).  Every variable
        0 … N - 1 must be in one block at least; pairs that are missing are taken to be independent.
        """
        tables = {pair: np.asarray(block, np.float64) for pair, block in blocks.items()}
        found: dict[int, int] = {}
        for (j, k), table in tables.items():
            sized = zip((j, k), table.shape, strict=False)
            fits = table.ndim == 2 and all(found.setdefault(n, size) == size for n, size in sized)
            if j == k or not fits or not np.isfinite(table).all() or table.min() < 0 or not table.sum():
                raise ParameterError(
                    f"the block of variables {j} and {k} has shape {table.shape}; expected two different variables and "
                    "a matrix without negative entries, of the same number of categories as in the other blocks"
                )
        N = max(found, default=-1) + 1
        if N < 2 or set(found) != set(range(N)):
            raise ParameterError(f"expected blocks of all variables 0 … {N - 1}; there are those of {sorted(found)}")
        sizes = tuple(found[n] for n in range(N))
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        counts, shares = np.zeros((first[-1], first[-1])), np.zeros(first[-1])
        for (j, k), table in tables.items():
            here, there = slice(first[j], first[j + 1]), slice(first[k], first[k + 1])
            counts[here, there], counts[there, here] = table, table.T
            shares[here] += table.sum(axis=1)
            shares[there] += table.sum(axis=0)
        totals = np.add.reduceat(shares, first[:-1])
        return cls(counts, sizes, shares / np.repeat(totals, sizes))

    @property
    def offsets(self) -> Ints:
        """First row of each variable, and the end, (N + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @property
    def totals(self) -> Floats:
        """Rows where both variables are observed, (N, N)."""
        first = self.offsets[:-1]
        totals: Floats = np.add.reduceat(np.add.reduceat(self.counts, first, axis=0), first, axis=1)
        return totals

    def rows_of(self, variables: Sequence[int] | Ints) -> Ints:
        """Return the rows of these variables, in their order."""
        offsets = self.offsets
        return np.concatenate([np.arange(offsets[n], offsets[n + 1]) for n in variables])

    def block(self, j: int, k: int) -> Floats:
        """Return X_jk, (I_j, I_k); two variables that are never observed together are taken to be independent."""
        offsets = self.offsets
        counts = self.counts[offsets[j] : offsets[j + 1], offsets[k] : offsets[k + 1]]
        total = counts.sum()
        if total > 0:
            frequencies: Floats = counts / total
            return frequencies
        return np.outer(self.shares[offsets[j] : offsets[j + 1]], self.shares[offsets[k] : offsets[k + 1]])


def category_shares(codes: Codes, sizes: Sequence[int]) -> Floats:
    """Return the share of each category among those of its variable, stacked (Σ I_n,).

    One pseudo-row, spread evenly, keeps unseen categories possible; a variable without entries is uniform.
    """
    shares = []
    for n, size in enumerate(sizes):
        counts = np.bincount(codes[:, n][codes[:, n] >= 0], minlength=size) + 1.0 / size
        shares.append(counts / counts.sum())
    return np.concatenate(shares)


def pair_marginals(codes: Codes, sizes: Sequence[int]) -> PairMarginals:
    """Count all pairs of variables in one pass over the rows."""
    sizes = tuple(int(size) for size in sizes)
    J = sum(sizes)
    if J > _MOST_CATEGORIES:
        raise MethodError(
            f"the variables have {J} categories together, too many for a matrix of all pairs; merge rare categories, "
            'or start with init="random"'
        )
    offsets = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    # every category of every variable is an annotator with one possible label
    there = codes >= 0
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(there, axis=1))]).astype(np.int64)
    small = np.min_scalar_type(max(J - 1, 1))
    who = (codes.astype(small, copy=False) + offsets.astype(small)).astype(small)[there]
    pairs, times = count_pairs(indptr, who, np.zeros(who.size, np.uint8), J, 1, most=J)
    counts = np.zeros((J, J))
    counts[pairs[:, 0], pairs[:, 1]] = times[:, 0, 0]
    return PairMarginals(counts + counts.T, sizes, category_shares(codes, sizes))
