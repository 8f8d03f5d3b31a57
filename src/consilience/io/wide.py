"""Wide tables: a row for each item, a column for each annotator, an empty cell (or -1) for no label.

::

    ,w1,w2,w3            item,ann,bob,gold
    1,0,1,               q1,cat,dog,cat

========== ============================================================================================
item       a column named so (:data:`consilience.data.frames.ALIASES`) or without a name; or else the first, if its
           values are all different and most of them are in no other column; or else the row number
annotator  the name of each other column
gold       a column called ``gold``, ``truth`` or ``true_label``
========== ============================================================================================

A table is wide if it has no column of annotators and none of labels, every item has one row, and the columns share
their values, as answers to one question do.  In a long table with other column names, annotators and labels share no
values, or an item has several rows.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pyarrow as pa

from consilience.data.frames import ALIASES, TRUTHS, no_column
from consilience.data.ids import Ids, encode, without_code
from consilience.exceptions import ColumnError, DataError
from consilience.io.export import Export, refuse_question
from consilience.io.source import Source

__all__ = ["numbered", "read", "recognise"]

_ROWS = 1000
#: This share of the cells must hold a value that other columns have too: if the items are known, and otherwise.
_COMMON, _COMMON_ALONE = 0.5, 0.9


def recognise(source: Source) -> str | None:
    """Return why this is such a table, or None."""
    if len(set(source.names)) < max(len(source.names), 2):
        return None
    called = [name.strip().lower() for name in source.names]
    place = _item(source)
    votes = [n for n, name in enumerate(called) if n != place and name not in TRUTHS]
    if len(votes) < 2 or any(not source.names[n].strip() for n in votes):
        return None
    rows = source.first_rows(_ROWS)
    if not rows or any(len(row) != len(called) for row in rows):
        return None
    alike = numbered([source.names[n] for n in votes])
    if place is None and len(votes) <= 3 and not alike:
        return None  # three columns with unknown names: rather a long table
    if place is not None and len({row[place] for row in rows}) < len(rows):
        return None
    sure = place is not None and (len(votes) > 2 or alike)
    if not _in_common(rows, votes, _COMMON if sure else _COMMON_ALONE):
        return None
    what = "rows are items"
    if place is not None:
        what = (
            f"items in the column {source.names[place]!r}" if source.names[place] else "items in a column without name"
        )
    return f"no column of annotators or labels, {what}, and the other {len(votes)} columns have values in common"


def _item(source: Source) -> int | None:
    called = [name.strip().lower() for name in source.names]
    for alias in (*ALIASES["item"], ""):
        if called.count(alias) == 1:
            return called.index(alias)
    rows = source.first_rows(_ROWS)
    first = [row[0].strip() for row in rows if row]
    elsewhere = {cell.strip() for row in rows for cell in row[1:]}
    alone = bool(source.names) and len(first) > 1 and all(first) and len(set(first)) == len(first)
    return 0 if alone and sum(name in elsewhere for name in first) < _COMMON * len(first) else None


def numbered(names: list[str]) -> bool:
    """Return whether names differ only in a final number or letter: w1, w2, w3."""
    stems = {re.sub(r"(\d+|[A-Za-z])$", "", name) for name in names}
    return len(stems) == 1 and (stems != {""} or all(name.isdigit() for name in names))


def _in_common(rows: list[list[str]], votes: list[int], least: float) -> bool:
    """Return whether nearly all values of each column occur in another one."""
    columns = [[row[n].strip() for row in rows if row[n].strip()] for n in votes]
    having = Counter(value for column in columns for value in set(column))
    told = [column for column in columns if column]
    if len(told) < 2 or len(having) > max(20, sum(map(len, told)) // 4):
        return False
    shares = [sum(having[value] > 1 for value in column) / len(column) for column in told]
    return min(shares) > 0 and sum(shares) / len(shares) >= least


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read a wide table."""
    refuse_question(question, source.name, "a wide table")
    names = list(source.names)
    if len(set(names)) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise ColumnError(f"{source.name} has several columns named {twice!r}: annotators must have different names")
    if item is not None and item not in names:
        raise no_column(item, names, source.name)
    found = names.index(item) if item is not None else _item(source)
    place = None if found is None else names[found]
    truth = next((name for name in names if name.strip().lower() in TRUTHS and name != place), None)
    annotators = [name for name in names if name not in (place, truth)]
    if not annotators:
        raise ColumnError(f"{source.name} has no column beside the items: a wide table has one for each annotator")
    table = source.columns(names)
    N, M = table.num_rows, len(annotators)
    if not N:
        raise DataError(f"{source.name} has no rows: there is nothing to aggregate")
    cells = pa.chunked_array([chunk for name in annotators for chunk in table[name].chunks], pa.string())
    codes, labels = encode(cells.combine_chunks())
    notes: tuple[str, ...] = ()
    absent = int(labels.codes_of(pa.array(["-1"]))[0])
    if absent >= 0:
        notes = (f"{int((codes == absent).sum())} of {N * M} cells are -1 and were taken as missing",)
        codes, labels = without_code(codes, labels, absent)
    matrix = codes.reshape(M, N)
    n, m = np.nonzero(matrix.T >= 0)
    item_codes, items = np.arange(N, dtype=np.int32), Ids.range(N)
    if place is not None:
        item_codes, items = encode(table[place].combine_chunks())
    if (item_codes < 0).any():
        raise DataError(f"{source.name} has no item in row {int(np.flatnonzero(item_codes < 0)[0]) + 1} ({place!r})")
    gold = None
    if truth is not None:
        # an item without labels has its truth too: a row for each item, which does not count
        n, m = np.concatenate([n, np.arange(N)]), np.concatenate([m, np.zeros(N, np.int64)])
        gold = table[truth].combine_chunks().take(pa.array(n))
    counts = np.arange(n.size) < (matrix >= 0).sum()
    return Export(
        (item_codes[n], items),
        (m.astype(np.int32), Ids(pa.array(annotators, pa.string()))),
        (matrix[m, n], labels),
        counts=counts,
        gold=gold,
        names=(place or "item", "annotator", "label"),
        notes=notes,
        untyped=True,
        row="label",
    )
