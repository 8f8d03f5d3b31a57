"""Matching moments: exact ones give the model back, and each step is checked against another solver."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.optimize import minimize

from consilience.factor.alternating import simplex_least_squares
from consilience.factor.moment_matching import MomentProblem, Moments
from consilience.factor.simplex import project_to_simplex
from consilience.kernels._arrays import Floats


def model(M: int, K: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(4 * np.ones(K)), rng.dirichlet(np.ones(K), (M, K)).transpose(0, 2, 1)


def exact(
    prior: Floats, A: Floats, weigh: np.random.Generator | None = None, noise: float = 0.0
) -> tuple[Moments, Moments, Moments]:
    """The moments of a model from their definition, each weight one or drawn."""
    M = len(A)
    made = []
    for order, rule in ((1, "ak,k->a"), (2, "ak,bk,k->ab"), (3, "ak,bk,ck,k->abc")):
        who = np.array(list(combinations(range(M), order)))
        values = np.stack([np.einsum(rule, *(A[m] for m in row), prior) for row in who])
        weights = np.ones(len(who))
        if weigh is not None:
            values = np.maximum(values + noise * weigh.standard_normal(values.shape), 0.0)
            weights = weigh.uniform(0.0, 3.0, len(who))
        made.append(Moments(who, values, weights))
    return made[0], made[1], made[2]


def slow_objective(moments: tuple[Moments, ...], prior: Floats, A: Floats) -> float:
    """Eq. (3.25), one moment and one cell at a time."""
    total = 0.0
    for who, values, weights in moments:
        for row, value, weight in zip(who, values, weights, strict=True):
            for cell in np.ndindex(value.shape):
                mean = sum(
                    prior[k] * np.prod([A[m, i, k] for m, i in zip(row, cell, strict=True)]) for k in range(prior.size)
                )
                total += 0.5 * float(weight * (value[cell] - mean) ** 2)
    return total


def nearest(prior: Floats, A: Floats, found_prior: Floats, found: Floats) -> float:
    """The largest difference of any parameter, over the best order of the classes."""
    return min(
        float(max(np.abs(found_prior[list(o)] - prior).max(), np.abs(found[:, :, list(o)] - A).max()))
        for o in permutations(range(prior.size))
    )


# ---- the projection --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_projection_is_the_nearest_point_of_the_simplex(n: int) -> None:
    rng = np.random.default_rng(n)
    v = 2 * rng.standard_normal((200, n))
    x = project_to_simplex(v)
    assert x.min() >= 0
    np.testing.assert_allclose(x.sum(axis=1), 1.0, atol=1e-12)
    # no point of the simplex lies beyond: (v - x) · (y - x) ≤ 0 for every vertex y
    gap = (v - x)[:, None, :] @ (np.eye(n)[None] - x[:, None, :]).transpose(0, 2, 1)
    assert gap.max() <= 1e-12


def test_projection_runs_along_the_axis_that_is_asked() -> None:
    v = np.random.default_rng(0).standard_normal((4, 3, 5))
    for axis in (0, 1, 2, -1, -2):
        moved = np.moveaxis(project_to_simplex(np.moveaxis(v, axis, -1)), -1, axis)
        np.testing.assert_allclose(project_to_simplex(v, axis), moved, atol=1e-14)


# ---- one problem -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("axis", [1, -1])
def test_admm_finds_what_a_general_solver_finds(seed: int, axis: int) -> None:
    rng = np.random.default_rng(seed)
    K, rows = 3, 3 if axis == 1 else 1
    root = rng.standard_normal((5, K))
    C, B = root.T @ root, 2 * rng.standard_normal((rows, K))
    start = project_to_simplex(rng.random((rows, K)), 0 if axis == 1 else -1)
    made, _ = simplex_least_squares(C[None], B[None], start[None], np.zeros((1, rows, K)), axis=axis, iterations=20_000)

    def value(x: Floats) -> float:
        X = x.reshape(rows, K)
        return float(0.5 * np.trace(X @ C @ X.T) - np.trace(X @ B.T))

    sums = (lambda x: x.reshape(rows, K).sum(axis=0) - 1) if axis == 1 else (lambda x: x.sum() - 1)
    other = minimize(
        value,
        start.ravel(),
        method="SLSQP",
        bounds=[(0, 1)] * start.size,
        constraints={"type": "eq", "fun": sums},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert other.success
    # the term that holds the solution near the start moves it by a ten-thousandth
    assert value(made.ravel()) <= other.fun + 1e-3 * abs(other.fun)
    np.testing.assert_allclose(made.ravel(), other.x, atol=5e-3)


def test_no_step_is_worse_than_its_start() -> None:
    rng = np.random.default_rng(3)
    root = rng.standard_normal((200, 4, 4))
    C, B = root.transpose(0, 2, 1) @ root, rng.standard_normal((200, 4, 4))
    start = rng.dirichlet(np.ones(4), (200, 4)).transpose(0, 2, 1)
    dual = rng.standard_normal(start.shape)  # a bad one

    def value(X: Floats) -> Floats:
        cost: Floats = (0.5 * (X @ C) * X - X * B).sum(axis=(1, 2))
        return cost

    for iterations in (1, 2, 10):
        made, _ = simplex_least_squares(C, B, start, dual, axis=1, iterations=iterations)
        assert (value(made) <= value(start) + 1e-12).all()
        np.testing.assert_allclose(made.sum(axis=1), 1.0, atol=1e-12)


# ---- the whole -------------------------------------------------------------------------------------------


def test_the_objective_is_that_of_the_thesis() -> None:
    rng = np.random.default_rng(1)
    moments = exact(*model(5, 3, 0), weigh=rng, noise=0.1)
    problem = MomentProblem(*moments, 5, 3)
    for seed in range(3):
        prior, A = model(5, 3, 10 + seed)
        assert problem.objective(prior, A) == pytest.approx(slow_objective(moments, prior, A), rel=1e-10)


@pytest.mark.parametrize(("M", "K"), [(3, 2), (5, 2), (6, 3), (8, 4)])
def test_exact_moments_give_the_model_back(M: int, K: int) -> None:
    rng = np.random.default_rng(M)
    prior, A = model(M, K, M + K)
    A = 0.7 * np.eye(K) + 0.3 * A  # where columns are nearly alike, thousands of sweeps are needed
    near = 0.7 * A + 0.3 * rng.dirichlet(np.ones(K), (M, K)).transpose(0, 2, 1)
    problem = MomentProblem(*exact(prior, A), M, K)
    found = problem.solve(np.full(K, 1 / K), near, max_iter=1500, tol=1e-9)
    assert nearest(prior, A, found.prior, found.confusions) < 1e-4
    assert found.objective < 1e-10


def test_the_objective_never_rises_and_a_general_solver_gets_no_lower() -> None:
    M, K = 4, 2
    rng = np.random.default_rng(2)
    moments = exact(*model(M, K, 4), weigh=rng, noise=0.03)
    problem = MomentProblem(*moments, M, K)
    begin = model(M, K, 40)
    found = problem.solve(*begin, max_iter=3000, tol=1e-12)
    assert found.converged
    history = [problem.objective(*begin), *found.history]
    assert max(np.diff(history)) <= 1e-12

    def unpacked(x: Floats) -> tuple[Floats, Floats]:
        first, ups = x[0], x[1:].reshape(M, K)
        return np.array([first, 1 - first]), np.stack([ups, 1 - ups], axis=1)

    from_there = np.concatenate([found.prior[:1], found.confusions[:, 0, :].ravel()])
    other = minimize(lambda x: problem.objective(*unpacked(x)), from_there, bounds=[(0, 1)] * from_there.size)
    assert other.fun >= found.objective * (1 - 1e-4)


def test_annotators_that_share_nothing_are_solved_at_once_with_the_same_result() -> None:
    """Two crowds side by side, the prior held, are two problems: one joint run gives both runs' results."""
    K, prior = 2, np.array([0.4, 0.6])
    parts = [exact(prior, model(3, K, s)[1], np.random.default_rng(s), 0.02) for s in (1, 2)]
    starts = [model(3, K, 20 + s)[1] for s in (1, 2)]
    joint = [
        Moments(
            np.concatenate([one.who, two.who + 3]),
            np.concatenate([one.values, two.values]),
            np.concatenate([one.weights, two.weights]),
        )
        for one, two in zip(*parts, strict=True)
    ]
    problem = MomentProblem(joint[0], joint[1], joint[2], 6, K)
    both = problem.solve(prior, np.concatenate(starts), learn_prior=False, tol=0.0, max_iter=40)
    np.testing.assert_array_equal(both.prior, prior)
    for c in range(2):
        alone = MomentProblem(*parts[c], 3, K).solve(prior, starts[c], learn_prior=False, tol=0.0, max_iter=40)
        # several annotators share an ADMM run, which ends when all of them are done
        np.testing.assert_allclose(both.confusions[3 * c : 3 * c + 3], alone.confusions, atol=1e-3)


def test_a_callback_ends_the_sweeps() -> None:
    problem = MomentProblem(*exact(*model(4, 3, 0)), 4, 3)
    told: list[int] = []

    def tell(sweep: int, objective: float, change: float) -> bool:
        told.append(sweep)
        return sweep == 3

    found = problem.solve(*model(4, 3, 9), callback=tell)
    assert told == [1, 2, 3]
    assert not found.converged
