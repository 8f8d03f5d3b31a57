"""Parquet: a file, or a folder of files with the same columns."""

from __future__ import annotations

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
        schema = pq.read_schema(files[0])
        wanted = pick(schema.names)
        texts = [name for name in wanted if pa.types.is_string(schema.field(name).type)]
        return pq.read_table(path, columns=wanted, read_dictionary=texts)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"cannot read {path.name}: it is not a whole Parquet file ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:160] if str(error) else type(error).__name__
