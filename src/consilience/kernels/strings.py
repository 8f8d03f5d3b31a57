"""The strings of an Arrow column to codes, in order of first appearance."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numba import types

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Ints
from consilience.kernels._compile import array, compiled, load64
from consilience.kernels.names import BATCH, SEEDS, Names, finished, join, mixed

__all__ = ["encode_bytes"]


def encode_bytes(offsets: Codes, data: Codes) -> tuple[Codes, Ints]:
    """Code the strings ``data[offsets[i]:offsets[i + 1]]``: the code of every row, and the first row of every code."""
    kernel = _kernel(offsets.dtype.name)

    def code(first: int, stop: int) -> Names:
        names, keys = Names(), np.empty((BATCH, 2), np.uint64)
        for low in range(first, stop, BATCH):
            rows = np.arange(low, min(low + BATCH, stop))
            kernel(offsets, data, low, rows.size, SEEDS, keys)
            names.add(keys[: rows.size], rows)
        return names

    edges = np.linspace(0, offsets.size - 1, blocks.thread_count() + 1).astype(int).tolist()
    return join(blocks.run(code, list(pairwise(edges))))


def _hash(offsets: Any, data: Any, low: Any, n: Any, seeds: Any, keys: Any) -> None:
    step = np.uint64(8)
    for i in range(n):
        start, stop = np.uint64(offsets[low + i]), np.uint64(offsets[low + i + 1])
        one, two = seeds[0], seeds[1]
        at = start
        while at < stop:
            if at + step <= np.uint64(data.size):
                word = load64(data, at)
                if stop - at < step:
                    word &= (np.uint64(1) << ((stop - at) * step)) - np.uint64(1)
            else:
                word = np.uint64(0)
                for k in range(stop - at):
                    word |= np.uint64(data[at + np.uint64(k)]) << np.uint64(8 * k)
            one, two = mixed(one, two, word)
            at += step
        keys[i, 0], keys[i, 1] = finished(one, two, stop - start, seeds[1])


@lru_cache(maxsize=2)
def _kernel(offset: str) -> Callable[..., None]:
    keys = array("uint64", 2, readonly=False)
    whole = types.int64
    return compiled(_hash, types.void(array(offset), array("uint8"), whole, whole, array("uint64"), keys))
