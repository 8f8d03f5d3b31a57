"""Sparse weights stored as dense arrays: thresholding, and the sums that a stage of AND needs.

    G = Z Zᵀ,    C = Z Yᵀ

====== ============ ================================
symbol name         shape here (samples are rows)
====== ============ ================================
Z      ``weights``  (n, D)
Y      ``data``     (n, W)
C, G   the sums     (D, W), (D, D)
====== ============ ================================
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels._arrays import Floats
from consilience.kernels._compile import kernel

__all__ = ["keep_large", "weighted_sums"]

#: Matrix products are as fast as the loop if one weight in this many is nonzero (measured: 5 to 7).
_DENSE = 6


def keep_large(weights: Floats, threshold: Floats) -> int:
    """Set weights below their feature's ``threshold`` (D,) to zero, in place, and return how many are left."""
    return int(kernel(_keep, "float64[,]! float64[]", "int64")(weights, threshold))


def weighted_sums(weights: Floats, data: Floats, n_weights: int | None = None) -> tuple[Floats, Floats]:
    """Return C and G; ``n_weights`` is the number of nonzero weights."""
    if (np.count_nonzero(weights) if n_weights is None else n_weights) * _DENSE > weights.size:
        return np.asarray(weights.T @ data, np.float64), np.asarray(weights.T @ weights, np.float64)
    D = weights.shape[1]
    sums, gram = np.zeros((D, data.shape[1])), np.zeros((D, D))
    kernel(_add, "float64[,] float64[,] float64[,]! float64[,]!")(weights, data, sums, gram)
    return sums, gram


def _keep(weights: Any, threshold: Any) -> Any:
    kept = 0
    for j in range(weights.shape[0]):
        for d in range(weights.shape[1]):
            large = weights[j, d] >= threshold[d] and weights[j, d] > 0.0
            weights[j, d] = weights[j, d] if large else 0.0
            kept += large
    return kept


def _add(weights: Any, data: Any, sums: Any, gram: Any) -> None:
    D = weights.shape[1]
    where = np.empty(D, np.int64)
    for j in range(weights.shape[0]):
        number = 0
        for d in range(D):
            if weights[j, d] != 0.0:
                where[number] = d
                number += 1
        for a in range(number):
            d = where[a]
            z = weights[j, d]
            for b in range(number):
                gram[d, where[b]] += z * weights[j, where[b]]
            for w in range(data.shape[1]):
                sums[d, w] += z * data[j, w]
