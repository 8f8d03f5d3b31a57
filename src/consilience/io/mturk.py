"""Amazon Mechanical Turk: the CSV file of a batch's results, a row for each assignment.

========== ============================================================================================
item       ``HITId``; ``item="Input.image_url"`` uses that column instead
annotator  ``WorkerId``
label      one ``Answer.…`` column; of checkboxes, those ticked; of ``Answer.taskAnswers``, one field
left out   assignments with the status Rejected, or with something in the column ``Reject``
========== ============================================================================================
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.frames import no_column
from consilience.exceptions import ColumnError
from consilience.io import answers
from consilience.io.export import Export, choose, left_out
from consilience.io.source import Source
from consilience.io.texts import text_name

__all__ = ["read"]

_ANSWER, _PACKED = "Answer.", "Answer.taskAnswers"
_SIGNS = ("HITId", "WorkerId", "AssignmentStatus")
_TIME = "SubmitTime"


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the answers to one question."""
    place = item or _SIGNS[0]
    if item is not None and item not in source.names:
        raise no_column(item, source.names, source.name)
    if missing := [name for name in (place, *_SIGNS[1:]) if name not in source.names]:
        raise ColumnError(f"{source.name} has no column {missing[0]!r}, which results of Mechanical Turk have")
    asked = [name for name in source.names if name.startswith(_ANSWER)]
    others = [name for name in ("Reject", _TIME) if name in source.names]
    shown = text_name((name for name in source.names if name != place), "Input.")
    table = source.columns([place, *_SIGNS[1:], *asked, *others, *([shown] if shown else [])])
    given = {name.removeprefix(_ANSWER): table[name].combine_chunks() for name in asked if name != _PACKED}
    if _PACKED in asked:
        given |= answers.from_json(table[_PACKED].combine_chunks(), source.name)
    given = answers.with_options_joined(given)
    wanted = choose(list(given), question and question.removeprefix(_ANSWER), source.name)
    rejected = _is(table["AssignmentStatus"], "rejected")
    if "Reject" in others:
        rejected |= np.asarray(table["Reject"].is_valid())
    return Export(
        table[place].combine_chunks(),
        table["WorkerId"].combine_chunks(),
        given[wanted],
        counts=~rejected,
        names=(place, "WorkerId", _ANSWER + wanted),
        notes=left_out(int(rejected.sum()), table.num_rows, "assignments", "rejected"),
        untyped=True,
        time=table[_TIME].combine_chunks() if _TIME in others else None,
        text=table[shown].combine_chunks() if shown else None,
        question=wanted,
    )


def _is(column: pa.ChunkedArray, *words: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(column)), value_set=pa.array(words))
    return np.array(found.combine_chunks().to_numpy(zero_copy_only=False), np.bool_)
