"""Counts of what annotators said about a token together with what was said about the token before it.

Annotator m saying i is row ``m K + i`` of one table: one addition for each label of a token paired with each label of
its predecessor.  If the table would be large, one key for each such pair is sorted instead, a range of tokens at a
time, and memory grows with the pairs that occur.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Bools, Codes, Ints, narrowed
from consilience.kernels._compile import kernel
from consilience.kernels.cooccurrence import counts_of_keys, joined

__all__ = ["count_lagged", "has_predecessor"]

#: Cells of a table (4 bytes each) beyond which keys are sorted, and of the tables of all threads together.
_LARGEST_TABLE = 1 << 24
_MOST_CELLS = 1 << 27
#: Keys (8 bytes each) sorted at a time.
_KEYS_AT_ONCE = 1 << 24


def has_predecessor(bounds: Ints) -> Bools:
    """Return which tokens follow another one of their sequence, (N,); sequence s begins at ``bounds[s]``."""
    follows = np.ones(int(bounds[-1]), np.bool_)
    follows[bounds[:-1][np.diff(bounds) > 0]] = False
    return follows


def count_lagged(
    bounds: Ints, indptr: Ints, annotator: Codes, label: Codes, n_annotators: int, n_classes: int
) -> tuple[Codes, Codes]:
    """Count, for every ordered pair of annotators, what m said of a token and j of the token before it.

    Returns the pairs (m, j) that occur, (P, 2) in order, and ``counts[p, a, b]``: how often m said a where j had said b
    one token earlier.  An annotator makes a pair with themselves.
    """
    small = (n_annotators * n_classes) ** 2 <= _LARGEST_TABLE
    count = _by_table if small else _by_sorting
    return count(has_predecessor(bounds), indptr, annotator, label, n_annotators, n_classes)


def _by_table(follows: Bools, indptr: Ints, annotator: Codes, label: Codes, M: int, K: int) -> tuple[Codes, Codes]:
    rows = M * K
    data = f"bool[] int64[] {annotator.dtype}[] {label.dtype}[]"
    add = kernel(_fill_table, f"{data} int64 int64 int64 int64 uint32[]!")

    def work(first: int, stop: int) -> Codes:
        table = np.zeros(rows**2, np.uint32)
        add(follows, indptr, annotator, label, first, stop, rows, K, table)
        return table

    # whole numbers: the order of the sum does not matter, so there are as many parts as threads
    parts = max(1, min(blocks.thread_count(), _MOST_CELLS // rows**2, int(indptr[-1]) // max(rows, 1 << 14)))
    edges = np.searchsorted(indptr, np.linspace(0, indptr[-1], parts + 1)[1:-1]).tolist()
    tables = blocks.run(work, list(pairwise([0, *edges, indptr.size - 1])))
    for table in tables[1:]:
        tables[0] += table
    blocked = tables[0].reshape(M, K, M, K).transpose(0, 2, 1, 3)
    now, before = np.nonzero(blocked.any(axis=(2, 3)))
    return np.stack([now, before], axis=1).astype(np.int32), narrowed(blocked[now, before])


def _by_sorting(follows: Bools, indptr: Ints, annotator: Codes, label: Codes, M: int, K: int) -> tuple[Codes, Codes]:
    degree = np.diff(indptr)
    pairs = np.zeros(degree.size, np.int64)
    pairs[1:] = degree[1:] * degree[:-1] * follows[1:]
    start = np.concatenate([[0], np.cumsum(pairs)])
    aims = np.arange(_KEYS_AT_ONCE, int(start[-1]), _KEYS_AT_ONCE)
    edges = [0, *np.searchsorted(start, aims).tolist(), degree.size]
    data = f"bool[] int64[] {annotator.dtype}[] {label.dtype}[]"
    list_keys = kernel(_list_keys, f"{data} int64 int64 int64 int64 uint64[]!")

    def some(first: int, stop: int) -> tuple[Codes, Codes]:
        keys = np.empty(int(start[stop] - start[first]), np.uint64)
        list_keys(follows, indptr, annotator, label, first, stop, M, K, keys)
        return counts_of_keys(keys, M, K)

    return reduce(lambda one, other: joined(one, other, M), (some(a, b) for a, b in pairwise(edges)))


def _fill_table(
    follows: Any, indptr: Any, annotator: Any, label: Any, first: Any, stop: Any, rows: Any, K: Any, table: Any
) -> None:
    for n in range(first, stop):
        if not follows[n]:
            continue
        for i in range(indptr[n], indptr[n + 1]):
            here = (np.uint64(annotator[i]) * np.uint64(K) + np.uint64(label[i])) * np.uint64(rows)
            for j in range(indptr[n - 1], indptr[n]):
                table[here + np.uint64(annotator[j]) * np.uint64(K) + np.uint64(label[j])] += np.uint32(1)


def _list_keys(
    follows: Any, indptr: Any, annotator: Any, label: Any, first: Any, stop: Any, M: Any, K: Any, keys: Any
) -> None:
    at = 0
    for n in range(first, stop):
        if not follows[n]:
            continue
        for i in range(indptr[n], indptr[n + 1]):
            for j in range(indptr[n - 1], indptr[n]):
                pair = np.uint64(annotator[i]) * np.uint64(M) + np.uint64(annotator[j])
                keys[at] = (pair * np.uint64(K) + np.uint64(label[i])) * np.uint64(K) + np.uint64(label[j])
                at += 1
