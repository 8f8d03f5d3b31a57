"""Tables of labels and of posteriors: a row for each item, all at once or block by block."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.ids import Ids
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Bools, Codes, Floats, Ints

__all__ = [
    "TIE",
    "Choice",
    "ItemTables",
    "TableFormat",
    "chosen_columns",
    "formulas",
    "free_names",
    "label_columns",
    "without_formulas",
]

#: Posteriors that differ by less are a tie.
TIE = 1e-9

#: Rows that are written at a time.
_ROWS = 1 << 18

TableFormat = Literal["csv", "parquet"]
#: The labels of more items than this are written as Parquet by default.
_LARGE = 5_000_000


class Choice(NamedTuple):
    """The class of every item, the runner-up, and the difference of their probabilities."""

    best: Codes
    second: Codes
    margin: Floats


def label_columns(
    posterior: Floats,
    choice: Choice,
    items: Ids,
    n_labels: Ints,
    *,
    classes: Ids,
    prior: Floats,
    item: str,
    gold: bool = False,
    neighbours: bool = False,
    silence: bool = False,
) -> dict[str, pa.Array]:
    """Return the columns item, label, confidence, runner_up, margin and n_labels.

    Parameters
    ----------
    posterior, choice, items, n_labels
        Of the items, in their order.
    classes, prior
        Names and shares of the classes.
    item
        What to call the first column.
    gold
        Whether some truths were known: their items have a label even if no annotator gave one.
    neighbours
        Whether an item without labels can get one from its neighbours.
    silence
        Whether silence says something about an item: all have a label.
    """
    unlabelled = (n_labels == 0) & (not silence)
    if gold:
        unlabelled &= posterior.max(axis=1) < 1.0
    if neighbours:
        # a posterior equal to the prior means that the neighbours did not decide the label
        unlabelled &= np.abs(posterior - prior).max(axis=1) < TIE
    confidence = posterior[np.arange(choice.best.size), choice.best]
    alone = unlabelled | (len(classes) == 1)
    return chosen_columns(choice, confidence, items, n_labels, classes=classes, item=item, without=(unlabelled, alone))


def chosen_columns(
    choice: Choice,
    confidence: Floats,
    items: Ids,
    n_labels: Ints,
    *,
    classes: Ids,
    item: str,
    without: tuple[Bools, Bools],
) -> dict[str, pa.Array]:
    """Return the columns of chosen labels; ``without`` are masks of items that have no label and no runner-up."""
    unlabelled, alone = without
    names = free_names(item, ("label", "confidence", "runner_up", "margin", "n_labels"), "item")
    columns = (
        items.to_arrow(),
        classes.to_arrow().take(pa.array(choice.best, mask=unlabelled)),
        pa.array(_zero_where(unlabelled, confidence)),
        classes.to_arrow().take(pa.array(choice.second, mask=alone)),
        pa.array(_zero_where(unlabelled, choice.margin)),
        pa.array(n_labels),
    )
    return dict(zip(names, columns, strict=True))


def _zero_where(mask: Bools, values: Floats) -> Floats:
    """Return values with zeros where the mask is set; no copy where it is not: there may be millions of items."""
    return np.where(mask, 0.0, values) if mask.any() else values


def free_names(first: str, others: tuple[str, ...], fallback: str) -> tuple[str, ...]:
    """Return the names of the columns; the first keeps the user's name unless it is one of the others."""
    return (fallback if first in others else first, *others)


#: Text that spreadsheets take for a formula: what begins so and is not a number.
_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+\-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+\-]?[0-9]+)?$"


def formulas(column: Any) -> Any:
    """Return which values of a column are text that a spreadsheet takes for a formula."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return pa.array(np.zeros(len(column), bool))
    begins = pc.match_substring_regex(column, _FORMULA)
    return pc.fill_null(pc.and_not(begins, pc.match_substring_regex(column, _NUMBER)), False)


def without_formulas(table: pa.Table) -> pa.Table:
    """Return a table with an apostrophe before text that a spreadsheet takes for a formula."""
    for at, name in enumerate(table.column_names):
        column = table.column(at)
        found = formulas(column)
        if pc.any(found).as_py():
            quoted = pc.binary_join_element_wise(pa.scalar("'", column.type), column, pa.scalar("", column.type))
            table = table.set_column(at, name, pc.if_else(found, quoted, column))
    return table


class ItemTables:
    """Writer of ``labels.csv`` (or ``labels.parquet``) and ``posterior.parquet``, block by block.

    Parameters
    ----------
    folder
        The folder to write to.
    n_items
        Number of items in total.
    form
        "csv" or "parquet" for the labels; by default CSV, and Parquet for many items.
    """

    def __init__(self, folder: Path, n_items: int, form: TableFormat | None = None) -> None:
        if form is not None and form not in get_args(TableFormat):
            raise ParameterError(f"labels can be written as 'csv' or 'parquet', not {form!r}")
        self._folder = folder
        self._form = form or ("parquet" if n_items > _LARGE else "csv")
        self._labels: Any = None
        self._posterior: Any = None

    def append(self, labels: Mapping[str, Any], posterior: Floats, choice: Choice, items: Ids, n_labels: Ints) -> None:
        """Write the next items."""
        table, names, N = pa.table(dict(labels)), items.to_arrow(), len(items)
        for first in range(0, max(N, 1), _ROWS):
            some = slice(first, min(first + _ROWS, N))
            columns = {"item": names[some], "n_labels": pa.array(n_labels[some])}
            columns |= {name: pa.array(values[some]) for name, values in choice._asdict().items()}
            columns |= {f"p{k}": pa.array(posterior[some, k]) for k in range(posterior.shape[1])}
            self._write(table[some], pa.table(columns))

    def _write(self, table: Any, more: Any) -> None:
        import pyarrow.csv
        import pyarrow.parquet

        if self._labels is None:
            writer = pyarrow.csv.CSVWriter if self._form == "csv" else pyarrow.parquet.ParquetWriter
            self._labels = writer(self._folder / f"labels.{self._form}", table.schema)
            self._posterior = pyarrow.parquet.ParquetWriter(self._folder / "posterior.parquet", more.schema)
        self._labels.write_table(table)
        self._posterior.write_table(more)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in (self._labels, self._posterior):
            if writer is not None:
                writer.close()
