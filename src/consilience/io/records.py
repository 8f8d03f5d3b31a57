"""JSON arrays of objects: one object for each label."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from consilience.exceptions import FormatError
from consilience.io import documents
from consilience.io.export import column_of

__all__ = ["of_parsed", "read"]


def read(path: Path, pick: Callable[[list[str]], list[str]], encoding: str) -> pa.Table:
    """Read the fields picked of all objects."""
    return _table(documents.read_document(path, encoding), pick, path.name)


def of_parsed(document: Any) -> Callable[[Path, Callable[[list[str]], list[str]], str], pa.Table]:
    """Give a way to read a document that is parsed already."""
    return lambda path, pick, _: _table(document, pick, path.name)


def _table(document: Any, pick: Callable[[list[str]], list[str]], where: str) -> pa.Table:
    if not isinstance(document, list) or not all(isinstance(record, dict) for record in document):
        raise FormatError(f"{where} is not a table: expected a JSON array of objects, one for each label")
    names = list(dict.fromkeys(name for record in document[:1000] for name in record))
    wanted = pick(names)
    return pa.table({name: column_of([r.get(name) for r in document], name, where) for name in wanted})
