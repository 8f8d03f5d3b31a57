"""A file as far as its outer shape goes: a table of text, JSON, an archive, a folder.

============ ==================================================== ======================================
shape        recognised by                                        what is known of it
============ ==================================================== ======================================
``table``    text that is none of the others; Parquet             ``names`` of the header, ``delimiter``
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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from consilience.exceptions import FormatError
from consilience.io import delimited, documents

__all__ = ["SHAPES", "TABLE_ENDINGS", "Source", "ending_of", "look", "look_at_parquet", "the_file"]

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

#: Of a file so named, the text is a table, whatever it begins with.
TABLE_ENDINGS = (".csv", ".txt", ".tsv", ".tab")
_LINE_ENDINGS = (".jsonl", ".ndjson", ".manifest")

#: This much of a text, and this many records, are looked at to tell what a file is.
SAMPLE, _RECORDS = 1 << 16, 50
_LONGEST = 1 << 24


@dataclass(frozen=True)
class Source:
    """A file and its shape; the table of :mod:`consilience.io.source` says what is known of each."""

    path: Path
    encoding: str
    shape: str
    names: tuple[str, ...] = ()
    delimiter: str = ","  #: none, in a Parquet file
    sample: tuple[dict[str, Any], ...] = ()
    document: Any = field(default=None, repr=False)
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

    def records(self) -> Iterable[dict[str, Any]]:
        """Give all records of JSON, one after the other; what is no object is an error."""
        return documents.lines_of(self.path, self.encoding) if self.document is None else _objects(self)

    def fields(self) -> set[str]:
        """Give the names of the fields that the first records have."""
        return set().union(*self.sample)

    def columns(self, wanted: Iterable[str]) -> pa.Table:
        """Read columns of a table as text; values may run over line ends."""
        names = list(dict.fromkeys(wanted))
        if not self.delimiter:
            return _texts_of_parquet(self.path, names)

        def pick(_: list[str]) -> list[str]:
            return names

        return delimited.read_text(self.path, pick, self.encoding, self.delimiter)

    def first_rows(self, most: int) -> list[list[str]]:
        """Give the first rows of a table as text; none where they cannot be told apart."""
        if not self.delimiter:
            table = _texts_of_parquet(self.path, list(self.names), most)
            return [["" if v is None else v for v in row] for row in zip(*table.to_pydict().values(), strict=True)]
        try:
            lines = csv.reader(self.text().splitlines()[: most + 1], delimiter=self.delimiter)
            return [row for row in lines if row][1:]
        except csv.Error:
            return []

    def text(self) -> str:
        """Give the first characters of a text, up to the end of a line."""
        if not self.delimiter:
            return ""
        # of a table with thousands of columns, some rows
        most = min(max(SAMPLE, 20 * sum(len(name) + 1 for name in self.names)), _LONGEST)
        raw = documents.read_bytes(self.path, most)
        try:
            text = raw.decode(self.encoding, "replace").removeprefix("\ufeff")
        except (LookupError, UnicodeError):
            return ""  # for the reader to complain about
        return text if len(raw) < most else text[: max(text.rfind("\n"), 0)]


def look(path: Path, encoding: str, *, by_name: bool = True) -> Source:
    """Tell the shape of a file, by its name where that decides, and by what stands in it."""
    if path.is_dir():
        members = tuple(sorted(f.relative_to(path).as_posix() for f in islice(_files(path), 10_000)))
        return Source(path, encoding, "folder", members=members)
    first = documents.read_bytes(path, 512)
    for shape, magic in (("array", b"\x93NUMPY"), ("parquet", b"PAR1")):
        if first.startswith(magic):
            return Source(path, encoding, shape)
    if first.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return Source(path, encoding, "zip", members=_zipped(path))
    ending = ending_of(path)
    begins = first.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if begins in (b"{", b"[") and not (by_name and ending in TABLE_ENDINGS):
        return _json(path, encoding, begins == b"{", ending)
    return _table(path, encoding, "\t" if ending in (".tsv", ".tab") else None)


def look_at_parquet(path: Path, encoding: str) -> Source | None:
    """Take a Parquet file for a table of text; None where it cannot be read as one."""
    import pyarrow.parquet as pq

    try:
        return Source(path, encoding, "table", names=tuple(pq.read_schema(path).names), delimiter="")
    except (pa.ArrowException, OSError, UnicodeError):
        return None  # for the reader of tables to complain about


def _texts_of_parquet(path: Path, names: list[str], most: int | None = None) -> pa.Table:
    """Read columns of a Parquet file as text, whole numbers without a point; or the first rows of them."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
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
        texts.validate(full=True)  # a damaged file can hold text that is none
        return texts
    except (pa.ArrowException, OSError, KeyError, UnicodeError) as error:
        raise FormatError(f"cannot read {path.name} as a table of text: {str(error).splitlines()[0]}") from error


def the_file(path: str | os.PathLike[str]) -> Path:
    """Give the only file of a folder that has one, such as an unpacked export; else the path itself."""
    place = Path(path)
    if not place.is_dir():
        return place
    files = list(islice(_files(place), 2))
    return files[0] if len(files) == 1 and ending_of(files[0]) not in (".ann", ".parquet", ".pq") else place


def ending_of(path: Path) -> str:
    """Give the ending of a file's name, without that of gzip."""
    return next((ending.lower() for ending in reversed(path.suffixes) if ending.lower() != ".gz"), "")


def _files(path: Path) -> Iterator[Path]:
    walk: Callable[[Path], Any] = os.walk
    for folder, folders, files in walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder) / name for name in sorted(files) if not name.startswith("."))


def _zipped(path: Path) -> tuple[str, ...]:
    try:
        with zipfile.ZipFile(path) as archive:
            return tuple(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
        raise FormatError(f"cannot read {path.name}: it is not a whole zip file ({error})") from error


def _json(path: Path, encoding: str, an_object: bool, ending: str) -> Source:
    if ending not in _LINE_ENDINGS and not (an_object and _is_lines(path)):
        return _document(path, encoding)
    sample: list[dict[str, Any]] = []
    try:
        if an_object:
            sample.extend(islice(documents.lines_of(path, encoding), _RECORDS))
    except FormatError:
        pass  # what was read before counts; the reader will complain
    return Source(path, encoding, "records", sample=tuple(sample))


def _is_lines(path: Path) -> bool:
    """Tell whether a file that begins with an object has others on lines of their own."""
    line = documents.first_line(path)
    if not line.endswith(b"\n") or not line.strip().endswith(b"}"):
        return False
    try:
        documents.parse(line, "utf-8", path.name)
    except FormatError:
        return False
    return bool(documents.read_bytes(path, len(line) + 64)[len(line) :].strip())


def _document(path: Path, encoding: str) -> Source:
    document = documents.read_document(path, encoding)
    if isinstance(document, dict):
        return Source(path, encoding, "object", sample=(document,), document=document)
    sample = tuple(record for record in document[:_RECORDS] if isinstance(record, dict))
    return Source(path, encoding, "records", sample=sample, document=document)


def _objects(source: Source) -> Iterator[dict[str, Any]]:
    found = [source.document] if isinstance(source.document, dict) else source.document
    for number, value in enumerate(found, 1):
        if not isinstance(value, dict):
            raise FormatError(f"{source.name}: entry {number} is {str(value)[:60]!r}; expected an object")
        yield value


def _table(path: Path, encoding: str, delimiter: str | None) -> Source:
    try:
        names, delimiter = delimited.header_of(path, encoding, delimiter)
    except FormatError:
        names, delimiter = [], delimiter or ","  # for the reader of tables to complain about
    return Source(path, encoding, "table", names=tuple(names), delimiter=delimiter)
