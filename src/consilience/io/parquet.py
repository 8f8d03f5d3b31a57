"""Parquet: a file, or a folder of files with the same columns."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from consilience.exceptions import ColumnError, FormatError, IdError
from consilience.io.documents import File, Pick, open_bytes

__all__ = ["check_columns", "files_of", "read", "schema_of", "whole"]


def read(source: File, pick: Pick) -> pa.Table:
    """Read the picked columns; strings stay in their dictionaries."""
    path = source.path
    if not path.is_dir() and path.suffix.lower() == ".gz":
        return _read_packed(path, pick)
    files = files_of(path)
    wanted = pick(schema_of(files[0]).names)
    schemas = [schema_of(file) for file in files]
    check_columns(files, schemas, wanted)
    tables = []
    for file, schema in zip(files, schemas, strict=True):
        with whole(file):
            tables.append(pq.read_table(file, columns=wanted, read_dictionary=_texts(schema, wanted)))
    with whole(path):
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")


def files_of(path: Path) -> list[Path]:
    """Return the files of a folder by name, or the one file; names that begin with ``.`` or ``_`` are hidden."""
    if not path.is_dir():
        return [path]
    found = sorted(path.rglob("*.parquet"))
    files = [file for file in found if not any(part[0] in "._" for part in file.relative_to(path).parts)]
    if not files:
        raise FormatError(f"{path} is a folder without .parquet files")
    return files


def schema_of(file: Path) -> pa.Schema:
    """Return the columns of a file and their types."""
    with whole(file):
        return pq.read_schema(file)


def check_columns(files: Sequence[Path], schemas: Sequence[pa.Schema], wanted: Sequence[str]) -> None:
    """Raise unless every file has these columns, and a column is of one kind in all of them."""
    for name in wanted:
        first: tuple[str, str] | None = None
        for file, schema in zip(files, schemas, strict=True):
            if name not in schema.names:
                raise ColumnError(f"{file.name} has no column {name!r}, which {files[0].name} beside it has")
            kind = _kind(schema.field(name).type)
            first = first or ((kind, file.name) if kind else None)
            if kind and first and kind != first[0]:
                raise IdError(
                    f"column {name!r} of {file.parent.name} mixes types: {first[0]} in {first[1]}, {kind} in "
                    f"{file.name}; 7 and '7' would be two different ids. Write all files with one type"
                )


def _kind(kind: pa.DataType) -> str:
    """Return the type that such ids become; nothing for a column without values."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return ""
    if pa.types.is_integer(kind):
        return "uint64" if kind == pa.uint64() else "int64"
    if pa.types.is_floating(kind):
        return "double"
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return "string"
    return str(kind)


def _texts(schema: pa.Schema, wanted: Sequence[str]) -> list[str]:
    return [name for name in wanted if pa.types.is_string(schema.field(name).type)]


def _read_packed(path: Path, pick: Pick) -> pa.Table:
    """Read a gzipped file: it has to be unpacked whole, because Parquet is read from its end."""
    with whole(path):
        with open_bytes(path) as file:
            source = pa.BufferReader(file.read())
        schema = pq.read_schema(source)
        wanted = pick(schema.names)
        return pq.read_table(source, columns=wanted, read_dictionary=_texts(schema, wanted))


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Name the file in errors that occur while it is read."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeError, zlib.error) as error:
        why = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise FormatError(f"cannot read {path.name}: it is not a whole Parquet file ({why})") from error
