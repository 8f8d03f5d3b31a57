"""Costs and capacities: a row for each annotator, with a number."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from consilience.data import frames as _frames
from consilience.data.ids import encode, numbers_where_all_are, to_column
from consilience.exceptions import ColumnError, DataError
from consilience.io.formats import table_format

__all__ = ["read_per_annotator"]


def read_per_annotator(
    path: str | os.PathLike[str], what: str, *, annotator: str | None = None, encoding: str = "utf-8"
) -> pa.Table:
    """Read a number for each annotator: a table with an annotator column and one called ``what``, or any other.

    Parameters
    ----------
    path, encoding
        As for :func:`consilience.read`.
    what
        Name of the column of numbers, such as "cost"; it may have another name if it is the only one.
    annotator
        Name of the annotator column, where it is not recognised by itself.
    """
    place, chosen = Path(path), table_format(path, None)
    names: list[str] = []

    def pick(columns: list[str]) -> list[str]:
        own = annotator if annotator in columns else None
        who = _frames.find_column(columns, "annotator", own, place.name)
        rest = [name for name in columns if name != who]
        found = next((name for name in rest if name.strip().lower() == what), rest[0] if len(rest) == 1 else None)
        if found is None:
            raise ColumnError(f"{place.name} has no column {what!r}; its columns are {', '.join(map(repr, columns))}")
        names[:] = [who, found]
        return list(names)

    table = chosen.read(place, pick, encoding)
    if table.num_rows == 0:
        raise DataError(f"{place.name} has no rows: it names no {what}")
    codes, ids = encode(to_column(table[names[0]], names[0]))
    ids = numbers_where_all_are(ids) if chosen.untyped else ids
    try:
        numbers = pc.cast(table[names[1]], pa.float64())
    except pa.ArrowInvalid as error:
        raise DataError(f"{place.name}: the column {names[1]!r} must hold numbers ({error})") from error
    return pa.table({"annotator": ids.to_arrow().take(pa.array(codes, mask=codes < 0)), what: numbers})
