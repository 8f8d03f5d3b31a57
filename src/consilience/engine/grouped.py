"""Rows that are already together by item go straight into the store.

That they are is found out on the way: an item begins where the id changes, and no id may begin twice.  Ids that only
go up cannot; others are put down as one word each, and looked through whenever their number has doubled.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from consilience.engine.coded_rows import CodedRows, Repeats
from consilience.engine.coder import names_at, run_starts
from consilience.engine.store_writer import StoreWriter
from consilience.kernels._arrays import Codes, Ints
from consilience.kernels.grouping import drop_repeats

__all__ = ["write_grouped"]


def write_grouped(rows: CodedRows, writer: StoreWriter, keep: str, folder: Path, room: int) -> Repeats | None:
    """Write rows as they come, unless an item comes back after others: then give up and return None.

    Parameters
    ----------
    rows
        What to read.
    writer
        Where to write.
    keep
        Which of repeated answers: "last", "first" or "all".
    folder
        For a file of our own.
    room
        Bytes of memory that may be used.
    """
    seen = _Seen(folder / "begun", room)
    repeats = Repeats()
    # the last item of a batch may go on in the next
    waiting: list[tuple[Codes, Codes]] = []
    name: pa.Array | None = None
    n_items = 0

    def write(begin: Ints, names: pa.Array, pieces: list[tuple[Codes, Codes]]) -> None:
        nonlocal n_items, repeats
        by, said = pieces[0] if len(pieces) == 1 else map(np.concatenate, zip(*pieces, strict=True))
        indptr = np.append(begin, by.size).astype(np.int64)
        if said.size and said.min() < 0:
            labelled = said >= 0
            indptr = np.concatenate([[0], np.cumsum(labelled)])[indptr]
            by, said = by[labelled], said[labelled]
        indptr, by, said, n = drop_repeats(indptr, by, said, len(rows.annotators), keep)
        numbers = np.arange(n_items, n_items + begin.size)
        repeats = repeats.plus(n, indptr, by, numbers, keep == "all" and not repeats.n)
        writer.append(np.diff(indptr), by, said, names)
        n_items += begin.size

    try:
        for batch in rows:
            starts = run_starts(batch.items, name)
            if not starts.size:
                waiting.append((batch.annotator, batch.label))
                continue
            if not seen.add(rows.keys(batch, starts)):
                return None
            first, last = int(starts[0]), int(starts[-1])
            names = names_at(batch.items, starts)
            if name is not None:
                write(np.zeros(1, np.int64), name, [*waiting, (batch.annotator[:first], batch.label[:first])])
            if last > first:
                write(starts[:-1] - first, names[:-1], [(batch.annotator[first:last], batch.label[first:last])])
            waiting, name = [(batch.annotator[last:], batch.label[last:])], names[-1:]
        if not seen.distinct():
            return None
        if name is not None:
            write(np.zeros(1, np.int64), name, waiting)
        return repeats
    finally:
        seen.close()


class _Seen:
    """One word for every item that has begun: the id itself, or half of its hash."""

    def __init__(self, path: Path, room: int) -> None:
        self._path, self._room = path, room
        self._file = path.open("w+b")
        self._rising, self._last = True, -(1 << 63) - 1
        self._n, self._looked = 0, 1 << 16

    def close(self) -> None:
        self._file.close()
        self._path.unlink()

    def add(self, keys: Codes) -> bool:
        """Put items down; False if one of them is known to have begun before."""
        if not len(keys):
            return True
        numbers = keys.ndim == 1
        words = keys if numbers else np.ascontiguousarray(keys[:, 0]).view(np.int64)
        if self._rising:
            self._rising = numbers and int(words[0]) > self._last and bool((words[1:] > words[:-1]).all())
            self._last = int(words[-1])
        self._file.write(words.data)
        self._n += words.size
        if self._rising:
            return True
        if self._n >= 2 * self._looked and self._n * 8 <= self._room // 4:
            self._looked = self._n
            return self.distinct()
        return _all_different(words)

    def distinct(self) -> bool:
        """Tell whether all are different; two hashes that happen to be the same count as not."""
        if self._rising or self._n < 2:
            return True
        # by shares of the words that fit into memory
        n_shares = -(-self._n * 16 // max(self._room, 1 << 20))
        return all(_all_different(self._share(share, n_shares)) for share in range(n_shares))

    def _share(self, share: int, n_shares: int) -> Codes:
        self._file.seek(0)
        parts = []
        while piece := self._file.read(1 << 22):
            words = np.frombuffer(piece, np.int64)
            if n_shares > 1:
                spread = (words.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
                words = words[spread * np.uint64(n_shares) >> np.uint64(32) == share]
            parts.append(words)
        return np.concatenate(parts)


def _all_different(words: Codes) -> bool:
    ordered = np.sort(words)
    return not bool((ordered[1:] == ordered[:-1]).any())
