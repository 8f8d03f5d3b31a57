"""Silence as an answer, at a cost that grows with the labels given: who is silent about an item is never listed.

If silence is the label o, everybody says something about every item.  The probability of all that is said of item n is

    ∏_m A_m(o, k)  ·  ∏_{labels (m, i) of n} A_m(i, k) / A_m(o, k),

and the first factor is the same for all items.  Counts of silence follow from those of labels: an item of class k about
which m did not say another label is one of which m said o,

    counts_m(o, k)  =  items of class k  -  Σ_{i ≠ o} counts_m(i, k).

========== ============================================================ ==========
symbol     name                                                         shape
========== ============================================================ ==========
A_m        ``tables[m]``, weight of label i under class k               (M, K, K)
o          ``silence``
..         ``pooled``, the first factor divided by its maximum          (K,)
..         ``ratios``, the second factor, each row at most one          (M, K, K)
========== ============================================================ ==========
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.kernels._arrays import Floats
from consilience.kernels.em_source import FLOOR

__all__ = ["Pooled", "add_silence", "pool_silence"]


#: Logarithm of the least factor of all silence: smaller ones would leave the range of numbers.
_LEAST = -460.0


class Pooled(NamedTuple):
    """The two factors, and the logarithms of what they were divided by."""

    pooled: Floats
    ratios: Floats
    log_pooled: float  #: for each item
    log_ratios: Floats  #: for each label i of annotator m, (M, K)


def pool_silence(tables: Floats, silence: int) -> Pooled:
    """Return the factor of all silence, and the weights of labels beside it."""
    log_tables = np.log(np.maximum(tables, FLOOR))
    silent = log_tables[:, silence, :]
    log_all, log_ratios = silent.sum(axis=0), log_tables - silent[:, None, :]
    most, tops = float(log_all.max()), log_ratios.max(axis=2)
    return Pooled(np.exp(np.maximum(log_all - most, _LEAST)), np.exp(log_ratios - tops[..., None]), most, tops)


def add_silence(counts: Floats, class_counts: Floats, silence: int) -> Floats:
    """Return the counts (M, K, K) of labels with those of silence: whoever said nothing else said ``silence``."""
    whole = counts.copy()
    whole[:, silence] = 0.0
    whole[:, silence] = np.maximum(class_counts - whole.sum(axis=1), 0.0)
    return whole
