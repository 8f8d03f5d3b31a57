"""Files in: one module for each format, one place that decides which it is.

>>> import consilience as cs
>>> annotations = cs.read("labels.csv")  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations, Duplicates, Origin
from consilience.data.building import checked_times
from consilience.data.ids import encode, encode_all, numbers_where_all_are, to_column
from consilience.data.times import Times, find_time_column, unknown_time
from consilience.exceptions import ColumnError, DataError, FormatError, ParameterError
from consilience.io import records
from consilience.io.documents import no_collection
from consilience.io.export import annotations_of
from consilience.io.formats import FORMATS, SEQUENCES, Recognised, read_export, recognise, table_format
from consilience.io.source import the_file
from consilience.runs.consensus import Consensus
from consilience.runs.sequence_run import SequenceRun

__all__ = ["Recognised", "load", "read", "read_truth", "recognise"]


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the word that users know
    question: str | None = None,
    item: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    duplicates: Duplicates = "last",
    gold: Any = None,
    encoding: str = "utf-8",
) -> Annotations:
    """Read labels from a file: a table with a row for each label, a matrix, or the export of an annotation tool.

    What kind of file it is is seen from its name and what stands in it; :func:`consilience.recognise` tells.  CoNLL
    columns and brat folders give what :func:`consilience.read_sequences` does.

    Parameters
    ----------
    path
        The file, or the folder (Parquet, doccano, brat); a folder with one file stands for that file.
    format
        What it is, where that is not recognised, or wrongly: "csv", "tsv", "jsonl", "parquet" or "json" for a table
        with a row for each label, "wide" and "snorkel" for matrices, or the name of a tool, such as "label-studio".
    question
        Which question to read, where a file has answers to several.
    item, annotator, label
        Names of the columns, where they are not recognised by themselves.  Of exports, the item can be named.
    classes, duplicates
        As for :meth:`consilience.Annotations.from_frame`.
    gold
        Known truths, as for :meth:`consilience.Annotations.from_frame`; they take the place of those in the file.
    encoding
        Of a text file.
    """
    with no_collection():
        return _read(the_file(path), format, question, item, annotator, label, classes, duplicates, gold, encoding)


def _read(
    place: Path,
    format: str | None,  # noqa: A002 - as in read
    question: str | None,
    item: str | None,
    annotator: str | None,
    label: str | None,
    classes: Sequence[Any] | None,
    duplicates: Duplicates,
    gold: Any,
    encoding: str,
) -> Annotations:
    given = {"item": item, "annotator": annotator, "label": label}
    found = recognise(place, format, encoding=encoding, columns=bool(annotator or label))
    options: dict[str, Any] = {"classes": classes, "duplicates": duplicates, "where": place.name}
    if found.name in FORMATS:
        if question is not None:
            raise ParameterError(
                f"{place.name}: question={question!r} is for exports with several questions, and this is a "
                f"{found.title} ({found.reason}); name its column with label=… (--label …)"
            )
        return _read_table(place, found, given, gold, encoding, options)
    # of an export, the item can be named
    named = [role for role, name in given.items() if name and (role != "item" or found.name in SEQUENCES)]
    if named:
        names = ", ".join(f"{role}={given[role]!r}" for role in named)
        raise ParameterError(f"{place.name}: {names} names a column of a table, but the format is {found.name!r}")
    if found.name in SEQUENCES:
        return _read_tokens(place, found, gold, encoding, classes, duplicates)
    export = read_export(found, item, question)
    roles = zip(("item", "annotator", "label"), export.names, strict=True)
    story = f"{found}; " + ", ".join(f"{role} {name!r}" for role, name in roles)
    return annotations_of(export, gold=gold, read_as=story, **options)


def _read_table(
    place: Path, found: Recognised, given: dict[str, str | None], gold: Any, encoding: str, options: dict[str, Any]
) -> Annotations:
    chosen = FORMATS[found.name]
    names: dict[str, str] = {}
    when: list[str] = []
    time: Times | None = None

    def pick(columns: list[str]) -> list[str]:
        for role, name in given.items():
            names[role] = _frames.find_column(columns, role, name, place.name)
        if len(set(names.values())) < 3:
            raise ColumnError(f"{place.name}: item, annotator and label must be three different columns, got {names}")
        when[:] = filter(None, [find_time_column(columns, list(names.values()))])
        return [*names.values(), *when]

    coded = chosen.encode(place, pick, encoding)
    if coded is None:
        parsed = None if found.source is None else found.source.document
        read_whole = chosen.read if parsed is None else records.of_parsed(parsed)
        table = read_whole(place, pick, encoding)
        if table.num_rows == 0:
            raise DataError(f"{place.name} has no rows: there is nothing to aggregate")
        with _naming(place):
            coded = encode_all(*(to_column(table[name], name) for name in names.values()))
        time = checked_times(table[when[0]], when[0], place.name, asked=False) if when else None
    elif when:
        # only the different times are parsed
        codes, texts = coded.pop()
        known = checked_times(texts.to_arrow(), when[0], place.name, asked=False)
        time = None if known is None else np.append(known, unknown_time(known))[codes]
    story = f"{found}; " + ", ".join(f"{role} {name!r}" for role, name in names.items())
    origin = Origin(names["item"], names["annotator"], names["label"], read_as=story)
    return Annotations.from_codes(*coded, origin=origin, untyped=chosen.untyped, gold=gold, time=time, **options)


def _read_tokens(
    place: Path, found: Recognised, gold: Any, encoding: str, classes: Sequence[Any] | None, duplicates: Duplicates
) -> Annotations:
    from consilience.io.sequences import read_sequences

    if gold is not None:
        raise ParameterError(f"{place.name}: {found.title} have truths for tokens; give them to aggregate as gold=…")
    tokens = read_sequences(place, format=found.name, classes=classes, duplicates=duplicates, encoding=encoding)
    labels = tokens.tokens._with(origin=replace(tokens.tokens.origin, read_as=str(found)))
    tokens = replace(tokens, tokens=labels)
    # of another kind than what is promised: only the file decides, which no type can say
    return cast("Annotations", tokens)


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
    place, chosen = Path(path), table_format(path, format)
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
    except (pa.ArrowException, UnicodeError) as error:
        why = str(error).splitlines()[0]
        raise FormatError(f"cannot read {place.name}: its values are damaged ({why})") from error


def load(folder: str | os.PathLike[str]) -> Consensus:
    """Read a run that was saved with :meth:`consilience.Consensus.save`."""
    return SequenceRun.load(folder) if SequenceRun.is_saved_in(folder) else Consensus.load(folder)
