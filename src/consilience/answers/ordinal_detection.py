"""Whether labels are levels of a scale, from their names and from which of them annotators confuse.

Names make labels candidates: numbers at equal distances, or words of one known scale.  With n_ij the number of pairs of
labels i and j on one item, the confusion of two levels, free of how frequent they are, is

    θ_ij  =  n_ij / √(n_ii n_jj).

On a scale it falls with the distance: for levels i < j < k, θ_ik is below θ_ij and θ_jk.  Codes of classes have such an
order by chance only: of the orders of four classes that resemble each other along a line, one in twelve fits, of three
one in three.  So numbers are taken for a scale from four levels on, words and numbers below -1 from three.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.data.scales import known_order, leading_order, numbers_of
from consilience.kernels._arrays import Ints
from consilience.moments.label_pairs import item_pairs

__all__ = ["Looks", "looks_like_scale"]

#: Least share of triples of levels whose confusions fall with the distance: up to five levels, and with more, whose
#: distant pairs are few.
#: origin: seven public scales of three to five levels have 0.9 and more (six of them 1.0), eleven sets of other
#: classes 0.5 and less; alternatives: the rank of the order among all orders by the mean distance of labels that
#: differ, which takes dog52 for a scale; sensitivity: none from 0.55 to 0.9 on public sets.
_IN_ORDER, _IN_LONG_ORDER, _LONG = 0.85, 0.7, 6

#: Fewest pairs of labels that differ, for numbers that could be codes of classes, and for names that hardly could.
#: origin: by design; alternatives: none; sensitivity: the table of 1979 has 133, other public scales 2,700 and more.
_DIFFERENT, _NAMED_DIFFERENT = 500, 50
#: Fewest and most levels, and fewest that codes of classes must have.
_FEWEST, _MOST, _FEWEST_CODES = 3, 11, 4
#: Pairs of labels that are looked at.
_PAIRS = 400_000


class Looks(NamedTuple):
    """What the labels look like."""

    scale: bool  #: whether they are to be taken for a scale
    lowest: str = ""  #: the lowest and the highest level; empty if nothing speaks for a scale
    highest: str = ""

    @property
    def reason(self) -> str:
        """Return what was decided, in words."""
        if not self.scale:
            return ""
        return (
            f"labels are treated as a scale from {self.lowest} to {self.highest} (answers='ordinal'); "
            "use answers='nominal' to treat them as names"
        )

    @property
    def hint(self) -> str:
        """Return a remark on labels that may be a scale, but are not taken for one."""
        if self.scale or not self.lowest:
            return ""
        return f"labels may be a scale from {self.lowest} to {self.highest}: answers='ordinal' would use their order"


def looks_like_scale(annotations: Annotations) -> Looks:
    """Return whether labels are levels of a scale."""
    names = annotations.class_ids.take(np.flatnonzero(annotations.used_classes))
    if not _FEWEST <= len(names) <= _MOST:
        return Looks(False)
    order, codes = _candidate(names)
    if order is None or (codes and len(names) < _FEWEST_CODES):
        return Looks(False)
    pairs = _pairs(annotations)[np.ix_(order, order)]
    share = _in_order(pairs)
    different = float(pairs.sum() - np.trace(pairs)) / 2.0
    if share < (_IN_ORDER if len(names) < _LONG else _IN_LONG_ORDER):
        return Looks(False)
    enough = different >= (_DIFFERENT if codes else _NAMED_DIFFERENT)
    return Looks(enough, str(names[int(order[0])]), str(names[int(order[-1])]))


def _candidate(names: Ids) -> tuple[Ints | None, bool]:
    """Return the codes of the names from low to high, or None; and whether they could be codes of classes."""
    numbers = numbers_of(names)
    if numbers is None:
        known = known_order(names)
        return (known, False) if known is not None else (leading_order(names), True)
    order = np.argsort(numbers)
    steps = np.diff(numbers[order])
    if not np.allclose(steps, steps[0]):
        return None, False
    return order, bool(numbers.min() >= -1.0)  # -1 may be an answer that is missing


def _pairs(annotations: Annotations) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return how often two labels are given to one item, in either order, among the classes that were used."""
    K, used = annotations.n_classes, annotations.used_classes
    found = item_pairs(annotations, _PAIRS)
    cell = found.label[found.first] * K + found.label[found.second]
    pairs = np.bincount(cell, minlength=K * K).reshape(K, K).astype(float)
    return np.asarray((pairs + pairs.T)[np.ix_(used, used)])


def _in_order(pairs: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """Return the share of triples i < j < k in which θ_ik is below θ_ij and θ_jk."""
    n = pairs + 0.5
    theta = n / np.sqrt(np.outer(np.diag(n), np.diag(n)))
    level = np.arange(len(n))
    i, j, k = np.meshgrid(level, level, level, indexing="ij")
    ordered = (i < j) & (j < k)
    i, j, k = i[ordered], j[ordered], k[ordered]
    return float((theta[i, k] < np.minimum(theta[i, j], theta[j, k])).mean())
