"""Tables of text: CSV and TSV.

All values are read as text; what is a number is decided afterwards, on the few different values (see
:func:`consilience.data.ids.numbers_where_all_are`), so that the ids 007 and 7 stay two.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from consilience.data.ids import Ids, without_blanks
from consilience.exceptions import FormatError
from consilience.kernels._arrays import Codes

__all__ = ["encode_csv", "encode_tsv", "header_of", "read_batches", "read_csv", "read_text", "read_tsv"]

Pick = Callable[[list[str]], list[str]]

#: Files of at least this many bytes are worth loading the compiled sweep for.
_LARGE = 1 << 20

#: What stands for "no value".  "NA", "N/A" and "None" do not: they can be answers.
_MISSING = ["", "NaN", "nan", "null", "NULL", "<NA>", "#N/A"]


def read_csv(path: Path, pick: Pick, encoding: str) -> pa.Table:
    """Read comma-separated values; semicolons, tabs and bars are recognised in the header."""
    return _read(path, pick, encoding, None)


def read_tsv(path: Path, pick: Pick, encoding: str) -> pa.Table:
    """Read tab-separated values."""
    return _read(path, pick, encoding, "\t")


def encode_csv(path: Path, pick: Pick, encoding: str) -> list[tuple[Codes, Ids]] | None:
    """Code the picked columns of a large plain file without making strings; None where that cannot be done."""
    return _encode(path, pick, encoding, None)


def encode_tsv(path: Path, pick: Pick, encoding: str) -> list[tuple[Codes, Ids]] | None:
    """Do the same for tab-separated values."""
    return _encode(path, pick, encoding, "\t")


def header_of(path: Path, encoding: str, delimiter: str | None = None) -> tuple[list[str], str]:
    """Give the names of the columns, and what separates them."""
    header = _header(path, encoding)
    delimiter = delimiter or _delimiter(header)
    return _names(path, header, delimiter), delimiter


def _read(path: Path, pick: Pick, encoding: str, delimiter: str | None) -> pa.Table:
    table = read_text(path, pick, encoding, delimiter)
    _refuse_line_ends(path, table)
    return table


def read_text(path: Path, pick: Pick, encoding: str, delimiter: str | None) -> pa.Table:
    """Read columns as text, with the line ends that are in them."""
    names, delimiter = header_of(path, encoding, delimiter)
    wanted = pick(names)
    if not wanted:  # to pyarrow, no names mean all columns, under whatever names
        return pa.table({})
    try:
        table = pacsv.read_csv(path, *_options(names, wanted, delimiter, encoding))
    except _TROUBLE as error:
        if _has_no_rows(error):
            return pa.table({name: pa.array([], pa.string()) for name in wanted})
        raise _explained(path, names, delimiter, encoding, error) from error
    return table


def read_batches(
    path: Path, wanted: Sequence[str], encoding: str, delimiter: str | None, size: int
) -> Iterator[pa.RecordBatch]:
    """Read columns as text, about ``size`` bytes of the file at a time."""
    names, delimiter = header_of(path, encoding, delimiter)
    row = 0
    try:
        with pacsv.open_csv(path, *_options(names, wanted, delimiter, encoding, size)) as reader:
            for batch in reader:
                _refuse_line_ends(path, pa.Table.from_batches([batch]), row)
                row += len(batch)
                yield batch
    except _TROUBLE as error:
        if not _has_no_rows(error):
            raise _explained(path, names, delimiter, encoding, error) from error


_TROUBLE = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError)


def _has_no_rows(error: Exception) -> bool:
    return str(error).startswith(("Empty CSV", "Could not skip initial 1 rows"))


def _options(
    names: Sequence[str], wanted: Sequence[str], delimiter: str, encoding: str, size: int | None = None
) -> tuple[pacsv.ReadOptions, pacsv.ParseOptions, pacsv.ConvertOptions]:
    parse = pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    convert = pacsv.ConvertOptions(
        include_columns=wanted,
        column_types=dict.fromkeys(wanted, pa.string()),
        null_values=_MISSING,
        strings_can_be_null=True,
    )
    return pacsv.ReadOptions(encoding=encoding, skip_rows=1, column_names=names, block_size=size), parse, convert


def _refuse_line_ends(path: Path, table: pa.Table, before: int = 0) -> None:
    """Raise when a value runs over a line end: nearly always a quote that was not closed, which swallows rows."""
    for column in table.column_names:
        runs_on = pc.match_substring(table[column], "\n")
        if pc.any(runs_on).as_py():
            row = int(np.flatnonzero(np.asarray(runs_on.fill_null(False)))[0])
            raise FormatError(
                f"{path.name}, row {before + row + 1}: the value of {column!r} runs over the end of its line: "
                f"{table[column][row].as_py()[:60]!r}. Close the quote, or take line ends out of the values"
            )


def _encode(path: Path, pick: Pick, encoding: str, delimiter: str | None) -> list[tuple[Codes, Ids]] | None:
    if path.stat().st_size < _LARGE or path.suffix.lower() == ".gz" or encoding.lower() not in ("utf-8", "utf8"):
        return None
    names, delimiter = header_of(path, encoding, delimiter)
    wanted = [names.index(name) for name in pick(names)]
    from consilience.kernels.delimited import encode_text

    text = np.memmap(path, np.uint8, "r")
    body = int(np.flatnonzero(text[: 1 << 20] == ord("\n"))[:1].sum()) + 1
    coded = encode_text(text, body, len(names), wanted, delimiter) if body > 1 else None
    if coded is None:
        return None
    columns = []
    for column in coded:
        offsets = column.name_offsets.astype(np.int32) if column.name_bytes.size < 1 << 31 else column.name_offsets
        kind = pa.StringArray if offsets.dtype == np.int32 else pa.LargeStringArray
        vocabulary = kind.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(column.name_bytes))
        # ASCII is UTF-8, and seen at a glance
        if column.name_bytes.max(initial=0) >= 128:
            try:
                vocabulary.validate(full=True)
            except pa.ArrowInvalid:
                return None  # not UTF-8: the general reader finds the line
        columns.append(without_blanks(column.codes, vocabulary, _MISSING))
    return columns


def _delimiter(header: str) -> str:
    return max(",;\t|", key=header.count)


def _open(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix.lower() == ".gz" else path.open("rb")


def _header(path: Path, encoding: str) -> str:
    try:
        with _open(path) as file:
            first = file.readline(1 << 20)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"cannot read {path.name}: it is damaged or cut short ({error})") from error
    if not first:
        raise FormatError(f"{path.name} is empty: it has not even a header")
    try:
        return first.decode("utf-8-sig" if encoding.lower().replace("-", "") == "utf8" else encoding).rstrip("\r\n")
    except (UnicodeDecodeError, LookupError) as error:
        raise FormatError(f"{path.name}: the header is not text in {encoding}: {error}") from error


def _names(path: Path, header: str, delimiter: str) -> list[str]:
    import csv

    try:
        return next(csv.reader([header], delimiter=delimiter), [])
    except csv.Error as error:
        raise FormatError(f"{path.name}: the header is not one of a table: {error}") from error


def _explained(path: Path, names: list[str], delimiter: str, encoding: str, error: Exception) -> FormatError:
    """Find the line that broke the reader, and say what to do about it."""
    import csv

    number = 1
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, 1):
                text = raw.decode(encoding)
                fields = len(next(csv.reader([text], delimiter=delimiter), []))
                if number > 1 and fields not in (0, len(names)):
                    return FormatError(
                        f"{path.name}, line {number}: {fields} fields where the header has {len(names)}: "
                        f"{text.strip()[:80]!r}. Put values that contain {delimiter!r} in double quotes"
                    )
    except UnicodeDecodeError as bad:
        return FormatError(
            f"{path.name}, line {number}: byte {bad.start + 1} is not {encoding}; say how the file is encoded, for "
            "example encoding='latin-1' (--encoding latin-1)"
        )
    except (OSError, EOFError, zlib.error, csv.Error) as broken:
        return FormatError(f"{path.name} breaks off or is damaged after line {number}: {broken}")
    return FormatError(f"cannot read {path.name}: {error}")
