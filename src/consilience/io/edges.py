"""Edge lists: a row for each pair of items that are neighbours."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from consilience.data.annotations import Annotations
from consilience.data.ids import name_rows
from consilience.exceptions import ColumnError, DataError, IdError
from consilience.io.tables import read_columns

__all__ = ["edge_columns", "read_edges"]

#: Recognised names of the columns.
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
        Labels whose items the edges join: ids that all look like numbers are read as text if the items are text.

    Returns
    -------
    pyarrow.Table
        Columns ``source`` and ``target``, and ``weight`` if the file has one.
    """
    where = Path(path).name

    def find(columns: list[str]) -> dict[str, str]:
        source, target, weight = edge_columns(columns, where)
        return {"source": source, "target": target} | ({} if weight is None else {"weight": weight})

    read = read_columns(path, format, encoding, find, "joins no items")
    as_text = like is not None and pa.types.is_string(like.item_ids.to_arrow().type)
    columns = {}
    for role in ("source", "target"):
        codes, ids = read.coded(role, as_text=as_text)
        rows = np.flatnonzero(codes < 0)
        if rows.size:
            name = read.names[role]
            raise IdError(f"{where} has no item in {name_rows(rows)} (column {name!r}); an edge needs two items")
        columns[role] = ids.to_arrow().take(pa.array(codes))
    if "weight" in read.names:
        name = read.names["weight"]
        weights = read.numbers("weight", f"the weights of edges (column {name!r}) must be numbers")
        rows = np.flatnonzero(np.asarray(weights.is_null()))
        if rows.size:
            raise DataError(f"{where} has no weight in {name_rows(rows)} (column {name!r}); write 1 for a plain edge")
        columns["weight"] = weights.combine_chunks()
    return pa.table(columns)


def edge_columns(columns: Sequence[str], where: str) -> tuple[str, str, str | None]:
    """Return the columns of an edge list: source, target and, if there is one, weight."""
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
