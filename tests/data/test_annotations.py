"""Annotations: they never change, can be taken apart and put back, and hold what is known."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.tables import FRAME_TYPES, KINDS, MATRIX, MATRIX_CONTENT, ROWS, Row, content, long, make

from consilience import Annotations
from consilience.exceptions import DataError, DataWarning, IdError

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
