"""Files in: one module for each format, one place that decides which it is.

>>> import consilience as cs
>>> annotations = cs.read("labels.csv")  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from consilience import _frames
from consilience._ids import encode, encode_all, numbers_where_all_are, to_column
from consilience.annotations import Annotations, Duplicates, Origin
from consilience.consensus import Consensus
from consilience.exceptions import ColumnError, DataError
from consilience.io.formats import recognise
from consilience.sequence_run import SequenceRun

__all__ = ["load", "read", "read_truth"]


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the word that users know
    item: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    duplicates: Duplicates = "last",
    gold: Any = None,
    encoding: str = "utf-8",
) -> Annotations:
    """Read labels from a file: CSV, TSV, JSON Lines or Parquet, gzipped or not.

    Parameters
    ----------
    path
        The file (or, for Parquet, a folder of files).
    format
        "csv", "tsv", "jsonl" or "parquet" where the name of the file does not tell.
    item, annotator, label
        Names of the columns, where they are not recognised by themselves.
    classes, duplicates, gold
        As for :meth:`consilience.Annotations.from_frame`.
    encoding
        Of a text file.
    """
    given = {"item": item, "annotator": annotator, "label": label}
    place, chosen = Path(path), recognise(path, format)
    names: dict[str, str] = {}

    def pick(columns: list[str]) -> list[str]:
        for role, name in given.items():
            names[role] = _frames.find_column(columns, role, name, place.name)
        if len(set(names.values())) < 3:
            raise ColumnError(f"{place.name}: item, annotator and label must be three different columns, got {names}")
        return list(names.values())

    options: dict[str, Any] = {"classes": classes, "duplicates": duplicates, "gold": gold, "where": place.name}
    coded = chosen.encode(place, pick, encoding)
    if coded is None:
        table = chosen.read(place, pick, encoding)
        if table.num_rows == 0:
            raise DataError(f"{place.name} has no rows: there is nothing to aggregate")
        with _naming(place):
            coded = encode_all(*(to_column(table[name], name) for name in names.values()))
    origin = Origin(names["item"], names["annotator"], names["label"])
    return Annotations.from_codes(*coded, origin=origin, untyped=chosen.untyped, **options)


def read_truth(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - as in read
    item: str | None = None,
    label: str | None = None,
    encoding: str = "utf-8",
    like: Annotations | None = None,
) -> pa.Table:
    """Read known truths: a table with an item and a label column, to be given as ``gold`` or compared with.

    Parameters
    ----------
    path, format, encoding
        As for :func:`read`.
    item, label
        Names of the columns, where they are not recognised by themselves.
    like
        Labels whose own column names are recognised too.
    """
    place, chosen = Path(path), recognise(path, format)
    names: list[str] = []

    def pick(columns: list[str]) -> list[str]:
        origin = like.origin if like is not None else Origin()
        item_name = item or (origin.item if origin.item in columns else None)
        found = _frames.find_column(columns, "item", item_name, place.name)
        label_name = label or (origin.label if origin.label in columns else None)
        names[:] = [found, _frames.find_truth_column(columns, found, label_name, place.name)]
        return list(names)

    table = chosen.read(place, pick, encoding)
    if table.num_rows == 0:
        raise DataError(f"{place.name} has no rows: it names no truth")
    columns = {}
    for role, name in zip(("item", "label"), names, strict=True):
        with _naming(place):
            codes, ids = encode(to_column(table[name], name))
        ids = numbers_where_all_are(ids) if chosen.untyped else ids
        columns[role] = ids.to_arrow().take(pa.array(codes, mask=codes < 0))
    return pa.table(columns)


@contextmanager
def _naming(place: Path) -> Iterator[None]:
    """Put the file's name before what is said of its values."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"{place.name}: {error}") from error


def load(folder: str | os.PathLike[str]) -> Consensus:
    """Read a run that was saved with :meth:`consilience.Consensus.save`."""
    return SequenceRun.load(folder) if SequenceRun.is_saved_in(folder) else Consensus.load(folder)
