"""Fill the missing cells of a table in a copy of the same kind, with the same names, types and order."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels._arrays import Bools, Codes
from consilience.pmf.columns import STRANGE, encode_column
from consilience.pmf.table import DiscreteTable, as_matrix, frame_columns

__all__ = ["fill_cells"]


def fill_cells(X: Any, gone: Bools, codes: Codes, categories: tuple[Codes, ...], names: tuple[str, ...]) -> Any:
    """Return a copy of X whose cells ``gone`` (S, N) have the values of ``codes`` (S, N).

    A frame's columns are found by name, and other columns are kept.  A variable without entries in the fit has no
    values: its cells stay null in a frame and become NaN in a matrix of numbers.
    """
    if isinstance(X, DiscreteTable):
        return _in_table(X, gone, codes, categories, names)
    there = frame_columns(X)
    if there is None:
        return _in_matrix(as_matrix(X), gone, codes, categories)
    texts = [str(name) for name in there]
    new = {}
    for n, name in enumerate(names):
        rows = np.flatnonzero(gone[:, n])
        values = categories[n][codes[rows, n]]
        if rows.size and not _is_null(values[0]):
            new[texts.index(name)] = rows, values
    if hasattr(X, "iloc"):
        return _in_pandas(X, new)
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    filled = [_column(frame[name], *new[at]) for at, name in enumerate(there) if at in new]
    return nw.to_native(frame.with_columns(*filled)) if filled else X


def _is_null(value: Any) -> bool:
    return value is None or value != value


def _in_table(
    table: DiscreteTable, gone: Bools, codes: Codes, categories: tuple[Codes, ...], names: tuple[str, ...]
) -> DiscreteTable:
    filled, known = table.codes.astype(np.int64), list(table.categories)
    for n, values in enumerate(categories):
        at = table.index(names[n])
        # keep the table's own categories and append those it lacks
        places, mine = encode_column(values, known[at], names[n])
        fills = codes[gone[:, n], n]
        lacking = np.flatnonzero((places == STRANGE) & np.isin(np.arange(len(values)), fills))
        if lacking.size:
            places[lacking] = len(mine) + np.arange(lacking.size)
            known[at] = np.concatenate([mine, values[lacking]])
        filled[gone[:, n], at] = places[fills]
    return DiscreteTable(filled, tuple(known), table.names)


def _in_matrix(matrix: Codes, gone: Bools, codes: Codes, categories: tuple[Codes, ...]) -> Codes:
    fills = [values[codes[gone[:, n], n]] for n, values in enumerate(categories)]
    filled = matrix.copy()
    for n, values in enumerate(fills):
        if values.size and filled.dtype.kind != "O":
            filled = filled.astype(_wide_enough(filled.dtype, values), copy=False)
        filled[gone[:, n], n] = values
    return filled


def _wide_enough(dtype: Any, values: Codes) -> Any:
    """Return the type itself if it holds the values, else the nearest that holds both."""
    plain = np.array(values.tolist())
    if (dtype.kind in "US") != (plain.dtype.kind in "US") or plain.dtype.kind == "O":
        return np.dtype(object)
    if dtype.kind in "US" or (dtype.kind != "f" and not np.all(plain == np.floor(plain))):
        return np.result_type(dtype, plain)
    limits = None if dtype.kind == "f" else np.iinfo(dtype)
    fits = limits is None or (plain.min() >= limits.min and plain.max() <= limits.max)
    return dtype if fits else np.result_type(dtype, plain)


def _in_pandas(frame: Any, new: dict[int, tuple[Any, Codes]]) -> Any:
    """Fill a pandas-like frame by position, whatever its index and names."""
    filled = frame.copy()
    for at, (rows, values) in new.items():
        column = frame.iloc[:, at].copy()
        if hasattr(column, "cat"):
            lacking = [value for value in dict.fromkeys(values.tolist()) if value not in column.cat.categories]
            column = column.cat.add_categories(lacking)
        try:
            column.iloc[rows] = values
        except (TypeError, ValueError):  # for example numbers in a column that was all null
            column = column.astype(object)
            column.iloc[rows] = values
        filled.isetitem(at, column)
    return filled


def _column(column: Any, rows: Any, values: Codes) -> Any:
    """Fill a polars or pyarrow column."""
    import narwhals as nw
    import pyarrow as pa

    native = nw.to_native(column)
    if isinstance(native, pa.ChunkedArray):
        return nw.from_native(_in_arrow(native, rows, values), series_only=True, allow_series=True).alias(column.name)
    import polars as pl

    given = pl.Series(values.tolist(), dtype=None if native.dtype == pl.Null else native.dtype, strict=False)
    hidden, places = np.zeros(len(native), np.bool_), np.zeros(len(native), np.int64)
    hidden[rows], places[rows] = True, np.arange(rows.size)
    filled = native.cast(given.dtype).zip_with(pl.Series(~hidden), given.gather(places))
    return nw.from_native(filled, series_only=True)


def _in_arrow(column: Any, rows: Any, values: Codes) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    hidden = np.zeros(len(column), np.bool_)
    hidden[rows] = True
    if pa.types.is_dictionary(column.type):
        whole = column.unify_dictionaries().combine_chunks()
        whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
        names = whole.dictionary
        lacking = [value for value in dict.fromkeys(values.tolist()) if value not in set(names.to_pylist())]
        names = pa.concat_arrays([names, pa.array(lacking, names.type)])
        places = pc.index_in(pa.array(values.tolist(), names.type), value_set=names).cast(whole.indices.type)
        indices = pc.replace_with_mask(whole.indices, pa.array(hidden), places)
        return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, names, ordered=column.type.ordered)])
    given = pa.array(values.tolist())
    kind = given.type if pa.types.is_null(column.type) else column.type
    whole = pa.concat_arrays(column.cast(kind).chunks) if column.num_chunks else pa.array([], kind)
    return pa.chunked_array([pc.replace_with_mask(whole, pa.array(hidden), given.cast(kind))])
