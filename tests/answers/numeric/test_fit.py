"""The models of annotators who answer with numbers."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.answers.numeric.constants import ADDITIVE, SCALED
from consilience.answers.numeric.fit import NumericFit, Table, fit_numeric
from consilience.answers.numeric.known import learn_correction
from consilience.answers.numeric.members import average_members
from consilience.answers.numeric.slips import find_slips, item_medians, medians_without
from consilience.datasets import simulate_numeric
from consilience.kernels._arrays import Floats


def table_of(crowd: object) -> Table:
    a = crowd.annotations  # type: ignore[attr-defined]
    return Table(a.indptr, a.annotator, a.classes[a.label], a.n_annotators)


def fitted(table: Table, shape: object = SCALED, **options: object) -> NumericFit:
    return fit_numeric(table, shape, **{"max_iter": 2000, "tol": 1e-6, **options})  # type: ignore[arg-type]


def test_known_parameters_are_recovered() -> None:
    crowd = simulate_numeric(2000, 20, labels_per_item=10, bias=6.0, scale=0.2, noise=(4.0, 12.0), freedom=6.0, seed=3)
    fit = fitted(table_of(crowd))
    assert fit.converged
    # the crowd's mean bias and scale are not in the data
    assert fit.bias - fit.bias.mean() == pytest.approx(crowd.bias - crowd.bias.mean(), abs=1.2)
    ratio = fit.scale / crowd.scale
    assert ratio / ratio.mean() == pytest.approx(np.ones(20), abs=0.06)
    for found, least in ((fit, 0.93), (fitted(table_of(crowd), ADDITIVE), 0.75)):
        assert np.corrcoef(np.log(found.precision), np.log(crowd.noise))[0, 1] < -least
        assert np.corrcoef(found.value, crowd.truth)[0, 1] > 0.97


def test_values_solve_their_equations() -> None:
    """At convergence, a value is the weighted mean of the answers, corrected for bias and scale, and of the prior.

    All terms are added up by a loop over the answers, from the fitted parameters alone.
    """
    crowd = simulate_numeric(60, 6, labels_per_item=4, seed=5)
    t = table_of(crowd)
    for shape in (SCALED, ADDITIVE):
        fit = fitted(t, shape, tol=1e-12, max_iter=5000)
        mu = float(t.y.mean())
        pairs = [
            (t.y[i] - mu) * (t.y[j] - mu)
            for n in range(60)
            for i in range(t.indptr[n], t.indptr[n + 1])
            for j in range(t.indptr[n], t.indptr[n + 1])
            if i != j
        ]
        spread = float(np.mean(pairs))
        for n in range(60):
            own = range(int(t.indptr[n]), int(t.indptr[n + 1]))
            total = 1.0 / spread + sum(fit.weight[i] for i in own)
            assert fit.variance[n] == pytest.approx(1.0 / total, rel=1e-6)
            residual = sum(
                fit.weight[i] * ((t.y[i] - mu - fit.bias[t.annotator[i]]) / fit.scale[t.annotator[i]]) for i in own
            )
            # up to the uncertainty of bias and scale, which is small beside the noise
            assert fit.value[n] - mu == pytest.approx(residual / total, abs=0.12 * float(t.y.std()))


def gaussian_reference(t: Table, bias_variance: float, noise: Floats, spread: float) -> Floats:
    """Return posterior means of the values of the additive Gaussian model, by solving one dense linear system."""
    N, M = t.indptr.size - 1, t.n_annotators
    A, h = np.zeros((N + M, N + M)), np.zeros(N + M)
    z, item, who = t.y - t.y.mean(), t.item, t.annotator
    A[np.arange(N), np.arange(N)] = 1.0 / spread
    A[N + np.arange(M), N + np.arange(M)] = 1.0 / bias_variance
    for i in range(t.y.size):
        p, row, column = 1.0 / noise[who[i]], item[i], N + int(who[i])
        A[row, row] += p
        A[column, column] += p
        A[row, column] += p
        A[column, row] += p
        h[row] += p * z[i]
        h[column] += p * z[i]
    return np.asarray(np.linalg.solve(A, h)[:N] + t.y.mean())


def test_normal_answers_agree_with_a_dense_solution() -> None:
    """With normal noise and many answers, values are those of the best linear prediction for the true variances."""
    crowd = simulate_numeric(
        400, 12, labels_per_item=6, scale=1e-9, noise=(6.0, 6.0), freedom=500.0, bias=5.0, spread=15.0, seed=2
    )
    t = table_of(crowd)
    expected = gaussian_reference(t, 25.0, np.full(12, 36.0), 225.0)
    found = fitted(t, ADDITIVE).value
    # hyperparameters are estimated, and the crowd's mean bias is not in the data: a sixth of the error of a value
    error = float(np.sqrt(np.mean((expected - crowd.truth) ** 2)))
    assert np.abs((found - found.mean()) - (expected - expected.mean())).max() < 0.5 * error
    assert np.corrcoef(found, expected)[0, 1] > 0.999


@pytest.mark.parametrize(("factor", "shift"), [(2.5, -7.0), (-0.01, 1000.0)])
def test_an_affine_map_of_the_answers_maps_the_values(factor: float, shift: float) -> None:
    crowd = simulate_numeric(120, 10, slips=0.0, seed=1)
    t = table_of(crowd)
    mapped = Table(t.indptr, t.annotator, factor * t.y + shift, t.n_annotators)
    one, other = (average_members(each, max_iter=300, tol=1e-6) for each in (t, mapped))
    assert other.value == pytest.approx(factor * one.value + shift, rel=1e-6, abs=1e-6 * abs(factor) * float(t.y.std()))
    assert list(other.weights.values()) == pytest.approx(list(one.weights.values()), abs=1e-6)


@pytest.mark.parametrize("labels_per_item", [5, 2])
def test_a_single_slip_does_not_decide(labels_per_item: int) -> None:
    crowd = simulate_numeric(200, 12, labels_per_item=labels_per_item, noise=(4.0, 6.0), seed=4)
    t = table_of(crowd)
    y = t.y.copy()
    y[6] *= 100.0
    dirty = Table(t.indptr, t.annotator, y, t.n_annotators)
    slips = find_slips(dirty)
    assert np.flatnonzero(slips.slip).tolist() == [6]
    assert slips.factor[6] == (100.0 if labels_per_item > 2 else 0.0)
    one, other = (average_members(each, max_iter=500, tol=1e-4) for each in (t, dirty.select(~slips.slip)))
    error = np.sqrt(np.mean((one.value - crowd.truth) ** 2))
    assert np.abs(one.value - other.value).max() < 1.5 * error


def test_heavy_tails_limit_what_an_outlier_moves() -> None:
    crowd = simulate_numeric(300, 12, labels_per_item=5, freedom=4.0, noise=(5.0, 8.0), seed=0)
    t = table_of(crowd)

    def moved(freedom: float, at: int) -> float:
        y = t.y.copy()
        y[at] += 60.0
        shape = ADDITIVE._replace(ease=0.0, freedom=freedom)
        one, other = (fitted(Table(t.indptr, t.annotator, each, t.n_annotators), shape, tol=1e-4) for each in (t.y, y))
        return float(abs(one.value - other.value)[t.item[at]])

    robust, normal = (np.mean([moved(freedom, at) for at in range(0, 60, 10)]) for freedom in (4.0, 100.0))
    assert robust < 0.8 * normal < 0.8 * 60.0 / 5.0


def test_an_annotator_who_uses_another_unit_is_found() -> None:
    crowd = simulate_numeric(100, 5, labels_per_item=5, noise=(1.0, 3.0), bias=1.0, scale=0.05, seed=6)
    t = table_of(crowd)
    wrong = t.annotator == 2
    slips = find_slips(Table(t.indptr, t.annotator, np.where(wrong, t.y / 100.0, t.y), t.n_annotators))
    assert not slips.slip[~wrong].any()
    assert slips.slip[wrong].mean() >= 0.98  # but where the value itself is small
    assert set(slips.factor[wrong]) <= {0.0, 0.01}
    assert (slips.factor[wrong] == 0.01).mean() > 0.9


def test_half_of_the_answers_to_an_item_are_never_slips() -> None:
    y = np.array([1.0, 1.1, 500.0, 510.0] + [1.0, 1.2, 0.9, 1.1] * 30)
    t = Table(np.arange(0, y.size + 1, 4), np.tile(np.arange(4), y.size // 4), y, 4)
    assert not find_slips(t).slip.any()


def test_medians() -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([3, 0, 1, 4, 2, 5])
    t = Table(
        np.concatenate([[0], np.cumsum(sizes)]), np.zeros(15, int), np.round(rng.normal(size=15), 1), 1
    )  # rounded: there are ties
    parts = np.split(t.y, t.indptr[1:-1])
    expected = [np.median(part) if part.size else np.nan for part in parts]
    assert item_medians(t, t.y) == pytest.approx(expected, nan_ok=True)
    without = [np.median(np.delete(p, i)) if p.size > 1 else np.nan for p in parts for i in range(p.size)]
    assert medians_without(t) == pytest.approx(without, nan_ok=True)


def test_left_out_values_do_not_use_the_answer() -> None:
    crowd = simulate_numeric(80, 8, labels_per_item=4, seed=8)
    t = table_of(crowd)
    fit = fitted(t)
    moved = fit.left_out - np.repeat(fit.value, 4)
    residual = t.y - np.repeat(fit.value, 4)
    # leaving an answer out moves the value away from it
    assert np.corrcoef(moved, residual)[0, 1] < -0.5


def test_known_values_teach_how_the_crowd_errs() -> None:
    rng = np.random.default_rng(1)
    value = rng.normal(40.0, 10.0, 400)
    truth = 12.0 + 1.3 * (value - 40.0) + 40.0 + rng.normal(0.0, 3.0, 400)
    known = np.where(np.arange(400) < 200, truth, np.nan)
    found = learn_correction(value, np.full(400, 3.0), known, 20.0)
    assert found(np.array([40.0, 60.0])) == pytest.approx([52.0, 78.0], abs=1.5)
    assert found.back(found(value)) == pytest.approx(value)
    assert found.error == pytest.approx(1.0, abs=0.3)
    few = learn_correction(value, np.full(400, 3.0), np.where(np.arange(400) < 1, value + 1.0, np.nan), 20.0)
    assert abs(few.bias) < 1.0  # one value near the crowd's changes little
    assert abs(few.scale - 1.0) < 0.1


def test_known_values_do_not_hurt_a_crowd_that_does_not_err_as_a_whole() -> None:
    """Least squares would follow the rare large values and move all others away from zero."""
    rng = np.random.default_rng(4)
    worse = []
    for _ in range(10):
        truth = np.where(rng.random(300) < 0.8, 0.0, rng.exponential(30.0, 300))
        value = truth + rng.exponential(8.0, 300) * rng.choice([0.0, 1.0], 300)
        known = np.where(np.arange(300) < 30, truth, np.nan)
        found = learn_correction(value, np.full(300, 8.0), known, 10.0)
        rest = slice(30, None)
        worse.append(np.abs(found(value) - truth)[rest].mean() / np.abs(value - truth)[rest].mean())
    assert np.mean(worse) < 1.03  # 1.12 by least squares alone
    assert np.median(worse) == 1.0
