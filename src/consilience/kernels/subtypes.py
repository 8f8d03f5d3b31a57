"""The sweep of :mod:`consilience.kernels.em` where every class is a mixture of L subtypes.

A subtype c = k L + l of class k has a weight and a column in every annotator's table, so the table of an annotator is
wide, K labels × K L subtypes.  For item n with labels ``(m, i)``,

    q[n, c]          ∝  weights[c] · ∏ tables[m, i, c]
    counts[m, i, c]  =  Σ_n q[n, c]  over m's labels i,

and the posterior of the item is the sum over each class's subtypes: q itself, N × K L numbers, is never kept.  The
arithmetic is that of the other sweep: products, each subtype with its own power of two after every sixteen labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels._compile import kernel
from consilience.kernels.em import FLOOR, Statistics

__all__ = ["SubtypeSweep"]

#: Smaller shares of an item count as zero.
NEGLIGIBLE = 1e-30


def _sweep(
    first: Any,
    stop_item: Any,
    indptr: Any,
    annotator: Any,
    label: Any,
    gold: Any,
    weights: Any,
    table: Any,
    counts: Any,
    K: Any,
    out: Any,
    sums: Any,
) -> None:
    """Sweep items ``first`` to ``stop_item``: write posteriors to ``out``, or add to ``counts`` if it is empty."""
    # unsigned indices need no test for counting from the end, which would keep the loops from being vectorised
    C, zero = np.uint64(weights.size), np.uint64(0)
    L = C // np.uint64(K)
    write = out.size > 0
    p = np.empty(weights.size)
    e = np.zeros(weights.size)
    used = np.empty(weights.size, np.uint64)
    log_likelihood = 0.0
    for n in range(first, stop_item):
        start, stop = np.uint64(indptr[n]), np.uint64(indptr[n + 1])
        many = stop - start >= np.uint64(16)
        for c in range(C):
            p[c] = weights[c]
        if many:
            for c in range(C):
                e[c] = 0.0
        for i in range(start, stop):
            r = np.uint64(annotator[i]) * np.uint64(K) + np.uint64(label[i])
            for c in range(C):
                p[c] *= table[r, c]
            if (i - start) % np.uint64(16) == np.uint64(15):
                for c in range(C):
                    while p[c] < 2.0**-256:
                        p[c] *= 2.0**512
                        e[c] -= 1.0
        low, high = zero, C
        if gold.size > 0 and gold[n] >= 0:
            low = np.uint64(gold[n]) * L
            high = low + L
            for c in range(low):
                p[c] = 0.0
            for c in range(high, C):
                p[c] = 0.0
        if many:
            top = e[low:high].max()
            for c in range(low, high):
                if e[c] != top:
                    p[c] *= (2.0**512) ** (e[c] - top)
            log_likelihood += top * 512.0 * np.log(2.0)
        s = 0.0
        for c in range(low, high):
            s += p[c]
        log_likelihood += np.log(s)
        inverse = 1.0 / s
        # most subtypes are empty after a while: then only the others are counted
        n_used = zero
        for c in range(C):
            p[c] *= inverse
            if p[c] > NEGLIGIBLE:
                sums[c] += p[c]
                used[n_used] = c
                n_used += np.uint64(1)
            else:
                p[c] = 0.0
        if write:
            for k in range(K):
                out[n, k] = 0.0
            for u in range(n_used):
                out[n, used[u] // L] += p[used[u]]
        elif n_used * np.uint64(4) > C:
            for i in range(start, stop):
                r = np.uint64(annotator[i]) * np.uint64(K) + np.uint64(label[i])
                for c in range(C):
                    counts[r, c] += p[c]
        else:
            for i in range(start, stop):
                r = np.uint64(annotator[i]) * np.uint64(K) + np.uint64(label[i])
                for u in range(n_used):
                    counts[r, used[u]] += p[used[u]]
    sums[weights.size] = log_likelihood


class SubtypeSweep:
    """The E-step with ``n_subtypes`` subtypes a class; the other parameters are those of the plain sweep.

    Weights must be above 1e-100, so that sixteen labels more cannot make them zero; tables are floored.
    """

    def __init__(
        self,
        indptr: Ints,
        annotator: Codes,
        label: Codes,
        gold: Codes | None,
        n_annotators: int,
        n_classes: int,
        n_subtypes: int,
        *,
        share: blocks.Share | None = None,
        done: Callable[[int, int], None] | None = None,
        threads: int | None = None,
    ) -> None:
        self.indptr, self.annotator, self.label = indptr, annotator, label
        self.gold = np.empty(0, np.int32) if gold is None else np.ascontiguousarray(gold, np.int32)
        self.shape = (n_annotators, n_classes, n_classes * n_subtypes)
        cells = n_annotators * n_classes * n_classes * n_subtypes
        self.share = share or blocks.Share.all_of(blocks.cut(indptr, cells))
        self._done, self.threads = done, threads
        codes = f"int64 int64 int64[] {annotator.dtype}[] {label.dtype}[] int32[]"
        self._kernel = kernel(_sweep, f"{codes} float64[] float64[,] float64[,]! int64 float64[,]! float64[]!")

    def __call__(self, weights: Floats, tables: Floats) -> Statistics:
        """Return counts (M, K, K L), the expected number of items of each subtype, and the log-likelihood."""
        return blocks.total(self.parts(weights, tables), (0, self.share.n))

    def parts(self, weights: Floats, tables: Floats) -> dict[blocks.Node, Statistics]:
        """Return the sums over this share of the blocks, to be added to those of others."""
        M, K, C = self.shape
        table = np.maximum(tables.reshape(M * K, C), FLOOR)
        nothing = np.empty((0, 0))

        def leaf(first: int, stop: int) -> Statistics:
            counts = np.zeros((M * K, C))
            sums = self._run(first, stop, weights, table, counts, nothing)
            if self._done:
                self._done(first, stop)
            return Statistics(counts.reshape(self.shape), sums[:C], float(sums[C]))

        return blocks.fold(leaf, self.share, self.threads)

    def posterior(self, weights: Floats, tables: Floats) -> Floats:
        """Return the posterior of every item's class, (N, K)."""
        M, K, C = self.shape
        table = np.maximum(tables.reshape(M * K, C), FLOOR)
        out, nothing = np.empty((self.indptr.size - 1, K)), np.empty((0, 0))
        blocks.run(lambda first, stop: self._run(first, stop, weights, table, nothing, out), self.share.blocks)
        out /= out.sum(axis=1, keepdims=True)  # sums of subtypes may exceed one by a bit
        return out

    def _run(self, first: int, stop: int, weights: Floats, table: Floats, counts: Floats, out: Floats) -> Floats:
        K, sums = self.shape[1], np.zeros(weights.size + 1)
        codes = self.indptr, self.annotator, self.label, self.gold
        self._kernel(first, stop, *codes, weights, table, counts, K, out, sums)
        return sums
