"""The best few columns of every row of a block of similarities, kept in running lists.

A list holds the k columns of largest score met so far, best first; between equal scores the smaller number is better,
so the result does not depend on the order in which blocks come.  Blocks of scores are made by matrix products
elsewhere; this loop reads each score once and rarely does more: sixteen scores are compared with the worst of
the list together, and only where one is good enough are they looked at singly.

========== =============================================================
name       shape
========== =============================================================
scores     (rows, columns) of the block
offsets    (columns,), subtracted from the scores of a column
columns    (columns,), their numbers
own        (rows,), the number that a row must not list (its own), or -1
best       (rows, k), the best scores so far, falling
found      (rows, k), whose they are; -1 where there is none yet
========== =============================================================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["update_lists"]


def _update(scores, offsets, columns, own, absolute, unique, best, found):  # type: ignore[no-untyped-def]
    k = best.shape[1]
    m = columns.size
    for i in range(scores.shape[0]):
        row = scores[i]
        mine = own[i]
        worst = best[i, k - 1]
        for first in range(0, m, 16):
            stop = min(first + 16, m)
            good = 0
            if absolute:
                for j in range(first, stop):
                    good += abs(row[j]) >= worst
            else:
                for j in range(first, stop):
                    good += row[j] - offsets[j] >= worst
            if good == 0:
                continue
            for j in range(first, stop):
                score = abs(row[j]) if absolute else row[j] - offsets[j]
                column = columns[j]
                if score < worst or column == mine:
                    continue
                if score == worst and found[i, k - 1] >= 0 and column >= found[i, k - 1]:
                    continue
                if unique:  # the column may be in the list already
                    there = False
                    for p in range(k):
                        if found[i, p] == column:
                            there = True
                            break
                    if there:
                        continue
                p = k - 1
                while p > 0 and (
                    best[i, p - 1] < score
                    or (best[i, p - 1] == score and (found[i, p - 1] < 0 or found[i, p - 1] > column))
                ):
                    best[i, p] = best[i, p - 1]
                    found[i, p] = found[i, p - 1]
                    p -= 1
                best[i, p] = score
                found[i, p] = column
                worst = best[i, k - 1]


@lru_cache(maxsize=1)
def _kernel() -> Callable[..., Any]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    signature = types.void(
        array("float32", 2),
        array("float32"),
        array("int64"),
        array("int64"),
        types.boolean,
        types.boolean,
        array("float32", 2, readonly=False),
        array("int64", 2, readonly=False),
    )
    return compiled(_update, signature)


def update_lists(
    scores: NDArray[np.float32],
    offsets: NDArray[np.float32],
    columns: NDArray[np.int64],
    own: NDArray[np.int64],
    best: NDArray[np.float32],
    found: NDArray[np.int64],
    *,
    absolute: bool,
    unique: bool,
) -> None:
    """Enter a block of scores into the lists ``best`` and ``found``, in place.

    ``absolute`` compares absolute scores (``offsets`` are then ignored); ``unique`` is for columns that may be listed
    already, from an earlier block.
    """
    _kernel()(scores, offsets, columns, own, absolute, unique, best, found)
