"""Single columns: the ends of number types, equal numbers of different types, blanks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from consilience.pmf.table import DiscreteTable


@pytest.mark.parametrize(
    "column",
    [
        np.array([-100, 100, 0], np.int8),
        np.array([-20_000, 20_000, 7], np.int16),
        np.array([2**64 - 1, 2**64 - 3, 5], np.uint64),
        np.array([2**63 - 1, -(2**63), 0], np.int64),
        np.array([1e300, 1e300, 1e300]),
    ],
)
def test_ends_of_number_types(column: Any) -> None:
    table = DiscreteTable.from_data(column[:, None])
    assert table.categories[0].tolist() == sorted(set(column.tolist()))
    assert np.array_equal(table.values(table.codes[:, 0], 0), column)
    again = DiscreteTable.from_data(column[:, None], categories=table.categories)
    assert np.array_equal(again.codes, table.codes)


@pytest.mark.parametrize("make", [None, pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize(
    ("fitted", "asked"),
    [
        (np.array([True, False]), np.array([1, 0])),
        (np.array([1, 0]), np.array([True, False])),
        (np.array([0.1, 0.7], np.float32), np.array([0.1, 0.7])),
        (np.array([0.1, 0.7]), np.array([0.1, 0.7], np.float32)),
        (np.array([2, 3], np.int8), np.array([2.0, 3.0], np.float32)),
    ],
)
def test_equal_numbers_of_other_types_are_the_same_category(make: Any, fitted: Any, asked: Any) -> None:
    one, other = (column[:, None] if make is None else make({"x0": column}) for column in (fitted, asked))
    table = DiscreteTable.from_data(one)
    found = DiscreteTable.from_data(other, categories=table.categories, names=table.names)
    assert np.array_equal(found.codes, table.codes)
    assert table.categories[0].dtype.kind == fitted.dtype.kind


def test_blank_strings_are_missing() -> None:
    table = DiscreteTable.from_data(pd.DataFrame({"a": ["x", " ", "", None, "y"]}))
    assert table.codes[:, 0].tolist() == [0, -1, -1, -1, 1]
    again = DiscreteTable.from_data(pd.DataFrame({"a": ["\t", "y"]}), categories=table.categories, names=table.names)
    assert again.codes[:, 0].tolist() == [-1, 1]
