"""Codes to other codes, where they lie and on all cores."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes

__all__ = ["recode"]


def recode(codes: Codes, table: Codes) -> None:
    """Put ``table[code]`` in the place of every code; -1 stays."""
    kernel = _kernel(codes.dtype.name)
    edges = np.linspace(0, codes.size, blocks.thread_count() + 1).astype(int).tolist()
    blocks.run(lambda a, b: kernel(codes[a:b], table.astype(codes.dtype)), list(pairwise(edges)))


def _recode(codes: Any, table: Any) -> None:
    for i in range(codes.size):
        if codes[i] >= 0:
            codes[i] = table[np.uint64(codes[i])]


@lru_cache(maxsize=4)
def _kernel(dtype: str) -> Callable[..., None]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    return compiled(_recode, types.void(array(dtype, readonly=False), array(dtype)))
