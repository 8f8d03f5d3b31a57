"""Learned habits of a crowd: the fixed point against an optimiser, the long tail against voting."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import betaln, gammaln
from tests.conftest import error_percent, real_crowd

import consilience as cs
from consilience.datasets.hard_cases import long_tail
from consilience.exceptions import ParameterError
from consilience.fitting.fit import vote_posterior
from consilience.fitting.variational import Dirichlet
from consilience.kernels._arrays import Floats
from consilience.kernels.em import Statistics
from consilience.methods.ds_em import dawid_skene_em
from consilience.methods.hierarchical import CoinBeliefs, hierarchical
from consilience.methods.ibcc import ibcc
from consilience.metrics import expected_calibration_error
from consilience.models.dawid_skene import DawidSkene


def evidence(counts: Floats, beta: Floats) -> float:
    """Σ log B(c + β) - log B(β), less the exponential prior on β."""

    def log_beta(x: Floats) -> Floats:
        return np.asarray(gammaln(x).sum(axis=-2) - gammaln(x.sum(axis=-2)))

    return float((log_beta(counts + beta) - log_beta(beta)).sum() - beta.sum())


def counts_of_a_crowd(M: int, K: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    beta = 1.0 + 5.0 * np.eye(K)
    confusions = np.stack([rng.dirichlet(beta[:, k], M) for k in range(K)], axis=2)
    counts = np.stack([[rng.multinomial(30, confusions[m, :, k]) for k in range(K)] for m in range(M)])
    return counts.swapaxes(1, 2).astype(float)


def test_the_fixed_point_is_the_optimum_that_scipy_finds() -> None:
    counts = counts_of_a_crowd(40, 3, seed=0)
    beta = Dirichlet(np.ones((3, 3)), axis=-2).learned(counts, 3000).pseudo
    best = minimize(
        lambda x: -evidence(counts, np.exp(x).reshape(3, 3)), np.zeros(9), method="L-BFGS-B", options={"ftol": 1e-14}
    )
    np.testing.assert_allclose(beta, np.exp(best.x).reshape(3, 3), rtol=2e-3)


def test_every_step_of_the_fixed_point_raises_the_evidence() -> None:
    counts = counts_of_a_crowd(15, 4, seed=1)
    habits = Dirichlet(np.full((4, 4), 2.0), axis=-2)
    values = [evidence(counts, habits.pseudo)]
    for _ in range(50):
        habits = habits.learned(counts, 1)
        values.append(evidence(counts, habits.pseudo))
    assert np.diff(values).min() > -1e-9
    assert values[-1] > values[0] + 1.0


def nearly_equal_annotators(M: int) -> Floats:
    """Return fractional counts of annotators with about one label each, who answer alike, (M, 2, 2)."""
    rng = np.random.default_rng(3)
    label, share = rng.random(M) < 0.5, np.where(rng.random(M) < 0.8, 0.9, 0.1)
    counts = np.zeros((M, 2, 2))
    counts[np.arange(M), label.astype(int), label.astype(int)] = share
    counts[np.arange(M), label.astype(int), 1 - label.astype(int)] = 1.0 - share
    return counts


def test_leaps_find_the_habits_of_annotators_who_are_alike() -> None:
    counts = nearly_equal_annotators(5000)
    begin = Dirichlet(np.where(np.eye(2, dtype=bool), 4.0, 1.5), axis=-2)
    best = minimize(
        lambda x: -evidence(counts, np.exp(x).reshape(2, 2)),
        np.log(begin.pseudo).ravel(),
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-6},
    )
    plain = begin
    for _ in range(24):  # steps one at a time have no leap
        plain = plain.learned(counts, 1)
    leapt = begin.learned(counts, 24)
    assert plain.pseudo.sum() < 0.5 * np.exp(best.x).sum()
    np.testing.assert_allclose(leapt.pseudo, np.exp(best.x).reshape(2, 2), rtol=0.01)


@pytest.mark.parametrize("counts", [nearly_equal_annotators(2000), counts_of_a_crowd(15, 4, seed=1)])
def test_leaps_never_lower_the_evidence(counts: Floats) -> None:
    habits = Dirichlet(np.full(counts.shape[1:], 2.0), axis=-2)
    values = [evidence(counts, habits.pseudo)]
    for _ in range(20):
        habits = habits.learned(counts, 3)
        values.append(evidence(counts, habits.pseudo))
    assert np.diff(values).min() > -1e-9
    assert values[-1] > values[0] + 1.0


@pytest.mark.parametrize("labels_each", [1, 3])
def test_a_crowd_of_strangers_takes_few_passes(labels_each: int) -> None:
    """Annotators with so few labels are alike for all that can be known; without leaps it took 221 and 177 passes."""
    rng = np.random.default_rng(0)
    n = 20_000
    items, truth = np.repeat(np.arange(n // 5), 5), rng.integers(0, 2, n // 5)
    labels = np.where(rng.random(n) < 0.8, truth[items], 1 - truth[items])
    annotators = np.arange(n) % (n // labels_each)
    annotations = cs.Annotations.from_frame(pd.DataFrame({"item": items, "annotator": annotators, "label": labels}))
    fit = hierarchical(annotations, tol=1e-6)
    assert fit.converged
    assert len(fit.history) < 40
    np.testing.assert_allclose(np.einsum("mkk->k", fit.model.confusions) / annotations.n_annotators, 0.8, atol=0.02)


def test_the_coin_divergence_is_that_of_beta_distributions() -> None:
    counts = counts_of_a_crowd(8, 3, seed=2)
    beliefs = CoinBeliefs(None, 3)
    expected = beliefs(Statistics(counts, counts.sum(axis=(0, 1)), float("nan")))
    right, wrong = np.einsum("mkk->m", counts), counts.sum(axis=(1, 2)) - np.einsum("mkk->m", counts)
    a, b = beliefs.coin.pseudo
    tables = expected.tables.confusions
    log_right, log_wrong = np.log(tables[:, 0, 0]), np.log(tables[:, 1, 0] * 2)
    kl = betaln(a, b) - betaln(right + a, wrong + b) + right * log_right + wrong * log_wrong
    assert expected.divergence == pytest.approx(float(kl.sum()) + a + b, rel=1e-9)


@pytest.mark.parametrize("coin", [False, True])
@pytest.mark.parametrize("accelerate", [False, True])
def test_the_bound_never_falls(coin: bool, accelerate: bool) -> None:
    crowd = cs.simulate(400, 25, 3, labels_per_item=4, spammers=0.2, seed=3)
    fit = hierarchical(crowd.annotations, coin=coin, accelerate=accelerate, tol=1e-9)
    assert fit.converged
    assert np.diff(fit.history).min() > -1e-6


def test_with_habits_held_fixed_it_is_ibcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dirichlet, "learned", lambda self, counts, steps: self)
    crowd = cs.simulate(200, 10, 2, seed=4)
    one = hierarchical(crowd.annotations, tol=1e-9)
    other = ibcc(crowd.annotations, smoothing=1.0, diagonal=3.0, tol=1e-9)
    np.testing.assert_allclose(one.model.confusions, other.model.confusions, atol=1e-6)
    np.testing.assert_allclose(one.posterior, other.model.posterior(crowd.annotations), atol=1e-6)


def test_the_bound_prefers_coins_where_annotators_are_coins() -> None:
    coins = cs.simulate(300, 60, 5, labels_per_item=3, accuracy=(0.6, 0.9), seed=5).annotations
    bounds = [float(hierarchical(coins, coin=coin).details["lower_bound"]) for coin in (True, False)]
    assert bounds[0] > bounds[1] + 5

    rng = np.random.default_rng(6)
    habits = np.stack([[[0.95, 0.45], [0.05, 0.55]], [[0.55, 0.05], [0.45, 0.95]]])[rng.integers(0, 2, 20)]
    model = DawidSkene(np.array([0.5, 0.5]), habits, list(range(2)), list(range(20)))  # type: ignore[arg-type]
    biased, _ = model.sample(600, label_probability=0.4, random_state=7)
    bounds = [float(hierarchical(biased, coin=coin).details["lower_bound"]) for coin in (True, False)]
    assert bounds[1] > bounds[0] + 20


def test_the_long_tail_is_at_least_as_good_as_voting_and_calibrated() -> None:
    scores = []
    for seed in range(3):
        crowd = long_tail(seed)
        truth = np.asarray(crowd.truth)
        fit = hierarchical(crowd.annotations)
        plain = dawid_skene_em(crowd.annotations)
        votes = vote_posterior(crowd.annotations)
        scores.append(
            [
                np.mean(fit.choice.best == truth),
                np.mean(votes.argmax(axis=1) == truth),
                np.mean(plain.choice.best == truth),
                expected_calibration_error(fit.posterior, truth),
            ]
        )
    ours, majority, ds_em, ece = np.mean(scores, axis=0)
    assert ours >= max(majority, 0.915) - 0.003
    assert ours > ds_em + 0.08
    assert ece < 0.04


def test_weights_of_a_half_for_two_copies_are_one_annotator() -> None:
    crowd = cs.simulate(150, 6, 2, seed=8).annotations
    matrix = np.full((150, 6), -1)
    item = np.repeat(np.arange(150), crowd.labels_per_item)
    matrix[item, crowd.annotator] = crowd.label
    doubled = cs.Annotations.from_matrix(np.concatenate([matrix, matrix[:, :1]], axis=1))
    alone = hierarchical(cs.Annotations.from_matrix(matrix), tol=1e-9)
    shared = hierarchical(doubled, weights=[0.5, 1, 1, 1, 1, 1, 0.5], tol=1e-9)
    twice = hierarchical(doubled, tol=1e-9)
    near, far = (np.abs(fit.posterior - alone.posterior).mean() for fit in (shared, twice))
    assert near < 0.02
    assert near < 0.5 * far


def test_weights_must_fit_the_annotators() -> None:
    crowd = cs.simulate(20, 5, 2, seed=1).annotations
    with pytest.raises(ParameterError, match="5 annotators"):
        hierarchical(crowd, weights=[1.0, 2.0])
    with pytest.raises(ParameterError, match="number ≥ 0"):
        hierarchical(crowd, weights=[-1.0] * 5)


@pytest.mark.parametrize(("name", "worst"), [("bluebird", 10.2), ("rte", 7.3), ("labelme", 20.1), ("trec", 29.4)])
@pytest.mark.usefixtures("data_folder")
def test_real_crowds(name: str, worst: float) -> None:
    annotations, truth = real_crowd(name)
    assert error_percent(hierarchical(annotations).choice.best, truth) <= worst
