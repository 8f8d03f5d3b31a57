"""Conjugate steps: what they rest on, checked by differences; what they do, checked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.engine.passes import InMemory
from consilience.fitting import conjugate
from consilience.fitting.conjugate import Ascent, Before, Step
from consilience.fitting.em import ConfusionStep, Parameters, _Model, run_em
from consilience.fitting.fit import vote_start
from consilience.fitting.ledger import Ledger, Stop
from consilience.kernels._arrays import Floats
from consilience.kernels.em import Statistics

CROWD = cs.simulate(400, 5, 3, labels_per_item=3, seed=2).annotations


def ledger_of(a: cs.Annotations, step: Any = None, **options: Any) -> Ledger[Parameters, Statistics]:
    passes, step = InMemory(a), step or ConfusionStep()
    options = {"max_iter": 1000, "tol": 0.0, "callback": None, **options}
    return Ledger(_Model(passes, step), vote_start(a, step), labels=a.n_labels, **options)


def flat(at: Parameters) -> Floats:
    return np.concatenate([at.prior, at.confusions.ravel()])


def roots(at: Parameters) -> Floats:
    return np.sqrt(flat(at))


def weights(here: Step) -> Floats:
    labels = np.einsum("mik->mk", here.sums.counts)[:, None, :]
    return np.concatenate(
        [
            np.full(here.at.prior.size, here.sums.class_counts.sum()),
            np.broadcast_to(labels, here.at.confusions.shape).ravel(),
        ]
    )


@pytest.fixture(params=["numpy", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take this path however few labels there are."""
    monkeypatch.setattr(conjugate, "SMALL", 1 << 40 if request.param == "numpy" else 0)


def test_in_roots_the_jacobian_of_em_is_symmetric() -> None:
    """J by differences at the maximum: W J = Jᵀ W, eigenvalues from 0 to below 1, and r = -(I - J)(x - x*)."""
    a, step = CROWD, ConfusionStep(0.5)
    best = run_em(a, vote_start(a, step), step, tol=1e-15, max_iter=20_000, accelerate=False).parameters
    passes = InMemory(a)
    sums = passes.sweep(*best)
    K, M = best.prior.size, best.confusions.shape[0]
    # labels behind each probability, the pseudo-labels of the prior with them
    behind = np.einsum("mik->mk", sums.counts) + K * 0.5
    w = np.concatenate([np.full(K, 1.0 * a.n_items), np.repeat(behind[:, None, :], K, axis=1).ravel()])

    def em(x: Floats) -> Floats:
        at = Parameters(x[:K] ** 2, (x[K:] ** 2).reshape(M, K, K))
        return roots(step(passes.sweep(*at)))

    at, h = roots(best), 1e-5
    np.testing.assert_allclose(em(at), at, atol=1e-7)
    J = np.empty((at.size, at.size))
    for i in range(at.size):
        d = np.zeros(at.size)
        d[i] = h
        # columns need not sum to one for the E-step; a common factor of a class changes nothing but its prior
        J[:, i] = (em(at + d) - em(at - d)) / (2 * h)
    # along the simplex, where x stays on its sphere
    tangents = np.linalg.svd(np.vstack([_sphere(at, K, M)]))[2][1 + M * K :]
    S = tangents @ (w[:, None] * J) @ tangents.T
    np.testing.assert_allclose(S, S.T, atol=2e-4 * np.abs(S).max())
    metric = tangents @ (w[:, None] * tangents.T)
    eigenvalues = np.sort(np.linalg.eigvals(np.linalg.solve(metric, S)).real)
    assert eigenvalues[0] > -1e-4
    assert 0.1 < eigenvalues[-1] < 1.0


def _sphere(x: Floats, K: int, M: int) -> Floats:
    """The normals of the spheres on which the roots of a prior and of the columns of confusions lie."""
    normals = np.zeros((1 + M * K, x.size))
    normals[0, :K] = x[:K]
    cells = np.arange(K, x.size).reshape(M, K, K)
    for m in range(M):
        for k in range(K):
            normals[1 + m * K + k, cells[m, :, k]] = x[cells[m, :, k]]
    return normals


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("cap", [1.5, 1e9])
def test_a_step_is_the_equation(cap: float) -> None:
    ledger = ledger_of(CROWD)
    ascent = Ascent(ledger, cap=cap)
    one = ledger(ledger.latest)
    ascent.arrive(one)
    two = ascent.step()  # there is nothing before it: an EM step
    np.testing.assert_array_equal(flat(two.at), flat(one.after))
    ascent.arrive(two)
    three = ascent.step()
    w, (x0, x) = weights(two), (roots(one.at), roots(two.at))
    r0, r = roots(one.after) - x0, roots(two.after) - x
    s, y = x - x0, r - r0
    d = r - (w @ (s * r)) / (w @ (s * y)) * (s + y)
    length = float(np.sqrt((w @ d**2) / (w @ r**2)))
    assert 1.5 < length < 1e9
    x = np.maximum(x + d * min(1.0, cap / length), 0.25 * x) ** 2
    prior, confusions = x[:3] / x[:3].sum(), x[3:].reshape(-1, 3, 3)
    expected = np.concatenate([prior, (confusions / confusions.sum(axis=1, keepdims=True)).ravel()])
    np.testing.assert_allclose(flat(three.at), expected, atol=1e-11)
    assert three.objective > two.objective
    assert ascent.cap == (2 * cap if cap < length else cap)
    assert ascent.promised == pytest.approx(2 * (w @ r**2) / abs(two.objective), rel=1e-9)


@pytest.mark.usefixtures("way")
def test_a_promise_is_what_an_em_step_gains_at_least() -> None:
    ledger = ledger_of(CROWD)
    ascent, here = Ascent(ledger), ledger(ledger.latest)
    for _ in range(12):
        ascent.arrive(here)
        there = ledger(here.after, here)
        gain = (there.objective - here.objective) / abs(here.objective)
        assert 0.9 * ascent.promised <= gain
        here = there
    # near the maximum it is between once and twice as much
    assert gain <= 2.1 * ascent.promised


def test_a_step_that_leads_down_is_dropped_for_the_em_step(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_of(CROWD)
    ascent, one = Ascent(ledger), ledger(ledger.latest)
    ascent.arrive(one)
    two = ascent.step()
    ascent.arrive(two)
    nowhere = Parameters(np.full(3, 1 / 3), np.full((5, 3, 3), 1 / 3))
    monkeypatch.setattr(Ascent, "_landed", lambda *_: nowhere)
    three = ascent.step()
    np.testing.assert_array_equal(flat(three.at), flat(two.after))
    assert ascent.cap == 2.0
    # the pass counts, and the history has the best so far for it
    assert len(ledger.history) == 4
    assert ledger.history[2] == ledger.history[1] == two.objective
    assert ledger.history[3] == three.objective > two.objective
    for _ in range(3):
        ascent.arrive(three)
        three = ascent.step()
    assert ascent.cap == 1.0


def test_where_the_likelihood_does_not_bend_the_em_step_is_taken() -> None:
    """Residuals that grow along the way."""
    ledger = ledger_of(CROWD)
    one = ledger(ledger.latest)
    two = ledger(one.after, one)
    still = Before(one.at, one.at)  # as if EM had not moved there
    ascent = Ascent(ledger, still)
    ascent.arrive(two)
    assert ascent._products.sy > 0
    np.testing.assert_array_equal(flat(ascent.step().at), flat(two.after))


def test_convergence_is_seen_by_an_em_step() -> None:
    ledger = ledger_of(CROWD, tol=1e-6)
    ascent = Ascent(ledger)

    def climb() -> None:
        here = ledger(ledger.latest)
        for _ in range(200):
            ascent.arrive(here)
            here = ascent.step()

    with pytest.raises(Stop):
        climb()
    assert ledger.converged
    assert ascent.is_near()
    assert ascent.before is not None
    np.testing.assert_array_equal(flat(ledger.best), flat(ascent.before.after))
    assert 0 <= ledger.history[-1] - ledger.history[-2] <= 1e-6 * abs(ledger.history[-1])


@pytest.mark.usefixtures("way")
def test_an_ascent_goes_on_from_the_point_before() -> None:
    ledger = ledger_of(CROWD)
    ascent, here = Ascent(ledger), ledger(ledger.latest)
    for _ in range(3):
        ascent.arrive(here)
        before = ascent.before
        here = ascent.step()
    again = Ascent(ledger, before, ascent.cap)
    ascent.arrive(here)
    again.arrive(here)
    assert again.before is not None
    np.testing.assert_array_equal(flat(again.step().at), flat(ascent.step().at))
