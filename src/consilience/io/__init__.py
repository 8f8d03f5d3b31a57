"""Reading and writing files: one module for each format, and one registry that recognises them.

>>> import consilience as cs
>>> annotations = cs.read("labels.csv")  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from consilience.data.annotations import Annotations, Duplicates, Origin
from consilience.data.building import checked_times
from consilience.data.frames import find_columns, notes_on_columns
from consilience.data.ids import encode_all, to_column
from consilience.data.option_sets import joined_lists
from consilience.data.times import Times, find_time_column, unknown_time
from consilience.data.variants import pooled, variant_columns, with_variants
from consilience.exceptions import ColumnError, DataError, DataWarning, FormatError, ParameterError, warn
from consilience.io.documents import expanding_to, no_collection
from consilience.io.export import ALL, SeveralQuestionsError, annotations_of
from consilience.io.formats import (
    FORMATS,
    SEQUENCES,
    Recognised,
    annotators_of,
    read_export,
    recognise,
    recognise_files,
)
from consilience.io.source import the_file
from consilience.io.tables import naming, read_truth
from consilience.runs.consensus import Consensus

__all__ = ["Recognised", "load", "read", "read_truth", "recognise"]


@no_collection()
def read(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
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
    max_bytes: int | str | None = None,
) -> Annotations:
    """Read labels from a file: a table with a row for each label, a matrix, or the export of an annotation tool.

    The format is recognised by the name and the content of the file; :func:`consilience.recognise` returns it.  CoNLL
    columns and brat folders are read as by :func:`consilience.read_sequences`.

    Parameters
    ----------
    path
        The file, or the folder (Parquet, doccano, brat, logs of evaluations); a folder with one file stands for that
        file.  Logs of several judges may also be a list of files.
    format
        The format, if it is not recognised, or wrongly: "csv", "tsv", "jsonl", "parquet" or "json" for a table
        with a row for each label, "wide" and "snorkel" for matrices, or the name of a tool, such as "label-studio".
    question
        Which question to read, if a file has answers to several.
    item, annotator, label
        Names of the columns, if they are not recognised.  For exports, only the item can be named; and for Label
        Studio's JSON ``annotator`` can be "id", "email", "name" or "username".
    classes, duplicates
        As for :meth:`consilience.Annotations.from_frame`.
    gold
        Known truths, as for :meth:`consilience.Annotations.from_frame`; they replace those in the file.
    encoding
        Of a text file.
    max_bytes
        How large the content of a gzipped file, or a JSON document, may be, as a number or a text such as "20GB"; by
        default a share of the memory.
    """
    given = {"item": item, "annotator": annotator, "label": label}
    with expanding_to(max_bytes):
        if isinstance(path, str | os.PathLike):
            found = _recognised(the_file(path), format, encoding, annotator, label)
        else:
            found = recognise_files(path, format, encoding)
        options: dict[str, Any] = {"classes": classes, "duplicates": duplicates, "gold": gold}
        return _read(found, question, given, options | {"where": found.source.name})


class Questions(NamedTuple):
    """Labels by question."""

    annotations: dict[str, Annotations]
    unsupported: dict[str, str]  #: kind of answer of the questions that cannot be aggregated
    failed: dict[str, str]  #: why the labels of a question cannot be used


@no_collection()
def read_questions(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - as in read
    item: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    duplicates: Duplicates = "last",
    encoding: str = "utf-8",
    max_bytes: int | str | None = None,
) -> Questions:
    """Read the labels of all questions of a file; the parameters are those of :func:`read`."""
    place = the_file(path)
    given = {"item": item, "annotator": annotator, "label": label}
    options: dict[str, Any] = {"classes": None, "duplicates": duplicates, "gold": None, "where": place.name}
    with expanding_to(max_bytes):
        found = _recognised(place, format, encoding, annotator, label)
        try:
            only = _read(found, ALL, given, options)
        except SeveralQuestionsError as several:
            names, unsupported = several.names, several.unsupported
        else:
            origin = getattr(only, "tokens", only).origin  # of tokens in order, too
            return Questions({origin.question or origin.label: only}, {}, {})
        made: dict[str, Annotations] = {}
        failed: dict[str, str] = {}
        for name in names:
            try:
                one = _read(found, name, given, options)
                made[name] = one._with(origin=replace(one.origin, question=name))
            except DataError as error:
                failed[name] = str(error)
    return Questions(made, unsupported, failed)


def _read(
    found: Recognised, question: str | None, given: dict[str, str | None], options: dict[str, Any]
) -> Annotations:
    place = found.source.path
    if found.name in FORMATS:
        if question not in (None, ALL):
            raise ParameterError(
                f"{place.name}: question={question!r} is for exports with several questions, and this is a "
                f"{found.title} ({found.reason}); name its column with label=… (--label …)"
            )
        return _read_table(found, given, options)
    who = annotators_of(found)
    fine: tuple[str, ...] = () if found.name in SEQUENCES else ("item",)
    if who and given["annotator"] is not None:
        if given["annotator"] not in who:
            raise ParameterError(
                f"{place.name}: annotators can be shown by {', '.join(map(repr, who))}, not {given['annotator']!r}"
            )
        fine = ("item", "annotator")
    named = [role for role, name in given.items() if name and role not in fine]
    if named:
        names = ", ".join(f"{role}={given[role]!r}" for role in named)
        raise ParameterError(f"{place.name}: {names} names a column of a table, but the format is {found.name!r}")
    if found.name in SEQUENCES:
        return _read_tokens(found, options["gold"], options["classes"], options["duplicates"])
    export = read_export(found, given["item"], question, given["annotator"])
    return annotations_of(export, read_as=_story(found, dict(zip(given, export.names, strict=True))), **options)


def _recognised(
    place: Path,
    format: str | None,  # noqa: A002 - as in read
    encoding: str,
    annotator: str | None,
    label: str | None,
) -> Recognised:
    """Return the format; columns that are named are those of a table, or what an export shows annotators by."""
    if annotator is not None and label is None and format is None:
        with suppress(FormatError):
            found = recognise(place, encoding=encoding)
            if annotators_of(found):
                return found
    return recognise(place, format, encoding=encoding, columns=bool(annotator or label))


def _story(found: Recognised, names: dict[str, str]) -> str:
    return f"{found}; " + ", ".join(f"{role} {name!r}" for role, name in names.items())


def _read_table(found: Recognised, given: dict[str, str | None], options: dict[str, Any]) -> Annotations:
    source, chosen = found.source, FORMATS[found.name]
    names: dict[str, str] = {}
    when: list[str] = []
    apart: list[str] = []
    notes: list[str] = []
    time: Times | None = None

    def pick(columns: list[str]) -> list[str]:
        names.update(find_columns(columns, given, source.name))
        if len(set(names.values())) < 3:
            raise ColumnError(f"{source.name}: item, annotator and label must be three different columns, got {names}")
        notes[:] = notes_on_columns(columns, given, names)
        for note in notes:
            warn(f"{source.name}: {note}", DataWarning)
        when[:] = filter(None, [find_time_column(columns, list(names.values()))])
        apart[:] = variant_columns(columns, names["annotator"])
        return [*names.values(), *apart, *when]

    coded = None
    if chosen.untyped:
        from consilience.io.delimited import encode

        coded = encode(source, pick, *chosen.arguments)
    if coded is None:
        table = chosen.read(source, pick)
        if table.num_rows == 0:
            raise DataError(f"{source.name} has no rows: there is nothing to aggregate")
        with naming(source.path):
            columns = {
                role: joined_lists(table[name]) if role == "label" else table[name] for role, name in names.items()
            }
            more = (to_column(table[name], name) for name in apart)
            coded = encode_all(*(to_column(column, names[role]) for role, column in columns.items()), *more)
        time = checked_times(table[when[0]], when[0], source.name, asked=False) if when else None
    elif when:
        # only the distinct times are parsed
        codes, texts = coded.pop()
        known = checked_times(texts.to_arrow(), when[0], source.name, asked=False)
        time = None if known is None else np.append(known, unknown_time(known))[codes]
    origin = Origin(names["item"], names["annotator"], names["label"], None, tuple(notes), _story(found, names))
    rows, who, said, *others = coded
    who, judges = with_variants(rows[0], who, others)
    made = Annotations.from_codes(rows, who, said, origin=origin, untyped=chosen.untyped, time=time, **options)
    return pooled(made, judges) if judges else made


def _read_tokens(found: Recognised, gold: Any, classes: Sequence[Any] | None, duplicates: Duplicates) -> Annotations:
    from consilience.io.sequences import read_sequences

    source = found.source
    if gold is not None:
        raise ParameterError(f"{source.name}: {found.title} have truths for tokens; give them to aggregate as gold=…")
    tokens = read_sequences(
        source.path, format=found.name, classes=classes, duplicates=duplicates, encoding=source.encoding
    )
    labels = tokens.tokens._with(origin=replace(tokens.tokens.origin, read_as=str(found)))
    # not annotations but their counterpart for sequences: only the file decides, which no type can express
    return cast("Annotations", replace(tokens, tokens=labels))


def load(folder: str | os.PathLike[str]) -> Consensus:
    """Read a run that was saved with :meth:`consilience.Consensus.save`."""
    from consilience.runs.loading import load_run
    from consilience.runs.question_runs import QuestionRuns

    if QuestionRuns.is_saved_in(folder):
        raise FormatError(
            f"{folder} holds runs of several questions; load one, from its folder inside, or all with QuestionRuns.load"
        )
    with suppress(OSError, UnicodeDecodeError):
        if '"consilience.Ranking"' in (Path(folder) / "summary.json").read_text("utf-8"):
            raise FormatError(f"{folder} holds a ranking; load it with cs.Ranking.load")
    return load_run(folder)
