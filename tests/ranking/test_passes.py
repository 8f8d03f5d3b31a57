"""The passes over comparisons against the formulas written out."""

from __future__ import annotations

from typing import Any

import choix
import numpy as np
import pytest

import consilience as cs
from consilience.kernels._arrays import Floats
from consilience.ranking.comparisons import Comparisons, from_frame

TIES = 0.8


@pytest.fixture(scope="module")
def data() -> Comparisons:
    drawn = cs.datasets.simulate_comparisons(6, 3, 60, ties=TIES, position=0.4, length=0.5, seed=3)
    return from_frame(drawn.comparisons)


@pytest.fixture(scope="module")
def parameters(data: Comparisons) -> tuple[Floats, Floats, Floats, Floats]:
    rng = np.random.default_rng(0)
    judges = rng.normal([1, 0.3, 0.2, -0.4], 0.4, (data.n_judges, 4))
    return rng.normal(size=data.n_items), judges, rng.uniform(0, 0.5, data.n_items), rng.uniform(0, 0.3, data.n_judges)


def log_likelihood(data: Comparisons, s: Floats, u: Floats, a: Floats, b: Floats) -> float:
    """Compute the mean over η ± √v, comparison by comparison."""
    total = 0.0
    for i, j, m, d, y, x in zip(
        data.first, data.second, data.judge, data.side, data.outcome, data.length, strict=True
    ):  # fmt: skip
        eta = u[m, 0] * (s[i] - s[j]) + u[m, 1] * d + u[m, 2] * x
        v = u[m, 0] ** 2 * (a[i] + a[j]) + b[m] * (s[i] - s[j]) ** 2
        for at in (eta - np.sqrt(v), eta + np.sqrt(v)):
            # linear in η, so that the expectation of the first term is its value at the mean
            weights = {1: at / 2, -1: -at / 2, 0: u[m, 3]}
            total += 0.5 * (weights[int(y)] - np.log(sum(np.exp(w) for w in weights.values())))
    return total


def derivative(function: Any, x: Floats, step: float = 1e-5) -> Floats:
    made = np.zeros(x.shape)
    for at in np.ndindex(*x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * step
            ends.append(function(moved))
        made[at] = (ends[0] - ends[1]) / (2 * step)
    return made


def test_the_likelihood_and_its_slopes(data: Comparisons, parameters: Any) -> None:
    s, u, a, b = parameters
    found = data.passes.sweep(s, u, a, b, ties=True)
    assert found.log_likelihood == pytest.approx(log_likelihood(data, s, u, a, b), rel=1e-12)
    by_score = derivative(lambda moved: log_likelihood(data, moved, u, a, b), s)
    by_judge = derivative(lambda moved: log_likelihood(data, s, moved, a, b), u)
    np.testing.assert_allclose(found.by_score, by_score, atol=1e-7)
    np.testing.assert_allclose(found.by_judge, by_judge, atol=1e-7)


def dense_information(data: Comparisons, s: Floats, u: Floats, weights: Floats) -> Floats:
    """Sum Jᵀ W J over comparisons; parameters are scores, then four of each judge."""
    n = data.n_items + 4 * data.n_judges
    H = np.zeros((n, n))
    for c in range(data.n_comparisons):
        i, j, m = data.first[c], data.second[c], data.judge[c]
        J = np.zeros((2, n))
        J[0, i], J[0, j] = u[m, 0], -u[m, 0]
        at = data.n_items + 4 * m
        J[0, at : at + 3] = s[i] - s[j], data.side[c], data.length[c]
        J[1, at + 3] = 1.0
        v, cov, t = weights[c]
        H += J.T @ np.array([[v, cov], [cov, t]]) @ J
    return H


def test_products_with_the_information(data: Comparisons, parameters: Any) -> None:
    s, u, a, b = parameters
    found = data.passes.sweep(s, u, a, b, ties=True)
    H = dense_information(data, s, u, found.weights)
    x = np.random.default_rng(1).normal(size=(H.shape[0], 3))
    z, d = data.passes.multiply(s, u, found.weights, x[: data.n_items], x[data.n_items :].reshape(data.n_judges, 4, 3))
    np.testing.assert_allclose(np.concatenate([z, d.reshape(-1, 3)]), H @ x, atol=1e-10)
    np.testing.assert_allclose(found.information, np.diagonal(H)[: data.n_items])
    for m in range(data.n_judges):
        at = data.n_items + 4 * m
        np.testing.assert_allclose(found.judge_information[m], H[at : at + 4, at : at + 4])


def test_noise_has_the_information_as_covariance(data: Comparisons, parameters: Any) -> None:
    s, u, a, b = parameters
    weights = data.passes.sweep(s, u, a, b, ties=True).weights
    H = dense_information(data, s, u, weights)
    drawn = []
    for seed in range(500):
        z, d = data.passes.noise(s, u, weights, 8, 1000 * seed)
        drawn.append(np.concatenate([z, d.reshape(-1, 8)]))
    sample = np.concatenate(drawn, axis=1)
    error = (sample @ sample.T) / sample.shape[1] - H
    scale = np.sqrt(np.outer(np.diagonal(H), np.diagonal(H)))
    # 4000 draws: a standard error of at most √(2 / 4000) = 0.022 of the scale
    assert np.abs(error / scale).max() < 0.1


def test_the_gradient_is_zero_at_the_optimum_of_choix() -> None:
    drawn = cs.datasets.simulate_comparisons(12, 1, 400, reliability_spread=0.0, seed=5).comparisons
    data = from_frame(drawn)
    code = {name: n for n, name in enumerate(data.item_ids)}
    rows = [(code[r["left"]], code[r["right"]], r["winner"]) for r in drawn.to_pylist()]
    wins = [(one, two) if winner == "left" else (two, one) for one, two, winner in rows]
    best = choix.opt_pairwise(12, wins, alpha=0.25, tol=1e-10)  # its penalty is α ‖s‖², with the slope 2 α s
    average = np.array([[1.0, 0.0, 0.0, 0.0]])
    found = data.passes.sweep(best, average, np.zeros(12), np.zeros(1), ties=False)
    np.testing.assert_allclose(found.by_score - 0.5 * best, 0.0, atol=1e-4)
    assert np.abs(found.by_score).max() > 0.1


def test_the_cut_into_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = cs.datasets.simulate_comparisons(30, 4, 3000, ties=0.5, seed=1).comparisons
    rng = np.random.default_rng(0)
    s, u = rng.normal(size=30), rng.normal(1, 0.2, (4, 4))
    whole = from_frame(drawn).passes.sweep(s, u, np.zeros(30), np.zeros(4), ties=True)
    monkeypatch.setattr("consilience.kernels.comparisons._PER_BLOCK", 100)
    data = from_frame(drawn)
    assert len(data.passes._parts) > 1
    parts = data.passes.sweep(s, u, np.zeros(30), np.zeros(4), ties=True)
    for one, two in zip(whole, parts, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(two), rtol=1e-10, atol=1e-10)
