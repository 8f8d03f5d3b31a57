"""JSON Lines: one object for each label."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pajson

from consilience.exceptions import FormatError, IdError

__all__ = ["read"]


def read(path: Path, pick: Callable[[list[str]], list[str]], encoding: str) -> pa.Table:
    """Read JSON Lines (always UTF-8, as the format demands)."""
    try:
        table = pajson.read_json(path)
    except pa.ArrowException as error:
        raise _explained(path, str(error)) from error
    except (OSError, EOFError) as error:
        raise FormatError(f"cannot read {path.name}: {error}") from error
    try:
        names = table.column_names
    except UnicodeDecodeError as error:
        raise FormatError(f"{path.name}: the name of a field is not UTF-8 text ({error})") from error
    return table.select(pick(names))


def _explained(path: Path, message: str) -> FormatError | IdError:
    changed = re.search(r"Column\(/(.+?)\) changed from (\w+) to (\w+) in row (\d+)", message)
    if changed:
        column, before, after, row = changed.groups()
        return IdError(
            f"{path.name}: column {column!r} mixes types: {before} before, {after} in row {int(row) + 1}; "
            '7 and "7" would be two different ids. Write them all as strings, or all as numbers'
        )
    row = re.search(r"in row (\d+)", message)
    where = f", row {int(row.group(1)) + 1}" if row else ""
    reason = re.sub(r" in row \d+", "", message.splitlines()[0])
    return FormatError(f"{path.name}{where}: not JSON Lines (one JSON object on each line): {reason}")
