"""Labels that cannot show who is right: no model, and confidence that says so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import integrate

import consilience as cs
from consilience.auto.auto import auto
from consilience.auto.fallback import agreement_beyond_chance, evidence_of_truth, why_not
from consilience.data.annotations import Annotations


def test_random_labels_get_no_model() -> None:
    rng = np.random.default_rng(0)
    a = Annotations.from_matrix(rng.integers(0, 3, (200, 6)))
    assert abs(agreement_beyond_chance(a)) < 3
    fit = auto(a)
    assert fit.details["chosen"] == "labels"
    assert "agree hardly more than they would by guessing" in fit.details["why"]


def test_agreement_is_counted_in_standard_errors() -> None:
    """For independent pairs it is standard normal: a thousand draws of items with two labels."""
    rng = np.random.default_rng(1)
    found = [
        agreement_beyond_chance(Annotations.from_matrix(rng.choice(3, (150, 2), p=[0.5, 0.3, 0.2]), classes=[0, 1, 2]))
        for _ in range(500)
    ]
    assert abs(np.mean(found)) < 0.15
    assert np.std(found) == pytest.approx(1.0, abs=0.1)


def test_the_probability_without_truth_is_an_integral() -> None:
    """Two classes: ∫ p^a (1 - p)^b dp for every annotator."""
    a = Annotations.from_matrix([[0, 1], [0, 0], [1, 0], [0, 1], [0, 1]])
    said = [(4, 1), (2, 3)]
    log = sum(np.log(integrate.quad(lambda p, i=i, j=j: p**i * (1 - p) ** j, 0, 1)[0]) for i, j in said)
    assert evidence_of_truth(a, 0.0) == pytest.approx(-log)


def test_two_annotators_tie_where_they_differ() -> None:
    a = Annotations.from_matrix([[0, 0], [0, 1], [1, 1], [0, 0]])
    assert "fewer than three annotators" in str(why_not(a))
    fit = auto(a)
    np.testing.assert_allclose(fit.posterior[1], 0.5)
    assert 0.8 < fit.posterior[0, 0] < 0.95


def test_known_answers_make_a_model_possible() -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, 300)
    right = np.array([0.95, 0.05])  # an expert and an adversary: where they differ, only known answers tell
    labels = np.where(rng.random((300, 2)) < right, truth[:, None], 1 - truth[:, None])
    gold = np.where(np.arange(300) < 60, truth, -1)
    fit = auto(Annotations.from_matrix(labels).with_gold(gold))
    assert np.mean(fit.choice.best[60:] == truth[60:]) > 0.9


@pytest.mark.parametrize("n_items", [10, 100])
def test_small_data_is_not_believed(n_items: int) -> None:
    """Three annotators who are right six to eight times in ten: the stated error is not below the true one."""
    wrong, stated = [], []
    for seed in range(30):
        crowd = cs.simulate(n_items, 3, 2, labels_per_item=3, accuracy=(0.6, 0.8), seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = cs.aggregate(crowd.annotations)
        wrong.append(np.mean(run.choice.best != np.asarray(crowd.truth)))
        stated.append(run.estimated_error.value)
    assert np.mean(wrong) - 0.03 < np.mean(stated) < np.mean(wrong) + 0.1


def test_a_split_vote_is_never_surer_than_a_unanimous_one() -> None:
    posterior = auto(Annotations.from_matrix([[0, 0, 1], [1, 1, 1], [0, 0, 0]])).posterior
    assert posterior[0].max() < posterior[1].max()
    assert posterior[0].max() < 0.75
