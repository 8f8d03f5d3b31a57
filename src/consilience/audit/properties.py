"""Properties of tasks in the codes of the labels: order, length, author and time.

If a property belongs to two options (order always does), y says which of the two a label chose: 1 the first in
the order of the classes, 0 the second, ½ neither.  Otherwise y is 1 if the label is one of the good classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from consilience.audit.effects import Property
from consilience.data import frames as _frames
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids, encode, to_column
from consilience.data.truth import arrow_or_values, truth_columns
from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Codes, Floats, Ints

__all__ = ["Labels", "author_property", "drift_property", "length_property", "order_property"]

#: Labels whose votes are in memory at a time.
_STEP = 1 << 18


class Labels:
    """The labels with the judge of each, and what is good."""

    def __init__(self, annotations: Annotations, judges: Mapping[Any, Any] | None, good: Any) -> None:
        """Prepare the codes.

        Parameters
        ----------
        annotations
            The labels.
        judges
            The judge of annotators that are variants of one (such as one in two orders); others are their own.
        good
            Class or classes of a good answer; by default the last one.
        """
        a = self.annotations = annotations
        named = {str(key): value for key, value in (judges or {}).items()}
        unknown = sorted(named.keys() - {str(name) for name in a.annotators})
        if unknown:
            raise ParameterError(f"judges names {unknown[0]!r}, who is not an annotator of these labels")
        names = [str(named.get(str(name), name)) for name in a.annotators]
        self.names = sorted(set(names))
        place = {name: at for at, name in enumerate(self.names)}
        self.item = a.item_of_label()
        self.judge: Ints = np.array([place[name] for name in names], np.int64)[a.annotator]
        wanted = [a.classes[-1]] if good is None else good if isinstance(good, list | tuple | set) else [good]
        self.good = _class_codes(a.class_ids, list(wanted), "good")

    def property(self, y: Floats, x: Floats) -> Property:
        """Return the labels of which x is known."""
        there = ~np.isnan(x) & ~np.isnan(y)
        return Property(self.item[there], self.judge[there], y[there], x[there])

    def values(self, options: Ints | None) -> Floats:
        """Return y of every class, (K,)."""
        K = self.annotations.n_classes
        if options is None:
            return np.isin(np.arange(K), self.good).astype(np.float64)
        made = np.full(K, 0.5)
        made[options] = 1.0, 0.0
        return made


def order_property(labels: Labels, order: Any) -> tuple[Property, Floats]:
    """Return shown first rather than second, and y of every class.

    ``order`` has the class that was shown first: a mapping from annotator, or a frame with item, annotator and one more
    column.
    """
    a = labels.annotations
    first = np.full(a.n_labels, -1, np.int64)
    if isinstance(order, Mapping):
        who = a.annotator_ids.codes_of(to_column(list(order.keys()), "order"))
        codes = _class_codes(a.class_ids, list(order.values()), "order")
        of = np.full(a.n_annotators, -1, np.int64)
        of[who[who >= 0]] = codes[who >= 0]
        first = of[a.annotator]
    elif _frames.is_frame(order):
        import narwhals as nw

        table = nw.from_native(order, eager_only=True)
        item = _frames.find_column(table.columns, "item", _if_there(a.origin.item, table.columns), "order")
        who_column = _frames.find_column(
            table.columns, "annotator", _if_there(a.origin.annotator, table.columns), "order"
        )
        rest = [name for name in table.columns if name not in (item, who_column)]
        value = "first" if "first" in rest else "order" if "order" in rest else rest[0] if len(rest) == 1 else None
        if value is None:
            raise DataError(f"order needs one column with the class that was shown first, but has {', '.join(rest)}")
        n = a.item_ids.codes_of(to_column(arrow_or_values(table[item]), item))
        m = a.annotator_ids.codes_of(to_column(arrow_or_values(table[who_column]), who_column))
        codes = _class_codes(a.class_ids, table[value].to_list(), "order")
        there = (n >= 0) & (m >= 0)
        key = n[there] * a.n_annotators + m[there]
        by_key = np.argsort(key, kind="stable")
        mine = labels.item * a.n_annotators + a.annotator
        at = np.minimum(np.searchsorted(key[by_key], mine), max(key.size - 1, 0))
        if key.size:
            first = np.where(key[by_key][at] == mine, codes[there][by_key][at], -1)
    else:
        raise ParameterError("order must be a mapping from annotator to the class shown first, or a frame")
    options = np.unique(first[first >= 0])
    if options.size != 2:
        raise DataError(f"order must name two classes as shown first, but names {options.size} of those that are used")
    values = labels.values(options)
    x = np.where(first < 0, np.nan, first == options[0])
    return labels.property(values[a.label], x), values


def length_property(labels: Labels, length: Any) -> tuple[Property, Floats]:
    """Return longer rather than shorter, and y of every class.

    ``length`` has the length of every item (longer than the median item, then), or a frame with an item column and one
    for each of two classes.
    """
    a = labels.annotations
    two = _by_option(length, a)
    if two is None:
        names, column = truth_columns(length, a.item_ids, a.origin.item, "length")
        long = _of_items(a, names, _numbers(column, "length"))
        x = np.where(np.isnan(long), np.nan, long > np.nanmedian(long))
        values = labels.values(None)
    else:
        options, names, (one, other) = two
        long = _of_items(a, names, _numbers(one, "length") - _numbers(other, "length"))
        x = np.where(np.isnan(long) | (long == 0), np.nan, long > 0)
        values = labels.values(options)
    return labels.property(values[a.label], x[labels.item]), values


def author_property(labels: Labels, author: Any, families: Mapping[Any, Any] | None = None) -> tuple[Property, Floats]:
    """Return written by the judge (or by another of its family) rather than by others, and y of every class.

    ``author`` has the author of every item, or a frame with an item column and one for each of two classes.
    """
    a = labels.annotations
    two = _by_option(author, a)
    if two is None:
        names, column = truth_columns(author, a.item_ids, a.origin.item, "author")
        x = _own(labels, names, column, families)
        values = labels.values(None)
    else:
        options, names, (one, other) = two
        # +1 if the judge wrote the first option, -1 if the second
        x = _own(labels, names, one, families) - _own(labels, names, other, families)
        values = labels.values(options)
    if not (x[~np.isnan(x)] != 0).any():
        what = "of the family of an author" if families else "an author"
        raise DataError(
            f"no judge is {what}: judges are {', '.join(labels.names[:5])}; name the judge of every annotator with "
            "judges=…"
        )
    return labels.property(values[a.label], x), values


def drift_property(labels: Labels) -> Property | None:
    """Return the place of every label in its judge's time, from 0 to 1; None without times.

    y is whether the label is what most other annotators say of the item.
    """
    a = labels.annotations
    if a.time is None:
        return None
    known = ~np.isnat(a.time) if a.time.dtype.kind == "M" else ~np.isnan(a.time)
    rows = np.flatnonzero(known)
    rows = rows[np.lexsort((a.time[rows], labels.judge[rows]))]
    number = np.bincount(labels.judge[rows], minlength=len(labels.names))
    start = np.concatenate([[0], np.cumsum(number)])[:-1]
    x = np.full(a.n_labels, np.nan)
    who = labels.judge[rows]
    x[rows] = (np.arange(rows.size) - start[who]) / np.maximum(number[who] - 1, 1)
    # votes of the others, label by label; ties count in part
    agree = np.empty(a.n_labels)
    K = a.n_classes
    votes = np.bincount(labels.item * K + a.label, minlength=a.n_items * K).reshape(a.n_items, K)
    for first in range(0, a.n_labels, _STEP):
        part = slice(first, first + _STEP)
        rest = votes[labels.item[part]]
        mine = np.arange(rest.shape[0]), a.label[part]
        rest[mine] -= 1
        best = rest == rest.max(axis=1, keepdims=True)
        agree[part] = best[mine] / best.sum(axis=1)
    return labels.property(agree, x)


def _by_option(given: Any, a: Annotations) -> tuple[Ints, Any, tuple[Any, Any]] | None:
    """Return the two classes that are columns of a frame, the items, and the two columns; None if there are none."""
    if not _frames.is_frame(given):
        return None
    import narwhals as nw

    table = nw.from_native(given, eager_only=True)
    options = [k for k, name in enumerate(a.classes) if str(name) in table.columns]
    if len(options) != 2:
        return None
    item = _frames.find_column(table.columns, "item", _if_there(a.origin.item, table.columns), "the table")
    columns = tuple(to_column(arrow_or_values(table[str(a.classes[k])]), str(a.classes[k])) for k in options)
    return np.array(options), to_column(arrow_or_values(table[item]), item), (columns[0], columns[1])


def _of_items(a: Annotations, names: Any, values: Floats) -> Floats:
    """Return the value of every item, NaN where it has none."""
    item = a.item_ids.codes_of(names)
    if not (item >= 0).any():
        raise DataError("none of these items is among the labelled items; are the ids the same?")
    made = np.full(a.n_items, np.nan)
    made[item[item >= 0]] = values[item >= 0]
    return made


def _own(labels: Labels, names: Any, authors: Any, families: Mapping[Any, Any] | None = None) -> Floats:
    """Return 1 where the judge of a label is the author of its item, 0 where not, NaN where the author is unknown.

    With families, 1 where both are of one family; NaN where the family of one is unknown, and where they are the same.
    """
    codes, ids = encode(authors)
    if families is not None:
        return _of_family(labels, names, codes, ids, {str(key): str(value) for key, value in families.items()})
    place = {name: at for at, name in enumerate(labels.names)}
    judge = np.array([place.get(str(name), -1) for name in ids], np.float64)
    of_row = np.append(judge, np.nan)[codes]  # -1: missing
    author = _of_items(labels.annotations, names, of_row)[labels.item]
    return np.where(np.isnan(author), np.nan, author == labels.judge)


def _of_family(labels: Labels, names: Any, codes: Codes, ids: Ids, families: Mapping[str, str]) -> Floats:
    number = {name: at for at, name in enumerate(sorted(set(families.values())))}
    place = {name: at for at, name in enumerate(labels.names)}
    of_author = np.array([number.get(families.get(str(name), ""), np.nan) for name in ids])
    of_judge = np.array([number.get(families.get(name, ""), np.nan) for name in labels.names])[labels.judge]
    itself = np.array([place.get(str(name), -1) for name in ids], np.float64)
    family, who = (
        _of_items(labels.annotations, names, np.append(of, np.nan)[codes])[labels.item] for of in (of_author, itself)
    )
    unknown = np.isnan(family) | np.isnan(of_judge) | (who == labels.judge)
    return np.where(unknown, np.nan, family == of_judge)


def _numbers(column: Any, what: str) -> Floats:
    try:
        return np.asarray(column.cast("float64").to_numpy(zero_copy_only=False), np.float64)
    except ValueError as error:
        raise DataError(f"{what} must be numbers: {error}") from error


def _class_codes(classes: Ids, values: list[Any], what: str) -> Codes:
    """Return the codes of classes, by value or as text."""
    place: dict[Any, int] = {str(name): k for k, name in enumerate(classes)}
    codes = np.array([place.get(str(value), -1) for value in values], np.int64)
    if (codes < 0).any():
        wrong = values[int(np.flatnonzero(codes < 0)[0])]
        raise ParameterError(f"{what} names {wrong!r}, which is not one of the classes {', '.join(map(str, classes))}")
    return codes


def _if_there(name: str, columns: list[str]) -> str | None:
    return name if name in columns else None
