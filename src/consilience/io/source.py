"""A file or a folder and its outer shape: a table of text, JSON, an archive.

============ ==================================================== ======================================
shape        recognised by                                        known of it
============ ==================================================== ======================================
``table``    text of none of the other shapes; Parquet            ``names`` of the header, ``delimiter``
``records``  JSON: an array of objects, or an object on each line ``sample``, the first of them
``object``   JSON: one object                                     ``document``, also its ``sample``
``array``    the first bytes of ``.npy``                          nothing
``zip``      the first bytes                                      ``members``, the files in it
``parquet``  the first bytes                                      nothing
``folder``                                                        ``members``, the files in it
============ ==================================================== ======================================
"""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from consilience.exceptions import FormatError
from consilience.io import delimited
from consilience.io.documents import File, parse

__all__ = [
    "SHAPES",
    "TABLE_ENDINGS",
    "Source",
    "ending_of",
    "files_below",
    "parquet_table",
    "several_files",
    "the_file",
]

#: Shapes, as messages call them.
SHAPES = {
    "table": "a table of text",
    "records": "JSON records",
    "object": "a JSON object",
    "array": "a numpy array",
    "zip": "a zip file",
    "parquet": "a Parquet file",
    "folder": "a folder",
}

#: A file with such an ending is a table of text, whatever it begins with.
TABLE_ENDINGS = (".csv", ".txt", ".tsv", ".tab")
_LINE_ENDINGS = (".jsonl", ".ndjson", ".manifest")
_MAGIC = {b"\x93NUMPY": "array", b"PAR1": "parquet", b"PK\x03\x04": "zip", b"PK\x05\x06": "zip"}

#: How much of a text, and how many records, are examined to recognise a format.
_SAMPLE, _RECORDS = 1 << 16, 50
_LONGEST = 1 << 24


class Source(File):
    """A file and its shape; what is known of each is in the table of :mod:`consilience.io.source`.

    Everything is found out when it is first asked for, and the beginning of the file is read once.  ``by_name`` says
    whether the ending of the name makes text a table.
    """

    def __init__(self, path: Path, encoding: str = "utf-8", *, by_name: bool = True) -> None:
        super().__init__(path, encoding)
        self._by_name = by_name

    @cached_property
    def shape(self) -> str:
        """One of :data:`SHAPES`."""
        if self.path.is_dir():
            return "folder"
        first = self.head(512)
        for magic, shape in _MAGIC.items():
            if first.startswith(magic):
                return shape
        begins = first.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if begins not in (b"{", b"[") or (self._by_name and ending_of(self.path) in TABLE_ENDINGS):
            return "table"
        return "records" if begins == b"[" or self.has_json_lines else "object"

    @cached_property
    def has_json_lines(self) -> bool:
        """Whether JSON has an object on each line, by the ending or because the first line holds a whole object."""
        if ending_of(self.path) in _LINE_ENDINGS:
            return True
        line = self.first_text()
        if not line.endswith(b"\n") or not line.strip().endswith(b"}"):
            return False
        try:
            parse(line, "utf-8", self.name)
        except FormatError:
            return False
        return bool(self.head(len(line) + 64)[len(line) :].strip())

    @cached_property
    def document(self) -> Any:
        """The parsed JSON document; None for JSON Lines and other shapes."""
        return self.read_document() if self.shape in ("records", "object") and not self.has_json_lines else None

    @cached_property
    def sample(self) -> tuple[dict[str, Any], ...]:
        """The first records of JSON; a JSON object is one record."""
        if self.shape not in ("records", "object"):
            return ()
        if not self.has_json_lines:
            entries = [self.document] if self.shape == "object" else self.document[:_RECORDS]
            return tuple(entry for entry in entries if isinstance(entry, dict))
        records: list[dict[str, Any]] = []
        with suppress(FormatError):  # for the reader to complain about; the records before it count
            records.extend(islice(self.json_lines(_RECORDS), _RECORDS))
        return tuple(records)

    def fields(self) -> set[str]:
        """Return the names of the fields of the first records."""
        return set().union(*self.sample)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield all records of JSON; an entry that is not an object is an error."""
        if self.document is None:
            yield from self.json_lines()
            return
        for number, value in enumerate([self.document] if self.shape == "object" else self.document, 1):
            if not isinstance(value, dict):
                raise FormatError(f"{self.name}: entry {number} is {str(value)[:60]!r}; expected an object")
            yield value

    @cached_property
    def members(self) -> tuple[str, ...]:
        """Names of the files in a folder or a zip file."""
        if self.shape == "folder":
            inside = islice(files_below(self.path), 10_000)
            return tuple(sorted(file.relative_to(self.path).as_posix() for file in inside))
        if self.shape != "zip":
            return ()
        try:
            with zipfile.ZipFile(self.path) as archive:
                return tuple(archive.namelist())
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
            raise FormatError(f"cannot read {self.name}: it is not a whole zip file ({error})") from error

    @cached_property
    def files(self) -> tuple[Source, ...]:
        """The files in a folder."""
        return tuple(Source(self.path / name, self.encoding) for name in self.members)

    @cached_property
    def _header(self) -> tuple[list[str], str]:
        if self.shape != "table":
            return [], ","
        delimiter = "\t" if ending_of(self.path) in (".tsv", ".tab") else None
        try:
            return delimited.header_of(self, delimiter)
        except FormatError:
            return [], delimiter or ","  # for the reader of tables to complain about

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of a table."""
        return tuple(self._header[0])

    @property
    def delimiter(self) -> str:
        """What separates the columns of a table of text."""
        return self._header[1]

    def columns(self, wanted: Iterable[str]) -> pa.Table:
        """Read columns of a table as text; values may contain line ends."""
        return delimited.read_text(self, list(dict.fromkeys(wanted)), self.delimiter)

    def first_rows(self, most: int) -> list[list[str]]:
        """Return the first rows of a table as text; none if the text cannot be split into rows."""
        try:
            lines = csv.reader(self.text().splitlines()[: most + 1], delimiter=self.delimiter)
            return [row for row in lines if row][1:]
        except csv.Error:
            return []

    def text(self) -> str:
        """Return the beginning of a text, up to the end of a line."""
        # a table with thousands of columns needs more for some rows
        most = min(max(_SAMPLE, 20 * sum(len(name) + 1 for name in self.names)), _LONGEST)
        raw = self.head(most)
        try:
            text = raw.decode(self.encoding, "replace").removeprefix("\ufeff")
        except (LookupError, UnicodeError):
            return ""  # for the reader to complain about
        return text if len(raw) < most else text[: max(text.rfind("\n"), 0)]


class _Files(Source):
    """Several files, as if they were alone in a folder."""

    def __init__(self, paths: Sequence[Path], encoding: str = "utf-8") -> None:
        super().__init__(paths[0].parent, encoding)
        self._paths = tuple(paths)

    @property
    def name(self) -> str:
        return f"{self._paths[0].name} and {len(self._paths) - 1} more"

    @cached_property
    def shape(self) -> str:
        return "folder"

    @cached_property
    def members(self) -> tuple[str, ...]:
        return tuple(map(str, self._paths))

    @cached_property
    def files(self) -> tuple[Source, ...]:
        return tuple(Source(path, self.encoding) for path in self._paths)


class _ParquetTable(Source):
    """A Parquet file read as a table of text."""

    def __init__(self, path: Path, encoding: str, names: list[str]) -> None:
        super().__init__(path, encoding)
        self._columns = names

    @cached_property
    def shape(self) -> str:
        return "table"

    @cached_property
    def _header(self) -> tuple[list[str], str]:
        return self._columns, ""

    def columns(self, wanted: Iterable[str]) -> pa.Table:
        return self._texts(list(dict.fromkeys(wanted)))

    def first_rows(self, most: int) -> list[list[str]]:
        table = self._texts(list(self.names), most)
        return [["" if v is None else v for v in row] for row in zip(*table.to_pydict().values(), strict=True)]

    def text(self) -> str:
        return ""

    def _texts(self, names: list[str], most: int | None = None) -> pa.Table:
        """Read columns, or their first rows, as text; whole numbers have no decimal point."""
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.path) as file:
                if most is None:
                    table = file.read(columns=names)
                else:
                    batches = list(islice(file.iter_batches(most, columns=names), 1))
                    table = pa.Table.from_batches(batches, None if batches else file.schema_arrow)
            columns = {}
            for name in names:
                column = table[name]
                if pa.types.is_floating(column.type):
                    column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
                columns[name] = column.cast(pa.string())
            texts = pa.table(columns)
            texts.validate(full=True)  # a damaged file can hold invalid UTF-8
            return texts
        except (pa.ArrowException, OSError, KeyError, UnicodeError) as error:
            raise FormatError(f"cannot read {self.name} as a table of text: {str(error).splitlines()[0]}") from error


def parquet_table(path: Path, encoding: str) -> Source | None:
    """Return a Parquet file as a table of text; None if it cannot be read as one."""
    import pyarrow.parquet as pq

    try:
        return _ParquetTable(path, encoding, pq.read_schema(path).names)
    except (pa.ArrowException, OSError, UnicodeError):
        return None  # for the reader of tables to complain about


def several_files(paths: Sequence[Path], encoding: str) -> Source:
    """Return several files as if they were alone in a folder."""
    return _Files(paths, encoding)


def the_file(path: str | os.PathLike[str]) -> Path:
    """Return the only file of a folder that has one, such as an unpacked export; else the path itself."""
    place = Path(path)
    if not place.is_dir():
        return place
    files = list(islice(files_below(place), 2))
    return files[0] if len(files) == 1 and ending_of(files[0]) not in (".ann", ".parquet", ".pq") else place


def ending_of(path: Path) -> str:
    """Return the ending of a file's name in lower case, without that of gzip."""
    return next((ending.lower() for ending in reversed(path.suffixes) if ending.lower() != ".gz"), "")


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder and below in a fixed order, without hidden ones; linked folders are not entered."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(files) if not name.startswith("."))
