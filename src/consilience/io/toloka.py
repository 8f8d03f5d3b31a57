"""Toloka: the TSV file of a pool's assignments, a row for each task that was done.

========== ============================================================================================
item       ``ASSIGNMENT:task_id``; in older files the ``INPUT:`` columns
annotator  ``ASSIGNMENT:worker_id``
label      one ``OUTPUT:`` column
gold       the ``GOLDEN:`` column of the same name
left out   assignments that are rejected, skipped, expired or not submitted; blank rows between suites
========== ============================================================================================
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.frames import no_column
from consilience.exceptions import ColumnError
from consilience.io.export import Export, choose, left_out
from consilience.io.source import Source
from consilience.io.texts import text_column_of

__all__ = ["read"]

_INPUT, _OUTPUT, _GOLDEN = "INPUT:", "OUTPUT:", "GOLDEN:"
_TASK, _WORKER, _STATUS = "ASSIGNMENT:task_id", "ASSIGNMENT:worker_id", "ASSIGNMENT:status"
_TIMES = ("ASSIGNMENT:submitted", "ASSIGNMENT:started")
_REFUSED = ("REJECTED", "SKIPPED", "EXPIRED", "ACTIVE")


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the answers to one question."""
    questions = [name.removeprefix(_OUTPUT) for name in source.names if name.startswith(_OUTPUT)]
    wanted = choose(questions, question and question.removeprefix(_OUTPUT), source.name)
    shown = [name for name in source.names if name.startswith(_INPUT)]
    places = [item] if item else [_TASK] if _TASK in source.names else shown
    if item is not None and item not in source.names:
        raise no_column(item, source.names, source.name)
    if not places or (missing := [name for name in (*places, _WORKER) if name not in source.names]):
        raise ColumnError(f"{source.name} has no column {(missing if places else [_TASK])[0]!r}")
    more = [name for name in (_GOLDEN + wanted, _STATUS) if name in source.names]
    when = [name for name in _TIMES if name in source.names][:1]
    table = source.columns(list(dict.fromkeys([*places, *shown, _WORKER, _OUTPUT + wanted, *more, *when])))
    table = table.filter(pc.or_(table[_WORKER].is_valid(), table[_OUTPUT + wanted].is_valid()))
    refused = np.zeros(table.num_rows, np.bool_)
    if _STATUS in more:
        status = pc.is_in(pc.utf8_upper(table[_STATUS]), value_set=pa.array(_REFUSED))
        refused = np.array(status.combine_chunks().to_numpy(zero_copy_only=False), np.bool_)
    return Export(
        _joined(table, places),
        table[_WORKER].combine_chunks(),
        table[_OUTPUT + wanted].combine_chunks(),
        counts=~refused,
        gold=table[_GOLDEN + wanted].combine_chunks() if _GOLDEN + wanted in more else None,
        names=(places[0] if len(places) == 1 else "INPUT", _WORKER, _OUTPUT + wanted),
        notes=left_out(int(refused.sum()), table.num_rows, "answers", "rejected, skipped, expired or not submitted"),
        untyped=True,
        time=table[when[0]].combine_chunks() if when else None,
        text=text_column_of({name: table[name] for name in shown if name not in places}, _INPUT),
        question=wanted,
    )


def _joined(table: pa.Table, names: list[str]) -> pa.Array:
    if len(names) == 1:
        return table[names[0]].combine_chunks()
    parts = [table[name].combine_chunks().fill_null("") for name in names]
    return pc.binary_join_element_wise(*parts, " | ")
