"""Sums and steps over all confusions at once, for conjugate steps (:mod:`consilience.aggregation.conjugate`).

With roots x = √θ and residuals r = √θ' - √θ, θ' being the EM step from θ, and those of the point before, x₀ and r₀, let
s = x - x₀, y = r - r₀ and u = s + y.  One sweep gives the weighted products ⟨r, r⟩, ⟨s, r⟩, ⟨s, y⟩, ⟨r, u⟩ and ⟨u, u⟩,
another (x + a r + b u)², with columns that sum to one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from consilience.kernels._arrays import Floats

__all__ = ["land", "products"]


def _products(weights: Any, x0: Any, r0: Any, x: Any, r: Any, out: Any) -> None:
    M, K, H = x.shape
    rr, sr, sy, ru, uu = 0.0, 0.0, 0.0, 0.0, 0.0
    for m in range(M):
        for i in range(K):
            for k in range(H):
                w, one = weights[m, k], r[m, i, k]
                s, y = x[m, i, k] - x0[m, i, k], one - r0[m, i, k]
                u = s + y
                rr += w * one * one
                sr += w * s * one
                sy += w * s * y
                ru += w * one * u
                uu += w * u * u
    out[0], out[1], out[2], out[3], out[4] = rr, sr, sy, ru, uu


def _land(x0: Any, r0: Any, x: Any, r: Any, a: Any, b: Any, least: Any, floor: Any, out: Any) -> None:
    M, K, H = x.shape
    total = np.empty(H)
    for m in range(M):
        for k in range(H):
            total[k] = 0.0
        for i in range(K):
            for k in range(H):
                along = (x[m, i, k] - x0[m, i, k]) + (r[m, i, k] - r0[m, i, k])
                root = max(x[m, i, k] + a * r[m, i, k] + b * along, least * x[m, i, k])
                far = max(root * root, floor)
                out[m, i, k] = far
                total[k] += far
        for i in range(K):
            for k in range(H):
                out[m, i, k] /= total[k]


@lru_cache(maxsize=1)
def _kernels() -> tuple[Callable[..., Any], ...]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    cells, number = array("float64", 3), types.float64
    sums = types.void(array("float64", 2), cells, cells, cells, cells, array("float64", readonly=False))
    landing = types.void(
        cells, cells, cells, cells, number, number, number, number, array("float64", 3, readonly=False)
    )
    return compiled(_products, sums), compiled(_land, landing)


def products(weights: Floats, x: Floats, r: Floats, x0: Floats, r0: Floats) -> Floats:
    """Give the five products of arrays (M, K, H) with weights (M, H)."""
    out = np.empty(5)
    _kernels()[0](np.ascontiguousarray(weights), *map(np.ascontiguousarray, (x0, r0, x, r)), out)
    return out


def land(x: Floats, r: Floats, x0: Floats, r0: Floats, a: float, b: float, least: float, floor: float) -> Floats:
    """Give the confusions that a step leads to; roots shrink to a share of ``least`` at the most."""
    out = np.empty(x.shape)
    _kernels()[1](*map(np.ascontiguousarray, (x0, r0, x, r)), a, b, least, floor, out)
    return out
