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
* The loop over classes is unrolled: source is generated for each K up to ``MOST_UNROLLED``.
* Probability and count of a cell lie in one cache line: ``table[m·K + i] = [A_m[i, :], counts[m, i, :]]``.
* When the table outgrows the cache, rows are prefetched ``AHEAD`` labels early.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints, aligned

__all__ = ["FLOOR", "Statistics", "Sweep"]

#: The smallest probability that a confusion or a prior is taken to have: 16 of them stay above 1e-308.
FLOOR = 1e-12
#: Up to this many classes the kernel is unrolled; beyond, it loops.
MOST_UNROLLED = 16
#: Labels between a prefetch and the use of what it brings.
AHEAD = 64
#: Tables larger than this (bytes) do not stay in a core's own cache.
_CACHE = 1 << 19
#: Below this many labels plain numpy is over before numba is loaded.
SMALL = 1 << 15

# A line with @ stands once for every class, with the class for @.
_HEAD = """
def {name}(first, stop_item, indptr, annotator, label, gold, prior, table, out, sums):
    running = 1.0
    log_likelihood = 0.0
    w@ = prior[@]
    n@ = 0.0
    start = uint64(indptr[first])
    {prefetch}ahead = start
    {prefetch}end = uint64(indptr[stop_item])
    for n in range(first, stop_item):
        stop = uint64(indptr[n + 1])
        {prefetch}limit = min(stop + uint64({ahead}), end)
        {prefetch}while ahead < limit:
        {prefetch}    prefetch(table, uint64(annotator[ahead]) * uint64({K}) + uint64(label[ahead]))
        {prefetch}    ahead += uint64(1)
        p@ = w@
        if stop - start <= uint64(16):
            for i in range(start, stop):
                r = uint64(annotator[i]) * uint64({K}) + uint64(label[i])
                p@ *= table[r, @]
        else:
            e@ = 0.0
            low = start
            while low < stop:
                high = min(low + uint64(16), stop)
                for i in range(low, high):
                    r = uint64(annotator[i]) * uint64({K}) + uint64(label[i])
                    p@ *= table[r, @]
                while p@ < {small}: p@ *= {large}; e@ -= 1.0
                low = high
            if gold.size > 0 and gold[n] >= 0:
                e@ = e@ if gold[n] == @ else -1e6
            top = e0
            top = max(top, e@)
            p@ *= {large} ** (e@ - top)
            log_likelihood += top * {log_large}
        if gold.size > 0 and gold[n] >= 0:
            p@ = p@ if gold[n] == @ else 0.0
        s = {sum_p}
        running *= s
        if running < 1e-100:
            log_likelihood += log(running)
            running = 1.0
        inverse = 1.0 / s
        p@ *= inverse
"""
_COUNT = """
        n@ += p@
        for i in range(start, stop):
            r = uint64(annotator[i]) * uint64({K}) + uint64(label[i])
            table[r, {K} + @] += p@
        start = stop
"""
_WRITE = """
        n@ += p@
        out[n, @] = p@
        start = stop
"""
_TAIL = """
    sums[@] = n@
    sums[{K}] = log_likelihood + log(running)
"""


def _source(name: str, K: int, prefetch: bool, write: bool) -> str:
    """Write the unrolled sweep for K classes."""
    template = _HEAD.lstrip("\n") + (_WRITE if write else _COUNT).lstrip("\n") + _TAIL.lstrip("\n")
    values = {
        "name": name,
        "K": K,
        "ahead": AHEAD,
        "small": repr(2.0**-256),
        "large": repr(2.0**512),
        "log_large": repr(512 * float(np.log(2.0))),
        "sum_p": " + ".join(f"p{k}" for k in range(K)),
    }
    kept = (line.replace("{prefetch}", "") for line in template.splitlines() if prefetch or "{prefetch}" not in line)
    return unrolled("\n".join(kept), K).format(**values)


def unrolled(template: str, K: int) -> str:
    """Write a line with @ once for every class, with the class for @."""
    lines: list[str] = []
    for line in template.lstrip("\n").splitlines():
        lines += [line.replace("@", str(k)) for k in range(K)] if "@" in line else [line]
    return "\n".join(lines)


def _looped_sweep(
    first: Any,
    stop_item: Any,
    indptr: Any,
    annotator: Any,
    label: Any,
    gold: Any,
    prior: Any,
    table: Any,
    out: Any,
    sums: Any,
) -> None:
    """The same sweep for any number of classes, with a loop where the other is unrolled."""
    K = prior.size
    write = out.size > 0
    p = np.empty(K)
    e = np.empty(K)
    log_likelihood = 0.0
    for n in range(first, stop_item):
        start, stop = indptr[n], indptr[n + 1]
        for k in range(K):
            p[k] = prior[k]
            e[k] = 0.0
        for i in range(start, stop):
            r = np.uint64(annotator[i]) * np.uint64(K) + np.uint64(label[i])
            for k in range(K):
                p[k] *= table[r, k]
            if (i - start) % 16 == 15:
                for k in range(K):
                    while p[k] < 2.0**-256:
                        p[k] *= 2.0**512
                        e[k] -= 1.0
        top = e.max()
        if gold.size > 0 and gold[n] >= 0:
            top = e[gold[n]]  # the scale of a class that is out of the question must not count
            for k in range(K):
                if k != gold[n]:
                    p[k] = 0.0
                    e[k] = top
        s = 0.0
        for k in range(K):
            if e[k] != top:
                p[k] *= (2.0**512) ** (e[k] - top)
            s += p[k]
        log_likelihood += np.log(s) + top * 512.0 * np.log(2.0)
        for k in range(K):
            p[k] /= s
            sums[k] += p[k]
        if write:
            for k in range(K):
                out[n, k] = p[k]
        else:
            for i in range(start, stop):
                r = np.uint64(annotator[i]) * np.uint64(K) + np.uint64(label[i])
                for k in range(K):
                    table[r, K + k] += p[k]
    sums[K] = log_likelihood


@lru_cache(maxsize=64)
def _kernel(K: int, annotator: str, label: str, prefetch: bool, write: bool) -> Callable[..., None]:
    """Compile the sweep for K classes and these code types."""
    from numba import types

    from consilience.kernels import _compile

    array = _compile.array
    matrix = array("float64", 2, readonly=False)
    signature = types.void(
        types.int64,
        types.int64,
        array("int64"),
        array(annotator),
        array(label),
        array("int32"),
        array("float64"),
        matrix,
        matrix,
        array("float64", readonly=False),
    )
    if K > MOST_UNROLLED:
        return _compile.compiled(_looped_sweep, signature)
    name = f"sweep_{K}{'_prefetch' if prefetch else ''}{'_write' if write else ''}"
    names = {"uint64": np.uint64, "log": np.log, "prefetch": _compile.prefetch}
    function = _compile.from_source(_source(name, K, prefetch, write), name, __name__, __file__, names)
    return _compile.compiled(function, signature)


def _lay_out(confusions: Any, table: Any) -> None:
    """Write ``table[r] = [confusions[r] floored, zeros]``."""
    K = confusions.shape[1]
    for r in range(confusions.shape[0]):
        for k in range(K):
            table[r, k] = max(confusions[r, k], FLOOR)
            table[r, K + k] = 0.0


@lru_cache(maxsize=1)
def _lay_out_kernel() -> Callable[..., None]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    return compiled(_lay_out, types.void(array("float64", 2), array("float64", 2, readonly=False)))


class Statistics(NamedTuple):
    """What one sweep leaves behind; statistics of disjoint sets of items add up."""

    counts: Floats  #: expected number of times that annotator m said i of truth k, (M, K, K)
    class_counts: Floats  #: expected number of items of each class, (K,)
    log_likelihood: float  #: log-probability of all labels (and of the gold) under the parameters


class Sweep:
    """The E-step over one set of grouped labels, ready to be run again and again.

    Holds the memory that every pass needs, so a pass allocates nothing of the data's size.

    Parameters
    ----------
    indptr, annotator, label
        The labels of item n are ``annotator[indptr[n]:indptr[n + 1]]`` and likewise ``label``.
    gold
        Known class of each item, -1 where unknown; None where none is known.
    n_annotators, n_classes
        M and K.
    share
        The blocks to pass over, where others have the rest; all by default.
    done
        Told of every block ``(first, stop)`` that was passed over.
    threads
        How many to use, where it is not all.
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
        self._blocks = self.share.blocks
        self._done, self._threads = done, threads
        self._prefetch = 16 * cells > _CACHE
        self._tables = blocks.Spare(lambda: aligned(n_annotators * n_classes, 2 * n_classes))
        self._kernel: Callable[..., None] | None = None

    @property
    def small(self) -> bool:
        """Whether plain numpy is faster."""
        return self.share.n == 1 and self.label.size < SMALL

    def __call__(self, prior: Floats, confusions: Floats) -> Statistics:
        """Run the E-step under these parameters and give the sums that the M-step needs."""
        return blocks.total(self.parts(prior, confusions), (0, self.share.n))

    def parts(self, prior: Floats, confusions: Floats) -> dict[blocks.Node, Statistics]:
        """Give the sums over this share of the blocks, to be added to those of others."""
        M, K, _ = self.shape
        if self.small:
            from consilience.kernels.em_numpy import statistics

            made = statistics(self.indptr, self.annotator, self.label, self.gold, prior, confusions)
            if self._done:
                self._done(0, self.indptr.size - 1)
            return {(0, 1): made}
        if self._kernel is None:
            self._kernel = _kernel(K, self.annotator.dtype.name, self.label.dtype.name, self._prefetch, False)
        kernel = self._kernel
        lay_out, confusions = _lay_out_kernel(), np.ascontiguousarray(confusions.reshape(M * K, K))
        prior = np.maximum(prior, FLOOR)
        nothing = np.empty((0, 0))

        def leaf(first: int, stop: int) -> Statistics:
            sums = np.zeros(K + 1)
            with self._tables.one() as table:
                lay_out(confusions, table)
                kernel(first, stop, self.indptr, self.annotator, self.label, self.gold, prior, table, nothing, sums)
                counts = table[:, K:].copy()
            if self._done:
                self._done(first, stop)
            return Statistics(counts.reshape(self.shape), sums[:K], float(sums[K]))

        return blocks.fold(leaf, self.share, self._threads)

    def posterior(self, prior: Floats, confusions: Floats) -> tuple[Floats, float]:
        """Give the posterior of every item (N, K) and the log-likelihood under these parameters."""
        M, K, _ = self.shape
        if self.small:
            from consilience.kernels.em_numpy import posterior

            return posterior(self.indptr, self.annotator, self.label, self.gold, prior, confusions)
        kernel = _kernel(K, self.annotator.dtype.name, self.label.dtype.name, self._prefetch, True)
        table = aligned(M * K, K)
        table[:] = np.maximum(confusions.reshape(M * K, K), FLOOR)
        prior = np.maximum(prior, FLOOR)
        out = np.empty((self.indptr.size - 1, K))

        def leaf(first: int, stop: int) -> Statistics:
            sums = np.zeros(K + 1)
            kernel(first, stop, self.indptr, self.annotator, self.label, self.gold, prior, table, out, sums)
            return Statistics(np.empty(0), sums[:K], float(sums[K]))

        return out, blocks.total(blocks.fold(leaf, self.share, self._threads), (0, self.share.n)).log_likelihood
