"""Counts of what annotators said about a token together with what was said about the token before it.

One key for each label of a token paired with each label of its predecessor is sorted, a range of tokens at a time, so
that memory grows with the pairs that occur.  (A table for few annotators would count faster, 2 million pairs in 3 ms
instead of 50 ms, but it is done once in a fit.)
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from consilience.kernels._arrays import Bools, Codes, Ints
from consilience.kernels._compile import kernel
from consilience.kernels.cooccurrence import counts_of_keys, joined

__all__ = ["count_lagged", "has_predecessor"]

#: Keys (8 bytes each) sorted at a time.
_KEYS_AT_ONCE = 1 << 22


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
    M, K = n_annotators, n_classes
    follows, degree = has_predecessor(bounds), np.diff(indptr)
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
