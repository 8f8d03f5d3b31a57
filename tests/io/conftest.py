"""A small crowd, and the files that it can be written to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

import consilience as cs

Row = tuple[Any, Any, Any]


def crowd(n_items: int = 12, n_annotators: int = 4) -> list[Row]:
    """A small crowd that agrees most of the time; all ids are words."""
    return [
        (f"item {n}", f"annotator-{m}", ("yes", "no")[(n + (n * 3 + m * 5) % 7 // 6) % 2])
        for n in range(n_items)
        for m in range(n_annotators)
    ]


ROWS = crowd()


def delimited(rows: Sequence[Row], delimiter: str = ",", end: str = "\n", header: str = "task,worker,label") -> str:
    lines = [header.replace(",", delimiter), *(delimiter.join(map(str, row)) for row in rows)]
    return end.join(lines) + end


def jsonl(rows: Sequence[Row]) -> str:
    return "".join(
        json.dumps({"task": item, "worker": who, "label": label}, ensure_ascii=False) + "\n"
        for item, who, label in rows
    )


def table(rows: Sequence[Row]) -> pa.Table:
    items, annotators, labels = zip(*rows, strict=True)
    return pa.table({"task": list(items), "worker": list(annotators), "label": list(labels)})


def frame_of(rows: Sequence[Row]) -> cs.Annotations:
    return cs.Annotations.from_frame(pd.DataFrame(list(rows), columns=["task", "worker", "label"]))


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
