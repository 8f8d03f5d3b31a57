"""Argilla: records as JSON, flat (``topic.responses``, ``topic.responses.users``, …) or nested (``responses``).

========== ============================================================================================
item       ``id`` of the record
annotator  ``….responses.users``
label      ``….responses`` to one question
left out   responses with the status ``discarded`` or ``draft``; suggestions
========== ============================================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.io.export import Export, choose, columns_of, joined, left_out
from consilience.io.source import Source
from consilience.io.texts import text_in, texts_of

__all__ = ["question_of", "read", "recognise", "values_by_label"]

_RESPONSES, _USERS, _STATUS = ".responses", ".responses.users", ".responses.status"


def recognise(source: Source) -> str | None:
    """Return why these are such records, or None."""
    if any(name.endswith(_USERS) for name in source.fields()):
        return "records with '….responses.users'"
    first = source.sample[:1]
    if first and isinstance(first[0].get("responses"), dict) and {"fields", "suggestions"}.issubset(first[0]):
        return "records with 'fields', 'responses' and 'suggestions'"
    return None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the responses to one question."""
    records = [_flat(record) for record in source.records()]
    wanted = _chosen(records, question, source.name)
    rows: list[tuple[Any, Any, Any]] = []
    states: list[Any] = []
    shown: list[str | None] = []
    for record in records:
        users, said, status = (_listed(record.get(wanted + part)) for part in (_USERS, _RESPONSES, _STATUS))
        n = max(len(users), len(said), 1)
        rows += zip([record.get(item or "id")] * n, _padded(users, n), map(_label, _padded(said, n)), strict=True)
        states += _padded(status, n, None if users or said else "none")
        shown += [text_in(record.get("fields"), described=True) or text_in(record)] * n
    empty = np.array([state == "none" for state in states], np.bool_)
    dropped = np.array([state in ("discarded", "draft") for state in states], np.bool_)
    items, users, labels = columns_of(rows, ("id", "user", "response"), source.name)
    return Export(
        items,
        users,
        labels,
        counts=~(dropped | empty),
        names=(item or "id", wanted + _USERS, wanted),
        notes=left_out(int(dropped.sum()), len(rows) - int(empty.sum()), "responses", "discarded or draft"),
        row="response",
        text=texts_of(shown),
        question=wanted,
    )


def question_of(source: Source, records: list[dict[str, Any]], question: str | None) -> str:
    """Return the question that is meant."""
    return _chosen([_flat(record) for record in records], question, source.name)


def _chosen(flat: list[dict[str, Any]], question: str | None, where: str) -> str:
    names = dict.fromkeys(name.removesuffix(_USERS) for record in flat for name in record if name.endswith(_USERS))
    return choose(list(names), question, where)


def values_by_label(records: list[dict[str, Any]], question: str) -> dict[Any, Any]:
    """Return how each label is written in the responses: several choices are a list there."""
    given = (value for record in records for value in _listed(_flat(record).get(question + _RESPONSES)))
    return {_label(value): value for value in given if value is not None}


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a nested record with the keys of a flat one."""
    nested = record.get("responses")
    if not isinstance(nested, dict):
        return record
    flat = {key: value for key, value in record.items() if key != "responses"}
    for name, responses in nested.items():
        given = [one for one in _listed(responses) if isinstance(one, dict)]
        flat[name + _RESPONSES] = [one.get("value") for one in given]
        flat[name + _USERS] = [one.get("user_id") for one in given]
        flat[name + _STATUS] = [one.get("status") for one in given]
    return flat


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _padded(values: list[Any], n: int, filling: Any = None) -> list[Any]:
    return values[:n] + [filling] * (n - len(values))


def _label(value: Any) -> Any:
    if isinstance(value, list):
        return joined(one for one in value if not isinstance(one, list | dict))
    return None if isinstance(value, dict) else value
