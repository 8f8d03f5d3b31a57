"""EM of the CPD model: the step against its definition, the objective that rises, threads that do not matter."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.fitting.em import Progress
from consilience.kernels._arrays import Codes, Floats
from consilience.kernels.cpd import TablePass
from consilience.pmf.cpd import CPD, split_factors
from consilience.pmf.em import run_cpd_em
from consilience.pmf.pairs import category_shares


def drawn(sizes: tuple[int, ...], F: int, S: int, seed: int, missing: float = 0.3) -> tuple[CPD, Codes]:
    rng = np.random.default_rng(seed)
    model = CPD(rng.dirichlet(np.full(F, 3.0)), tuple(rng.dirichlet(np.full(size, 0.7), F).T for size in sizes))
    codes = model.sample(S, rng)
    codes[rng.random(codes.shape) < missing] = -1
    return model, codes


def by_hand(model: CPD, codes: Codes) -> tuple[Floats, Floats, float]:
    """Counts, weights and log-likelihood, one row at a time from (21) and (22)."""
    counts, weights, total = np.zeros_like(model.stacked), np.zeros(model.rank), 0.0
    offsets = np.concatenate([[0], np.cumsum(model.sizes)])
    for row in codes:
        joint = model.weights.copy()
        for n, code in enumerate(row):
            if code >= 0:
                joint = joint * model.factors[n][code]
        total += float(np.log(joint.sum()))
        q = joint / joint.sum()
        weights += q
        for n, code in enumerate(row):
            if code >= 0:
                counts[offsets[n] + code] += q
    return counts, weights, total


@pytest.mark.parametrize("F", [1, 2, 3, 10, 16, 17, 33])
@pytest.mark.parametrize("sizes", [(2, 3, 4, 2, 7, 300), (3,) * 30])
def test_a_pass_against_the_definition(F: int, sizes: tuple[int, ...]) -> None:
    model, codes = drawn(sizes, F, 200, F)
    counts, weights, total = by_hand(model, codes)
    statistics = TablePass(codes, sizes)(model.weights, model.stacked)
    assert np.allclose(statistics.counts, counts, atol=1e-9)
    assert np.allclose(statistics.weights, weights, atol=1e-9)
    assert np.isclose(statistics.log_likelihood, total, rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
@pytest.mark.parametrize("accelerate", [False, True])
def test_objective_never_falls(smoothing: float, accelerate: bool) -> None:
    model, codes = drawn((4, 5, 3, 6), 4, 2000, 1)
    start = drawn((4, 5, 3, 6), 4, 1, 7)[0]
    fit = run_cpd_em(
        codes,
        model.sizes,
        start.weights,
        start.stacked,
        smoothing=smoothing,
        accelerate=accelerate,
        max_iter=300,
        tol=0,
    )
    rises = np.diff(fit.history)
    assert len(fit.history) == 300
    assert not fit.converged
    assert rises.min() > -1e-8
    assert fit.history[-1] > fit.history[0] + 100
    # the likelihood that is reported is that of the parameters that are given back
    reached = CPD(fit.at.weights, split_factors(fit.at.stacked, model.sizes)).log_prob(codes).sum()
    assert np.isclose(reached, fit.log_likelihood, rtol=1e-10)
    penalty = smoothing * float(
        (category_shares(codes, model.sizes)[:, None] * np.log(fit.at.stacked.clip(1e-12))).sum()
    )
    assert np.isclose(max(fit.history), reached + penalty, rtol=1e-9)


def test_acceleration_saves_passes_and_ends_at_a_maximum() -> None:
    model, codes = drawn((6,) * 6, 3, 3000, 2)
    start = drawn((6,) * 6, 3, 1, 8)[0]
    fits = [
        run_cpd_em(codes, model.sizes, start.weights, start.stacked, accelerate=fast, tol=1e-10, max_iter=5000)
        for fast in (False, True)
    ]
    assert all(fit.converged for fit in fits)
    assert len(fits[1].history) < 0.6 * len(fits[0].history)
    assert fits[1].log_likelihood > model.log_prob(codes).sum()


def test_with_complete_data_of_one_component_the_frequencies_come_out() -> None:
    _, codes = drawn((3, 4), 2, 500, 3, 0.0)
    fit = run_cpd_em(codes, (3, 4), np.ones(1), np.concatenate([np.full((3, 1), 1 / 3), np.full((4, 1), 0.25)]))
    expected = np.concatenate([np.bincount(codes[:, n], minlength=size) / 500 for n, size in enumerate((3, 4))])
    assert np.allclose(fit.at.stacked[:, 0], expected, atol=1e-12)
    assert fit.converged


def test_threads_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    model, codes = drawn((5,) * 8, 4, 400_000, 4)
    assert TablePass(codes, model.sizes).share(4).n > 1
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("CONSILIENCE_THREADS", threads)
        fit = run_cpd_em(codes, model.sizes, model.weights, model.stacked, max_iter=6)
        found.append((fit.at.stacked.tobytes(), fit.at.weights.tobytes(), fit.log_likelihood))
    assert found[0] == found[1]


def test_callback_ends_the_fit() -> None:
    model, codes = drawn((3, 3, 3), 2, 300, 5)
    told: list[Progress] = []

    def stop(progress: Progress) -> bool:
        told.append(progress)
        return progress.iteration == 4

    fit = run_cpd_em(codes, model.sizes, model.weights, model.stacked, tol=0, callback=stop)
    assert len(fit.history) == 4
    assert not fit.converged
    assert [progress.objective for progress in told] == fit.history
