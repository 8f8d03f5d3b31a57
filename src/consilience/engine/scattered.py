"""Rows of an item that are spread over the files are brought together on disk.

1. Every row goes to a partition by a hash of its item, so that an item is whole in one of them.  There are as many
   partitions as it takes for one to fit into memory.
2. Each partition is read, its rows are put together by item, and it is written as a run: its items in the order of
   the rows where they first stand.
3. The runs are laid together, a block of rows at a time: items are numbered by first appearance over all files.

``docs/decisions/0007-out-of-core.md`` says why it is done so.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.engine.coded_rows import CodedRows, Repeats
from consilience.engine.coder import names_at, names_of_words
from consilience.engine.store import let_go
from consilience.engine.store_writer import StoreWriter
from consilience.exceptions import DataError
from consilience.io.batches import LabelFiles
from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Ints
from consilience.kernels.grouping import drop_repeats, group_by_item

__all__ = ["name_of_row", "write_scattered"]

#: Bytes of memory for a row while its partition is put together, and for a label while runs are laid together.
_ROW, _LABEL = 72, 48
#: Smaller partitions than memory allows are faster, because they fit the cache; up to so many files.
_AT_ONCE, _FILES, _OPEN = 1 << 20, 128, 500
#: Most rows that a block of the third step spans, and most of its counters.
_SPAN, _COUNTERS = 1 << 20, 1 << 14


def write_scattered(rows: CodedRows, writer: StoreWriter, keep: str, folder: Path, room: int) -> Repeats:
    """Write rows in any order to a store; the arguments are those of :func:`~.grouped.write_grouped`."""
    n_rows, threads = rows.files.n_rows, blocks.thread_count()
    n_parts = max(-(-n_rows * _ROW * threads // room), min(-(-n_rows // _AT_ONCE), _FILES), 1)
    paths = [folder / f"partition-{p}" for p in range(n_parts)]
    width = _partition(rows, paths)
    shift = max(0, rows.n_rows.bit_length() - _COUNTERS.bit_length() + 1)
    labels_at = np.zeros((rows.n_rows >> shift) + 1, np.int64)
    runs, repeats = [], Repeats()
    tell = rows.steps("bringing items together", 2 * rows.n_rows)
    with ThreadPoolExecutor(threads) as pool:
        for run, more in pool.map(lambda path: _make_run(path, width, rows, keep), paths):
            repeats = repeats.plus(more)
            tell(rows.n_rows // n_parts)
            if run is not None:
                runs.append(run)
                labels_at += run.labels_at(shift, labels_at.size)
    names = None if width == 1 else _NamesOfRows(rows.files)
    assert rows.kind is not None
    for low, high in _blocks(runs, labels_at, shift, rows.n_rows, room):
        first, words, lengths, by, said = _lay_together(runs, low, high)
        if first.size:
            writer.append(lengths, by, said, names_of_words(words, rows.kind) if names is None else names.take(first))
        tell(high - low)
    return repeats


def name_of_row(files: LabelFiles, row: int) -> Any:
    """Give the item of one row."""
    return _NamesOfRows(files).take(np.array([row]))[0].as_py()


# ---- rows to partitions -----------------------------------------------------------------------------------------


def _partition(rows: CodedRows, paths: list[Path]) -> int:
    """Write every row to the partition of its item; give the number of words of a key."""
    from consilience.kernels.rows import partition

    width = 1
    with ExitStack() as stack:
        # a system lets a process have about a thousand files open; others are opened for every write
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


# ---- partitions to runs -----------------------------------------------------------------------------------------


class _Run:
    """The items of one partition, in the order of the rows where they first stand, and their labels."""

    def __init__(self, path: Path, **columns: Codes) -> None:
        """Write the columns to files beside ``path`` and map them."""
        self.first = self._put(path, "first", columns["first"])
        self.word = self._put(path, "word", columns["word"])
        self.indptr = self._put(path, "indptr", columns["indptr"])
        self.annotator = self._put(path, "annotator", columns["annotator"])
        self.label = self._put(path, "label", columns["label"])

    def _put(self, path: Path, name: str, values: Codes) -> Any:
        place = path.with_name(f"{path.name}.{name}")
        np.ascontiguousarray(values).tofile(place)
        return np.memmap(place, values.dtype, "r") if values.size else values

    def labels_at(self, shift: int, n: int) -> Ints:
        """Count the labels of items by where the items first stand."""
        counts = np.bincount(self.first >> shift, np.diff(self.indptr), n).astype(np.int64)
        self.release(0, self.first.size)
        return counts

    def release(self, a: int, b: int) -> None:
        """Let go of the memory of these items."""
        low, high = int(self.indptr[a]), int(self.indptr[b])
        ends = {"first": (a, b), "word": (a, b), "indptr": (a, b + 1), "annotator": (low, high), "label": (low, high)}
        for name, (begin, end) in ends.items():
            column = getattr(self, name)
            if isinstance(column, np.memmap):
                let_go(column, begin, end)


def _make_run(path: Path, width: int, rows: CodedRows, keep: str) -> tuple[_Run | None, Repeats]:
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
    return _Run(path, first=first, word=word, indptr=indptr, annotator=by, label=said), repeats


# ---- runs to the store ------------------------------------------------------------------------------------------


def _blocks(runs: list[_Run], labels_at: Ints, shift: int, n_rows: int, room: int) -> Iterator[tuple[int, int]]:
    """Cut the rows into blocks such that the items that first stand there, with their labels, take little memory."""
    most, span = max(room // _LABEL, 1), max(min(room // _LABEL, _SPAN), 1)
    low = held = 0
    for at, n in enumerate(labels_at.tolist()):
        begin, end = at << shift, min((at + 1) << shift, n_rows)
        if begin > low and (held + n > most or end - low > span):
            yield low, begin
            low, held = begin, 0
        if n > most:
            for cut in _cuts(runs, begin, end, most):
                yield low, cut
                low = cut
        else:
            held += n
    if n_rows > low:
        yield low, n_rows


def _cuts(runs: list[_Run], begin: int, end: int, most: int) -> list[int]:
    """Cut between single items, where those that first stand in few rows have many labels."""
    slices = [(run, *np.searchsorted(run.first, (begin, end)).tolist()) for run in runs]
    first = np.concatenate([run.first[a:b] for run, a, b in slices])
    lengths = np.concatenate([np.diff(run.indptr[a : b + 1]) for run, a, b in slices])
    order = np.argsort(first)
    after = np.cumsum(lengths[order])
    cuts = np.unique(np.searchsorted(after, np.arange(most, after[-1], most), "right"))
    return [int(first[order[cut]]) for cut in cuts if cut < first.size]


def _lay_together(runs: list[_Run], low: int, high: int) -> tuple[Ints, Codes, Ints, Codes, Codes]:
    """Give the items that first stand in these rows, in this order: row, word, number of labels, and the labels."""
    from consilience.kernels.rows import gather

    parts: list[tuple[Codes, ...]] = []
    slices, base = [], 0
    for run in runs:
        a, b = np.searchsorted(run.first, (low, high)).tolist()
        ends = np.array(run.indptr[a : b + 1])
        i, j = int(ends[0]), int(ends[-1])
        columns = (
            run.first[a:b],
            run.word[a:b],
            ends[:-1] + (base - i),
            np.diff(ends),
            run.annotator[i:j],
            run.label[i:j],
        )
        parts.append(columns)
        slices.append((run, a, b))
        base += j - i
    first, word, start, lengths, by, said = (np.concatenate(column) for column in zip(*parts, strict=True))
    for run, a, b in slices:
        run.release(a, b)
    # every row is the first of at most one item: what stands in the table is in order
    table = np.full(high - low, -1, np.int32)
    table[first - low] = np.arange(first.size, dtype=np.int32)
    rows = np.flatnonzero(table >= 0)
    order = table[rows].astype(np.int64)
    by, said = gather(order, start, lengths, by, said)
    return rows + low, word[order], lengths[order], by, said


class _NamesOfRows:
    """Reads the item column once more, forwards, for the names of some rows."""

    def __init__(self, files: LabelFiles) -> None:
        self._batches = files.batches("item")
        self._column, self._begin, self._end = pa.array([], pa.string()), 0, 0

    def take(self, rows: Ints) -> pa.Array:
        """Give the names in rows that rise, from one call to the next as well."""
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
