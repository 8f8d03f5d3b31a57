"""JSON Lines: one object for each label."""

from __future__ import annotations

import mmap
import re
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from consilience.exceptions import FormatError, IdError
from consilience.io.documents import File, Pick, open_bytes

__all__ = ["read"]

_NULL = re.compile(rb"\n[ \t\r]+n")
#: A gzipped file is searched in parts of the first size; lines are indented by at most the second.
_BLOCK, _INDENT = 1 << 20, 1 << 12


def read(file: File, pick: Pick) -> pa.Table:
    """Read the picked fields of JSON Lines (always UTF-8, as the format demands)."""
    path = file.path
    _refuse_nulls(path)
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


def _refuse_nulls(path: Path) -> None:
    """Raise when a line is ``null``: where a block of the file begins with one, pyarrow ends the process."""
    try:
        if path.suffix.lower() == ".gz":
            before, row, ended = b"\n", 0, 0
            with open_bytes(path) as file:
                while part := file.read(_BLOCK):
                    _refuse_null(path, before + part, row)
                    before = part[-_INDENT:] if b"\n" in part[-_INDENT:] else b""
                    ended += part.count(b"\n")
                    row = ended - before.count(b"\n") + 1
        elif path.is_file() and path.stat().st_size:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
                if text.find(b"null") >= 0:
                    _refuse_null(path, b"\n" + text[:_BLOCK], 0)
                    _refuse_null(path, text, 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"cannot read {path.name}: {error}") from error


def _refuse_null(path: Path, text: Any, row: int) -> None:
    at = text.find(b"\nn")
    if at < 0 and any(text.find(blank) >= 0 for blank in (b"\n ", b"\n\t", b"\n\r")):
        indented = _NULL.search(text)
        at = indented.start() if indented else -1
    if at >= 0:
        row += text[:at].count(b"\n")
        raise FormatError(f"{path.name}, row {row + 1}: not JSON Lines (one JSON object on each line): null")


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
