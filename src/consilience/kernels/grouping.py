"""Rows in any order to labels grouped by item, with repeated answers found on the way.

A counting sort: two passes over the rows, no comparison, stable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Ints, code_dtype
from consilience.kernels.em import SMALL

__all__ = ["components", "drop_repeats", "group_by_item"]


def group_by_item(
    item: Codes, annotator: Codes, label: Codes, n_items: int, n_annotators: int, n_classes: int
) -> tuple[Ints, Codes, Codes]:
    """Sort rows by item, keeping their order within an item; rows with ``label == -1`` are left out.

    Returns ``indptr, annotator, label``, the latter two in the smallest types that hold them.
    """
    if item.size < SMALL:
        keep = np.flatnonzero(label >= 0)
        order = keep[np.argsort(item[keep], kind="stable")]
        counts = np.bincount(item[order], minlength=n_items)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return (
            indptr,
            annotator[order].astype(code_dtype(n_annotators)),
            label[order].astype(code_dtype(n_classes)),
        )
    indptr = np.zeros(n_items + 2, np.int64)
    count, place = _group_kernels(code_dtype(n_annotators).name, code_dtype(n_classes).name)
    # Each thread takes a range of items and passes over all rows: no two write to the same place.
    edges = np.linspace(0, n_items, blocks.thread_count() + 1).astype(int).tolist()
    ranges = list(pairwise(edges))
    blocks.run(lambda low, high: count(item, label, low, high, indptr), ranges)
    np.cumsum(indptr, out=indptr)
    grouped_annotator = np.empty(int(indptr[-1]), code_dtype(n_annotators))
    grouped_label = np.empty(int(indptr[-1]), code_dtype(n_classes))
    # indptr[n + 1] begins as the first place of item n and ends as the first place of item n + 1
    blocks.run(
        lambda low, high: place(item, annotator, label, low, high, indptr, grouped_annotator, grouped_label), ranges
    )
    return indptr[:-1], grouped_annotator, grouped_label


def drop_repeats(
    indptr: Ints, annotator: Codes, label: Codes, n_annotators: int, keep: str
) -> tuple[Ints, Codes, Codes, int]:
    """Keep the first or the last (``keep``) of an annotator's answers to one item; count the rest.

    With ``keep="all"`` nothing is dropped, only counted.
    """
    mark = np.zeros(annotator.size, np.bool_)
    if annotator.size < SMALL:
        item = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        pair = item * n_annotators + annotator
        # the stable order puts the earliest row of each pair first
        _, earliest = np.unique(pair, return_index=True)
        _, latest = np.unique(pair[::-1], return_index=True)
        mark[:] = True
        mark[earliest if keep != "last" else pair.size - 1 - latest] = False
    else:
        kernel = _repeat_kernel(annotator.dtype.name)
        blocks.run(
            lambda low, high: kernel(indptr[low : high + 1], annotator, n_annotators, keep == "last", mark),
            blocks.cut(indptr, n_annotators),
        )
    repeats = int(mark.sum())
    if repeats == 0 or keep == "all":
        return indptr, annotator, label, repeats
    before = np.concatenate([[0], np.cumsum(mark)])
    return indptr - before[indptr], annotator[~mark], label[~mark], repeats


def components(indptr: Ints, annotator: Codes, n_annotators: int) -> Ints:
    """Give each annotator's component: two annotators who labelled an item in common share one.

    Components are numbered by their first annotator, from 0.
    """
    root = np.arange(n_annotators, dtype=np.int64)
    if annotator.size < SMALL:
        starts = indptr[:-1][np.diff(indptr) > 0]
        lengths = np.diff(indptr)[np.diff(indptr) > 0]
        while annotator.size:
            # every annotator takes the smallest mark among all who share an item with them
            per_item = np.minimum.reduceat(root[annotator], starts)
            new = root.copy()
            np.minimum.at(new, annotator, np.repeat(per_item, lengths))
            if np.array_equal(new, root):
                break
            root = new
    else:
        _union_kernel(annotator.dtype.name)(indptr, annotator, root)
    return np.unique(root, return_inverse=True)[1].astype(np.int64)


def _count(item: Any, label: Any, low: Any, high: Any, indptr: Any) -> None:
    for i in range(item.size):
        if low <= item[i] < high and label[i] >= 0:
            indptr[np.uint64(item[i]) + np.uint64(2)] += 1


def _place(
    item: Any, annotator: Any, label: Any, low: Any, high: Any, indptr: Any, grouped_annotator: Any, grouped_label: Any
) -> None:
    for i in range(item.size):
        if low <= item[i] < high and label[i] >= 0:
            at = np.uint64(indptr[np.uint64(item[i]) + np.uint64(1)])
            indptr[np.uint64(item[i]) + np.uint64(1)] = at + np.uint64(1)
            grouped_annotator[at] = annotator[i]
            grouped_label[at] = label[i]


def _repeat(indptr: Any, annotator: Any, n_annotators: Any, last: Any, mark: Any) -> None:
    seen = np.full(n_annotators, -1, np.int64)
    for n in range(indptr.size - 1):
        for i in range(indptr[n], indptr[n + 1]):
            m = annotator[i]
            if seen[m] >= indptr[n]:
                mark[seen[m] if last else i] = True
                if not last:
                    continue
            seen[m] = i


def _union(indptr: Any, annotator: Any, root: Any) -> None:
    for n in range(indptr.size - 1):
        for i in range(indptr[n] + 1, indptr[n + 1]):
            a, b = annotator[i - 1], annotator[i]
            x, y = root[a], root[b]
            while root[x] != x:
                x = root[x]
            while root[y] != y:
                y = root[y]
            top = min(x, y)
            root[x] = top
            root[y] = top
            root[a] = top
            root[b] = top
    for m in range(root.size):
        x = root[m]
        while root[x] != x:
            x = root[x]
        root[m] = x


@lru_cache(maxsize=16)
def _group_kernels(annotator: str, label: str) -> tuple[Callable[..., None], Callable[..., None]]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    rows = array("int32")
    indptr = array("int64", readonly=False)
    grouped = array(annotator, readonly=False), array(label, readonly=False)
    return (
        compiled(_count, types.void(rows, rows, types.int64, types.int64, indptr)),
        compiled(_place, types.void(rows, rows, rows, types.int64, types.int64, indptr, *grouped)),
    )


@lru_cache(maxsize=4)
def _repeat_kernel(annotator: str) -> Callable[..., None]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    mark = array("bool", readonly=False)
    return compiled(_repeat, types.void(array("int64"), array(annotator), types.int64, types.boolean, mark))


@lru_cache(maxsize=4)
def _union_kernel(annotator: str) -> Callable[..., None]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    return compiled(_union, types.void(array("int64"), array(annotator), array("int64", readonly=False)))
