"""Labels read from disk in batches of rows, for data that may be larger than memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.ids import to_column
from consilience.exceptions import ColumnError, DataError, FormatError
from consilience.io.formats import recognise
from consilience.io.source import Source

__all__ = ["Batch", "LabelFiles", "ahead", "label_files"]

T = TypeVar("T")

#: Rows of a batch: large enough to make the work per batch negligible, small enough for any memory.
_ROWS = 1 << 18
#: Bytes of a column, and of a text file, that are read at a time.
_BUFFER, _BLOCK = 1 << 20, 1 << 23
#: Text is read as a dictionary and indices if the file stores it so and the dictionary is at most this large.
_DICTIONARY = 1 << 17


class Batch(NamedTuple):
    """Rows that follow each other in one file."""

    file: Path
    row: int  #: the first, counted from 0 in its file
    columns: list[pa.Array]  #: by role, of the plain types of :func:`consilience.data.ids.to_column`


@dataclass(frozen=True)
class LabelFiles:
    """Files of one table of labels."""

    where: str  #: name of the whole
    files: tuple[Path, ...]
    columns: dict[str, str]  #: role to name: item, annotator, label
    n_rows: int  #: an upper bound, if it is not known before they are read
    untyped: bool  #: text without types: numbers are found afterwards
    reader: Callable[[Path, Sequence[str]], Iterator[pa.RecordBatch]]
    notes: tuple[str, ...] = ()  #: on the choice of columns

    def batches(self, *roles: str) -> Iterator[Batch]:
        """Yield the columns of these roles; the next batch is read while one is used."""
        return ahead(self._batches(*roles))

    def _batches(self, *roles: str) -> Iterator[Batch]:
        names = [self.columns[role] for role in roles]
        for file in self.files:
            row = 0
            for batch in self.reader(file, names):
                try:
                    columns = [to_column(batch.column(name), name) for name in names]
                except DataError as error:
                    raise type(error)(f"{file.name}: {error}") from error
                if len(batch):
                    yield Batch(file, row, columns)
                row += len(batch)

    def state(self) -> list[list[Any]]:
        """Return path, size and modification time of every file, to detect changes."""
        stats = [(file, file.stat()) for file in self.files]
        return [[str(file.resolve()), stat.st_size, stat.st_mtime_ns] for file, stat in stats]


def label_files(
    path: str | os.PathLike[str],
    *,
    format: str | None,  # noqa: A002 - as in read
    given: dict[str, str | None],
    encoding: str,
) -> LabelFiles:
    """Describe a Parquet file, a folder of them, or a table of text, without reading its rows.

    Parameters
    ----------
    path, format, encoding
        As for :func:`consilience.read`.
    given
        Names of the columns by role, None for those to be recognised.
    """
    place = Path(path)
    named = bool(given["annotator"] or given["label"])
    found = recognise(path, format, encoding=encoding, columns=named)

    notes: list[str] = []

    def pick(columns: Sequence[str]) -> dict[str, str]:
        found = _frames.find_columns(columns, given, place.name)
        if len(set(found.values())) < len(found):
            raise ColumnError(f"{place.name}: item, annotator and label must be three different columns, got {found}")
        notes[:] = _frames.notes_on_columns(columns, given, found)
        return found

    if found.name == "parquet" and place.suffix.lower() != ".gz":
        return replace(_parquet(place, pick), notes=tuple(notes))
    if found.name in ("csv", "tsv"):
        delimiter = "\t" if found.name == "tsv" else None
        return replace(_delimited(found.source, pick, delimiter), notes=tuple(notes))
    raise FormatError(f"{place.name} cannot be read in batches, only Parquet and CSV files can; use read(…) instead")


Picked = Callable[[Sequence[str]], dict[str, str]]


def _parquet(place: Path, pick: Picked) -> LabelFiles:
    import pyarrow.parquet as pq

    from consilience.io.parquet import check_columns, files_of, whole

    files = files_of(place)
    footers = []
    for file in files:
        with whole(file):
            footers.append(pq.read_metadata(file))
    schemas = [footer.schema.to_arrow_schema() for footer in footers]
    columns = pick(schemas[0].names)
    check_columns(files, schemas, list(columns.values()))

    def read(file: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with whole(file):
            footer = pq.read_metadata(file)
            texts = [name for name in names if name != columns["item"] and _has_dictionary(footer, name)]
            # pages as they are needed: a group of rows may be larger than memory
            options = {"metadata": footer, "read_dictionary": texts, "buffer_size": _BUFFER, "pre_buffer": False}
            with pq.ParquetFile(file, **options) as content:
                yield from content.iter_batches(_ROWS, columns=list(names))

    n_rows = sum(footer.num_rows for footer in footers)
    return LabelFiles(place.name, tuple(files), columns, n_rows, False, read)


def _has_dictionary(footer: Any, name: str) -> bool:
    """Return whether a column of text is stored as a dictionary small enough to be used for all its values."""
    schema = footer.schema.to_arrow_schema()
    if not footer.num_row_groups or not pa.types.is_string(schema.field(name).type):
        return False
    group = footer.row_group(0)
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema == name:
            at = column.dictionary_page_offset
            return at is not None and column.data_page_offset - at <= _DICTIONARY
    return False


def _delimited(source: Source, pick: Picked, delimiter: str | None) -> LabelFiles:
    from consilience.io import delimited

    place = source.path
    columns = pick(delimited.header_of(source, delimiter)[0])

    def read(_: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return delimited.read_batches(source, names, delimiter, _BLOCK)

    # the shortest row is "a,b,c" and its line end; packed text is rarely a tenth of what it was
    most = place.stat().st_size * (10 if place.suffix.lower() == ".gz" else 1) // 6 + 1
    return LabelFiles(place.name, (place,), columns, most, True, read)


def ahead(source: Iterator[T]) -> Generator[T]:
    """Yield from an iterator, computing the next value in a thread meanwhile."""
    with ThreadPoolExecutor(1, thread_name_prefix="consilience-read") as pool:
        coming = pool.submit(next, source, None)
        while (made := coming.result()) is not None:
            coming = pool.submit(next, source, None)
            yield made
