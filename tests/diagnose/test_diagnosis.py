"""The verdict: on crowds whose state is known, in words that a labelling manager understands."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import random_model, real_crowd

import consilience as cs
from consilience.annotations import Annotations
from consilience.datasets import load
from consilience.diagnose import Diagnosis, diagnose
from consilience.diagnose.diagnosis import _factor
from consilience.exceptions import DataError, IdError, ParameterError

#: Words of the trade that a sentence must not use without saying what they mean.
JARGON = re.compile(r"identifiab|singular|bipartite|component|bootstrap|posterior|prior|NaN|nan\b|inf\b|SSC|rank", re.I)


def frame_of(annotations: Annotations, prefix: str = "", items: int = 0) -> pd.DataFrame:
    frame = annotations.to_frame("pandas")
    frame["annotator"] = prefix + frame["annotator"].astype(str)
    frame["item"] += items
    return frame


def crowd(*frames: pd.DataFrame) -> Annotations:
    return Annotations.from_frame(pd.concat(frames))


def healthy(N: int = 400, M: int = 10, seed: int = 1, **more: Any) -> Annotations:
    return cs.simulate(N, M, 3, labels_per_item=6, experts=0.3, seed=seed, **more).annotations


def camps(seed: int = 0) -> Annotations:
    """Six annotators; every item has one label of a0 to a2 and one of a3 to a5."""
    model = random_model(6, 2, seed=4, skill=0.8)
    full, _ = model.sample(600, random_state=seed)
    rng = np.random.default_rng(seed)
    matrix = full.label.reshape(600, 6).astype(int)
    kept = np.full((600, 6), -1)
    for half in (0, 3):
        who = half + rng.integers(0, 3, 600)
        kept[np.arange(600), who] = matrix[np.arange(600), who]
    return Annotations.from_matrix(kept, annotators=[f"a{m}" for m in range(6)])


def plain(found: Diagnosis) -> None:
    """What every diagnosis has: sentences, plain values, a way back from JSON."""

    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is not JSON")

    content = found.to_dict()
    assert json.loads(json.dumps(content), parse_constant=refuse) == content
    assert found.verdict in ("identified", "weakly", "not")
    assert found.reasons
    assert found.verdict == "identified" or found.advice
    for sentence in (found.headline, *found.reasons, *found.advice):
        assert sentence[0].isupper() or sentence[0].isdigit()
        assert sentence.endswith(".")
        assert not JARGON.search(sentence), sentence
        assert not re.search(r"\b1 (items|labels|annotators|groups)\b", sentence), sentence
        assert not re.search(r"  |\(\)| ,|None", sentence), sentence
    assert str(found).startswith(found.headline)
    assert all(sentence in str(found) for sentence in (*found.reasons, *found.advice))


# ---- not identified -------------------------------------------------------------------------------------------------


def test_two_halves_that_never_meet() -> None:
    a = crowd(frame_of(healthy(seed=1), "north-"), frame_of(healthy(seed=2), "south-", 1000))
    found = diagnose(a)
    plain(found)
    assert found.verdict == "not"
    assert "fall into 2 groups that never labelled the same item: 10 annotators (" in found.reasons[0]
    assert re.search(r"Let north-a\d and south-a\d label at least 30 common items", "".join(found.advice))
    assert found.graph.n_components == 2
    assert found.to_dict()["graph"]["largest_groups"][1]["annotators"] == 10


def test_one_bridge_joins_the_halves() -> None:
    north, south = frame_of(healthy(seed=1), "north-"), frame_of(healthy(seed=2), "south-", 1000)
    bridge = pd.concat(
        [north[north["annotator"] == "north-a1"].head(40), south[south["annotator"] == "south-a1"].head(40)]
    )
    found = diagnose(crowd(north, south, bridge.assign(annotator="bridge")))
    assert found.graph.n_components == 1
    assert found.verdict != "not"


def test_many_groups_are_summed_up() -> None:
    parts = [frame_of(healthy(60, 6, seed=s), f"g{s}-", 1000 * s) for s in range(7)]
    found = diagnose(crowd(*parts), bootstrap=0)
    plain(found)
    assert "into 7 groups" in found.reasons[0]
    assert "; and 3 more. How" in found.reasons[0]
    assert len(found.advice) == 3


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("K", [2, 4])
def test_spammers(seed: int, K: int) -> None:
    found = diagnose(cs.simulate(500, 12, K, spammers=1.0, seed=seed).annotations)
    plain(found)
    assert found.verdict == "not"
    assert "they agree hardly more than they would by guessing" in found.reasons[0]
    assert "On the 500 items" in found.reasons[0]
    assert len(found.reasons) == 1, "nothing else matters then"


def test_two_annotators_among_spammers() -> None:
    good = cs.simulate(600, 2, 2, experts=1.0, seed=3).annotations
    spam = cs.simulate(600, 8, 2, labels_per_item=8, spammers=1.0, seed=4).annotations
    found = diagnose(crowd(frame_of(good, "good-"), frame_of(spam, "spam-")))
    plain(found)
    assert found.verdict == "not"
    assert "Only good-a0 and good-a1 agree with anybody more than guesses would" in found.reasons[0]


def test_three_annotators_among_spammers_are_enough() -> None:
    good = cs.simulate(600, 3, 2, experts=1.0, seed=3).annotations
    spam = cs.simulate(600, 7, 2, labels_per_item=7, spammers=1.0, seed=4).annotations
    assert diagnose(crowd(frame_of(good, "good-"), frame_of(spam, "spam-"))).verdict != "not"


def test_one_and_two_annotators() -> None:
    for M, said in ((1, "All labels come from one annotator, a0"), (2, "There are only two annotators, a0 and a1")):
        found = diagnose(cs.simulate(200, M, 2, labels_per_item=M, experts=1.0).annotations)
        plain(found)
        assert (found.verdict, len(found.reasons)) == ("not", 1)
        assert found.reasons[0].startswith(said)
        assert "at least 20 of the items that a0" in found.advice[0]


def test_a_third_annotator_without_labels_is_none() -> None:
    matrix = np.full((50, 3), -1)
    matrix[:, :2] = np.random.default_rng(0).integers(0, 2, (50, 2))
    found = diagnose(matrix)
    assert "only two annotators, 0 and 1" in found.reasons[0]
    row = found.to_dict()["annotators"][2]
    assert row == {**dict.fromkeys(row), "annotator": 2, "n_labels": 0, "common_items": 0, "partners": 0}


def test_no_item_with_two_labels() -> None:
    found = diagnose(cs.simulate(200, 6, 3, labels_per_item=1, experts=1.0).annotations)
    plain(found)
    assert found.verdict == "not"
    assert "No item was labelled by two annotators" in found.reasons[0]
    assert "three annotators" in found.advice[0]


def test_two_camps() -> None:
    found = diagnose(camps())
    plain(found)
    assert found.verdict == "not"
    assert "two camps, " in found.reasons[0]
    sides = re.search(r"camps, (.*) on one side and (.*) on the other", found.reasons[0])
    assert sides is not None
    assert [set(re.findall(r"a\d", side)) for side in sides.groups()] == [{"a0", "a1", "a2"}, {"a3", "a4", "a5"}]
    assert re.search(r"Let a[0-2] and a[0-2] label|Let a[3-5] and a[3-5] label", found.advice[0])
    assert found.to_dict()["graph"]["largest_groups"][0]["bipartite"]


def test_a_ring_of_five_is_roundabout() -> None:
    model = random_model(5, 2, seed=1, skill=0.9)
    full, _ = model.sample(2000, random_state=1)
    said, kept = full.label.reshape(2000, 5).astype(int), np.full((2000, 5), -1)
    for n in range(2000):
        for m in (n % 5, (n + 1) % 5):
            kept[n, m] = said[n, m]
    found = diagnose(kept)
    plain(found)
    assert found.verdict == "weakly"
    assert any("No three annotators all share items" in reason for reason in found.reasons)


def test_one_class_and_classes_that_nobody_used() -> None:
    found = diagnose(np.zeros((20, 4), int))
    plain(found)
    assert (found.verdict, found.reasons) == ("not", ["Every label is 0: there is nothing to tell apart."])
    frame = frame_of(healthy())
    with pytest.warns(cs.exceptions.DataWarning, match="nobody used 'z'"):
        a = Annotations.from_frame(frame.assign(label=frame["label"].map(dict(enumerate("abc")))), classes=list("abcz"))
    found = diagnose(a)
    plain(found)
    assert found.verdict == "not"
    assert found.reasons == ["Nobody used z as a label: nothing can be learned about that class."]


# ---- identified, and nearly -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_healthy_crowd(seed: int) -> None:
    found = diagnose(cs.simulate(1000, 20, 3, labels_per_item=6, experts=0.2, seed=seed).annotations)
    plain(found)
    assert found.verdict == "identified"
    assert found.advice == []
    assert "20 annotators are linked by common items: every pair shares some." in found.reasons
    assert found.scatter.exact
    assert found.scatter.shortfall < 0.1


def test_one_who_shares_no_item() -> None:
    frame = frame_of(healthy())
    for n, verdict in ((10, "identified"), (60, "weakly"), (400, "not")):
        loner = pd.DataFrame({"item": range(5000, 5000 + n), "annotator": "loner", "label": np.arange(n) % 3})
        found = diagnose(crowd(frame, loner))
        plain(found)
        assert found.verdict == verdict
        total = 2400 + n
        sentence = (
            f"1 annotator (loner) with {n} of {total} labels shares no item with anybody: nothing checks what they say."
        )
        assert sentence in found.reasons
        assert "Let loner label at least 30 items that others have labelled." in found.advice
        assert found.to_dict()["graph"]["without_common_items"] == ["loner"]
        row = found.to_dict()["annotators"][-1]
        assert row["annotator"] == "loner"
        assert (row["common_items"], row["partners"], row["singular_value"], row["chance"]) == (0, 0, None, None)


def test_one_who_shares_hardly_an_item() -> None:
    frame = frame_of(healthy())
    nearly = pd.DataFrame({"item": [*range(5000, 5040), 0, 1], "annotator": "nearly", "label": np.arange(42) % 3})
    found = diagnose(crowd(frame, nearly))
    plain(found)
    assert "Of 42 labels by nearly, only 2 are on items that somebody else labelled too" in " ".join(found.reasons)
    assert "Let nearly label at least 30 items that others have labelled." in found.advice


def test_few_labels_an_item_are_unstable() -> None:
    found = diagnose(cs.simulate(600, 15, 3, labels_per_item=2, seed=1).annotations)
    plain(found)
    assert found.verdict == "weakly"
    assert any(re.search(r"would change \d+\.\d % of the labels", reason) for reason in found.reasons)
    assert "an item has 2.0 on average" in " ".join(found.advice)


def test_a_rare_class_is_uncertain() -> None:
    a = cs.simulate(300, 8, 3, labels_per_item=5, prior=[0.6, 0.39, 0.01], experts=0.4, seed=5).annotations
    found = diagnose(a)
    plain(found)
    assert found.verdict == "weakly"
    assert any(reason.startswith("How annotators treat class 2 is uncertain") for reason in found.reasons)
    assert "Add items of class 2: there should be at least 30." in found.advice


@pytest.mark.parametrize(("N", "verdict"), [(800, "weakly"), (4000, "not")])
def test_classes_that_nobody_tells_apart(N: int, verdict: str) -> None:
    """Of one class, everybody says "tart" or "pie" by the toss of a coin: two classes in name only."""
    frame = frame_of(cs.simulate(N, 10, 2, labels_per_item=6, experts=1.0, seed=2).annotations)
    coin = np.random.default_rng(0).integers(0, 2, len(frame))
    frame["label"] = np.where(frame["label"] == 0, "soup", np.where(coin == 0, "tart", "pie"))
    found = diagnose(frame.rename(columns={"annotator": "worker", "item": "task"}))
    plain(found)
    assert found.verdict == verdict
    assert re.search(r"tell class (tart from class pie|pie from class tart)", found.reasons[0])
    contrast = found.to_dict()["blocks"]["weakest_contrast"]
    assert set(contrast["classes"]) == {"tart", "pie"}
    assert contrast["chance"] > 0.01


def test_many_people_with_few_labels() -> None:
    a = cs.simulate(500, 400, 2, labels_per_item=5, experts=1.0, seed=1).annotations
    found = diagnose(a)
    plain(found)
    assert found.verdict == "weakly"
    assert re.search(r"\d+ of 400 annotators gave fewer than 10 labels, \d\d\.\d % of all", " ".join(found.reasons))


# ---- gold -----------------------------------------------------------------------------------------------------------


def test_known_answers_identify_two_annotators() -> None:
    made = cs.simulate(300, 2, 3, experts=1.0, seed=2)
    gold = {n: int(made.truth[n]) for n in range(150)}
    found = diagnose(made.annotations.with_gold(gold))
    plain(found)
    assert found.verdict == "identified"
    assert "150 known answers (gold) and common items link 2 annotators." in found.reasons
    assert len(found.annotators) == 2, "the known answers are no row"
    few = diagnose(made.annotations.with_gold({n: int(made.truth[n]) for n in range(5)}))
    assert few.verdict == "not"


def test_known_answers_link_halves() -> None:
    one, two = cs.simulate(400, 5, 2, experts=1.0, seed=1), cs.simulate(400, 5, 2, experts=1.0, seed=2)
    a = crowd(frame_of(one.annotations, "n"), frame_of(two.annotations, "s", 1000))
    gold = {**{n: int(one.truth[n]) for n in range(40)}, **{1000 + n: int(two.truth[n]) for n in range(40)}}
    assert diagnose(a).verdict == "not"
    found = diagnose(a.with_gold(gold))
    assert (found.verdict, found.graph.n_components) == ("identified", 1)


# ---- what it is given, what it gives --------------------------------------------------------------------------------


def numbers(found: Diagnosis) -> dict[str, Any]:
    """Give all that names no annotator and no class."""
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
    fresh = diagnose(a)
    monkeypatch.setattr("consilience.aggregation.registry.fit", None)
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
    H = _factor(model.confusions * items, items)
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


# ---- public data ----------------------------------------------------------------------------------------------------


def test_the_table_of_1979() -> None:
    a = load("dawid_skene").annotations
    found = diagnose(a)
    plain(found)
    assert found.verdict == "weakly"
    assert any("class 4 is uncertain" in reason and "about 3 items" in reason for reason in found.reasons)
    assert found.to_dict()["annotators"][0]["n_labels"] == 135, "three answers to every patient"


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("bluebird", "identified"),
        ("rte", "identified"),
        ("dog52", "identified"),
        ("trec", "identified"),
        ("music", "weakly"),
    ],
)
def test_public_crowds(data_folder: Path, name: str, verdict: str) -> None:
    a, _ = real_crowd(name)
    found = diagnose(a)
    plain(found)
    assert found.verdict == verdict
    if name == "fact_eval":
        # 0 is no, 1 is yes, 2 is "skip": one label in 700, on which no two raters agree
        assert "Annotators do not tell class 2 from class 0" in found.reasons[0]
    if name == "trec":
        assert found.graph.n_components == 3
        assert any("2 annotators (673 and 706) with 10 of 88385 labels" in reason for reason in found.reasons)
