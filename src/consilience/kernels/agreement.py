"""Sums over items that every coefficient of agreement is made of, in one pass over the labels.

Items are put into blocks, and the sums are kept for each, so that blocks can be drawn again.  For an item with n
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

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.em import SMALL

__all__ = ["AgreementSums", "agreement_sums"]


class AgreementSums(NamedTuple):
    """The sums of the table above."""

    sums: Floats
    classes: Floats
    shares: Floats
    coincidences: Floats  #: (0, K, K) where it was not asked for


def agreement_sums(
    indptr: Ints, label: Codes, block: Ints, n_blocks: int, values: Floats, coincide: bool
) -> AgreementSums:
    """Count; ``block`` is the block of each item, (N,), and ``values`` those of the classes, (K,)."""
    K = values.size
    made = AgreementSums(
        np.zeros((n_blocks, 6)),
        np.zeros((n_blocks, K)),
        np.zeros((n_blocks, K)),
        np.zeros((n_blocks if coincide else 0, K, K)),
    )
    if label.size < SMALL and label.size * K < 1 << 24:
        _by_numpy(indptr, label, block, values, made)
    else:
        _kernel(label.dtype.name)(indptr, label, block, values, *made)
    return made


def _by_numpy(indptr: Ints, label: Codes, block: Ints, values: Floats, made: AgreementSums) -> None:
    N, K = indptr.size - 1, values.size
    item = np.repeat(np.arange(N), np.diff(indptr))
    c = np.bincount(item * K + label, minlength=N * K).reshape(N, K).astype(np.float64)
    n = c.sum(axis=1)
    some, two = n >= 1, n >= 2
    pairs = np.where(two, n - 1.0, 1.0)
    same = (c * (c - 1.0)).sum(axis=1) / pairs
    square = n * (c @ (values * values)) - (c @ values) ** 2
    columns = (some, two, n * two, two * same / np.maximum(n, 1.0), two * same, two * 2.0 * square / pairs)
    np.add.at(made.sums, block, np.stack(columns, axis=1))
    np.add.at(made.classes, block[two], c[two])
    np.add.at(made.shares, block[some], c[some] / n[some, None])
    if made.coincidences.size:
        np.add.at(made.coincidences, block[two], c[two, :, None] * c[two, None, :] / pairs[two, None, None])


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


@lru_cache(maxsize=4)
def _kernel(label: str) -> Callable[..., None]:
    from numba import types

    from consilience.kernels._compile import array, compiled

    flat, cube = array("float64", 2, readonly=False), array("float64", 3, readonly=False)
    return compiled(
        _sweep,
        types.void(array("int64"), array(label), array("int64"), array("float64"), flat, flat, flat, cube),
    )
