"""What a consensus says of annotators: accuracy, information, bias and flags."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.conftest import quietly
from tests.tables import rows_of

import consilience as cs

#: counts[i][k]: how often somebody said i of truth k.  Truth: 40 of class 0, 20 of class 1.
COUNTS: dict[str, list[list[int]]] = {
    "perfect": [[40, 0], [0, 20]],
    "good": [[36, 5], [4, 15]],
    "one-sided": [[40, 20], [0, 0]],
    "random": [[20, 10], [20, 10]],
    "opposite": [[1, 19], [39, 1]],
    "newcomer": [[4, 1], [1, 1]],
}


def known_crowd() -> tuple[pd.DataFrame, dict[str, str]]:
    truth = {f"t{n}": "no" if n < 40 else "yes" for n in range(60)}
    rows = []
    for who, counts in COUNTS.items():
        for k, first in ((0, 0), (1, 40)):
            said = ["no"] * counts[0][k] + ["yes"] * counts[1][k]
            rows += [(f"t{first + n}", who, label) for n, label in enumerate(said)]
    return pd.DataFrame(rows, columns=["task", "worker", "label"]), truth


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    """With all truths known, the annotators' numbers can be counted by hand."""
    frame, truth = known_crowd()
    return cs.aggregate(frame, "ds-em", gold=truth).annotators.set_index("worker")


@pytest.mark.parametrize("who", COUNTS)
def test_accuracy_and_its_interval(people: pd.DataFrame, who: str) -> None:
    counts = np.array(COUNTS[who])
    total, right = counts.sum(), np.trace(counts)
    row = people.loc[who]
    assert row["n_labels"] == total
    assert row["accuracy"] == pytest.approx(right / total)
    assert row["low"] <= row["accuracy"] <= row["high"]
    # Jeffreys' interval; whoever was never wrong may be right always
    low, high = stats.beta.ppf([0.025, 0.975], right + 0.5, total - right + 0.5)
    assert row["low"] == pytest.approx(low)
    assert row["high"] == pytest.approx(1.0 if right == total else high, rel=1e-9)


@pytest.mark.parametrize("who", COUNTS)
def test_information_is_the_mutual_information(people: pd.DataFrame, who: str) -> None:
    conditional = np.array(COUNTS[who]) / np.array(COUNTS[who]).sum(axis=0)
    joint = conditional * np.array([2 / 3, 1 / 3])
    said, true = joint.sum(axis=1), joint.sum(axis=0)
    bits = sum(
        joint[i, k] * np.log2(joint[i, k] / (said[i] * true[k])) for i in range(2) for k in range(2) if joint[i, k] > 0
    )
    assert people.loc[who, "information"] == pytest.approx(bits, abs=1e-9)


def test_a_perfect_annotator_tells_all_and_a_spammer_nothing(people: pd.DataFrame) -> None:
    entropy = -(2 / 3 * np.log2(2 / 3) + 1 / 3 * np.log2(1 / 3))
    assert people.loc["perfect", "information"] == pytest.approx(entropy)
    assert people.loc["one-sided", "information"] == pytest.approx(0, abs=1e-9)
    assert people.loc["random", "information"] == pytest.approx(0, abs=1e-9)


def test_flags(people: pd.DataFrame) -> None:
    flags = {who: set(filter(None, str(people.loc[who, "flags"]).split("; "))) for who in COUNTS}
    assert flags == {
        "perfect": set(),
        "good": set(),
        "one-sided": {"spammer"},
        "random": {"spammer"},
        "opposite": {"adversary"},
        "newcomer": {"few labels"},
    }


def test_bias_names_the_most_frequent_mistake(people: pd.DataFrame) -> None:
    assert people.loc["perfect", "bias"] == ""
    assert people.loc["one-sided", "bias"] == "says no for yes (100%)"
    assert people.loc["good", "bias"] == "says no for yes (25%)"
    assert people.loc["opposite", "bias"] == "says yes for no (98%)"


def test_spammers_and_adversaries_are_found_without_gold() -> None:
    crowd = cs.simulate(1500, 30, 3, labels_per_item=12, spammers=0.2, adversaries=0.1, experts=0.3, seed=8)
    table = cs.aggregate(crowd.annotations).annotators
    for role, flags in zip(crowd.roles, table["flags"], strict=True):
        wanted = {"spammer": "spammer", "adversary": "adversary"}.get(role, "")
        assert flags == wanted, role


def test_biased_and_specialist() -> None:
    truth = {f"t{n}": ("cat", "dog", "fox")[n % 3] for n in range(120)}
    rows = []
    for n, (task, animal) in enumerate(truth.items()):
        spread = ["cat", "dog", "fox"][(n // 3) % 3]
        rows += [
            (task, "sound", animal),
            # takes most cats for dogs
            (task, "dog person", "dog" if animal == "cat" and n % 4 else animal),
            # a quarter only: a mistake, no bias
            (task, "careless", "dog" if animal == "cat" and n % 4 == 0 else animal),
            # knows foxes, and guesses between the others
            (task, "hunter", animal if animal == "fox" else ("cat" if spread == "fox" else spread)),
        ]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    people = cs.aggregate(frame, "ds-em", gold=truth).annotators.set_index("worker")
    assert people["flags"].to_dict() == {
        "sound": "",
        "dog person": "biased towards dog; specialist of fox",
        "careless": "",
        "hunter": "specialist of fox",
    }
    assert people.loc["dog person", "bias"] == "says dog for cat (75%)"


def test_specialists_of_a_simulated_crowd_are_named_and_experts_are_not() -> None:
    crowd = cs.simulate(3000, 24, 3, labels_per_item=10, specialists=0.25, experts=0.25, seed=3)
    table = cs.aggregate(crowd.annotations).annotators
    known = [f"specialist of {j % 3}" for j in range(crowd.roles.count("specialist"))]
    named = [flags for role, flags in zip(crowd.roles, table["flags"], strict=True) if role == "specialist"]
    assert named == known
    assert all(
        "specialist" not in flags
        for role, flags in zip(crowd.roles, table["flags"], strict=True)
        if role != "specialist"
    )


@pytest.mark.parametrize(
    ("crowd", "method", "least", "most"),
    [
        ({"n_items": 500, "n_annotators": 10, "n_classes": 3, "labels_per_item": 5}, "hierarchical", 0.92, 0.99),
        ({"n_items": 400, "n_annotators": 100, "n_classes": 3, "labels_per_item": 5}, "hierarchical", 0.92, 0.99),
        (
            {"n_items": 1000, "n_annotators": 50, "n_classes": 4, "labels_per_item": 3, "accuracy": (0.4, 0.8)},
            "hierarchical",
            0.91,
            0.99,
        ),
        # two classes, three labels an item, thirty an annotator: hardly enough to know the truth, and models differ
        ({"n_items": 300, "n_annotators": 30, "n_classes": 2, "labels_per_item": 3}, "auto", 0.93, 1.0),
    ],
    ids=["many labels", "few each", "poor", "thin"],
)
def test_intervals_cover_the_true_accuracy(crowd: dict[str, Any], method: str, least: float, most: float) -> None:
    covered, widths = [], []
    for seed in range(8):
        drawn = cs.simulate(seed=seed, **crowd)
        table = cs.aggregate(drawn.annotations, method).annotators
        true = np.einsum("k,mkk->m", drawn.model.prior, drawn.model.confusions)
        covered.append(np.mean((table["low"] <= true) & (true <= table["high"])))
        plain = stats.beta.interval(
            0.95, table["accuracy"] * table["n_labels"] + 0.5, (1 - table["accuracy"]) * table["n_labels"] + 0.5
        )
        widths.append(np.mean((table["high"] - table["low"]) / (plain[1] - plain[0])))
    assert least <= np.mean(covered) <= most
    # not by being needlessly wide
    assert 1.0 < np.mean(widths) < 2.0


def test_an_annotator_without_labels_has_no_accuracy() -> None:
    frame = pd.DataFrame(rows_of())
    frame.loc[len(frame)] = ["i0", 99, None]
    table = quietly(frame).annotators
    last = table.iloc[-1]
    assert (last["worker"], last["n_labels"]) == (99, 0)
    assert pd.isna(last["accuracy"])
    assert "few labels" in last["flags"]
