"""A diagnosis: what it is given, what it gives."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import random_model
from tests.diagnose.conftest import crowd, frame_of, healthy, plain

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.diagnose import Diagnosis, diagnose
from consilience.diagnose.evidence import smoothed_factor
from consilience.exceptions import DataError, IdError, ParameterError


def numbers(found: Diagnosis) -> dict[str, Any]:
    """Return everything that names no annotator and no class."""
    content = found.to_dict()
    for key in ("reasons", "advice", "annotators", "classes", "headline"):
        del content[key]
    del content["blocks"]["weakest_contrast"]["classes"]
    return content


def test_names_and_rows_do_not_matter() -> None:
    a = healthy(300, 9, seed=4)
    frame = frame_of(a)
    found = diagnose(a)
    other = frame.sample(frac=1.0, random_state=3)
    other["annotator"] = other["annotator"].map(lambda name: f"{97 - 7 * int(name[1:])}")
    other["item"] = other["item"].map(lambda n: f"x{(n * 7919) % 300}")
    other["label"] = other["label"].map({0: "zebra", 1: "yak", 2: "ape"})
    again = diagnose(other.rename(columns={"annotator": "worker", "item": "task"}))
    assert again.verdict == found.verdict
    assert again.advice == found.advice

    def same(one: Any, two: Any, where: str = "") -> None:
        if isinstance(one, dict):
            assert one.keys() == two.keys()
            for key in one:
                same(one[key], two[key], f"{where}.{key}")
        elif isinstance(one, list) and where.endswith("prior_errors"):
            np.testing.assert_allclose(one, two[::-1], atol=2e-3)
        elif isinstance(one, list):
            assert len(one) == len(two), where
            for i, (x, y) in enumerate(zip(one, two, strict=True)):
                same(x, y, f"{where}[{i}]")
        else:
            assert one == pytest.approx(two, abs=2e-3), where

    same(numbers(found), numbers(again))
    rows = {f"{97 - 7 * int(row['annotator'][1:])}": row for row in found.to_dict()["annotators"]}
    for row in again.to_dict()["annotators"]:
        mine = rows[row["worker"]]
        same({k: v for k, v in row.items() if k != "worker"}, {k: v for k, v in mine.items() if k != "annotator"})


def test_a_consensus_is_used_and_not_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    a = healthy()
    consensus = cs.aggregate(a, "ds-em")
    fresh = diagnose(a, method="ds-em")
    monkeypatch.setattr("consilience.methods.base.registry.fit", None)
    given, model = diagnose(a, consensus=consensus), diagnose(a, consensus=consensus.model)
    assert given.to_dict() == fresh.to_dict()
    assert {**model.to_dict(), "method": "ds-em"} == fresh.to_dict()


def test_a_consensus_of_others_is_refused() -> None:
    a = healthy()
    with pytest.raises(ParameterError, match="the consensus is of other annotators"):
        diagnose(frame_of(a, "x"), consensus=cs.aggregate(a))
    with pytest.raises(IdError):
        diagnose(frame_of(a).assign(label=7), consensus=cs.aggregate(a))
    part = diagnose(a.select_items(slice(0, 100)), consensus=cs.aggregate(a))
    assert (part.n_items, len(part.annotator_ids)) == (100, 10)


def test_any_data_that_aggregate_takes(tmp_path: Path) -> None:
    frame = frame_of(healthy()).rename(columns={"annotator": "worker", "item": "task"})
    path = tmp_path / "labels.csv"
    frame.to_csv(path, index=False)
    verdicts = {diagnose(data, bootstrap=0).verdict for data in (frame, str(path), pl.from_pandas(frame))}
    assert verdicts == {"identified"}
    with pytest.raises(DataError, match="no labels"):
        diagnose(healthy().select_items([]))


def test_frames_of_the_kind_that_came() -> None:
    frame = frame_of(healthy()).rename(columns={"annotator": "who"})
    for data, kind in ((frame, pd.DataFrame), (pl.from_pandas(frame), pl.DataFrame), (pa.table(frame), pa.Table)):
        a = Annotations.from_frame(data, annotator="who")
        found = diagnose(a, bootstrap=2)
        assert isinstance(found.annotators, kind)
        assert isinstance(found.classes, kind)
    people, classes = found.annotators.to_pylist(), found.classes.to_pylist()
    assert [row["who"] for row in people] == list(a.annotators)
    assert sum(row["n_labels"] for row in people) == a.n_labels
    assert all(row["partners"] == 9 and row["group"] == 0 and row["chance"] < 0.01 for row in people)
    assert [row["class"] for row in classes] == [0, 1, 2]
    assert sum(row["items"] for row in classes) == pytest.approx(400)
    assert {row["specialist"] for row in classes} <= set(a.annotators)
    assert [row["says"] for row in classes] == [0, 1, 2]


def test_the_specialist_is_the_one_who_knows() -> None:
    rng = np.random.default_rng(0)
    confusions = np.tile(0.55 * np.eye(3) + 0.15, (8, 1, 1))
    for k in range(3):
        confusions[k, :, :] = 0.34 * (np.arange(3)[:, None] != k) + 0.33 * np.eye(3)
        confusions[k, k, :] = 0.002
        confusions[k, :, k] = [0.99 if i == k else 0.005 for i in range(3)]
        confusions[k] /= confusions[k].sum(axis=0)
    model = cs.DawidSkene(np.full(3, 1 / 3), confusions, list("xyz"), [f"w{m}" for m in range(8)])  # type: ignore[arg-type]
    a, _ = model.sample(3000, random_state=rng)
    rows = diagnose(a, bootstrap=0).to_dict()["classes"]
    assert [(row["specialist"], row["says"]) for row in rows] == [("w0", "x"), ("w1", "y"), ("w2", "z")]
    assert all(row["distance"] < 0.03 for row in rows)


def test_the_factor_stacks_confusions_and_roots_of_the_prior() -> None:
    """Ibrahim & Fu 2022, eq. (6): H Hᵀ has the blocks A_m D A_jᵀ."""
    model = random_model(4, 3, seed=3)
    items = 1e9 * model.prior
    H = smoothed_factor(model.confusions * items, items)
    for m, j in ((0, 1), (2, 3)):
        block = model.confusions[m] @ np.diag(model.prior) @ model.confusions[j].T
        np.testing.assert_allclose((H @ H.T)[3 * m : 3 * m + 3, 3 * j : 3 * j + 3], block, atol=1e-7)


def test_three_labels_make_no_specialist() -> None:
    frame = frame_of(healthy())
    truth = frame.groupby("item")["label"].agg(lambda labels: labels.mode()[0])
    # right three times, on items that everybody agrees on
    lucky = pd.DataFrame({"item": truth.index[:3], "annotator": "lucky", "label": truth.iloc[:3].to_numpy()})
    rows = diagnose(crowd(frame, lucky), bootstrap=0).to_dict()["classes"]
    assert "lucky" not in {row["specialist"] for row in rows}


def test_pairs_need_specialists() -> None:
    """With two labels an item, and nobody who knows class 2, the model hangs on too little."""
    confusions = np.tile(0.94 * np.eye(3) + 0.02, (9, 1, 1))
    confusions[:, :, 2] = [0.25, 0.25, 0.5]
    confusions[:, 2, :2], confusions[:, 0, 0], confusions[:, 1, 1] = 0.2, 0.78, 0.78
    model = cs.DawidSkene(np.full(3, 1 / 3), confusions, [0, 1, 2], list(range(9)))  # type: ignore[arg-type]
    a, _ = model.sample(6000, labels_per_item=2, random_state=1)
    found = diagnose(a, consensus=model, bootstrap=0)
    plain(found)
    assert found.verdict == "weakly"
    assert "Hardly any item has three labels" in found.reasons[0]
    assert found.reasons[0].endswith("Class 2 has none.")
    more, _ = model.sample(6000, labels_per_item=3, random_state=1)
    assert diagnose(more, consensus=model, bootstrap=0).verdict == "identified"


def test_nobody_knows_a_class() -> None:
    """Many who are right a little more often than not: no label means much by itself."""
    confusions = np.tile([[0.56, 0.44], [0.44, 0.56]], (9, 1, 1))
    model = cs.DawidSkene(np.full(2, 1 / 2), confusions, list("ab"), [f"w{m}" for m in range(9)])  # type: ignore[arg-type]
    a, _ = model.sample(6000, labels_per_item=9, random_state=1)
    found = diagnose(a, consensus=model, bootstrap=0)
    plain(found)
    assert found.verdict == "weakly"
    assert any(reason.startswith("Nobody tells class b from the others") for reason in found.reasons)
    assert any(re.search(r"specialist for class b, .* \(w\d comes nearest\)", advice) for advice in found.advice)


def test_agreement_that_may_be_chance() -> None:
    found = diagnose(cs.simulate(1000, 20, 3, labels_per_item=3, accuracy=(0.4, 0.6)).annotations, bootstrap=0)
    plain(found)
    assert 1e-6 < found.blocks.crowd_chance < 1e-3
    assert found.verdict == "weakly"
    assert "only slightly more than they would by guessing" in found.reasons[0]


@pytest.mark.parametrize("word", ["[bold]", "<script>alert(1)</script>", "[/red]", ":smile:", "{x}", "%s", "日本"])
def test_names_are_printed_as_they_are(word: str) -> None:
    frame = frame_of(healthy(), word)
    loner = pd.DataFrame({"item": range(5000, 5060), "annotator": f"loner {word}", "label": np.arange(60) % 3})
    found = diagnose(crowd(frame, loner), bootstrap=0)
    assert f"1 annotator (loner {word}) with 60" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["graph"]["without_common_items"] == [f"loner {word}"]


def test_dates_as_names_are_text_in_json() -> None:
    frame = frame_of(healthy())
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta(frame["annotator"].str[1:].astype(int), "D")
    found = diagnose(Annotations.from_frame(frame.assign(annotator=days)), bootstrap=0)
    plain(found)
    assert found.to_dict()["annotators"][0]["annotator"].startswith("2024-01-")


def test_the_package_can_be_called_like_the_function() -> None:
    module = sys.modules["consilience.diagnose"]
    assert repr(module(healthy(), bootstrap=0)) == "<Diagnosis: identified, 10 annotators, 3 classes>"  # type: ignore[operator]


def test_repeated_answers_are_no_more_evidence() -> None:
    spam = cs.simulate(100, 6, 2, spammers=1.0, labels_per_item=6, seed=3).annotations.to_frame("pandas")
    a = Annotations.from_frame(pd.concat([spam] * 5), duplicates="keep")
    assert a.n_labels == 3000
    assert diagnose(a).verdict == "not"


@settings(max_examples=80, deadline=None, database=None, derandomize=True)
@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40),
    gold=st.lists(st.integers(-1, 0), min_size=6, max_size=6),
)
def test_any_table_gets_a_diagnosis(rows: list[tuple[int, int, int]], gold: list[int]) -> None:
    frame = pd.DataFrame([(f"i{n}", f"w{m}", f"c{k}") for n, m, k in rows], columns=["task", "worker", "label"])
    a = Annotations.from_frame(frame, duplicates="keep")
    a = a.with_gold(np.array([None if g < 0 else a.classes[0] for g in gold[: a.n_items]], object))
    found = diagnose(a, bootstrap=3)
    plain(found)
    assert len(found.annotators) == a.n_annotators
    assert len(found.classes) == a.n_classes
    assert a.n_annotators > 2 or a.gold is not None or found.verdict == "not"


def test_without_intervals_the_coefficients_are_the_same() -> None:
    crowd = cs.simulate(80, 6, 2, labels_per_item=3, seed=1).annotations
    with_, without = (cs.diagnose(crowd, bootstrap=0, intervals=on).agreement for on in (True, False))
    assert with_ is not None
    assert without is not None
    assert without.alpha.value == with_.alpha.value
    assert with_.draws > without.draws == 0
