"""SQUAREM leaps over confusions, in two compiled sweeps instead of twenty temporary arrays.

With r = θ1 - θ0 and v = (θ2 - θ1) - r (:mod:`consilience.fitting.ascent`), one sweep computes Σ w r² and Σ w v², the
other θ0 - 2 a r + a² v, floored and with columns that sum to one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels._arrays import Floats
from consilience.kernels._compile import kernel

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
        total[:] = 0.0
        for i in range(K):
            for k in range(H):
                r = two[m, i, k] - one[m, i, k]
                v = (three[m, i, k] - two[m, i, k]) - r
                out[m, i, k] = max(one[m, i, k] - (2 * a) * r + (a * a) * v, floor)
                total[k] += out[m, i, k]
        for i in range(K):
            for k in range(H):
                out[m, i, k] /= total[k]


def lengths(one: Floats, two: Floats, three: Floats, weights: Floats) -> tuple[float, float]:
    """Return Σ w r² and Σ w v² over confusions (M, K, H) with weights (M, H)."""
    out = np.empty(2)
    measure = kernel(_lengths, "float64[,,] float64[,,] float64[,,] float64[,] float64[]!")
    measure(*(np.ascontiguousarray(x) for x in (one, two, three, weights)), out)
    return float(out[0]), float(out[1])


def land(one: Floats, two: Floats, three: Floats, a: float, floor: float) -> Floats:
    """Return the confusions after a leap of length ``a``."""
    out = np.empty(one.shape)
    move = kernel(_land, "float64[,,] float64[,,] float64[,,] float64 float64 float64[,,]!")
    move(*(np.ascontiguousarray(x) for x in (one, two, three)), a, floor, out)
    return out
