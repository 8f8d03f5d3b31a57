"""Annotations from any input: annotations, a file, a long frame, a wide frame or a matrix."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any

from consilience.data import frames
from consilience.data.annotations import Annotations
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import ColumnError, DataError, ParameterError
from consilience.io.wide import numbered

__all__ = ["as_annotations"]

#: Rows of a frame that are looked at.
_ROWS = 1000


def as_annotations(data: Any, **reading: Any) -> Annotations:
    """Return annotations as they are; read files, long and wide frames, and matrices.

    ``reading`` holds options of :func:`consilience.read` for a file, or of :meth:`consilience.Annotations.from_frame`.
    """
    data = frames.from_dataset(data)
    if isinstance(data, str | os.PathLike):
        from consilience.io import read

        return as_annotations(read(data, **reading))
    if isinstance(data, SequenceAnnotations):
        raise DataError("these are labels of tokens in order; expected labels of independent items")
    if not frames.is_frame(data):
        if reading:
            option, value = next(iter(reading.items()))
            what = "annotations" if isinstance(data, Annotations) else "a matrix"
            raise ParameterError(f"{option}={value!r} is for frames and files; {what} needs no such option")
        return data if isinstance(data, Annotations) else Annotations.from_matrix(data)
    if set(reading) <= {"item"} and (wide := _wide(data, reading.get("item"))) is not None:
        return wide
    return Annotations.from_frame(data, **reading)


def _wide(frame: Any, item: str | None) -> Annotations | None:
    """Return the labels of a frame with a column for each annotator; None if it has a row for each label.

    The items are in the column named, in one with a usual name, or in the index.  If neither names nor values show what
    the columns are, an error suggests what to say.
    """
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    called = {str(name).strip().lower(): name for name in table.columns}
    if called.keys() & {*frames.ALIASES["annotator"], *frames.ALIASES["label"]}:
        return None
    item = item or next((called[alias] for alias in frames.ALIASES["item"] if alias in called), None)
    if item is not None and item not in table.columns:
        return None
    gold = next((called[name] for name in frames.TRUTHS if name in called and called[name] != item), None)
    votes = table.drop([name for name in (item, gold) if name is not None])
    index, name_of_index, name_of_columns = frames.names_of_wide(frame)
    named = (name_of_index, name_of_columns) != ("item", "annotator")
    if item is not None and table[item].n_unique() < len(table):
        return None
    if not named and not _are_votes(votes):
        if item is not None:
            return None
        raise _unrecognised(table)
    truth = None if gold is None else table[gold].to_numpy()
    if item is None:
        return Annotations.from_matrix(votes.to_native(), items=index, gold=truth)
    made = Annotations.from_matrix(votes.to_native(), items=table[item].to_list(), gold=truth)
    return made._with(origin=replace(made.origin, item=item))


def _are_votes(table: Any) -> bool:
    """Return whether columns are votes: called alike, of values that cannot be ids, or with common values.

    A column of ids, such as the items of a long frame, has many values that no other column has.
    """
    import narwhals as nw

    head = table.head(_ROWS)
    if len(head.columns) == 1 or numbered([str(name) for name in head.columns]):
        return True
    values = [{v for v in column.to_list() if v is not None and v == v} for column in head.iter_columns()]
    kinds = head.schema.values()
    if all(kind == nw.Boolean for kind in kinds) or (
        all(kind.is_float() for kind in kinds) and any(v % 1 for own in values for v in own)
    ):
        return True
    having = Counter(v for own in values for v in own)
    return all(2 * sum(having[v] == 1 for v in own) <= len(own) for own in values)


def _unrecognised(table: Any) -> ColumnError:
    """Return the error for a frame whose columns have unknown names, with a suggestion."""
    columns = [str(name) for name in table.columns]
    head = table.head(_ROWS)
    distinct = [column.n_unique() for column in head.iter_columns()]
    guess = frames.suggested(columns, dict(zip(columns, distinct, strict=True)))
    usual = "; ".join(", ".join(frames.ALIASES[role]) for role in ("item", "annotator", "label"))
    message = (
        f"the columns of the frame, {', '.join(map(repr, columns[:12]))}, have none of the usual names ({usual}). "
    )
    ids = next((name for name, n in zip(table.columns, distinct, strict=True) if n == len(head)), None)
    if ids is not None and _are_votes(table.drop(ids)):
        return ColumnError(
            f"{message}If it has a row for each item in {ids!r}, and the others are annotators, say item={ids!r}"
        )
    if len(guess) == 3:
        said = ", ".join(f"{role}={guess[role]!r}" for role in ("item", "annotator", "label"))
        message += f"If it has a row for each label, say which they are, for example {said}. "
    return ColumnError(f"{message}If all its columns are annotators, use cs.Annotations.from_matrix(frame)")
