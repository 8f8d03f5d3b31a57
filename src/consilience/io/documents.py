"""Bytes, text and JSON from files, gzipped or not, within the memory of the machine.

A JSON document is parsed in one go, which takes several times its size; a document that is too large for that is
refused before it is read.  JSON Lines are parsed one at a time.  A gzipped file can expand a thousandfold: beyond
half of the memory, or the limit of :func:`expanding_to`, it is refused.
"""

from __future__ import annotations

import gc
import gzip
import json
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from typing import IO, Any, cast

from consilience.exceptions import FormatError
from consilience.memory import available_bytes, memory_bytes

__all__ = [
    "File",
    "Pick",
    "check_is_file",
    "decode",
    "expanding_to",
    "how_encoded",
    "most_bytes",
    "no_collection",
    "open_bytes",
    "packed_or_path",
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
#: The limit that a caller set on what a file may expand to.
_limit: ContextVar[int | None] = ContextVar("limit", default=None)


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
        end = self.line_end
        for most in (512, _HEAD, _LONGEST_LINE):
            head = self.head(most)
            at = head.find(end)
            while at % len(end) > 0:  # half of a character and half of the next one
                at = head.find(end, at + 1)
            if at >= 0:
                return head[: at + len(end)]
        return self.head(_LONGEST_LINE)

    @property
    def line_end(self) -> bytes:
        """The line end in this encoding: a character of UTF-16 has two bytes, one of UTF-32 four."""
        wide = re.fullmatch(r"utf[-_]?(16|32)([-_]?[bl]e)?", self.encoding.lower())
        if not wide:
            return b"\n"
        big = wide[2].endswith("be") if wide[2] else self.head(4).lstrip(b"\0").startswith(b"\xfe\xff")
        return "\n".encode(f"utf-{wide[1]}-{'be' if big else 'le'}")

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
    return _limit.get() or max(available_bytes() // _GROWTH, _ALWAYS)


@contextmanager
def expanding_to(max_bytes: int | str | None) -> Iterator[None]:
    """Set how large the content of a file may be in memory; None for the limit set before, or a share of memory."""
    token = _limit.set(_limit.get() if max_bytes is None else memory_bytes(max_bytes, "max_bytes"))
    try:
        yield
    finally:
        _limit.reset(token)


def check_is_file(path: Path) -> None:
    """Raise unless the path is a file or a folder: a pipe or a device cannot be read twice."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise FormatError(f"{path} is {kind}, not a file: its content is read more than once. Save it to a file first")


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
    """Open a file, gzipped or not; reading a gzipped file raises when it has expanded beyond the limit."""
    if path.suffix.lower() != ".gz":
        return path.open("rb")
    return cast("IO[bytes]", BufferedReader(_Unpacked(path, _limit.get() or memory_bytes(None)), _HEAD))


@contextmanager
def packed_or_path(path: Path) -> Iterator[Any]:
    """Yield a file as pyarrow reads it best: the path, or if it is gzipped the content, up to the limit."""
    if path.suffix.lower() == ".gz":
        with open_bytes(path) as file:
            yield file
    else:
        yield path


class _Unpacked(RawIOBase):
    """The content of a gzipped file, up to a limit."""

    def __init__(self, path: Path, limit: int) -> None:
        self._file, self._name, self._limit, self._passed = gzip.GzipFile(path, "rb"), path.name, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = self._file.readinto(buffer)
        self._passed += n
        if self._passed > self._limit:
            raise FormatError(
                f"{self._name} expands to more than {self._limit / 1e9:.3g} GB. Unpack it and use --engine stream, or "
                "raise the limit with max_bytes=… (--max-bytes …)"
            )
        return n

    def close(self) -> None:
        self._file.close()
        super().close()


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
            f"{path.name} has more than {limit / 1e9:.3g} GB, too much for the memory of this machine when it is "
            "parsed; export it as CSV or JSON Lines, or in parts, or raise the limit with max_bytes=… (--max-bytes …)"
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
    text = decode(content, encoding, where).removeprefix(_MARK)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if 0 in content[:64]:
            raise FormatError(f"{where}: not JSON; {how_encoded(content)}") from error
        raise FormatError(f"{where}, line {error.lineno}: not JSON ({error.msg}, column {error.colno})") from error
    except ValueError as error:  # a number of thousands of digits
        raise FormatError(f"{where}: a number in it is too long") from error
    except RecursionError as error:
        raise FormatError(f"{where}: not an export: objects are nested hundreds of levels deep") from error


def how_encoded(content: bytes) -> str:
    """Return the advice for text that is not in the encoding expected.

    UTF-16 and UTF-32 have marks or many zero bytes at their start.
    """
    zeros, mark = content[:64].count(0), content.startswith((b"\xff\xfe", b"\xfe\xff"))
    if 0 < zeros <= 8 and not mark:
        return "take the zero bytes out"
    longest = content.startswith(b"\xff\xfe\0\0") or zeros > 2 * len(content[:64]) / 3
    wide = mark or zeros > 0
    name = "utf-32" if longest else "utf-16" if wide else "latin-1"
    guess = f"it looks like {name.upper()}: say so with" if wide else "say how the file is encoded, for example"
    return f"{guess} encoding={name!r} (--encoding {name})"


def read_text(path: Path, encoding: str, name: str, *, with_mark: bool = False) -> str:
    """Read a whole text file; an error names the line of a byte that is not text.

    A byte order mark is left out unless ``with_mark`` is set.
    """
    try:
        with open_bytes(path) as file:
            content = b"".join(iter(lambda: file.read(_PART), b""))
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
            f"{how_encoded(content)}"
        ) from error
    except (LookupError, UnicodeError) as error:
        raise FormatError(f"{where} is not text in {encoding}: {error}") from error
