"""Ids and labels of every type in frames of every kind: missing ones, bad ones, classes by name, and many of them."""

from __future__ import annotations

import datetime
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.tables import KINDS, ROWS, Row, content, long, make, naive

from consilience import Annotations
from consilience.exceptions import ConsilienceError, DataError, DataWarning, IdError, ParameterError

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
    with pytest.raises(ConsilienceError, match="worker"):
        Annotations.from_frame(pd.DataFrame({"task": [1, 2], "worker": [[1], [2]], "label": [1, 2]}))


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
