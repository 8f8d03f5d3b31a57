"""Slips among numbers: answers far from all others of their item, and answers in another unit (×10, ÷100, …).

An answer is a slip if it is more than ``SLIP`` robust standard deviations from the median of its item: the larger of
that of all answers (their 90 % quantile of distances, which exact ties do not make zero) and that of the item itself.
Half of the answers to an item are never slips, with one exception: of two answers, the one that is as far from all
answers to all items, too.  The answers of an annotator who uses another unit throughout are slips.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.answers.numeric.constants import CLOSE, SLIP
from consilience.answers.numeric.fit import Table
from consilience.kernels._arrays import Bools, Floats, Ints

__all__ = ["Slips", "find_slips", "item_medians", "medians_without"]

_LEAST = 3
#: 90 % and 50 % quantiles of the distance from the centre of a standard normal distribution.
_NINETY, _HALF = 1.645, 0.6745
#: Powers of ten that a wrong unit gives.
_POWERS = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])


class Slips(NamedTuple):
    """Answers that are left out, and the factor of a wrong unit, 0 where there is none."""

    slip: Bools  #: (labels,)
    factor: Floats  #: (labels,)


def find_slips(table: Table) -> Slips:
    """Find slips and wrong units."""
    item, n = table.item, table.per_item
    centre = item_medians(table, table.y)[item]
    factor = _units(table.y, centre)
    looked = n[item] >= _LEAST
    throughout = looked & (factor != 0) & _of_most_answers(table, factor, looked)
    distance = np.abs(table.y - centre)
    others = distance[looked & ~throughout]
    pooled = float(np.quantile(others, 0.9)) / _NINETY if others.size else 0.0
    own = item_medians(table, distance)[item] / _HALF
    far = (distance > SLIP * np.maximum(pooled, own)) & (pooled > 0.0)
    slip = (looked & (far | throughout)) | _beside_one(table, centre, pooled)
    slip &= (2.0 * table.total(slip.astype(float)) < np.maximum(n, 3))[item]
    return Slips(slip, np.where(slip, factor, 0.0))


def _beside_one(table: Table, centre: Floats, pooled: float) -> Bools:
    """Return which of two answers are far from the other, and from all answers, while the other is not."""
    middle = float(np.median(table.y)) if table.y.size else 0.0
    reach = float(np.quantile(np.abs(table.y - middle), 0.9)) / _NINETY if table.y.size else 0.0
    other = 2.0 * centre - table.y
    far = np.abs(table.y - other) > SLIP * max(pooled, reach)
    away = (np.abs(table.y - middle) > SLIP * reach) & (np.abs(other - middle) <= SLIP * reach)
    found: Bools = (table.per_item[table.item] == 2) & far & away & (reach > 0.0)
    return found


def _units(y: Floats, centre: Floats) -> Floats:
    """Return the power of ten by which an answer differs from the median of its item, 0 where it does not."""
    usable = y * centre > 0.0
    power = np.log10(np.where(usable, y, 1.0) / np.where(usable, centre, 1.0))
    nearest = _POWERS[np.argmin(np.abs(power[:, None] - _POWERS), axis=1)]
    found: Floats = np.where(usable & (np.abs(power - nearest) < CLOSE), 10.0**nearest, 0.0)
    return found


def _of_most_answers(table: Table, factor: Floats, looked: Bools) -> Bools:
    """Return which answers have the factor that more than half of their annotator's answers have, of three or more."""
    M, who = table.n_annotators, table.annotator.astype(np.int64)
    total = np.bincount(who[looked], minlength=M)
    most = np.zeros(factor.size, bool)
    for power in _POWERS:
        same = looked & (factor == 10.0**power)
        count = np.bincount(who[same], minlength=M)
        most |= same & ((count >= _LEAST) & (2 * count > total))[who]
    return most


def _sorted(table: Table, values: Floats) -> tuple[Ints, Floats]:
    """Return the order of the answers by item and value, and the values in that order."""
    order = np.lexsort((values, table.item))
    return order, values[order]


def item_medians(table: Table, values: Floats) -> Floats:
    """Return the median over the answers to each item, NaN without answers, (N,)."""
    n, first = table.per_item, table.indptr[:-1]
    _, ranked = _sorted(table, values)
    ranked = np.append(ranked, np.nan)
    low, high = first + np.maximum(n - 1, 0) // 2, first + n // 2
    return np.where(n > 0, 0.5 * (ranked[np.minimum(low, ranked.size - 1)] + ranked[high]), np.nan)


def medians_without(table: Table) -> Floats:
    """Return, for every answer, the median of the other answers to its item, NaN if there is none, (labels,)."""
    order, ranked = _sorted(table, table.y)
    item, n = table.item, table.per_item
    first = table.indptr[item]  # answers stay within their items when sorted
    place, others = np.arange(order.size) - first, n[item] - 1
    low, high = np.maximum(others - 1, 0) // 2, others // 2
    # the place of the k-th of the others: one further from the answer itself on
    both = [ranked[np.minimum(first + k + (k >= place), np.maximum(first + n[item] - 1, 0))] for k in (low, high)]
    found = np.empty(order.size)
    found[order] = np.where(others > 0, 0.5 * (both[0] + both[1]), np.nan)
    return found
