"""What is read from the export of an annotation tool: rows of item, annotator and label, and known truths.

Every module of a tool's format returns an :class:`Export`; :func:`annotations_of` converts it to annotations.

=============== ==================================================================== =========================
name            meaning                                                              shape
=============== ==================================================================== =========================
``item``        what was labelled, in every row                                      (rows,), or codes and ids
``annotator``   who labelled it                                                      (rows,), or codes and ids
``label``       the label; null if there is none                                     (rows,), or codes and ids
``counts``      which rows are labels: cancelled work and known truths are not       (rows,) bool, None for all
``gold``        the truth of the row's item, if the file has it                      (rows,), or None
``time``        when it was labelled, if the file has it                             (rows,), or None
``text``        what the item shows, if the file has it                              (rows,), or None
=============== ==================================================================== =========================

The item of a row that does not count is kept, without that label.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.annotations import Annotations, Duplicates, Origin
from consilience.data.building import checked_times
from consilience.data.ids import Ids, encode, name_rows, numbers_where_all_are
from consilience.data.sequences import SequenceAnnotations
from consilience.data.texts import first_texts
from consilience.data.variants import pooled
from consilience.exceptions import (
    ColumnError,
    DataError,
    DataWarning,
    FormatError,
    IdError,
    ParameterError,
    did_you_mean,
    warn,
)
from consilience.kernels._arrays import Bools, Codes, Ints

__all__ = [
    "ALL",
    "ORDERS",
    "SEVERAL",
    "Coded",
    "Export",
    "SeveralQuestionsError",
    "annotations_of",
    "assemble",
    "choose",
    "column_of",
    "columns_of",
    "joined",
    "left_out",
    "numbered",
    "questions_among",
    "refuse_question",
    "seconds_column",
    "text_column",
    "time_column",
]

#: A column as codes, -1 where missing, and the names behind them.
Coded = tuple[Codes, Ids]

#: Separates the choices of an answer that names several, as in the results of Mechanical Turk.
SEVERAL = "|"

#: Kinds of question whose answer is an order of items.
ORDERS = frozenset(("ranker", "ranking"))

#: The name that stands for all questions of a file.
ALL = "all"

#: Whole numbers up to here are the same as decimals.
_EXACT = 1 << 53


@dataclass(frozen=True)
class Export:
    """Rows of an export; the shapes are in the table of :mod:`consilience.io.export`."""

    item: pa.Array | Coded
    annotator: pa.Array | Coded
    label: pa.Array | Coded
    counts: Bools | None = None
    gold: pa.Array | None = None
    names: tuple[str, str, str] = ("item", "annotator", "label")  #: what the file calls them
    notes: tuple[str, ...] = ()  #: what was left out and why
    untyped: bool = False  #: text without types: numbers are found afterwards
    row: str = "row"  #: what the file has one of for each label
    time: pa.Array | None = None
    text: pa.Array | None = None
    question: str = ""  #: the name of the question, if the file has one
    answers: str = ""  #: the kind of its answers, if the file says it
    variants: Mapping[str, str] | None = None  #: the judge of annotators that are one of its variants


def annotations_of(
    export: Export,
    *,
    classes: Sequence[Any] | None,
    duplicates: Duplicates,
    gold: Any,
    where: str,
    read_as: str = "",
) -> Annotations:
    """Return the annotations of an export; ``gold``, if given, replaces the truths in the file."""
    item_code, items = _coded(export.item)
    if not item_code.size and not len(items):
        raise DataError(f"{where} has no {export.row}s: there is nothing to aggregate")
    counts = np.ones(item_code.size, np.bool_) if export.counts is None else export.counts
    annotator_code, annotators = _of_those(export.annotator, counts)
    label_code, labels = _of_those(export.label, counts)
    _check_ids(item_code, counts, annotator_code, export, where)
    notes = list(export.notes)
    truth: tuple[Ints, Codes] | None = None
    if export.gold is not None:
        gold_code, gold_ids = encode(export.gold)
        labels, gold_code = _joined_vocabulary(labels, gold_ids, gold_code)
        truth, contradicted = _settled(item_code, gold_code, len(items))
        if contradicted:
            notes.append(f"{contradicted} items have several different truths in the file, and so none")
    if not label_code.size:
        raise DataError(f"{where} has no label that counts: {'; '.join(notes) or f'there is no {export.row} in it'}")
    for note in notes:
        warn(f"{where}: {note}", DataWarning)
    texts = None
    if export.text is not None and pa.types.is_string(export.text.type):
        texts = first_texts(item_code, export.text, numbers_where_all_are(items) if export.untyped else items)
    about = {"question": export.question, "answers": export.answers}
    origin = Origin(*export.names, notes=tuple(notes), read_as=read_as, texts=texts, **about)
    made = Annotations.from_codes(
        (item_code[counts], items),
        (annotator_code, annotators),
        (label_code, labels),
        classes=classes,
        duplicates=duplicates,
        origin=origin,
        where=where,
        untyped=export.untyped,
        time=None
        if export.time is None
        else checked_times(export.time.filter(pa.array(counts)), "time", where, asked=False),
    )
    if export.variants:
        made = pooled(made, export.variants)
    if gold is not None:
        return made.with_gold(gold)
    if truth is None or not truth[0].size:
        return made
    at, said = truth
    if export.untyped:
        labels = numbers_where_all_are(labels)
    return made.with_gold(pa.table({"item": made.item_ids.take(at).to_arrow(), "label": labels.take(said).to_arrow()}))


def _coded(column: pa.Array | Coded) -> Coded:
    return column if isinstance(column, tuple) else encode(column)


def _of_those(column: pa.Array | Coded, counts: Bools) -> Coded:
    """Code the rows that count; ids without such a row are not in the vocabulary."""
    if isinstance(column, tuple):
        return column[0][counts], column[1]
    return encode(column if counts.all() else column.filter(pa.array(counts)))


def _check_ids(item: Codes, counts: Bools, annotator: Codes, export: Export, where: str) -> None:
    of_annotator = np.zeros(item.size, np.int32)
    of_annotator[counts] = annotator
    for role, codes, name in (("item", item, export.names[0]), ("annotator", of_annotator, export.names[1])):
        rows = np.flatnonzero((codes < 0) & counts)
        if rows.size:
            raise IdError(
                f"{where} has no {role} in {name_rows(rows).replace('row', export.row, 1)} ({name!r}); "
                "fill the id in or remove it: a label without it cannot be used"
            )


def _joined_vocabulary(labels: Ids, gold: Ids, codes: Codes) -> tuple[Ids, Codes]:
    """Add the truths that nobody gave as a label; return all names, and the codes of the truths among them."""
    names, truths = labels.to_arrow(), gold.to_arrow()
    if names.type != truths.type:
        names, truths = text_column(names), text_column(truths)
    found = np.asarray(pc.index_in(truths, value_set=names).fill_null(-1), np.int64)
    new = np.flatnonzero(found < 0)
    found[new] = len(names) + np.arange(new.size)
    whole = pa.concat_arrays([names, truths.take(pa.array(new))]) if new.size else names
    return Ids(whole), np.append(found, -1)[codes].astype(np.int32)


def _settled(item: Codes, gold: Codes, n: int) -> tuple[tuple[Ints, Codes], int]:
    """Return the items that have one truth, these truths, and how many items have several."""
    known = np.flatnonzero((gold >= 0) & (item >= 0))
    pairs = np.unique(item[known].astype(np.int64) << 32 | gold[known])
    at, said = pairs >> 32, (pairs & 0xFFFFFFFF).astype(np.int32)
    times = np.bincount(at, minlength=n) if at.size else np.zeros(n, np.int64)
    one = times[at] == 1
    return (at[one], said[one]), int((times > 1).sum())


def left_out(count: int, total: int, rows: str, why: str) -> tuple[str, ...]:
    """Return a note on how many rows do not count, and why; nothing if all do."""
    return (f"{count} of {total} {rows} were left out: {why}",) if count else ()


def assemble(
    *,
    sequences: Ids,
    lengths: Ints,
    words: pa.Array,
    token: Ints,
    annotator: tuple[Ints, Ids],
    label: tuple[Codes, Ids],
    classes: Sequence[Any] | None,
    duplicates: Duplicates,
    where: str,
    untyped: bool = False,
    notes: tuple[str, ...] = (),
) -> SequenceAnnotations:
    """Return sequences from N tokens in order and labels by number of token; the shared last step of token formats."""
    N = len(words)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = Annotations.from_codes(
        (token.astype(np.int32), Ids.range(N)),
        (annotator[0].astype(np.int32), annotator[1]),
        label,
        classes=classes,
        duplicates=duplicates,
        origin=Origin("token", notes=notes),
        where=where,
        untyped=untyped,
    )
    position = (np.arange(N) - np.repeat(indptr[:-1], lengths)).astype(np.int32)
    return SequenceAnnotations(tokens, indptr, sequences, position, Ids.range(int(lengths.max())), words)


# ---- questions --------------------------------------------------------------------------------------------------


class SeveralQuestionsError(ColumnError):
    """A file has answers to several questions, and one has to be chosen."""

    def __init__(self, message: str, names: Sequence[str], unsupported: Mapping[str, str]) -> None:
        super().__init__(message)
        self.names, self.unsupported = tuple(names), dict(unsupported)


def choose(
    names: Sequence[str],
    wanted: str | None,
    where: str,
    unsupported: Mapping[str, str] = MappingProxyType({}),
    *,
    what: str = "aggregated",
) -> str:
    """Return the question wanted, or the only one; otherwise an error lists them.

    The beginning or the end of its name, up to a dot, a slash or a colon, is enough.  :data:`ALL` chooses none: the
    error lists even one.  ``unsupported`` has the kind of answer of the questions that cannot be ``what``.
    """
    listed = ", ".join(map(repr, names[:12])) + (f", … ({len(names)} in all)" if len(names) > 12 else "")
    kinds = ", ".join(f"{name!r} ({kind})" for name, kind in [*unsupported.items()][:12])
    if not names:
        asked = f"; its questions are {kinds}" if kinds else ""
        raise DataError(f"{where} has no question that can be {what}{asked}{_advice(unsupported)}")
    if wanted is None or (wanted == ALL and ALL not in names):
        if len(names) > 1 or wanted == ALL:
            message = f"{where} has answers to several questions: {listed}. Say which to read with question=… "
            message += "(--question …)" + (", or aggregate all with --question all" if what == "aggregated" else "")
            message += f". Not supported: {kinds}" if kinds else ""
            raise SeveralQuestionsError(message, names, unsupported)
        return names[0]
    if wanted in names:
        return wanted
    if wanted in unsupported:
        raise ColumnError(
            f"{where}: the answers to {wanted!r} are of type {unsupported[wanted]!r}, which is not supported; "
            f"the questions that can be {what} are {listed}{_advice({wanted: unsupported[wanted]})}"
        )
    ends = ".", ":", "/"
    near = [
        name for name in names if any(name.startswith(wanted + mark) or name.endswith(mark + wanted) for mark in ends)
    ]
    if len(near) == 1:
        return near[0]
    raise ColumnError(f"{where} has no question {wanted!r}{did_you_mean(wanted, names, f'Its questions are {listed}')}")


def _advice(unsupported: Mapping[str, str]) -> str:
    """Return what to do about questions that ask for an order."""
    return ". cs.rank (consilience rank) ranks the items" if {*unsupported.values()} & ORDERS else ""


def questions_among(item: Codes, columns: dict[str, pa.Array]) -> list[str]:
    """Return the columns that are answers, if the file does not say so; the others describe the item.

    What describes an item is the same in all its rows, so a column that differs within an item is an answer.  If
    none does, columns with fewer values than items are taken.
    """
    n = int(item.max()) + 1 if item.size else 0
    varying, few = [], []
    for name, column in columns.items():
        codes, ids = encode(column)
        said = np.flatnonzero((codes >= 0) & (item >= 0))
        one = np.full(n, -1, np.int32)
        one[item[said]] = codes[said]
        if (one[item[said]] != codes[said]).any():
            varying.append(name)
        elif said.size and (len(ids) < (one >= 0).sum() or n == 1):
            few.append(name)
    return varying or few


# ---- values -----------------------------------------------------------------------------------------------------


def joined(choices: Iterable[Any]) -> str | None:
    """Return several choices as one label, sorted; None if there are none."""
    names = sorted({_as_text(choice) for choice in choices if choice is not None})
    return SEVERAL.join(names) if names else None


def column_of(values: list[Any], what: str, where: str) -> pa.Array:
    """Return JSON values as a column: numbers if all are, text otherwise; NaN and null are missing."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds & {list, dict}:
        row = next(n for n, value in enumerate(values) if isinstance(value, list | dict))
        raise IdError(f"{where}: {what} {row + 1} is {str(values[row])[:60]!r}; expected a text or a number")
    try:
        if kinds <= {str} or kinds <= {bool} or kinds <= {int}:
            return pa.array(values, pa.string() if not kinds or kinds == {str} else None)
        if kinds <= {int, float} and all(abs(v) <= _EXACT for v in values if type(v) is int):
            numbers = pa.array([None if v is None else float(v) for v in values], pa.float64())
            return pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))
        return pa.array([None if v is None or v != v else _as_text(v) for v in values], pa.string())
    except OverflowError:
        return pa.array([None if v is None else _as_text(v) for v in values], pa.string())
    except UnicodeEncodeError as error:
        raise FormatError(f"{where}: a {what} has half a character in it ({error.reason})") from error


def columns_of(rows: Sequence[tuple[Any, ...]], names: Sequence[str], where: str) -> list[pa.Array]:
    """Return a column for each place of the rows."""
    return [column_of([row[place] for row in rows], name, where) for place, name in enumerate(names)]


def text_column(column: pa.Array) -> pa.Array:
    """Return a column as text, decimals as Python writes them."""
    if pa.types.is_string(column.type):
        return column
    return pa.array([None if v is None else _as_text(v) for v in column.to_pylist()], pa.string())


def time_column(values: Iterable[Any]) -> pa.Array:
    """Return dates as a column of text; values that are not ASCII text are missing."""
    return pa.array([v if type(v) is str and v.isascii() else None for v in values], pa.string())


def seconds_column(values: Iterable[Any]) -> pa.Array:
    """Return times in seconds as a column; other values are missing."""
    return pa.array([float(v) if type(v) in (int, float) and 0 <= v < _EXACT else None for v in values], pa.float64())


def numbered(keys: list[str], where: str) -> Coded:
    """Code the keys of a JSON object, which have no type: numbers if all of them are."""
    codes, ids = encode(column_of(keys, "key", where))
    return codes, numbers_where_all_are(ids) if pa.types.is_string(ids.to_arrow().type) else ids


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    try:
        return str(value)
    except ValueError:  # a whole number of thousands of digits
        return hex(value)


def refuse_question(question: str | None, where: str, what: str) -> None:
    """Raise when a question is named for a format that has only one."""
    if question not in (None, ALL):
        raise ParameterError(f"{where}: question={question!r} is for exports with several questions; {what} has one")
