"""Plain values, as JSON can hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["plain", "plain_rows"]


def plain(values: Iterable[Any]) -> list[Any]:
    """Return the values with dates and the like as text."""
    return [x if x is None or isinstance(x, str | int | float) else str(x) for x in values]


def plain_rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a table of arrow columns."""
    values = [plain(column.to_pylist()) for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
