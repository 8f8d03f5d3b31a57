"""Counts of what pairs and triples of annotators said about the items that all of them labelled.

Annotator m saying i is row ``m K + i``, so the table of all pairs is the block matrix X of Ibrahim & Fu (2022),
eq. (6), in counts: one addition for each pair of labels on an item, no branch.  If the table would be large, one key
for each pair of labels is sorted instead, and memory grows with the pairs that occur.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Ints, narrowed
from consilience.kernels._compile import kernel

__all__ = ["MOST_LABELS", "count_pairs", "count_triples", "counts_of_keys", "joined", "pairs_fit", "triples_fit"]

#: Cells of a table (4 bytes each), beyond which pairs are sorted, and triples refused.
_LARGEST_TABLE = 1 << 24
_MOST_CELLS = 1 << 27  # in the tables of all threads together
#: Labels of one item whose pairs are counted, unless there are more annotators in a table; of more labels, so many are
#: taken at equal distances, and each of the others has one pair, so that nobody seems to share no item with anybody.
#: Chosen for memory: 10,000 labels on one item have 5e7 pairs, each of them seen once.
MOST_LABELS = 1000
#: Stands for a pair of labels of the same annotator.
_NO_KEY = np.uint64(2**64 - 1)


def count_pairs(
    indptr: Ints,
    annotator: Codes,
    label: Codes,
    n_annotators: int,
    n_classes: int,
    *,
    passed: list[tuple[int, int]] | None = None,
    done: Callable[[int, int], None] | None = None,
    threads: int | None = None,
    most: int = MOST_LABELS,
) -> tuple[Codes, Codes]:
    """Count the label pairs of every pair of annotators m < j with an item in common.

    Returns the pairs (P, 2) in order, and ``counts[p, a, b]``: on how many items m said a and j said b.  ``passed`` are
    the blocks of items to count, by default all of them; ``done`` is called after each.  Of an item with more than
    ``most`` labels, all pairs of so many are used, and one pair of each of the others unless ``most`` is below
    ``MOST_LABELS``.
    """
    M, K = n_annotators, n_classes
    data = indptr, annotator, label
    if pairs_fit(M, K):
        return _by_table(*data, M, K, passed, done, threads)
    if passed is None:
        return _by_sorting(*data, M, K, most)
    made: tuple[Codes, Codes] | None = None
    for first, stop in passed:
        start, end = int(indptr[first]), int(indptr[stop])
        part = _by_sorting(indptr[first : stop + 1] - start, annotator[start:end], label[start:end], M, K, most)
        made = part if made is None else joined(made, part, M)
        if done:
            done(first, stop)
    return made or (np.empty((0, 2), np.int32), np.empty((0, K, K), np.uint8))


def pairs_fit(n_annotators: int, n_classes: int) -> bool:
    """Return whether the table of all pairs is small enough to count without sorting."""
    return (n_annotators * n_classes) ** 2 <= _LARGEST_TABLE


def triples_fit(n_annotators: int, n_classes: int) -> bool:
    """Return whether the table of all triples is small enough to count."""
    return (n_annotators * n_classes) ** 3 <= _LARGEST_TABLE * 4


def count_triples(
    indptr: Ints,
    annotator: Codes,
    label: Codes,
    n_annotators: int,
    n_classes: int,
    *,
    among: Ints | None = None,
    passed: list[tuple[int, int]] | None = None,
    done: Callable[[int, int], None] | None = None,
    threads: int | None = None,
) -> tuple[Codes, Codes]:
    """Count the label triples of every three annotators m < j < l with an item in common: (P, 3) and (P, K, K, K).

    ``among`` are the annotators to count, by default all; numbers in the result are then positions among these.
    ``passed`` and ``done`` are as in :func:`count_pairs`.
    """
    among = np.arange(n_annotators) if among is None else among
    M, K = among.size, n_classes
    place = np.full(n_annotators, -1, np.int64)
    place[among] = np.arange(M)
    table = _tabulate(indptr, annotator, label, M * K, K, 3, passed, done, threads, place).reshape(M, K, M, K, M, K)
    # Each item's rows were sorted, so a triple fills only one of its six orders.
    blocked = table.transpose(4, 2, 0, 5, 3, 1)
    m, j, q = np.nonzero(blocked.any(axis=(3, 4, 5)))
    keep = (m < j) & (j < q)
    who = np.stack([m, j, q], axis=1)[keep].astype(np.int32)
    return who, narrowed(blocked[m[keep], j[keep], q[keep]])


def joined(one: tuple[Codes, Codes], other: tuple[Codes, Codes], M: int) -> tuple[Codes, Codes]:
    """Add the counts of two disjoint sets of items."""
    keys, place = np.unique(
        np.concatenate([who[:, 0].astype(np.int64) * M + who[:, 1] for who, _ in (one, other)]), return_inverse=True
    )
    counts = np.zeros((keys.size, *one[1].shape[1:]), np.uint32)
    counts[place[: len(one[0])]] += one[1]
    counts[place[len(one[0]) :]] += other[1]
    return np.stack(np.divmod(keys, M), axis=1).astype(np.int32), narrowed(counts)


def _by_table(
    indptr: Ints,
    annotator: Codes,
    label: Codes,
    M: int,
    K: int,
    passed: list[tuple[int, int]] | None = None,
    done: Callable[[int, int], None] | None = None,
    threads: int | None = None,
) -> tuple[Codes, Codes]:
    table = _tabulate(indptr, annotator, label, M * K, K, 2, passed, done, threads).reshape(M, K, M, K)
    blocked = table.transpose(0, 2, 1, 3)
    seen = np.zeros((M, M), np.bool_)
    for i in range(K):
        for k in range(K):
            seen |= table[:, i, :, k] > 0
    # of the two blocks of a pair, only that below the diagonal was filled
    first, second = np.nonzero(np.triu(seen.T, 1))
    counts = narrowed(blocked[second, first]).transpose(0, 2, 1)
    return np.stack([first, second], axis=1).astype(np.int32), counts


def _tabulate(
    indptr: Ints,
    annotator: Codes,
    label: Codes,
    rows: int,
    K: int,
    order: int,
    passed: list[tuple[int, int]] | None = None,
    done: Callable[[int, int], None] | None = None,
    threads: int | None = None,
    *places: Ints,
) -> Codes:
    loop = _pair_table if order == 2 else _triple_table
    more = "int64[] " * len(places)
    add = kernel(loop, f"int64[] {annotator.dtype}[] {label.dtype}[] int64 int64 int64 int64 {more}uint32[]!")
    # Whole numbers: the order of the sum does not matter, so threads have tables of their own.  Cells are four bytes;
    # tables of all threads take eight bytes a label, unless one alone takes more.
    n_labels = int(indptr[-1]) if passed is None else sum(int(indptr[b] - indptr[a]) for a, b in passed)
    cells = rows**order
    worth = min(_MOST_CELLS, 2 * n_labels) // max(cells, 1 << 15)
    most = max(1, min(threads or blocks.thread_count(), worth))
    if passed is None:
        edges = np.searchsorted(indptr, np.linspace(0, n_labels, most + 1)[1:-1]).tolist()
        passed = list(zip([0, *edges], [*edges, indptr.size - 1], strict=True))
    spare = blocks.Spare(lambda: np.zeros(cells, np.uint32))

    def work(first: int, stop: int) -> None:
        with spare.one() as table:
            add(indptr, annotator, label, first, stop, rows, K, *places, table)
        if done:
            done(first, stop)

    blocks.run(work, passed, most)
    total, *others = spare.made or [np.zeros(cells, np.uint32)]
    for table in others:
        total += table
    return total


def _by_sorting(
    indptr: Ints, annotator: Codes, label: Codes, M: int, K: int, most: int = MOST_LABELS
) -> tuple[Codes, Codes]:
    degrees = np.diff(indptr)
    lengths = np.minimum(degrees, most)
    others = (degrees - lengths) * (most >= MOST_LABELS)
    start = np.concatenate([[0], np.cumsum(lengths * (lengths - 1) // 2 + others)])
    keys = np.empty(int(start[-1]), np.uint64)
    listed = f"int64[] {annotator.dtype}[] {label.dtype}[] int64[] int64 int64 int64 int64 int64 uint64[]!"
    list_keys = kernel(_list_keys, listed)
    blocks.run(
        lambda a, b: list_keys(indptr, annotator, label, start, a, b, M, K, most, keys),
        blocks.cut(indptr, indptr.size // 64 + 1),
    )
    return counts_of_keys(keys, M, K)


def counts_of_keys(keys: Codes, M: int, K: int) -> tuple[Codes, Codes]:
    """Count keys ``((m M + j) K + a) K + b``, sorted in place: pairs (P, 2) and counts (P, K, K).

    Keys with all bits set are left out.
    """
    keys.sort()
    keys = keys[: np.searchsorted(keys, _NO_KEY)]
    edges = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if keys.size else np.empty(0, np.int64)
    times = np.diff(np.append(edges, keys.size))
    pair, cell = np.divmod(keys[edges], np.uint64(K * K))
    new = np.concatenate([[True], pair[1:] != pair[:-1]]) if pair.size else np.empty(0, np.bool_)
    counts = np.zeros((int(new.sum()), K * K), np.min_scalar_type(int(times.max(initial=0))))
    counts[np.cumsum(new) - 1, cell] = times
    who = np.stack(np.divmod(pair[new], np.uint64(M)), axis=1).astype(np.int32)
    return who, counts.reshape(-1, K, K)


def _pair_table(indptr: Any, annotator: Any, label: Any, first: Any, stop: Any, rows: Any, K: Any, table: Any) -> None:
    longest = 0
    for n in range(first, stop):
        longest = max(longest, indptr[n + 1] - indptr[n])
    row = np.empty(longest, np.uint64)
    for n in range(first, stop):
        start, degree = indptr[n], indptr[n + 1] - indptr[n]
        # more labels than annotators are repeated answers
        used = min(degree, max(MOST_LABELS, rows // K))
        for i in range(used):
            at = start + (i if used == degree else i * degree // used)
            here = np.uint64(annotator[at]) * np.uint64(K) + np.uint64(label[at])
            row[i] = here
            for j in range(i):
                table[max(here, row[j]) * np.uint64(rows) + min(here, row[j])] += np.uint32(1)


def _triple_table(
    indptr: Any, annotator: Any, label: Any, first: Any, stop: Any, rows: Any, K: Any, place: Any, table: Any
) -> None:
    longest = 0
    for n in range(first, stop):
        longest = max(longest, indptr[n + 1] - indptr[n])
    row = np.empty(longest, np.uint64)
    for n in range(first, stop):
        degree = 0
        for at in range(indptr[n], indptr[n + 1]):
            m = place[annotator[at]]
            if m >= 0:
                row[degree] = np.uint64(m) * np.uint64(K) + np.uint64(label[at])
                degree += 1
        row[:degree].sort()
        for i in range(degree):
            for j in range(i):
                cell = (row[i] * np.uint64(rows) + row[j]) * np.uint64(rows)
                for q in range(j):
                    table[cell + row[q]] += np.uint32(1)


def _list_keys(
    indptr: Any, annotator: Any, label: Any, start: Any, first: Any, stop: Any, M: Any, K: Any, most: Any, keys: Any
) -> None:
    for n in range(first, stop):
        at, low, degree = start[n], indptr[n], indptr[n + 1] - indptr[n]
        used = min(degree, most)
        for one in range(used):
            i = low + (one if used == degree else one * degree // used)
            between = 0 if used == degree or most < MOST_LABELS else low + (one + 1) * degree // used - i - 1
            # with all that were taken before, and with those between this one and the next
            for other in range(one + between):
                j = low + (other if used == degree else other * degree // used) if other < one else i + other - one + 1
                m, q = np.uint64(annotator[i]), np.uint64(annotator[j])
                a, b = np.uint64(label[i]), np.uint64(label[j])
                if m > q:
                    m, q, a, b = q, m, b, a
                key = ((m * np.uint64(M) + q) * np.uint64(K) + a) * np.uint64(K) + b
                keys[at] = key if m != q else _NO_KEY
                at += 1
