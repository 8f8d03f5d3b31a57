"""Known truths in any accepted form, as class codes by item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.ids import Ids, encode, joined, name_rows, to_column
from consilience.exceptions import DataError, DataWarning, IdError, warn
from consilience.kernels._arrays import Codes

__all__ = ["arrow_or_values", "classes_with_truths", "is_named", "item_column", "truth_codes", "truth_columns"]


def truth_codes(truth: Any, items: Ids, classes: Ids, *, column: str, what: str, strict: bool) -> Codes:
    """Return the class code of every item under these truths, -1 where unknown.

    Parameters
    ----------
    truth
        A mapping or a pandas series from item to class, a frame with an item and a label column, or an array
        with one class for each item (NaN, None or -1 where unknown).
    items, classes
        The vocabularies.
    column
        Name of the item column in a frame, if it has one of that name.
    what
        What to call the truths in messages.
    strict
        A truth that no annotator ever used is an error; otherwise it gets the code K, which no label has.
    """
    names, values = truth_columns(truth, items, column, what)
    value_codes, value_ids = encode(values)
    class_of_value = classes.codes_of(value_ids.to_arrow())
    for at in np.flatnonzero(class_of_value < 0):
        value = value_ids[int(at)]
        if value == -1:
            continue
        if strict:
            raise IdError(
                f"{what} has the label {value!r}, which no annotator used; the classes are "
                f"{', '.join(map(repr, classes[:10]))}. Correct it, or name all classes with classes=…"
            )
        warn(f"{what} has the label {value!r}, which no annotator used: these items count as wrong", DataWarning)
        class_of_value[at] = len(classes)
    code = np.append(class_of_value, -1)[value_codes]
    item = items.codes_of(names)
    known = code >= 0
    unknown_items = int((known & (item < 0)).sum())
    if unknown_items and unknown_items == int(known.sum()):
        raise IdError(f"none of the {unknown_items} items in {what} is among the labelled items; are the ids the same?")
    if unknown_items:
        are = "item is" if unknown_items == 1 else "items are"
        warn(f"{what}: {unknown_items} {are} not among the labelled items", DataWarning)
    found = known & (item >= 0)
    codes = np.full(len(items), -1, np.int32)
    codes[item[found]] = code[found]
    contradicted = codes[item[found]] != code[found]
    if contradicted.any():
        raise DataError(f"{what} gives item {items[int(item[found][contradicted][0])]!r} two different labels")
    return codes


def classes_with_truths(truth: Any, items: Ids, classes: Ids, *, column: str, what: str) -> Ids:
    """Return the classes, and after them the truths that no annotator used."""
    values = encode(truth_columns(truth, items, column, what)[1])[1]
    new = [n for n in np.flatnonzero(classes.codes_of(values.to_arrow()) < 0) if values[int(n)] != -1]
    return Ids(joined(classes.to_arrow(), values.take(new).to_arrow())) if new else classes


def is_named(truth: Any) -> bool:
    """Return whether truths name their items, instead of being in the order of the items."""
    return (
        isinstance(truth, Mapping)
        or _frames.is_frame(truth)
        or (hasattr(truth, "index") and hasattr(truth, "to_numpy"))
    )


def truth_columns(truth: Any, items: Ids | None, column: str, what: str) -> tuple[pa.Array, pa.Array]:
    """Return the names and the classes; truths without names need the ``items``."""
    if isinstance(truth, Mapping):
        return to_column(list(truth.keys()), what), to_column(list(truth.values()), what)
    if _frames.is_frame(truth):
        import narwhals as nw

        table = nw.from_native(truth, eager_only=True)
        item = _frames.find_column(table.columns, "item", column if column in table.columns else None, what)
        label = _frames.find_truth_column(table.columns, item, None, what)
        return to_column(arrow_or_values(table[item]), item), to_column(arrow_or_values(table[label]), label)
    if hasattr(truth, "index") and hasattr(truth, "to_numpy"):
        return to_column(np.asarray(truth.index), what), to_column(truth.to_numpy(), what)
    assert items is not None
    values = np.asarray(truth)
    if values.shape != (len(items),):
        raise DataError(
            f"{what} must be a mapping, a series, a frame, or one value for each of the {len(items)} items; "
            f"got {type(truth).__name__} of shape {values.shape}"
        )
    return items.to_arrow(), to_column(values, what)


def item_column(items: Any, column: str) -> pa.Array:
    """Return the ids in a frame with an item column (one of this name, if there is), in a series or in a sequence."""
    what = "items"
    if _frames.is_frame(items):
        import narwhals as nw

        table = nw.from_native(items, eager_only=True)
        what = _frames.find_column(table.columns, "item", column if column in table.columns else None, what)
        items = arrow_or_values(table[what])
    elif not hasattr(items, "to_arrow"):
        items = items if isinstance(items, np.ndarray | pa.Array | pa.ChunkedArray) else list(items)
    names = to_column(items, what)
    if (blank := np.asarray(names.is_null())).any():
        raise IdError(f"items has no id in {name_rows(np.flatnonzero(blank))} (column {what!r})")
    return names


def arrow_or_values(series: Any) -> Any:
    """Return a narwhals series as arrow if possible, else as a list, so that an error can name the rows."""
    try:
        return series.to_arrow()
    except pa.ArrowNotImplementedError:  # swapped bytes
        values = series.to_numpy()
        return values.astype(values.dtype.newbyteorder("="))
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError):
        return series.to_list()
