"""Answers as people write them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.data.ids import Ids
from consilience.data.written import numbers_with_units, without_no_answers

pytestmark = pytest.mark.filterwarnings(
    "ignore::consilience.exceptions.DataWarning", "ignore::consilience.exceptions.FewLabelsWarning"
)


@pytest.mark.parametrize(
    ("names", "values", "unit"),
    [
        (["1,200", "87", "-3,000,000.5"], [1200, 87, -3000000.5], ""),
        (["12 kg", "3.5kg", "4"], [12, 3.5, 4], "kg"),
        (["$1,024.08", "-$5", "$-7"], [1024.08, -5, -7], "$"),
        (["56%", "7 %"], [56, 7], "%"),
        (["948,8", "1.002,5", "7"], [948.8, 1002.5, 7], ""),
        (["1 234,5", "1'000"], [1234.5, 1000], ""),
        (["1 star", "2 stars"], [1, 2], "star"),
    ],
)
def test_numbers_with_units(names: list[str], values: list[float], unit: str) -> None:
    found = numbers_with_units(Ids(names))
    assert found is not None
    np.testing.assert_allclose(found[0], values)
    assert found[1] == unit


@pytest.mark.parametrize(
    "names", [["12 kg", "3 lb"], ["12", "many"], ["1-2", "3-4"], ["1,23,4", "5"], ["2020-01-02"], ["a12b", "a13b"]]
)
def test_what_is_no_number(names: list[str]) -> None:
    assert numbers_with_units(Ids(names)) is None


def test_no_answers_are_left_out() -> None:
    a = cs.Annotations.from_frame(
        pd.DataFrame({"item": [1, 1, 2, 2, 3], "annotator": [*"ababa"], "label": ["3", "Don’t know", "4", "N/A.", "3"]})
    )
    found = without_no_answers(a)
    assert found is not None
    assert found.annotations.labels_per_item.tolist() == [1, 1, 1]
    assert [*found.annotations.classes] == ["3", "4"]
    assert found.sentence == "2 of 5 answers are 'Don’t know', 'N/A.', and are left out"
    assert without_no_answers(found.annotations) is None


def _drawn(level: list[str], seed: int = 0) -> pd.DataFrame:
    made = cs.datasets.simulate_scale(150, 8, len(level), seed=seed).annotations.to_frame("pandas")
    return made.assign(label=[level[k] for k in made["label"]])


def test_a_scale_with_answers_that_are_none() -> None:
    frame = _drawn(["never", "rarely", "sometimes", "often", "always"])
    clean = frame.copy()
    frame.loc[::17, "label"] = "don't know"
    for answers in ("auto", "ordinal"):
        with pytest.warns(cs.exceptions.DataWarning, match='answers are "don\'t know", and are left out'):
            found = cs.aggregate(frame, answers=answers)
        assert [*found.model.classes] == ["never", "rarely", "sometimes", "often", "always"]
    clean = clean.drop(index=clean.index[::17])
    np.testing.assert_allclose(found.posterior, cs.aggregate(clean, answers="ordinal").posterior, atol=1e-12)


def test_levels_that_begin_with_numbers() -> None:
    frame = _drawn(["1 star", "2 stars", "3 stars", "4 stars", "10 stars"])
    found = cs.aggregate(frame, answers="ordinal")
    assert [*found.model.classes] == ["1 star", "2 stars", "3 stars", "4 stars", "10 stars"]
    with pytest.warns(cs.exceptions.DataWarning, match="treated as a scale from 1 star to 10 stars"):
        assert cs.aggregate(frame).run["answers"] == "ordinal"


def test_numbers_with_a_unit_are_numbers() -> None:
    frame = cs.datasets.simulate_numeric(60, 8, labels_per_item=5, seed=3).annotations.to_frame("pandas")
    plain = cs.aggregate(frame, answers="numeric")
    written = frame.assign(label=[f"{1000 * value:,.1f} kg" for value in frame["label"]])
    with pytest.warns(cs.exceptions.DataWarning, match="read as numbers without their unit 'kg': '.*' is "):
        found = cs.aggregate(written)
    np.testing.assert_allclose(found.labels["value"], 1000 * plain.labels["value"], rtol=1e-3)


def test_many_numbers_are_never_silently_classes() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"item": np.repeat(np.arange(300), 3), "annotator": [*"abc"] * 300})
    with pytest.warns(cs.exceptions.DataWarning, match="900 different numbers .*, taken as names of classes"):
        cs.aggregate(frame.assign(label=rng.permutation(900)))
    codes = np.repeat(rng.integers(0, 30, 300), 3)  # all agree: codes of classes
    assert cs.aggregate(frame.assign(label=codes)).run["answers"] == "nominal"


@pytest.mark.parametrize("marks", [("", ";", ""), ("", ", ", ""), ('["', '","', '"]')])
def test_options_with_other_separators(marks: tuple[str, str, str]) -> None:
    begin, between, end = marks
    said = [["x", "y"], ["x"], [], ["y"], ["y"], ["x", "y"], ["x"], []]
    frame = pd.DataFrame({"item": [1, 1, 2, 2, 3, 3, 4, 4], "annotator": [*"ab"] * 4})
    empty = "[]" if begin else ""
    written = frame.assign(label=[begin + between.join(each) + end if each else empty for each in said])
    with pytest.warns(cs.exceptions.DataWarning, match=r"is taken for 'x\|y'"):
        found = cs.aggregate(written, answers="multi")
    expected = cs.aggregate(frame.assign(label=["|".join(each) for each in said]), answers="multi")
    np.testing.assert_allclose(found.posterior, expected.posterior)
    assert found.labels["label"].tolist() == expected.labels["label"].tolist()
