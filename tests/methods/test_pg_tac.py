"""PG-TAC: figures on real crowds, recovery, the temperature, and what must not matter."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from tests.conftest import ODD_MATRICES, error_percent, real_crowd

import consilience as cs
from consilience.exceptions import ConsilienceWarning
from consilience.fitting.em import Progress
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Floats
from consilience.methods.base.refinement import refine
from consilience.methods.majority import majority_vote
from consilience.methods.pg_tac import pg_tac, probabilities

#: Errors of Ibrahim & Fu (2022), Tables 4 and 5, in percent.
PUBLISHED = {"bluebird": 24.07, "dog52": 18.21, "rte": 8.12, "trec": 33.89}


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_figures_on_real_data(name: str) -> None:
    annotations, truth = real_crowd(name)
    fit = pg_tac(annotations)
    assert fit.converged
    # one item more may be wrong
    assert error_percent(fit.choice.best, truth) <= PUBLISHED[name] + 100.0 / np.count_nonzero(truth >= 0)


@pytest.mark.usefixtures("data_folder")
def test_em_from_it_is_as_good_as_em_on_real_data() -> None:
    for name, limit in {"bluebird": 10.19, "dog52": 15.87, "rte": 7.26, "trec": 29.6}.items():
        annotations, truth = real_crowd(name)
        assert error_percent(refine(annotations, pg_tac(annotations)).choice.best, truth) <= limit + 0.005, name


def test_it_learns_whom_to_believe() -> None:
    sim = cs.simulate(2000, 25, 3, label_probability=0.4, experts=0.3, adversaries=0.2, seed=4)
    votes = np.mean(majority_vote(sim.annotations).choice.best != sim.truth)
    ours = np.mean(pg_tac(sim.annotations).choice.best != sim.truth)
    assert ours < 0.6 * votes


def test_perfect_annotators_are_taken_at_their_word() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 200)
    matrix = np.where(rng.random((200, 6)) < 0.7, truth[:, None], -1)
    matrix[0] = -1
    matrix[1] = truth[1]
    fit = pg_tac(cs.Annotations.from_matrix(matrix))
    np.testing.assert_array_equal(fit.choice.best[1:], truth[1:])
    assert fit.posterior[1:].max(axis=1).mean() > 0.95
    # nobody labelled the first item
    np.testing.assert_allclose(fit.posterior[0], 0.25, atol=1e-9)


def test_the_objective_never_rises() -> None:
    fit = pg_tac(cs.simulate(400, 12, 3, seed=0).annotations, tol=0, max_iter=30)
    assert len(fit.history) == 30
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(fit.history))


# ---- probabilities ------------------------------------------------------------------------------------------


def softmax(logits: Floats) -> Floats:
    odds: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    return odds


def test_the_temperature_is_the_most_likely_one() -> None:
    a = cs.simulate(500, 10, 3, seed=3).annotations
    scores = vote_posterior(a) - 1 / 3
    posterior, second = probabilities(a, scores)
    # the log-odds are β times the differences of the scores
    clear = np.ptp(scores, axis=1) > 0.1
    betas = (np.log(posterior[clear, 0]) - np.log(posterior[clear, 1]))[scores[clear, 0] != scores[clear, 1]]
    betas /= (scores[clear, 0] - scores[clear, 1])[scores[clear, 0] != scores[clear, 1]]
    beta = float(np.median(betas))
    np.testing.assert_allclose(betas, beta, rtol=1e-6)
    reached = float((second * np.log(posterior)).sum())
    for other in beta * np.array([0.5, 0.9, 0.99, 1.01, 1.1, 2.0]):
        assert float((second * np.log(softmax(other * scores))).sum()) < reached


def test_probabilities_keep_the_order_of_the_scores_and_ties_go_to_the_second_opinion() -> None:
    a = cs.simulate(300, 8, 4, seed=1).annotations
    scores = np.random.default_rng(0).standard_normal((300, 4))
    posterior, _ = probabilities(a, scores)
    np.testing.assert_array_equal(posterior.argmax(axis=1), scores.argmax(axis=1))
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    flat, second = probabilities(a, np.zeros((300, 4)))
    np.testing.assert_allclose(flat, 0.25)
    assert np.isfinite(second).all()


def test_confidence_rises_with_accuracy() -> None:
    sim = cs.simulate(3000, 20, 3, label_probability=0.3, seed=6)
    fit = pg_tac(sim.annotations)
    right = fit.choice.best == sim.truth
    confidence = fit.posterior.max(axis=1)
    order = np.argsort(confidence)
    thirds = [right[part].mean() for part in np.array_split(order, 3)]
    assert thirds[0] < thirds[1] < thirds[2]
    assert abs(confidence.mean() - right.mean()) < 0.1


# ---- what must not matter, and edges ------------------------------------------------------------------------


def test_the_same_data_gives_the_same_bytes() -> None:
    a = cs.simulate(300, 10, 3, seed=1).annotations
    assert pg_tac(a).posterior.tobytes() == pg_tac(a).posterior.tobytes()


@pytest.mark.parametrize("matrix", ODD_MATRICES)
def test_any_data_gives_probabilities(matrix: list[list[int]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        fit = pg_tac(cs.Annotations.from_matrix(np.array(matrix)))
    assert np.isfinite(fit.posterior).all()
    np.testing.assert_allclose(fit.posterior.sum(axis=1), 1.0)
    assert np.isfinite(fit.model.confusions).all()


def test_gold_is_kept_and_helps() -> None:
    sim = cs.simulate(400, 10, 3, label_probability=0.4, seed=5)
    gold = {n: int(sim.truth[n]) for n in range(0, 400, 4)}
    with_gold = sim.annotations.with_gold(gold)
    known = with_gold.gold
    assert known is not None
    fit = pg_tac(with_gold)
    np.testing.assert_array_equal(fit.posterior[known >= 0, known[known >= 0]], 1.0)
    # the layer's gold is felt where there is none
    assert np.abs(fit.posterior - pg_tac(sim.annotations).posterior)[known < 0].max() > 1e-3


def test_not_converged_is_said_and_a_callback_can_stop() -> None:
    a = cs.simulate(300, 10, 3, seed=2).annotations
    fit = pg_tac(a, max_iter=1, tol=1e-9)
    assert not fit.converged
    assert any("did not converge" in sentence for sentence, _ in fit.cautions)
    told: list[Progress] = []

    def tell(progress: Progress) -> bool:
        told.append(progress)
        return progress.iteration == 2

    assert pg_tac(a, tol=0, callback=tell).iterations == 2
    assert [p.iteration for p in told] == [1, 2]
    assert told[1].change == pytest.approx((told[0].objective - told[1].objective) / told[0].objective)
