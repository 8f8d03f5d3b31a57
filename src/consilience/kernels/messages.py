"""Messages between items and annotators along the labels that join them: one sweep an iteration.

Label l, by annotator m on item n, carries a number a_l.  An iteration (Karger, Oh & Shah 2011, Algorithm 1) is

    x_(n→m)  =  Σ a y_(m'→n)  over the other labels of n,        y_(m→n)  =  Σ a x_(n'→m)  over the other labels of m.

With s_m = Σ a x over all labels of m, y_(m→n) = s_m - a x_(n→m): what is kept is ``s`` and one number ``z = a x`` for
each label.  So the next iteration computes the messages of the annotators on its way through the items, and both halves
are one sweep over the labels, in place.

====== =========== ==================
symbol name        shape
====== =========== ==================
a      [label = k] - ``center[m]``
z      ``message`` (labels,)
s      ``total``   (M,)
..     ``factor``  (M,), multiplies y
====== =========== ==================
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels._compile import kernel

__all__ = ["pass_messages", "structural_noise"]

_GOLDEN, _FIRST, _SECOND = (np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_ROUNDS = 3


def pass_messages(
    indptr: Ints,
    annotator: Codes,
    label: Codes,
    k: int,
    center: Floats,
    total: Floats,
    factor: Floats,
    message: Floats,
) -> Floats:
    """Send messages to the items and back: update ``message`` (z) in place and return the new totals (M,).

    For the first iteration, y itself is sent with ``message = -y``, ``total = 0`` and ``factor = 1``.
    """
    new = np.zeros_like(total)
    types = f"int64[] {annotator.dtype}[] {label.dtype}[] int64 float64[] float64[] float64[] float64[]! float64[]!"
    kernel(_pass, types)(indptr, annotator, label, k, center, total, factor, message, new)
    return new


def _pass(
    indptr: Any, annotator: Any, label: Any, k: Any, center: Any, total: Any, factor: Any, message: Any, new: Any
) -> None:
    for n in range(indptr.size - 1):
        start, stop = indptr[n], indptr[n + 1]
        everybody = 0.0
        for i in range(start, stop):
            m = np.uint64(annotator[i])
            a = (1.0 if label[i] == k else 0.0) - center[m]
            # y_(m→n) = s_m - a x_(n→m)
            sent = a * (total[m] - message[i]) * factor[m]
            message[i] = sent
            everybody += sent
        for i in range(start, stop):
            m = np.uint64(annotator[i])
            a = (1.0 if label[i] == k else 0.0) - center[m]
            # x_(n→m) = Σ a y - the own part of it
            back = a * (everybody - message[i])
            message[i] = back
            new[m] += back


def structural_noise(indptr: Ints, annotator: Codes, label: Codes, M: int, K: int, seed: int) -> Floats:
    """Draw a standard normal number for every label, which does not depend on names or on the order of rows.

    It depends on the seed and on the label's place in the graph of items, annotators and labels: a hash after a few
    rounds of colour refinement (Weisfeiler & Leman).  Labels with the same place get the same number.
    """
    from scipy.special import ndtri

    item = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    by = annotator.astype(np.int64)
    said = _mix(np.bincount(label, minlength=K).astype(np.uint64))[label]
    who = np.zeros(M, np.uint64)
    what = np.zeros(indptr.size - 1, np.uint64)
    for _ in range(_ROUNDS):
        what = _hashed_sums(item, _mix(who[by] ^ said), what.size)
        who = _hashed_sums(by, _mix(what[item] + said), M)
    word = _mix(_mix(what[item] + said) ^ (who[by] * _GOLDEN) ^ _mix(np.full(1, seed % 2**64, np.uint64)))
    # 53 bits, at the middle of their interval: never 0 or 1
    return np.asarray(ndtri(((word >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53))


def _hashed_sums(group: Ints, values: Codes, size: int) -> Codes:
    sums = np.zeros(size, np.uint64)
    np.add.at(sums, group, values)
    return _mix(sums)


def _mix(words: Codes) -> Codes:
    """Scramble 64-bit words (the finaliser of splitmix64); overflow is intended."""
    words = words + _GOLDEN
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return np.asarray(words ^ (words >> np.uint64(31)))
