"""One sweep over the labels: the posterior of every item, and the sums that the M-step needs.

For item n with labels ``(m, i)`` and truth k, Dawid and Skene (1979) give

    posterior[n, k]  ∝  prior[k] · ∏ confusions[m, i, k]            (E-step)
    counts[m, i, k]  =  Σ_n posterior[n, k]  over m's labels i       (what the M-step normalises)

========== =============================== ==================
symbol     name                            shape
========== =============================== ==================
π          ``prior``                       (K,)
A_m        ``confusions[m]``               (M, K, K)
q          ``posterior``                   (N, K)
..         ``counts``                      (M, K, K)
========== =============================== ==================

What makes it fast, each measured (see ``benchmarks/``):

* Probabilities are multiplied, no logarithm or exponential per label.  Confusions are floored at ``FLOOR``, so
  sixteen factors cannot underflow; items with more labels are taken sixteen at a time, each class carrying
  its own power of two, so that a class that falls behind by ten thousand digits can still come back.
* The likelihood is a running product, its logarithm taken only when it gets small.
* The loop over classes is unrolled: source is generated for each K up to ``MOST_UNROLLED``.  Posteriors are written
  once for a fit, by an ordinary loop.
* Probability and count of a cell lie in one cache line: ``table[m·K + i] = [A_m[i, :], counts[m, i, :]]``, where
  the loop is unrolled.
* When the table outgrows the cache, rows are prefetched ``AHEAD`` labels early.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints, aligned
from consilience.kernels._compile import kernel
from consilience.kernels.em_source import FLOOR, MOST_UNROLLED, sweep_kernel

__all__ = ["FLOOR", "Statistics", "Sweep"]

#: Tables larger than this (bytes) do not stay in a core's own cache.
_CACHE = 1 << 19


def _lay_out(confusions: Any, table: Any) -> None:
    """Write ``table[r] = [confusions[r] floored, zeros]``."""
    K = confusions.shape[1]
    for r in range(confusions.shape[0]):
        for k in range(K):
            table[r, k] = max(confusions[r, k], FLOOR)
        for k in range(K, table.shape[1]):
            table[r, k] = 0.0


class Statistics(NamedTuple):
    """The sums of one sweep; those of disjoint sets of items add up."""

    counts: Floats  #: expected number of times that annotator m said i of truth k, (M, K, K)
    class_counts: Floats  #: expected number of items of each class, (K,)
    log_likelihood: float  #: log-probability of all labels (and of the gold) under the parameters


class Sweep:
    """The E-step over one set of grouped labels.

    Holds the memory that every pass needs, so a pass allocates nothing of the data's size.

    Parameters
    ----------
    indptr, annotator, label
        The labels of item n are ``annotator[indptr[n]:indptr[n + 1]]`` and likewise ``label``.
    gold
        Known class of each item, -1 where unknown; None if none is known.
    n_annotators, n_classes
        M and K.
    share
        The blocks of this process; all by default.
    done
        Called with every block ``(first, stop)`` that a pass has finished.
    threads
        Number of threads; all cores by default.
    """

    def __init__(
        self,
        indptr: Ints,
        annotator: Codes,
        label: Codes,
        gold: Codes | None,
        n_annotators: int,
        n_classes: int,
        *,
        share: blocks.Share | None = None,
        done: Callable[[int, int], None] | None = None,
        threads: int | None = None,
    ) -> None:
        self.indptr, self.annotator, self.label = indptr, annotator, label
        self.gold = np.empty(0, np.int32) if gold is None else np.ascontiguousarray(gold, np.int32)
        self.shape = (n_annotators, n_classes, n_classes)
        cells = n_annotators * n_classes * n_classes
        self.share = share or blocks.Share.all_of(blocks.cut(indptr, cells))
        self._done, self.threads = done, threads
        self._prefetch = 16 * cells > _CACHE
        self._tables = blocks.Spare(partial(aligned, n_annotators * n_classes, 2 * n_classes))

    def __call__(self, prior: Floats, confusions: Floats) -> Statistics:
        """Run the E-step under these parameters and return the sums that the M-step needs."""
        return blocks.total(self.parts(prior, confusions), (0, self.share.n))

    def parts(self, prior: Floats, confusions: Floats) -> dict[blocks.Node, Statistics]:
        """Return the sums over this share of the blocks, to be added to those of others."""
        M, K, _ = self.shape
        sweep = sweep_kernel(K, self.annotator.dtype.name, self.label.dtype.name, prefetch=self._prefetch)
        lay_out = kernel(_lay_out, "float64[,] float64[,]!")
        rows = np.ascontiguousarray(confusions.reshape(M * K, K))
        data = self.indptr, self.annotator, self.label, self.gold, np.maximum(prior, FLOOR)
        nothing = np.empty((0, 0))

        def leaf(first: int, stop: int) -> Statistics:
            sums = np.zeros(K + 1)
            if K > MOST_UNROLLED:
                counts = np.zeros((M * K, K))
                sweep(first, stop, *data, rows, counts, sums)
            else:
                with self._tables.one() as table:
                    lay_out(rows, table)
                    sweep(first, stop, *data, table, nothing, sums)
                    counts = table[:, K:].copy()
            if self._done:
                self._done(first, stop)
            return Statistics(counts.reshape(self.shape), sums[:K], float(sums[K]))

        return blocks.fold(leaf, self.share, self.threads)

    def posterior(self, prior: Floats, confusions: Floats) -> tuple[Floats, float]:
        """Return the posterior of every item (N, K) and the log-likelihood under these parameters."""
        M, K, _ = self.shape
        names = self.annotator.dtype.name, self.label.dtype.name
        write = sweep_kernel(K, *names, prefetch=self._prefetch, write=True)
        rows = np.ascontiguousarray(confusions.reshape(M * K, K))
        data = self.indptr, self.annotator, self.label, self.gold, np.maximum(prior, FLOOR)
        out = np.empty((self.indptr.size - 1, K))

        def leaf(first: int, stop: int) -> Statistics:
            sums = np.zeros(K + 1)
            write(first, stop, *data, rows, out, sums)
            return Statistics(np.empty(0), sums[:K], float(sums[K]))

        return out, blocks.total(blocks.fold(leaf, self.share, self.threads), (0, self.share.n)).log_likelihood
