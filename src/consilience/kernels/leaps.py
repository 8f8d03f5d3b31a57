"""The leap of :mod:`consilience.aggregation.squarem` over confusions, in two sweeps instead of twenty temporary arrays.

With r = θ1 - θ0 and v = (θ2 - θ1) - r, the first sweep gives Σ w r² and Σ w v², the second

    θ0 - 2 a r + a² v,

floored and with columns that sum to one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from consilience.kernels._arrays import Floats

__all__ = ["land", "lengths"]


def _lengths(one: Any, two: Any, three: Any, weights: Any, out: Any) -> None:
    M, K, H = one.shape
    of_r, of_v = 0.0, 0.0
    for m in range(M):
        for i in range(K):
            for k in range(H):
                r = two[m, i, k] - one[m, i, k]
                v = (three[m, i, k] - two[m, i, k]) - r
                of_r += weights[m, k] * r * r
                of_v += weights[m, k] * v * v
    out[0], out[1] = of_r, of_v


def _land(one: Any, two: Any, three: Any, a: Any, floor: Any, out: Any) -> None:
    M, K, H = one.shape
    total = np.empty(H)
    for m in range(M):
        for k in range(H):
            total[k] = 0.0
        for i in range(K):
            for k in range(H):
                r = two[m, i, k] - one[m, i, k]
                v = (three[m, i, k] - two[m, i, k]) - r
                far = max(one[m, i, k] - (2 * a) * r + (a * a) * v, floor)
                out[m, i, k] = far
                total[k] += far
        for i in range(K):
            for k in range(H):
                out[m, i, k] /= total[k]


@lru_cache(maxsize=1)
def _kernels() -> tuple[Callable[..., None], Callable[..., None]]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    cells, number = array("float64", 3), types.float64
    lengths_of = types.void(cells, cells, cells, array("float64", 2), array("float64", readonly=False))
    landing = types.void(cells, cells, cells, number, number, array("float64", 3, readonly=False))
    return compiled(_lengths, lengths_of), compiled(_land, landing)


def lengths(one: Floats, two: Floats, three: Floats, weights: Floats) -> tuple[float, float]:
    """Give Σ w r² and Σ w v² over confusions (M, K, H) with weights (M, H)."""
    out = np.empty(2)
    _kernels()[0](*_tidy(one, two, three), np.ascontiguousarray(weights), out)
    return float(out[0]), float(out[1])


def land(one: Floats, two: Floats, three: Floats, a: float, floor: float) -> Floats:
    """Give the confusions that a leap of length ``a`` leads to."""
    out = np.empty(one.shape)
    _kernels()[1](*_tidy(one, two, three), a, floor, out)
    return out


def _tidy(*arrays: Floats) -> list[Floats]:
    return [np.ascontiguousarray(x) for x in arrays]
