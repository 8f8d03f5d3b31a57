"""Rows already grouped by item go straight into the store.

Whether they are is checked on the way: an item begins where the id changes, and no id may begin twice.  Ascending ids
cannot; of other ids one word each is kept and looked up, in memory while there is room, then on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from consilience.engine.coded_rows import CodedRows, Repeats
from consilience.engine.coder import names_at, run_starts
from consilience.engine.store_writer import StoreWriter
from consilience.io.batches import ahead
from consilience.kernels._arrays import Codes, Ints
from consilience.kernels.grouping import drop_repeats

__all__ = ["write_grouped"]

#: After this many items, most of them with a single row, the rows are taken to be scattered.
_ALONE = 1 << 18


def write_grouped(rows: CodedRows, writer: StoreWriter, keep: str, folder: Path, room: int) -> Repeats | None:
    """Write rows in their order; return None as soon as an item appears again after others.

    Parameters
    ----------
    rows
        The rows.
    writer
        Writer of the store.
    keep
        Which of repeated answers to keep: "last", "first" or "all".
    folder
        Folder for a temporary file.
    room
        Bytes of memory that may be used.
    """
    seen, repeats = _Seen(folder / "begun", room), Repeats()
    try:
        with closing(ahead(_whole_items(rows, seen))) as blocks:
            for row, begin, names, by, said in blocks:
                indptr = np.append(begin, by.size)
                if said.size and said.min() < 0:
                    labelled = said >= 0
                    indptr = np.concatenate([[0], np.cumsum(labelled)])[indptr]
                    by, said = by[labelled], said[labelled]
                indptr, by, said, n = drop_repeats(indptr, by, said, len(rows.annotators), keep)
                repeats = repeats.plus(Repeats.in_block(n, indptr, by, row + begin, keep == "all" and not repeats.n))
                writer.append(np.diff(indptr), by, said, names)
        return repeats
    except _BeginsAgain:
        return None
    finally:
        seen.close()


class _BeginsAgain(Exception):  # noqa: N818 - not an error
    """An item begins a second time."""


class _Items(NamedTuple):
    """Rows of complete items."""

    row: int  #: index of the first row, over all files
    begin: Ints  #: first row of each item, relative to it
    names: pa.Array
    annotator: Codes
    label: Codes


def _whole_items(rows: CodedRows, seen: _Seen) -> Iterator[_Items]:
    # the last item of a batch may continue in the next
    waiting: list[tuple[Codes, Codes]] = []
    name: pa.Array | None = None
    row = n_begun = 0
    alone = np.zeros(1, np.int64)
    for batch in rows:
        starts = run_starts(batch.items, name)
        if not starts.size:
            waiting.append((batch.annotator, batch.label))
            continue
        n_begun += starts.size
        if n_begun >= _ALONE and 5 * n_begun > 4 * (batch.row + len(batch.items)):
            raise _BeginsAgain
        names = names_at(batch.items, starts)
        if not seen.add(rows.keys(batch, names, starts)):
            raise _BeginsAgain
        first, last = int(starts[0]), int(starts[-1])
        if name is not None:
            waiting.append((batch.annotator[:first], batch.label[:first]))
            yield _Items(row, alone, name, *map(np.concatenate, zip(*waiting, strict=True)))
        if last > first:
            inner = batch.annotator[first:last], batch.label[first:last]
            yield _Items(batch.row + first, starts[:-1] - first, names[:-1], *inner)
        waiting, name, row = [(batch.annotator[last:], batch.label[last:])], names[-1:], batch.row + last
    if not seen.distinct():
        raise _BeginsAgain
    if name is not None:
        yield _Items(row, alone, name, *map(np.concatenate, zip(*waiting, strict=True)))


class _Seen:
    """The items that have begun, as one word each: the id itself, or half of its hash."""

    def __init__(self, path: Path, room: int) -> None:
        self._path, self._room = path, room
        self._file = path.open("w+b")
        self._rising, self._last = True, -(1 << 63) - 1
        self._words: Any = None  #: all words, while they fit

    def close(self) -> None:
        self._file.close()
        self._path.unlink()

    def add(self, keys: Codes) -> bool:
        """Add items; return False if one of them is known to have begun before."""
        from consilience.kernels.rows import Words

        numbers = keys.ndim == 1
        words = keys if numbers else np.ascontiguousarray(keys[:, 0]).view(np.int64)
        if self._rising:
            self._rising = numbers and int(words[0]) > self._last and bool((words[1:] > words[:-1]).all())
            self._last = int(words[-1])
            if not self._rising:
                self._words = Words()
                if not all(self._words.add(piece) for piece in self._pieces()):
                    return False
        self._file.write(words.data)
        if self._words is not None:
            if self._words.bytes_with(words.size) > self._room:
                self._words = None
            elif not self._words.add(words):
                return False
        return True

    def distinct(self) -> bool:
        """Return whether all are different; two equal hashes count as the same item."""
        from consilience.kernels.rows import Words

        if self._rising or self._words is not None:
            return True
        # by shares of the words that fit in memory
        n_shares = self._file.tell() * 16 // self._room + 1
        for share in range(n_shares):
            words = Words()
            if not all(words.add(_share(piece, share, n_shares)) for piece in self._pieces()):
                return False
        return True

    def _pieces(self) -> Iterator[Codes]:
        end = self._file.tell()
        for low in range(0, end, 1 << 22):
            self._file.seek(low)
            yield np.frombuffer(self._file.read(min(1 << 22, end - low)), np.int64)
        self._file.seek(end)


def _share(words: Codes, share: int, n_shares: int) -> Codes:
    spread = (words.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    mine: Codes = words[spread * np.uint64(n_shares) >> np.uint64(32) == share]
    return mine
