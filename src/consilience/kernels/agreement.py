"""Sums over items from which every coefficient of agreement is computed, in one pass over the labels.

Items are put into blocks with sums of their own, so that blocks can be resampled (bootstrap).  For an item with n
labels, c_k of them k, and values v_k of the classes:

==================  ======================================================  ============
name                sum over the items of a block of                        shape
==================  ======================================================  ============
``sums[b, 0]``      1, where n ≥ 1
``sums[b, 1]``      1, where n ≥ 2
``sums[b, 2]``      n, where n ≥ 2
``sums[b, 3]``      P = Σ_k c_k (c_k - 1) / (n (n - 1)), where n ≥ 2
``sums[b, 4]``      n P
``sums[b, 5]``      2 (n Σ_k c_k v_k² - (Σ_k c_k v_k)²) / (n - 1)
``classes``         c_k, where n ≥ 2                                         (B, K)
``shares``          c_k / n, where n ≥ 1                                     (B, K)
``coincidences``    c_k c_l / (n - 1), where n ≥ 2, if asked for             (B, K, K)
==================  ======================================================  ============
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels._compile import kernel

__all__ = ["AgreementSums", "agreement_sums"]


class AgreementSums(NamedTuple):
    """The sums of the table above."""

    sums: Floats
    classes: Floats
    shares: Floats
    coincidences: Floats  #: (0, K, K) unless asked for


def agreement_sums(
    indptr: Ints, label: Codes, block: Codes, n_blocks: int, values: Floats, coincide: bool
) -> AgreementSums:
    """Return the sums; ``block`` is the block of each item, (N,), and ``values`` those of the classes, (K,)."""
    K = values.size
    made = AgreementSums(
        np.zeros((n_blocks, 6)),
        np.zeros((n_blocks, K)),
        np.zeros((n_blocks, K)),
        np.zeros((n_blocks if coincide else 0, K, K)),
    )
    made_types = "float64[,]! float64[,]! float64[,]! float64[,,]!"
    kernel(_sweep, f"int64[] {label.dtype.name}[] int32[] float64[] {made_types}")(indptr, label, block, values, *made)
    return made


def _sweep(
    indptr: Any, label: Any, block: Any, values: Any, sums: Any, classes: Any, shares: Any, coincidences: Any
) -> None:
    K = values.size
    count = np.zeros(K)
    met = np.empty(K, np.int64)
    for u in range(indptr.size - 1):
        n = indptr[u + 1] - indptr[u]
        if n == 0:
            continue
        b = block[u]
        distinct = 0
        for i in range(indptr[u], indptr[u + 1]):
            k = np.int64(label[i])
            if count[k] == 0.0:
                met[distinct] = k
                distinct += 1
            count[k] += 1.0
        sums[b, 0] += 1.0
        same, first, second = 0.0, 0.0, 0.0
        for d in range(distinct):
            k = met[d]
            c = count[k]
            shares[b, k] += c / n
            same += c * (c - 1.0)
            first += c * values[k]
            second += c * values[k] * values[k]
        if n > 1:
            sums[b, 1] += 1.0
            sums[b, 2] += n
            sums[b, 3] += same / (n * (n - 1.0))
            sums[b, 4] += same / (n - 1.0)
            sums[b, 5] += 2.0 * (n * second - first * first) / (n - 1.0)
            for d in range(distinct):
                classes[b, met[d]] += count[met[d]]
            if coincidences.shape[0] > 0:
                for d in range(distinct):
                    for e in range(distinct):
                        coincidences[b, met[d], met[e]] += count[met[d]] * count[met[e]] / (n - 1.0)
        for d in range(distinct):
            count[met[d]] = 0.0
