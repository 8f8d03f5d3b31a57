"""Appen (Figure Eight, CrowdFlower): the CSV file of a full report, a row for each judgment.

========== ============================================================================================
item       ``_unit_id``
annotator  ``_worker_id``
label      the column of one question: one that has a ``…_gold`` column, else one that differs within a unit
gold       the ``…_gold`` column; a unit with several right answers has none
left out   nothing: judgments of contributors whose trust fell too low (``_tainted``) are kept and counted in a note,
           because a model of the annotators weighs them better than leaving them out does
========== ============================================================================================

Places and addresses of contributors (``_city``, ``_ip``, …) are not read.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.frames import no_column
from consilience.data.ids import encode
from consilience.exceptions import ColumnError
from consilience.io.export import SEVERAL, Export, choose, questions_among
from consilience.io.source import Source
from consilience.io.texts import text_name

__all__ = ["read"]

_UNIT, _WORKER, _TAINTED, _GOLD = "_unit_id", "_worker_id", "_tainted", "_gold"
_TIME = "_created_at"


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the answers to one question."""
    place = item or _UNIT
    if item is not None and item not in source.names:
        raise no_column(item, source.names, source.name)
    if missing := [name for name in (place, _WORKER) if name not in source.names]:
        raise ColumnError(f"{source.name} has no column {missing[0]!r}, which full reports have")
    known = [name for name in source.names if name + _GOLD in source.names and not name.startswith("_")]
    if not known:
        others = [
            name
            for name in source.names
            if not name.startswith(("_", "orig_")) and not name.endswith((_GOLD, "_gold_reason")) and name != place
        ]
        given = source.columns([place, *others])
        columns = {name: given[name].combine_chunks() for name in others}
        known = questions_among(encode(given[place].combine_chunks())[0], columns) or others
        known = [question] if question in others and question is not None else known
    wanted = choose(known, question, source.name)
    more = [name for name in (wanted + _GOLD, _TAINTED, _TIME) if name in source.names]
    shown = text_name(name for name in source.names if name not in (place, wanted))
    table = source.columns([place, _WORKER, wanted, *more, *([shown] if shown else [])])
    notes: tuple[str, ...] = ()
    if _TAINTED in more:
        tainted = pc.sum(pc.equal(pc.utf8_lower(table[_TAINTED]), "true")).as_py() or 0
        if tainted:
            notes = (f"{tainted} of {table.num_rows} judgments are of untrusted contributors (_tainted); they count",)
    gold = None
    if wanted + _GOLD in more:
        gold = table[wanted + _GOLD].combine_chunks()
        # each right answer has a line of its own; a unit with several has no single truth
        gold = pc.if_else(pc.match_substring(pc.utf8_trim_whitespace(gold), "\n"), pa.scalar(None, pa.string()), gold)
    return Export(
        table[place].combine_chunks(),
        table[_WORKER].combine_chunks(),
        pc.replace_substring_regex(table[wanted].combine_chunks(), r"\r?\n", SEVERAL),
        gold=gold,
        names=(place, _WORKER, wanted),
        notes=notes,
        untyped=True,
        row="judgment",
        time=table[_TIME].combine_chunks() if _TIME in more else None,
        text=table[shown].combine_chunks() if shown else None,
        question=wanted,
    )
