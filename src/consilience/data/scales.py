"""Scales: the order of levels, and the number that each stands for.

Numbers are in their order.  Words have an order if it is given, if all of them belong to one known scale, or if each
begins with another number ("1 star", "2 - disagree").  The value of a level, of which means are taken, is the number
itself, or its rank from 1 for words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from consilience.data.ids import Ids
from consilience.exceptions import MethodError, ParameterError
from consilience.kernels._arrays import Floats, Ints

__all__ = ["Scale", "known_order", "leading_order", "numbers_of", "scale_of"]

#: Scales of words, from low to high; words that mean the same level are separated by a bar.
_KNOWN = (
    ("very low", "low", "medium|moderate|middle", "high", "very high"),
    ("strongly disagree", "disagree", "neutral|neither agree nor disagree|undecided", "agree", "strongly agree"),
    ("very dissatisfied", "dissatisfied", "neutral|neither", "satisfied", "very satisfied"),
    ("very unlikely", "unlikely", "neutral|undecided", "likely", "very likely"),
    ("very negative", "negative", "neutral", "positive", "very positive"),
    ("very poor|very bad|terrible", "poor|bad", "fair|average|ok|okay", "good", "very good", "excellent"),
    ("never", "rarely|seldom", "sometimes|occasionally", "often", "usually|very often", "always"),
    ("none|not at all", "slight|slightly|mild", "moderate|moderately", "severe|very|strong", "extreme|extremely"),
    ("small", "medium", "large"),
)


class Scale(NamedTuple):
    """The levels of a scale."""

    order: Ints  #: codes of the classes from the lowest level to the highest, (K,)
    values: Floats  #: the number of each level, in that order, (K,)


def numbers_of(classes: Ids) -> Floats | None:
    """Return the classes as numbers, or None if one of them is not a finite number."""
    found = []
    for name in classes:
        if isinstance(name, bool):
            return None
        try:
            found.append(float(name))
        except (TypeError, ValueError):
            return None
    values = np.array(found)
    return values if np.isfinite(values).all() and np.unique(values).size == values.size else None


def known_order(classes: Ids) -> Ints | None:
    """Return the codes of the classes in the order of a known scale, or None if they are not of one."""
    words = [" ".join(str(name).replace("_", " ").replace("-", " ").casefold().split()) for name in classes]
    for scale in _KNOWN:
        rank = {word: at for at, level in enumerate(scale) for word in level.split("|")}
        found = [rank.get(word, -1) for word in words]
        if min(found, default=-1) >= 0 and len(set(found)) == len(found):
            return np.argsort(found)
    return None


def leading_order(classes: Ids) -> Ints | None:
    """Return the codes of the classes by the number that each begins with, such as "1 star"; None if some do not."""
    found = [re.match(r"[\s(\[]*(-?\d+(?:\.\d+)?)(?![\d.]*\d)", str(name)) for name in classes]
    numbers = [float(at[1]) for at in found if at is not None]
    return np.argsort(numbers) if len({*numbers}) == len(found) else None


def scale_of(classes: Ids, order: Sequence[Any] | None = None) -> Scale:
    """Return the scale of the classes: in the ``order`` given, by number, or as a known scale of words has it.

    The order may name levels that are not among the classes.  Two classes need no order.
    """
    numbers = numbers_of(classes)
    if order is not None:
        found = _given(classes, order)
        if numbers is not None and (np.all(np.diff(numbers[found]) > 0) or np.all(np.diff(numbers[found]) < 0)):
            return Scale(found, numbers[found])
        ranks = Ids(list(order)).codes_of(classes.take(found).to_arrow()).astype(np.float64)
        return Scale(found, ranks + 1.0)
    if numbers is not None:
        found = np.argsort(numbers)
        return Scale(found, numbers[found])
    known = known_order(classes)
    known = leading_order(classes) if known is None else known
    if known is None and len(classes) <= 2:  # one order is the other reversed
        known = np.arange(len(classes))
    if known is None:
        shown = ", ".join(repr(str(name)) for name in classes[:5]) + (", …" if len(classes) > 5 else "")
        raise MethodError(
            f"the order of the levels {shown} is not known; give it from low to high: order=[…] "
            "(--order low,medium,high on the command line), or say answers='nominal'. Leave out rows that hold no level"
        )
    return Scale(known, np.arange(1.0, len(classes) + 1.0))


def _given(classes: Ids, order: Sequence[Any]) -> Ints:
    """Return the codes of the classes in the order given; raise unless it names every class once."""
    if isinstance(order, str) or len(order) == 0:
        raise ParameterError(f"order must list the levels from low to high, not {order!r}")
    codes = Ids(list(order)).codes_of(classes.to_arrow())
    if len(set(map(str, order))) < len(order):
        raise ParameterError(f"order names a level twice: {', '.join(map(str, order))}")
    if (codes < 0).any():
        missing = ", ".join(repr(str(name)) for name, code in zip(classes, codes, strict=True) if code < 0)
        raise ParameterError(
            f"order must name every level that was used; it lacks {missing}. Leave out rows that hold no level"
        )
    return np.argsort(codes)
