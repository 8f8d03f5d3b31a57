"""Read users, items and ratings from frames and arrays, and match ids with those of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.exceptions import ColumnError, DataError, DataWarning, IdError, warn
from consilience.kernels._arrays import Floats, Ints
from consilience.pmf.columns import MISSING, STRANGE, encode_column
from consilience.pmf.table import frame_column, frame_columns

__all__ = [
    "encode_ratings",
    "id_names",
    "is_matrix",
    "places_of",
    "rating_column",
    "rating_numbers",
    "sorted_ids",
    "two_columns",
]


def rating_column(X: Any, columns: list[Any], name: str) -> Any:
    """Return a column of a frame of ratings; raise if there is none."""
    if name not in columns:
        raise ColumnError(f"ratings need a column {name!r}; this frame has {', '.join(map(repr, columns))}")
    return frame_column(X, name)


def sorted_ids(column: Any, name: str) -> tuple[Ints, Any]:
    """Return the index of each id among the sorted ids, and the sorted ids."""
    from consilience.data.ids import encode, to_column

    codes, ids = encode(to_column(column, name))
    if (codes < 0).any():
        raise DataError(f"column {name!r} has missing ids; every rating needs a user and an item")
    ordered, rank = ids.sorted()
    return rank[codes], ordered.to_numpy()


def rating_numbers(column: Any) -> Floats:
    """Return ratings as numbers, NaN if missing."""
    import pyarrow as pa

    try:
        return np.asarray(column.cast(pa.float64()), np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError("ratings must be numbers") from error


def is_matrix(X: Any, n_items: int, whose: str) -> bool:
    """Return whether X has one column per item, rather than two for the users and items of pairs."""
    columns = frame_columns(X)
    if columns is not None:
        return len(columns) == n_items and not ("user" in columns and "item" in columns)
    if hasattr(X, "tocsr"):  # the check of a matrix has the message for sparse ones
        return True
    shape: tuple[int, ...] = X.shape if isinstance(X, np.ndarray) else np.shape(np.asarray(X, object))
    if shape == (0,):
        return False
    if len(shape) != 2:
        raise DataError(
            f"expected ratings (users, items) or user-item pairs, not shape {shape}. Reshape your data: "
            "X.reshape(1, -1) for one user or one pair"
        )
    if shape[1] not in (2, n_items):
        raise DataError(
            f"X has {shape[1]} features, but {whose} is expecting {n_items} features as input, one per item; "
            "user-item pairs have two columns"
        )
    return shape[1] != 2


def encode_ratings(matrix: Floats, values: Floats) -> Ints:
    """Return the index of each rating among the values, -1 if missing; an unknown value counts as missing."""
    codes, _ = encode_column(matrix.ravel(), values, "rating")
    strange = int((codes == STRANGE).sum())
    if strange:
        warn(f"{strange} ratings have values that the fit did not see, and are taken as missing", DataWarning)
    places: Ints = np.maximum(codes, MISSING).reshape(matrix.shape)
    return places


def two_columns(X: Any) -> tuple[Any, Any]:
    """Return the users and the items of pairs."""
    columns = frame_columns(X)
    if columns is not None:
        return rating_column(X, columns, "user"), rating_column(X, columns, "item")
    pairs: list[Any] = list(X.T) if isinstance(X, np.ndarray) else list(zip(*X, strict=True)) or [(), ()]
    if len(pairs) != 2 or np.ndim(pairs[0]) != 1:
        raise DataError("expected user-item pairs: a frame with columns user and item, or an array (pairs, 2)")
    return pairs[0], pairs[1]


def places_of(ids: Any, known: Any, name: str) -> Ints:
    """Return the index of each id, -1 if unknown.

    Numbers and text are compared as text, since an array of pairs such as ("b", 2) is all text.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from consilience.data.ids import Ids

    asked, there = _plain(ids, name), _plain(known, name)
    if np.asarray(pc.is_null(asked, nan_is_null=True)).any():
        raise DataError(f"column {name!r} has missing ids; every pair needs a user and an item")
    places = Ids(there).codes_of(asked)
    if pa.types.is_string(asked.type) != pa.types.is_string(there.type) and places.size and places.max() < 0:
        raise IdError(f"{name} ids are of type {asked.type} here and were of type {there.type} in the fit")
    return places


def id_names(values: Any, name: str) -> Any:
    """Return ids as an array: numbers as numbers, everything else as objects."""
    from consilience.data.ids import Ids

    return Ids(_plain(values, name)).to_numpy()


def _plain(values: Any, name: str) -> Any:
    import pyarrow as pa

    from consilience.data.ids import to_column

    column = to_column(values, name)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
