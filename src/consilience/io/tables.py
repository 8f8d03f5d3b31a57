"""Tables beside the labels, read by the roles of their columns: known truths, and a number for each annotator."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from consilience.data import frames
from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids, encode, numbers_where_all_are, to_column
from consilience.exceptions import DataError, FormatError
from consilience.io.formats import table_format
from consilience.kernels._arrays import Codes

__all__ = ["Columns", "naming", "read_columns", "read_items", "read_per_annotator", "read_truth", "read_truths"]


class Columns(NamedTuple):
    """Columns of a table by role."""

    place: Path
    table: pa.Table
    names: dict[str, str]  #: role to name
    untyped: bool  #: text without types

    def coded(self, role: str, *, as_text: bool = False) -> tuple[Codes, Ids]:
        """Return the codes of a column of ids, -1 where missing, and the ids; numbers are found unless ``as_text``."""
        with naming(self.place):
            codes, ids = encode(to_column(self.table[self.names[role]], self.names[role]))
        return codes, numbers_where_all_are(ids) if self.untyped and not as_text else ids

    def ids(self, role: str) -> pa.Array:
        """Return a column of ids, null where missing."""
        codes, ids = self.coded(role)
        return ids.to_arrow().take(pa.array(codes, mask=codes < 0))

    def numbers(self, role: str, complaint: str) -> pa.ChunkedArray:
        """Return a column of numbers; what is no number is an error."""
        try:
            return pc.cast(self.table[self.names[role]], pa.float64())
        except pa.ArrowInvalid as error:
            raise DataError(f"{self.place.name}: {complaint} ({error})") from error


def read_columns(
    path: str | os.PathLike[str],
    format: str | None,  # noqa: A002 - as in read
    encoding: str,
    find: Callable[[list[str]], dict[str, str]],
    purpose: str,
    *,
    line_ends: bool = False,
) -> Columns:
    """Read the columns that ``find`` chooses, by role; a table without rows is an error, with the ``purpose``.

    Values may contain ``line_ends`` where they are texts; elsewhere a quote was not closed.
    """
    source, form = table_format(path, format, encoding)
    names: dict[str, str] = {}

    def pick(columns: list[str]) -> list[str]:
        names.update(find(columns))
        return list(names.values())

    texts = line_ends and form.untyped
    table = source.columns(pick([*source.names])) if texts else form.read(source, pick)
    if table.num_rows == 0:
        raise DataError(f"{source.name} has no rows: it {purpose}")
    return Columns(source.path, table, names, form.untyped)


def read_truth(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - as in read
    item: str | None = None,
    label: str | None = None,
    encoding: str = "utf-8",
    like: Annotations | None = None,
) -> pa.Table:
    """Read known truths: a table with an item and a label column, to be passed as ``gold`` or compared with.

    Parameters
    ----------
    path, format, encoding
        As for :func:`consilience.read`.
    item, label
        Names of the columns, if they are not recognised.
    like
        Labels whose own column names are recognised too.
    """
    where, origin = Path(path).name, like.origin if like is not None else Origin()

    def find(columns: list[str]) -> dict[str, str]:
        item_name = item or (origin.item if origin.item in columns else None)
        found = frames.find_column(columns, "item", item_name, where)
        label_name = label or (origin.label if origin.label in columns else None)
        return {"item": found, "label": frames.find_truth_column(columns, found, label_name, where)}

    read = read_columns(path, format, encoding, find, "names no truth")
    return pa.table({role: read.ids(role) for role in read.names})


def read_truths(path: str | os.PathLike[str], *, encoding: str = "utf-8") -> dict[str, pa.Table]:
    """Read known truths of several questions: a table with an item column and a column for each question.

    The item column has a usual name, or is the first.
    """

    def find(columns: list[str]) -> dict[str, str]:
        usual = [name for name in columns if name.strip().lower() in frames.ALIASES["item"]]
        item = (usual or columns)[0]
        return {"item": item} | {f"of {name}": name for name in columns if name != item}

    read = read_columns(path, None, encoding, find, "names no truth")
    items = read.ids("item")
    return {read.names[role]: pa.table({"item": items, "label": read.ids(role)}) for role in [*read.names][1:]}


def read_items(path: str | os.PathLike[str], own: Mapping[str, str], *, encoding: str = "utf-8") -> pa.Table:
    """Read which items there are: a table with a column for each role of ``own``, under that name or a usual one."""
    where = Path(path).name

    def find(columns: list[str]) -> dict[str, str]:
        return {
            role: frames.find_column(columns, role, name if name in columns else None, where)
            for role, name in own.items()
        }

    read = read_columns(path, None, encoding, find, "names no items")
    return pa.table({role: read.ids(role) for role in read.names})


def read_per_annotator(
    path: str | os.PathLike[str], what: str, *, annotator: str | None = None, encoding: str = "utf-8"
) -> pa.Table:
    """Read a number for each annotator, such as a cost or a capacity.

    Parameters
    ----------
    path, encoding
        As for :func:`consilience.read`.
    what
        Name of the column of numbers, such as "cost"; any name will do if it is the only other column.
    annotator
        Name of the annotator column, if it is not recognised.
    """
    where = Path(path).name

    def find(columns: list[str]) -> dict[str, str]:
        own = annotator if annotator in columns else None
        who = frames.find_column(columns, "annotator", own, where)
        rest = [name for name in columns if name != who]
        found = next((name for name in rest if name.strip().lower() == what), rest[0] if len(rest) == 1 else None)
        if found is None:
            raise frames.no_column(what, columns, where)
        return {"annotator": who, what: found}

    read = read_columns(path, None, encoding, find, f"names no {what}")
    numbers = read.numbers(what, f"the column {read.names[what]!r} must hold numbers")
    return pa.table({"annotator": read.ids("annotator"), what: numbers})


@contextmanager
def naming(place: Path) -> Iterator[None]:
    """Put the file's name before errors about its values."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"{place.name}: {error}") from error
    except (pa.ArrowException, UnicodeError) as error:
        why = str(error).splitlines()[0]
        raise FormatError(f"cannot read {place.name}: its values are damaged ({why})") from error
