"""SQUAREM leaps over confusions, in two compiled sweeps instead of twenty temporary arrays.

With r = θ1 - θ0 and v = (θ2 - θ1) - r (:mod:`consilience.fitting.ascent`), one sweep computes Σ w r² and Σ w v², the
other θ0 - 2 a r + a² v, floored and with columns that sum to one.
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
    for m in range(M):
        for i in range(K):
            for k in range(H):
                r = two[m, i, k] - one[m, i, k]
                v = (three[m, i, k] - two[m, i, k]) - r
                out[m, i, k] = max(one[m, i, k] - (2 * a) * r + (a * a) * v, floor)
        for k in range(H):
            total = 0.0
            for i in range(K):
                total += out[m, i, k]
            for i in range(K):
                out[m, i, k] /= total


@lru_cache(maxsize=1)
def _kernels() -> tuple[Callable[..., None], Callable[..., None]]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    cells, number, made = array("float64", 3), types.float64, array("float64", 3, readonly=False)
    sums = types.void(*[cells] * 3, array("float64", 2), array("float64", readonly=False))
    return compiled(_lengths, sums), compiled(_land, types.void(*[cells] * 3, *[number] * 2, made))


def lengths(one: Floats, two: Floats, three: Floats, weights: Floats) -> tuple[float, float]:
    """Return Σ w r² and Σ w v² over confusions (M, K, H) with weights (M, H)."""
    out = np.empty(2)
    _kernels()[0](*(np.ascontiguousarray(x) for x in (one, two, three, weights)), out)
    return float(out[0]), float(out[1])


def land(one: Floats, two: Floats, three: Floats, a: float, floor: float) -> Floats:
    """Return the confusions after a leap of length ``a``."""
    out = np.empty(one.shape)
    _kernels()[1](*(np.ascontiguousarray(x) for x in (one, two, three)), a, floor, out)
    return out
