"""The verdict: on crowds whose state is known, in words that a labelling manager understands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import random_model, real_crowd
from tests.diagnose.conftest import camps, crowd, frame_of, healthy, plain

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.datasets import load
from consilience.diagnose import diagnose

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


def test_few_labels_that_agree_are_not_called_guesses() -> None:
    truth = np.array([0, 1, 1, 1, 0, 0, 1, 1, 0, 0])
    said = np.tile(truth[:, None], (1, 3))
    said[[1, 3, 7, 8], [1, 2, 2, 2]] ^= 1  # six of ten items are unanimous
    found = diagnose(said, bootstrap=0)
    plain(found)
    assert found.verdict == "not"
    assert "are too few to tell their agreement from guessing" in found.reasons[0]
    assert found.advice[0].startswith("Collect more items, ")


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
        assert re.fullmatch(
            r"Let \d more annotators label at least \d+ of the items that a0.* labelled\.", found.advice[0]
        )


@pytest.mark.parametrize(("items", "annotators"), [(3, 1), (30, 1), (5, 2)])
def test_few_items_need_more_items_rather_than_many_annotators(items: int, annotators: int) -> None:
    made = cs.simulate(items, annotators, 2, labels_per_item=annotators, experts=1.0, seed=1)
    advice = diagnose(made.annotations).advice[0]
    said = re.fullmatch(
        r"Collect more items, (\d+) in all, and let 2 more annotators label all of them besides a0.*\.", advice
    )
    assert said is not None, advice
    assert 50 <= int(said[1]) <= 400


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
    assert any(re.search(r"would change \d+\.\d% of the labels", reason) for reason in found.reasons)
    assert "an item has 2.0 labels on average" in " ".join(found.advice)


def test_a_rare_class_is_uncertain() -> None:
    a = cs.simulate(300, 8, 3, labels_per_item=5, prior=[0.6, 0.39, 0.01], experts=0.4, seed=5).annotations
    found = diagnose(a)
    plain(found)
    assert found.verdict == "weakly"
    assert any(reason.startswith("How annotators treat class 2 is uncertain") for reason in found.reasons)
    assert "Add items of class 2: there should be at least 30." in found.advice


@pytest.mark.parametrize(("N", "verdict"), [(800, "weakly"), (4000, "not")])
def test_classes_that_nobody_distinguishes(N: int, verdict: str) -> None:
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
    assert re.search(r"\d+ of 400 annotators gave fewer than 10 labels, \d\d\.\d% of all", " ".join(found.reasons))


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


# ---- public data ----------------------------------------------------------------------------------------------------


def test_the_table_of_1979() -> None:
    a = load("dawid_skene").annotations
    found = diagnose(a, method="ds-em")
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
