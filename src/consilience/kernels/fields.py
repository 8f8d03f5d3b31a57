"""Where the fields of delimited text begin and end, 64 bytes at a time.

A block of 64 bytes becomes words of 64 bits, one for each kind of byte that matters: quote, line feed, carriage return,
delimiter.  A few operations on words then find what is inside quotes, what ends a field, and whether the text is plain;
the highest bits are carried over to the next block.  (Langdale & Lemire, "Parsing gigabytes of JSON per
second", VLDB Journal 28, 2019, sections 3.1 and 3.2.)

Plain means: a quote opens only where a field begins and closes only where it ends, no line feed stands inside quotes,
and a carriage return that ends a line has a line feed behind it.  Blank lines have no fields.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels._arrays import Codes
from consilience.kernels._compile import inlined, kernel
from consilience.kernels._intrinsics import count_ones, equal_bytes, trailing_zeros

__all__ = ["BLOCK", "find_fields"]

#: Bytes that must be readable beyond the text, and places beyond those of the last field.
BLOCK = 64


def find_fields(text: Codes, size: int, delimiter: int, begins: Codes, ends: Codes) -> tuple[int, int]:
    """Find the fields of whole lines, ``text[:size]``; return the number of fields and of lines, -1 and 0 if not plain.

    Field k is ``text[begins[k]:ends[k]]``, without its quotes.
    """
    find = kernel(_find, "uint8[] int64 int64 uint32[]! uint32[]!", "(int64 int64)")
    n_fields, n_lines = find(text, size, delimiter, begins, ends)
    return n_fields, n_lines


@inlined
def _append(found: Any, offset: Any, places: Any, n: Any) -> Any:
    """Append the places of the one bits; always writing eight first avoids a branch that is hard to predict."""
    one, eight = np.uint64(1), np.uint64(8)
    total = n + count_ones(found)
    for k in range(eight):
        places[n + k] = np.uint32(offset + trailing_zeros(found))
        found &= found - one
    n += eight
    while found:
        places[n] = np.uint32(offset + trailing_zeros(found))
        found &= found - one
        n += one
    return total


def _find(text: Any, size: Any, delimiter: Any, begins: Any, ends: Any) -> Any:
    zero, one, top, block = np.uint64(0), np.uint64(1), np.uint64(63), np.uint64(64)
    at, end = zero, np.uint64(size)
    n_begins, n_ends, n_lines = zero, zero, zero
    # whether the byte before the block is of a kind; a line begins here, as if one had ended
    was_break, was_between, was_opening, was_closing, was_return = one, zero, zero, zero, zero
    was_inside, bad = zero, zero
    while at <= end:
        quote, feed = equal_bytes(text, at, np.uint8(34)), equal_bytes(text, at, np.uint8(10))
        ret, between = equal_bytes(text, at, np.uint8(13)), equal_bytes(text, at, np.uint8(delimiter))
        here = ~zero
        if end - at < block:
            # the end of the text ends a line
            stop = one << (end - at)
            here = stop - one
            quote, ret, between = quote & here, ret & here, between & here
            feed = (feed & here) | stop
            here |= stop
        # bit i of inside: how many quotes there are up to byte i, modulo 2
        inside = quote
        for shift in (1, 2, 4, 8, 16, 32):
            inside ^= inside << np.uint64(shift)
        inside ^= was_inside
        was_inside = zero - (inside >> top)
        opening, closing = quote & inside, quote & ~inside
        between, ret = between & ~inside, ret & ~inside
        breaks = feed | ret
        after_break = breaks << one | was_break
        after_opening, after_closing = opening << one | was_opening, closing << one | was_closing
        # a break behind a break is a blank line, or the second half of this one
        line = breaks & ~after_break
        returns = ret & line
        stops = between | line
        starts = (between << one | was_between) | (after_break & ~breaks)
        bad |= (feed & inside) | (opening & ~starts) | (after_closing & ~stops)
        bad |= (returns << one | was_return) & ~feed
        was_break, was_between, was_return = breaks >> top, between >> top, returns >> top
        was_opening, was_closing = opening >> top, closing >> top
        # a field in quotes begins behind the one and ends at the other
        n_begins = _append(((starts & ~opening) | after_opening) & here, at, begins, n_begins)
        n_ends = _append((stops & ~after_closing) | closing, at, ends, n_ends)
        n_lines += count_ones(line)
        at += block
    if bad != zero or n_begins != n_ends:
        return -1, 0
    return np.int64(n_ends), np.int64(n_lines)
