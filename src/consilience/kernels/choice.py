"""The most probable class of every item, the runner-up and the margin, in one pass over the posterior."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.em import SMALL

__all__ = ["two_best"]


def two_best(posterior: Floats, order: Ints, tie: float) -> tuple[Codes, Codes, Floats]:
    """Give the classes of the two largest posteriors of every item, and how far these are apart.

    Classes are looked at in ``order``; a later one must be larger by more than ``tie`` to take a place.
    """
    if posterior.size < SMALL:
        best = _largest(posterior, order, tie, None)
        second = _largest(posterior, order, tie, best)
        rows = np.arange(best.size)
        return best, second, posterior[rows, best] - posterior[rows, second]
    N = posterior.shape[0]
    best, second, margin = np.empty(N, np.int32), np.empty(N, np.int32), np.empty(N)
    kernel = _kernel()
    edges = np.linspace(0, N, 1 + (N * len(order) >> 18 or 1)).astype(int).tolist()
    blocks.run(
        lambda a, b: kernel(posterior[a:b], order, tie, best[a:b], second[a:b], margin[a:b]),
        list(pairwise(edges)),
    )
    return best, second, margin


def _largest(posterior: Floats, order: Ints, tie: float, barred: Codes | None) -> Codes:
    best = np.zeros(posterior.shape[0], np.int32)
    value = np.full(posterior.shape[0], -np.inf)
    for k in order:
        wins = posterior[:, k] > value + tie
        if barred is not None:
            wins &= barred != k
        np.copyto(best, k, where=wins)
        np.copyto(value, posterior[:, k], where=wins)
    return best


def _two_best(posterior: Any, order: Any, tie: Any, best: Any, second: Any, margin: Any) -> None:
    K = order.size
    for n in range(posterior.shape[0]):
        # Minima and maxima, not branches: which class wins cannot be predicted.
        value, runner_up, third = -np.inf, -np.inf, -np.inf
        for k in range(K):
            p = posterior[n, k]
            third = max(third, min(runner_up, p))
            runner_up = max(runner_up, min(value, p))
            value = max(value, p)
        first, other = 0, 0
        if value - runner_up > tie and runner_up - third > tie:  # no order matters
            for k in range(K):
                first += k * (posterior[n, k] == value)
                other += k * (posterior[n, k] == runner_up)
        else:
            first, other = _by_order(posterior[n], order, tie)
        best[n] = first
        second[n] = other
        margin[n] = posterior[n, first] - posterior[n, other]


def _by_order(p: Any, order: Any, tie: Any) -> Any:
    """Give the two best classes of one item, where some tie."""
    first, other, value, runner_up = 0, 0, -np.inf, -np.inf
    for k in order:
        if p[k] > value + tie:  # the old winner comes second
            first, other, value, runner_up = k, first, p[k], value
        elif p[k] > runner_up + tie:
            other, runner_up = k, p[k]
    return first, other


@lru_cache(maxsize=1)
def _kernel() -> Callable[..., None]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    found, margin = array("int32", readonly=False), array("float64", readonly=False)
    signature = types.void(array("float64", 2), array("int64"), types.float64, found, found, margin)
    return compiled(_two_best, signature, (_by_order,))
