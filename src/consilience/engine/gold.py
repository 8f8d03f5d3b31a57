"""Known truths of items whose names are on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data.ids import Ids, to_column
from consilience.data.truth import is_named, truth_codes, truth_columns
from consilience.kernels._arrays import Codes, Ints

__all__ = ["digest_of_truth", "gold_of_items"]


def gold_of_items(
    truth: Any, names: Iterable[pa.Array], classes: Ids, column: str, *, what: str = "gold", strict: bool = True
) -> tuple[Ints, Codes]:
    """Return the items of known truth among names in blocks: their indices, ascending, and their classes.

    The rules are those of :meth:`consilience.Annotations.codes_of_truth`.
    """
    if not is_named(truth):  # one value per item: all items fit in memory
        items = Ids(pa.concat_arrays(list(names)))
        at = np.arange(len(items))
    else:
        wanted, _ = truth_columns(truth, None, column, what)
        places, found, before = [np.empty(0, np.int64)], [], 0
        for block in names:
            codes = np.unique(Ids(block).codes_of(wanted))
            codes = codes[codes >= 0]
            places.append(before + codes)
            found.append(block.take(pa.array(codes)))
            before += len(block)
        items, at = Ids(pa.concat_arrays(found)), np.concatenate(places)
    codes = truth_codes(truth, items, classes, column=column, what=what, strict=strict)
    return at[codes >= 0], codes[codes >= 0]


def digest_of_truth(truth: Any, column: str) -> str | None:
    """Return a digest of the truths; None without any."""
    if truth is None:
        return None
    columns = truth_columns(truth, None, column, "gold") if is_named(truth) else (to_column(truth, "gold"),)
    table = pa.table({str(i): values for i, values in enumerate(columns)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return hashlib.sha256(sink.getvalue()).hexdigest()
