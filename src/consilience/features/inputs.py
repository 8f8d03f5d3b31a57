"""Features and probabilities as users have them, brought into the order of the items.

A frame or a file names its items in a column, and may name items that nobody labelled: they join the data.  A matrix,
or a sequence of texts, has a row for each item, in the order of ``annotations.items``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data import frames
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids, encode, name_rows
from consilience.data.truth import item_column
from consilience.exceptions import ColumnError, DataError, DataWarning, IdError, warn
from consilience.io.tables import read_columns
from consilience.kernels._arrays import Floats, Ints

__all__ = ["feature_rows", "is_text", "joined", "probability_rows"]

#: Difference from one of a sum of rounded probabilities.
_ROUNDING = 0.02


class _Table(NamedTuple):
    """A table beside the labels."""

    items: pa.Array
    columns: dict[str, pa.ChunkedArray]
    what: str


def probability_rows(given: Any, annotations: Annotations) -> tuple[Annotations, Floats]:
    """Return the labels, with items that only ``given`` names, and a classifier's probabilities in their order, (N, K).

    Parameters
    ----------
    given
        A frame or a file with an item column and a column for each class, under its name; or an array (N, K), in the
        order of ``annotations.items`` and ``annotations.classes``.
    annotations
        The labels.  Items without a row get equal probabilities: the classifier says nothing of them.
    """
    a = annotations
    if (table := _table(given, a, "probabilities")) is None:
        values = np.asarray(given, np.float64)
        if values.shape != (a.n_items, a.n_classes):
            raise DataError(
                f"probabilities must be an array of shape {(a.n_items, a.n_classes)}, items × classes in the order of "
                f"annotations.items and annotations.classes, or a frame with an item column; got shape {values.shape}"
            )
        _warn_of_order(a, "probabilities")
        return a, _checked(values, "probabilities")
    names = [str(name) for name in a.classes]
    if missing := [name for name in names if name not in table.columns]:
        raise ColumnError(
            f"{table.what} needs a column for each class; it has none for {missing[0]!r}, but "
            f"{', '.join(map(repr, [*table.columns][:10]))}"
        )
    values = np.column_stack([_numbers(table.columns[name], name, table.what) for name in names])
    a, rows = joined(a, table.items, table.what)
    made = np.full((a.n_items, a.n_classes), 1.0 / a.n_classes)
    made[rows >= 0] = _checked(values, table.what)[rows[rows >= 0]]
    return a, made


def feature_rows(given: Any, annotations: Annotations) -> tuple[Annotations, Any]:
    """Return the labels, with items that only ``given`` names, and the features in their order.

    Parameters
    ----------
    given
        A frame or a file with an item column, and columns of numbers or one of texts; or a matrix, a scipy sparse
        matrix or a sequence of texts, in the order of ``annotations.items``.
    annotations
        The labels.
    """
    a = annotations
    if (table := _table(given, a, "features")) is None:
        rows = given.tocsr() if hasattr(given, "tocsr") else _array(given)
        if rows.ndim != (1 if is_text(rows) else 2) or rows.shape[0] != a.n_items:
            raise DataError(
                f"features must have a row for each of the {a.n_items} items, in the order of annotations.items: a "
                "matrix, a sparse matrix or a sequence of texts; or be a frame with an item column. "
                f"Got shape {rows.shape}"
            )
        _warn_of_order(a, "features")
        return a, _filled(rows) if is_text(rows) else _finite(rows)
    if not table.columns:
        raise ColumnError(f"{table.what} has no column of features beside the items")
    words = [name for name, column in table.columns.items() if not _is_numeric(column)]
    if words and len(table.columns) > 1:
        raise ColumnError(
            f"{table.what}: expected columns of numbers, or one column of texts; {words[0]!r} is not of numbers. "
            "Encode it, or leave columns out"
        )
    a, at = joined(a, table.items, table.what)
    if (absent := np.flatnonzero(at < 0)).size:
        raise IdError(
            f"{table.what} has no row for {absent.size} items, such as {a.item_ids[int(absent[0])]!r}. Add them "
            "(numbers and texts may be blank), or leave out the labels of these items"
        )
    if words:
        texts = table.columns[words[0]].combine_chunks().fill_null("")
        return a, texts.to_numpy(zero_copy_only=False).astype(object)[at]
    columns = [_numbers(column, name, table.what) for name, column in table.columns.items()]
    return a, _finite(np.column_stack(columns)[at])


def is_text(rows: Any) -> bool:
    """Return whether features are a sequence of texts."""
    return isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "OUT"


def _table(given: Any, annotations: Annotations, what: str) -> _Table | None:
    """Return the items and the other columns of a frame or a file; None for anything else."""
    own = annotations.origin.item
    if isinstance(given, str | os.PathLike):
        where = Path(given).name

        def find(columns: list[str]) -> dict[str, str]:
            item = _item_column(columns, own, where)
            return {"item": item} | {f"of {name}": name for name in columns if name != item}

        read = read_columns(given, None, "utf-8", find, f"holds no {what}", line_ends=True)
        is_text_item = pa.types.is_string(annotations.item_ids.to_arrow().type)
        codes, ids = read.coded("item", as_text=is_text_item)
        _complete(codes, where)
        columns = {name: read.table[name] for role, name in read.names.items() if role != "item"}
        return _Table(ids.to_arrow().take(pa.array(codes)), {n: _typed(c) for n, c in columns.items()}, where)
    if not frames.is_frame(given):
        return None
    import narwhals as nw

    table = nw.from_native(given, eager_only=True)
    item = _item_column(table.columns, own, what)
    return _Table(
        item_column(given, item),
        {str(name): pa.chunked_array([table.get_column(name).to_arrow()]) for name in table.columns if name != item},
        what,
    )


def _item_column(columns: list[str], own: str, where: str) -> str:
    """Return the column that names the items: the one of the labels, or one with a usual name."""
    usual = frames.ALIASES["item"]
    if own not in columns and not any(str(name).strip().lower() in usual for name in columns):
        raise ColumnError(
            f"{where} has no column of items: expected {own!r}, as in the labels, or one of {', '.join(usual)} among "
            f"{', '.join(map(repr, columns[:10]))}. Rename a column; if the index names the items, use reset_index()"
        )
    return frames.find_column(columns, "item", own if own in columns else None, where)


def _warn_of_order(annotations: Annotations, what: str) -> None:
    """Warn if the rows of an array may be meant in the order of items that are numbers."""
    items = annotations.items
    numbered = items.dtype.kind in "iu" and items.size and items.min() == 0 and items.max() == items.size - 1
    if numbered and (np.diff(items) < 0).any():
        warn(
            f"the rows of {what} are taken in the order of annotations.items, which is not 0, 1, 2, …: the first is "
            f"item {items[0]}. To match rows by item, pass a frame with a column of items",
            DataWarning,
        )


def _array(given: Any) -> Any:
    try:
        return np.asarray(given)
    except ValueError as error:
        raise DataError(f"the rows of features must have the same length: {error}") from error


def _filled(texts: Any) -> Any:
    """Return texts with blanks for missing ones."""
    missing = np.array([text is None or text != text for text in texts], bool)
    return np.where(missing, "", texts) if missing.any() else texts


def _complete(codes: Ints, where: str) -> None:
    if (rows := np.flatnonzero(codes < 0)).size:
        raise IdError(f"{where} has no item in {name_rows(rows)}")


def joined(annotations: Annotations, items: pa.Array, what: str) -> tuple[Annotations, Ints]:
    """Return the labels with all ``items`` of a table, and the row of every item, -1 where there is none."""
    codes, names = encode(items)
    if len(names) < len(codes):
        twice = names[int(np.argmax(np.bincount(codes) > 1))]
        raise DataError(f"{what} has item {twice!r} in several rows; one row for each item is expected")
    if not (annotations.item_ids.codes_of(items) >= 0).any():
        raise IdError(f"none of the {len(names)} items in {what} is among the labelled items; are the ids the same?")
    both = annotations.including(items)
    return both, Ids(items).codes_of(both.item_ids.to_arrow())


def _typed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return text as numbers if all of it is."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    try:
        return pc.cast(pc.if_else(pc.equal(column, ""), None, column), pa.float64())
    except pa.ArrowInvalid:
        return column


def _is_numeric(column: pa.ChunkedArray) -> bool:
    kind = column.type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _numbers(column: pa.ChunkedArray, name: str, what: str) -> Floats:
    """Return a column as numbers, NaN where there is none."""
    if not (_is_numeric(column) or pa.types.is_null(column.type) or pa.types.is_decimal(column.type)):
        raise DataError(f"{what}: the column {name!r} must hold numbers")
    values: Floats = pc.cast(column, pa.float64()).to_numpy().astype(np.float64)
    return values


def _finite(rows: Any) -> Any:
    """Return features as numbers; a gap (NaN) is allowed in a dense matrix, an infinite number is not."""
    sparse = hasattr(rows, "tocsr")
    try:
        made = rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"features must be numbers, or one text for each item: {error}") from error
    if made.shape[1] == 0:
        raise DataError("features have no columns; leave features=… out")
    values = made.data if sparse else made
    if np.isinf(values).any() or (sparse and np.isnan(values).any()):
        raise DataError("features must be finite numbers; some are infinite" + " or missing" * sparse)
    return made


def _checked(values: Floats, what: str) -> Floats:
    """Return probabilities that sum to one; raise where they cannot be probabilities."""
    bad = ~np.isfinite(values).all(axis=1) | (values < 0).any(axis=1) | (values.sum(axis=1) <= 0)
    bad |= (values > 1.0 + 1e-6).any(axis=1)
    if bad.any():
        raise DataError(
            f"{what} must be probabilities: numbers from 0 to 1, in every row one above 0. "
            f"They are not in {name_rows(np.flatnonzero(bad))}. Divide percentages by 100; for scores, use the softmax"
        )
    total = values.sum(axis=1, keepdims=True)
    if (rows := np.flatnonzero(np.abs(total[:, 0] - 1.0) > _ROUNDING)).size:
        warn(
            f"{what} do not sum to one in {name_rows(rows)} ({total[rows[0], 0]:.3g} in the first of these), and are "
            "divided by their sum",
            DataWarning,
        )
    made: Floats = values / total
    return made
