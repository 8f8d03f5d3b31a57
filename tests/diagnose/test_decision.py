"""What to do with a run: counts that add up, and a headline that does not hide what is known."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.diagnose.decision import REVIEW, Decision, decide, notes_beside
from consilience.diagnose.evidence import round_up


def quietly(data: Any, **options: Any) -> cs.Consensus:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.exceptions.ConsilienceWarning)
        return cs.aggregate(data, **options)


def decision_of(run: cs.Consensus, truth: Any = None) -> Decision:
    if truth is not None:
        wrong, judged = run.count_wrong(truth)
        run = run.with_run({**run.run, "error_rate": 100 * wrong / judged, "error_items": judged})
    return decide(run, run.diagnosis)


@pytest.fixture(scope="module")
def good() -> Any:
    return cs.simulate(400, 20, 3, labels_per_item=5, experts=0.3, spammers=0.2, seed=0)


@pytest.fixture(scope="module")
def misled() -> Any:
    """Most annotators apply a wrong rule, so that the labels agree on what is wrong."""
    return cs.simulate(400, 15, 3, labels_per_item=5, adversaries=0.6, seed=1)


def test_the_parts_are_all_items(good: Any) -> None:
    run = quietly(good.annotations)
    found = decision_of(run)
    parts = {part.verb: part for part in found.parts}
    confidence = np.asarray(run.labels["confidence"])
    sure = confidence >= REVIEW
    assert (parts["accept"].items, parts["review"].items) == (sure.sum(), (~sure).sum())
    assert parts["review"].wrong == pytest.approx(np.mean(1 - confidence[~sure]))
    assert f"Accept {sure.sum():,}" in found.to_do
    assert found.tone == run.verdict == "identified"
    assert found.second == ""


def test_everybody_with_a_serious_flag_is_named_once(good: Any) -> None:
    run = quietly(good.annotations)
    found = decision_of(run)
    flags = dict(zip(run.annotators["annotator"], run.annotators["flags"], strict=True))
    serious = {str(who) for who, said in flags.items() if said.startswith(("spammer", "adversary", "copies", "biased"))}
    named = [name for each in found.attention if each.talk for name in each.names]
    assert len(named) == len(set(named)) == found.to_talk_to
    assert serious <= set(named)
    assert f"talk to {len(named)} annotators" in found.to_do


def test_a_truth_that_agrees_is_only_reported(good: Any) -> None:
    found = decision_of(quietly(good.annotations), good.truth)
    assert found.headline == "The labels show who is right."
    assert any("Error against the truth given" in sentence for sentence in found.measured)


def test_a_truth_that_contradicts_is_the_headline(misled: Any) -> None:
    run = quietly(misled.annotations)
    share = run.error_rate(misled.truth) / 100
    assert share > run.estimated_error.high + 0.1  # the case that this test is about
    found = decision_of(run, misled.truth)
    assert found.tone == "not"
    assert f"{share:.0%} of the labels are wrong" in found.headline
    assert found.contradicted
    assert "labels alone" in found.second
    assert [part.verb for part in found.parts] == ["check all"]
    assert found.parts[0].wrong == pytest.approx(share)
    assert "--gold" in found.collect[0]


def test_few_truths_do_not_contradict(misled: Any) -> None:
    run = quietly(misled.annotations)
    wrong = np.flatnonzero(np.asarray(run.labels["label"]) != misled.truth)[:1]
    assert decision_of(run, {int(n): misled.truth[n] for n in wrong}).tone != "not"


def test_known_answers_that_contradict_are_the_headline(misled: Any) -> None:
    gold = {n: misled.truth[n] for n in range(40)}
    run = quietly(misled.annotations, gold=gold)
    found = decision_of(run)
    assert found.headline.startswith("On your 40 known answers the labels alone are")
    assert found.tone == "not"
    assert found.contradicted
    assert notes_beside(run.warnings) == [], "the headline says it"
    if run.run["known_answers"]["error_with"] > 0.3:  # the known answers are the reason for the verdict: said once
        assert found.second == found.reason == ""


def test_what_to_accept_and_review_adds_up_to_the_error_that_known_answers_show(good: Any) -> None:
    gold = {n: good.truth[n] for n in range(100)}
    run = quietly(good.annotations, gold=gold)
    found = decision_of(run)
    unknown = run.run["N"] - 100
    wrong = sum(part.items * part.wrong for part in found.parts if part.wrong is not None)
    assert wrong == pytest.approx(run.estimated_error.value * unknown, rel=1e-6)


def test_an_error_that_could_be_anything_is_not_stated() -> None:
    few = cs.Annotations.from_matrix([[0, 1, -1], [1, -1, 1]])
    found = decision_of(quietly(few))
    assert found.error.startswith("The error cannot be estimated: anything from ")
    assert [part.wrong for part in found.parts] == [None]
    assert found.to_do == "Check all 2 labels."


def test_labels_that_show_nothing_are_not_accepted() -> None:
    rng = np.random.default_rng(0)
    guesses = cs.Annotations.from_matrix(rng.integers(0, 3, (200, 6)))
    found = decision_of(quietly(guesses))
    assert found.tone == "not"
    assert [part.verb for part in found.parts] == ["check all"]
    assert found.reason


def test_unlabelled_items_are_to_be_labelled(good: Any) -> None:
    part = decision_of(quietly(good.annotations.including([10_000, 10_001]))).parts[-1]
    assert (part.verb, part.items, part.wrong) == ("label", 2, None)


def test_an_error_that_cannot_be_estimated_is_not_printed_as_zero(good: Any) -> None:
    known = {item: int(truth) for item, truth in enumerate(good.truth)}
    found = decision_of(quietly(good.annotations, gold=known))
    assert found.error == "There is no estimated error: every item has a known answer."
    same = quietly([["cat", "cat", "cat"], ["cat", "cat", "cat"]])
    found = decision_of(same)
    assert found.error == "There is no estimated error: all labels are the same."
    assert found.to_do == "Check all 2 labels."


def test_where_labels_are_not_trusted_the_error_is_the_estimated_one(misled: Any) -> None:
    few = misled.annotations.select_annotators([0, 1])
    run = quietly(few)
    found = decision_of(run)
    assert run.verdict == "not"
    assert {part.wrong for part in found.parts if part.verb != "label"} == {run.estimated_error.value}


@pytest.mark.parametrize(
    ("n", "rounded"), [(7, 7), (66, 66), (66.2, 67), (100, 100), (199, 200), (332, 340), (10_001, 11_000)]
)
def test_advice_has_round_numbers(n: float, rounded: int) -> None:
    assert round_up(n) == rounded
