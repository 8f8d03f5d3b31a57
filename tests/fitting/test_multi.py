"""The model of several options: known parameters are found, the objective rises, names and order do not matter."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.data.option_sets import option_sets
from consilience.data.set_labels import as_sets
from consilience.datasets import simulate_multi
from consilience.engine.progress import Progress
from consilience.exceptions import DataError
from consilience.fitting import multi
from consilience.fitting.multi import calibrated, fit_multi
from consilience.kernels.multi import ticks_of
from consilience.models.multi import LEVELS, crowd_cut, levels_above


def test_known_rates_of_annotators_are_found() -> None:
    drawn = simulate_multi(800, 12, 6, labels_per_item=6, deviation=0.2, seed=1)
    a = as_sets(drawn.annotations)
    fit = fit_multi(a)
    assert fit.converged
    p = fit.posterior.probability.reshape(800, 6)
    assert np.mean((p > 0.5) != drawn.true) < 0.03
    order = a.annotator_ids.codes_of([f"a{m}" for m in range(12)])
    levels = fit.posterior.levels.reshape(800, 6, -1)
    rate = 1.0 / (1.0 + np.exp(-fit.model.log_odds()[order]))
    for truth, expected in ((True, drawn.sensitivity), (False, 1.0 - drawn.specificity)):
        mass = np.stack([levels[drawn.true[:, o] == truth, o].mean(axis=0) for o in range(6)])
        found = (rate * mass).sum(axis=2)
        assert np.abs(found - expected).mean() < 0.05
        assert np.corrcoef(found.mean(axis=1), expected.mean(axis=1))[0, 1] > 0.95


def test_skill_is_shared_across_options() -> None:
    """An annotator who only met one option is known from nothing else; one who met all is drawn to their average."""
    drawn = simulate_multi(600, 10, 6, labels_per_item=5, skill=1.2, deviation=0.0, seed=2)
    model = fit_multi(as_sets(drawn.annotations)).model
    assert np.abs(model.deviation).mean() < 0.5 * np.abs(model.shift).mean()
    order = model.annotators.codes_of([f"a{m}" for m in range(10)])
    able = np.log(drawn.sensitivity / (1 - drawn.sensitivity)) + np.log(drawn.specificity / (1 - drawn.specificity))
    assert np.corrcoef(model.slope[order], able.mean(axis=1))[0, 1] > 0.9


def test_the_objective_rises_for_given_spreads() -> None:
    a = as_sets(simulate_multi(150, 10, 4, seed=3).annotations)
    sets = option_sets(a.class_ids)
    em = multi._Model(ticks_of(a.indptr, a.annotator, a.label, sets[1:], 4, shared=True), a.n_annotators)
    at = em.start
    for _ in range(2):
        objectives = []
        for _ in range(25):
            step = em.evaluate(at)
            objectives.append(step.objective)
            at = step.after
        assert (np.diff(objectives) > 0).all()
        em.learn_spreads(at)


def test_two_levels_against_bayes() -> None:
    """With two levels and annotators that are alike, the posterior is that of the Dawid-Skene model."""
    drawn = simulate_multi(60, 5, 2, seed=4)
    a = as_sets(drawn.annotations)
    fit = fit_multi(a, max_iter=1)
    shares = np.full((2, LEVELS.size), 1e-300)
    shares[:, 5], shares[:, 12] = 0.7, 0.3
    from dataclasses import replace

    plain = replace(
        fit.model,
        slope=np.ones(5),
        shift=np.zeros(5),
        deviation=np.zeros((5, 2)),
        shares=shares,
        above=levels_above(np.zeros(2)),
        pull=np.zeros((2, 2)),
        spread=0.0,
    )
    found = plain.posterior(a)
    yes, no = (1.0 / (1.0 + np.exp(-LEVELS[at])) for at in (12, 5))
    k, n = found.ticks.n_ticks, np.repeat(a.labels_per_item, 2)
    odds = 0.3 / 0.7 * (yes / no) ** k * ((1 - yes) / (1 - no)) ** (n - k)
    np.testing.assert_allclose(found.probability, np.clip(odds / (1 + odds), 1e-9, 1 - 1e-9), rtol=1e-6)


def test_cut_is_where_the_crowd_is_divided() -> None:
    slope, shift = np.array([1.0, 2.0]), np.array([1.0, -2.0])
    cut = crowd_cut(slope, shift, np.zeros((2, 1)), np.ones((2, 1)))
    ticking = 1.0 / (1.0 + np.exp(-slope * cut - shift))
    assert (slope**2 * ticking).sum() / (slope**2).sum() == pytest.approx(0.5, abs=1e-6)
    assert levels_above(cut).sum() == pytest.approx((cut < LEVELS).sum(), abs=1.0)


def test_rows_and_names_do_not_matter() -> None:
    import pandas as pd

    import consilience as cs

    drawn = simulate_multi(80, 8, 4, seed=5)
    frame = as_sets(drawn.annotations).to_frame("pandas")
    names = {"o0": "zebra", "o1": "yak", "o2": "ant", "o3": "bee"}
    other = frame.sample(frac=1.0, random_state=0)
    other["label"] = ["|".join(names[o] for o in reversed(text.split("|")) if o) for text in other["label"]]
    first, second = (cs.aggregate(f, answers="multi") for f in (frame, other))
    assert isinstance(first, cs.MultiRun)
    assert isinstance(second, cs.MultiRun)
    one = first.options.set_index(["item", "option"])["probability"]
    two = second.options.assign(option=second.options["option"].map({v: k for k, v in names.items()}))
    two = two.set_index(["item", "option"])["probability"].reindex(one.index)
    pd.testing.assert_series_equal(one, two, check_exact=False, rtol=1e-6)


def test_dependence_is_learned_where_there_is_some() -> None:
    independent, together = (simulate_multi(1500, 20, 4, labels_per_item=3, together=t, seed=6) for t in (0.0, 0.8))
    weights = [fit_multi(as_sets(drawn.annotations)).model.pull for drawn in (independent, together)]
    pairs = [np.mean([w[0, 1], w[1, 0], w[2, 3], w[3, 2]]) for w in weights]
    assert pairs[1] > 1.0
    assert abs(pairs[0]) < 0.4
    assert np.abs(weights[1][:2, 2:]).max() < 0.5 * pairs[1]


def test_dependence_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = simulate_multi(800, 20, 6, labels_per_item=3, together=0.8, seed=7)

    def loss() -> float:
        p = np.clip(fit_multi(as_sets(drawn.annotations)).posterior.probability.reshape(800, 6), 1e-3, 1 - 1e-3)
        return float(-np.log(np.where(drawn.true, p, 1.0 - p)).mean())

    with_it = loss()
    monkeypatch.setattr(multi, "MOST_DEPENDENT", 1)
    assert with_it < 0.97 * loss()


def test_calibration_is_a_regression_with_a_prior() -> None:
    rng = np.random.default_rng(0)
    fit = fit_multi(as_sets(simulate_multi(50, 5, 2, seed=8).annotations))
    p = rng.uniform(0.02, 0.98, 20_000)
    log_odds = np.log(p / (1 - p))
    truth = (rng.random(p.size) < 1 / (1 + np.exp(1.0 - 0.6 * log_odds))).astype(float)
    assert calibrated(fit.model, p, truth).calibration == pytest.approx((-1.0, 0.6), abs=0.07)
    assert calibrated(fit.model, p[:0], truth[:0]).calibration == (0.0, 1.0)


def test_nothing_ticked_is_refused() -> None:
    import consilience as cs

    with pytest.raises(DataError, match="nobody ticked any option"):
        fit_multi(cs.Annotations.from_matrix([["|", "|"], ["|", "|"]]))


def test_limits_of_passes_are_kept() -> None:
    a = as_sets(simulate_multi(60, 6, 3, seed=9).annotations)
    few = fit_multi(a, max_iter=7)
    assert (len(few.history), few.converged) == (7, False)
    assert "did not converge in 7 passes" in few.cautions[0][0]
    seen = []

    def stop(progress: Progress) -> bool:
        seen.append(progress)
        return len(seen) == 25

    assert len(fit_multi(a, callback=stop, tol=0.0).history) == 25
