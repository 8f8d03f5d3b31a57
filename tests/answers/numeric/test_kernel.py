"""Kernel densities: annotators that fit no parametric family are recovered; too few answers are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import gaussian_kde

import consilience as cs
from consilience.answers.numeric.fit import Table
from consilience.answers.numeric.kernel import _Person
from consilience.exceptions import MethodError, ParameterError
from consilience.kernels._arrays import Floats

pytestmark = pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")


def ensemble(kind: str, seed: int, N: int = 800, M: int = 6) -> tuple[Floats, Floats]:
    """Return true values and answers (N, M) of regressors that score every item."""
    rng = np.random.default_rng(seed)
    t = rng.normal(50.0, 10.0, N)
    made = []
    for _ in range(M):
        e = rng.normal(0.0, 10.0, N)
        if kind == "two modes":
            made.append(t + 15.0 * rng.choice([-1.0, 1.0], N) + 0.15 * e)
        elif kind == "skewed":
            made.append(t + rng.exponential(12.0, N) - 12.0)
        elif kind == "the same for half":
            made.append(np.where(rng.random(N) < 0.5, 50.0, t + 0.3 * e))
        else:
            made.append(t + 0.7 * e)
    return t, np.stack(made, axis=1)


def aligned(value: Floats, truth: Floats) -> float:
    """Return the mean absolute error up to an affine map: answers do not show where a whole crowd is."""
    return float(np.abs((value - value.mean()) / value.std() * truth.std() + truth.mean() - truth).mean())


@pytest.mark.parametrize(("kind", "share"), [("two modes", 0.5), ("skewed", 0.8), ("the same for half", 0.9)])
def test_answers_of_no_parametric_family(kind: str, share: float) -> None:
    truth, answers = ensemble(kind, seed=1)
    usual: Any = cs.aggregate(answers, "numeric")
    kernels: Any = cs.aggregate(answers, "kernel-density")
    assert aligned(kernels.value, truth) < share * aligned(usual.value, truth)
    assert aligned(kernels.value, truth) < share * aligned(answers.mean(axis=1), truth)
    assert kernels.run["method"] == "kernel-density"
    assert kernels.value.mean() == pytest.approx(usual.value.mean(), abs=0.2)
    assert (kernels.low <= kernels.value).all()
    assert (kernels.value <= kernels.high).all()


def test_normal_noise_costs_little() -> None:
    truth, answers = ensemble("normal", seed=2)
    usual, kernels = (cs.aggregate(answers, name) for name in ("numeric", "kernel-density"))
    assert aligned(kernels.value, truth) < 1.2 * aligned(usual.value, truth)  # type: ignore[attr-defined]


def test_known_values_are_kept_and_affine_maps_change_nothing() -> None:
    truth, answers = ensemble("two modes", seed=3, N=220)
    gold = {n: float(truth[n]) for n in range(40)}
    taught: Any = cs.aggregate(answers, "kernel-density", gold=gold)
    assert taught.value[:40] == pytest.approx(truth[:40])
    plain: Any = cs.aggregate(answers, "kernel-density")
    mapped: Any = cs.aggregate(3.0 * answers - 20.0, "kernel-density")
    assert mapped.value == pytest.approx(3.0 * plain.value - 20.0, rel=1e-6, abs=1e-3)


def test_density_is_the_kernel_estimate_of_the_other_answers() -> None:
    """(5.1), with one place: the density of an answer is scipy's estimate from the others."""
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(-3.0, 0.5, 150), rng.normal(3.0, 1.0, 150)])
    table = Table(np.arange(301), np.zeros(300, np.uint32), y, 1)
    person = _Person(table, np.arange(300))
    person.width = 0.2
    found = person.densities(np.ones((300, 1)))[:, 0]
    for n in (0, 77, 200):
        rest = np.delete(y, n)
        expected = gaussian_kde(rest, bw_method=0.2 * y.std() / rest.std(ddof=1))(y[n])[0]
        assert found[n] == pytest.approx(expected, rel=0.05, abs=0.003)


def test_too_few_answers_are_refused() -> None:
    _, answers = ensemble("normal", seed=0, N=250)
    answers[120:, 4] = np.nan
    with pytest.raises(MethodError, match=r"at least 200 answers of each.*fewer of 4 \(120\); leave them out"):
        cs.aggregate(answers, "kernel-density")
    with pytest.raises(MethodError, match="at least three annotators"):
        cs.aggregate(answers[:, :2], "kernel-density")
    with pytest.raises(ParameterError, match="'numeric' or 'kernel-density', not 'ds-em'"):
        cs.aggregate(answers, "ds-em", answers="numeric")
