"""Delimited text straight to codes, without making a string of every field.

One sweep over the bytes finds the fields, hashes those that are wanted and looks the hashes up.  The text is cut
into parts at line ends, one for each thread; every part has dictionaries of its own, which are joined afterwards
in the order of the file.  So codes are given in order of first appearance, whatever the number of threads.

Only plain text is understood: fields may be quoted, but neither quotes nor line ends may stand inside quotes, and
every line has as many fields as the first.  Anything else makes the sweep give up, and the caller takes the
general reader, which also knows how to complain.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import types

from consilience.kernels._arrays import Codes, Ints
from consilience.kernels._compile import array, compiled, inlined, load64, trailing_zeros
from consilience.kernels.blocks import run, thread_count
from consilience.kernels.names import BATCH, SEEDS, Names, finished, join, mixed

__all__ = ["Coded", "encode_text"]


class Coded(NamedTuple):
    """One column: a code for every row, and the bytes of every code's name."""

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
    edges = _cut_at_lines(text, start, thread_count() if text.size - start > 1 << 20 else 1)
    with ThreadPoolExecutor(len(edges) - 1) as pool:
        work = [pool.submit(_Part, text, a, b, role, len(wanted), ord(delimiter)) for a, b in pairwise(edges)]
        parts = [job.result() for job in work]
        if not all(part.plain for part in parts):
            return None
        columns = [[part.columns[c] for part in parts] for c in range(len(wanted))]
        return list(pool.map(lambda column: _coded(text, column, ord(delimiter)), columns))


def _cut_at_lines(text: Codes, start: int, parts: int) -> list[int]:
    edges = [start]
    for p in range(1, parts):
        aim = start + (text.size - start) * p // parts
        step = 1 << 16
        while aim < text.size:
            found = np.flatnonzero(text[aim : aim + step] == ord("\n"))
            if found.size:
                aim += int(found[0]) + 1
                break
            aim += step
        if edges[-1] < aim < text.size:
            edges.append(aim)
    return [*edges, text.size]


class _Part:
    """The lines between two bytes of the text, swept."""

    def __init__(self, text: Codes, start: int, stop: int, role: Ints, n_wanted: int, delimiter: int) -> None:
        self.columns = [Names() for _ in range(n_wanted)]
        self.plain = True
        keys = np.empty((n_wanted, BATCH, 2), np.uint64)
        places = np.empty((n_wanted, BATCH), np.int64)
        while start < stop:
            rows, start = _kernels().tokenise(text, start, stop, role, delimiter, SEEDS, keys, places)
            if start < 0:
                self.plain = False
                return
            for c, column in enumerate(self.columns):
                column.add(keys[c, :rows], places[c, :rows])


def _coded(text: Codes, parts: list[Names], delimiter: int) -> Coded:
    """Join the parts of one column and copy its names out of the text."""
    codes, places = join(parts)
    offsets = np.zeros(places.size + 1, np.int64)
    edges = np.linspace(0, places.size, 1 + (places.size >> 16 or 1)).astype(int).tolist()
    shares = list(pairwise(edges))
    run(lambda a, b: _kernels().measure(text, places[a:b], delimiter, offsets[a + 1 : b + 1]), shares)
    np.cumsum(offsets, out=offsets)
    names = np.empty(int(offsets[-1]), np.uint8)
    run(lambda a, b: _kernels().copy(text, places[a:b], offsets[a : b + 1], names), shares)
    return Coded(codes, offsets, names)


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


def _tokenise(text: Any, start: Any, stop: Any, role: Any, delimiter: Any, seeds: Any, keys: Any, places: Any) -> Any:
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
                places[c, rows] = begin
        if at < end and text[at] == 13:
            at += one
        if at < end and text[at] != 10:
            return rows, -1
        at += one
        rows += 1
    return rows, np.int64(min(at, end))


def _measure(text: Any, places: Any, delimiter: Any, lengths: Any) -> None:
    for i in range(places.size):
        at = np.uint64(places[i])
        quoted = at > np.uint64(0) and text[at - np.uint64(1)] == 34
        length = 0
        while at < np.uint64(text.size):
            byte = text[at]
            if byte == 34 or (not quoted and (byte == delimiter or byte == 10 or byte == 13)):
                break
            length += 1
            at += np.uint64(1)
        lengths[i] = length


def _copy(text: Any, places: Any, offsets: Any, names: Any) -> None:
    for i in range(places.size):
        at = np.uint64(places[i])
        for j in range(offsets[i], offsets[i + 1]):
            names[j] = text[at]
            at += np.uint64(1)


class _Kernels(NamedTuple):
    tokenise: Callable[..., tuple[int, int]]
    measure: Callable[..., None]
    copy: Callable[..., None]


@lru_cache(maxsize=1)
def _kernels() -> _Kernels:
    text, whole = array("uint8"), types.int64
    places, offsets = array("int64"), array("int64", readonly=False)
    batch = array("uint64", 3, readonly=False), array("int64", 2, readonly=False)
    numba_types: Any = types
    found = numba_types.UniTuple(whole, 2)
    return _Kernels(
        compiled(_tokenise, found(text, whole, whole, array("int64"), whole, array("uint64"), *batch)),
        compiled(_measure, types.void(text, places, whole, offsets)),
        compiled(_copy, types.void(text, places, array("int64"), array("uint8", readonly=False))),
    )
