"""What a consensus says of annotators: accuracy, information, bias and flags."""

from __future__ import annotations

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
    assert people.loc["one-sided", "bias"] == "says no for yes (100 %)"
    assert people.loc["good", "bias"] == "says no for yes (25 %)"
    assert people.loc["opposite", "bias"] == "says yes for no (98 %)"


def test_spammers_and_adversaries_are_found_without_gold() -> None:
    crowd = cs.simulate(1500, 30, 3, labels_per_item=12, spammers=0.2, adversaries=0.1, experts=0.3, seed=8)
    table = cs.aggregate(crowd.annotations).annotators
    for role, flags in zip(crowd.roles, table["flags"], strict=True):
        wanted = {"spammer": "spammer", "adversary": "adversary"}.get(role, "")
        assert flags == wanted, role


def test_an_annotator_without_labels_has_no_accuracy() -> None:
    frame = pd.DataFrame(rows_of())
    frame.loc[len(frame)] = ["i0", 99, None]
    table = quietly(frame).annotators
    last = table.iloc[-1]
    assert (last["worker"], last["n_labels"]) == (99, 0)
    assert pd.isna(last["accuracy"])
    assert "few labels" in last["flags"]
