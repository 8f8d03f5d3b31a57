"""Strings to codes: the bytes of a column of strings in, one small integer per row out.

Codes are given in order of first appearance.  Three steps, a batch of rows at a time so that everything but the
hash table stays in cache: hash every string (FNV-1a, then a finaliser); look the hashes up with the table's lines
prefetched; compare every string with the first one that has its code, again prefetched.  Should two
different strings ever share all 64 bits, the comparison sees it and the caller takes another way: the result
is exact, not probable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import types

from consilience.kernels._arrays import Codes, Ints
from consilience.kernels._compile import array, compiled, prefetch

__all__ = ["encode_bytes"]

_BATCH = 2048


def encode_bytes(offsets: Codes, data: Codes) -> tuple[Codes, Ints] | None:
    """Code the strings ``data[offsets[i]:offsets[i + 1]]``.

    Returns the code of every row and, for every code, the row where it first stands; None in the (never yet seen)
    case that two strings share a 64-bit hash.
    """
    n = offsets.size - 1
    codes = np.empty(n, np.int32)
    grow, fill, check = _kernels(offsets.dtype.name)
    hashes = np.zeros(1 << 12, np.uint64)
    values = np.full(1 << 12, -1, np.int32)
    first = np.empty(1 << 11, np.int64)
    batch = np.empty(_BATCH, np.uint64)
    size = 0
    for start in range(0, n, _BATCH):
        stop = min(start + _BATCH, n)
        if 2 * (size + _BATCH) > hashes.size:
            bigger = 4 * hashes.size
            new_hashes, new_values = np.zeros(bigger, np.uint64), np.full(bigger, -1, np.int32)
            grow(hashes, values, new_hashes, new_values)
            hashes, values = new_hashes, new_values
            first = np.resize(first, bigger // 2)
        size = fill(offsets, data, start, stop, batch, hashes, values, first, codes, size)
        if not check(offsets, data, start, stop, first, codes):
            return None
    return codes, first[:size].copy()


def _grow(hashes: Any, values: Any, new_hashes: Any, new_values: Any) -> None:
    mask = np.uint64(new_hashes.size - 1)
    for slot in range(hashes.size):
        if values[slot] >= 0:
            at = hashes[slot] & mask
            while new_values[at] >= 0:
                at = (at + np.uint64(1)) & mask
            new_hashes[at] = hashes[slot]
            new_values[at] = values[slot]


def _fill(
    offsets: Any,
    data: Any,
    start: Any,
    stop: Any,
    batch: Any,
    hashes: Any,
    values: Any,
    first: Any,
    codes: Any,
    size: Any,
) -> Any:
    mask = np.uint64(hashes.size - 1)
    for i in range(start, stop):
        h = np.uint64(14695981039346656037)
        for b in range(np.uint64(offsets[i]), np.uint64(offsets[i + 1])):
            h = (h ^ np.uint64(data[b])) * np.uint64(1099511628211)
        h ^= h >> np.uint64(32)
        h *= np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(32)
        batch[i - start] = h
    for i in range(start, stop):
        ahead = min(i + 16, stop - 1)
        prefetch(hashes, batch[ahead - start] & mask)
        prefetch(values, batch[ahead - start] & mask)
        h = batch[i - start]
        at = h & mask
        while values[at] >= 0 and hashes[at] != h:
            at = (at + np.uint64(1)) & mask
        if values[at] < 0:
            hashes[at] = h
            values[at] = size
            first[size] = i
            size += 1
        codes[i] = values[at]
    return size


def _check(offsets: Any, data: Any, start: Any, stop: Any, first: Any, codes: Any) -> Any:
    for i in range(start, stop):
        far = first[codes[min(i + 32, stop - 1)]]
        prefetch(offsets, np.uint64(far))
        near = first[codes[min(i + 16, stop - 1)]]
        prefetch(data, np.uint64(offsets[near]))
        a, a_end = np.uint64(offsets[i]), np.uint64(offsets[i + 1])
        j = first[codes[i]]
        b, b_end = np.uint64(offsets[j]), np.uint64(offsets[j + 1])
        if a_end - a != b_end - b:
            return False
        while a < a_end:
            if data[a] != data[b]:
                return False
            a += np.uint64(1)
            b += np.uint64(1)
    return True


@lru_cache(maxsize=2)
def _kernels(offset: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    offsets, data = array(offset), array("uint8")
    i32, i64, u64 = (array(kind, readonly=False) for kind in ("int32", "int64", "uint64"))
    integer = types.int64
    return (
        compiled(_grow, types.void(u64, i32, u64, i32)),
        compiled(_fill, integer(offsets, data, integer, integer, u64, u64, i32, i64, i32, integer)),
        compiled(_check, types.boolean(offsets, data, integer, integer, i64, i32)),
    )
