"""Label Studio, JSON-MIN and CSV: a row for each annotation, with the data of the task and the answers.

========== ============================================================================================
item       ``id``
annotator  ``annotator``, a number or an email: there is no other id in these exports
label      the column of one control
left out   nothing: cancelled annotations are not exported, and ground truth is not marked
========== ============================================================================================

The export does not mark the columns of answers.  In JSON-MIN they are between ``id`` and ``annotator``; otherwise they
are those that differ between the annotators of an item.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data.frames import no_column
from consilience.data.ids import encode
from consilience.io.export import Export, choose, column_of, questions_among, time_column
from consilience.io.label_studio import KINDS, plain
from consilience.io.source import Source
from consilience.io.texts import text_column_of, text_name, texts_of

__all__ = ["read", "recognise"]

_OWN = frozenset(("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement"))
_SIGNS = frozenset(("id", "annotator", "annotation_id"))


def recognise(source: Source) -> str | None:
    """Return why this is such an export, or None."""
    if source.shape == "table":
        return "CSV with the columns 'id', 'annotator', 'annotation_id' and 'lead_time'"
    if source.sample and all(_SIGNS.issubset(record) for record in source.sample):
        return "JSON-MIN: records with 'id', 'annotator' and 'annotation_id'"
    return None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the answers to one question."""
    place = item or "id"
    columns, likely, regions = _table(source) if source.shape == "table" else _records(source, place)
    if place not in columns:
        raise no_column(place, list(columns), source.name)
    items = columns[place]
    if question is None or question not in columns or question in regions:
        among = {name: columns[name] for name in likely if name != place and name not in regions}
        names = list(among) if len(among) == 1 else questions_among(encode(items)[0], among)
        question = choose(names or list(among), question, source.name, dict.fromkeys(regions, "region"))
    untyped = source.shape == "table"
    return Export(
        items,
        columns["annotator"],
        columns[question],
        names=(place, "annotator", question),
        untyped=untyped,
        row="annotation",
        time=columns.get("created_at"),
        text=text_column_of({name: column for name, column in columns.items() if name not in (question, place)}),
        question=question,
    )


def _table(source: Source) -> tuple[dict[str, pa.Array], list[str], list[str]]:
    """Return the columns, those that may be answers, and those that hold only regions, such as boxes."""
    table = source.columns(source.names)
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    likely = [name for name in columns if name not in _OWN]
    unpacked = {name: _unpacked(columns[name]) for name in likely}
    regions = [name for name, column in unpacked.items() if _is_lost(columns[name], column)]
    return columns | unpacked, likely, regions


def _is_lost(given: pa.Array, labels: pa.Array) -> bool:
    """Return whether there were values and none of them is a label."""
    return bool(labels.null_count == len(labels) and given.null_count < len(given))


def _unpacked(column: pa.Array) -> pa.Array:
    """Replace values that are JSON (several choices, a rating) by labels; only distinct values are parsed."""
    codes, ids = encode(column)
    if not any(str(name)[:1] in "[{" for name in ids):
        return column
    values: list[str | None] = []
    for name in ids:
        try:
            values.append(_text(_label(json.loads(name))) if name[:1] in "[{" else name)
        except (ValueError, RecursionError):
            values.append(name)
    return pa.array([*values, None], pa.string()).take(pa.array(np.where(codes < 0, len(values), codes)))


def _text(label: Any) -> str | None:
    return label if label is None or isinstance(label, str) else json.dumps(label)


def _records(source: Source, place: str) -> tuple[dict[str, pa.Array], list[str], list[str]]:
    """Return the same as :func:`_table`."""
    records = list(source.records())
    likely: dict[str, None] = {}
    for record in records:
        names = list(record)
        first = names.index("id") if "id" in record else -1
        last = names.index("annotator") if "annotator" in record else len(names)
        likely |= dict.fromkeys(names[first + 1 : last])
    if not set(likely) - _OWN:
        likely = dict.fromkeys(name for record in records[:1000] for name in record)
    answers = [name for name in likely if name not in _OWN]
    wanted = dict.fromkeys((place, "annotator", *answers))
    columns, regions = {}, []
    columns["created_at"] = time_column(record.get("created_at") for record in records)
    for name in wanted:
        values = [record.get(name) for record in records]
        if name in answers:
            labels = [_label(value) if isinstance(value, list | dict) else value for value in values]
            if any(values) and all(label is None for label in labels):
                regions.append(name)
            values = labels
        columns[name] = column_of(values, name, source.name)
    shown = text_name(name for record in records[:1000] for name in record if name not in columns)
    if shown is not None:
        columns[shown] = texts_of(record.get(shown) for record in records)
    return columns, answers, regions


def _label(value: Any) -> Any:
    """Return a choice or a rating as a label; None for regions."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        key = next((key for key in KINDS.values() if key in value), None)
        return None if key is None or isinstance(value[key], dict) else plain(value[key])
    if isinstance(value, list):
        return plain(value) if all(isinstance(one, str) for one in value) else None
    return value
