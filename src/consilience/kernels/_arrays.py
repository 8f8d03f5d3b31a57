"""Array types and the one place that knows how codes are stored."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Codes", "Floats", "Ints", "aligned", "code_dtype"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
#: Codes are kept in the smallest unsigned type that holds them.
Codes: TypeAlias = NDArray[Any]


def code_dtype(n: int) -> np.dtype[Any]:
    """Give the smallest unsigned type that holds codes ``0 … n - 1``."""
    return np.min_scalar_type(max(n - 1, 0))


def aligned(rows: int, columns: int) -> Floats:
    """Give a zero array (rows, columns) that starts on a cache line.

    A row of eight doubles then is one line, not two halves: numpy itself aligns to 16 bytes.
    """
    size = rows * columns
    memory = np.zeros(size + 8)
    offset = (-memory.ctypes.data % 64) // 8
    return memory[offset : offset + size].reshape(rows, columns)
