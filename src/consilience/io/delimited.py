"""Tables of text: CSV and TSV.

All values are read as text.  What is a number is decided afterwards, on the few distinct values (see
:func:`consilience.data.ids.numbers_where_all_are`), so that the ids 007 and 7 stay two.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from consilience.data.ids import Ids, without_blanks
from consilience.exceptions import FormatError
from consilience.io.documents import File, Pick, how_encoded, open_bytes, packed_or_path
from consilience.kernels._arrays import Codes

__all__ = ["encode", "header_of", "read", "read_batches", "read_text"]

#: Files of at least this many bytes are worth loading the compiled loop for.
_LARGE = 1 << 20

#: What stands for "no value".  "NA", "N/A" and "None" do not: they can be answers.
_MISSING = ["", "NaN", "nan", "null", "NULL", "<NA>", "#N/A"]

_TROUBLE = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError)


def header_of(file: File, delimiter: str | None = None) -> tuple[list[str], str]:
    """Return the names of the columns, and the delimiter: unless given, the most frequent candidate in the header."""
    first = file.first_line()
    if not first:
        raise FormatError(f"{file.name} is empty: it has not even a header")
    try:
        text = first.decode(file.encoding).lstrip("\ufeff").rstrip("\r\n")
        header = text.partition("\r")[0]  # old Macintosh programs end lines so
        if "\0" in header:
            raise FormatError(f"{file.name}: the header has zero bytes; {how_encoded(first)}")
    except UnicodeDecodeError as error:
        why = how_encoded(first)
        raise FormatError(f"{file.name}: the header is not text in {file.encoding}; {why}") from error
    except (UnicodeError, LookupError) as error:
        raise FormatError(f"{file.name}: the header is not text in {file.encoding}: {error}") from error
    if not header.strip():
        raise FormatError(f"{file.name}: the first line is blank, where the names of the columns should be")
    delimiter = delimiter or max(",;\t|", key=header.count)
    try:
        return next(csv.reader([header], delimiter=delimiter), []), delimiter
    except csv.Error as error:
        raise FormatError(f"{file.name}: the header is not one of a table: {error}") from error


def read(file: File, pick: Pick, delimiter: str | None = None) -> pa.Table:
    """Read the picked columns; a value with a line end in it is an error."""
    names, delimiter = header_of(file, delimiter)
    table = read_text(file, pick(names), delimiter)
    _refuse_line_ends(file.path, table)
    return table


def read_text(file: File, wanted: Sequence[str], delimiter: str) -> pa.Table:
    """Read columns as text; values may contain line ends."""
    names, _ = header_of(file, delimiter)
    if not wanted:  # to pyarrow, no names mean all columns
        return pa.table({})
    try:
        with packed_or_path(file.path) as content:
            return pacsv.read_csv(content, *_options(names, wanted, delimiter, file.encoding))
    except _TROUBLE as error:
        if _has_no_rows(error):
            return pa.table({name: pa.array([], pa.string()) for name in wanted})
        raise _explained(file, names, delimiter, error) from error


def read_batches(file: File, wanted: Sequence[str], delimiter: str | None, size: int) -> Iterator[pa.RecordBatch]:
    """Read columns as text, about ``size`` bytes of the file at a time."""
    names, delimiter = header_of(file, delimiter)
    row = 0
    try:
        with pacsv.open_csv(file.path, *_options(names, wanted, delimiter, file.encoding, size)) as reader:
            for batch in reader:
                _refuse_line_ends(file.path, pa.Table.from_batches([batch]), row)
                row += len(batch)
                yield batch
    except _TROUBLE as error:
        if not _has_no_rows(error):
            raise _explained(file, names, delimiter, error) from error


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
    """Raise when a value contains a line end: nearly always an unclosed quote, which swallows rows."""
    for column in table.column_names:
        runs_on = pc.match_substring(table[column], "\n")
        if pc.any(runs_on).as_py():
            row = int(np.flatnonzero(np.asarray(runs_on.fill_null(False)))[0])
            raise FormatError(
                f"{path.name}, row {before + row + 1}: the value of {column!r} runs over the end of its line: "
                f"{table[column][row].as_py()[:60]!r}. Close the quote, or take line ends out of the values"
            )


def encode(file: File, pick: Pick, delimiter: str | None = None) -> list[tuple[Codes, Ids]] | None:
    """Code the picked columns of a large plain file without making strings; None where that cannot be done."""
    path = file.path
    if path.stat().st_size < _LARGE or path.suffix.lower() == ".gz" or file.encoding.lower() not in ("utf-8", "utf8"):
        return None
    names, delimiter = header_of(file, delimiter)
    wanted = [names.index(name) for name in pick(names)]
    from consilience.kernels.delimited import encode_text

    header = file.first_line()
    if len(header) == 1 or not header.endswith(b"\n") or b"\r" in header.removesuffix(b"\r\n"):
        return None
    coded = encode_text(np.memmap(path, np.uint8, "r"), len(header), len(names), wanted, delimiter)
    if coded is None:
        return None
    columns = []
    for column in coded:
        offsets = column.name_offsets.astype(np.int32) if column.name_bytes.size < 1 << 31 else column.name_offsets
        kind = pa.StringArray if offsets.dtype == np.int32 else pa.LargeStringArray
        vocabulary = kind.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(column.name_bytes))
        # ASCII is valid UTF-8, and quick to check
        if column.name_bytes.max(initial=0) >= 128:
            try:
                vocabulary.validate(full=True)
            except pa.ArrowInvalid:
                return None  # not UTF-8: the general reader finds the line
        columns.append(without_blanks(column.codes, vocabulary, _MISSING))
    return columns


def _explained(file: File, names: list[str], delimiter: str, error: Exception) -> FormatError:
    """Find the line that broke the reader, and say what to do about it."""
    number, name = 1, file.name
    try:
        with open_bytes(file.path) as content:
            # a line end of several bytes takes a decoder, which cannot say on which line it fails
            wide = file.line_end != b"\n"
            lines: Iterator[str | bytes] = TextIOWrapper(content, file.encoding) if wide else iter(content)
            for number, raw in enumerate(lines, 1):
                text = raw.decode(file.encoding) if isinstance(raw, bytes) else raw
                fields = len(next(csv.reader([text], delimiter=delimiter), []))
                if number > 1 and fields not in (0, len(names)):
                    return FormatError(
                        f"{name}, line {number}: {fields} fields where the header has {len(names)}: "
                        f"{text.strip()[:80]!r}. Put values that contain {delimiter!r} in double quotes"
                    )
    except UnicodeDecodeError as bad:
        return FormatError(
            f"{name}, line {number}: byte {bad.start + 1} is not {file.encoding}; {how_encoded(file.head(64))}"
        )
    except (OSError, EOFError, zlib.error, csv.Error) as broken:
        return FormatError(f"{name} breaks off or is damaged after line {number}: {broken}")
    return FormatError(f"cannot read {name}: {error}")
