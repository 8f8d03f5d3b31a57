"""Labels of tokens from files: token tables, CoNLL columns and brat folders.

============ =========================== =========================================================
format       recognised by               holds
============ =========================== =========================================================
token table  as :func:`consilience.read` a row for each label: sequence, position, annotator, label
``"conll"``  .conll, .bio, .iob, or the  a line for each token (:mod:`consilience.io.conll`)
             content
``"brat"``   a folder with .ann files    spans over texts (:mod:`consilience.io.brat`)
============ =========================== =========================================================
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.annotations import Duplicates, Origin
from consilience.data.frames import find_column, find_truth_column
from consilience.data.ids import to_column
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import ColumnError, DataError, FormatError, ParameterError
from consilience.io.documents import expanding_to
from consilience.io.formats import FORMATS, SEQUENCES, check_format, token_format
from consilience.io.source import Source
from consilience.io.tables import naming, read_columns

__all__ = ["read_sequence_truth", "read_sequences"]


def read_sequences(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - as in read
    sequence: str | None = None,
    position: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    duplicates: Duplicates = "last",
    encoding: str = "utf-8",
    max_bytes: int | str | None = None,
) -> SequenceAnnotations:
    """Read labels of tokens: a token table (CSV, TSV, JSON Lines, Parquet), CoNLL columns or a brat folder.

    Parameters
    ----------
    path
        The file, gzipped or not, or the folder.
    format
        "csv", "tsv", "jsonl", "parquet", "conll" or "brat", if it is not recognised.
    sequence, position, annotator, label
        Names of a table's columns, if they are not recognised.
    classes, duplicates
        As for :meth:`consilience.Annotations.from_frame`.
    encoding, max_bytes
        As for :func:`consilience.read`.
    """
    given = {"sequence": sequence, "position": position, "annotator": annotator, "label": label}
    source = Source(Path(path), encoding)
    with expanding_to(max_bytes):
        kind = _recognise(source, format, given)
        if kind in SEQUENCES:
            return _read_tokens(source, kind, classes, duplicates)
        return _read_table(source, kind, given, classes, duplicates)


def _read_table(
    source: Source, kind: str, given: dict[str, str | None], classes: Sequence[Any] | None, duplicates: Duplicates
) -> SequenceAnnotations:
    names: dict[str, str] = {}

    def pick(columns: list[str]) -> list[str]:
        for role, name in given.items():
            names[role] = find_column(columns, role, name, source.name)
        return list(_different(names, source.name).values())

    table = FORMATS[kind].read(source, pick)
    with naming(source.path):
        parts = {role: to_column(table[name], name) for role, name in names.items()}
    return SequenceAnnotations.from_columns(
        **parts,
        classes=classes,
        duplicates=duplicates,
        origin=Origin("token", names["annotator"], names["label"]),
        sequence_column=names["sequence"],
        position_column=names["position"],
        where=source.name,
        untyped=FORMATS[kind].untyped,
    )


def read_sequence_truth(
    path: str | os.PathLike[str],
    *,
    like: SequenceAnnotations,
    format: str | None = None,  # noqa: A002 - as in read
    sequence: str | None = None,
    position: str | None = None,
    label: str | None = None,
    encoding: str = "utf-8",
) -> pa.Table:
    """Read known truths of tokens: a table with a sequence, a position and a label column.

    Parameters
    ----------
    path, format, encoding
        As for :func:`read_sequences`; CoNLL columns and brat folders must have one annotator.
    like
        Labels of the same tokens: their own column names are recognised too, and if both have words, these must be
        the same.
    sequence, position, label
        Names of a table's columns, if they are not recognised.
    """
    source = Source(Path(path), encoding)
    kind = _recognise(source, format, {"sequence": sequence, "position": position, "label": label})
    if kind in SEQUENCES:
        return _single(_read_tokens(source, kind, None, "last"), like, source.name)

    def find(columns: list[str]) -> dict[str, str]:
        names = {}
        for role, name, own in (
            ("sequence", sequence, like.sequence_column),
            ("position", position, like.position_column),
        ):
            names[role] = find_column(columns, role, name or (own if own in columns else None), source.name)
        others = [name for name in columns if name not in names.values()]
        own = like.tokens.origin.label
        names["label"] = find_truth_column(others, "", label or (own if own in others else None), source.name)
        return _different(names, source.name)

    read = read_columns(path, kind, encoding, find, "names no truth")
    return pa.table({role: read.ids(role) for role in read.names})


def _recognise(source: Source, name: str | None, given: dict[str, str | None]) -> str:
    """Return the format: the one named, or by the ending or the content of the file."""
    place = source.path
    check_format(place, name, (*FORMATS, *SEQUENCES), " for sequences")
    columns = {role: column for role, column in given.items() if column is not None}
    found = name or token_format(source, named=bool(columns))
    if found not in FORMATS and columns:
        names = ", ".join(f"{role}={column!r}" for role, column in columns.items())
        raise ParameterError(f"{place.name}: {names} names a column of a table, but the format is {found!r}")
    if place.is_dir() != (found == "brat") and found in SEQUENCES:
        raise FormatError(f"{place.name}: format {found!r} is a {'folder' if found == 'brat' else 'file'}")
    if found is not None:
        return found
    if place.is_dir():
        raise FormatError(f"{place.name} is a folder without .ann files (brat) and without .parquet files")
    endings = [ending for form in (*SEQUENCES.values(), *FORMATS.values()) for ending in form.endings]
    raise FormatError(
        f"{place.name}: format not recognised; looked for the endings {', '.join(endings)} (also with .gz), for CoNLL "
        "columns, and for a brat folder. Say which it is with format='conll' (--format conll)"
    )


def _different(names: dict[str, str], where: str) -> dict[str, str]:
    if len(set(names.values())) < len(names):
        raise ColumnError(f"{where}: {', '.join(names)} must be different columns, got {names}")
    return names


def _read_tokens(
    source: Source, kind: str, classes: Sequence[Any] | None, duplicates: Duplicates
) -> SequenceAnnotations:
    from consilience.io import brat, conll

    return (brat.read if kind == "brat" else conll.read)(source.path, source.encoding, classes, duplicates)


def _single(truth: SequenceAnnotations, like: SequenceAnnotations, where: str) -> pa.Table:
    """Return the labels of the only annotator as truths."""
    a = truth.tokens
    if a.n_annotators != 1:
        raise DataError(
            f"{where} has labels of {a.n_annotators} annotators; expected one: each token has one truth. "
            "Keep only the column or the folder of the truth"
        )
    codes = np.full(truth.n_tokens, -1, np.int32)
    codes[a.item_of_label()] = a.label
    columns = truth.token_columns()
    place, order = columns[truth.sequence_column], columns[truth.position_column]
    token = like.token_of(place, order)
    met = np.flatnonzero(token >= 0)
    if like.words is not None and truth.words is not None:
        ours, theirs = like.words.take(pa.array(token[met])), truth.words.take(pa.array(met))
        other = np.flatnonzero(np.asarray(pc.not_equal(ours, theirs).fill_null(False)))
        if other.size:
            at = int(met[other[0]])
            raise DataError(
                f"{where}: sequence {place[at]}, position {order[at]} is {theirs[int(other[0])].as_py()!r}, but "
                f"{ours[int(other[0])].as_py()!r} among the labels; truth and labels must be of the same text"
            )
    label = a.class_ids.to_arrow().take(pa.array(codes, mask=codes < 0))
    return pa.table({"sequence": place, "position": order, "label": label})
