"""The most probable class of every item, the runner-up and the margin, in one pass over the posterior."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints, even_parts
from consilience.kernels._compile import kernel

__all__ = ["two_best"]


def two_best(posterior: Floats, order: Ints, tie: float) -> tuple[Codes, Codes, Floats]:
    """Return the classes of the two largest posteriors of every item, and their difference.

    Classes are visited in ``order``; a later one must be larger by more than ``tie`` to take a place.
    """
    N = posterior.shape[0]
    posterior = np.ascontiguousarray(posterior)
    best, second, margin = np.empty(N, np.int32), np.empty(N, np.int32), np.empty(N)
    loop = kernel(_two_best, "float64[,] int64[] float64 int32[]! int32[]! float64[]!", helpers=(_by_order,))
    blocks.run(
        lambda a, b: loop(posterior[a:b], order, tie, best[a:b], second[a:b], margin[a:b]),
        even_parts(N, N * len(order) >> 18),
    )
    return best, second, margin


def _two_best(posterior: Any, order: Any, tie: Any, best: Any, second: Any, margin: Any) -> None:
    K = order.size
    for n in range(posterior.shape[0]):
        # Minima and maxima instead of branches: which class wins cannot be predicted.
        value, runner_up, third = -np.inf, -np.inf, -np.inf
        for k in range(K):
            p = posterior[n, k]
            third = max(third, min(runner_up, p))
            runner_up = max(runner_up, min(value, p))
            value = max(value, p)
        first, other = 0, 0
        if value - runner_up > tie and runner_up - third > tie:  # the order does not matter
            for k in range(K):
                first += k * (posterior[n, k] == value)
                other += k * (posterior[n, k] == runner_up)
        else:
            first, other = _by_order(posterior[n], order, tie)
        best[n] = first
        second[n] = other
        margin[n] = posterior[n, first] - posterior[n, other]


def _by_order(p: Any, order: Any, tie: Any) -> Any:
    """Return the two best classes of one item where some tie."""
    first, other, value, runner_up = 0, 0, -np.inf, -np.inf
    for k in order:
        if p[k] > value + tie:  # the old winner comes second
            first, other, value, runner_up = k, first, p[k], value
        elif p[k] > runner_up + tie:
            other, runner_up = k, p[k]
    return first, other
