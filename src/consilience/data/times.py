"""Times of labels: columns of dates, of text that holds dates, or of increasing numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["NAMES", "Times", "find_time_column", "parse_times", "unknown_time"]

#: Either datetime64[us], in UTC, or float64; NaT or NaN where unknown.
Times: TypeAlias = NDArray[Any]

#: Columns that are read as times without being named.
NAMES = ("timestamp", "created_at", "submitted_at", "completed_at", "time")


def find_time_column(columns: Sequence[str], taken: Sequence[str]) -> str | None:
    """Return the column with one of the usual names for times, or None."""
    free = {str(name).strip().lower(): name for name in columns if name not in taken}
    return next((free[name] for name in NAMES if name in free), None)


def parse_times(column: Any) -> Times | None:
    """Return the times in a column, or None if it holds something else."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else pa.array(column)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if len(values) == values.null_count:
        return None
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _dates(values)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return np.asarray(pc.cast(values, pa.float64()).fill_null(float("nan")), np.float64)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return None
    for wanted in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.float64()):
        try:
            parsed = pc.cast(values, wanted)
        except pa.ArrowInvalid:
            continue
        return parse_times(parsed)
    # 2/24/2015 11:35:55, and Mon Jan 05 10:00:00 PST 2026, without the zone, which is the same in all rows
    plain = pc.replace_substring_regex(values, r"^\w{3} (\w{3} +\d+ \d+:\d+:\d+) \w+ (\d{4})$", r"\1 \2")
    for form in ("%m/%d/%Y %H:%M:%S", "%b %d %H:%M:%S %Y"):
        try:
            return _dates(pc.strptime(plain, format=form, unit="us"))
        except pa.ArrowInvalid:
            continue
    return None


def unknown_time(like: Times) -> Times:
    """Return the value for an unknown time."""
    return np.array("NaT" if like.dtype.kind == "M" else "nan", like.dtype)


def _dates(values: pa.Array) -> Times:
    return np.asarray(pc.cast(values, pa.timestamp("us")).to_numpy(zero_copy_only=False), "datetime64[us]")
