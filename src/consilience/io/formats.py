"""The formats that can be read, and how a file is recognised."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from consilience._ids import Ids
from consilience.exceptions import FormatError, ParameterError
from consilience.io import delimited, jsonl, parquet
from consilience.kernels._arrays import Codes

__all__ = ["FORMATS", "Format", "Pick", "recognise"]

#: Told the columns of a file, says which to read; raises when one is missing.
Pick = Callable[[list[str]], list[str]]


@dataclass(frozen=True)
class Format:
    """A way to read a table."""

    name: str
    endings: tuple[str, ...]
    read: Callable[[Path, Pick, str], pa.Table]
    untyped: bool = False  #: text without types: numbers are found afterwards
    #: a shorter way to codes for large files, or None where it does not apply to a file
    encode: Callable[[Path, Pick, str], list[tuple[Codes, Ids]] | None] = lambda *_: None


FORMATS: Mapping[str, Format] = {
    form.name: form
    for form in (
        Format("csv", (".csv", ".txt"), delimited.read_csv, True, delimited.encode_csv),
        Format("tsv", (".tsv", ".tab"), delimited.read_tsv, True, delimited.encode_tsv),
        Format("jsonl", (".jsonl", ".ndjson"), jsonl.read),
        Format("parquet", (".parquet", ".pq"), parquet.read),
    )
}


def recognise(path: str | os.PathLike[str], name: str | None) -> Format:
    """Tell the format of a file, by the name given or by the file's ending and first bytes."""
    place = Path(path)
    if name is not None and name not in FORMATS:
        raise ParameterError(f"there is no format {name!r}; known are {', '.join(FORMATS)}")
    if not place.exists():
        raise FormatError(f"there is no file {place}")
    if name is not None:
        return FORMATS[name]
    if place.is_dir():
        return FORMATS["parquet"]
    if place.stat().st_size == 0:
        raise FormatError(f"{place.name} is empty: it has not even a header")
    endings = [ending.lower() for ending in place.suffixes if ending.lower() != ".gz"]
    for form in FORMATS.values():
        if endings and endings[-1] in form.endings:
            return form
    with place.open("rb") as file:
        if file.read(4) == b"PAR1":
            return FORMATS["parquet"]
    raise FormatError(
        f"{place.name}: format not recognised; looked for the endings "
        f"{', '.join(ending for form in FORMATS.values() for ending in form.endings)} (also with .gz). "
        f"Say which it is with format='csv' (--format csv)"
    )
