"""Frames and matrices in any shape: named columns, wide frames, and errors that say what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import consilience as cs
from consilience.exceptions import ColumnError, DataError, ParameterError
from consilience.io.coercion import as_annotations

VOTES = np.array([[0, 0, 1], [1, 1, 0], [1, 1, 1], [0, 1, 0]])
PHOTOS = ["p", "q", "r", "s"]


def wide() -> pd.DataFrame:
    return pd.DataFrame(VOTES, columns=["ann", "bob", "cy"], index=pd.Index(PHOTOS, name="photo"))


def long(**names: str) -> pd.DataFrame:
    frame = wide().reset_index().melt("photo", var_name="who", value_name="verdict")
    return frame.rename(columns=names)


# ---- names of columns -------------------------------------------------------------------------------------------


def test_aggregate_takes_names_of_columns() -> None:
    found = cs.aggregate(long(), "majority", item="photo", annotator="who", label="verdict")
    usual = cs.aggregate(long(photo="task", who="worker", verdict="label"), "majority")
    assert next(iter(found.labels)) == "photo"
    assert found.labels["label"].tolist() == usual.labels["label"].tolist()


def test_aggregate_takes_names_of_columns_of_a_file(tmp_path: Any) -> None:
    long().to_csv(tmp_path / "labels.csv", index=False)
    found = cs.aggregate(tmp_path / "labels.csv", "majority", item="photo", annotator="who", label="verdict")
    assert found.labels["photo"].tolist() == PHOTOS


@pytest.mark.parametrize("data", [VOTES, cs.Annotations.from_matrix(VOTES)], ids=["matrix", "annotations"])
def test_only_frames_and_files_have_columns(data: Any) -> None:
    with pytest.raises(ParameterError, match="item='photo' is for frames and files"):
        cs.aggregate(data, item="photo")


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_the_suggestion_for_unknown_columns_works(kind: Any) -> None:
    frame = kind(long(photo="picture", who="nick", verdict="said").sample(frac=1, random_state=0))
    with pytest.raises(ColumnError, match="'picture', 'nick', 'said'") as caught:
        as_annotations(frame)
    assert "item='picture', annotator='nick', label='said'" in str(caught.value)


def test_codes_in_unknown_columns_are_not_taken_for_votes() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": np.repeat(np.arange(50), 4), "b": np.tile(np.arange(4), 50), "c": rng.integers(0, 2, 200)}
    )
    with pytest.raises(ColumnError, match="item='a', annotator='b', label='c'"):
        as_annotations(frame)


def test_a_missing_column_is_a_key_error_with_a_plain_message() -> None:
    with pytest.raises(KeyError) as caught:
        as_annotations(long(photo="task", verdict="label"))
    assert str(caught.value).startswith("the frame has no annotator column")
    assert str(caught.value).endswith("say which column it is, for example with annotator='who' (--annotator who)")


# ---- wide frames ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "item"),
    [
        (wide(), "photo"),
        (wide().rename_axis(index=None), "item"),
        (wide().rename_axis("id").reset_index(), "id"),
        (pl.from_pandas(wide().rename_axis("task").reset_index()), "task"),
        (long().pivot(index="photo", columns="who", values="verdict"), "photo"),
    ],
    ids=["named index", "index", "column", "polars", "pivot"],
)
def test_wide_frames_keep_their_names(frame: Any, item: str) -> None:
    annotations = as_annotations(frame)
    assert annotations == cs.Annotations.from_matrix(VOTES, items=PHOTOS, annotators=["ann", "bob", "cy"])
    assert annotations.origin.item == item
    consensus = cs.aggregate(frame, "majority")
    assert next(iter(consensus.labels.columns)) == item
    assert list(consensus.labels[item]) == PHOTOS


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(VOTES),
        pd.DataFrame(VOTES == 1, columns=["ann", "bob", "cy"]),
        pd.DataFrame([[0.5, 1.7], [2.2, 3.9]], columns=["ann", "bob"]),
    ],
    ids=["numbers for names", "booleans", "fractions"],
)
def test_wide_frames_without_names_of_items(frame: pd.DataFrame) -> None:
    annotations = as_annotations(frame)
    assert annotations.items.tolist() == list(range(len(frame)))
    assert annotations.annotators.tolist() == list(frame.columns)


def test_a_pivoted_frame_keeps_the_name_of_its_columns() -> None:
    assert as_annotations(long().pivot(index="photo", columns="who", values="verdict")).origin.annotator == "who"


def test_an_index_that_counts_rows_is_no_name() -> None:
    assert as_annotations(wide().reset_index(drop=True)).items.tolist() == [0, 1, 2, 3]
    assert as_annotations(wide().reset_index(drop=True)[1:3]).items.tolist() == [1, 2]


def test_the_item_column_of_a_wide_frame_can_be_named_and_is_suggested() -> None:
    frame = wide().reset_index()
    assert as_annotations(frame, item="photo") == as_annotations(wide())
    with pytest.raises(ColumnError, match="say item='photo'"):
        as_annotations(frame)


def test_the_truths_of_a_wide_frame_are_gold() -> None:
    annotations = as_annotations(wide().assign(gold=[0, np.nan, 1, np.nan]))
    assert annotations.n_annotators == 3
    assert annotations.gold is not None
    assert annotations.gold.tolist() == [0, -1, 1, -1]


def test_an_index_of_several_levels_is_refused() -> None:
    with pytest.raises(ColumnError, match="several levels"):
        as_annotations(wide().set_index("ann", append=True))


# ---- matrices ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_matrices_are_refused_with_a_line_that_works(kind: Any) -> None:
    matrix = kind(VOTES + 1)
    with pytest.raises(DataError, match="sparse matrix does not say whether 0 is a label") as caught:
        cs.aggregate(matrix)
    setup, line = str(caught.value).split("long frame: ")[1].split("; ")
    space = {"matrix": matrix, "cs": cs, "pandas": pd}
    exec(setup, space)
    assert eval(line.replace("}))", "}), 'majority')"), space).labels["label"].tolist() == [1, 2, 2, 1]


def test_ragged_lists_name_the_row() -> None:
    with pytest.raises(DataError, match="row 1 has 3 entries, row 3 has 2"):
        cs.aggregate([[0, 1, 1], [1, 1, 0], [0, 1]])


@pytest.mark.parametrize(("data", "what"), [(None, "NoneType"), ({"a": 1}, "dict"), ([0, 1], r"shape \(2,\)")])
def test_other_things_are_named(data: Any, what: str) -> None:
    with pytest.raises(DataError, match=f"expected a file, a long frame, or a matrix .* got .*{what}"):
        cs.aggregate(data)
