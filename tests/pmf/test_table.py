"""Tables in: frames, objects, numbers; what is missing, what is new."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from consilience.exceptions import ColumnError, DataError, DataWarning, IdError, ParameterError
from consilience.pmf.table import DiscreteTable

COLUMNS: dict[str, list[Any]] = {"colour": ["red", None, "blue", "red"], "size": [3, 1, None, 3]}
CODES = [[1, 1], [-1, 0], [0, -1], [1, 1]]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_of_all_kinds(make: Any) -> None:
    table = DiscreteTable.from_data(make(COLUMNS))
    assert table.codes.tolist() == CODES
    assert table.codes.dtype == np.int8
    assert table.names == ("colour", "size")
    assert table.sizes == (2, 2)
    assert len(table) == 4
    assert table.categories[0].tolist() == ["blue", "red"]
    assert table.categories[1].tolist() == [1, 3]


def test_objects() -> None:
    rows = np.array(list(zip(*COLUMNS.values(), strict=True)), object)
    assert DiscreteTable.from_data(rows).codes.tolist() == CODES
    assert DiscreteTable.from_data(rows.tolist()).codes.tolist() == CODES


def test_categorical_columns_keep_their_order_and_unused_categories() -> None:
    column = pd.Categorical(["low", "high", None], categories=["low", "mid", "high"])
    table = DiscreteTable.from_data(pd.DataFrame({"level": column}))
    assert table.codes[:, 0].tolist() == [0, 2, -1]
    assert table.categories[0].tolist() == ["low", "mid", "high"]
    enum = pl.DataFrame({"level": pl.Series(["low", "high"], dtype=pl.Enum(["low", "mid", "high"]))})
    assert DiscreteTable.from_data(enum).codes[:, 0].tolist() == [0, 2]


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64])
def test_numbers(dtype: Any) -> None:
    X = np.array([[5, -100], [-1, 7], [2, -1], [5, 100]]).astype(dtype)
    table = DiscreteTable.from_data(X)
    assert table.codes.tolist() == [[1, 0], [-1, 1], [0, -1], [1, 2]]
    assert table.categories[0].tolist() == [2, 5]
    assert table.values(table.codes[:, 0], 0)[[0, 2, 3]].tolist() == [5, 2, 5]
    assert np.isnan(table.values(table.codes[:, 0], 0)[1])


def test_minus_one_is_a_value_among_fractions() -> None:
    table = DiscreteTable.from_data(np.array([[-1.0], [0.5], [np.nan]]))
    assert table.codes[:, 0].tolist() == [0, 1, -1]
    assert table.categories[0].tolist() == [-1.0, 0.5]


def test_wide_alphabets() -> None:
    X = np.random.default_rng(0).permutation(100_000)[:, None] * 977
    table = DiscreteTable.from_data(X)
    assert table.codes.dtype == np.int32
    assert np.array_equal(table.values(table.codes[:, 0], 0), X[:, 0])
    assert DiscreteTable.from_data(X[:200]).codes.dtype == np.int16


def test_constant_and_empty_columns() -> None:
    table = DiscreteTable.from_data(np.array([[4.0, np.nan], [4.0, np.nan]]))
    assert table.sizes == (1, 1)
    assert table.codes.tolist() == [[0, -1], [0, -1]]
    texts = DiscreteTable.from_data(pd.DataFrame({"a": ["x", "x"], "b": pd.Series([None, None], dtype=object)}))
    assert texts.sizes == (1, 1)
    assert texts.categories[1].tolist() == [None]


def test_unseen_values_become_missing_with_a_warning() -> None:
    fitted = DiscreteTable.from_data(pd.DataFrame(COLUMNS))
    later = pd.DataFrame({"size": [1, 9, 3], "colour": ["green", "red", None]})
    with pytest.warns(DataWarning, match=r"colour \(1\), size \(1\)"):
        table = DiscreteTable.from_data(later, categories=fitted.categories, names=fitted.names)
    assert table.codes.tolist() == [[-1, 0], [1, -1], [-1, 1]]
    with pytest.warns(DataWarning, match="size"):
        DiscreteTable.from_data(np.array([["red", 7]], object), categories=fitted.categories, names=fitted.names)


def test_a_column_may_be_left_out() -> None:
    fitted = DiscreteTable.from_data(np.array([[0, 5], [1, 6], [2, 5]]))
    known: dict[str, Any] = {"categories": fitted.categories, "names": fitted.names}
    assert DiscreteTable.from_data([[6], [5]], optional=0, **known).codes.tolist() == [[-1, 1], [-1, 0]]
    assert DiscreteTable.from_data(pd.DataFrame({"x0": [2]}), optional=1, **known).codes.tolist() == [[2, -1]]
    with pytest.raises(DataError, match="1 columns; 2"):
        DiscreteTable.from_data([[6], [5]], **known)
    with pytest.raises(ColumnError, match="x1"):
        DiscreteTable.from_data(pd.DataFrame({"x0": [2]}), **known)


def test_tables_pass_through() -> None:
    table = DiscreteTable.from_data(pd.DataFrame(COLUMNS))
    assert DiscreteTable.from_data(table) is table
    again = DiscreteTable.from_data(table, categories=table.categories, names=table.names)
    assert np.array_equal(again.codes, table.codes)
    wider = (np.array(["red", "blue", "green"], object), np.array([1, 2, 3]))
    assert DiscreteTable.from_data(table, categories=wider).codes.tolist() == [[0, 2], [-1, 0], [1, -1], [0, 2]]


def test_variables_by_name_and_number() -> None:
    table = DiscreteTable.from_data(pd.DataFrame(COLUMNS))
    assert table.index("size") == table.index(1) == table.index(-1) == 1
    for wrong in ("weight", 2, -3, 1.7, None):
        with pytest.raises(ParameterError):
            table.index(wrong)  # type: ignore[arg-type]


def test_bad_input() -> None:
    with pytest.raises(DataError, match="shape"):
        DiscreteTable.from_data(np.zeros(3))
    with pytest.raises(DataError, match="infinite"):
        DiscreteTable.from_data(np.array([[np.inf]]))
    with pytest.raises(DataError, match="no columns"):
        DiscreteTable.from_data(np.empty((3, 0)))
    with pytest.raises(IdError, match="mixes types"):
        DiscreteTable.from_data(np.array([["a"], [1]], object))
    with pytest.raises(IdError, match="'a' mixes types"):
        DiscreteTable.from_data(pd.DataFrame({"a": ["x", 1]}))
    with pytest.raises(DataError, match="differ in length"):
        DiscreteTable.from_data([[1, 2], [3]])
    with pytest.raises(ParameterError, match="index of a category"):
        DiscreteTable(np.array([[2]]), (np.array([0, 1]),), ("a",))


def test_what_minus_one_means_is_decided_by_the_fit() -> None:
    X = np.array([[-1, 0.5], [0, 1.0], [-1, 1.0], [0, 0.5]])
    fitted = DiscreteTable.from_data(X)
    assert fitted.categories[0].tolist() == [-1, 0]
    for dtype in (np.float64, np.float32, object):
        rows = [DiscreteTable.from_data(row[None].astype(dtype), categories=fitted.categories).codes for row in X]
        assert np.array_equal(np.concatenate(rows), fitted.codes)
    coded = DiscreteTable.from_data(np.array([[0, -1], [1, 2]]))
    assert coded.codes.tolist() == [[0, -1], [1, 0]]
    later: Any = np.array([[0, -1], [-1, 2], [0.5, 2]])
    with pytest.warns(DataWarning, match=r"x0 \(1\)$"):
        assert DiscreteTable.from_data(later, categories=coded.categories).codes.tolist() == [[0, -1], [-1, 0], [-1, 0]]


def test_names_that_collide_are_refused() -> None:
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    for frame in (twice, pd.DataFrame([[1, 2]], columns=["a", "a"])):
        with pytest.raises(ColumnError, match="named 'a'"):
            DiscreteTable.from_data(frame)
    with pytest.raises(ColumnError, match="named '1'"):
        DiscreteTable.from_data(pd.DataFrame([[1, 2]], columns=[1, "1"]))
    with pytest.raises(ColumnError, match="named 'a'"):
        DiscreteTable(np.zeros((1, 2), int), (np.arange(1), np.arange(1)), ("a", "a"))
