"""Rows of an item that are scattered over the files are grouped on disk.

1. Every row goes to a partition by a hash of its item, so that each item is complete in one partition.  There are
   enough partitions that each fits in memory.
2. Each partition is read, grouped by item, and written sorted: its items in the order of their first rows.
3. The sorted partitions are merged, a block of rows at a time: items are numbered by first appearance over all files.

``docs/decisions/0007-out-of-core.md`` gives the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from consilience.engine.coded_rows import CodedRows, Repeats
from consilience.engine.coder import names_at, names_of_words
from consilience.engine.store import drop_pages
from consilience.engine.store_writer import StoreWriter
from consilience.exceptions import DataError
from consilience.io.batches import LabelFiles
from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Ints
from consilience.kernels.grouping import drop_repeats, group_by_item

__all__ = ["name_of_row", "write_scattered"]

#: Bytes of memory for a row while its partition is grouped, and for a label while partitions are merged.
_ROW, _LABEL = 72, 48
#: Partitions of fewer rows than memory allows are faster (cache), up to this many files; most files open at once.
_AT_ONCE, _FILES, _OPEN = 1 << 20, 128, 500
#: Most rows in a block of the third step, and most of its counters.
_SPAN, _COUNTERS = 1 << 20, 1 << 14


def write_scattered(rows: CodedRows, writer: StoreWriter, keep: str, folder: Path, room: int) -> Repeats:
    """Write rows in any order to a store; arguments as in :func:`~.grouped.write_grouped`."""
    n_rows, threads = rows.files.n_rows, blocks.thread_count()
    n_parts = max(-(-n_rows * _ROW * threads // room), min(-(-n_rows // _AT_ONCE), _FILES), 1)
    paths = [folder / f"partition-{p}" for p in range(n_parts)]
    width = _partition(rows, paths)
    shift = max(0, rows.n_rows.bit_length() - _COUNTERS.bit_length() + 1)
    labels_at = np.zeros((rows.n_rows >> shift) + 1, np.int64)
    parts, repeats = [], Repeats()
    tell = rows.steps("bringing items together", 2 * rows.n_rows)
    with ThreadPoolExecutor(threads) as pool:
        for part, more in pool.map(lambda path: _sort(path, width, rows, keep), paths):
            repeats = repeats.plus(more)
            tell(rows.n_rows // n_parts)
            if part is not None:
                parts.append(part)
                labels_at += part.labels_at(shift, labels_at.size)
    names = None if width == 1 else _NamesOfRows(rows.files)
    assert rows.kind is not None
    for low, high in _blocks(parts, labels_at, shift, rows.n_rows, room):
        first, words, lengths, by, said = _merge(parts, low, high)
        if first.size:
            writer.append(lengths, by, said, names_of_words(words, rows.kind) if names is None else names.take(first))
        tell(high - low)
    return repeats


def name_of_row(files: LabelFiles, row: int) -> Any:
    """Return the item of one row."""
    return _NamesOfRows(files).take(np.array([row]))[0].as_py()


# ---- rows to partitions -----------------------------------------------------------------------------------------


def _partition(rows: CodedRows, paths: list[Path]) -> int:
    """Write every row to the partition of its item; return the number of words of a key."""
    from consilience.kernels.rows import partition

    width = 1
    with ExitStack() as stack:
        # systems limit a process to about a thousand open files; the others are opened for every write
        files = [stack.enter_context(path.open("wb")) for path in paths[:_OPEN]]
        for batch in rows:
            keys = rows.keys(batch).view(np.uint64)
            width = keys.ndim
            records, edges = partition(keys, batch.row, batch.annotator, batch.label, len(paths), width == 1)
            for at, (a, b) in enumerate(pairwise(edges.tolist())):
                if b == a:
                    continue
                if at < _OPEN:
                    files[at].write(records[a:b].data)
                else:
                    with paths[at].open("ab") as file:
                        file.write(records[a:b].data)
    for path in paths[_OPEN:]:
        path.touch()
    return width


# ---- sorting partitions -----------------------------------------------------------------------------------------


class _SortedPartition(NamedTuple):
    """The items of one partition in the order of their first rows, and their labels; all mapped from files."""

    first: Any  #: first row of each item
    word: Any  #: first word of its key
    indptr: Any
    annotator: Any
    label: Any

    def labels_at(self, shift: int, n: int) -> Ints:
        """Count the labels of items by their first rows."""
        counts = np.bincount(self.first >> shift, np.diff(self.indptr), n).astype(np.int64)
        self.release(0, self.first.size)
        return counts

    def release(self, a: int, b: int) -> None:
        """Drop the pages of these items from memory."""
        of_labels = int(self.indptr[a]), int(self.indptr[b])
        for column, ends in zip(self, ((a, b), (a, b), (a, b + 1), of_labels, of_labels), strict=True):
            if isinstance(column, np.memmap):
                drop_pages(column, *ends)


def _mapped(path: Path, values: Codes) -> Any:
    np.ascontiguousarray(values).tofile(path)
    return np.memmap(path, values.dtype, "r") if values.size else values


def _sort(path: Path, width: int, rows: CodedRows, keep: str) -> tuple[_SortedPartition | None, Repeats]:
    from consilience.kernels.names import Names
    from consilience.kernels.rows import hash_words

    records = np.fromfile(path, np.uint64).reshape(-1, width + 2)
    path.unlink()
    if not len(records):
        return None, Repeats()
    names = Names()
    names.expect(len(records))
    keys = hash_words(np.ascontiguousarray(records[:, 0])) if width == 1 else np.ascontiguousarray(records[:, :2])
    names.add(keys, np.arange(len(keys)))
    del keys
    first = records[names.place, width].astype(np.int64)
    word = records[names.place, 0]
    answer = records[:, width + 1]
    annotator, label = (answer >> np.uint64(32)).astype(np.int32), answer.astype(np.uint32).astype(np.int32) - 1
    del records, answer
    shape = first.size, len(rows.annotators), len(rows.labels)
    indptr, by, said = group_by_item(names.codes, annotator, label, *shape)
    del annotator, label, names
    indptr, by, said, n = drop_repeats(indptr, by, said, shape[1], keep)
    repeats = Repeats.in_block(n, indptr, by, first, keep == "all")
    columns = enumerate((first, word, indptr, by, said))
    return _SortedPartition(*(_mapped(path.with_suffix(f".{at}"), values) for at, values in columns)), repeats


# ---- merging partitions -----------------------------------------------------------------------------------------


def _blocks(
    parts: list[_SortedPartition], labels_at: Ints, shift: int, n_rows: int, room: int
) -> Iterator[tuple[int, int]]:
    """Cut the rows into blocks whose items, by their first rows, take little memory with their labels."""
    most, span = max(room // _LABEL, 1), max(min(room // _LABEL, _SPAN), 1)
    low = held = 0
    for at, n in enumerate(labels_at.tolist()):
        begin, end = at << shift, min((at + 1) << shift, n_rows)
        if begin > low and (held + n > most or end - low > span):
            yield low, begin
            low, held = begin, 0
        if n > most:
            for cut in _cuts(parts, begin, end, most):
                yield low, cut
                low = cut
        else:
            held += n
    if n_rows > low:
        yield low, n_rows


def _cuts(parts: list[_SortedPartition], begin: int, end: int, most: int) -> list[int]:
    """Cut between single items, where items that begin in few rows have many labels."""
    slices = [(part, *np.searchsorted(part.first, (begin, end)).tolist()) for part in parts]
    first = np.concatenate([part.first[a:b] for part, a, b in slices])
    lengths = np.concatenate([np.diff(part.indptr[a : b + 1]) for part, a, b in slices])
    order = np.argsort(first)
    after = np.cumsum(lengths[order])
    cuts = np.unique(np.searchsorted(after, np.arange(most, after[-1], most), "right"))
    return [int(first[order[cut]]) for cut in cuts if cut < first.size]


def _merge(parts: list[_SortedPartition], low: int, high: int) -> tuple[Ints, Codes, Ints, Codes, Codes]:
    """Return the items whose first row is in this range, in this order: row, word, number of labels, and labels."""
    from consilience.kernels.rows import gather

    pieces: list[tuple[Codes, ...]] = []
    slices, base = [], 0
    for part in parts:
        a, b = np.searchsorted(part.first, (low, high)).tolist()
        ends = np.array(part.indptr[a : b + 1])
        i, j = int(ends[0]), int(ends[-1])
        start, lengths = ends[:-1] + (base - i), np.diff(ends)
        pieces.append((part.first[a:b], part.word[a:b], start, lengths, part.annotator[i:j], part.label[i:j]))
        slices.append((part, a, b))
        base += j - i
    first, word, start, lengths, by, said = (np.concatenate(column) for column in zip(*pieces, strict=True))
    for part, a, b in slices:
        part.release(a, b)
    # every row is the first of at most one item, so the table is in order
    table = np.full(high - low, -1, np.int32)
    table[first - low] = np.arange(first.size, dtype=np.int32)
    rows = np.flatnonzero(table >= 0)
    order = table[rows].astype(np.int64)
    by, said = gather(order, start, lengths, by, said)
    return rows + low, word[order], lengths[order], by, said


class _NamesOfRows:
    """Reads the item column again, forwards, for the names of some rows."""

    def __init__(self, files: LabelFiles) -> None:
        self._batches = files.batches("item")
        self._column, self._begin, self._end = pa.array([], pa.string()), 0, 0

    def take(self, rows: Ints) -> pa.Array:
        """Return the names in rows, which ascend also from one call to the next."""
        parts = []
        while rows.size:
            while rows[0] >= self._end:
                batch = next(self._batches, None)
                if batch is None:
                    raise DataError("the files have become shorter while they were read; scan them again")
                self._column, self._begin = batch.columns[0], self._end
                self._end += len(self._column)
            n = int(np.searchsorted(rows, self._end))
            parts.append(names_at(self._column, rows[:n] - self._begin))
            rows = rows[n:]
        return pa.concat_arrays(parts) if parts else self._column[:0]
