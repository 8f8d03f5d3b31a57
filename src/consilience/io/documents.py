"""JSON in: documents, within the memory there is, and lines one after the other.

A document is parsed in one go, which takes several times its size; a larger one than the machine can hold is refused
before it is read.  Of lines only what a format asks for is kept.
"""

from __future__ import annotations

import gc
import gzip
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from consilience.exceptions import FormatError

__all__ = [
    "first_line",
    "lines_of",
    "most_bytes",
    "no_collection",
    "open_bytes",
    "parse",
    "read_bytes",
    "read_document",
    "up_to",
]

#: A parsed document takes up to this many times the bytes of its text.
_GROWTH = 12
#: A document of this size is read on any machine.
_ALWAYS = 1 << 26
_PART = 1 << 22


def most_bytes() -> int:
    """Give the size of the largest document that this machine can hold when it is parsed."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        memory = 1 << 32
    return max(memory // _GROWTH, _ALWAYS)


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the search for cycles from going over millions of parsed objects again and again: JSON has none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, gzipped or not."""
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix.lower() == ".gz" else path.open("rb")


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Read a file, or the beginning of it; one that memory cannot hold is refused."""
    limit = most_bytes()
    try:
        with open_bytes(path) as file:
            content = up_to(file, limit + 1 if most is None else most)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"cannot read {path.name}: it is damaged or cut short ({error})") from error
    if most is None and len(content) > limit:
        raise FormatError(
            f"{path.name} has more than {limit / 1e9:.1f} GB, too much for the memory of this machine when it is "
            "parsed; export it as CSV or JSON Lines, or in parts"
        )
    return content


def up_to(file: IO[bytes], most: int) -> bytes:
    """Read no more than so many bytes; memory is taken for what is there, not for what might be."""
    parts: list[bytes] = []
    left = most
    while left > 0 and (part := file.read(min(left, _PART))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def read_document(path: Path, encoding: str) -> Any:
    """Parse a JSON document."""
    return parse(read_bytes(path), encoding, path.name)


def parse(content: bytes, encoding: str, where: str) -> Any:
    """Parse JSON text; what is wrong with it is said in a sentence."""
    try:
        text = content.decode("utf-8-sig" if encoding.lower().replace("-", "") == "utf8" else encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(10) + 1
        raise FormatError(
            f"{where}, line {line}: not text in {encoding}; say how the file is encoded, for example "
            "encoding='latin-1' (--encoding latin-1)"
        ) from error
    except (LookupError, UnicodeError) as error:
        raise FormatError(f"{where} is not text in {encoding}: {error}") from error
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(f"{where}, line {error.lineno}: not JSON ({error.msg}, column {error.colno})") from error
    except ValueError as error:  # a number of thousands of digits
        raise FormatError(f"{where}: a number in it is too long") from error
    except RecursionError as error:
        raise FormatError(f"{where}: not an export: objects lie within each other hundreds of levels deep") from error


def first_line(path: Path) -> bytes:
    """Give the first line that is not blank."""
    try:
        with open_bytes(path) as file:
            for _ in range(1000):
                line = file.readline(most_bytes())
                if line.strip() or not line:
                    return line
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"cannot read {path.name}: it is damaged or cut short ({error})") from error
    return b""


def lines_of(path: Path, encoding: str) -> Iterator[dict[str, Any]]:
    """Parse JSON Lines one after the other; a line that is no object is an error that names it."""
    try:
        with open_bytes(path) as file:
            number, limit = 0, most_bytes()
            while line := file.readline(limit):
                number += 1
                if line.isspace():
                    continue
                where = f"{path.name}, row {number}"
                value = parse(line.strip(), encoding, where)
                if not isinstance(value, dict):
                    raise FormatError(f"{where}: not JSON Lines (one JSON object on each line)")
                yield value
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"cannot read {path.name}: it is damaged or cut short ({error})") from error
