"""The advice: whoever follows it gets what it promises."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from benchmarks.advice import SIMULATED, Situation, outcome

import consilience as cs
from consilience.diagnose import amounts
from consilience.exceptions import ConsilienceWarning

QUICK = (
    "one class",
    "one annotator",
    "two annotators, 4 classes",
    "no item with two labels",
    "two groups, 4 classes, spammers",
    "one who shares no item",
    "two camps",
    "agreement like chance",
    "slight agreement",
    "two among spammers",
    "a rare class, poor crowd",
    "two labels an item",
    "many with few labels",
    "copies, 5 classes",
    "labelling functions, 5 classes",
)
_BY_NAME = {situation.name: situation for situation in SIMULATED}


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")
def test_the_problem_is_gone_once_the_advice_was_followed(name: str) -> None:
    found = [made for seed in range(3) if (made := outcome(_BY_NAME[name], seed))]
    assert found, "the problem is not reported"
    assert all(made.rounds is not None for made in found)
    assert np.mean([made.after - made.before for made in found]) < 1.0


@pytest.mark.parametrize("name", [situation.name for situation in SIMULATED if situation.hopeless])
@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")
def test_what_no_label_can_mend_is_not_called_better(name: str) -> None:
    found = [made for seed in range(2) if (made := outcome(_BY_NAME[name], seed))]
    assert found
    assert all(made.verdict == "not" for made in found)


def test_every_situation_has_a_name_of_its_own() -> None:
    assert len(_BY_NAME) == len(SIMULATED)
    assert all(isinstance(situation, Situation) for situation in SIMULATED)


@pytest.mark.parametrize("seed", range(5))
def test_as_few_as_possible_are_asked_for_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 15, 40)

    def share(asked: int) -> float:
        after = np.sort(counts)[::-1].copy()
        few = np.flatnonzero((after > 0) & (after < 10))
        after[few[:asked]] = 20
        return float(after[(after > 0) & (after < 10)].sum() / after.sum())

    if share(0) > 0.25:
        asked = amounts.annotators_to_ask(counts)
        assert share(asked) <= 0.25
        assert asked == 1 or share(asked - 1) > 0.25


def test_rules_pass_as_often_as_their_reach_promises() -> None:
    """Agreement of reach(α) standard errors has a p-value below α nine times in ten, twice the two-sided one."""
    from scipy.stats import norm

    drawn = np.random.default_rng(1).normal(amounts.reach(1e-3), 1.0, 4000)
    assert np.mean(2 * (2 * norm.sf(drawn)) < 1e-3) == pytest.approx(0.9, abs=0.02)


def test_open_answers_with_poor_labels_and_known_answers() -> None:
    rng = np.random.default_rng(0)
    matrix = np.where(rng.random((200, 6)) < 0.35, "right", rng.integers(0, 8, (200, 6)).astype(str)).astype(object)
    labels = cs.Annotations.from_matrix(matrix)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        before = cs.aggregate(labels, answers="open").diagnosis
        known = labels.with_gold(dict.fromkeys(range(20), "right"))
        after = cs.aggregate(known, answers="open").diagnosis
    assert "Label at least 20 items yourself and give them as known answers (gold)." in before.advice
    assert before.verdict == "weakly"
    assert not any("yourself" in advice for advice in after.advice)
    assert after.verdict == "identified"
