"""Annotations: whatever comes in, in whatever frame, the labels are grouped by item and nothing is lost in silence."""

from __future__ import annotations

import copy
import datetime
import pickle
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from consilience import Annotations
from consilience.exceptions import (
    ColumnError,
    ConsilienceError,
    DataError,
    DataWarning,
    IdError,
    ParameterError,
)

KINDS = ("pandas", "polars", "pyarrow")
FRAME_TYPES: dict[str, Any] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}

Row = tuple[Any, Any, Any]
Grouped = list[tuple[Any, list[tuple[Any, Any]]]]

#: Rows in no order; items and annotators appear first as p, q, r and b, a, c.
ROWS: list[Row] = [
    ("p", "b", "yes"),
    ("q", "a", "no"),
    ("p", "a", "yes"),
    ("r", "c", "maybe"),
    ("q", "b", "yes"),
    ("p", "c", "no"),
    ("r", "a", "no"),
]


def make(kind: str, columns: Mapping[str, Sequence[Any]]) -> Any:
    if kind == "pandas":
        return pd.DataFrame(dict(columns))
    if kind == "polars":
        return pl.DataFrame(dict(columns))
    return pa.table({name: list(values) for name, values in columns.items()})


def long(rows: Iterable[Row], kind: str = "pandas", names: Sequence[str] = ("task", "worker", "label")) -> Any:
    items, annotators, labels = zip(*rows, strict=True)
    return make(kind, dict(zip(names, (list(items), list(annotators), list(labels)), strict=True)))


def content(annotations: Annotations) -> Grouped:
    """The labels by item, in names, in the order in which they are stored."""
    who, what = annotations.annotators, annotations.classes
    return [
        (
            annotations.items[n],
            [(who[annotations.annotator[i]], what[annotations.label[i]]) for i in range(start, stop)],
        )
        for n, (start, stop) in enumerate(zip(annotations.indptr[:-1], annotations.indptr[1:], strict=True))
    ]


def naive(rows: Iterable[Row], duplicates: str = "keep") -> Grouped:
    """The same by dictionaries: blank labels are no labels, the order within an item is that of the rows."""
    grouped: dict[Any, list[tuple[Any, Any]]] = {}
    for item, annotator, label in rows:
        answers = grouped.setdefault(item, [])
        if label is None or label != label or (isinstance(label, str) and not label.strip()):
            continue
        before = [i for i, (who, _) in enumerate(answers) if who == annotator]
        if before and duplicates == "first":
            continue
        if before and duplicates == "last":
            del answers[before[0]]
        answers.append((annotator, label))
    return list(grouped.items())


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


# ---- missing labels and bad ids -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_missing_labels_are_counted_and_their_items_stay(kind: str) -> None:
    rows: list[Row] = [*ROWS, ("s", "a", None), ("p", "d", ""), ("q", "d", "  ")]
    with pytest.warns(DataWarning, match="3 of 10 rows have no label"):
        annotations = Annotations.from_frame(long(rows, kind))
    assert content(annotations) == naive(rows)
    assert annotations.items.tolist() == ["p", "q", "r", "s"]
    assert annotations.labels_per_item.tolist() == [3, 2, 2, 0]
    assert annotations.describe()["unlabelled_items"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_nan_is_a_missing_label(kind: str) -> None:
    rows = [("p", "a", 1.0), ("p", "b", float("nan")), ("q", "a", 2.0)]
    with pytest.warns(DataWarning, match="1 of 3 rows"):
        annotations = Annotations.from_frame(long(rows, kind))
    assert annotations.classes.tolist() == [1.0, 2.0]
    assert annotations.n_labels == 2


def test_labels_that_are_all_missing_are_an_error() -> None:
    with pytest.raises(DataError, match=r"no label in any of its 2 rows \(column 'label'\)"):
        Annotations.from_frame(pd.DataFrame({"task": [1, 2], "worker": [1, 2], "label": [None, " "]}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ["task", "worker"])
@pytest.mark.parametrize("bad", [None, "", "   ", "\t"])
def test_an_id_that_is_no_id_names_its_rows(kind: str, role: str, bad: Any) -> None:
    columns: dict[str, list[Any]] = {"task": list("pqrs"), "worker": list("abcd"), "label": list("xyxy")}
    columns[role][1] = bad
    columns[role][3] = bad
    with pytest.raises(IdError, match=rf"rows 2 and 4.*'{role}'.*remove the row"):
        Annotations.from_frame(make(kind, columns))


@pytest.mark.parametrize("kind", KINDS)
def test_a_nan_id_names_its_row(kind: str) -> None:
    with pytest.raises(IdError, match="row 2"):
        Annotations.from_frame(long([(1.0, "a", "x"), (float("nan"), "b", "y")], kind))


def test_many_bad_rows_are_counted_not_listed() -> None:
    rows: list[Row] = [(None, "a", "x")] * 30 + [("p", "a", "x")]
    with pytest.raises(IdError, match=r"rows 1, 2, 3, 4, 5 and 25 more"):
        Annotations.from_frame(long(rows))


@pytest.mark.parametrize("role", ["task", "worker", "label"])
def test_seven_and_the_string_seven_in_one_column_are_an_error(role: str) -> None:
    columns: dict[str, list[Any]] = {"task": [1, 2, 3, 4], "worker": [1, 2, 3, 4], "label": [1, 2, 3, 4]}
    columns[role] = [7, 8, "7", "8"]
    with pytest.raises(IdError, match=rf"'{role}' mixes types: int \(first in row 1\), str \(first in row 3\).*astype"):
        Annotations.from_frame(pd.DataFrame(columns))


def test_ids_keep_their_type() -> None:
    numbers = Annotations.from_frame(long([(7, 1, 0), (8, 2, 1)]))
    words = Annotations.from_frame(long([("7", "1", "0"), ("8", "2", "1")]))
    assert numbers.items.dtype.kind == "i"
    assert words.items.tolist() == ["7", "8"]
    assert numbers != words
    long_ids = Annotations.from_frame(long([(2**62 + 1, "a", 0), (2**62 + 2, "b", 1)]))
    assert long_ids.items.tolist() == [2**62 + 1, 2**62 + 2]


def test_values_that_cannot_be_ids_are_an_error_of_ours() -> None:
    with pytest.raises(ConsilienceError, match="label"):
        Annotations.from_frame(pd.DataFrame({"task": [1, 2], "worker": [1, 2], "label": [[1], [2]]}))


# ---- classes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_classes_may_name_one_that_nobody_used(kind: str) -> None:
    with pytest.warns(DataWarning, match="nobody used 'perhaps'"):
        annotations = Annotations.from_frame(long(ROWS, kind), classes=["yes", "no", "maybe", "perhaps"])
    assert annotations.classes.tolist() == ["yes", "no", "maybe", "perhaps"]
    assert content(annotations) == naive(ROWS)
    assert annotations.describe()["label_shares"]["perhaps"] == 0


def test_classes_must_name_every_label_once() -> None:
    with pytest.raises(IdError, match=r"classes=… does not name: 'maybe'"):
        Annotations.from_frame(long(ROWS), classes=["yes", "no"])
    with pytest.raises(ParameterError, match="twice"):
        Annotations.from_frame(long(ROWS), classes=["yes", "no", "maybe", "no"])


def test_naming_many_classes_takes_no_time() -> None:
    K = 10_000
    frame = pd.DataFrame({"task": np.arange(K), "worker": "w", "label": np.arange(K)})
    begun = time.process_time()
    with pytest.warns(DataWarning, match=f"nobody used {K}"):
        annotations = Annotations.from_frame(frame, classes=range(K + 1))
    assert annotations.n_classes == K + 1
    # one look at every class takes milliseconds; a look at all labels for every class takes five seconds
    assert time.process_time() - begun < 1.5


def _categorical(values: list[Any], kind: str) -> Any:
    if kind == "pandas":
        return pd.Categorical(values, categories=["unused", "b", "a", "c"])
    if kind == "polars":
        return pl.Series(values, dtype=pl.Categorical)
    if kind == "enum":
        return pl.Series(values, dtype=pl.Enum(["unused", "b", "a", "c"]))
    return pa.array(values).dictionary_encode()


@pytest.mark.parametrize("kind", ["pandas", "polars", "enum", "pyarrow"])
def test_categories_are_as_good_as_their_values(kind: str) -> None:
    task, worker, label = ["p", "p", "q", "q"], ["b", "a", "a", "c"], ["b", "a", None, "b"]
    with pytest.warns(DataWarning, match="1 of 4 rows"):
        plain = Annotations.from_frame(pd.DataFrame({"task": task, "worker": worker, "label": label}))
    columns = {"task": task, "worker": _categorical(worker, kind), "label": _categorical(label, kind)}
    frame: Any
    if kind == "pandas":
        frame = pd.DataFrame(columns)
    elif kind == "pyarrow":
        frame = pa.table(columns)
    else:
        frame = pl.DataFrame(columns)
    with pytest.warns(DataWarning, match="1 of 4 rows"):
        annotations = Annotations.from_frame(frame)
    assert annotations == plain
    assert annotations.classes.tolist() == ["a", "b"]
    assert annotations.annotators.tolist() == ["b", "a", "c"]


def test_a_blank_category_is_no_id() -> None:
    frame = pd.DataFrame({"task": pd.Categorical(["p", " ", "q"]), "worker": list("abc"), "label": list("xyx")})
    with pytest.raises(IdError, match="row 2"):
        Annotations.from_frame(frame)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([True, False, True], [False, True]),
        ([2.5, -1.0, 2.5], [-1.0, 2.5]),
        ([10, 9, -1], [-1, 9, 10]),
        (
            [datetime.date(2024, 2, 1), datetime.date(2023, 1, 1), datetime.date(2024, 2, 1)],
            [datetime.date(2023, 1, 1), datetime.date(2024, 2, 1)],
        ),
    ],
    ids=["bool", "float", "int", "date"],
)
def test_labels_of_other_types_keep_them(kind: str, labels: list[Any], classes: list[Any]) -> None:
    annotations = Annotations.from_frame(make(kind, {"task": [1, 1, 2], "worker": [1, 2, 1], "label": labels}))
    assert annotations.classes.tolist() == classes
    assert [type(v) for v in annotations.classes.tolist()] == [type(v) for v in classes]
    assert [annotations.classes[code] for code in annotations.label] == labels


# ---- matrices -----------------------------------------------------------------------------------------------

MATRIX = [[0, 1, -1], [-1, 2, 0], [-1, -1, -1], [1, 1, 2]]
MATRIX_CONTENT: Grouped = [
    (0, [(0, 0), (1, 1)]),
    (1, [(1, 2), (2, 0)]),
    (2, []),
    (3, [(0, 1), (1, 1), (2, 2)]),
]


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


# ---- immutability, equality, copies -------------------------------------------------------------------------


def test_nothing_can_be_changed() -> None:
    annotations = Annotations.from_frame(long(ROWS)).with_gold({"p": "yes"})
    for name in ("indptr", "annotator", "label", "gold", "items", "annotators", "classes"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(annotations, name)[0] = getattr(annotations, name)[1]
        with pytest.raises(AttributeError):
            setattr(annotations, name, None)
    with pytest.raises(AttributeError):
        annotations.extra = 1
    with pytest.raises(AttributeError):
        del annotations.label
    with pytest.raises(TypeError):
        hash(annotations)


def test_changing_the_source_afterwards_changes_nothing() -> None:
    matrix = np.array(MATRIX)
    gold = np.array([0, -1, -1, 1], np.int32)
    annotations = Annotations.from_matrix(matrix, gold=gold)
    matrix[:] = 2
    gold[:] = 2
    assert content(annotations) == MATRIX_CONTENT
    assert annotations.gold is not None
    assert annotations.gold.tolist() == [0, -1, -1, 1]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_copies_are_equal(copied: Callable[[Annotations], Annotations]) -> None:
    annotations = Annotations.from_frame(long(ROWS)).with_gold({"p": "yes"})
    again = copied(annotations)
    assert again == annotations
    assert again.origin == annotations.origin
    with pytest.raises(ValueError, match="read-only"):
        again.label[0] = 0


def test_equality_sees_every_difference() -> None:
    base = Annotations.from_frame(long(ROWS))
    assert base == Annotations.from_frame(long(ROWS, "polars"))
    assert base != Annotations.from_frame(long(ROWS[::-1]))
    other_label = [*ROWS[:-1], ("r", "a", "yes")]
    assert base != Annotations.from_frame(long(other_label))
    renamed = [("P" if item == "p" else item, who, label) for item, who, label in ROWS]
    assert base != Annotations.from_frame(long(renamed))
    assert base != Annotations.from_frame(long([(item, who.upper(), label) for item, who, label in ROWS]))
    assert base != Annotations.from_frame(long(ROWS), classes=["yes", "no", "maybe"])
    assert base != base.with_gold({"p": "yes"})
    assert base.with_gold({"p": "yes"}) != base.with_gold({"p": "no"})
    assert base.with_gold({"p": "yes"}).with_gold(None) == base
    assert base != "annotations"


# ---- parts --------------------------------------------------------------------------------------------------


def crowd(seed: int = 0, n: int = 200) -> tuple[Annotations, list[Row]]:
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(12 * 9)[: min(n, 100)]
    rows = [(f"i{pair // 9}", f"a{pair % 9}", f"c{rng.integers(4)}") for pair in pairs]
    return Annotations.from_frame(long(rows)), rows


@pytest.mark.parametrize(
    "which",
    [[3, 0, 7], slice(2, 9, 3), np.arange(12) % 3 == 1, np.array([-1, 1]), [], slice(None)],
    ids=["positions", "slice", "mask", "negative", "none", "all"],
)
def test_selecting_items_against_lists(which: Any) -> None:
    base, _ = crowd()
    annotations = base.with_gold({"i3": "c1", "i7": "c0"})
    assert annotations.gold is not None
    part = annotations.select_items(which)
    chosen = np.arange(annotations.n_items)[which].tolist()
    assert content(part) == [content(annotations)[n] for n in chosen]
    assert part.annotators.tolist() == annotations.annotators.tolist()
    assert part.classes.tolist() == annotations.classes.tolist()
    expected_gold = [int(annotations.gold[n]) for n in chosen]
    if max(expected_gold, default=-1) < 0:
        assert part.gold is None
    else:
        assert part.gold is not None
        assert part.gold.tolist() == expected_gold


@pytest.mark.parametrize(
    "which",
    [[3, 0, 7], slice(2, 9, 3), np.arange(9) % 2 == 1, np.array([-1, 1]), [], slice(None)],
    ids=["positions", "slice", "mask", "negative", "none", "all"],
)
def test_selecting_annotators_against_lists(which: Any) -> None:
    annotations, _ = crowd(1)
    part = annotations.select_annotators(which)
    kept = annotations.annotators[which].tolist()
    expected = [(item, [pair for pair in answers if pair[0] in kept]) for item, answers in content(annotations)]
    assert content(part) == expected
    assert part.annotators.tolist() == kept
    assert part.items.tolist() == annotations.items.tolist()


def test_describe_is_right_by_hand() -> None:
    rows: list[Row] = [*ROWS, ("s", "d", None)]
    with pytest.warns(DataWarning, match="1 of 8 rows"):
        annotations = Annotations.from_frame(long(rows), gold={"p": "yes", "q": "no"})
    told = annotations.describe()
    notes = told.pop("notes")
    assert told == {
        "items": 4,
        "annotators": 4,
        "classes": 3,
        "labels": 7,
        "labels_per_item": {"min": 0, "median": 2.0, "max": 3},
        "labels_per_annotator": {"min": 0, "median": 2.0, "max": 3},
        "label_shares": {"maybe": 1 / 7, "no": 3 / 7, "yes": 3 / 7},
        "unlabelled_items": 1,
        "gold_items": 2,
    }
    assert len(notes) == 1
    assert annotations.labels_per_annotator.tolist() == [2, 3, 2, 0]
    assert repr(annotations) == "<Annotations: 7 labels, 4 items, 4 annotators, 3 classes, gold for 2>"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [("task", "worker", "label"), ("picture", "who", "said")])
def test_round_trip_through_a_frame(kind: str, names: tuple[str, str, str]) -> None:
    _, rows = crowd(2)
    roles = dict(zip(("item", "annotator", "label"), names, strict=True))
    annotations = Annotations.from_frame(long(rows, kind, names), **roles)  # type: ignore[arg-type]
    frame = annotations.to_frame()
    assert isinstance(frame, FRAME_TYPES[kind])
    columns = frame.column_names if kind == "pyarrow" else list(frame.columns)
    assert columns == list(names)
    # Grouped by item: annotators then appear in another order, but every label is where it was.
    again = Annotations.from_frame(frame, **roles)  # type: ignore[arg-type]
    assert content(again) == content(annotations)
    assert Annotations.from_frame(again.to_frame(), **roles) == again  # type: ignore[arg-type]
    for other in KINDS:
        assert isinstance(annotations.to_frame(other), FRAME_TYPES[other])
        assert content(Annotations.from_frame(annotations.to_frame(other), **roles)) == content(annotations)  # type: ignore[arg-type]


# ---- gold ---------------------------------------------------------------------------------------------------


def _gold_forms() -> list[Any]:
    frames = [make(kind, {"task": ["p", "r"], "label": ["yes", "no"]}) for kind in KINDS]
    other_names = [make(kind, {"item": ["p", "r"], "truth": ["yes", "no"]}) for kind in KINDS]
    with_gaps = [make(kind, {"task": ["q", "p", "r"], "label": [None, "yes", "no"]}) for kind in KINDS]
    return [
        {"p": "yes", "r": "no"},
        {"p": "yes", "q": None, "r": "no"},
        pd.Series({"p": "yes", "r": "no"}),
        pd.Series(["no", "yes"], index=["r", "p"]),
        *frames,
        *other_names,
        *with_gaps,
        ["yes", None, "no"],
        np.array(["yes", None, "no"], object),
        np.array(["yes", "", "no"]),
    ]


@pytest.mark.parametrize("form", range(len(_gold_forms())))
def test_gold_in_all_its_forms(form: int) -> None:
    gold = _gold_forms()[form]
    annotations = Annotations.from_frame(long(ROWS)).with_gold(gold)
    assert annotations.gold is not None
    assert annotations.gold.tolist() == [2, -1, 1]  # classes are maybe, no, yes
    assert Annotations.from_frame(long(ROWS), gold=gold) == annotations


@pytest.mark.parametrize(
    "gold", [[1, -1, -1, 2], [1.0, np.nan, np.nan, 2.0], [1, None, None, 2], {0: 1, 3: 2}, {0: 1.0, 3: 2.0}]
)
def test_gold_of_numbered_classes(gold: Any) -> None:
    for one in (Annotations.from_matrix(MATRIX, gold=gold), Annotations.from_matrix(MATRIX).with_gold(gold)):
        assert one.gold is not None
        assert one.gold.tolist() == [1, -1, -1, 2]


def test_minus_one_is_a_gold_where_it_is_a_class() -> None:
    rows = [("p", "a", -1), ("p", "b", 1), ("q", "a", 0)]
    annotations = Annotations.from_frame(long(rows)).with_gold({"p": -1})
    assert annotations.gold is not None
    assert annotations.gold.tolist() == [0, -1]


@pytest.mark.parametrize("nothing", [None, {}, [None, None, None], [np.nan] * 3])
def test_no_gold_is_no_gold(nothing: Any) -> None:
    assert Annotations.from_frame(long(ROWS)).with_gold(nothing).gold is None


def test_gold_that_contradicts_itself() -> None:
    gold = pd.DataFrame({"task": ["p", "q", "p"], "label": ["yes", "no", "no"]})
    with pytest.raises(DataError, match="gold gives item 'p' two different labels"):
        Annotations.from_frame(long(ROWS)).with_gold(gold)
    twice = pd.DataFrame({"task": ["p", "q", "p"], "label": ["yes", "no", "yes"]})
    annotations = Annotations.from_frame(long(ROWS)).with_gold(twice)
    assert annotations.gold is not None
    assert annotations.gold.tolist() == [2, 1, -1]


def test_gold_of_an_unknown_class() -> None:
    with pytest.raises(IdError, match=r"gold has the label 'perhaps'.*'maybe', 'no', 'yes'.*classes="):
        Annotations.from_frame(long(ROWS)).with_gold({"p": "perhaps"})


def test_gold_of_unknown_items() -> None:
    annotations = Annotations.from_frame(long(ROWS))
    with pytest.warns(DataWarning, match="gold: 2 items are not among the labelled items"):
        partly = annotations.with_gold({"p": "yes", "unknown": "no", "another": "yes"})
    assert partly.gold is not None
    assert partly.gold.tolist() == [2, -1, -1]
    with pytest.raises(IdError, match="none of the 2 items in gold"):
        annotations.with_gold({"unknown": "no", "another": "yes"})


def test_gold_of_the_wrong_length() -> None:
    with pytest.raises(DataError, match="each of the 3 items"):
        Annotations.from_frame(long(ROWS)).with_gold(["yes", "no"])


# ---- the compiled path --------------------------------------------------------------------------------------

N_LARGE = 45_000


def large_rows(kind: str) -> list[Row]:
    """Rows with all that can trip a hash table: long common prefixes, unicode, near twins, blanks and repeats."""
    rng = np.random.default_rng(5)
    prefix = "https://images.example.org/a/very/long/path/that/all/items/share/" * 2
    items = {
        "prefix": [f"{prefix}{i}" for i in range(9000)],
        "unicode": ["日" * (i % 7) + "é" + chr(0x1F600 + i % 50) + str(i) for i in range(9000)],
        "twins": [f"{'0' * (i % 5)}{i}{' ' * (i % 2)}{'x' * (i % 3)}" for i in range(9000)],
    }[kind]
    annotators = [f"w{i}" for i in range(150)] + ["W1", " w1", "w1 ", "ｗ1", "w1\u200b"]
    labels = ["x", " x", "x ", "X", "", " ", "y", "\u00e9", "e\u0301", "\t"]
    picks = rng.integers(0, [len(items), len(annotators), len(labels)], (N_LARGE, 3))
    return [(items[i], annotators[m], labels[k]) for i, m, k in picks.tolist()]


@pytest.mark.parametrize("kind", ["prefix", "unicode", "twins"])
@pytest.mark.parametrize("duplicates", ["last", "first", "keep"])
def test_many_rows_give_what_lists_give(kind: str, duplicates: Any) -> None:
    rows = large_rows(kind)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        annotations = Annotations.from_frame(long(rows, "pyarrow"), duplicates=duplicates)
    expected = naive(rows, duplicates)
    assert content(annotations) == expected
    assert annotations.annotators.tolist() == list(dict.fromkeys(who for _, who, _ in rows))
    assert annotations.classes.tolist() == sorted({label for _, _, label in rows if label.strip()}, key=str.encode)
    blank = sum(not label.strip() for _, _, label in rows)
    repeats = N_LARGE - blank - sum(len(answers) for _, answers in naive(rows, "last"))
    said = " ".join(str(w.message) for w in caught)
    assert f"{blank} of {N_LARGE} rows have no label" in said
    assert (f"{repeats} labels repeat" in said) == (duplicates != "keep")
    assert repeats > 100


@pytest.mark.parametrize("kind", ["pandas", "polars", "large_string", "string_view", "chunks", "slice", "categories"])
def test_many_rows_are_the_same_from_every_frame(kind: str) -> None:
    rows = large_rows("unicode")
    table = long(rows, "pyarrow")
    frames: dict[str, Callable[[], Any]] = {
        "pandas": lambda: long(rows, "pandas"),
        "polars": lambda: long(rows, "polars"),
        "large_string": lambda: table.cast(pa.schema([(name, pa.large_string()) for name in table.column_names])),
        "string_view": lambda: table.cast(pa.schema([(name, pa.string_view()) for name in table.column_names])),
        "chunks": lambda: pa.concat_tables([table.slice(0, 7), table.slice(7, 30_000), table.slice(30_007)]),
        "slice": lambda: pa.concat_tables([table.slice(0, 11), table]).combine_chunks().slice(11),
        "categories": lambda: pl.from_arrow(table).with_columns(pl.all().cast(pl.Categorical)),  # type: ignore[union-attr]
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        expected = Annotations.from_frame(table)
        assert Annotations.from_frame(frames[kind]()) == expected


def test_an_empty_id_among_many_rows_is_found() -> None:
    rows = [(f"i{i % 5000}", f"w{i % 7}", "xy"[i % 2]) for i in range(40_000)]
    for bad in ("", " ", None):
        who: list[str | None] = [name for _, name, _ in rows]
        who[39_998] = bad
        frame = pa.table({"task": [row[0] for row in rows], "worker": who, "label": [row[2] for row in rows]})
        with pytest.raises(IdError, match="row 39999"):
            Annotations.from_frame(frame)


def test_many_blank_labels_and_nothing_else() -> None:
    with pytest.raises(DataError, match="no label in any of its 40000 rows"):
        Annotations.from_frame(pd.DataFrame({"task": range(40_000), "worker": "w", "label": ""}))


def test_many_numbers_give_what_numpy_gives() -> None:
    rng = np.random.default_rng(1)
    item = rng.integers(0, 70_000, N_LARGE) * 10**12
    worker = rng.integers(0, 400, N_LARGE)
    label = rng.integers(0, 300, N_LARGE)
    annotations = Annotations.from_frame(
        pd.DataFrame({"task": item, "worker": worker, "label": label}), duplicates="keep"
    )
    _, first = np.unique(item, return_index=True)
    assert annotations.items.tolist() == item[np.sort(first)].tolist()
    order = np.argsort(pd.factorize(item)[0], kind="stable")
    assert np.array_equal(annotations.items[annotations.item_of_label()], item[order])
    assert np.array_equal(annotations.annotators[annotations.annotator], worker[order])
    assert np.array_equal(annotations.classes[annotations.label], label[order])


def test_many_repeats_as_an_error_name_the_rows() -> None:
    rows = [(f"i{i}", "w", "xy"[i % 2]) for i in range(40_000)]
    rows[39_990] = rows[17]
    with pytest.raises(DataError, match=r"1 repeated answers.*'w'.*'i17'.*rows 18 and 39991"):
        Annotations.from_frame(long(rows), duplicates="error")
