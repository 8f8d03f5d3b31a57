"""A frame with a row for each verdict that also says how the judge was asked: prompt, order, author, length, cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations
from consilience.data.building import columns_of_frame, variant_values
from consilience.data.ids import encode_all, to_column
from consilience.data.truth import arrow_or_values
from consilience.data.variants import with_variants

__all__ = ["COLUMNS", "is_panel", "read_columns"]

#: What a frame may say about verdicts, beside the prompt.
COLUMNS = ("order", "author", "length", "cost")


def read_columns(frame: Any) -> tuple[Annotations, dict[str, Any]]:
    """Return the labels, variants of judges apart, and the arguments of the audit that the frame has columns for."""
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    columns, names = columns_of_frame(frame, item=None, annotator=None, label=None)
    rows, who, _, *others = encode_all(*columns.values(), *variant_values(frame, names))
    (codes, ids), judges = with_variants(rows[0], who, others)
    called = {str(name).strip().lower(): name for name in table.columns if name not in names.values()}
    given = {name: to_column(arrow_or_values(table[called[name]]), name) for name in COLUMNS if name in called}
    item, found = columns["item"], {"judges": judges or None}
    if "order" in given:
        annotator = ids.to_arrow().take(pa.array(codes, mask=codes < 0))
        found["order"] = pa.table({"item": item, "annotator": annotator, "first": given["order"]})
    first = np.unique(rows[0], return_index=True)[1]
    for name in ("author", "length"):
        if name in given:
            found[name] = pa.table({"item": item.take(first), name: given[name].take(first)})
    if "cost" in given:
        cost = np.asarray(given["cost"].cast(pa.float64()).fill_null(0.0))
        total = np.bincount(codes[codes >= 0], cost[codes >= 0], len(ids))
        mean = total / np.maximum(np.bincount(codes[codes >= 0], minlength=len(ids)), 1)
        found["costs"] = dict(zip(list(ids), mean.tolist(), strict=True))
    return Annotations.from_frame(frame, variants="separate"), found


def is_panel(data: Any) -> bool:
    """Return whether data is a long frame of verdicts."""
    return _frames.is_frame(data) and _frames.is_long(_frames.columns_of(data))
