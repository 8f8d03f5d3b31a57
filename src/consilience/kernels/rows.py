"""Rows read from disk: whole numbers to codes, rows to partitions, labels to the order of their items."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels._arrays import Codes, Ints
from consilience.kernels._compile import kernel
from consilience.kernels._intrinsics import load64, prefetch
from consilience.kernels.names import SEEDS

__all__ = ["MISSING", "UNKNOWN", "Words", "changes", "code_by_table", "gather", "hash_words", "partition"]

#: Table entries of numbers not seen yet, and of numbers that mean "no value".
UNKNOWN, MISSING = -1, -2


def code_by_table(numbers: Codes, low: int, table: Codes, size: int) -> tuple[Codes, Ints] | None:
    """Code numbers by a table: ``table[number - low]`` is the code, ``UNKNOWN`` or ``MISSING``.

    New numbers get the codes ``size``, ``size + 1``, … in order of appearance, and are entered in the table.  Returns
    the codes, -1 where missing, and the first row of each new number.  If a number lies outside the table, returns None
    and leaves the table unchanged.
    """
    codes, first = np.empty(numbers.size, np.int32), np.empty(min(numbers.size, table.size), np.int64)
    code = kernel(_code, f"{numbers.dtype}[] int64 int32[]! int64 int32[]! int64[]!", "int64")
    n_new = code(numbers, low, table, size, codes, first)
    return None if n_new < 0 else (codes, first[:n_new])


def changes(offsets: Codes, data: Codes) -> Ints:
    """Return the rows, from the second on, whose string differs from that of the row before."""
    rows = np.empty(max(offsets.size - 2, 0), np.int64)
    find = kernel(_changes, f"{offsets.dtype}[] uint8[] int64[]!", "int64")
    return rows[: find(offsets, data, rows)]


class Words:
    """A set of 64-bit words that grows."""

    def __init__(self) -> None:
        # words are stored scrambled; 0 is a free slot, so the word that becomes 0 has a flag of its own
        self._slots = np.zeros(1 << 14, np.uint64)
        self._size, self._has_zero = 0, False

    def __len__(self) -> int:
        return self._size

    def bytes_with(self, more: int) -> int:
        """Return the memory needed while ``more`` words are added."""
        grows = 2 * (self._size + more) > self._slots.size
        return self._slots.nbytes * (5 if grows else 1)

    def add(self, words: Codes) -> bool:
        """Add words; stop and return False as soon as one is there already."""
        add = kernel(_add_words, "uint64[] uint64[] uint64[]!", "int64", helpers=(_scrambled,))
        for low in range(0, words.size, 1 << 16):
            part = words[low : low + (1 << 16)].view(np.uint64)
            while 2 * (self._size + part.size) > self._slots.size:
                old, self._slots = self._slots, np.zeros(4 * self._slots.size, np.uint64)
                kernel(_move_words, "uint64[] uint64[]!")(old, self._slots)
            zeros = add(part, SEEDS, self._slots)
            if zeros < 0 or zeros + self._has_zero > 1:
                return False
            self._has_zero = self._has_zero or zeros > 0
            self._size += part.size
        return True


def hash_words(words: Codes) -> Codes:
    """Return keys for :class:`consilience.kernels.names.Names`, (rows, 2): different words have different keys."""
    keys = np.empty((words.size, 2), np.uint64)
    kernel(_mix, "uint64[] uint64[] uint64[,]!", helpers=(_scrambled,))(words, SEEDS, keys)
    return keys


def partition(keys: Codes, row: int, annotator: Codes, label: Codes, n_parts: int, spread: bool) -> tuple[Codes, Ints]:
    """Put all rows of a key into one partition; return records in order of partitions, and where each begins.

    A record is the key's words, the number of the row (counted from ``row``), and one word with the annotator above the
    label plus one.  ``spread`` hashes keys that are not hashes already.
    """
    keys = keys.reshape(len(annotator), -1)
    records = np.empty((len(keys), keys.shape[1] + 2), np.uint64)
    edges = np.zeros(n_parts + 1, np.int64)
    of_row = np.empty(len(keys), np.int32)
    place = kernel(_partition, "uint64[,] int64 int32[] int32[] uint64 int32[]! int64[]! uint64[,]!")
    place(keys, row, annotator, label, SEEDS[1] if spread else np.uint64(1), of_row, edges, records)
    return records, edges


def gather(order: Ints, start: Ints, length: Ints, annotator: Codes, label: Codes) -> tuple[Codes, Codes]:
    """Return the labels of items in another order; the labels of item n begin at ``start[n]``."""
    n_labels = int(length.sum())
    by, said = np.empty(n_labels, annotator.dtype), np.empty(n_labels, label.dtype)
    columns = f"{by.dtype}[] {said.dtype}[] {by.dtype}[]! {said.dtype}[]!"
    kernel(_gather, f"int64[] int64[] int64[] {columns}")(order, start, length, annotator, label, by, said)
    return by, said


def _code(numbers: Any, low: Any, table: Any, size: Any, codes: Any, first: Any) -> Any:
    n_new = 0
    for i in range(numbers.size):
        at = np.int64(numbers[i]) - low
        if at < 0 or at >= table.size:
            for j in range(n_new):
                table[np.int64(numbers[first[j]]) - low] = UNKNOWN
            return -1
        code = table[at]
        if code < 0:
            if code == UNKNOWN:
                code = np.int32(size + n_new)
                table[at] = code
                first[n_new] = i
                n_new += 1
            else:
                code = np.int32(-1)
        codes[i] = code
    return n_new


def _changes(offsets: Any, data: Any, rows: Any) -> Any:
    n, step = 0, np.uint64(8)
    for i in range(1, offsets.size - 1):
        one, two = np.uint64(offsets[i - 1]), np.uint64(offsets[i])
        left = np.uint64(offsets[i + 1]) - two
        same = left == two - one
        while same and left > np.uint64(0):
            if two + step <= np.uint64(data.size):
                word = load64(data, one) ^ load64(data, two)
                if left < step:
                    word &= (np.uint64(1) << (left * step)) - np.uint64(1)
                same = word == np.uint64(0)
                left -= min(left, step)
                one += step
                two += step
            else:
                same = data[one] == data[two]
                left -= np.uint64(1)
                one += np.uint64(1)
                two += np.uint64(1)
        if not same:
            rows[n] = i
            n += 1
    return n


def _scrambled(word: Any, seeds: Any) -> Any:
    # each step can be undone, so no two words become the same
    one = (word ^ seeds[0]) * np.uint64(0x9E3779B97F4A7C15)
    one = (one ^ (one >> np.uint64(29))) * seeds[1]
    return one ^ (one >> np.uint64(32))


def _mix(words: Any, seeds: Any, keys: Any) -> None:
    for i in range(words.size):
        keys[i, 0] = _scrambled(words[i], seeds)
        keys[i, 1] = keys[i, 0] * np.uint64(0xC2B2AE3D27D4EB4F)


def _add_words(words: Any, seeds: Any, slots: Any) -> Any:
    mask, n, zeros = np.uint64(slots.size - 1), words.size, 0
    for i in range(n):
        prefetch(slots, _scrambled(words[min(i + 16, n - 1)], seeds) & mask)
        one = _scrambled(words[i], seeds)
        if one == np.uint64(0):
            zeros += 1
            continue
        at = one & mask
        while slots[at] != np.uint64(0):
            if slots[at] == one:
                return -1
            at = (at + np.uint64(1)) & mask
        slots[at] = one
    return zeros


def _move_words(old: Any, slots: Any) -> None:
    mask = np.uint64(slots.size - 1)
    for i in range(old.size):
        if old[i] != np.uint64(0):
            at = old[i] & mask
            while slots[at] != np.uint64(0):
                at = (at + np.uint64(1)) & mask
            slots[at] = old[i]


def _partition(
    keys: Any, row: Any, annotator: Any, label: Any, factor: Any, of_row: Any, edges: Any, records: Any
) -> None:
    n, width, n_parts = keys.shape[0], keys.shape[1], np.uint64(edges.size - 1)
    half = np.uint64(32)
    for i in range(n):
        word = keys[i, width - 1] * factor
        word = (word ^ (word >> np.uint64(29))) * np.uint64(0xD6E8FEB86659FD93)
        part = ((word >> half) * n_parts) >> half
        of_row[i] = np.int32(part)
        edges[part + np.uint64(1)] += 1
    for p in range(edges.size - 1):
        edges[p + 1] += edges[p]
    place = edges.copy()
    for i in range(n):
        at = place[of_row[i]]
        place[of_row[i]] = at + 1
        for w in range(width):
            records[at, w] = keys[i, w]
        records[at, width] = np.uint64(row + i)
        records[at, width + 1] = np.uint64(annotator[i]) << half | np.uint64(label[i] + 1)


def _gather(order: Any, start: Any, length: Any, annotator: Any, label: Any, by: Any, said: Any) -> None:
    at = 0
    for j in range(order.size):
        n = order[j]
        for i in range(start[n], start[n] + length[n]):
            by[at] = annotator[i]
            said[at] = label[i]
            at += 1
