"""JSON Lines: one object for each label."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json as pajson

from consilience.exceptions import FormatError, IdError
from consilience.io.documents import File, Pick, open_bytes, packed_or_path

__all__ = ["read"]

_NULL = re.compile(rb"^[ \t\r]*null", re.MULTILINE)
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
#: Files are checked in parts of this size; pyarrow does not read lines of more than a megabyte.
_BLOCK, _LONGEST = 1 << 22, 1 << 26
#: Levels of nesting that are read; pyarrow overflows its stack at some thousands.
_DEEPEST = 100


def read(file: File, pick: Pick) -> pa.Table:
    """Read the picked fields of JSON Lines (always UTF-8, as the format demands)."""
    path = file.path
    _check_lines(path)
    try:
        with packed_or_path(path) as content:
            table = pajson.read_json(content)
    except pa.ArrowException as error:
        raise _explained(path, str(error)) from error
    except (OSError, EOFError) as error:
        raise FormatError(f"cannot read {path.name}: {error}") from error
    try:
        names = table.column_names
    except UnicodeDecodeError as error:
        raise FormatError(f"{path.name}: the name of a field is not UTF-8 text ({error})") from error
    return table.select(pick(names))


def _check_lines(path: Path) -> None:
    """Raise on lines that would end the process in pyarrow: ``null`` at the start of a block, and deep nesting."""
    row = 0
    try:
        with open_bytes(path) as file:
            before = b""
            while part := file.read(_BLOCK):
                text, end, rest = (before + part).rpartition(b"\n")
                before = rest
                if len(rest) > _LONGEST:
                    raise FormatError(f"{path.name}: a line has more than {_LONGEST >> 20} MB, so it is not JSON Lines")
                if end:
                    row = _check_block(path, text, row)
            _check_block(path, before, row)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"cannot read {path.name}: {error}") from error


def _check_block(path: Path, text: bytes, row: int) -> int:
    """Check whole lines that follow ``row`` others; return the number of rows so far."""
    if b"null" in text and (null := _NULL.search(text)):
        at = row + text[: null.start()].count(b"\n") + 1
        raise FormatError(f"{path.name}, row {at}: not JSON Lines (one JSON object on each line): null")
    characters = np.frombuffer(text, np.uint8)
    opening = np.flatnonzero(characters & 0xDF == ord("["))  # [ and {
    if opening.size > _DEEPEST:
        ends = np.flatnonzero(characters == ord("\n"))
        # lines with so many brackets that they may be nested too deeply
        line = np.searchsorted(ends, opening[_DEEPEST:])
        for number in np.unique(line[line == np.searchsorted(ends, opening[:-_DEEPEST])]).tolist():
            first = int(ends[number - 1]) + 1 if number else 0
            if _depth(text[first : int(ends[number]) if number < ends.size else None]) > _DEEPEST:
                raise FormatError(
                    f"{path.name}, row {row + number + 1}: values are nested more than {_DEEPEST} levels deep"
                )
    return row + text.count(b"\n") + 1


def _depth(line: bytes) -> int:
    """Return how deeply a line of JSON is nested."""
    characters = np.frombuffer(_TEXT.sub(b"", line), np.uint8)
    step = (characters & 0xDF == ord("[")).astype(np.int64) - (characters & 0xDF == ord("]"))
    return int(np.cumsum(step).max(initial=0))


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
