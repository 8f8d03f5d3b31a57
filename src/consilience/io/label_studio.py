"""Label Studio, JSON: a list of tasks, each with its annotations.

::

    [{"id": 1, "data": {"text": "…"},
      "annotations": [{"completed_by": 10, "was_cancelled": false, "ground_truth": false,
                       "result": [{"from_name": "topic", "to_name": "text", "type": "choices",
                                   "value": {"choices": ["animal"]}}]}],
      "predictions": […]}]

========== ============================================================================================
item       ``id`` of the task; ``item="text"`` uses that field of ``data`` instead
annotator  ``completed_by``, a number or an object; of the object its ``id``, or ``email`` if there is no ``id``
label      the value of one control (``from_name``): choices, rating, number, pairwise or taxonomy
gold       the same, of annotations with ``ground_truth``; they do not count as labels
left out   annotations with ``was_cancelled`` or ``skipped``, predictions, drafts, and regions
========== ============================================================================================

Several choices in one answer are one label, joined by ``|``.  :mod:`consilience.io.label_studio_flat` reads JSON-MIN
and CSV.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.exceptions import ColumnError, DataError, FormatError
from consilience.io.export import ORDERS, Export, choose, column_of, joined, left_out, time_column
from consilience.io.source import Source
from consilience.io.texts import text_in, texts_of

__all__ = [
    "KINDS",
    "PAIRWISE",
    "Control",
    "annotations_in",
    "annotator_of",
    "controls_of",
    "label_of",
    "read",
    "recognise",
    "results_of",
    "values_by_label",
]

PAIRWISE = "pairwise"
#: Kinds of control that label the whole item, and the key of their value.
KINDS = {
    "choices": "choices",
    "rating": "rating",
    "number": "number",
    PAIRWISE: "selected",
    "taxonomy": "taxonomy",
}
#: A value with one of these labels a region, not the whole item.
_PLACES = frozenset(("start", "end", "x", "y", "points", "rle", "globalOffsets", "startOffset", "ranges"))


#: Stands for the annotations of a task that has none.
_NOTHING: dict[str, Any] = {}


class Control(NamedTuple):
    """A question of the labelling interface."""

    from_name: str
    to_name: str
    kind: str


def recognise(source: Source) -> str | None:
    """Return why this is such an export, or None."""
    # any of the first tasks: the reader says what is wrong with one that is damaged
    for key in ("annotations", "completions"):
        if any("data" in task and key in task for task in source.sample):
            return f"JSON with tasks that have 'data' and {key!r}"
    return None


def read(source: Source, item: str | None, question: str | None, annotator: str | None = None) -> Export:
    """Read the answers to one question; ``annotator`` is what to show annotators by, such as "email"."""
    where = source.name
    rows = [(task, made) for task in source.records() for made in annotations_in(task, where) or (_NOTHING,)]
    every = [made for _, made in rows]
    controls = controls_of(every)
    if not controls:
        raise DataError(f"{where} has no question that can be aggregated: {_regions(every)}")
    wanted = choose(list(controls), question, where, _unsupported(every, controls))
    people, unclear = _people(every, annotator, where)
    empty = np.array([made is _NOTHING for made in every])
    cancelled = np.array([bool(made.get("was_cancelled") or made.get("skipped")) for made in every])
    truth = np.array([bool(made.get("ground_truth")) for made in every]) & ~cancelled
    labels = column_of([label_of(made, wanted) for made in every], "label", where)
    n = int((~empty).sum())
    notes = (
        *left_out(int(cancelled.sum()), n, "annotations", "cancelled or skipped"),
        *left_out(int(truth.sum()), n, "annotations", "ground truth, taken as gold"),
        *unclear,
        *_about(controls[wanted]),
    )
    return Export(
        column_of([_item(task, item) for task, _ in rows], "id of task", where),
        column_of(people, annotator or "completed_by", where),
        labels,
        counts=~(cancelled | truth | empty),
        gold=pc.if_else(pa.array(truth), labels, pa.scalar(None, labels.type)) if truth.any() else None,
        names=(item or "id", annotator or "completed_by", wanted),
        notes=notes,
        row="annotation",
        time=time_column(made.get("created_at") for made in every),
        text=texts_of(text_in(task.get("data"), described=True) for task, _ in rows),
        question=wanted,
        answers={"rating": "ordinal", "number": "numeric"}.get(controls[wanted].kind, ""),
    )


def _about(control: Control) -> tuple[str, ...]:
    """Return a note on comparisons, whose labels are sides."""
    if control.kind != PAIRWISE:
        return ()
    return (
        f"{control.from_name!r} compares two items, and its labels are 'left' and 'right'; "
        "cs.rank (consilience rank) ranks the items",
    )


def _item(task: dict[str, Any], key: str | None) -> Any:
    """Return the id of a task, or a field of its data."""
    if key is None:
        return task.get("id")
    data = task.get("data")
    return data.get(key) if isinstance(data, dict) else None


def annotations_in(task: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the annotations of a task."""
    made = task.get("annotations", task.get("completions"))
    if made is None:
        return []
    if not isinstance(made, list) or not all(isinstance(one, dict) for one in made):
        raise FormatError(f"{where}: the annotations of task {task.get('id')!r} are not a list of objects")
    return made


def annotator_of(completed_by: Any) -> Any:
    """Return the id of an annotator; an email or a name only if there is no id."""
    if not isinstance(completed_by, dict):
        return None if isinstance(completed_by, list) else completed_by
    for key in ("id", "email", "username"):
        if isinstance(completed_by.get(key), str | int):
            return completed_by[key]
    return None


def _people(every: list[dict[str, Any]], field: str | None, where: str) -> tuple[list[Any], tuple[str, ...]]:
    """Return who made each annotation, by id or by another field, and a note if people share a name."""
    ids = [annotator_of(made.get("completed_by")) for made in every]
    if field is None:
        return ids, ()
    said = [_called(made.get("completed_by"), field) for made in every]
    if not any(name is not None for name in said):
        raise ColumnError(
            f"{where} has no {field!r} of annotators, only {next((who for who in ids if who is not None), None)!r} and "
            "the like in 'completed_by'; leave annotator=… (--annotator …) out"
        )
    different = {(who, name) for who, name in zip(ids, said, strict=True) if name is not None}
    shared = len(different) - len({name for _, name in different})
    return said, (f"{shared} annotators share their {field!r} with another, and count as one",) if shared else ()


def _called(completed_by: Any, field: str) -> Any:
    """Return a field of an annotator; a name may be in two fields."""
    if not isinstance(completed_by, dict):
        return completed_by if field == "id" and not isinstance(completed_by, list) else None
    if field == "name":
        parts = [completed_by.get(part) for part in ("first_name", "last_name")]
        return " ".join(part for part in parts if isinstance(part, str) and part) or None
    value = completed_by.get(field)
    return value if isinstance(value, str | int) and value != "" else None


def _unsupported(annotations: Iterable[dict[str, Any]], controls: dict[str, Control]) -> dict[str, str]:
    """Return the kinds of the controls that do not label whole items, by name."""
    named = ((result.get("from_name"), result.get("type")) for made in annotations for result in results_of(made))
    return {name: str(kind) for name, kind in named if isinstance(name, str) and name not in controls}


def results_of(made: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Return the results of an annotation, one for each control or region."""
    results = made.get("result")
    return (one for one in results if isinstance(one, dict)) if isinstance(results, list) else ()


def _answers(made: dict[str, Any]) -> Iterator[tuple[Control, Any]]:
    """Yield the controls of an annotation that label the whole item, and their values."""
    for result in results_of(made):
        value, kind, name = result.get("value"), result.get("type"), result.get("from_name")
        if not isinstance(value, dict) or not isinstance(kind, str) or not isinstance(name, str):
            continue
        if KINDS.get(kind) in value and _PLACES.isdisjoint(value):
            yield Control(name, str(result.get("to_name")), kind), value[KINDS[kind]]


def controls_of(annotations: Iterable[dict[str, Any]]) -> dict[str, Control]:
    """Return the controls that were used for whole items, by name."""
    found: dict[str, Control] = {}
    for made in annotations:
        for control, _ in _answers(made):
            found.setdefault(control.from_name, control)
    return found


def label_of(made: dict[str, Any], control: str) -> Any:
    """Return the label of an annotation for a control; None if it has none."""
    return next((plain(value) for given, value in _answers(made) if given.from_name == control), None)


def plain(value: Any) -> Any:
    """Return the value of a control as a label: of several choices, all of them; of a path, its steps."""
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], str):
            return value[0]
        return joined("/".join(map(str, v)) if isinstance(v, list) else v for v in value)
    if isinstance(value, dict):
        raise DataError(f"expected a label, got {str(value)[:60]!r}")
    return value


def _regions(annotations: Iterable[dict[str, Any]]) -> str:
    kinds = sorted({str(result.get("type")) for made in annotations for result in results_of(made)})
    if not kinds:
        return "no annotation has a result"
    found = f"its results are of type {', '.join(map(repr, kinds[:6]))}"
    if ORDERS & {*kinds}:
        return f"{found}. cs.rank (consilience rank) ranks items by such orders"
    return (
        f"{found}, but only {', '.join(map(repr, KINDS))} are labels of whole items. Spans of text can be exported as "
        "CoNLL and read with read_sequences"
    )


def values_by_label(annotations: Iterable[dict[str, Any]], control: Control) -> dict[Any, Any]:
    """Return how each label of a control is written in an export."""
    found: dict[Any, Any] = {}
    for made in annotations:
        for given, value in _answers(made):
            if given.from_name == control.from_name:
                found.setdefault(plain(value), value)
    return found
