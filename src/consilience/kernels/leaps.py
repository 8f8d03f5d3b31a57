"""Leaps and conjugate steps over confusions, in compiled sweeps instead of twenty temporary arrays.

Leaps (:mod:`consilience.fitting.squarem`): with r = θ1 - θ0 and v = (θ2 - θ1) - r, one sweep gives Σ w r² and
Σ w v², another θ0 - 2 a r + a² v.

Conjugate steps (:mod:`consilience.fitting.conjugate`): with roots x = √θ, residuals r = √θ' - √θ, θ' being the EM
step from θ, those of the point before, x₀ and r₀, and s = x - x₀, y = r - r₀, u = s + y, one sweep gives the weighted
products ⟨r, r⟩, ⟨s, r⟩, ⟨s, y⟩, ⟨r, u⟩ and ⟨u, u⟩, another (x + a r + b u)².

Where they lead, probabilities are floored, and columns sum to one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from consilience.kernels._arrays import Floats

__all__ = ["land", "land_conjugate", "lengths", "products"]


def _sum_to_one(cells: Any) -> None:
    """Divide the columns of one annotator's confusions by their sums."""
    K, H = cells.shape
    for k in range(H):
        total = 0.0
        for i in range(K):
            total += cells[i, k]
        for i in range(K):
            cells[i, k] /= total


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
        _sum_to_one(out[m])


def _products(weights: Any, x: Any, r: Any, x0: Any, r0: Any, out: Any) -> None:
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


def _land_conjugate(x: Any, r: Any, x0: Any, r0: Any, a: Any, b: Any, least: Any, floor: Any, out: Any) -> None:
    M, K, H = x.shape
    for m in range(M):
        for i in range(K):
            for k in range(H):
                u = (x[m, i, k] - x0[m, i, k]) + (r[m, i, k] - r0[m, i, k])
                root = max(x[m, i, k] + a * r[m, i, k] + b * u, least * x[m, i, k])
                out[m, i, k] = max(root * root, floor)
        _sum_to_one(out[m])


@lru_cache(maxsize=1)
def _of_leaps() -> tuple[Callable[..., None], Callable[..., None]]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    cells, number, made = array("float64", 3), types.float64, array("float64", 3, readonly=False)
    sums = types.void(*[cells] * 3, array("float64", 2), array("float64", readonly=False))
    landing = types.void(*[cells] * 3, *[number] * 2, made)
    return compiled(_lengths, sums), compiled(_land, landing, (_sum_to_one,))


@lru_cache(maxsize=1)
def _of_conjugate_steps() -> tuple[Callable[..., None], Callable[..., None]]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    cells, number, made = array("float64", 3), types.float64, array("float64", 3, readonly=False)
    sums = types.void(array("float64", 2), *[cells] * 4, array("float64", readonly=False))
    landing = types.void(*[cells] * 4, *[number] * 4, made)
    return compiled(_products, sums), compiled(_land_conjugate, landing, (_sum_to_one,))


def lengths(one: Floats, two: Floats, three: Floats, weights: Floats) -> tuple[float, float]:
    """Give Σ w r² and Σ w v² over confusions (M, K, H) with weights (M, H)."""
    out = np.empty(2)
    _of_leaps()[0](*_tidy(one, two, three, weights), out)
    return float(out[0]), float(out[1])


def land(one: Floats, two: Floats, three: Floats, a: float, floor: float) -> Floats:
    """Give the confusions that a leap of length ``a`` leads to."""
    out = np.empty(one.shape)
    _of_leaps()[1](*_tidy(one, two, three), a, floor, out)
    return out


def products(weights: Floats, x: Floats, r: Floats, x0: Floats, r0: Floats) -> Floats:
    """Give the five products of arrays (M, K, H) with weights (M, H)."""
    out = np.empty(5)
    _of_conjugate_steps()[0](*_tidy(weights, x, r, x0, r0), out)
    return out


def land_conjugate(
    x: Floats, r: Floats, x0: Floats, r0: Floats, a: float, b: float, least: float, floor: float
) -> Floats:
    """Give the confusions that a conjugate step leads to; roots shrink to a share of ``least`` at the most."""
    out = np.empty(x.shape)
    _of_conjugate_steps()[1](*_tidy(x, r, x0, r0), a, b, least, floor, out)
    return out


def _tidy(*arrays: Floats) -> list[Floats]:
    return [np.ascontiguousarray(x) for x in arrays]
