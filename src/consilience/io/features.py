"""Samples with features: a table with a row for each sample and columns of numbers, or a NumPy array."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data import frames
from consilience.exceptions import DataError, FormatError
from consilience.io.formats import table_format
from consilience.kernels._arrays import Floats

__all__ = ["Features", "read_features"]


class Features(NamedTuple):
    """Samples, and what names them."""

    values: Floats  #: (N, D), or (N, D1, D2, …) from an array; NaN if missing
    items: pa.Array  #: names of the samples, or their numbers from 0
    item: str  #: name of the column of names
    names: list[str]  #: names of the features


def read_features(path: str | os.PathLike[str], *, item: str | None = None, encoding: str = "utf-8") -> Features:
    """Read samples from a CSV, TSV, JSON Lines or Parquet table, or from a ``.npy`` file.

    The samples are named by the column ``item``, or one with a usual name (task, item, question, id); all other
    columns must be numbers.
    """
    place = Path(path)
    if place.suffix == ".npy":
        return _array(place)
    source, form = table_format(path, None, encoding)
    table = form.read(source, list)
    usual = [name for name in table.column_names if name.strip().lower() in frames.ALIASES["item"]]
    if item is not None and item not in table.column_names:
        raise DataError(f"{place.name} has no column {item!r}; its columns are {', '.join(table.column_names)}")
    named = item or (usual[0] if usual else None)
    columns = [name for name in table.column_names if name != named]
    if not table.num_rows or not columns:
        raise DataError(f"{place.name} needs rows, and columns of numbers besides the names of samples")
    values = np.column_stack([_numbers(table[name], name, place.name) for name in columns])
    if named is None:
        return Features(values, pa.array(np.arange(len(values))), "item", columns)
    return Features(values, table[named].combine_chunks(), named, columns)


def _array(place: Path) -> Features:
    try:
        values = np.load(place, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise FormatError(f"{place.name} is not a NumPy array of numbers: {error}") from error
    if not isinstance(values, np.ndarray) or values.ndim < 2 or values.dtype.kind not in "biuf":
        raise DataError(f"{place.name} must be an array (samples, features) of numbers")
    names = [f"x{n}" for n in range(int(np.prod(values.shape[1:])))]
    return Features(values.astype(np.float64), pa.array(np.arange(len(values))), "item", names)


def _numbers(column: Any, name: str, where: str) -> Floats:
    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            blank = pc.equal(pc.utf8_trim_whitespace(column), "")
            column = pc.if_else(blank, None, column)
        numbers: Floats = np.asarray(pc.cast(column, pa.float64()).to_numpy(), np.float64)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{where}: column {name!r} is not of numbers ({error}); remove it, or name it as --item if it names samples"
        ) from error
    return numbers
