"""The source of the sweeps over labels, unrolled for each small number of classes, and its compilation.

:mod:`consilience.kernels.em` explains what a sweep computes and why it is written this way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from consilience.kernels._compile import from_source, kernel

__all__ = ["FLOOR", "MOST_UNROLLED", "by_class", "sweep_kernel"]

#: The smallest probability that a confusion or a prior is taken to have: 16 of them stay above 1e-308.
FLOOR = 1e-12
#: Up to this many classes the kernel is unrolled; beyond, it loops.
MOST_UNROLLED = 16
#: Labels between a prefetch and the use of what it brings.
AHEAD = 64

# An unrolled sweep has its counts to the right of the probabilities, in rows that were floored before.  With more
# classes a row is longer than a cache line anyway: then there is no such copy of the confusions, only ``out``.
_CELLS = {"factor": "table[r, @]", "count": "table[r, {K} + @]"}
_LOOPED_CELLS = {"factor": "max(table[r, @], {floor})", "count": "out[r, @]"}

# A line with @ is repeated for every class, with the class for @; if not unrolled, it becomes a loop over arrays.  One
# that begins with {prefetch} is only there where rows are prefetched.
_HEAD = """
def {name}(first, stop_item, indptr, annotator, label, gold, prior, table, out, sums):
    running = 1.0
    log_likelihood = 0.0
    {arrays}
    w@ = prior[@]
    items@ = 0.0
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
                p@ *= {factor}
        else:
            e@ = 0.0
            low = start
            while low < stop:
                high = min(low + uint64(16), stop)
                for i in range(low, high):
                    r = uint64(annotator[i]) * uint64({K}) + uint64(label[i])
                    p@ *= {factor}
                while p@ < {small}: p@ *= {large}; e@ -= 1.0
                low = high
            if gold.size > 0 and gold[n] >= 0:
                e@ = e@ if gold[n] == @ else -1e6
            top = -1e9
            top = max(top, e@)
            if e@ != top: p@ *= {large} ** (e@ - top)
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
        items@ += p@
        for i in range(start, stop):
            r = uint64(annotator[i]) * uint64({K}) + uint64(label[i])
            {count} += p@
        start = stop
"""
_WRITE = """
        if gold.size > 0 and gold[n] >= 0:
            p@ = 1.0 if gold[n] == @ else 0.0
        items@ += p@
        out[n, @] = p@
        start = stop
"""
_TAIL = """
    sums[@] = items@
    sums[{K}] = log_likelihood + log(running)
"""


def _source(name: str, K: int, write: bool, prefetch: bool) -> str:
    """Return the sweep for K classes, unrolled, or (K = 0) for any number."""
    template = "".join(part.lstrip("\n") for part in (_HEAD, _WRITE if write else _COUNT, _TAIL))
    values = {
        "name": name,
        "K": K or "K",
        "arrays": "" if K else "K = prior.size; w, items, p, e = empty(K), empty(K), empty(K), empty(K)",
        "ahead": AHEAD,
        "prefetch": "",
        "floor": repr(FLOOR),
        "small": repr(2.0**-256),
        "large": repr(2.0**512),
        "log_large": repr(512 * float(np.log(2.0))),
        "sum_p": " + ".join(f"p{k}" for k in range(K)) or "p.sum()",
    }
    for part, cell in (_CELLS if K else _LOOPED_CELLS).items():
        template = template.replace(f"{{{part}}}", cell)
    lines = [line for line in template.splitlines() if prefetch or "{prefetch}" not in line]
    return by_class("\n".join(lines), K).format(**values)


def by_class(template: str, K: int) -> str:
    """Repeat each line with @ for every class, with the class for @; K = 0 makes it a loop over arrays instead."""
    lines: list[str] = []
    for line in template.lstrip("\n").splitlines():
        if "@" not in line:
            lines.append(line)
        elif K:
            lines += [line.replace("@", str(k)) for k in range(K)]
        else:
            indent = line[: len(line) - len(line.lstrip())]
            each = re.sub(r"\b([a-z]+)@", r"\1[k]", line.strip()).replace("@", "k")
            lines += [f"{indent}for k in range(K):", f"{indent}    {each}"]
    return "\n".join(lines)


@lru_cache(maxsize=64)
def sweep_kernel(K: int, annotator: str, label: str, *, prefetch: bool, write: bool = False) -> Callable[..., None]:
    """Compile the sweep for K classes and these code types; it counts, or writes posteriors if told to ``write``.

    Up to ``MOST_UNROLLED`` classes, ``table`` of a sweep that counts has rows of floored probabilities, followed by
    counts; otherwise it has the confusions as they are, and counts or posteriors go to ``out``.  Posteriors are written
    once for a fit, so that sweep is compiled once for all K.
    """
    from consilience.kernels._intrinsics import prefetch as fetch

    unrolled = K if K <= MOST_UNROLLED and not write else 0
    name = f"sweep_{unrolled or 'looped'}{'_write' if write else ''}{'_prefetch' if prefetch else ''}"
    names = {"uint64": np.uint64, "log": np.log, "empty": np.empty, "prefetch": fetch}
    function = from_source(_source(name, unrolled, write, prefetch), name, __name__, __file__, names)
    table = f"float64[,]{'!' if unrolled else ''}"
    arrays = f"int64[] {annotator}[] {label}[] int32[] float64[] {table} float64[,]! float64[]!"
    return kernel(function, f"int64 int64 {arrays}")
