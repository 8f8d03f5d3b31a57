"""Small tables in frames of every kind, and what they say by plain lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from consilience import Annotations

KINDS = ("pandas", "polars", "pyarrow")
FRAME_TYPES: dict[str, Any] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}

Row = tuple[Any, Any, Any]
Grouped = list[tuple[Any, list[tuple[Any, Any]]]]

#: Rows in no order; items and annotators appear first as p, q, r and b, a, c.
ROWS: list[Row] = [
    ("p", "b", "yes"),
    ("q", "a", "no"),
    ("p", "a", "yes"),
    ("r", "c", "maybe"),
    ("q", "b", "yes"),
    ("p", "c", "no"),
    ("r", "a", "no"),
]

MATRIX = [[0, 1, -1], [-1, 2, 0], [-1, -1, -1], [1, 1, 2]]
MATRIX_CONTENT: Grouped = [
    (0, [(0, 0), (1, 1)]),
    (1, [(1, 2), (2, 0)]),
    (2, []),
    (3, [(0, 1), (1, 1), (2, 2)]),
]


def rows_of(n_items: int = 30, n_annotators: int = 5) -> dict[str, list[Any]]:
    """A crowd that is right four times in five; the truth of item n is n mod 3."""
    picks = [(n, m) for n in range(n_items) for m in range(n_annotators)]
    return {
        "task": [f"i{n}" for n, _ in picks],
        "worker": [10 * m for _, m in picks],
        "label": ["abc"[(n + (n // 3 + m) % 5 // 4) % 3] for n, m in picks],
    }


def make(kind: str, columns: Mapping[str, Sequence[Any]]) -> Any:
    if kind == "pandas":
        return pd.DataFrame(dict(columns))
    if kind == "polars":
        return pl.DataFrame(dict(columns))
    return pa.table({name: list(values) for name, values in columns.items()})


def long(rows: Iterable[Row], kind: str = "pandas", names: Sequence[str] = ("task", "worker", "label")) -> Any:
    items, annotators, labels = zip(*rows, strict=True)
    return make(kind, dict(zip(names, (list(items), list(annotators), list(labels)), strict=True)))


def content(annotations: Annotations) -> Grouped:
    """The labels by item, in names, in the order in which they are stored."""
    who, what = annotations.annotators, annotations.classes
    return [
        (
            annotations.items[n],
            [(who[annotations.annotator[i]], what[annotations.label[i]]) for i in range(start, stop)],
        )
        for n, (start, stop) in enumerate(zip(annotations.indptr[:-1], annotations.indptr[1:], strict=True))
    ]


def naive(rows: Iterable[Row], duplicates: str = "keep") -> Grouped:
    """The same by dictionaries: blank labels are no labels, the order within an item is that of the rows."""
    grouped: dict[Any, list[tuple[Any, Any]]] = {}
    for item, annotator, label in rows:
        answers = grouped.setdefault(item, [])
        if label is None or label != label or (isinstance(label, str) and not label.strip()):
            continue
        before = [i for i, (who, _) in enumerate(answers) if who == annotator]
        if before and duplicates == "first":
            continue
        if before and duplicates == "last":
            del answers[before[0]]
        answers.append((annotator, label))
    return list(grouped.items())


def columns_of(frame: Any) -> dict[str, list[Any]]:
    if isinstance(frame, pa.Table):
        return {str(name): values for name, values in frame.to_pydict().items()}
    return {str(name): frame[name].to_list() for name in frame.columns}
