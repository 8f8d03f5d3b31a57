"""What imputation leaves alone: entries that are there, kinds of table, types, names, index, other columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from consilience.exceptions import DataWarning
from consilience.kernels._arrays import Codes
from consilience.pmf.cpd import CPD
from consilience.pmf.joint_pmf import JointPMF
from consilience.pmf.table import DiscreteTable


def drawn(S: int = 1500, seed: int = 0, missing: float = 0.2) -> tuple[CPD, Codes]:
    rng = np.random.default_rng(seed)
    model = CPD(rng.dirichlet(np.full(3, 5.0)), tuple(rng.dirichlet(np.full(s, 0.5), 3).T for s in (3, 4, 2, 5, 3)))
    codes = model.sample(S, rng).astype(np.int64)
    codes[rng.random(codes.shape) < missing] = -1
    return model, codes


def paired() -> pd.DataFrame:
    """A column of each type, all telling the same: category 0 or 1."""
    z = np.random.default_rng(0).integers(0, 2, 60)
    z[:8] = [1, 0] * 4
    text = np.array(["no", "yes"], object)[z]
    columns: dict[Any, Any] = {
        "enum": pd.Categorical(text, categories=["yes", "never", "no"]),
        "float": z + 0.0,
        "Int64": pd.array(z, "Int64"),
        "object": text,
        "string": pd.array(text, "string"),
        "date": pd.to_datetime(["2020-01-01", "2021-01-01"])[z],
        "truth": pd.array(z.astype(bool), "boolean"),
        3: text,
    }
    return pd.DataFrame(columns, index=np.arange(60) * 2 + 7)


def test_impute_keeps_index_names_types_and_other_columns() -> None:
    whole = paired()
    pmf = JointPMF(2).fit(whole)
    given = whole.copy()
    for row, name in enumerate(whole.columns):
        given.loc[given.index[row], name] = None
    given.insert(2, "other", np.arange(60.0))
    given.loc[given.index[0], "other"] = None
    before = given.copy()
    full = pmf.impute(given)
    pd.testing.assert_frame_equal(given, before)
    pd.testing.assert_frame_equal(full.drop(columns="other"), whole)
    pd.testing.assert_series_equal(full["other"], given["other"])
    assert full.columns.tolist() == given.columns.tolist()
    pd.testing.assert_frame_equal(pmf.impute(full), full)


def test_impute_keeps_the_types_of_polars_and_pyarrow() -> None:
    whole = paired().rename(columns={3: "three"}).reset_index(drop=True)
    given = whole.copy()
    for row, name in enumerate(whole.columns):
        given.loc[row, name] = None
    pmf = JointPMF(2).fit(whole)
    given["other"] = whole["other"] = np.arange(60)
    of_polars = pl.from_pandas(given).with_columns(pl.col("enum").cast(pl.Enum(["yes", "never", "no"])))
    full = pmf.impute(of_polars)
    assert full.schema == of_polars.schema
    assert full.rows() == pl.from_pandas(whole).rows()
    of_arrow = pa.Table.from_pandas(given, preserve_index=False)
    assert pmf.impute(of_arrow).schema == of_arrow.schema
    assert pmf.impute(of_arrow).to_pylist() == pa.Table.from_pandas(whole, preserve_index=False).to_pylist()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, object])
def test_impute_leaves_what_is_no_category_and_the_type_of_a_matrix(dtype: Any) -> None:
    _, codes = drawn(400)
    pmf = JointPMF(3).fit(codes)
    X: Any = codes[:50].astype(dtype)
    if dtype is object:
        X[codes[:50] < 0] = None
    X[0] = [99, 1, 0, 1, 0]
    before = X.copy()
    with pytest.warns(DataWarning, match="x0"):
        full = pmf.impute(X)
    assert full.dtype == X.dtype
    assert full[0].tolist() == [99, 1, 0, 1, 0]
    assert np.array_equal(X, before)
    assert full[1:].astype(int).tolist() == pmf.impute(codes[1:50]).tolist()


def test_impute_leaves_what_is_no_category_of_a_frame() -> None:
    with pytest.warns(DataWarning, match="object"):
        odd = JointPMF(2, tol=1e-4).fit(paired()).impute(paired().head(2).assign(object=["perhaps", None]))
    assert odd["object"].tolist() == ["perhaps", "no"]


def test_impute_of_a_table_keeps_its_categories() -> None:
    pmf = JointPMF(2, tol=1e-4).fit(np.repeat([[5, 6], [7, 8]], 20, axis=0))
    table = DiscreteTable(np.array([[1, -1], [0, -1]]), (np.array([9, 7]), np.array([6])), ("x0", "x1"))
    with pytest.warns(DataWarning, match=r"x0 \(1\)"):
        full = pmf.impute(table)
    assert full.values(full.codes[:, 0], 0).tolist() == [7, 9]
    assert full.values(full.codes[:, 1], 1)[0] == 8
    assert table.codes.tolist() == [[1, -1], [0, -1]]
    turned = DiscreteTable(
        np.array([[-1, 0, 1]]), (np.array([6, 8]), np.array([3]), np.array([5, 7])), ("x1", "y", "x0")
    )
    assert pmf.impute(turned).codes.tolist() == [[1, 0, 1]]
