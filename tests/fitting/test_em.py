"""EM: monotone, convergent, and right where the right answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import brute_force, error_percent, random_model, real_crowd

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.datasets import load
from consilience.exceptions import ConvergenceWarning
from consilience.fitting.ascent import extrapolate
from consilience.fitting.em import ConfusionStep, OneCoinStep, Parameters, Progress, leap_confusions, run_em
from consilience.fitting.fit import vote_posterior, vote_start
from consilience.kernels.em import FLOOR
from consilience.kernels.votes import vote_statistics
from consilience.methods.ds_em import dawid_skene_em
from consilience.methods.majority import majority_vote
from consilience.methods.one_coin import one_coin


@pytest.fixture(scope="module")
def crowd() -> tuple[Annotations, np.ndarray]:
    return random_model(30, 3, seed=4, skill=0.5).sample(3000, labels_per_item=6, random_state=0)


@pytest.mark.parametrize("step", [ConfusionStep(), ConfusionStep(0.5, False), OneCoinStep(), OneCoinStep(1.0)])
@pytest.mark.parametrize("accelerate", [False, True])
def test_the_objective_never_falls(
    crowd: tuple[Annotations, np.ndarray], step: ConfusionStep, accelerate: bool
) -> None:
    a, _ = crowd
    result = run_em(a, vote_start(a, step), step, max_iter=60, tol=0, accelerate=accelerate)
    assert len(result.history) == 60
    steps = np.diff(result.history)
    assert steps.min() >= -1e-10 * abs(result.history[-1])
    assert steps.max() > 0


@pytest.mark.parametrize("step", [ConfusionStep(), ConfusionStep(0.3), OneCoinStep(), OneCoinStep(0.3)])
def test_an_m_step_is_a_maximum(crowd: tuple[Annotations, np.ndarray], step: ConfusionStep) -> None:
    """Moving any parameter off the M-step's answer, on the simplex, lowers the expected log-likelihood plus penalty."""
    a, _ = crowd
    statistics = vote_statistics(a.indptr, a.annotator, a.label, vote_posterior(a), a.n_annotators)
    best = step(statistics)

    def value(p: Parameters) -> float:
        expected = (statistics.counts * np.log(p.confusions)).sum() + statistics.class_counts @ np.log(p.prior)
        return float(expected) + step.penalty(p)

    rng = np.random.default_rng(0)
    top = value(best)
    for _ in range(20):
        prior = best.prior * np.exp(0.05 * rng.standard_normal(3))
        if isinstance(step, OneCoinStep):
            accuracy = np.clip(best.confusions[:, 0, 0] + 0.02 * rng.standard_normal(30), 0.01, 0.99)
            confusions = np.tile(((1 - accuracy) / 2)[:, None, None], (1, 3, 3))
            confusions[:, range(3), range(3)] = accuracy[:, None]
        else:
            confusions = best.confusions * np.exp(0.05 * rng.standard_normal(best.confusions.shape))
            confusions /= confusions.sum(axis=1, keepdims=True)
        assert value(Parameters(prior / prior.sum(), confusions)) < top


def test_em_steps_are_textbook(crowd: tuple[Annotations, np.ndarray]) -> None:
    """Three plain passes equal three brute-force E- and M-steps."""
    a = crowd[0].select_items(slice(0, 200))
    step = ConfusionStep()
    start = vote_start(a, step)
    prior, confusions = start
    for _ in range(3):
        posterior, counts, _ = brute_force(a, np.maximum(prior, 1e-12), np.maximum(confusions, 1e-12))
        prior = posterior.mean(axis=0)
        total = counts.sum(axis=1, keepdims=True)
        confusions = np.where(total > 0, counts / np.where(total > 0, total, 1), 1 / 3)
    result = run_em(a, start, step, max_iter=3, tol=0, accelerate=False)
    np.testing.assert_allclose(result.parameters.confusions, confusions, atol=1e-9)
    np.testing.assert_allclose(result.parameters.prior, prior, atol=1e-12)


def test_acceleration_reaches_the_same_maximum(crowd: tuple[Annotations, np.ndarray]) -> None:
    a, _ = crowd
    plain = dawid_skene_em(a, accelerate=False, tol=1e-12, max_iter=5000)
    fast = dawid_skene_em(a, tol=1e-12, max_iter=5000)
    assert fast.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-9)
    assert fast.iterations < plain.iterations
    np.testing.assert_allclose(fast.model.confusions, plain.model.confusions, atol=2e-3)


def test_parameters_are_recovered_as_data_grows() -> None:
    model = random_model(20, 3, seed=7, skill=0.7)
    errors = []
    for n in (500, 50_000):
        a, _ = model.sample(n, labels_per_item=8, random_state=0)
        found = dawid_skene_em(a, smoothing=0.01).model
        errors.append(np.abs(found.confusions - model.confusions).mean())
    assert errors[1] < 0.01
    assert errors[1] < 0.2 * errors[0]


def test_one_coin_recovers_accuracies() -> None:
    rng = np.random.default_rng(0)
    accuracy = rng.uniform(0.4, 0.95, 25)
    confusions = np.tile(((1 - accuracy) / 3)[:, None, None], (1, 4, 4))
    confusions[:, range(4), range(4)] = accuracy[:, None]
    model = cs.DawidSkene(np.full(4, 0.25), confusions, list(range(4)), list(range(25)))  # type: ignore[arg-type]
    a, _ = model.sample(20_000, labels_per_item=6, random_state=0)
    found = one_coin(a).model.confusions
    np.testing.assert_allclose(found[:, 0, 0], accuracy, atol=0.03)
    np.testing.assert_allclose(found[:, 1, 0], found[:, 3, 2])


def test_gold_is_held_and_helps() -> None:
    """With a majority of adversaries the blind fit is upside down; forty known truths turn it over."""
    good, bad = np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([[0.2, 0.8], [0.8, 0.2]])
    model = cs.DawidSkene(np.full(2, 0.5), np.stack([good] * 3 + [bad] * 6), [0, 1], list(range(9)))  # type: ignore[arg-type]
    a, truth = model.sample(2000, random_state=0)
    assert error_percent(dawid_skene_em(a).choice.best, truth) > 80
    gold = np.where(np.arange(2000) < 40, truth, -1)
    fit = dawid_skene_em(a.with_gold(gold), start=_gold_start(a.with_gold(gold)))
    assert error_percent(fit.choice.best, truth) < 10
    np.testing.assert_array_equal(fit.choice.best[:40], truth[:40])
    np.testing.assert_array_equal(fit.posterior[:40].max(axis=1), 1.0)


def _gold_start(a: Annotations) -> Parameters:
    assert a.gold is not None
    return vote_start(a.select_items(a.gold >= 0), ConfusionStep(1.0))


def test_converged_means_that_the_tolerance_was_met(crowd: tuple[Annotations, np.ndarray]) -> None:
    a, _ = crowd
    short = dawid_skene_em(a, max_iter=3)
    assert not short.converged
    assert short.cautions[0][1] is ConvergenceWarning
    assert "3 passes" in short.cautions[0][0]
    long = dawid_skene_em(a)
    assert long.converged
    assert long.cautions == ()
    all_passes = dawid_skene_em(a, max_iter=7, tol=0)
    assert all_passes.iterations == 7
    assert not all_passes.converged
    assert all_passes.cautions == ()


def test_callback_is_told_and_can_stop(crowd: tuple[Annotations, np.ndarray]) -> None:
    told: list[Progress] = []

    def stop_at_four(state: Progress) -> bool:
        told.append(state)
        return state.iteration == 4

    fit = dawid_skene_em(crowd[0], callback=stop_at_four)
    assert [state.iteration for state in told] == [1, 2, 3, 4]
    assert fit.iterations == 4
    assert not fit.converged


def test_nobody_can_outvote_the_crowd_by_shouting() -> None:
    """One annotator who repeats an answer ten times counts once."""
    rows = [("x", w, "a") for w in ("p", "q", "r")] + [("x", "s", "b")] * 10
    frame = {"task": [r[0] for r in rows], "worker": [r[1] for r in rows], "label": [r[2] for r in rows]}
    import pyarrow as pa

    with pytest.warns(cs.exceptions.DataWarning, match="9 labels repeat"):
        a = Annotations.from_frame(pa.table(frame))
    assert majority_vote(a).choice.best.tolist() == [0]
    kept = Annotations.from_frame(pa.table(frame), duplicates="keep")
    assert majority_vote(kept).choice.best.tolist() == [1]


def test_the_1979_table() -> None:
    """The figures of the paper's Tables 2-4 on the bundled copy, and the log-likelihood of its maximum."""
    fit = dawid_skene_em(load("dawid_skene").annotations)
    assert fit.log_likelihood == pytest.approx(-192.8909, abs=1e-4)
    assert fit.converged
    np.testing.assert_allclose(fit.model.prior, [0.400, 0.422, 0.112, 0.067], atol=6e-4)
    np.testing.assert_allclose(fit.model.confusions[0, :, 0], [0.89, 0.11, 0.0, 0.0], atol=5e-3)
    assert fit.posterior[6, 0] == pytest.approx(0.981, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "ten_rounds", "converged"),
    [
        ("bluebird", 11.11, 10.2),
        ("dog52", 15.86, 15.9),
        ("rte", 7.25, 7.3),
        ("trec", 30.02, 29.9),
        ("labelme", 19.30, 21.0),
    ],
)
@pytest.mark.usefixtures("data_folder")
def test_errors_on_real_crowds(name: str, ten_rounds: float, converged: float) -> None:
    a, truth = real_crowd(name)
    one_item = 100 / int((truth >= 0).sum())
    # A round is an M-step and an E-step: the start is the first M-step, the final posterior the last E-step.
    rounds = dawid_skene_em(a, prior="uniform", max_iter=9, tol=0, accelerate=False)
    assert error_percent(rounds.choice.best, truth) == pytest.approx(ten_rounds, abs=one_item + 0.005)
    assert error_percent(dawid_skene_em(a).choice.best, truth) <= converged


@pytest.mark.parametrize("name", ["bluebird", "dog52", "rte", "trec", "labelme"])
@pytest.mark.usefixtures("data_folder")
def test_broken_ties_beat_coin_tosses(name: str) -> None:
    """Majority voting is at or below the expected error of tossing a coin for ties, which the data folder states."""
    import json

    from consilience.datasets import path

    a, truth = real_crowd(name)
    expected = json.loads((path(name) / "stats.json").read_text())["mv_err"]
    fit = majority_vote(a)
    assert error_percent(fit.choice.best, truth) <= expected + 0.005


def test_compiled_leaps_are_the_formula() -> None:
    one, two, three = (Parameters(m.prior, m.confusions) for m in (random_model(7, 3, seed=seed) for seed in range(3)))
    labels = np.random.default_rng(0).gamma(1.0, 10.0, (7, 3))
    # three points at random seldom lie so that there is a leap: two of them near a line
    along = Parameters(*(b + 0.7 * (b - a) + 0.01 * (c - b) for a, b, c in zip(one, two, three, strict=True)))
    found = leap_confusions(one, two, along, labels, 40.0)
    expected = extrapolate(one, two, along, (40.0, labels[:, None, :]), 0.1 * FLOOR)
    assert found is not None
    assert expected is not None
    np.testing.assert_allclose(found.prior, expected[0] / expected[0].sum(), atol=1e-10)
    np.testing.assert_allclose(found.confusions, expected[1] / expected[1].sum(axis=1, keepdims=True), atol=1e-10)
    assert leap_confusions(one, one, one, labels, 40.0) is None
    # beyond the edge of the simplex there is the floor, which is less than rounding tells from zero
    steep = [np.array([[[0.3 - 0.1 * k], [0.7 + 0.1 * k]]]) * np.ones((1, 2, 2)) for k in (0.0, 1.0, 1.9)]
    over = [Parameters(np.full(2, 0.5), x) for x in steep]
    edge = leap_confusions(over[0], over[1], over[2], np.ones((1, 2)), 1.0)
    assert edge is not None
    assert 0 <= edge.confusions[0, 0, 0] < FLOOR
    np.testing.assert_allclose(edge.confusions.sum(axis=1), 1.0)
