"""Labels that are written in several ways."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.data.ids import Ids
from consilience.data.spelling import notes_on_spelling
from consilience.exceptions import DataWarning, IdError


def merged_by(*spellings: str) -> bool:
    return bool(notes_on_spelling(Ids(list(spellings)), np.arange(len(spellings)), "the data"))


@pytest.mark.parametrize(
    "spellings",
    [
        ("Yes", "yes"),
        ("no", "no "),
        ("very good", "Very  good"),
        ("ÄRGER", "ärger"),
        ("1", "1.0"),
        ("1", "01"),
        ("1", "+1"),
        ("2.5", "2.50"),
        ("0", "0.0"),
        ("-3", "-03.00"),
        ("yes", "yes\u200b"),
        ("\ufeffno", "no"),
        ("é", "e\u0301"),
    ],
)
def test_equal_but_for_spelling(spellings: tuple[str, str]) -> None:
    assert merged_by(*spellings)


@pytest.mark.parametrize(
    "spellings",
    [("1", "10"), ("0", "10"), ("100", "1"), ("1", "-1"), ("2.5", "25"), ("v1", "v01"), ("a b", "ab"), ("1.5", "1.05")],
)
def test_different_labels_get_no_note(spellings: tuple[str, str]) -> None:
    assert not merged_by(*spellings)


def test_numbers_get_no_note() -> None:
    assert not notes_on_spelling(Ids([1, 10, 100]), np.array([0, 1, 2]), "the data")


def crowd() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    label = rng.choice(["yes", "no"], 300)
    odd = rng.random(300) < 0.2
    label = np.where(odd & (label == "yes"), "Yes ", np.where(odd, "NO", label))
    return pd.DataFrame({"task": np.repeat(np.arange(60), 5), "worker": np.tile(np.arange(5), 60), "label": label})


def test_the_line_in_the_note_merges_the_labels() -> None:
    frame = crowd()
    with pytest.warns(DataWarning, match="differ only in case, white space, invisible") as caught:
        apart = cs.Annotations.from_frame(frame)
    line = re.search(r"to merge them: (.*)$", str(caught[0].message))
    assert line is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        together = eval(line[1], {"cs": cs, "frame": frame})
    clean = frame.assign(label=frame["label"].str.strip().str.lower())
    assert apart.n_classes == 4
    assert together == cs.Annotations.from_frame(clean)
    assert not together.origin.notes


def test_relabel_keeps_gold_and_the_order_of_classes() -> None:
    votes = np.array([["b", "a", "B"], ["a", "a", "c"], ["c", "b", "b"]])
    with pytest.warns(DataWarning, match="differ only"):
        annotations = cs.Annotations.from_matrix(votes, gold=["B", "a", "c"])
    with pytest.warns(DataWarning, match="nobody used 'z'"):
        other = cs.Annotations.from_matrix(votes, classes=["z", "c", "B", "b", "a"], gold=["B", "a", None])
    merged = annotations.relabel({"B": "b"})
    assert merged.classes.tolist() == ["a", "b", "c"]
    assert merged.gold is not None
    assert merged.classes[merged.gold].tolist() == ["b", "a", "c"]
    assert other.relabel({"B": "b"}).classes.tolist() == ["z", "c", "b", "a"]
    with pytest.raises(IdError, match="there is no class 'y'"):
        annotations.relabel({"y": "b"})
