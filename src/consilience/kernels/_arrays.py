"""Array types, how codes are stored, and cutting a range into even parts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Codes", "Floats", "Ints", "aligned", "code_counts", "code_dtype", "even_parts", "narrowed"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
#: Codes are kept in the smallest unsigned type that holds them.
Codes: TypeAlias = NDArray[Any]

#: Codes that are counted at a time.
_COUNTED = 1 << 22


def code_dtype(n: int) -> np.dtype[Any]:
    """Return the smallest unsigned type that holds codes ``0 … n - 1``."""
    return np.min_scalar_type(max(n - 1, 0))


def code_counts(codes: Codes, n: int) -> Ints:
    """Return how often each of the codes ``0 … n - 1`` occurs, (n,)."""
    counts = np.zeros(n, np.int64)
    for first in range(0, codes.size, _COUNTED):  # bincount alone would copy all codes to 64 bits
        counts += np.bincount(codes[first : first + _COUNTED], minlength=n)
    return counts


def narrowed(counts: Codes) -> Codes:
    """Return counts in the smallest unsigned type that holds them."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def even_parts(n: int, parts: int) -> list[tuple[int, int]]:
    """Cut ``0 … n - 1`` into ranges ``(start, stop)`` of nearly equal length."""
    return list(pairwise(np.linspace(0, n, max(parts, 1) + 1).astype(int).tolist()))


def aligned(rows: int, columns: int) -> Floats:
    """Return a zero array (rows, columns) that starts on a cache line.

    A row of eight doubles is then one line instead of two halves: numpy itself aligns to 16 bytes.
    """
    size = rows * columns
    memory = np.zeros(size + 8)
    offset = (-memory.ctypes.data % 64) // 8
    return memory[offset : offset + size].reshape(rows, columns)
