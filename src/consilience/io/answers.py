"""Answers of forms: nested fields, and a field for each checkbox.

``{"category": {"label": "cat"}}`` answers the question ``category.label``;
``{"mood": {"good": true, "bad": false}}`` answers ``mood`` with ``good``.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.ids import encode
from consilience.io.export import SEVERAL, column_of, joined, text_column

__all__ = ["from_json", "with_options_joined"]

#: Fields nested deeper than this are ignored.
_DEEPEST = 12


def from_json(column: pa.Array, where: str) -> dict[str, pa.Array]:
    """Split a column of JSON texts into a column for each field; only distinct texts are parsed."""
    codes, texts = encode(column)
    flat = [_flattened(text) for text in texts]
    names = dict.fromkeys(name for fields in flat for name in fields)
    at = pa.array(np.where(codes < 0, len(flat), codes))
    return {name: column_of([*(fields.get(name) for fields in flat), None], "answer", where).take(at) for name in names}


def _flattened(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError, TypeError):
        return {}
    fields: dict[str, Any] = {}
    waiting: list[tuple[str, Any, int]] = [("", value, 0)]
    while waiting:
        name, value, depth = waiting.pop()
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
            value = value[0]
        if isinstance(value, dict):
            inner = [(f"{name}.{key}" if name else str(key), one, depth + 1) for key, one in value.items()]
            waiting += reversed(inner) if depth < _DEEPEST else ()
        elif isinstance(value, list):
            if all(isinstance(one, str | int) for one in value):
                fields[name] = joined(value)
        elif name:
            fields[name] = value
    return fields


def with_options_joined(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Merge the fields of checkboxes into one question: the options ticked, joined by ``|``."""
    groups: dict[str, list[str]] = {}
    for name, column in columns.items():
        stem, dot, option = name.rpartition(".")
        if dot and option and _is_ticked_or_not(column):
            groups.setdefault(stem, []).append(name)
    made = dict(columns)
    for stem, names in groups.items():
        if len(names) > 1 and stem not in columns:
            # each ticked option is appended
            options = sorted(names)
            said = pa.array([""] * len(columns[names[0]]), pa.string())
            for name in options:
                ticked = pc.equal(pc.utf8_lower(text_column(columns[name])), "true").fill_null(False)
                more = pc.binary_join_element_wise(said, pa.scalar(name[len(stem) + 1 :]), SEVERAL)
                first = pc.equal(said, "")
                said = pc.if_else(ticked, pc.if_else(first, pa.scalar(name[len(stem) + 1 :]), more), said)
            for name in names:
                del made[name]
            made[stem] = pc.if_else(pc.equal(said, ""), pa.scalar(None, pa.string()), said)
    return made


def _is_ticked_or_not(column: pa.Array) -> bool:
    if pa.types.is_boolean(column.type):
        return True
    if not pa.types.is_string(column.type) or column.null_count == len(column):
        return False
    values = pc.unique(pc.utf8_lower(column.drop_null()))
    return bool(pc.all(pc.is_in(values, value_set=pa.array(["true", "false"]))).as_py())
