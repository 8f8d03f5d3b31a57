"""Argilla: records as JSON, flat (``topic.responses``, ``topic.responses.users``, …) or nested (``responses``).

========== ============================================================================================
item       ``id`` of the record
annotator  ``….responses.users``
label      ``….responses`` to one question; whole numbers are ratings, as labels are texts
left out   responses with the status ``discarded`` or ``draft``; suggestions
========== ============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from consilience.io.export import Export, choose, columns_of, joined, left_out
from consilience.io.source import Source
from consilience.io.texts import text_in, texts_of

__all__ = ["DROPPED", "Response", "question_of", "rankings", "read", "recognise", "values_by_label"]

_RESPONSES, _USERS, _STATUS = ".responses", ".responses.users", ".responses.status"
#: States of responses that do not count, and of a record without any.
DROPPED, _NONE = ("discarded", "draft"), "none"
_RANKING = "ranking"


class Response(NamedTuple):
    """What a user said."""

    user: Any
    value: Any
    status: Any


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
        given = _responses(record, wanted) or [Response(None, None, _NONE)]
        rows += [(record.get(item or "id"), user, _label(said)) for user, said, _ in given]
        states += [state for _, _, state in given]
        shown += [text_in(record.get("fields"), described=True) or text_in(record)] * len(given)
    values = [said for record in records for _, said, _ in _responses(record, wanted) if said is not None]
    empty = np.array([state == _NONE for state in states], np.bool_)
    dropped = np.array([state in DROPPED for state in states], np.bool_)
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
        answers="ordinal" if all(type(said) is int for said in values) else "",
    )


def question_of(source: Source, records: list[dict[str, Any]], question: str | None) -> str:
    """Return the question that is meant."""
    return _chosen([_flat(record) for record in records], question, source.name)


def _chosen(records: list[dict[str, Any]], question: str | None, where: str) -> str:
    orders = _rankings(records)
    return choose([name for name in _questions(records) if name not in orders], question, where, orders)


def _questions(records: list[dict[str, Any]]) -> dict[str, None]:
    return dict.fromkeys(name.removesuffix(_USERS) for record in records for name in record if name.endswith(_USERS))


def _rankings(records: list[dict[str, Any]]) -> dict[str, str]:
    """Return the questions whose answers are orders, with their kind."""
    return {
        name: _RANKING
        for name in _questions(records)
        if _are_orders([said for record in records for _, said, _ in _responses(record, name)])
    }


def _are_orders(answers: list[Any]) -> bool:
    """Whether answers are orders: names with ranks (Argilla 1), or the same names in different orders (Argilla 2)."""
    listed = [said for said in answers if isinstance(said, list) and said]
    if any(isinstance(one, dict) and "rank" in one for said in listed for one in said):
        return True
    orders = {tuple(map(str, said)) for said in listed}
    return len(orders) > 1 and len({frozenset(order) for order in orders}) == 1


def rankings(source: Source, question: str | None) -> tuple[str, Iterator[tuple[dict[str, Any], list[Response]]]]:
    """Return the question that asks for an order, and the records with their responses to it."""
    records = [_flat(record) for record in source.records()]
    asked = _rankings(records)
    others = dict.fromkeys((name for name in _questions(records) if name not in asked), "label")
    wanted = choose(list(asked), question, source.name, others, what="ranked")
    return wanted, ((record, _responses(record, wanted)) for record in records)


def values_by_label(records: list[dict[str, Any]], question: str) -> dict[Any, Any]:
    """Return how each label is written in the responses: several choices are a list there."""
    given = (value for record in records for value in _listed(_flat(record).get(question + _RESPONSES)))
    return {_label(value): value for value in given if value is not None}


def _responses(record: dict[str, Any], question: str) -> list[Response]:
    users, said, status = (_listed(record.get(question + part)) for part in (_USERS, _RESPONSES, _STATUS))
    n = max(len(users), len(said))
    return [Response(*one) for one in zip(*(_padded(each, n) for each in (users, said, status)), strict=True)]


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


def _padded(values: list[Any], n: int) -> list[Any]:
    return values[:n] + [None] * (n - len(values))


def _label(value: Any) -> Any:
    if isinstance(value, list):
        return joined(one for one in value if not isinstance(one, list | dict))
    return None if isinstance(value, dict) else value
