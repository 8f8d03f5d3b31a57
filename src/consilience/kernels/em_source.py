"""The source of the sweeps over labels, unrolled for each number of classes, and its compilation.

:mod:`consilience.kernels.em` explains what a sweep computes and why it is written this way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from consilience.kernels._compile import from_source, kernel

__all__ = ["FLOOR", "MOST_UNROLLED", "sweep_kernel", "unrolled"]

#: The smallest probability that a confusion or a prior is taken to have: 16 of them stay above 1e-308.
FLOOR = 1e-12
#: Up to this many classes the kernel is unrolled; beyond, it loops.
MOST_UNROLLED = 16
#: Labels between a prefetch and the use of what it brings.
AHEAD = 64

# A line with @ stands once for every class, with the class for @; one that begins with {prefetch} only where rows are
# prefetched.
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
        if gold.size > 0 and gold[n] >= 0:
            p@ = 1.0 if gold[n] == @ else 0.0
        n@ += p@
        out[n, @] = p@
        start = stop
"""
_TAIL = """
    sums[@] = n@
    sums[{K}] = log_likelihood + log(running)
"""


def _source(name: str, K: int, write: bool, prefetch: bool) -> str:
    """Return the unrolled sweep for K classes."""
    template = "".join(part.lstrip("\n") for part in (_HEAD, _WRITE if write else _COUNT, _TAIL))
    values = {
        "name": name,
        "K": K,
        "ahead": AHEAD,
        "prefetch": "",
        "small": repr(2.0**-256),
        "large": repr(2.0**512),
        "log_large": repr(512 * float(np.log(2.0))),
        "sum_p": " + ".join(f"p{k}" for k in range(K)),
    }
    lines = [line for line in template.splitlines() if prefetch or "{prefetch}" not in line]
    return unrolled("\n".join(lines), K).format(**values)


def unrolled(template: str, K: int) -> str:
    """Repeat each line with @ for every class, with the class for @."""
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
def sweep_kernel(K: int, annotator: str, label: str, *, prefetch: bool, write: bool = False) -> Callable[..., None]:
    """Compile the sweep for K classes and these code types; it counts, or writes posteriors if told to ``write``."""
    arguments = f"int64 int64 int64[] {annotator}[] {label}[] int32[] float64[] float64[,]! float64[,]! float64[]!"
    if K > MOST_UNROLLED:
        return kernel(_looped_sweep, arguments)
    name = f"sweep_{K}{'_write' if write else ''}{'_prefetch' if prefetch else ''}"
    from consilience.kernels._intrinsics import prefetch as fetch

    names = {"uint64": np.uint64, "log": np.log, "prefetch": fetch}
    return kernel(from_source(_source(name, K, write, prefetch), name, __name__, __file__, names), arguments)
