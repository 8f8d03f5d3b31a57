"""Rows in any order to labels grouped by item, with repeated answers dropped or counted.

Grouping is a counting sort in two levels: three passes over the rows, no comparison, stable.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from consilience.exceptions import DataError
from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Ints, code_dtype, even_parts
from consilience.kernels._compile import kernel
from consilience.kernels.blocks import Node

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
    # Writing straight to the places of the items would miss the cache for every row.  So rows go into bundles of
    # neighbouring items first, packed into one word each, and each bundle, which fits the cache, is sorted on its own.
    # A word holds the place within the bundle, the annotator and the label, in this order.
    label_bits = (n_classes - 1).bit_length()
    item_shift = label_bits + (n_annotators - 1).bit_length()
    if item_shift + _BUNDLE > 64:
        raise DataError(f"{n_annotators} annotators and {n_classes} classes are too many to be coded")
    word = "uint32" if item_shift + _BUNDLE <= 32 else "uint64"
    bits = item_shift, label_bits
    columns = item, annotator, label
    item_type, annotator_type, label_type = (column.dtype.name for column in columns)
    count = kernel(_count, f"{item_type}[] {label_type}[] int64", "int64[]!")
    scatter = kernel(_scatter, f"{item_type}[] {annotator_type}[] {label_type}[] int64[]! int64 int64 {word}[]!")
    n_bundles = -(-n_items // (1 << _BUNDLE))
    parts = even_parts(item.size, blocks.thread_count())
    sizes = np.array(blocks.run(lambda a, b: count(item[a:b], label[a:b], n_bundles), parts))
    # the rows of part p in bundle b begin at starts[p, b]
    flat = np.concatenate([[0], np.cumsum(sizes.T.ravel())])
    starts = flat[:-1].reshape(n_bundles, len(parts)).T.copy()
    rows = np.empty(int(flat[-1]), word)
    blocks.run(
        lambda p, _: scatter(*(column[slice(*parts[p])] for column in columns), starts[p], *bits, rows),
        [(p, p + 1) for p in range(len(parts))],
    )
    begin = np.ascontiguousarray(flat[:: len(parts)])
    indptr = np.empty(n_items + 1, np.int64)
    indptr[-1] = rows.size
    by, said = np.empty(rows.size, code_dtype(n_annotators)), np.empty(rows.size, code_dtype(n_classes))
    sort = kernel(_sort, f"{word}[] int64[] int64 int64 int64 int64 int64[]! {by.dtype}[]! {said.dtype}[]!")
    blocks.run(
        lambda a, b: sort(rows, begin[a : b + 1], a, n_items, *bits, indptr, by, said),
        even_parts(n_bundles, blocks.thread_count()),
    )
    return indptr, by, said


def drop_repeats(
    indptr: Ints, annotator: Codes, label: Codes, n_annotators: int, keep: str, *, overwrite: bool = False
) -> tuple[Ints, Codes, Codes, int]:
    """Keep the first or the last (``keep``) of an annotator's answers to one item; count the rest.

    With ``keep="all"`` nothing is dropped, only counted.  With ``overwrite``, the arrays given are used up, and no new
    memory is needed.
    """
    parts = blocks.cut(indptr, n_annotators)
    begins = [int(indptr[a]) for a, _ in parts]

    def drop_all(begins: list[int], new: tuple[Ints, Codes, Codes]) -> list[int]:
        begin = dict(zip(parts, begins, strict=True))
        rule = n_annotators, keep == "last"
        kinds = annotator.dtype, label.dtype
        old_types, new_types = "int64[] {}[] {}[]".format(*kinds), "int64[]! {}[]! {}[]!".format(*kinds)
        drop = kernel(_drop, f"{old_types} int64 boolean int64 {new_types}", "int64")
        return blocks.run(
            lambda a, b: drop(indptr[a : b + 1], annotator, label, *rule, begin[a, b], new[0][a:b], *new[1:]), parts
        )

    if overwrite and keep != "all":
        found = drop_all(begins, (indptr, annotator, label))
        return _closed_up(indptr, annotator, label, parts, begins, found)
    count = kernel(_count_repeats, f"int64[] {annotator.dtype}[] int64", "int64")
    found = blocks.run(lambda a, b: count(indptr[a : b + 1], annotator, n_annotators), parts)
    repeats = sum(found)
    if repeats == 0 or keep == "all":
        return indptr, annotator, label, repeats
    left = annotator.size - repeats
    new = np.empty_like(indptr), np.empty(left, annotator.dtype), np.empty(left, label.dtype)
    new[0][-1] = left
    drop_all([begin - dropped for begin, dropped in zip(begins, accumulate([0, *found]), strict=False)], new)
    return *new, repeats


def _closed_up(
    indptr: Ints, annotator: Codes, label: Codes, parts: list[Node], begins: list[int], dropped: list[int]
) -> tuple[Ints, Codes, Codes, int]:
    """Close the gaps between blocks that have ``dropped`` some of their labels."""
    gap = 0
    for (a, b), begin, end, gone in zip(parts, begins, [*begins[1:], annotator.size], dropped, strict=True):
        if gap:
            indptr[a:b] -= gap
            for column in (annotator, label):
                column[begin - gap : end - gone - gap] = column[begin : end - gone]
        gap += gone
    indptr[-1] -= gap
    left = annotator.size - gap
    if gap > left:  # a copy frees more memory than it takes
        return indptr, annotator[:left].copy(), label[:left].copy(), gap
    return indptr, annotator[:left], label[:left], gap


def components(indptr: Ints, annotator: Codes, n_annotators: int) -> Ints:
    """Return each annotator's connected component: two annotators with an item in common share one.

    Components are numbered by their first annotator, from 0.
    """
    root = np.arange(n_annotators, dtype=np.int64)
    kernel(_union, f"int64[] {annotator.dtype}[] int64[]!")(indptr, annotator, root)
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
