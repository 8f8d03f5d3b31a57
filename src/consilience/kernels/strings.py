"""The strings of an Arrow column to codes, in order of first appearance."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Ints
from consilience.kernels._compile import kernel
from consilience.kernels._intrinsics import load64
from consilience.kernels.names import SEEDS, Names, finished, mixed

__all__ = ["encode_bytes", "hashes"]

#: Rows hashed at a time.
_BATCH = 1 << 15


def encode_bytes(offsets: Codes, data: Codes) -> tuple[Codes, Ints]:
    """Return the code of every string ``data[offsets[i]:offsets[i + 1]]``, and the first row of every code."""
    hash_rows, names, n_rows = _hash_kernel(offsets), Names(), offsets.size - 1
    names.expect(n_rows)
    own = threading.local()

    def hash_batch(batch: int) -> tuple[Codes, Ints]:
        if not hasattr(own, "keys"):
            own.keys = np.empty((_BATCH, 2), np.uint64)
        rows = np.arange(batch * _BATCH, min((batch + 1) * _BATCH, n_rows))
        hash_rows(offsets, data, batch * _BATCH, rows.size, SEEDS, own.keys)
        return own.keys[: rows.size], rows

    blocks.run_in_order(hash_batch, [lambda made: names.add(*made)], -(-n_rows // _BATCH))
    return names.codes, names.place


def hashes(offsets: Codes, data: Codes, seeds: Codes = SEEDS) -> Codes:
    """Return the two hash words of the strings ``data[offsets[i]:offsets[i + 1]]``, (rows, 2)."""
    keys = np.empty((offsets.size - 1, 2), np.uint64)
    _hash_kernel(offsets)(offsets, data, 0, offsets.size - 1, seeds, keys)
    return keys


def _hash_kernel(offsets: Codes) -> Callable[..., None]:
    return kernel(_hash, f"{offsets.dtype}[] uint8[] int64 int64 uint64[] uint64[,]!")


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
