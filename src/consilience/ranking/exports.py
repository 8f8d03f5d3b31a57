"""Comparisons in exports of annotation tools: Label Studio's pairwise and ranker controls, Argilla's ranking questions.

=========== ============================================= ====================================================
format      Label Studio (``label-studio``)               Argilla (``argilla``)
=========== ============================================= ====================================================
left, right pairwise: two fields of ``data``; ranker: the the values that the question ranks; if ``metadata``
            ids of the list, those shown first are left   has ``<value>`` or ``<value>_model``, that name
judge       ``completed_by``                              the user
winner      ``selected``, or the order of the ids         ``rank``; equal ranks are a tie
task        ``id`` of the task                            ``id`` of the record
left out    cancelled or skipped work, ground truth       responses that are discarded or drafts
=========== ============================================= ====================================================

An order of n items has n (n - 1) / 2 comparisons, each of weight 3 / (n + 1), for they are not independent: among equal
items, the number of items that one is ranked above is uniform from 0 to n - 1, with variance (n² - 1) / 12.  Were
comparisons independent it would be (n - 1) / 4, smaller by the factor 3 / (n + 1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from consilience.exceptions import ColumnError, DataError
from consilience.io import argilla, label_studio
from consilience.io.export import choose, left_out
from consilience.io.label_studio import PAIRWISE, annotations_in, annotator_of, results_of
from consilience.io.source import Source

__all__ = ["READERS", "Row", "Rows"]

_RANKER, _ORIGINAL = "ranker", "_"
#: Names of two fields that differ in their ends only.
_ENDS = (("1", "2"), ("a", "b"), ("A", "B"), ("left", "right"))
_USUAL = (("left", "right"), ("model_a", "model_b"), ("model_1", "model_2"), ("item_a", "item_b"))


class Row(NamedTuple):
    """A comparison."""

    left: Any
    right: Any
    worker: Any
    winner: str | None
    task: Any
    left_length: int | None = None
    right_length: int | None = None
    weight: float = 1.0  #: how much it counts


class Rows(NamedTuple):
    """Comparisons, and what was left out."""

    rows: list[Row]
    notes: tuple[str, ...]


def label_studio_rows(source: Source, given: Mapping[str, str | None], question: str | None) -> Rows:
    """Read the comparisons of one control."""
    every = [(task, made) for task in source.records() for made in annotations_in(task, source.name)]
    counts = [pair for pair in every if not _is_dropped(pair[1])]
    results = [(task, made, result) for task, made in counts for result in results_of(made)]
    kinds = {str(result.get("from_name")): str(result.get("type")) for _, _, result in results}
    asked = [name for name, kind in kinds.items() if kind in (PAIRWISE, _RANKER)]
    others = {name: kind for name, kind in kinds.items() if name not in asked}
    wanted = choose(asked, question, source.name, others, what="ranked")
    answers = [(task, made, result) for task, made, result in results if result.get("from_name") == wanted]
    rows: list[Row] = []
    sides = _sides(answers, given, source.name) if kinds[wanted] == PAIRWISE else None
    for task, made, result in answers:
        value = result.get("value")
        value, data = (each if isinstance(each, dict) else {} for each in (value, task.get("data")))
        who = annotator_of(made.get("completed_by")), task.get("id")
        if sides is not None:
            said = value.get("selected")
            rows.append(Row(data.get(sides[0]), data.get(sides[1]), who[0], said if said else None, who[1]))
            continue
        order = _order(value.get(_RANKER), f"{source.name}: the ranker {wanted!r}")
        ranks = {name: place for place, name in enumerate(order)}
        rows += _compared(ranks, _shown(data, ranks), *who)
    dropped = left_out(len(every) - len(counts), len(every), "annotations", "cancelled, skipped or ground truth")
    return Rows(rows, dropped)


def _is_dropped(made: Mapping[str, Any]) -> bool:
    return any(made.get(state) for state in ("was_cancelled", "skipped", "ground_truth"))


def _sides(answers: list[Any], given: Mapping[str, str | None], where: str) -> tuple[str, str]:
    """Return the fields of ``data`` with the left and the right item."""
    known = [task.get("data") for task, _, _ in answers]
    fields = {name for data in known if isinstance(data, dict) for name in data}
    listed = ", ".join(map(repr, sorted(fields)))
    for name in filter(None, (given.get("left"), given.get("right"))):
        if name not in fields:
            raise ColumnError(f"{where}: 'data' has no field {name!r}; its fields are {listed}")
    left, right = given.get("left"), given.get("right")
    if left and right:
        return left, right
    named = str(answers[0][2].get("to_name")).split(",")
    alike = [
        (name, name.removesuffix(one) + two)
        for name in sorted(fields)
        for one, two in _ENDS
        if re.search(rf"{one}$", name) and name.removesuffix(one) + two in fields
    ]
    candidates = [*_USUAL, tuple(part.strip() for part in named), *(alike if len(alike) == 1 else [])]
    for pair in candidates:
        if len(pair) == 2 and fields.issuperset(pair):
            return pair[0], pair[1]
    raise ColumnError(
        f"{where}: it is not clear which fields of 'data' hold the two items (its fields are {listed}); say so with "
        "left=…, right=… (--left …, --right …), best with fields that name models or authors"
    )


def _order(value: Any, what: str) -> list[Any]:
    """Return ids from best to worst."""
    if isinstance(value, list):
        return [name for name in value if isinstance(name, str | int)]
    columns = value if isinstance(value, dict) else {}
    named = [name for name in columns if name != _ORIGINAL] or list(columns)
    if len(named) > 1:
        raise DataError(
            f"{what} sorts items into {', '.join(map(repr, named))}, which are in no order: nothing says which is best"
        )
    return _order(columns[named[0]], what) if named and isinstance(columns[named[0]], list) else []


def _shown(data: Mapping[str, Any], ranks: Mapping[Any, Any]) -> list[Any]:
    """Return the ids that were ranked in the order in which they were shown, or by name if it is not known."""
    for value in data.values():
        listed = value if isinstance(value, list) else []
        ids = [one.get("id") if isinstance(one, dict) else one for one in listed]
        hashable = [name for name in ids if isinstance(name, str | int)]
        if {*ranks}.issubset(hashable):
            return [name for name in hashable if name in ranks]
    return sorted(ranks, key=str)


def argilla_rows(source: Source, given: Mapping[str, str | None], question: str | None) -> Rows:
    """Read the comparisons of one ranking question."""
    _, records = argilla.rankings(source, question)
    rows: list[Row] = []
    total = dropped = 0
    for record, responses in records:
        total += len(responses)
        for user, said, status in responses:
            if status in argilla.DROPPED:
                dropped += 1
                continue
            ranks = dict(_ranks(said))
            names = {value: _name(record, value) for value in ranks}
            made = _compared(ranks, sorted(ranks, key=str), user, record.get("id"))
            rows += (row._replace(left=names[row.left], right=names[row.right]) for row in made)
    return Rows(rows, left_out(dropped, total, "responses", "discarded or draft"))


def _ranks(said: Any) -> Iterator[tuple[Any, int]]:
    for place, one in enumerate(said if isinstance(said, list) else (), 1):
        if isinstance(one, str):
            yield one, place
        elif isinstance(one, dict) and isinstance(one.get("rank"), int) and isinstance(one.get("value"), str | int):
            yield one["value"], one["rank"]


def _name(record: Mapping[str, Any], value: Any) -> Any:
    """Return what a value stands for, if the metadata of the record say so."""
    metadata = record.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    found = (known.get(f"{value}{end}") for end in ("", "_model"))
    return next((name for name in found if isinstance(name, str | int)), value)


def _compared(ranks: Mapping[Any, int], shown: Iterable[Any], judge: Any, task: Any) -> Iterator[Row]:
    """Yield the comparisons of an order: ranks count from the best, those that were shown first are left."""
    weight = 3.0 / (len(ranks) + 1)
    for one, two in combinations(shown, 2):
        apart = ranks[two] - ranks[one]
        winner = "left" if apart > 0 else "right" if apart < 0 else "tie"
        yield Row(one, two, judge, winner, task, weight=weight)


#: How each tool's exports are recognised and read.
READERS = {
    "label-studio": (label_studio.recognise, label_studio_rows),
    "argilla": (argilla.recognise, argilla_rows),
}
