"""Verdicts where errors are shared: labels alone must not be called enough."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.conftest import real_crowd
from tests.methods.conftest import correlated

import consilience as cs
from consilience.datasets.hard_cases import clones
from consilience.exceptions import DataWarning


def test_annotators_who_err_together_are_not_identified() -> None:
    a, truth = correlated(0)
    run = cs.aggregate(a)
    assert run.run["gain_of_subtypes"] > 0.02
    assert run.verdict == "weakly"
    assert "Annotators err together" in run.diagnosis.reasons[0]
    known = a.with_gold(np.where(np.arange(a.n_items) < 200, truth, -1))
    assert not any("err together" in reason for reason in cs.aggregate(known).diagnosis.reasons)


def test_copies_are_told() -> None:
    crowd = clones(1)
    with pytest.warns(DataWarning, match="answer as one"):
        run = cs.aggregate(crowd.annotations)
    assert run.verdict == "weakly"
    assert "6 annotators answer as one and share one vote" in run.diagnosis.reasons[0]


def test_known_answers_that_contradict_the_consensus_come_first() -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 500)
    labels = np.where(rng.random((500, 6)) < 0.9, truth[:, None], 1 - truth[:, None])
    gold = np.where(np.arange(500) < 100, rng.integers(0, 2, 500), -1)  # has nothing to do with the labels
    with pytest.warns(DataWarning, match="known answers"):
        run = cs.aggregate(cs.Annotations.from_matrix(labels).with_gold(gold))
    assert run.verdict == "not"
    assert run.diagnosis.reasons[0].startswith("On 100 known answers the consensus is ")


def test_labelling_functions_are_judged_by_their_own_rules() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 1000)
    speaks = rng.random((1000, 6)) < np.where(np.arange(6) % 2 == truth[:, None], 0.6, 0.1)
    matrix = np.where(speaks, np.arange(6) % 2, -1)
    run = cs.aggregate(matrix[speaks.any(axis=1)])
    assert run.run["silence"] == "informative"
    assert run.verdict == "weakly"
    assert "choose when to speak" in run.diagnosis.reasons[0]


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("name", ["llmbar", "duck"])
def test_public_sets_with_shared_errors(name: str) -> None:
    annotations, _ = real_crowd(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # five prompts of one model answer as one in llmbar
        run = cs.aggregate(annotations)
    assert run.verdict != "identified"
    assert run.effective_annotators == cs.diagnose(annotations).effective_annotators
    # more labels by annotators like these would repeat their errors
    assert not any("should settle" in advice for advice in run.diagnosis.advice)
