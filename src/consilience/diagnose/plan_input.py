"""Input of a plan: costs and capacities of annotators, and the pairs that can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.exceptions import IdError, ParameterError
from consilience.kernels._arrays import Floats, Ints

__all__ = ["Asking", "asking", "for_annotators", "is_number", "open_pairs"]


class Asking(NamedTuple):
    """Who can be asked, and what it costs."""

    budget: float
    price: Floats  #: cost of a label of each annotator, (M,)
    left: Ints  #: how many labels each annotator can give, (M,)
    open_to: tuple[Ints, Ints]  #: who can be asked about which item, see :func:`open_pairs`
    not_asked: Mapping[int, str]  #: annotators who are flagged, and why


def asking(
    annotations: Annotations, budget: Any, costs: Any, capacity: Any, candidates: Any, not_asked: Mapping[int, str]
) -> Asking:
    """Check the input of a plan."""
    ids, M, N = annotations.annotator_ids, annotations.n_annotators, annotations.n_items
    if not (is_number(budget) and np.isfinite(budget) and budget >= 0):
        raise ParameterError(f"budget must be a number ≥ 0, not {budget!r}")
    price = for_annotators(costs, ids, "cost", missing=None)
    price = np.ones(M) if price is None else price
    if not (np.isfinite(price).all() and (price > 0).all()):
        raise ParameterError("costs must be numbers > 0")
    room = for_annotators(capacity, ids, "capacity", missing=0.0)
    left = np.full(M, N, np.int64) if room is None else np.minimum(np.floor(np.maximum(room, 0.0)), N).astype(np.int64)
    left[list(not_asked)] = 0
    return Asking(float(budget), price, left, open_pairs(candidates, annotations), not_asked)


def for_annotators(given: Any, ids: Ids, what: str, missing: float | None) -> Floats | None:
    """Return a number for every annotator, (M,), ``missing`` where a mapping or frame has none; None without input."""
    if given is None:
        return None
    M = len(ids)
    if is_number(given):
        return np.full(M, float(given))
    if isinstance(given, Mapping):
        names, numbers = list(given), list(given.values())
    elif _frames.is_frame(given):
        import narwhals as nw

        table = nw.from_native(given, eager_only=True)
        name = _frames.find_column(table.columns, "annotator", None, f"the frame of {what}s")
        rest = [column for column in table.columns if column != name]
        column = what if what in rest else rest[0] if len(rest) == 1 else None
        if column is None:
            raise ParameterError(f"the frame of {what}s needs a column {what!r} beside {name!r}, not {rest}")
        names, numbers = table[name].to_list(), table[column].to_list()
    else:
        numbers = list(np.asarray(given, object).ravel())
        if len(numbers) != M:
            raise ParameterError(f"{what} must be one number, or one for each of {M} annotators; got {len(numbers)}")
        names = list(ids)
    try:
        values = np.array(numbers, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{what} must be numbers, not {numbers[:3]}") from None
    if np.isnan(values).any():
        raise ParameterError(f"{what} of {names[int(np.flatnonzero(np.isnan(values))[0])]!r} is missing")
    codes = _codes(ids, names)
    found = np.full(M, np.nan if missing is None else missing)
    found[codes[codes >= 0]] = values[codes >= 0]
    if np.isnan(found).any():
        absent = [str(ids[int(m)]) for m in np.flatnonzero(np.isnan(found))[:5]]
        raise ParameterError(f"no {what} is given for {', '.join(absent)}; give one for every annotator")
    if names and (codes < 0).all():
        raise IdError(f"none of the annotators with a {what} gave labels: {', '.join(map(repr, names[:5]))}")
    return found


def is_number(value: Any) -> bool:
    """Whether a value is one number, and not a truth value."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _codes(ids: Ids, names: Any) -> Ints:
    """Return the codes of names among ids; text matches numbers that look the same, as in a file."""
    try:
        codes = ids.codes_of(names)
    except (pa.ArrowException, TypeError, ValueError):
        codes = np.full(len(names), -1)
    if (codes < 0).all():
        place = {str(name): code for code, name in enumerate(ids)}
        codes = np.array([place.get(str(name), -1) for name in names], np.int64)
    return np.asarray(codes, np.int64)


def open_pairs(candidates: Any, annotations: Annotations) -> tuple[Ints, Ints]:
    """Return the annotators who can be asked about each item, as compressed rows; without row starts, all about all."""
    if candidates is None:
        return np.empty(0, np.int64), np.arange(annotations.n_annotators)
    import narwhals as nw

    table = nw.from_native(candidates, eager_only=True)
    a, codes = annotations, []
    for role, ids, own in (("item", a.item_ids, a.origin.item), ("annotator", a.annotator_ids, a.origin.annotator)):
        name = own if own in table.columns else None
        codes.append(_codes(ids, table[_frames.find_column(table.columns, role, name, "the candidates")].to_list()))
    item, annotator = codes
    known = (item >= 0) & (annotator >= 0)
    item, annotator = item[known], annotator[known]
    order = np.lexsort((annotator, item))
    start = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=a.n_items))]).astype(np.int64)
    return start, annotator[order]
