"""Bytes, text and JSON from files, gzipped or not, within the memory of the machine.

A JSON document is parsed in one go, which takes several times its size; a document that is too large for that is
refused before it is read.  JSON Lines are parsed one at a time.
"""

from __future__ import annotations

import gc
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, cast

from consilience.exceptions import FormatError
from consilience.memory import available_bytes

__all__ = [
    "File",
    "Pick",
    "decode",
    "most_bytes",
    "no_collection",
    "open_bytes",
    "parse",
    "read_bytes",
    "read_text",
    "up_to",
]

#: Receives the columns of a file and returns those to read; raises when one is missing.
Pick = Callable[[list[str]], list[str]]

#: A parsed document takes up to this many times the bytes of its text.
_GROWTH = 12
#: A document of this size is read on any machine.
_ALWAYS = 1 << 26
_PART = 1 << 22
#: A byte order mark.
_MARK = "\ufeff"
#: Bytes that are read when a file is opened, and the longest header of a table.
_HEAD, _LONGEST_LINE = 1 << 16, 1 << 20


class File:
    """A file whose first bytes are read once and kept."""

    def __init__(self, path: Path, encoding: str = "utf-8") -> None:
        self.path, self.encoding = path, encoding
        self._head, self._is_whole = b"", False

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

    def head(self, most: int = _HEAD) -> bytes:
        """Return the first bytes; the file is read again only if more are needed than before."""
        if len(self._head) < most and not self._is_whole:
            size = max(most, _HEAD)
            try:
                content = read_bytes(self.path, size)
            except FormatError:  # a packed file may be damaged further on
                size = most
                content = read_bytes(self.path, size)
            self._head, self._is_whole = content, len(content) < size
        return self._head[:most]

    def first_line(self) -> bytes:
        """Return the first line with its line end."""
        for most in (512, _HEAD, _LONGEST_LINE):
            line, end, _ = self.head(most).partition(b"\n")
            if end:
                return line + end
        return self.head(_LONGEST_LINE)

    def first_text(self) -> bytes:
        """Return the first line that is not blank."""
        line = _not_blank(BytesIO(self.head()))
        if line.endswith(b"\n") or self._is_whole:
            return line
        try:
            with open_bytes(self.path) as file:
                return _not_blank(file)
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(self.path, error) from error

    def read_document(self) -> Any:
        """Parse a JSON document."""
        return parse(read_bytes(self.path), self.encoding, self.name)

    def json_lines(self, most: int | None = None) -> Iterator[dict[str, Any]]:
        """Parse JSON Lines one at a time; at least the first ``most``, from the head if they are in it."""
        lines = self._head.split(b"\n")[:-1] if most is not None else []
        known = most is not None and (self._is_whole or sum(map(bool, map(bytes.strip, lines))) >= most)
        try:
            with BytesIO(self._head) if known else open_bytes(self.path) as file:
                number, limit = 0, most_bytes()
                while line := file.readline(limit):
                    number += 1
                    if line.isspace():
                        continue
                    where = f"{self.name}, row {number}"
                    value = parse(line.strip(), self.encoding, where)
                    if not isinstance(value, dict):
                        raise FormatError(f"{where}: not JSON Lines (one JSON object on each line)")
                    yield value
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(self.path, error) from error


def _not_blank(file: IO[bytes]) -> bytes:
    return next((line for line in iter(lambda: file.readline(most_bytes()), b"") if line.strip()), b"")


def _damaged(path: Path, error: Exception) -> FormatError:
    return FormatError(f"cannot read {path.name}: it is damaged or cut short ({error})")


def most_bytes() -> int:
    """Return the size of the largest document that this machine can hold when it is parsed."""
    return max(available_bytes() // _GROWTH, _ALWAYS)


@contextmanager
def no_collection() -> Iterator[None]:
    """Switch garbage collection off: it would search millions of parsed objects for cycles, and JSON has none."""
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
    """Read a file, or the beginning of it; refuse a whole file that memory cannot hold."""
    limit = most_bytes() if most is None else most
    try:
        with open_bytes(path) as file:
            content = up_to(file, limit + (most is None))
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path, error) from error
    if len(content) > limit:
        raise FormatError(
            f"{path.name} has more than {limit / 1e9:.1f} GB, too much for the memory of this machine when it is "
            "parsed; export it as CSV or JSON Lines, or in parts"
        )
    return content


def up_to(file: IO[bytes], most: int) -> bytes:
    """Read at most so many bytes; memory is reserved only for what is there."""
    parts: list[bytes] = []
    left = most
    while left > 0 and (part := file.read(min(left, _PART))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def parse(content: bytes, encoding: str, where: str) -> Any:
    """Parse JSON text; an error names the line."""
    try:
        return json.loads(decode(content, encoding, where).removeprefix(_MARK))
    except json.JSONDecodeError as error:
        raise FormatError(f"{where}, line {error.lineno}: not JSON ({error.msg}, column {error.colno})") from error
    except ValueError as error:  # a number of thousands of digits
        raise FormatError(f"{where}: a number in it is too long") from error
    except RecursionError as error:
        raise FormatError(f"{where}: not an export: objects are nested hundreds of levels deep") from error


def read_text(path: Path, encoding: str, name: str, *, with_mark: bool = False) -> str:
    """Read a whole text file; an error names the line of a byte that is not text.

    A byte order mark is left out unless ``with_mark`` is set.
    """
    try:
        with open_bytes(path) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"cannot read {name}: {error}") from error
    text = decode(content, encoding, name)
    return text if with_mark else text.removeprefix(_MARK)


def decode(content: bytes, encoding: str, where: str) -> str:
    """Return bytes as text; an error names the line of a byte that is not text."""
    try:
        text = content.decode(encoding)
        text.encode()  # some encodings yield halves of characters
        return text
    except UnicodeDecodeError as error:
        before = content[: error.start]
        raise FormatError(
            f"{where}, line {before.count(10) + 1}: byte {error.start - before.rfind(10)} is not {encoding}; "
            "say how the file is encoded, for example encoding='latin-1' (--encoding latin-1)"
        ) from error
    except (LookupError, UnicodeError) as error:
        raise FormatError(f"{where} is not text in {encoding}: {error}") from error
