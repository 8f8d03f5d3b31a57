"""Names to codes: a hash table from names to small integers, in order of first appearance.

No strings are created: a name is identified by 100 bits of hash, seeded anew in every process, and by the place where
it first occurs.  The probability that two of ten million names share their 100 bits is about 1e-16.

Look-ups access memory at random, so the cache lines that will be needed are prefetched, and a slot is two words in one
line: the first word of the hash, and 36 bits of the second beside the code.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from consilience.kernels._arrays import Codes, Ints
from consilience.kernels._compile import inlined, kernel
from consilience.kernels._intrinsics import prefetch

__all__ = ["SEEDS", "Names", "finished", "mixed"]

#: Odd, and different in every process.
SEEDS = np.array([secrets.randbits(64) | 1, secrets.randbits(64) | 1], np.uint64)

#: Room is made for this many new names at a time.
_ROOM = 1 << 15
_FIRST_SLOTS = 1 << 14
#: The low bits of a slot's second word hold the code plus one; the others are hash.
_CODE = (1 << 28) - 1
#: Slots are prefetched this many names ahead.
_AHEAD = 24


@inlined
def mixed(one: Any, two: Any, word: Any) -> Any:
    """Mix eight bytes of a name into its two hashes."""
    one = (one ^ word) * np.uint64(0x9E3779B97F4A7C15)
    two = (two + word) * np.uint64(0xD6E8FEB86659FD93)
    return one ^ (one >> np.uint64(29)), two ^ (two >> np.uint64(32))


@inlined
def finished(one: Any, two: Any, length: Any, seed: Any) -> Any:
    """Make every bit of the hashes depend on every bit of the name and on its length."""
    one = (one ^ (two >> np.uint64(17)) ^ length) * seed
    two = (two ^ (one >> np.uint64(31))) * np.uint64(0xC2B2AE3D27D4EB4F)
    return one ^ (one >> np.uint64(32)), two


class Names:
    """The names seen so far, and the codes of the rows.

    Parameters
    ----------
    narrow
        Keep the codes in the smallest signed type that holds them instead of 32 bits.

    Attributes
    ----------
    size
        Number of names.
    rows
        Number of rows coded so far.
    """

    def __init__(self, *, narrow: bool = False) -> None:
        self._slots = np.zeros((_FIRST_SLOTS, 2), np.uint64)
        self._place = np.empty(_FIRST_SLOTS // 2, np.int64)
        self._codes: Codes = np.empty(0, np.int8 if narrow else np.int32)
        self._batch = np.empty(_ROOM, np.int32)
        self.size = 0
        self.rows = 0

    @property
    def codes(self) -> Codes:
        """Codes of the rows, in order of first appearance."""
        return self._codes[: self.rows]

    @property
    def place(self) -> Ints:
        """For every code, where its name first occurs."""
        return self._place[: self.size]

    def expect(self, rows: int) -> None:
        """Make room for the codes of this many rows in total."""
        if rows > self._codes.size:
            self._move(rows, self._codes.dtype)

    def add(self, keys: Codes, places: Ints) -> None:
        """Code the next rows, given their hashes and places; new hashes get new codes."""
        if self.rows + len(keys) > self._codes.size:
            self.expect(2 * (self.rows + len(keys)))
        look_up = kernel(_look_up, "uint64[,] int64[] uint64[,]! int64[]! int32[]! int64", "int64")
        for low in range(0, len(keys), _ROOM):
            part, batch = keys[low : low + _ROOM], self._batch[: len(keys) - low]
            self._make_room(len(part))
            self.size = look_up(part, places[low : low + _ROOM], self._slots, self._place, batch, self.size)
            if self.size - 1 > np.iinfo(self._codes.dtype).max:
                self._move(self._codes.size, np.min_scalar_type(-self.size))
            self._codes[self.rows : self.rows + len(part)] = batch
            self.rows += len(part)

    def find(self, keys: Codes) -> Codes:
        """Return the codes of rows without adding any; -1 where the hash is new."""
        codes = np.empty(len(keys), np.int32)
        kernel(_find, "uint64[,] uint64[,] int32[]!")(keys, self._slots, codes)
        return codes

    def _move(self, rows: int, dtype: np.dtype[Any]) -> None:
        codes = np.empty(rows, dtype)
        codes[: self.rows] = self.codes
        self._codes = codes

    def _make_room(self, more: int) -> None:
        """Grow the table until ``more`` names can be added with at least half of the slots free."""
        n = len(self._slots)
        if 2 * (self.size + more) <= n:
            return
        slots, place = self._slots, self._place
        self._slots, self._place = np.zeros((4 * n, 2), np.uint64), np.empty(2 * n, np.int64)
        self._place[: self.size] = place[: self.size]
        kernel(_refill, "uint64[,] uint64[,]!")(slots, self._slots)


@inlined
def _probe(one: Any, two: Any, slots: Any, mask: Any) -> Any:
    """Return the slot of a name, or the free slot where it belongs."""
    hash_bits = ~np.uint64(_CODE)
    at = one & mask
    while slots[at, 1] != np.uint64(0) and not (
        slots[at, 0] == one and (slots[at, 1] & hash_bits) == (two & hash_bits)
    ):
        at = (at + np.uint64(1)) & mask
    return at


def _look_up(keys: Any, places: Any, slots: Any, place: Any, codes: Any, size: Any) -> Any:
    mask, code_bits = np.uint64(slots.shape[0] - 1), np.uint64(_CODE)
    n = keys.shape[0]
    for i in range(n):
        prefetch(slots, keys[min(i + _AHEAD, n - 1), 0] & mask)
        at = _probe(keys[i, 0], keys[i, 1], slots, mask)
        if slots[at, 1] == np.uint64(0):
            place[size] = places[i]
            size += 1
            slots[at, 0] = keys[i, 0]
            slots[at, 1] = (keys[i, 1] & ~code_bits) | np.uint64(size)
        codes[i] = np.int32((slots[at, 1] & code_bits) - np.uint64(1))
    return size


def _find(keys: Any, slots: Any, codes: Any) -> None:
    mask, code_bits = np.uint64(slots.shape[0] - 1), np.uint64(_CODE)
    n = keys.shape[0]
    for i in range(n):
        prefetch(slots, keys[min(i + _AHEAD, n - 1), 0] & mask)
        at = _probe(keys[i, 0], keys[i, 1], slots, mask)
        codes[i] = np.int32(slots[at, 1] & code_bits) - np.int32(1)


def _refill(old: Any, slots: Any) -> None:
    mask = np.uint64(slots.shape[0] - 1)
    for i in range(old.shape[0]):
        if old[i, 1] != np.uint64(0):
            at = old[i, 0] & mask
            while slots[at, 1] != np.uint64(0):
                at = (at + np.uint64(1)) & mask
            slots[at, 0] = old[i, 0]
            slots[at, 1] = old[i, 1]
