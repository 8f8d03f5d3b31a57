"""Edge lists: a row for each pair of items that are neighbours."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.annotations import Annotations
from consilience.data.ids import encode, name_rows, numbers_where_all_are, to_column
from consilience.exceptions import ColumnError, DataError, IdError
from consilience.io.formats import table_format

__all__ = ["edge_columns", "read_edges"]

#: Names of the columns, the ones that people use.
_SOURCE, _TARGET, _WEIGHT = ("source", "from", "src"), ("target", "to", "dst"), ("weight", "w")


def read_edges(
    path: str | os.PathLike[str],
    *,
    like: Annotations | None = None,
    format: str | None = None,  # noqa: A002 - as in read
    encoding: str = "utf-8",
) -> pa.Table:
    """Read an edge list: CSV, TSV, JSON Lines or Parquet, gzipped or not.

    Parameters
    ----------
    path, format, encoding
        As for :func:`consilience.read`.  The items of an edge are in the columns ``source`` and ``target`` (or ``from``
        and ``to``), else in the only two there are; a column ``weight`` says how strong it is.
    like
        Labels whose items the edges join: ids that all look like numbers are read as text where the items are text.

    Returns
    -------
    pyarrow.Table
        Columns ``source`` and ``target``, and ``weight`` where the file has one.
    """
    place, chosen = Path(path), table_format(path, format)
    names: list[str] = []

    def pick(columns: list[str]) -> list[str]:
        source, target, weight = edge_columns(columns, place.name)
        names[:] = [source, target] if weight is None else [source, target, weight]
        return list(names)

    table = chosen.read(place, pick, encoding)
    if table.num_rows == 0:
        raise DataError(f"{place.name} has no rows: it joins no items")
    text = like is not None and pa.types.is_string(like.item_ids.to_arrow().type)
    columns = {}
    for role, name in zip(("source", "target"), names, strict=False):
        codes, ids = encode(to_column(table[name], name))
        if (codes < 0).any():
            rows = np.flatnonzero(codes < 0)
            raise IdError(f"{place.name} has no item in {name_rows(rows)} (column {name!r}); an edge needs two items")
        ids = numbers_where_all_are(ids) if chosen.untyped and not text else ids
        columns[role] = ids.to_arrow().take(pa.array(codes))
    if len(names) == 3:
        columns["weight"] = _weights(table[names[2]], place, names[2])
    return pa.table(columns)


def edge_columns(columns: Sequence[str], where: str) -> tuple[str, str, str | None]:
    """Find the columns of an edge list: source, target and, where there is one, weight."""
    called = {str(name).strip().lower(): name for name in columns}
    source, target, weight = (
        next((called[name] for name in names if name in called), None) for names in (_SOURCE, _TARGET, _WEIGHT)
    )
    if source is None or target is None:
        others = [name for name in columns if name != weight]
        if len(others) != 2:  # of more than two, any choice would be a guess
            raise ColumnError(
                f"{where} must say which columns join items: call them source and target (or from and to), or leave "
                f"no others but a weight; it has {', '.join(map(repr, columns))}"
            )
        source, target = others
    return source, target, weight


def _weights(column: pa.ChunkedArray, place: Path, name: str) -> pa.Array:
    try:
        weights = pc.cast(column, pa.float64())
    except pa.ArrowInvalid as error:
        raise DataError(f"{place.name}: the weights of edges (column {name!r}) must be numbers: {error}") from error
    if weights.null_count:
        rows = np.flatnonzero(np.asarray(weights.is_null()))
        raise DataError(f"{place.name} has no weight in {name_rows(rows)} (column {name!r}); write 1 for a plain edge")
    return weights.combine_chunks()
