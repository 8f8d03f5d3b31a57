"""Delimited text straight to codes, without creating a string for every field.

The text is cut into chunks at line ends.  Threads find and hash the wanted fields of different chunks at the same time;
the hashes are looked up in the order of the file.  So codes are assigned in order of first appearance, whatever the
number of threads.

Only plain text is read: fields may be quoted, but quotes contain neither quotes nor line ends, and every line has as
many fields as the first.  For anything else the caller uses the general reader, which also explains what is wrong.
"""

from __future__ import annotations

import threading
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from consilience.kernels._arrays import Codes, Ints, even_parts
from consilience.kernels._compile import kernel
from consilience.kernels._intrinsics import load64, prefetch, store64
from consilience.kernels.blocks import run, run_in_order
from consilience.kernels.fields import BLOCK, find_fields
from consilience.kernels.names import SEEDS, Names, finished, mixed

__all__ = ["Coded", "encode_text"]

#: Bytes of text in a chunk, and initial room in lines.
_CHUNK = 1 << 20
_ROWS = 1 << 15


class Coded(NamedTuple):
    """One column: a code for every row, in the smallest signed type, and the bytes of every code's name."""

    codes: Codes
    name_offsets: Ints
    name_bytes: Codes


def encode_text(text: Codes, start: int, n_fields: int, wanted: list[int], delimiter: str) -> list[Coded] | None:
    """Return the coded fields of all lines from byte ``start`` on; None when the text is not plain.

    Parameters
    ----------
    text
        The bytes of the file.
    n_fields
        Number of fields of each line.
    wanted
        Positions of the fields to code.
    """
    edges = _cut_at_lines(text, start, _CHUNK)
    # a span is one word: the length of a field in the low bits, and where it begins above them
    length_bits = max(b - a for a, b in pairwise(edges)).bit_length()
    if length_bits > 32 or text.size.bit_length() + length_bits > 63:
        return None
    tokeniser = _Tokeniser(text, edges, n_fields, wanted, ord(delimiter), length_bits)
    run_in_order(tokeniser.tokenise, [partial(tokeniser.look_up, c) for c in range(len(wanted))], len(edges) - 1)
    if not tokeniser.plain:
        return None
    columns = [(names.codes, names.place) for names in tokeniser.columns]
    del tokeniser  # frees the hash tables before the names are copied
    return [Coded(codes, *_names(text, spans, length_bits)) for codes, spans in columns]


def _cut_at_lines(text: Codes, start: int, chunk: int) -> list[int]:
    """Cut the text at line ends, into chunks of about ``chunk`` bytes."""
    edges = [start]
    for aim in range(start + chunk, text.size, chunk):
        at, step = aim, 1 << 8
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
    """Hashes and spans of the wanted fields of a chunk, (wanted, rows, 2) and (wanted, rows)."""

    chunk: int
    rows: int  #: -1 if the text is not plain
    keys: Codes
    spans: Ints


class _Tokeniser:
    """Find fields on many threads, and look them up in the order of the file."""

    def __init__(
        self, text: Codes, edges: list[int], n_fields: int, wanted: list[int], delimiter: int, length_bits: int
    ) -> None:
        self.text, self.edges, self.n_fields, self.wanted = text, edges, n_fields, wanted
        self.delimiter, self.length_bits = delimiter, length_bits
        self.columns = [Names(narrow=True) for _ in wanted]
        self.plain = True
        self._own = threading.local()

    def tokenise(self, chunk: int) -> _Found:
        """Find and hash the wanted fields of a chunk."""
        low, high = self.edges[chunk : chunk + 2]
        size = high - low
        own = self._memory(size)
        if not self.plain:
            return _Found(chunk, -1, own.keys, own.spans)
        text = self.text[low : high + BLOCK]
        if len(text) < size + BLOCK:
            text = np.append(text, np.full(size + BLOCK - len(text), ord("\n"), np.uint8))
        n_found, rows = find_fields(text, size, self.delimiter, own.begins, own.ends)
        are_lines = kernel(_are_lines, "uint8[] int64 int64 uint32[]", "boolean")
        if n_found != rows * self.n_fields or not are_lines(text, rows, self.n_fields, own.ends):
            return _Found(chunk, -1, own.keys, own.spans)
        if rows > own.keys.shape[1]:
            own.keys, own.spans = self._room(2 * rows)
        hash_fields = kernel(_hash, "uint8[] int64 uint32[] uint32[] int64 int64 uint64[] int64 uint64[,]! int64[]!")
        for c, field in enumerate(self.wanted):
            places = own.begins[field:], own.ends[field:], rows, self.n_fields
            hash_fields(text, low, *places, SEEDS, self.length_bits, own.keys[c], own.spans[c])
        return _Found(chunk, rows, own.keys, own.spans)

    def look_up(self, column: int, found: _Found) -> None:
        """Look up what was found in one column."""
        self.plain = self.plain and found.rows >= 0
        if not self.plain:
            return
        names = self.columns[column]
        if found.chunk == 0 and found.rows:
            # lines are about as long in the whole file as here
            share = (self.edges[1] - self.edges[0]) / (self.edges[-1] - self.edges[0])
            names.expect(int(1.02 * found.rows / share) + _ROWS)
        names.add(found.keys[column, : found.rows], found.spans[column, : found.rows])

    def _memory(self, size: int) -> Any:
        """Return this thread's own memory for a chunk of ``size`` bytes."""
        own = self._own
        if not hasattr(own, "keys"):
            own.begins = own.ends = np.empty(0, np.uint32)
            own.keys, own.spans = self._room(_ROWS)
        if own.begins.size < size + BLOCK:
            own.begins, own.ends = np.empty(size + BLOCK, np.uint32), np.empty(size + BLOCK, np.uint32)
        return own

    def _room(self, rows: int) -> tuple[Codes, Ints]:
        n = len(self.wanted)
        return np.empty((n, rows, 2), np.uint64), np.empty((n, rows), np.int64)


def _names(text: Codes, spans: Ints, length_bits: int) -> tuple[Ints, Codes]:
    """Copy the names of one column out of the text: where each begins, and their bytes."""
    offsets = np.zeros(spans.size + 1, np.int64)
    np.bitwise_and(spans, (1 << length_bits) - 1, out=offsets[1:])
    np.cumsum(offsets, out=offsets)
    characters = np.empty(int(offsets[-1]), np.uint8)
    copy = kernel(_copy, "uint8[] int64[] int64 int64[] uint8[]!")
    run(
        lambda a, b: copy(text, spans[a:b], length_bits, offsets[a : b + 1], characters),
        even_parts(spans.size, spans.size >> 16),
    )
    return offsets, characters


# ---- the loops ------------------------------------------------------------------------------------------------


def _are_lines(text: Any, rows: Any, n_fields: Any, ends: Any) -> Any:
    """Return whether every ``n_fields``-th field is the last of a line; a quote may follow it."""
    k = np.uint64(n_fields - 1)
    for _ in range(rows):
        at = np.uint64(ends[k])
        byte = text[at]
        if byte == 34:
            byte = text[at + np.uint64(1)]
        if byte != 10 and byte != 13:
            return False
        k += np.uint64(n_fields)
    return True


def _hash(
    text: Any,
    origin: Any,
    begins: Any,
    ends: Any,
    rows: Any,
    n_fields: Any,
    seeds: Any,
    length_bits: Any,
    keys: Any,
    spans: Any,
) -> None:
    """Hash every ``n_fields``-th field, eight bytes at a time; the seeds are odd."""
    step, all_bits = np.uint64(8), ~np.uint64(0)
    k, start = np.uint64(0), np.uint64(origin)
    first, second = seeds[0], seeds[1]
    for i in range(np.uint64(rows)):
        at = np.uint64(begins[k])
        length = np.uint64(ends[k]) - at
        k += np.uint64(n_fields)
        spans[i] = (start + at) << np.uint64(length_bits) | length
        one, two, left = first, second, length
        while left > step:
            one, two = mixed(one, two, load64(text, at))
            at += step
            left -= step
        if left > np.uint64(0):
            one, two = mixed(one, two, load64(text, at) & (all_bits >> ((step - left) * step)))
        keys[i, 0], keys[i, 1] = finished(one, two, length, second)


def _copy(text: Any, spans: Any, length_bits: Any, offsets: Any, names: Any) -> None:
    """Copy names eight bytes at a time; the last one byte by byte."""
    step, shift, ahead = np.uint64(8), np.uint64(length_bits), 16
    size, last = np.uint64(text.size), spans.size - 1
    for i in range(spans.size):
        prefetch(text, np.uint64(spans[min(i + ahead, last)]) >> shift)
        at, to, end = np.uint64(spans[i]) >> shift, np.uint64(offsets[i]), np.uint64(offsets[i + 1])
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
