"""HALS, ANLS, MU, CD and LDA of the benchmarks: objectives fall, and results match scikit-learn's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks.nmf_peers import NonnegativeFit, anls, hals, lda_topics, nonnegative_least_squares, sklearn_nmf
from benchmarks.topics import perturbed, simulate_topics
from scipy.optimize import nnls
from sklearn.decomposition import NMF, LatentDirichletAllocation

from consilience.exceptions import ConvergenceWarning, DataError, ParameterError
from consilience.kernels._arrays import Floats
from consilience.metrics import correlation_error

METHODS = pytest.mark.parametrize("method", [hals, anls])


def problem(seed: int, W: int = 20, D: int = 4, n: int = 50) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    Y = rng.gamma(0.5, size=(W, D)) @ rng.gamma(0.5, size=(D, n)) + 0.05 * rng.random((W, n))
    return Y, rng.random((W, D)), rng.random((D, n))


@METHODS
@pytest.mark.parametrize("seed", range(5))
def test_the_objective_falls_and_is_the_distance(method: Callable[..., NonnegativeFit], seed: int) -> None:
    Y, A0, X0 = problem(seed)
    found = method(Y, A0, X0, max_iter=60, tol=0)
    assert (np.diff(found.history) <= 1e-12 * np.vdot(Y, Y)).all()
    assert found.history[-1] == pytest.approx(0.5 * np.linalg.norm(Y - found.features @ found.weights) ** 2)
    assert (found.features >= 0).all()
    assert (found.weights >= 0).all()
    assert found.history[-1] < 0.05 * found.history[0]
    assert not found.converged


@METHODS
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_ends_where_coordinate_descent_does(method: Callable[..., NonnegativeFit]) -> None:
    """From the same start the best of five ends is as good as scikit-learn's best."""
    ours, theirs = [], []
    Y, _, _ = problem(7)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        A0, X0 = rng.random((20, 4)), rng.random((4, 50))
        ours.append(method(Y, A0, X0, max_iter=400, tol=1e-8).history[-1])
        model = NMF(4, init="custom", solver="cd", max_iter=2000, tol=1e-9)
        A = model.fit_transform(Y, W=A0.copy(), H=X0.copy())
        theirs.append(0.5 * np.linalg.norm(Y - A @ model.components_) ** 2)
    assert min(ours) == pytest.approx(min(theirs), rel=1e-3)


@METHODS
def test_convergence_is_what_met_the_tolerance(method: Callable[..., NonnegativeFit]) -> None:
    Y, A0, X0 = problem(3)
    found = method(Y, A0, X0, max_iter=5000, tol=1e-5)
    assert found.converged
    assert found.history[-2] - found.history[-1] <= 1e-5 * found.history[-2]
    assert found.n_iter == len(found.history)
    seen: list[int] = []

    def stop_at_three(i: int, A: Floats) -> bool:
        seen.append(i)
        return i == 3

    method(Y, A0, callback=stop_at_three)
    assert seen == [1, 2, 3]


@METHODS
def test_features_may_be_let_free(method: Callable[..., NonnegativeFit]) -> None:
    drawn = simulate_topics("NEG", 200, 4, 15, seed=1)
    A0 = perturbed(drawn.features, seed=1)
    free = method(drawn.data, A0, free_features=True, max_iter=100, tol=0)
    assert (free.features < 0).any()
    assert (np.diff(free.history) <= 1e-12 * np.vdot(drawn.data, drawn.data)).all()
    assert free.history[-1] < 1e-3 * method(drawn.data, A0, max_iter=100, tol=0).history[-1]


@METHODS
def test_columns_of_zeros_and_features_that_die(method: Callable[..., NonnegativeFit]) -> None:
    Y, A0, _ = problem(4)
    Y[:, 3], Y[5] = 0.0, 0.0
    A0[:, 2] = 0.0
    found = method(Y, A0, max_iter=20, tol=0)
    assert np.isfinite(found.features).all()
    assert np.isfinite(found.weights).all()
    np.testing.assert_allclose(found.features[5] @ found.weights, 0.0, atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["mu", "cd"])
def test_scikit_learns_solvers_start_where_they_are_told(solver: Any) -> None:
    drawn = simulate_topics("DIR", 300, 5, 30, seed=2)
    A0 = np.maximum(perturbed(drawn.features, seed=2), 0)
    X0 = np.random.default_rng(0).uniform(0.1, 1.0, (5, 300))
    # an entry of zero would stay zero under multiplication: such a start is lifted
    lifted = np.maximum(A0, 1e-6 * A0.max()) if solver == "mu" else A0
    for steps in (1, 5):
        theirs = NMF(5, init="custom", solver=solver, max_iter=steps, tol=0)
        expected = theirs.fit_transform(drawn.data, W=lifted.copy(), H=X0.copy())
        A, X = sklearn_nmf(drawn.data, A0, X0, solver=solver, max_iter=steps)
        np.testing.assert_allclose(A, expected, rtol=1e-12)
        np.testing.assert_allclose(X, theirs.components_, rtol=1e-12)
    more = sklearn_nmf(drawn.data, A0, solver=solver, max_iter=200)
    assert np.linalg.norm(drawn.data - more[0] @ more[1]) < np.linalg.norm(drawn.data - A @ X)


def test_topics_of_latent_dirichlet_allocation() -> None:
    """They are what scikit-learn gives, pass by pass; batches are parts of a pass."""
    drawn = simulate_topics("DIR", 300, 3, 30, seed=3)
    counts = np.random.default_rng(0).poisson(200 * drawn.data)
    topics = lda_topics(counts, 3, max_iter=5)
    np.testing.assert_allclose(topics.sum(axis=0), 1.0)
    model = LatentDirichletAllocation(3, learning_method="online", random_state=0)
    for _ in range(5):
        model.partial_fit(counts.T)
    assert correlation_error(topics, model.components_.T) < 1e-12
    # measured 0.009; 0.5 would be two topics at half a right angle
    assert correlation_error(topics, drawn.features) < 0.05
    seen: list[int] = []
    lda_topics(counts, 3, max_iter=2, batch_size=128, callback=lambda i, _: seen.append(i))
    assert seen == [1, 1, 1, 2, 2, 2]
    short = lda_topics(counts, 3, batch_size=128, callback=lambda i, _: True)
    np.testing.assert_array_equal(short, lda_topics(counts[:, :128], 3, max_iter=1))


@METHODS
def test_bad_input_is_refused(method: Callable[..., NonnegativeFit]) -> None:
    Y, A0, X0 = problem(0)
    with pytest.raises(DataError, match="finite"):
        method(np.full_like(Y, np.nan), A0)
    with pytest.raises(ParameterError, match="20 rows"):
        method(Y, A0[1:])
    with pytest.raises(ParameterError, match="X0"):
        method(Y, A0, X0[:, 1:])
    with pytest.raises(ParameterError, match="X0"):
        method(Y, A0, -X0)


@pytest.mark.parametrize("D", [1, 3, 12, 30])
def test_least_squares_are_scipys(D: int) -> None:
    rng = np.random.default_rng(D)
    B, C = rng.standard_normal((35, D)), rng.standard_normal((35, 40))
    ours = nonnegative_least_squares(B.T @ B, B.T @ C)
    for i in range(40):
        np.testing.assert_allclose(ours[:, i], nnls(B, C[:, i])[0], atol=1e-9)


def test_least_squares_meet_their_conditions_at_size() -> None:
    rng = np.random.default_rng(0)
    B, C = rng.random((200, 60)), rng.random((200, 500))
    G, t = B.T @ B, B.T @ C
    X = nonnegative_least_squares(G, t)
    dual = G @ X - t
    assert (X >= 0).all()
    assert dual.min() > -1e-8 * np.abs(t).max()
    assert np.abs(X * dual).max() < 1e-8 * np.abs(t).max()


def test_least_squares_of_dependent_and_empty_columns() -> None:
    B = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    X = nonnegative_least_squares(B.T @ B, B.T @ np.array([[2.0, -1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(B @ X, [[2.0, 0.0], [0.0, 0.0]], atol=1e-9)
    assert nonnegative_least_squares(np.eye(2), np.zeros((2, 0))).shape == (2, 0)
    assert (nonnegative_least_squares(np.eye(2), np.zeros((2, 3))) == 0).all()


def test_running_out_of_exchanges_warns() -> None:
    rng = np.random.default_rng(0)
    B, C = rng.standard_normal((30, 12)), rng.standard_normal((30, 40))
    with pytest.warns(ConvergenceWarning, match=r"of 40 columns .* after 1 exchanges"):
        nonnegative_least_squares(B.T @ B, B.T @ C, max_iter=1)
