"""Rows in any order to labels grouped by item, with repeated answers found on the way.

A counting sort in two levels: three passes over the rows, no comparison, stable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Ints, code_dtype
from consilience.kernels.blocks import Node
from consilience.kernels.em import SMALL

#: A bundle is this many bits of items: 4096 of them, whose labels fit a core's cache.
_BUNDLE = 12

__all__ = ["components", "drop_repeats", "group_by_item"]


def group_by_item(
    item: Codes, annotator: Codes, label: Codes, n_items: int, n_annotators: int, n_classes: int
) -> tuple[Ints, Codes, Codes]:
    """Sort rows by item, keeping their order within an item; rows with ``label == -1`` are left out.

    Codes come in 32 bits or in smaller signed types.  Returns ``indptr, annotator, label``, the latter two in the
    smallest types that hold them.
    """
    if item.size < SMALL or n_annotators > 1 << 28 or n_classes > 1 << 24:
        keep = np.flatnonzero(label >= 0)
        order = keep[np.argsort(item[keep], kind="stable")]
        counts = np.bincount(item[order], minlength=n_items)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return (
            indptr,
            annotator[order].astype(code_dtype(n_annotators)),
            label[order].astype(code_dtype(n_classes)),
        )
    # Writing straight to the places of the items would miss the cache for every row.  So rows go into bundles of
    # neighbouring items first, packed into one word each, and each bundle, which fits the cache, is sorted on its own.
    bundle = 1 << _BUNDLE
    n_bundles = -(-n_items // bundle)
    edges = np.linspace(0, item.size, blocks.thread_count() + 1).astype(int).tolist()
    parts = list(pairwise(edges))
    # a word has bits for the place within the bundle, the annotator and the label, in this order
    label_bits = (n_classes - 1).bit_length()
    item_shift = label_bits + (n_annotators - 1).bit_length()
    word = np.dtype(np.uint32 if item_shift + _BUNDLE <= 32 else np.uint64)
    count, scatter = _scatter_kernels(word.name, item.dtype.name, annotator.dtype.name, label.dtype.name)
    sizes = np.array(blocks.run(lambda a, b: count(item[a:b], label[a:b], n_bundles), parts))
    # the rows of part p in bundle b begin at starts[p, b]
    flat = np.concatenate([[0], np.cumsum(sizes.T.ravel())])
    starts = flat[:-1].reshape(n_bundles, len(parts)).T.copy()
    rows = np.empty(int(flat[-1]), word)
    columns, bits = (item, annotator, label), (item_shift, label_bits)
    blocks.run(
        lambda p, _: scatter(*(column[slice(*parts[p])] for column in columns), starts[p], *bits, rows),
        [(p, p + 1) for p in range(len(parts))],
    )
    begin = np.ascontiguousarray(flat[:: len(parts)])
    indptr = np.empty(n_items + 1, np.int64)
    indptr[-1] = rows.size
    grouped_annotator = np.empty(rows.size, code_dtype(n_annotators))
    grouped_label = np.empty(rows.size, code_dtype(n_classes))
    sort = _sort_kernel(word.name, grouped_annotator.dtype.name, grouped_label.dtype.name)
    blocks.run(
        lambda a, b: sort(rows, begin[a : b + 1], a, n_items, *bits, indptr, grouped_annotator, grouped_label),
        list(pairwise(np.linspace(0, n_bundles, blocks.thread_count() + 1).astype(int).tolist())),
    )
    return indptr, grouped_annotator, grouped_label


def drop_repeats(
    indptr: Ints, annotator: Codes, label: Codes, n_annotators: int, keep: str, *, overwrite: bool = False
) -> tuple[Ints, Codes, Codes, int]:
    """Keep the first or the last (``keep``) of an annotator's answers to one item; count the rest.

    With ``keep="all"`` nothing is dropped, only counted.  With ``overwrite``, the arrays given are used up, and no new
    memory is needed.
    """
    if annotator.size < SMALL:
        return _drop_few(indptr, annotator, label, n_annotators, keep)
    parts = blocks.cut(indptr, n_annotators)
    begins = [int(indptr[a]) for a, _ in parts]
    count, drop = _repeat_kernels(annotator.dtype.name, label.dtype.name)

    def drop_all(begins: list[int], new: tuple[Ints, Codes, Codes]) -> list[int]:
        begin = dict(zip(parts, begins, strict=True))
        rule = n_annotators, keep == "last"
        return blocks.run(
            lambda a, b: drop(indptr[a : b + 1], annotator, label, *rule, begin[a, b], new[0][a:b], *new[1:]), parts
        )

    if overwrite and keep != "all":
        found = drop_all(begins, (indptr, annotator, label))
        return _closed_up(indptr, annotator, label, parts, begins, found)
    found = blocks.run(lambda a, b: count(indptr[a : b + 1], annotator, n_annotators), parts)
    repeats = sum(found)
    if repeats == 0 or keep == "all":
        return indptr, annotator, label, repeats
    left = annotator.size - repeats
    new = np.empty_like(indptr), np.empty(left, annotator.dtype), np.empty(left, label.dtype)
    new[0][-1] = left
    drop_all([begin - dropped for begin, dropped in zip(begins, accumulate([0, *found]), strict=False)], new)
    return *new, repeats


def _drop_few(
    indptr: Ints, annotator: Codes, label: Codes, n_annotators: int, keep: str
) -> tuple[Ints, Codes, Codes, int]:
    item = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    pair = item * n_annotators + annotator
    # the stable order puts the earliest row of each pair first
    _, earliest = np.unique(pair, return_index=True)
    _, latest = np.unique(pair[::-1], return_index=True)
    mark = np.ones(annotator.size, np.bool_)
    mark[earliest if keep != "last" else pair.size - 1 - latest] = False
    repeats = int(mark.sum())
    if repeats == 0 or keep == "all":
        return indptr, annotator, label, repeats
    before = np.concatenate([[0], np.cumsum(mark)])
    return indptr - before[indptr], annotator[~mark], label[~mark], repeats


def _closed_up(
    indptr: Ints, annotator: Codes, label: Codes, parts: list[Node], begins: list[int], dropped: list[int]
) -> tuple[Ints, Codes, Codes, int]:
    """Move blocks that have ``dropped`` some of their labels up to one another."""
    gap = 0
    for (a, b), begin, end, gone in zip(parts, begins, [*begins[1:], annotator.size], dropped, strict=True):
        if gap:
            indptr[a:b] -= gap
            for column in (annotator, label):
                column[begin - gap : end - gone - gap] = column[begin : end - gone]
        gap += gone
    indptr[-1] -= gap
    left = annotator.size - gap
    if gap > left:  # what would be held for nothing is worth a copy
        return indptr, annotator[:left].copy(), label[:left].copy(), gap
    return indptr, annotator[:left], label[:left], gap


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


def _count(item: Any, label: Any, n_bundles: Any) -> Any:
    sizes = np.zeros(n_bundles, np.int64)
    for i in range(item.size):
        if label[i] >= 0:
            sizes[item[i] >> _BUNDLE] += 1
    return sizes


def _scatter(
    item: Any, annotator: Any, label: Any, start: Any, item_shift: Any, annotator_shift: Any, rows: Any
) -> None:
    """Pack item (within its bundle), annotator and label into a word, and put it into its bundle."""
    inner = np.uint64((1 << _BUNDLE) - 1)
    for i in range(item.size):
        if label[i] >= 0:
            n = np.uint64(item[i])
            b = n >> np.uint64(_BUNDLE)
            by = np.uint64(annotator[i]) << np.uint64(annotator_shift)
            rows[start[b]] = (n & inner) << np.uint64(item_shift) | by | np.uint64(label[i])
            start[b] += 1


def _sort(
    rows: Any,
    begin: Any,
    first: Any,
    n_items: Any,
    item_shift: Any,
    annotator_shift: Any,
    indptr: Any,
    annotator: Any,
    label: Any,
) -> None:
    of_item, of_annotator = np.uint64(item_shift), np.uint64(annotator_shift)
    by_mask = (np.uint64(1) << (of_item - of_annotator)) - np.uint64(1)
    label_mask = (np.uint64(1) << of_annotator) - np.uint64(1)
    place = np.empty((1 << _BUNDLE) + 1, np.int64)
    for b in range(begin.size - 1):
        place[:] = 0
        for i in range(begin[b], begin[b + 1]):
            place[(np.uint64(rows[i]) >> of_item) + np.uint64(1)] += 1
        place[0] = begin[b]
        low = (first + b) << _BUNDLE
        for n in range(min(1 << _BUNDLE, n_items - low)):
            indptr[low + n] = place[n]
            place[n + 1] += place[n]
        for i in range(begin[b], begin[b + 1]):
            row = np.uint64(rows[i])
            inner = row >> of_item
            at = place[inner]
            place[inner] = at + 1
            annotator[at] = (row >> of_annotator) & by_mask
            label[at] = row & label_mask


def _count_repeats(indptr: Any, annotator: Any, n_annotators: Any) -> Any:
    seen = np.full(n_annotators, -1, np.int64)
    repeats = 0
    for n in range(indptr.size - 1):
        for i in range(indptr[n], indptr[n + 1]):
            m = annotator[i]
            repeats += seen[m] == n
            seen[m] = n
    return repeats


def _drop(
    indptr: Any,
    annotator: Any,
    label: Any,
    n_annotators: Any,
    last: Any,
    begin: Any,
    new_indptr: Any,
    new_annotator: Any,
    new_label: Any,
) -> Any:
    """Write what is kept from place ``begin`` on, which may be where it is read, and count the rest."""
    chosen = np.full(n_annotators, -1, np.int64)
    at = begin
    start = indptr[0]
    for n in range(indptr.size - 1):
        stop = indptr[n + 1]
        for i in range(start, stop):
            if last or chosen[annotator[i]] < start:
                chosen[annotator[i]] = i
        new_indptr[n] = at
        for i in range(start, stop):
            if chosen[annotator[i]] == i:
                new_annotator[at] = annotator[i]
                new_label[at] = label[i]
                at += 1
        start = stop
    return start - indptr[0] - (at - begin)


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
def _scatter_kernels(word: str, item: str, annotator: str, label: str) -> tuple[Callable[..., Any], ...]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    columns = tuple(map(array, (item, annotator, label)))
    sizes, packed, whole = array("int64", readonly=False), array(word, readonly=False), types.int64
    return (
        compiled(_count, sizes(columns[0], columns[2], whole)),
        compiled(_scatter, types.void(*columns, sizes, whole, whole, packed)),
    )


@lru_cache(maxsize=16)
def _sort_kernel(word: str, annotator: str, label: str) -> Callable[..., None]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    new = (array(kind, readonly=False) for kind in ("int64", annotator, label))
    return compiled(_sort, types.void(array(word), array("int64"), *[types.int64] * 4, *new))


@lru_cache(maxsize=16)
def _repeat_kernels(annotator: str, label: str) -> tuple[Callable[..., int], Callable[..., int]]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    old = array("int64"), array(annotator), array(label)
    new = (array(kind, readonly=False) for kind in ("int64", annotator, label))
    whole = types.int64
    return (
        compiled(_count_repeats, whole(*old[:2], whole)),
        compiled(_drop, whole(*old, whole, types.boolean, whole, *new)),
    )


@lru_cache(maxsize=4)
def _union_kernel(annotator: str) -> Callable[..., None]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    return compiled(_union, types.void(array("int64"), array(annotator), array("int64", readonly=False)))
