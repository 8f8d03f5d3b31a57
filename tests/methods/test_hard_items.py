"""Items that differ in ease: the equations in plain loops, scipy's optimum, plain EM, parameters put in and found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from tests.conftest import error_percent, random_model, real_crowd, sound
from tests.methods.conftest import (
    by_one_and_three_threads,
    labels_of,
    mixed,
    odd_crowds,
    of_unequal_ease,
)

import consilience as cs
from consilience.fitting.em import ConfusionStep, Parameters, Progress, run_em
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.ds_em import dawid_skene_em
from consilience.methods.hard_items import HardItemsModel, fit_hard_items, hard_items
from consilience.metrics import expected_calibration_error, log_loss
from consilience.models.dawid_skene import DawidSkene


def by_hand(a: cs.Annotations, at: Parameters, spread: float, weights: Floats | None = None) -> tuple[Floats, float]:
    """Posterior and log-likelihood, one label at a time from the definition."""
    K = a.n_classes
    q, total = np.empty((a.n_items, K)), 0.0
    for n in range(a.n_items):
        joint = np.zeros(K)
        for k in range(K):
            for x, share in ((-np.sqrt(3), 1 / 6), (0.0, 2 / 3), (np.sqrt(3), 1 / 6)):
                p = at.prior[k] * share
                for i in range(a.indptr[n], a.indptr[n + 1]):
                    m = a.annotator[i]
                    odds = at.confusions[m, :, k] * np.exp(spread * x * (np.arange(K) == k))
                    p *= (odds[a.label[i]] / odds.sum()) ** (1.0 if weights is None else weights[m])
                joint[k] += p
        if a.gold is not None and a.gold[n] >= 0:
            joint *= np.arange(K) == a.gold[n]
        q[n] = joint / joint.sum()
        total += float(np.log(joint.sum()))
    return q, total


def small(seed: int, K: int = 3) -> tuple[cs.Annotations, Parameters]:
    model = random_model(6, K, seed=seed)
    a, _ = of_unequal_ease(model, 40, 4, 1.0, seed)
    return a, Parameters(model.prior, model.confusions)


@pytest.mark.parametrize("K", [2, 3])
def test_posterior_and_likelihood_are_those_of_the_definition(K: int) -> None:
    a, at = small(1, K)
    gold = np.where(np.arange(40) < 5, 1, -1)
    weights = np.array([1.0, 0.5, 0.5, 1.0, 2.0, 1.0])
    for labels in (a, a.with_gold(gold)):
        model = HardItemsModel(DawidSkene(*at, a.class_ids, a.annotator_ids), 0.9)
        q, log_likelihood = by_hand(labels, at, 0.9)
        np.testing.assert_allclose(model.posterior(labels), q, atol=1e-12)
        np.testing.assert_allclose(model.posterior(labels, weights), by_hand(labels, at, 0.9, weights)[0], atol=1e-12)
        once = fit_hard_items(labels, at, spread=0.9, pseudo=np.ones((K, K)), max_iter=1, tol=0)
        assert once.log_likelihood == pytest.approx(log_likelihood, rel=1e-12)
        np.testing.assert_array_equal(once.usual.confusions, at.confusions)


def test_confusions_of_the_average_item_are_the_mean_over_ease() -> None:
    a, at = small(2)
    found = fit_hard_items(a, at, spread=1.2, pseudo=np.ones((3, 3)), max_iter=1, tol=0)
    expected = np.zeros_like(at.confusions)
    for x, share in ((-np.sqrt(3), 1 / 6), (0.0, 2 / 3), (np.sqrt(3), 1 / 6)):
        odds = at.confusions * np.exp(1.2 * x * np.eye(3))
        expected += share * odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.means.confusions, expected, atol=1e-14)
    np.testing.assert_array_equal(found.means.prior, at.prior)


def test_em_ends_where_a_general_optimiser_does() -> None:
    a, at = small(3, K=2)
    M, K, beta = 6, 2, np.array([[4.0, 0.5], [1.0, 3.0]])
    found = fit_hard_items(a, at, spread=0.8, pseudo=beta, max_iter=5000, tol=1e-14)

    def negative(free: Floats) -> float:
        log_prior = free[:K] - logsumexp(free[:K])
        logits = free[K:].reshape(M, K, K)
        log_a = logits - logsumexp(logits, axis=1, keepdims=True)
        _, log_likelihood = by_hand(a, Parameters(np.exp(log_prior), np.exp(log_a)), 0.8)
        return -(log_likelihood + float((beta * log_a).sum() + log_prior.sum()))

    def free(of: Parameters) -> Floats:
        return np.concatenate([np.log(of.prior), np.log(of.confusions).ravel()])

    assert -negative(free(found.usual)) == pytest.approx(found.objective, rel=1e-10)
    assert found.objective > -negative(free(at)) + 1.0
    ended = minimize(negative, free(at), method="L-BFGS-B", options={"maxfun": 10**6})
    assert -ended.fun == pytest.approx(found.objective, abs=1e-3)


def test_without_spread_this_is_dawid_and_skenes_model() -> None:
    a, at = small(4)
    beta = 0.5 + 2 * np.eye(3)
    even = Parameters(np.full(3, 1 / 3), at.confusions)
    ours = fit_hard_items(a, even, spread=0.0, pseudo=beta, learn_prior=False, max_iter=5000, tol=1e-13)
    theirs = run_em(a, even, ConfusionStep(beta, learn_prior=False), max_iter=5000, tol=1e-13)
    np.testing.assert_allclose(ours.usual.confusions, theirs.parameters.confusions, atol=1e-5)
    assert ours.objective == pytest.approx(theirs.history[-1], rel=1e-10)
    # a spread that is next to nothing is next to this
    near = fit_hard_items(a, even, spread=1e-4, pseudo=beta, learn_prior=False, max_iter=5000, tol=1e-13)
    assert near.objective == pytest.approx(ours.objective, rel=1e-6)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_the_objective_never_falls(spread: float, accelerate: bool) -> None:
    for seed in range(4):
        a, at = small(seed, K=2 + seed % 2)
        K = a.n_classes
        found = fit_hard_items(
            a, at, spread=spread, pseudo=np.full((K, K), 0.2), max_iter=60, tol=0, accelerate=accelerate
        )
        assert len(found.history) == 60
        assert np.diff(found.history).min() >= -1e-9 * abs(found.history[-1])


def test_what_was_put_in_is_found() -> None:
    model = random_model(15, 3, seed=5)
    a, truth = of_unequal_ease(model, 6000, 10, 1.05, seed=6)
    fit = hard_items(a)
    assert fit.details["spread"] == pytest.approx(1.05)
    assert fit.converged
    # what annotators say of items of usual ease
    found = fit_hard_items(
        a, Parameters(model.prior, model.confusions), spread=1.05, pseudo=np.full((3, 3), 0.1), max_iter=500, tol=1e-9
    )
    assert np.abs(found.usual.confusions - model.confusions).mean() < 0.02
    np.testing.assert_allclose(found.usual.prior, model.prior, atol=0.02)
    # and of the average one
    share = np.stack([np.bincount(a.label[a.annotator == 0], minlength=3)]) / np.count_nonzero(a.annotator == 0)
    np.testing.assert_allclose(fit.model.confusions[0] @ fit.model.prior, share[0], atol=0.01)
    plain = dawid_skene_em(a)
    assert log_loss(fit.posterior, truth) < 0.7 * log_loss(plain.posterior, truth)
    assert expected_calibration_error(fit.posterior, truth) < 0.5 * expected_calibration_error(plain.posterior, truth)
    assert np.mean(fit.choice.best == truth) >= np.mean(plain.choice.best == truth)


def test_items_that_do_not_differ_are_seen() -> None:
    model = random_model(15, 3, seed=7)
    a, truth = model.sample(3000, labels_per_item=10, random_state=8)
    fit = hard_items(a)
    assert fit.details["spread"] == 0.0
    assert np.mean(fit.choice.best == truth) >= np.mean(dawid_skene_em(a).choice.best == truth) - 0.002
    asked = hard_items(a, spread=1.0)
    assert asked.details["spread"] == 1.0
    assert asked.posterior.max(axis=1).mean() < fit.posterior.max(axis=1).mean()


def test_order_and_names_change_nothing() -> None:
    a, _ = of_unequal_ease(random_model(8, 3, seed=9), 60, 5, 1.0, seed=9)
    b, order = mixed(a)
    plain, other = hard_items(a, tol=1e-12), hard_items(b, tol=1e-12)
    assert plain.details == other.details
    np.testing.assert_allclose(other.posterior[order][:, [2, 0, 1]], plain.posterior, atol=1e-6)


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = of_unequal_ease(random_model(20, 2, seed=1), 40_000, 8, 0.7, seed=1)
    one, three = by_one_and_three_threads(monkeypatch, a, lambda: hard_items(a, spread=0.7, max_iter=3, tol=0))
    np.testing.assert_array_equal(one.posterior, three.posterior)


@odd_crowds
@pytest.mark.parametrize("spread", [None, 0.7])
def test_odd_crowds(matrix: Ints, spread: float | None) -> None:
    assert sound(hard_items(cs.Annotations.from_matrix(matrix), spread=spread))


def test_gold_is_held_and_helps() -> None:
    a, truth = of_unequal_ease(random_model(8, 3, seed=3, skill=0.3), 300, 4, 1.0, seed=3)
    known = np.arange(300) < 150
    taught = hard_items(a.with_gold(np.where(known, truth, -1)))
    np.testing.assert_array_equal(taught.posterior[known], np.eye(3)[truth[known]])
    assert np.mean((taught.choice.best == truth)[~known]) >= np.mean((hard_items(a).choice.best == truth)[~known])


def test_strangers_are_average_annotators() -> None:
    model = random_model(5, 2, seed=2)
    new = labels_of(np.array([[0, 1]]), np.array([[1, 1]]), 2, 2)  # a0 and a1, whom the model does not know
    growth = np.exp(0.8 * np.sqrt(3) * np.array([-1, 0, 1]))
    tables = np.stack([np.where(np.eye(2) > 0, model.confusions * g, model.confusions) for g in growth], axis=3)
    average = (tables / tables.sum(axis=1, keepdims=True)).mean(axis=0)[1]  # says 1, of class k and ease x
    joint = model.prior * (average**2 @ (np.array([1, 4, 1]) / 6))
    np.testing.assert_allclose(HardItemsModel(model, 0.8).posterior(new), [joint / joint.sum()], atol=1e-12)


def test_stopping_and_cautions() -> None:
    a, _ = of_unequal_ease(random_model(8, 3, seed=4), 200, 5, 1.0, seed=4)
    for last in (3, 12, 20):  # in the crowd's habits, in a spread that is tried, at the end
        told: list[Progress] = []

        def tell(state: Progress, told: list[Progress] = told, last: int = last) -> bool:
            told.append(state)
            return len(told) >= last

        stopped = hard_items(a, callback=tell, tol=1e-13)
        assert len(told) == last
        assert not stopped.converged
        assert sound(stopped)
    (caution,) = hard_items(a, spread=0.7, max_iter=2, tol=1e-13).cautions
    assert "did not converge in 2 passes" in caution[0]
    assert not hard_items(a, max_iter=3, tol=0).cautions


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize(
    ("name", "most"), [("bluebird", 8.4), ("dog52", 16.5), ("rte", 7.4), ("labelme", 20.0), ("sentence_polarity", 8.3)]
)
def test_public_crowds(name: str, most: float) -> None:
    a, truth = real_crowd(name)
    fit = hard_items(a)
    assert error_percent(fit.choice.best, truth) <= most
    known = truth >= 0
    assert log_loss(fit.posterior[known], truth[known]) < log_loss(dawid_skene_em(a).posterior[known], truth[known])
