"""Answers that name several options: a label such as ``food|travel`` is the set of its options.

The options of class k are ``option[first[k]:first[k + 1]]``, ascending.  The empty text is the empty set: nothing was
ticked.  Options are text, in ascending order.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.ids import Ids
from consilience.data.truth import truth_columns
from consilience.exceptions import DataError, DataWarning, IdError, warn
from consilience.kernels._arrays import Bools, Codes, Ints

__all__ = [
    "SEPARATOR",
    "OptionSets",
    "joined_lists",
    "joined_options",
    "looks_like_sets",
    "option_sets",
    "respelt",
    "truth_sets",
]

#: Between the options of an answer.
SEPARATOR = "|"

#: Labels that name several options are taken for sets if at least so many different ones do, and if at least this share
#: of their options is also part of another label.
#: origin: by design, so that a class that merely contains a ``|`` stays a class; alternatives: none; sensitivity: none.
_SETS, _RECUR = 2, 0.5


class OptionSets(NamedTuple):
    """The options of each class."""

    options: Ids
    first: Ints  #: where the options of each class begin, (K + 1,)
    option: Codes  #: codes of the options, class after class


def option_sets(classes: Ids, options: Ids | None = None) -> OptionSets:
    """Split classes into options; those that are not among the ``options`` given are an error."""
    split = [sorted({part.strip() for part in str(name).split(SEPARATOR)} - {""}) for name in classes]
    names = sorted(set().union(*split)) if options is None else [str(name) for name in options]
    code = {name: place for place, name in enumerate(names)}
    first = np.concatenate([[0], np.cumsum([len(parts) for parts in split])]).astype(np.int64)
    try:
        flat = np.array([code[part] for parts in split for part in parts], np.int32)
    except KeyError as error:
        raise IdError(
            f"the option {error.args[0]!r} is new: the model knows {', '.join(map(repr, names[:10]))}"
            f"{', …' if len(names) > 10 else ''}. Fit it again with the new labels"
        ) from None
    return OptionSets(Ids(pa.array(names, pa.string())) if options is None else options, first, flat)


def respelt(classes: Ids) -> dict[Any, str]:
    """Return classes that join options by ``;`` or ``,``, or list them as JSON, as ``|`` would join them.

    The result is empty if some class has a ``|``, or if no options recur.
    """
    names = [str(name).strip() for name in classes]
    if any(SEPARATOR in name for name in names):
        return {}
    if all(name.startswith("[") and name.endswith("]") for name in names if name):
        try:
            lists = [json.loads(name) if name else [] for name in names]
        except ValueError:
            return {}
        return {name: SEPARATOR.join(map(str, parts)) for name, parts in zip(classes, lists, strict=True)}
    for mark in ";,":
        split = [[part.strip() for part in name.split(mark)] for name in names]
        times = Counter(part for parts in split for part in {*parts})
        several = {part for parts in split if len(parts) > 1 for part in parts}
        if several and np.mean([times[part] > 1 for part in several]) >= _RECUR:
            return {name: SEPARATOR.join(parts) for name, parts in zip(classes, split, strict=True)}
    return {}


def looks_like_sets(annotations: Any) -> bool:
    """Return whether labels name several options each: different combinations of options that recur."""
    names = annotations.class_ids.to_arrow()
    if not pa.types.is_string(names.type) and not pa.types.is_large_string(names.type):
        return False
    several = np.asarray(pc.match_substring(names, SEPARATOR)) & annotations.used_classes
    if several.sum() < _SETS:
        return False
    sets = option_sets(annotations.class_ids)
    size = np.diff(sets.first)
    several &= size > 1
    within = np.repeat(several, size)
    times = np.bincount(sets.option, minlength=len(sets.options))
    among = np.unique(sets.option[within])
    return bool(several.sum() >= _SETS and np.mean(times[among] > 1) >= _RECUR)


def joined_options(options: Ids, first: Ints, option: Codes) -> pa.Array:
    """Return the options of each set, joined by ``|``."""
    names = pc.cast(options.to_arrow(), pa.string()).take(pa.array(option, pa.int64()))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(first, pa.int32()), names), SEPARATOR)


def joined_lists(column: Any) -> Any:
    """Return a column of lists as text, the options joined by ``|``; any other column as it is."""
    if isinstance(column, list) and any(isinstance(value, list | tuple | set) for value in column):
        try:
            column = pa.array([sorted(v, key=str) if isinstance(v, set) else v for v in column])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise DataError("labels are lists with different contents; expected lists of texts, or texts") from error
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = getattr(column, "type", None)
    if not isinstance(kind, pa.DataType) or not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return column
    if pa.types.is_nested(kind.value_type):
        raise DataError("a label is a list of lists; expected the options of an answer as a list of texts")
    texts = pc.cast(pc.list_flatten(column), pa.string())
    offsets = np.concatenate([[0], np.cumsum(np.asarray(pc.list_value_length(column).fill_null(0)))])
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pc.fill_null(texts, ""))
    return pc.if_else(column.is_valid(), pc.binary_join(lists, SEPARATOR), pa.scalar(None, pa.string()))


def truth_sets(truth: Any, items: Ids, options: Ids, *, column: str, what: str) -> tuple[Bools, Ints, Ints, Ints]:
    """Return which items have a known set, (N,); pairs of item and option of these; items whose set has others too.

    An item without a label in a frame or a file has the empty set.  In a mapping or an array, None means unknown.
    """
    from collections.abc import Mapping

    if isinstance(truth, Mapping):
        truth = {key: value for key, value in truth.items() if value is not None and value == value}
        truth = {
            key: SEPARATOR.join(map(str, value)) if isinstance(value, list | tuple | set | frozenset) else value
            for key, value in truth.items()
        }
    names, values = truth_columns(truth, items, column, what)
    values = joined_lists(values)
    item = items.codes_of(names)
    known = item >= 0
    if not known.any():
        raise IdError(f"none of the {len(names)} items in {what} is among the labelled items; are the ids the same?")
    if not known.all():
        warn(f"{what}: {int((~known).sum())} items are not among the labelled items", DataWarning)
    if not isinstance(truth, Mapping) and not hasattr(truth, "columns") and not hasattr(truth, "column_names"):
        known &= np.asarray(values.is_valid())  # an array or a series: unknown where missing
    codes, ids = _coded(values)
    sets = option_sets(ids)
    place = options.codes_of(sets.options.to_arrow()) if len(sets.options) else np.empty(0, np.int64)
    rows = np.flatnonzero(known)
    size = np.diff(sets.first)[codes[rows]]
    start = np.repeat(sets.first[codes[rows]], size)
    within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    option = place[sets.option[start + within]]
    of_item = np.repeat(item[rows], size)
    mask = np.zeros(len(items), np.bool_)
    mask[item[rows]] = True
    _check_single(item[rows], codes[rows], items, what)
    named = option >= 0
    return mask, of_item[named], option[named], np.unique(of_item[~named])


def _coded(values: pa.Array) -> tuple[Ints, Ids]:
    texts = pc.fill_null(pc.cast(values, pa.string()), "").dictionary_encode()
    return np.asarray(texts.indices, np.int64), Ids(texts.dictionary)


def _check_single(item: Ints, code: Ints, items: Ids, what: str) -> None:
    """Raise if an item has two different truths."""
    order = np.lexsort((code, item))
    item, code = item[order], code[order]
    twice = np.flatnonzero((item[1:] == item[:-1]) & (code[1:] != code[:-1]))
    if twice.size:
        raise DataError(f"{what} gives item {items[int(item[twice[0]])]!r} two different labels")
