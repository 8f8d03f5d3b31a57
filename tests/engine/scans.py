"""Folders to scan, and what reading everything at once gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import consilience as cs
from consilience.engine.fingerprint import fingerprint
from consilience.exceptions import (
    ConsilienceWarning,
)

__all__ = ["Table", "assert_same", "crowd", "put", "quietly"]

Table = Mapping[str, Any]


def put(folder: Path, *tables: Table, group: int = 4) -> Path:
    folder.mkdir(exist_ok=True)
    for at, table in enumerate(tables):
        pq.write_table(pa.table(table), folder / f"part-{at}.parquet", row_group_size=group)
    return folder


def quietly(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        return function(*args, **options)


def assert_same(path: Path, **options: Any) -> None:
    """Whole and in batches: the same labels, warnings and notes."""
    with warnings.catch_warnings(record=True) as at_once:
        warnings.simplefilter("always")
        expected = cs.read(path, **options)
    with warnings.catch_warnings(record=True) as in_batches:
        warnings.simplefilter("always")
        scanned = cs.scan(path, **options)
    assert scanned.annotations() == expected
    assert [str(one.message) for one in in_batches] == [str(one.message) for one in at_once]
    assert scanned.origin.notes == expected.origin.notes
    assert scanned.fingerprint == fingerprint(expected)
    assert scanned.describe() == expected.describe()
    scanned.close()


def crowd(kind: str, n_items: int = 30, seed: int = 0, scattered_rows: bool = True) -> Table:
    rng = np.random.default_rng(seed)
    item = np.repeat(rng.permutation(n_items), 4)
    if scattered_rows:
        item = rng.permutation(item)
    annotator, label = rng.integers(0, 40, item.size), rng.integers(0, 3, item.size)
    if kind == "numbers":
        return {"item": item * 1_000_003, "annotator": annotator - 20, "label": label}
    return {
        "item": [f"item {n}" if n % 3 else f"größe-{n}" for n in item],
        "annotator": [f"w{m}" * (1 + m % 9) for m in annotator],
        "label": [("yes", "no", "perhaps")[k] for k in label],
    }
