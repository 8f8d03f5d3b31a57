"""Whether labels are numbers to be averaged: many different ones, near each other within an item or mostly round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids, is_text
from consilience.exceptions import DataError, DataWarning, warn
from consilience.kernels._arrays import Floats
from consilience.moments.label_pairs import item_pairs

__all__ = ["as_numbers", "looks_numeric", "numbers_in_matrix", "numbers_of"]

#: Least number of different values: of whole numbers, and of numbers some of which are not whole.
#: origin: by design, so that scales of 21 points, and of 11 points in tenths or halves, are not taken as numbers.
_WHOLE, _DECIMAL = 22, 12
#: Greatest mean distance of two answers to an item, in ranks, as a share of that of two answers to any items.
#: origin: emotion_full has 0.79, its scales 0.73 to 0.97, movie_reviews 0.73; 100 simulated classes in random order,
#: of which 60 % are right, 0.98; alternatives: none; sensitivity: one noisy scale, which round numbers recognise.
_NEAR = 0.95
#: Share of answers that are multiples of five from which whole numbers are estimates of people, not codes.
#: origin: by design; emotion_full has 0.97, codes about 0.2.
_ROUND = 0.6
#: Share of the whole numbers from 0 or 1 upwards that codes of classes use: of those, nothing is said.
_FILLED = 0.9
#: Share of pairs of labels that are the same from which whole numbers may be codes of classes.
#: origin: by design; crowds with eight or more classes have 0.4 and more.
_SAME = 0.2
#: Largest number, and the inverse of the smallest that may be the largest.
_LARGEST = 1e100
#: Pairs of labels that are looked at.
_PAIRS = 400_000


def looks_numeric(annotations: Annotations) -> str:
    """Return why the labels are taken as numbers, or "" if they are not.

    Codes of many classes are whole numbers too.  But where two annotators differ, the codes are as far from each other
    as those of any two items; numbers are nearer.  And people estimate in round numbers.
    """
    a = annotations
    value = as_numbers(a.class_ids) if a.n_classes >= _DECIMAL else None
    if value is None or not np.isfinite(value).all():
        return ""
    used = np.unique(value[a.used_classes])
    whole = bool((used == np.round(used)).all())
    filled = whole and used.size >= _FILLED * (used[-1] - used[0] + 1.0)
    if used.size < _DECIMAL:
        return ""
    low, high = (f"{limit:g}" for limit in (used[0], used[-1]))
    found = f"the labels are {used.size} different numbers from {low} to {high}"
    round_ones = float((value[a.label] % 5.0 == 0.0).mean()) if whole else 0.0
    together = not whole or round_ones >= _ROUND or _near(a, value)
    if not together or (filled and used.size < _WHOLE):
        if filled and (together or not _agree(a)):  # of other numbers, all methods warn
            warn(f"{found}, taken as names of classes. If they are numbers, say answers='numeric'", DataWarning)
        return ""
    return (
        f"{found}: they are treated as numbers (answers='numeric'). If they are names of classes, say answers='nominal'"
    )


def _agree(a: Annotations) -> bool:
    """Return whether two annotators often give the same label, as they do with codes of classes."""
    found = item_pairs(a, _PAIRS)
    same = found.label[found.first] == found.label[found.second]
    return bool(same.size and same.mean() >= _SAME)


def _near(a: Annotations, value: Floats) -> bool:
    """Return whether answers to an item are nearer to each other than to those to other items."""
    level, code = np.unique(value, return_inverse=True)
    label = code.ravel()[a.label]
    count = np.bincount(label, minlength=level.size).astype(float)
    rank = np.cumsum(count) - 0.5 * count
    found = item_pairs(a, _PAIRS)
    one, other = (rank[code.ravel()[found.label[at]]] for at in (found.first, found.second))
    differ = one != other
    if not differ.any():
        return False
    # mean distance of two independent answers that differ, by the distribution of ranks
    share = count / count.sum()
    below = np.cumsum(share) - share
    mean_below = np.cumsum(share * rank) - share * rank
    expected = 2.0 * float((share * (rank * below - mean_below)).sum()) / max(1.0 - float((share**2).sum()), 1e-12)
    return float(np.abs(one - other)[differ].mean()) <= _NEAR * expected


def as_numbers(ids: Ids) -> Floats | None:
    """Return names as numbers, or None if some are not; text such as "00" or " 5" is a number."""
    names = ids.to_arrow()
    if pa.types.is_integer(names.type) or pa.types.is_floating(names.type):
        return np.asarray(names.cast(pa.float64(), safe=False), float)
    if not is_text(names):
        return None
    try:
        return np.asarray(pc.utf8_trim_whitespace(names).cast(pa.float64()), float)
    except pa.ArrowInvalid:
        return None


def numbers_of(ids: Ids, what: str) -> Floats:
    """Return names as numbers; what is not a finite number is an error that names it."""
    values = as_numbers(ids)
    if values is None or not np.isfinite(values).all():
        strange = next(name for n, name in enumerate(ids) if not _is_number(ids[n : n + 1]))
        raise DataError(
            f"{what} must be finite numbers for answers='numeric', but there is {strange!r}. Write it as a number, "
            "such as 12.5, without unit and without separators of thousands, or leave the row out"
        )
    size = float(np.abs(values).max(initial=0.0))
    if not 1.0 / _LARGEST <= size <= _LARGEST and size > 0.0:  # squares would overflow, or be zero
        raise DataError(
            f"{what} must be between {1 / _LARGEST:g} and {_LARGEST:g} in size for answers='numeric', but the largest "
            f"is {size:g}. Write them in other units"
        )
    return values


def _is_number(ids: Ids) -> bool:
    value = as_numbers(ids)
    return value is not None and bool(np.isfinite(value).all())


def numbers_in_matrix(matrix: Any, annotations: Annotations, *, asked: bool) -> Annotations:
    """Return the numbers of an (items × annotators) matrix, in which NaN is missing, and -1 may be a number.

    It is if numbers were ``asked`` for, or if there are smaller ones; otherwise ``annotations`` are right without it.
    """
    values = np.asarray(matrix, float)
    if not (values == -1.0).any() or not (asked or (values < -1.0).any()):
        return annotations
    item, annotator = np.nonzero(~np.isnan(values))
    columns = (pa.array(part) for part in (item, annotator, values[item, annotator]))
    return Annotations.from_columns(*columns, origin=annotations.origin)
