"""Parquet: a file, or a folder of files with the same columns."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from consilience.exceptions import FormatError

__all__ = ["read"]


def read(path: Path, pick: Callable[[list[str]], list[str]], encoding: str) -> pa.Table:
    """Read the columns picked; strings are left in their dictionaries."""
    try:
        files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise FormatError(f"{path} is a folder without .parquet files")
        # A gzipped file has to be unpacked whole: Parquet is read from its end.
        packed = not path.is_dir() and path.suffix.lower() == ".gz"
        source = pa.BufferReader(gzip.decompress(path.read_bytes())) if packed else None
        schema = pq.read_schema(source or files[0])
        wanted = pick(schema.names)
        texts = [name for name in wanted if pa.types.is_string(schema.field(name).type)]
        return pq.read_table(source or path, columns=wanted, read_dictionary=texts)
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise FormatError(f"cannot read {path.name}: it is not a whole Parquet file ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:160] if str(error) else type(error).__name__
