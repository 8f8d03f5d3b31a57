"""The estimated share of wrong labels: closed forms, brute force, and what a run reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.stats import norm

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.exceptions import DataWarning
from consilience.runs.estimated_error import PICKED, SPREAD, EstimatedError, estimate


def logit(p: float) -> float:
    return float(np.log(p / (1 - p)))


def test_without_known_answers_it_is_normal_in_log_odds() -> None:
    found = estimate(0.2, 10**9)
    centre = logit(0.2)
    assert logit(found.value) == pytest.approx(centre)
    assert logit(found.high) - centre == pytest.approx(stats.norm.ppf(0.95) * SPREAD, abs=1e-3)
    assert centre - logit(found.low) == pytest.approx(stats.norm.ppf(0.95) * SPREAD, abs=1e-3)
    assert found.basis == "labels"


def test_few_items_widen_the_interval() -> None:
    few, many = estimate(0.2, 10), estimate(0.2, 10_000)
    assert few.low < many.low < many.high < few.high


@pytest.mark.parametrize("known_doubt", [None, 0.22, 0.35])
@pytest.mark.parametrize(("wrong", "known"), [(0, 10), (3, 10), (43, 100), (200, 1000)])
def test_known_answers_update_it_by_bayes_rule(wrong: int, known: int, known_doubt: float | None) -> None:
    found = estimate(0.2, 10**9, wrong=wrong, known=known, known_doubt=known_doubt)
    shift = 0.0 if known_doubt is None else logit(known_doubt) - logit(0.2)
    z, eta = np.linspace(-6, 4, 2001), np.linspace(-4, 4, 201)  # what the difference of the items may hide
    p = 1 / (1 + np.exp(-z[:, None] - shift - PICKED * shift * eta))
    likelihood = stats.binom.pmf(wrong, known, p) @ stats.norm.pdf(eta)
    density = stats.norm.pdf(z, logit(0.2), SPREAD) * likelihood
    below = integrate.cumulative_trapezoid(density, z, initial=0.0)
    for level, quantile in ((0.05, found.low), (0.5, found.value), (0.95, found.high)):
        assert np.interp(logit(quantile), z, below) / below[-1] == pytest.approx(level, abs=0.004)
    assert found.basis == "known answers"


def test_many_known_answers_decide() -> None:
    found = estimate(0.05, 10**6, wrong=400, known=1000)
    assert found.value == pytest.approx(0.4, abs=0.02)
    assert found.high - found.low < 0.06


def test_known_answers_need_not_be_a_random_sample() -> None:
    """The most doubtful items are checked: they are wrong far more often than the others."""
    made = cs.simulate(600, 12, 2, labels_per_item=5, accuracy=(0.6, 0.8), seed=3)
    doubtful = np.argsort(cs.aggregate(made.annotations).posterior.max(axis=1))[:60]
    gold = np.full(600, -1)
    gold[doubtful] = made.truth[doubtful]
    run = cs.aggregate(made.annotations.with_gold(gold))
    rest = gold < 0
    wrong = float((run.choice.best != made.truth)[rest].mean())
    assert run.run["known_answers"]["error_with"] > 1.5 * wrong
    assert run.estimated_error.low < wrong < run.estimated_error.high
    assert run.estimated_error.value < run.run["known_answers"]["error_with"]


@pytest.mark.parametrize("wrong", [20, 45, 70])
def test_picked_items_say_little_about_the_others(wrong: int) -> None:
    alone, found = estimate(0.1, 1000), estimate(0.1, 1000, wrong=wrong, known=100, known_doubt=0.45)
    assert found.value == pytest.approx(alone.value, abs=0.015)
    assert found.high - found.low > 0.9 * (alone.high - alone.low)


def crowd() -> Annotations:
    return cs.simulate(400, 12, 3, labels_per_item=5, seed=4).annotations


def test_a_run_reports_it_and_keeps_it(tmp_path: Path) -> None:
    run = cs.aggregate(crowd())
    error = run.estimated_error
    assert 0 <= error.low < error.value < error.high <= 1
    assert error.basis == "labels"
    summary = run.summary()
    names = ("estimated_error", "estimated_error_low", "estimated_error_high", "estimated_error_basis")
    assert tuple(summary[name] for name in names) == error
    assert summary["verdict"] == run.verdict == run.diagnosis.verdict
    run.save(tmp_path / "run")
    again = cs.load(tmp_path / "run")
    assert again.estimated_error == error
    assert again.verdict == run.verdict


def test_other_methods_are_not_taken_at_their_word() -> None:
    """Dawid and Skene's posterior is far too sure where annotators err together."""
    rng = np.random.default_rng(0)
    truth, hard = rng.integers(0, 2, 600), rng.random(600) < 0.2
    right = rng.random((600, 9)) < np.where(hard, 0.25, 0.9)[:, None]
    a = Annotations.from_matrix(np.where(right, truth[:, None], 1 - truth[:, None]))
    run = cs.aggregate(a, "ds-em")
    wrong = np.mean(run.choice.best != truth)
    stated = 1 - run.posterior.max(axis=1).mean()
    assert stated < 0.02 < 0.15 < wrong
    assert run.estimated_error.high > wrong
    assert run.estimated_error.value > 5 * stated


def test_known_answers_that_contradict_the_labels_are_the_basis() -> None:
    simulated = cs.simulate(400, 15, 3, labels_per_item=5, adversaries=0.6, seed=0)
    truth = np.asarray(simulated.truth)
    blind = cs.aggregate(simulated.annotations)
    assert np.mean(blind.choice.best != truth) > 0.5
    gold = simulated.annotations.with_gold(np.where(np.arange(400) < 100, truth, -1))
    with pytest.warns(DataWarning, match="known answers, the consensus of the labels alone is"):
        taught = cs.aggregate(gold)
    error = taught.estimated_error
    assert error.basis == "known answers"
    wrong = np.mean(taught.choice.best[100:] != truth[100:])
    assert error.low - 0.01 <= wrong <= error.high
    assert error.high < 0.1


def test_the_interval_is_readable() -> None:
    assert str(EstimatedError(0.153, 0.07, 0.312, "labels")) == "about 15% (7% to 31%)"


@pytest.mark.parametrize(("probability", "more"), [(0.3, 1.0), (0.3, 3.0), (0.9, 0.2), (0.6, 2.0)])
def test_a_twentieth_is_above_the_interval_if_annotators_may_err_together(probability: float, more: float) -> None:
    """In a mixture of the two cases, less what the independent ones add to the upper tail."""
    doubt, n = 0.08, 10_000
    found, alone = estimate(doubt, n, together=(probability, more)), estimate(doubt, n)
    deviation = np.log(alone.high / (1 - alone.high)) - np.log(doubt / (1 - doubt))
    at = (np.log(found.high / (1 - found.high)) - np.log(doubt / (1 - doubt))) / (deviation / norm.ppf(0.95))
    shift = more / (deviation / norm.ppf(0.95))
    dependent, independent = probability * norm.sf(at - shift), (1 - probability) * norm.sf(at)
    assert dependent + independent < 0.1
    assert found.high > alone.high
    assert (found.value, found.low) == (alone.value, alone.low)
    assert dependent == pytest.approx(0.05, abs=1e-3)


def test_hardly_dependent_errors_do_not_change_the_interval() -> None:
    assert estimate(0.08, 1000, together=(0.04, 3.0)) == estimate(0.08, 1000)
    told, untold = (estimate(0.08, 1000, wrong=40, known=100, together=(p, 1.5)) for p in (0.5, 0.0))
    assert told.value > untold.value, "known answers move it further upwards"
