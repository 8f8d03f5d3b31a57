"""Which field of an export shows the item: its text, or the address of an image, a sound or a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

__all__ = ["text_column_of", "text_in", "text_name", "texts_of"]

#: Usual names of such fields, the most telling first.
NAMES = (
    *("text", "content", "sentence", "prompt", "question", "comment", "body", "document", "review", "tweet", "title"),
    *("html", "url", "link", "image_url", "image", "img", "picture", "photo", "audio", "video"),
)


def text_name(names: Iterable[str], prefix: str = "") -> str | None:
    """Return the field with a usual name; of fields with a ``prefix``, which all describe the item, else the first."""
    found = [name for name in names if name.startswith(prefix)]
    by_name = {name[len(prefix) :].lower(): name for name in reversed(found)}
    return next((by_name[name] for name in NAMES if name in by_name), found[0] if prefix and found else None)


def text_column_of(columns: Mapping[str, Any], prefix: str = "") -> pa.Array | None:
    """Return the column that shows the item; see :func:`text_name`."""
    name = text_name(columns, prefix)
    if name is None:
        return None
    column = columns[name]
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def text_in(fields: Any, *, described: bool = False) -> str | None:
    """Return the text of a record's fields; if all of them describe the item, the first text will do."""
    if not isinstance(fields, dict):
        return None
    name = text_name(fields)
    if name is not None and (text := _plain(fields[name])):
        return text
    return next((value for value in fields.values() if isinstance(value, str) and value), None) if described else None


def _plain(value: Any) -> str | None:
    """Return a text; of several, such as a post and its reply, one after the other."""
    if isinstance(value, dict):
        return " / ".join(part for part in value.values() if isinstance(part, str)) or None
    return value if isinstance(value, str) else None


def texts_of(values: Iterable[Any]) -> pa.Array:
    """Return texts as a column, null for other values; half a character is replaced."""
    return pa.array([v.encode(errors="replace").decode() if type(v) is str else None for v in values], pa.string())
