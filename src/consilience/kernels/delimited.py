"""Delimited text straight to codes, without making a string of every field.

The text is cut into chunks at line ends.  Threads find and hash the wanted fields of different chunks at the same time;
the hashes are looked up in the order of the file.  So codes are given in order of first appearance, whatever the
number of threads.

Only plain text is understood: fields may be quoted, but neither quotes nor line ends may stand inside quotes, and
every line has as many fields as the first.  Anything else makes the sweep give up, and the caller takes the
general reader, which also knows how to complain.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import types

from consilience.kernels._arrays import Codes, Ints
from consilience.kernels._compile import array, compiled, inlined, load64, prefetch, store64, trailing_zeros
from consilience.kernels.blocks import run, run_in_order
from consilience.kernels.names import SEEDS, Names, finished, mixed

__all__ = ["Coded", "encode_text"]


#: Bytes of text in a chunk, and the lines that there is room for at a time.
_CHUNK = 1 << 20
_ROWS = 1 << 16

#: A span is where a field begins, and its length in so many low bits.
_LENGTH_BITS = 24
_LENGTH = (1 << _LENGTH_BITS) - 1


class Coded(NamedTuple):
    """One column: a code for every row, in the smallest signed type, and the bytes of every code's name."""

    codes: Codes
    name_offsets: Ints
    name_bytes: Codes


def encode_text(text: Codes, start: int, n_fields: int, wanted: list[int], delimiter: str) -> list[Coded] | None:
    """Code the wanted fields of all lines from byte ``start`` on; None when the text is not plain.

    Parameters
    ----------
    text
        The bytes of the file.
    n_fields
        How many fields each line has.
    wanted
        Positions of the fields to code.
    """
    role = np.full(n_fields, -1, np.int64)
    role[wanted] = np.arange(len(wanted))
    edges = _cut_at_lines(text, start, _CHUNK)
    sweep = _Sweep(text, edges, role, [Names(narrow=True) for _ in wanted], ord(delimiter))
    run_in_order(sweep.tokenise, sweep.look_up, len(edges) - 1)
    return [_coded(text, names) for names in sweep.columns] if sweep.plain else None


def _cut_at_lines(text: Codes, start: int, chunk: int) -> list[int]:
    """Cut the text at line ends, into chunks of about so many bytes."""
    edges = [start]
    for aim in range(start + chunk, text.size, chunk):
        at, step = aim, 1 << 12
        while at < text.size:
            found = np.flatnonzero(text[at : at + step] == ord("\n"))
            if found.size:
                at += int(found[0]) + 1
                break
            at += step
        if edges[-1] < at < text.size:
            edges.append(at)
    return [*edges, text.size]


class _Found(NamedTuple):
    """Hashes and spans of the wanted fields of some lines, (wanted, rows, 2) and (wanted, rows)."""

    chunk: int
    rows: int
    stop: int  #: where to go on; -1 if the text is not plain
    keys: Codes
    spans: Ints


class _Sweep:
    """The two halves of the work: finding fields, on many threads, and looking them up, in the file's order."""

    def __init__(self, text: Codes, edges: list[int], role: Ints, columns: list[Names], delimiter: int) -> None:
        self.text, self.edges, self.role, self.columns, self.delimiter = text, edges, role, columns, delimiter
        self.plain = True
        self._own = threading.local()

    def tokenise(self, chunk: int, start: int | None = None) -> _Found:
        """Find the fields of a chunk, as many lines as there is room for."""
        if not hasattr(self._own, "keys"):
            n = len(self.columns)
            self._own.keys, self._own.spans = np.empty((n, _ROWS, 2), np.uint64), np.empty((n, _ROWS), np.int64)
        keys, spans = self._own.keys, self._own.spans
        if not self.plain:
            return _Found(chunk, 0, -1, keys, spans)
        start = self.edges[chunk] if start is None else start
        stop = self.edges[chunk + 1]
        return _Found(
            chunk,
            *_kernels().tokenise(self.text, start, stop, self.role, self.delimiter, SEEDS, keys, spans),
            keys,
            spans,
        )

    def look_up(self, found: _Found) -> None:
        """Code what was found; where the chunk had more lines than room, go on with it."""
        if found.chunk == 0 and found.stop > self.edges[0]:
            # lines are about as long in the whole file as here
            share = (found.stop - self.edges[0]) / (self.text.size - self.edges[0])
            for column in self.columns:
                column.expect(int(1.02 * found.rows / share) + _ROWS)
        while self.plain:
            if found.stop < 0:
                self.plain = False
                return
            for c, column in enumerate(self.columns):
                column.add(found.keys[c, : found.rows], found.spans[c, : found.rows])
            if found.stop >= self.edges[found.chunk + 1]:
                return
            found = self.tokenise(found.chunk, found.stop)


def _coded(text: Codes, names: Names) -> Coded:
    """Copy the names of one column out of the text."""
    spans = names.place
    offsets = np.zeros(spans.size + 1, np.int64)
    np.bitwise_and(spans, _LENGTH, out=offsets[1:])
    np.cumsum(offsets, out=offsets)
    characters = np.empty(int(offsets[-1]), np.uint8)
    shares = list(pairwise(np.linspace(0, spans.size, 1 + (spans.size >> 16 or 1)).astype(int).tolist()))
    run(lambda a, b: _kernels().copy(text, spans[a:b], offsets[a : b + 1], characters), shares)
    return Coded(names.codes, offsets, characters)


# ---- the loops ------------------------------------------------------------------------------------------------


@inlined
def _field(text: Any, start: Any, end: Any, a: Any, b: Any, c: Any, d: Any, seeds: Any) -> Any:
    """Find the first of four bytes from ``start`` on, and hash what lies before it, eight bytes at a time.

    Each byte is given as a word of eight copies.  A byte of ``x`` is zero where ``(x - 0x01…) & ~x & 0x80…`` has its
    highest bit; the lowest such bit is exact.  The seeds are odd.
    """
    low, high, step = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080), np.uint64(8)
    one, two = seeds[0], seeds[1]
    at = start
    hit = np.uint64(0)
    while not hit:
        if at + step <= np.uint64(text.size):
            word = load64(text, at)
        else:
            # the last bytes of the file, with the first of the four behind them
            word = a
            for k in range(np.uint64(text.size) - at):
                shift = np.uint64(8 * k)
                word = (word & ~(np.uint64(255) << shift)) | (np.uint64(text[at + np.uint64(k)]) << shift)
        w, x, y, z = word ^ a, word ^ b, word ^ c, word ^ d
        hit = (((w - low) & ~w) | ((x - low) & ~x) | ((y - low) & ~y) | ((z - low) & ~z)) & high
        length = step
        if hit:
            length = trailing_zeros(hit) >> np.uint64(3)
            word &= (np.uint64(1) << (length * step)) - np.uint64(1)
        one, two = mixed(one, two, word)
        at += length
    at = min(at, end)
    one, two = finished(one, two, at - start, seeds[1])
    return at, one, two


def _tokenise(text: Any, start: Any, stop: Any, role: Any, delimiter: Any, seeds: Any, keys: Any, spans: Any) -> Any:
    """Cut lines into fields until the batch is full: rows found, and where to go on or -1 if the text is not plain."""
    at, end = np.uint64(start), np.uint64(stop)
    one, copies = np.uint64(1), np.uint64(0x0101010101010101)
    newline, ret, quote = np.uint64(10) * copies, np.uint64(13) * copies, np.uint64(34) * copies
    between = np.uint64(delimiter) * copies
    rows = 0
    while at < end and rows < keys.shape[1]:
        if text[at] == 10 or text[at] == 13:
            at += one
            continue
        for f in range(role.size):
            if at < end and text[at] == 34:
                begin = at + one
                finish, key_one, key_two = _field(text, begin, end, quote, newline, quote, newline, seeds)
                if finish >= end or text[finish] == 10:
                    return rows, -1
                at = finish + one
            else:
                begin = at
                finish, key_one, key_two = _field(text, begin, end, between, newline, ret, quote, seeds)
                at = finish
            last = f == role.size - 1
            if last != (at >= end or text[at] != delimiter):
                return rows, -1
            if not last:
                at += one
            c = role[f]
            if c >= 0:
                keys[c, rows, 0], keys[c, rows, 1] = key_one, key_two
                if finish - begin > np.uint64(_LENGTH):
                    return rows, -1
                spans[c, rows] = begin << np.uint64(_LENGTH_BITS) | (finish - begin)
        if at < end and text[at] == 13:
            at += one
        if at < end and text[at] != 10:
            return rows, -1
        at += one
        rows += 1
    return rows, np.int64(min(at, end))


def _copy(text: Any, spans: Any, offsets: Any, names: Any) -> None:
    """Copy names eight bytes at a time, the last of them one by one."""
    step, ahead = np.uint64(8), 16
    size, last = np.uint64(text.size), spans.size - 1
    for i in range(spans.size):
        prefetch(text, np.uint64(spans[min(i + ahead, last)]) >> np.uint64(_LENGTH_BITS))
        at, to, end = np.uint64(spans[i]) >> np.uint64(_LENGTH_BITS), np.uint64(offsets[i]), np.uint64(offsets[i + 1])
        # what is written beyond a name is overwritten by the next, except after the last one
        if i < last and at + (end - to) + step <= size and end + step <= np.uint64(offsets[last + 1]):
            while to < end:
                store64(names, to, load64(text, at))
                at += step
                to += step
        else:
            while to < end:
                names[to] = text[at]
                at += np.uint64(1)
                to += np.uint64(1)


class _Kernels(NamedTuple):
    tokenise: Callable[..., tuple[int, int]]
    copy: Callable[..., None]


@lru_cache(maxsize=1)
def _kernels() -> _Kernels:
    text, whole = array("uint8"), types.int64
    batch = array("uint64", 3, readonly=False), array("int64", 2, readonly=False)
    numba_types: Any = types
    found = numba_types.UniTuple(whole, 2)
    return _Kernels(
        compiled(_tokenise, found(text, whole, whole, array("int64"), whole, array("uint64"), *batch)),
        compiled(_copy, types.void(text, array("int64"), array("int64"), array("uint8", readonly=False))),
    )
