"""Annotations from frames and matrices: labels are grouped by item and nothing is lost in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.tables import KINDS, MATRIX, MATRIX_CONTENT, ROWS, Row, content, long, make, naive

import consilience
from consilience import Annotations
from consilience.exceptions import ColumnError, DataError, DataWarning, IdError, ParameterError

# ---- long frames --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_frame_is_grouped_by_item_in_order_of_appearance(kind: str) -> None:
    annotations = Annotations.from_frame(long(ROWS, kind))
    assert content(annotations) == naive(ROWS)
    assert annotations.items.tolist() == ["p", "q", "r"]
    assert annotations.annotators.tolist() == ["b", "a", "c"]
    assert annotations.classes.tolist() == ["maybe", "no", "yes"]
    assert annotations.indptr.tolist() == [0, 3, 5, 7]
    assert (annotations.n_items, annotations.n_annotators, annotations.n_classes) == (3, 3, 3)
    assert annotations.n_labels == len(annotations) == 7
    assert annotations.gold is None


@pytest.mark.parametrize(
    "columns",
    [
        {"task": [1, 1, 2], "worker": ["a", "b", "a"], "label": ["x", "y", "x"]},
        {"task": ["1", "1", "2"], "worker": [10, 20, 10], "label": [0, 1, 1]},
        {"task": [1.5, 1.5, 2.5], "worker": [10, 20, 10], "label": [True, False, True]},
        {"task": ["é", "é", "日本"], "worker": ["a", "b", "a"], "label": [0.5, 1.5, 0.5]},
    ],
    ids=["int-str-str", "str-int-int", "float-int-bool", "unicode"],
)
def test_the_three_kinds_of_frame_give_equal_annotations(columns: dict[str, list[Any]]) -> None:
    made = [Annotations.from_frame(make(kind, columns)) for kind in KINDS]
    assert made[0] == made[1] == made[2]
    for one in made:
        assert [type(v) for v in one.items.tolist()] == [type(columns["task"][0])] * 2
        assert one.items.tolist() == list(dict.fromkeys(columns["task"]))
        assert one.annotators.tolist() == list(dict.fromkeys(columns["worker"]))
        assert one.classes.tolist() == sorted(set(columns["label"]))


def test_pyarrow_variants_of_text_give_equal_annotations() -> None:
    plain = Annotations.from_frame(long(ROWS, "pyarrow"))
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        columns = {name: long(ROWS, "pyarrow")[name].cast(kind) for name in ("task", "worker", "label")}
        assert Annotations.from_frame(pa.table(columns)) == plain, kind
    in_pieces = pa.concat_tables([long([row], "pyarrow") for row in ROWS])
    assert in_pieces["task"].num_chunks == len(ROWS)
    assert Annotations.from_frame(in_pieces) == plain
    padded = long([("z", "z", "z"), *ROWS, ("z", "z", "z")], "pyarrow")
    assert Annotations.from_frame(padded.slice(1, len(ROWS))) == plain


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("item", ["task", "item", "question", "id", "Task", " ITEM "])
@pytest.mark.parametrize("annotator", ["worker", "annotator", "rater", "judge", "user"])
@pytest.mark.parametrize("label", ["label", "answer", "response", "value"])
def test_columns_are_recognised(kind: str, item: str, annotator: str, label: str) -> None:
    annotations = Annotations.from_frame(long(ROWS, kind, (item, annotator, label)))
    assert content(annotations) == naive(ROWS)
    assert (annotations.origin.item, annotations.origin.annotator, annotations.origin.label) == (
        item,
        annotator,
        label,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_columns_can_be_named_even_against_their_usual_meaning(kind: str) -> None:
    frame = long(ROWS, kind, ("worker", "label", "task"))
    annotations = Annotations.from_frame(frame, item="worker", annotator="label", label="task")
    assert content(annotations) == naive(ROWS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_column_is_named_with_the_remedy(kind: str) -> None:
    frame = long(ROWS, kind, ("image", "worker", "label"))
    with pytest.raises(ColumnError, match=r"no item column.*'image'.*item=") as caught:
        Annotations.from_frame(frame)
    assert "task" in str(caught.value)
    with pytest.raises(ColumnError, match=r"no column 'picture'.*'image', 'worker', 'label'"):
        Annotations.from_frame(frame, item="picture")


def test_two_columns_of_one_alias_are_an_error() -> None:
    frame = long(ROWS).assign(Task=1)
    with pytest.raises(ColumnError, match=r"several columns named 'task'.*item="):
        Annotations.from_frame(frame)
    assert content(Annotations.from_frame(frame, item="task")) == naive(ROWS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_without_rows_is_an_error(kind: str) -> None:
    frame = long(ROWS, kind)
    empty = frame.slice(0, 0) if kind != "pandas" else frame.iloc[:0]
    with pytest.raises(DataError, match="no rows"):
        Annotations.from_frame(empty)


def test_two_columns_of_one_name_are_an_error() -> None:
    frame = pd.DataFrame([["p", "a", "x", "y"]], columns=["item", "annotator", "label", "label"])
    with pytest.raises(ColumnError, match="more than one column of the frame is named 'label'; rename all but one"):
        Annotations.from_frame(frame)
    with pytest.raises(ColumnError, match="named 'label'"):
        consilience.aggregate(frame)


def test_half_a_surrogate_pair_is_an_error_that_names_the_row() -> None:
    columns = {"item": ["p", "q"], "annotator": ["a", "a"], "label": ["x", "\ud800"]}
    with pytest.raises(IdError, match="'label' holds text that is not valid Unicode, first in row 2"):
        Annotations.from_frame(pd.DataFrame(columns, dtype=object))
    with pytest.raises(IdError, match="not valid Unicode"):
        Annotations.from_matrix([["x", "\ud800"]])


def test_whole_numbers_beyond_64_bits_are_no_ids() -> None:
    columns = {"item": [2**70, 1], "annotator": [1, 1], "label": [0, 1]}
    with pytest.raises(IdError, match="'item' holds int values, which cannot serve as ids"):
        Annotations.from_frame(pd.DataFrame(columns, dtype=object))


# ---- repeated answers ---------------------------------------------------------------------------------------

REPEATS: list[Row] = [
    ("p", "a", "x"),
    ("p", "b", "y"),
    ("p", "a", "y"),
    ("q", "a", "x"),
    ("p", "a", "x"),
    ("q", "a", "x"),
    ("q", "b", "y"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("duplicates", ["last", "first"])
def test_repeated_answers_are_reduced_with_a_count(kind: str, duplicates: Any) -> None:
    with pytest.warns(DataWarning, match="3 labels repeat") as caught:
        annotations = Annotations.from_frame(long(REPEATS, kind), duplicates=duplicates)
    assert content(annotations) == naive(REPEATS, duplicates)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert duplicates in str(caught[0].message)
    assert any("3 labels repeat" in note for note in annotations.origin.notes)


def test_the_last_answer_is_the_default_and_order_matters() -> None:
    rows = [("p", "a", "x"), ("p", "a", "y")]
    for order in (rows, rows[::-1]):
        with pytest.warns(DataWarning, match="1 labels repeat"):
            assert content(Annotations.from_frame(long(order), classes=["x", "y"])) == [("p", [("a", order[1][2])])]
        with pytest.warns(DataWarning, match="1 labels repeat"):
            made = Annotations.from_frame(long(order), classes=["x", "y"], duplicates="first")
        assert content(made) == [("p", [("a", order[0][2])])]


def test_repeated_answers_can_be_kept_without_a_warning() -> None:
    annotations = Annotations.from_frame(long(REPEATS), duplicates="keep")
    assert content(annotations) == naive(REPEATS, "keep")
    assert annotations.n_labels == len(REPEATS)


def test_repeated_answers_can_be_an_error_that_names_rows() -> None:
    with pytest.raises(DataError, match=r"3 repeated answers.*'a'.*'p'.*rows 1, 3 and 5.*duplicates='last'"):
        Annotations.from_frame(long(REPEATS), duplicates="error")
    assert content(Annotations.from_frame(long(ROWS), duplicates="error")) == naive(ROWS)


def test_the_rows_named_are_answers_and_not_blanks() -> None:
    rows: list[Row] = [("p", "a", None), ("p", "a", "x"), ("q", "b", "x"), ("q", "b", "y")]
    with pytest.raises(DataError, match=r"1 repeated answers.*'b'.*'q'.*rows 3 and 4"):
        Annotations.from_frame(long(rows), duplicates="error")


def test_a_blank_does_not_undo_an_answer() -> None:
    rows: list[Row] = [("p", "a", "x"), ("p", "a", None), ("p", "b", "y")]
    with pytest.warns(DataWarning, match="1 of 3 rows have no label") as caught:
        annotations = Annotations.from_frame(long(rows))
    assert content(annotations) == [("p", [("a", "x"), ("b", "y")])]
    assert len(caught) == 1


def test_duplicates_must_be_a_known_word() -> None:
    with pytest.raises(ParameterError, match="'last', 'first', 'keep' or 'error'"):
        Annotations.from_frame(long(ROWS), duplicates="newest")  # type: ignore[arg-type]


# ---- matrices -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "matrix",
    [
        MATRIX,
        np.array(MATRIX),
        np.array(MATRIX, np.int8),
        np.where(np.array(MATRIX) < 0, np.nan, np.array(MATRIX)),
        np.where(np.array(MATRIX) < 0, None, np.array(MATRIX)),  # type: ignore[call-overload]
    ],
    ids=["list", "int", "int8", "nan", "none"],
)
def test_a_matrix_with_its_missing_entries(matrix: Any) -> None:
    annotations = Annotations.from_matrix(matrix)
    assert content(annotations) == MATRIX_CONTENT
    assert annotations.annotators.tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [object, str])
def test_a_matrix_of_strings(dtype: Any) -> None:
    nothing = None if dtype is object else ""
    annotations = Annotations.from_matrix(np.array([["b", nothing], ["a", "b"]], dtype=dtype))
    assert content(annotations) == [(0, [(0, "b")]), (1, [(0, "a"), (1, "b")])]


@pytest.mark.parametrize("dtype", [object, str])
def test_a_blank_in_a_matrix_is_missing(dtype: Any) -> None:
    annotations = Annotations.from_matrix(np.array([["b", "  "], ["a", "b"]], dtype=dtype))
    assert content(annotations) == [(0, [(0, "b")]), (1, [(0, "a"), (1, "b")])]


@pytest.mark.parametrize("kind", KINDS)
def test_a_wide_frame_is_a_matrix_whose_columns_are_annotators(kind: str) -> None:
    annotations = Annotations.from_matrix(make(kind, {"ann": ["x", None, "y"], "bob": ["x", "y", "y"]}))
    assert annotations.annotators.tolist() == ["ann", "bob"]
    assert content(annotations) == [
        (0, [("ann", "x"), ("bob", "x")]),
        (1, [("bob", "y")]),
        (2, [("ann", "y"), ("bob", "y")]),
    ]


@pytest.mark.parametrize("dtype", ["string", "Int64", "category"])
def test_pandas_own_missing_value_in_a_wide_frame(dtype: str) -> None:
    values: list[Any] = [1, 2, None] if dtype == "Int64" else ["x", "y", None]
    frame = pd.DataFrame({"ann": pd.Series(values, dtype=dtype), "bob": pd.Series(values[:2] * 2)[:3]})
    annotations = Annotations.from_matrix(frame)
    assert annotations.labels_per_item.tolist() == [2, 2, 1]
    assert annotations.classes.tolist() == values[:2]


@pytest.mark.parametrize("values", [[[7, 5], [5, 5]], [[7.0, 5.0], [5.0, 5.0]], [["7", "5"], ["5", "5"]]])
def test_masked_entries_of_a_matrix_are_missing(values: Any) -> None:
    masked = np.ma.masked_array(np.array(values), mask=[[True, False], [False, False]])
    annotations = Annotations.from_matrix(masked)
    assert annotations.indptr.tolist() == [0, 1, 3]
    assert annotations.classes.tolist() == [values[0][1]]


def test_a_matrix_can_be_named() -> None:
    annotations = Annotations.from_matrix(MATRIX, items=list("wxyz"), annotators=["a", "b", "c"], classes=[2, 1, 0])
    assert annotations.items.tolist() == list("wxyz")
    assert annotations.annotators.tolist() == ["a", "b", "c"]
    assert annotations.classes.tolist() == [2, 1, 0]
    assert content(annotations)[0] == ("w", [("a", 0), ("b", 1)])


def test_a_matrix_that_makes_no_sense() -> None:
    with pytest.raises(DataError, match=r"shape \(3,\)"):
        Annotations.from_matrix([1, 2, 3])
    with pytest.raises(DataError, match=r"shape \(0, 3\)"):
        Annotations.from_matrix(np.empty((0, 3)))
    with pytest.raises(DataError, match="every entry"):
        Annotations.from_matrix(np.full((2, 2), np.nan))
    with pytest.raises(DataError, match="4 items, but 2 names"):
        Annotations.from_matrix(MATRIX, items=["a", "b"])
    with pytest.raises(IdError, match="annotators must have different names"):
        Annotations.from_matrix(MATRIX, annotators=["a", "b", "a"])


@pytest.mark.parametrize(("entries", "expected"), [([2, 0, 1], [0, 1, 2]), ([2, 0.5, 1], [0.5, 1.0, 2.0])])
def test_gaps_in_a_matrix_do_not_turn_whole_numbers_into_floats(entries: list[float], expected: list[float]) -> None:
    made = Annotations.from_matrix(np.array([entries, [np.nan, *entries[1:]]]))
    assert made.classes.tolist() == expected
    assert {type(label) for label in made.class_ids} == {type(expected[0])}
    assert made.with_gold({0: entries[0]}).gold is not None
