"""Rows in any order to labels grouped by item, with repeated answers found on the way.

A counting sort in two levels: three passes over the rows, no comparison, stable.
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

#: A bundle is this many bits of items: 4096 of them, whose labels fit a core's cache.
_BUNDLE = 12

__all__ = ["components", "drop_repeats", "group_by_item"]


def group_by_item(
    item: Codes, annotator: Codes, label: Codes, n_items: int, n_annotators: int, n_classes: int
) -> tuple[Ints, Codes, Codes]:
    """Sort rows by item, keeping their order within an item; rows with ``label == -1`` are left out.

    Returns ``indptr, annotator, label``, the latter two in the smallest types that hold them.
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
    count, scatter, sort = _group_kernels(word.name, code_dtype(n_annotators).name, code_dtype(n_classes).name)
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
    blocks.run(
        lambda a, b: sort(rows, begin[a : b + 1], a, n_items, *bits, indptr, grouped_annotator, grouped_label),
        list(pairwise(np.linspace(0, n_bundles, blocks.thread_count() + 1).astype(int).tolist())),
    )
    return indptr, grouped_annotator, grouped_label


def drop_repeats(
    indptr: Ints, annotator: Codes, label: Codes, n_annotators: int, keep: str
) -> tuple[Ints, Codes, Codes, int]:
    """Keep the first or the last (``keep``) of an annotator's answers to one item; count the rest.

    With ``keep="all"`` nothing is dropped, only counted.
    """
    mark = np.empty(annotator.size, np.bool_)
    if annotator.size < SMALL:
        item = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        pair = item * n_annotators + annotator
        # the stable order puts the earliest row of each pair first
        _, earliest = np.unique(pair, return_index=True)
        _, latest = np.unique(pair[::-1], return_index=True)
        mark[:] = True
        mark[earliest if keep != "last" else pair.size - 1 - latest] = False
        repeats = int(mark.sum())
        if repeats == 0 or keep == "all":
            return indptr, annotator, label, repeats
        before = np.concatenate([[0], np.cumsum(mark)])
        return indptr - before[indptr], annotator[~mark], label[~mark], repeats
    repeat = _repeat_kernel(annotator.dtype.name)
    parts = blocks.cut(indptr, n_annotators)
    found = blocks.run(lambda a, b: repeat(indptr[a : b + 1], annotator, n_annotators, keep == "last", mark), parts)
    # how many were dropped before each block
    before = np.concatenate([[0], np.cumsum(found)])
    repeats = int(before[-1])
    if repeats == 0 or keep == "all":
        return indptr, annotator, label, repeats
    new_indptr = np.empty_like(indptr)
    new_indptr[-1] = annotator.size - repeats
    new_annotator = np.empty(annotator.size - repeats, annotator.dtype)
    new_label = np.empty(annotator.size - repeats, label.dtype)
    dropped = dict(zip(parts, before.tolist(), strict=False))
    compact = _compact_kernel(annotator.dtype.name, label.dtype.name)
    blocks.run(
        lambda a, b: compact(
            indptr[a : b + 1], annotator, label, mark, dropped[a, b], new_indptr[a:b], new_annotator, new_label
        ),
        parts,
    )
    return new_indptr, new_annotator, new_label, repeats


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


def _repeat(indptr: Any, annotator: Any, n_annotators: Any, last: Any, mark: Any) -> Any:
    seen = np.full(n_annotators, -1, np.int64)
    repeats = 0
    for n in range(indptr.size - 1):
        for i in range(indptr[n], indptr[n + 1]):
            m = annotator[i]
            mark[i] = False
            if seen[m] >= indptr[n]:
                mark[seen[m] if last else i] = True
                repeats += 1
                if not last:
                    continue
            seen[m] = i
    return repeats


def _compact(
    indptr: Any,
    annotator: Any,
    label: Any,
    mark: Any,
    dropped: Any,
    new_indptr: Any,
    new_annotator: Any,
    new_label: Any,
) -> None:
    at = indptr[0] - dropped
    for n in range(indptr.size - 1):
        new_indptr[n] = at
        for i in range(indptr[n], indptr[n + 1]):
            if not mark[i]:
                new_annotator[at] = annotator[i]
                new_label[at] = label[i]
                at += 1


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
def _group_kernels(word: str, annotator: str, label: str) -> tuple[Callable[..., Any], ...]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    column, sizes = array("int32"), array("int64", readonly=False)
    packed = array(word, readonly=False)
    grouped = array(annotator, readonly=False), array(label, readonly=False)
    whole = types.int64
    return (
        compiled(_count, sizes(column, column, whole)),
        compiled(_scatter, types.void(column, column, column, sizes, whole, whole, packed)),
        compiled(_sort, types.void(packed, array("int64"), whole, whole, whole, whole, sizes, *grouped)),
    )


@lru_cache(maxsize=4)
def _repeat_kernel(annotator: str) -> Callable[..., int]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    mark = array("bool", readonly=False)
    return compiled(_repeat, types.int64(array("int64"), array(annotator), types.int64, types.boolean, mark))


@lru_cache(maxsize=16)
def _compact_kernel(annotator: str, label: str) -> Callable[..., None]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    old = array("int64"), array(annotator), array(label), array("bool")
    new = (array(kind, readonly=False) for kind in ("int64", annotator, label))
    return compiled(_compact, types.void(*old, types.int64, *new))


@lru_cache(maxsize=4)
def _union_kernel(annotator: str) -> Callable[..., None]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    return compiled(_union, types.void(array("int64"), array(annotator), array("int64", readonly=False)))
