"""Excel workbooks (.xlsx): the first sheet, with names in its first row; openpyxl comes with the extra ``excel``.

Cells keep their type: numbers are numbers, and a column that also has text is text.  Of a formula the value counts that
was last computed.  What is written are values: text that begins with ``=`` stays text.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from consilience.exceptions import DataError, DataWarning, FormatError, warn
from consilience.files import atomic_file
from consilience.io.documents import File, Pick, most_bytes
from consilience.io.export import column_of, text_column
from consilience.io.source import Source

__all__ = ["Sheet", "read", "write"]

#: Rows of a sheet, and characters of a cell.
_MOST_ROWS, _MOST_CHARACTERS = 1_048_576, 32_767
#: Characters that XML cannot hold.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_MISSING = ("", "#N/A")


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError as error:
        raise DataError(
            "Excel files need openpyxl, which is not installed: pip install 'consilience[excel]' brings it. Or use CSV"
        ) from error
    return openpyxl


class Sheet(Source):
    """The first sheet of a workbook, as a table."""

    @cached_property
    def shape(self) -> str:
        """A table, though the file is a zip file."""
        return "table"

    @cached_property
    def cells(self) -> dict[str, list[Any]]:
        """The columns by name."""
        library = _openpyxl()
        with _whole(self.path):
            with zipfile.ZipFile(self.path) as archive:
                size = sum(part.file_size for part in archive.infolist())
            if size > most_bytes():
                raise FormatError(
                    f"{self.name} expands to {size / 1e9:.3g} GB, too much for the memory of this machine; save it as "
                    "CSV, or raise the limit with max_bytes=… (--max-bytes …)"
                )
            book = library.load_workbook(self.path, read_only=True, data_only=True)
            try:
                titles = [sheet.title for sheet in book.worksheets]
                names, rows = _first_sheet(book.worksheets[0]) if titles else ([], [])
            finally:
                book.close()
        if not names:
            which = f"its first sheet, {titles[0]!r}, has not even a header" if titles else "it has no sheet with cells"
            raise FormatError(f"{self.name} is empty: {which}")
        if len(titles) > 1:
            warn(f"{self.name} has {len(titles)} sheets; the first, {titles[0]!r}, was read", DataWarning)
        if twice := next((name for name in names if name and names.count(name) > 1), None):
            raise FormatError(f"{self.name} has several columns named {twice!r}; rename all but one")
        return {name: [_value(row[n]) if n < len(row) else None for row in rows] for n, name in enumerate(names)}

    @cached_property
    def _header(self) -> tuple[list[str], str]:
        return list(self.cells), ""

    def columns(self, wanted: Iterable[str]) -> pa.Table:
        """Return columns as text."""
        chosen = dict.fromkeys(wanted)
        return pa.table({name: text_column(column_of(self.cells[name], name, self.name)) for name in chosen})

    def first_rows(self, most: int) -> list[list[str]]:
        """Return the first rows as text."""
        rows = zip(*(column.to_pylist() for column in self.columns(self.names)), strict=True)
        return [["" if cell is None else cell for cell in row] for row, _ in zip(rows, range(most), strict=False)]

    def text(self) -> str:
        """Return no text: a workbook is not one."""
        return ""


def _first_sheet(sheet: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names in the first row that is not blank, and the rows after it, up to the last named column."""
    sheet.reset_dimensions()  # a file can claim any size
    rows = (row for row in sheet.iter_rows(values_only=True) if any(cell is not None for cell in row))
    header = next(rows, ())
    names = ["" if name is None else str(name) for name in header]
    while names and not names[-1]:
        names.pop()
    parts = (row[: len(names)] for row in rows)
    return names, [part for part in parts if any(cell is not None for cell in part)]


def _value(cell: Any) -> Any:
    """Return a cell as JSON would have it; dates are text."""
    if isinstance(cell, datetime | date):
        return cell.isoformat()
    if cell is None or isinstance(cell, bool | int | float):
        return cell
    text = str(cell)
    return None if text.strip() in _MISSING else text


def read(source: File, pick: Pick) -> pa.Table:
    """Read the picked columns of the first sheet."""
    sheet = source if isinstance(source, Sheet) else Sheet(source.path, source.encoding)
    return pa.table({name: column_of(sheet.cells[name], name, sheet.name) for name in pick(list(sheet.cells))})


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Name the file in errors that occur while it is read: openpyxl passes on those of zip and XML."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:
        why = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise FormatError(f"cannot read {path.name}: it is not a whole Excel workbook ({why})") from error


def write(table: pa.Table, path: Path) -> None:
    """Write a table as the only sheet of a workbook, atomically."""
    library = _openpyxl()
    if table.num_rows >= _MOST_ROWS:
        raise DataError(f"{table.num_rows} items are too many for a sheet of {_MOST_ROWS} rows; write CSV or Parquet")
    from openpyxl.cell import WriteOnlyCell

    book = library.Workbook(write_only=True)
    sheet = book.create_sheet("labels")

    def row(values: Sequence[Any]) -> list[Any]:
        return [_text_cell(WriteOnlyCell(sheet), value) if isinstance(value, str) else value for value in values]

    sheet.append(row(table.column_names))
    for batch in table.to_batches():
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            sheet.append(row(values))
    with atomic_file(path) as temporary:
        book.save(temporary)


def _text_cell(cell: Any, text: str) -> Any:
    """Return a cell of text: never a formula, without characters that a workbook cannot hold."""
    cell.value = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)[:_MOST_CHARACTERS]
    cell.data_type = "s"
    return cell
