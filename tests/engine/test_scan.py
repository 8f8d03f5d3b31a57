"""A scan gives the labels that reading everything at once gives."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.scans import Table, assert_same, crowd, put, quietly

import consilience as cs
from consilience.engine import coder
from consilience.engine.fingerprint import fingerprint
from consilience.exceptions import (
    DataError,
    IdError,
)

pytestmark = pytest.mark.usefixtures("small_steps")


@pytest.mark.parametrize("duplicates", ["last", "first", "keep"])
@pytest.mark.parametrize("scattered_rows", [True, False])
@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_a_folder(tmp_path: Path, kind: str, scattered_rows: bool, duplicates: str) -> None:
    whole = pa.table(crowd(kind, scattered_rows=scattered_rows))
    folder = tmp_path / "labels"
    folder.mkdir()
    for at, (low, high) in enumerate([(0, 17), (17, 18), (18, 90), (90, 120)]):
        pq.write_table(whole[low:high], folder / f"{at}.parquet", row_group_size=13)
    assert_same(folder, duplicates=duplicates)


def values() -> st.SearchStrategy[Any]:
    """Names of one type: text that may be blank or missing, numbers near each other or not, floats, dates, truths."""
    text = st.one_of(st.none(), st.text(st.sampled_from("aé \u3000b"), max_size=3))
    number = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**62, -(2**62)]))
    real = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")]))
    date = st.one_of(st.none(), st.dates(dt.date(2020, 1, 1), dt.date(2020, 1, 3)))
    kinds = [
        (text, pa.string()),
        (text, pa.large_string()),
        (text, pa.dictionary(pa.int8(), pa.string())),
        (number, pa.int64()),
        (st.one_of(st.none(), st.integers(0, 5)), pa.uint8()),
        (st.sampled_from([0, 5, 2**64 - 1]), pa.uint64()),
        (real, pa.float64()),
        (date, pa.date32()),
        (st.booleans(), pa.bool_()),
        (st.none(), pa.null()),
    ]
    return st.sampled_from(kinds)


def is_name(value: Any) -> bool:
    return value is not None and value == value and (not isinstance(value, str) or value.strip() != "")


@st.composite
def folders(draw: st.DrawFn) -> list[pa.Table]:
    n_rows, columns = draw(st.integers(1, 30)), {}
    for name in ("item", "annotator", "label"):
        value, kind = draw(values())
        # nearly always there are ids, or nothing but errors would be compared
        if name != "label" and draw(st.integers(0, 19)):
            value, kind = (value, kind) if kind != pa.null() else (st.integers(0, 1), pa.int64())
            value = value.filter(is_name)
        few = draw(st.lists(value, min_size=1, max_size=6))
        drawn = draw(st.lists(st.sampled_from(few), min_size=n_rows, max_size=n_rows))
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        columns[name] = pa.array([None] * n_rows if pa.types.is_null(kind) else drawn, plain).cast(kind)
    table = pa.table(columns)
    if draw(st.booleans()):
        table = table.sort_by("item") if not pa.types.is_dictionary(table["item"].type) else table
    cuts = sorted(draw(st.lists(st.integers(0, n_rows), max_size=3)))
    return [table[low:high] for low, high in zip([0, *cuts], [*cuts, n_rows], strict=True)]


def outcome(function: Callable[..., Any], path: Path, duplicates: str) -> Any:
    try:
        return quietly(function, path, duplicates=duplicates)
    except DataError as error:
        return type(error)


@settings(max_examples=80, deadline=None, database=None, derandomize=True)
@given(folders(), st.sampled_from(["last", "first", "keep", "last", "first", "keep", "error"]))
def test_any_folder(parts: list[pa.Table], duplicates: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        for at, table in enumerate(parts):
            pq.write_table(table, Path(place) / f"{at}.parquet", row_group_size=3)
        expected, made = outcome(cs.read, Path(place), duplicates), outcome(cs.scan, Path(place), duplicates)
        if isinstance(made, cs.Scanned):
            with made:
                assert made.annotations() == expected
                assert made.fingerprint == fingerprint(expected)
        else:
            assert made == expected


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz"])
@pytest.mark.parametrize("scattered_rows", [True, False])
@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_text_files(tmp_path: Path, kind: str, scattered_rows: bool, ending: str) -> None:
    options = pyarrow.csv.WriteOptions(delimiter="\t" if ending == ".tsv" else ",")
    path = tmp_path / f"labels{ending}"
    with pa.output_stream(str(path)) as file:
        pyarrow.csv.write_csv(pa.table(crowd(kind, scattered_rows=scattered_rows)), file, options)
    assert_same(path)


def test_text_is_numbers_where_all_of_it_is(tmp_path: Path) -> None:
    for name, items in (("all", "7 8 9 8"), ("none", "7 08 9 8"), ("real", "1.5 2.5 1.5 3.0"), ("both", "1 2.5 2 1")):
        rows = [f"{item},{who},{who}" for who, item in enumerate(items.split())]
        (tmp_path / f"{name}.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
        assert_same(tmp_path / f"{name}.csv")


def test_one_item_over_many_batches(tmp_path: Path) -> None:
    item = [1] * 23 + [2] + [3] * 17
    table = {"item": item, "annotator": list(range(41)), "label": [k % 2 for k in range(41)]}
    assert_same(put(tmp_path / "labels", table))


def test_missing_labels_are_counted_and_their_items_kept(tmp_path: Path) -> None:
    table: Table = {"item": ["a", "b", "b", "c"], "annotator": ["x", "y", "x", "z"], "label": [None, 1, None, None]}
    for rows in ([0, 1, 2, 3], [1, 0, 2, 3, 0, 1]):
        folder = put(tmp_path / "labels", {name: [column[r] for r in rows] for name, column in table.items()})
        assert_same(folder)
        scanned = quietly(cs.scan, folder)
        assert scanned.items.tolist() == [table["item"][r] for r in dict.fromkeys(rows) if r != 2]
        assert scanned.annotators.tolist() == list(dict.fromkeys(table["annotator"][r] for r in rows))
        assert scanned.describe()["unlabelled_items"] == 2


@pytest.mark.parametrize("ids", [[3, 1, 2], ["c", "a", "b"], [2**63, 1, 2]])
def test_the_known_truth(tmp_path: Path, ids: list[Any]) -> None:
    item = pa.array(ids * 3, pa.uint64() if ids[0] == 2**63 else None)
    folder = put(tmp_path / "labels", {"item": item, "annotator": list(range(9)), "label": ["x", "y", "y"] * 3})
    for gold in ({ids[1]: "x"}, {ids[2]: "y", ids[0]: "x"}, np.array(["x", None, "y"], object), {}):
        assert_same(folder, gold=gold)
    with pytest.raises(IdError, match="'z', which no annotator used"):
        cs.scan(folder, gold={ids[1]: "z"})
    with pytest.raises(IdError, match="none of the 1 items"):
        cs.scan(folder, gold={"no such item": "x"})


def test_named_classes_and_columns(tmp_path: Path) -> None:
    folder = put(tmp_path / "labels", {"q": [1, 2, 1], "who": [1, 1, 2], "what": ["b", "a", "b"], "more": [0, 0, 0]})
    assert_same(folder, item="q", annotator="who", label="what", classes=["b", "c", "a"])


def test_numbers_far_apart_come_after_numbers_that_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coder, "_SPAN", 16)
    annotator = [3, 1, 2, 9, -5, 3, 1, 100, 2, 3, 100, 2**40, -5, 7]
    item = list(range(14))
    assert_same(put(tmp_path / "labels", {"item": item, "annotator": annotator, "label": [0, 1] * 7}))


def test_the_files_are_taken_in_the_order_of_their_names(tmp_path: Path) -> None:
    row = {"annotator": ["x"], "label": [1]}
    folder = put(tmp_path / "labels", {"item": ["second"], **row})
    (folder / "a").mkdir()
    for name in ("a/first.parquet", "_left.parquet", ".out.parquet"):
        pq.write_table(pa.table({"item": [name[:-8]], **row}), folder / name)
    (folder / "README.md").write_text("not a table")
    assert cs.scan(folder).items.tolist() == ["a/first", "second"]
    assert_same(folder)
