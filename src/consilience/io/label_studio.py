"""Label Studio, JSON: a list of tasks, each with what its annotators made of it.

::

    [{"id": 1, "data": {"text": "…"},
      "annotations": [{"completed_by": 10, "was_cancelled": false, "ground_truth": false,
                       "result": [{"from_name": "topic", "to_name": "text", "type": "choices",
                                   "value": {"choices": ["animal"]}}]}],
      "predictions": […]}]

========== ============================================================================================
item       ``id`` of the task
annotator  ``completed_by``, a number or an object; of the object its ``id``, or ``email`` where there is no other
label      the value of one control (``from_name``): choices, rating, number, pairwise or taxonomy
gold       the same, of annotations with ``ground_truth``; they are not labels as well
left out   annotations with ``was_cancelled`` or ``skipped``, predictions, drafts, and regions
========== ============================================================================================

Several choices in one answer are one label, joined by ``|``.  :mod:`consilience.io.label_studio_flat` reads JSON-MIN
and CSV.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from consilience.exceptions import DataError, FormatError
from consilience.io.export import Export, choose, column_of, joined, left_out
from consilience.io.source import Source

__all__ = [
    "KINDS",
    "SHAPES",
    "Control",
    "annotations_in",
    "controls_of",
    "label_of",
    "read",
    "recognise",
    "values_by_label",
]

SHAPES = ("records", "object")

#: Kinds of control that say something of the whole item, and the key of their value.
KINDS = {
    "choices": "choices",
    "rating": "rating",
    "number": "number",
    "pairwise": "selected",
    "taxonomy": "taxonomy",
}
#: A value with one of these is of a region, not of the whole item.
_PLACES = frozenset(("start", "end", "x", "y", "points", "rle", "globalOffsets", "startOffset", "ranges"))


class Control(NamedTuple):
    """A question of the labelling interface."""

    from_name: str
    to_name: str
    kind: str


def recognise(source: Source) -> str | None:
    """Say why this is such an export, or None."""
    first = source.sample[:1]
    if first and isinstance(first[0].get("data"), dict):
        key = next((key for key in ("annotations", "completions") if isinstance(first[0].get(key), list)), None)
        if key is not None:
            return f"JSON with tasks that have 'data' and {key!r}"
    return None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the answers to one question."""
    tasks = list(source.records())
    found = [(task.get("id"), made) for task in tasks for made in (annotations_in(task, source.name) or (None,))]
    controls = controls_of((made for _, made in found if made is not None), source.name)
    wanted = choose(list(controls), question, source.name, _regions(found))
    rows: list[tuple[Any, Any, Any, bool, bool]] = []
    for task, made in found:
        if made is None:
            rows.append((task, None, None, False, False))
        else:
            dropped = bool(made.get("was_cancelled") or made.get("skipped"))
            label = None if dropped else label_of(made, wanted)
            rows.append((task, _annotator(made.get("completed_by")), label, dropped, bool(made.get("ground_truth"))))
    items, annotators, labels, cancelled, truth = (list(part) for part in zip(*rows, strict=True))
    dropped_rows, gold_rows = np.array(cancelled), np.array(truth)
    empty = np.array([made is None for _, made in found])
    gold_rows &= ~dropped_rows
    answers = column_of(labels, "label", source.name)
    n = int((~empty).sum())
    notes = (
        *left_out(int(dropped_rows.sum()), n, "annotations", "cancelled or skipped"),
        *left_out(int(gold_rows.sum()), n, "annotations", "ground truth, taken as gold"),
    )
    gold = None
    if gold_rows.any():
        gold = column_of([said if g else None for said, g in zip(labels, gold_rows, strict=True)], "label", source.name)
    return Export(
        column_of(items, "id of task", source.name),
        column_of(annotators, "completed_by", source.name),
        answers,
        counts=~(dropped_rows | gold_rows | empty),
        gold=gold,
        names=("id", "completed_by", wanted),
        notes=notes,
        row="annotation",
    )


def annotations_in(task: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Give the annotations of a task."""
    made = task.get("annotations", task.get("completions"))
    if made is None:
        return []
    if not isinstance(made, list) or not all(isinstance(one, dict) for one in made):
        raise FormatError(f"{where}: the annotations of task {task.get('id')!r} are not a list of objects")
    return made


def _annotator(completed_by: Any) -> Any:
    """Give the id of an annotator; a name or an email is left where it is if there is one."""
    if not isinstance(completed_by, dict):
        return None if isinstance(completed_by, list) else completed_by
    for key in ("id", "email", "username"):
        if isinstance(completed_by.get(key), str | int):
            return completed_by[key]
    return None


def _results(made: dict[str, Any]) -> Iterable[dict[str, Any]]:
    results = made.get("result")
    return (one for one in results if isinstance(one, dict)) if isinstance(results, list) else ()


def _is_of_item(result: dict[str, Any]) -> bool:
    value = result.get("value")
    return (
        isinstance(value, dict)
        and KINDS.get(str(result.get("type"))) in value
        and _PLACES.isdisjoint(value)
        and isinstance(result.get("from_name"), str)
    )


def controls_of(annotations: Iterable[dict[str, Any]], where: str) -> dict[str, Control]:
    """Find the controls that were used for whole items, by their names."""
    found: dict[str, Control] = {}
    for made in annotations:
        for result in _results(made):
            name = result.get("from_name")
            if name not in found and _is_of_item(result):
                found[str(name)] = Control(str(name), str(result.get("to_name")), str(result["type"]))
    return found


def label_of(made: dict[str, Any], control: str) -> Any:
    """Give what an annotation says for a control; None where it says nothing."""
    for result in _results(made):
        if result.get("from_name") == control and _is_of_item(result):
            value = result["value"][KINDS[str(result["type"])]]
            return plain(value)
    return None


def plain(value: Any) -> Any:
    """Give the value of a control as a label: of several choices, all of them; of a path, its steps."""
    if isinstance(value, list):
        return joined("/".join(map(str, v)) if isinstance(v, list) else v for v in value)
    if isinstance(value, dict):
        raise DataError(f"expected a label, got {str(value)[:60]!r}")
    return value


def _regions(found: Iterable[tuple[Any, dict[str, Any] | None]]) -> str:
    kinds = sorted({str(result.get("type")) for _, made in found if made is not None for result in _results(made)})
    if not kinds:
        return ": no annotation has a result"
    return (
        f": its results are of type {', '.join(map(repr, kinds[:6]))}, but only {', '.join(map(repr, KINDS))} are "
        "labels of whole items. Spans of text can be exported as CoNLL and read with read_sequences"
    )


def values_by_label(annotations: Iterable[dict[str, Any]], control: Control) -> dict[Any, Any]:
    """Tell how each label of a control is written in an export."""
    found: dict[Any, Any] = {}
    for made in annotations:
        for result in _results(made):
            if result.get("from_name") == control.from_name and _is_of_item(result):
                value = result["value"][KINDS[str(result["type"])]]
                found.setdefault(plain(value), value)
    return found
