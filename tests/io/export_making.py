"""A file of an export, made from plain values, and what reading it must give."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Row = tuple[Any, Any, Any]


class Example(NamedTuple):
    """A file, and what reading it must give."""

    file: str
    content: bytes | Mapping[str, bytes]  #: of a folder, its files
    name: str  #: of the format
    rows: list[Row]  #: item, annotator, label
    gold: dict[Any, Any] = {}  # noqa: RUF012 - never changed
    question: str | None = None
    notes: tuple[str, ...] = ()
    items: list[Any] | None = None  #: where there are items without labels

    def put(self, folder: Path) -> Path:
        """Write it."""
        place = folder / self.file
        files = {"": self.content} if isinstance(self.content, bytes) else self.content
        for name, content in files.items():
            path = place / name if name else place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return place


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def as_lines(*values: Any) -> bytes:
    return b"".join(as_json(value) + b"\n" for value in values)


def as_table(*rows: tuple[Any, ...], delimiter: str = ",") -> bytes:
    return "".join(delimiter.join(map(str, row)) + "\n" for row in rows).encode()


def as_zip(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name.replace("__", ".")), content)
    return packed.getvalue()


def as_array(values: Any, **named: Any) -> bytes:
    packed = io.BytesIO()
    if named:
        np.savez_compressed(packed, **named)
    else:
        np.save(packed, np.array(values))
    return packed.getvalue()


def as_parquet(**columns: list[Any]) -> bytes:
    packed = io.BytesIO()
    pq.write_table(pa.table(columns), packed)
    return packed.getvalue()
