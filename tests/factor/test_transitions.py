"""The lagged-moment problem: exact moments give the chain back, its optimum is scipy's, and data brings it nearer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from consilience.data.ids import Ids
from consilience.datasets import SequenceSimulation, simulate_sequences
from consilience.exceptions import ConvergenceWarning, ParameterError
from consilience.factor import transitions as module
from consilience.factor.transitions import Weights, fit_transitions
from consilience.kernels._arrays import Floats
from consilience.moments.lagged import LaggedMoments, lagged_moments


def drawn(M: int, K: int, seed: int, tokens: int = 400, p: float = 0.6) -> SequenceSimulation:
    return simulate_sequences(tokens // 20, 20, M, K, label_probability=p, seed=seed)


def exact(confusions: Floats, joint: Floats) -> LaggedMoments:
    M, K, _ = confusions.shape
    who = np.argwhere(np.ones((M, M)))
    blocks = np.stack([confusions[m] @ joint @ confusions[j].T for m, j in who])
    return LaggedMoments(who, blocks, Ids.range(M), Ids.range(K))


def objective(moments: LaggedMoments, confusions: Floats, joint: Floats, weights: str) -> float:
    """Eq. (4.5), one pair at a time; weights sum to one."""
    terms = [
        (total if weights == "counts" else 1.0, float(((S - confusions[m] @ joint @ confusions[j].T) ** 2).sum()))
        for (m, j), S, total in zip(moments.who, moments.frequencies, moments.totals, strict=True)
    ]
    return sum(w * e for w, e in terms) / sum(w for w, _ in terms)


def error(found: Floats, true: Floats) -> float:
    """‖T - T̂‖₁, the norm of the thesis: the largest column of absolute differences."""
    return float(np.abs(found - true).sum(axis=0).max())


@pytest.mark.parametrize(("M", "K"), [(1, 2), (3, 2), (5, 4), (8, 9), (12, 20)])
def test_exact_moments_give_the_chain_back(M: int, K: int) -> None:
    chain = simulate_sequences(1, 2, M, K, seed=K)
    confusions = 0.5 * chain.model.confusions + 0.5 * np.eye(K)
    found = fit_transitions(exact(confusions, chain.transitions * chain.model.prior), confusions)
    assert found.converged
    np.testing.assert_allclose(found.transitions, chain.transitions, atol=1e-6)
    np.testing.assert_allclose(found.stationary, chain.model.prior, atol=1e-6)


@pytest.mark.parametrize("weights", ["counts", "equal"])
@pytest.mark.parametrize(("M", "K", "seed"), [(3, 2, 0), (4, 3, 1), (6, 3, 2), (5, 4, 3)])
def test_the_optimum_is_scipys(M: int, K: int, seed: int, weights: Weights) -> None:
    d = drawn(M, K, seed)
    moments, A = lagged_moments(d.annotations), d.model.confusions
    found = fit_transitions(moments, A, weights=weights)
    peer = minimize(
        lambda x: objective(moments, A, x.reshape(K, K), weights),
        np.full(K * K, 1 / K**2),
        method="SLSQP",
        bounds=[(0, 1)] * K**2,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    ours = objective(moments, A, found.joint, weights)
    assert ours <= peer.fun + 1e-10
    assert ours == pytest.approx(peer.fun, rel=1e-4)
    np.testing.assert_allclose(found.joint.ravel(), peer.x, atol=5e-3)


@pytest.mark.parametrize("K", [2, 4, 9, 16])
def test_it_meets_the_conditions_of_an_optimum(K: int) -> None:
    d = drawn(6, K, K, tokens=1000)
    moments, A = lagged_moments(d.annotations), d.model.confusions
    found = fit_transitions(moments, A)
    assert found.converged
    assert found.joint.min() >= 0
    assert found.joint.sum() == pytest.approx(1.0, abs=1e-12)
    assert (found.joint == 0).any() or K == 2  # the bounds matter, else the test is an easy one
    # the derivative along every entry, by differences of the objective itself: equal where the entry is above zero, and
    # nowhere smaller
    step = 1e-5
    slope = np.empty((K, K))
    for i, k in np.ndindex(K, K):
        ahead, back = found.joint.copy(), found.joint.copy()
        ahead[i, k] += step
        back[i, k] -= step
        slope[i, k] = (objective(moments, A, ahead, "counts") - objective(moments, A, back, "counts")) / (2 * step)
    level = slope[found.joint > 1e-9]
    assert np.ptp(level) < 1e-7
    assert slope.min() > level.min() - 1e-7


def test_as_products_it_is_the_same_as_by_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    d = drawn(6, 5, 1, tokens=1000)
    moments = lagged_moments(d.annotations)
    one = fit_transitions(moments, d.model.confusions)
    monkeypatch.setattr(module, "_EXPLICIT", 0)
    other = fit_transitions(moments, d.model.confusions)
    assert other.iterations > one.iterations  # nothing was solved for exactly on the way
    assert other.converged
    np.testing.assert_allclose(one.joint, other.joint, atol=1e-5)
    assert other.history[-1] == other.gap <= 1e-12 < other.history[0]


def test_the_error_falls_as_the_root_of_the_tokens() -> None:
    sizes = [1_000, 10_000, 100_000]
    errors = []
    for N in sizes:
        made = []
        for seed in range(6):
            d = simulate_sequences(N // 50, 50, 10, 4, seed=seed)
            found = fit_transitions(lagged_moments(d.annotations), d.model.confusions)
            made.append(error(found.transitions, d.transitions))
        errors.append(np.mean(made))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.65 < slope < -0.35
    assert errors[-1] < 0.05


def test_counts_as_weights_are_better_with_missing_labels() -> None:
    errors = {}
    weights: Weights
    for weights in ("counts", "equal"):
        made = []
        for seed in range(12):
            often = np.geomspace(0.02, 0.9, 10).tolist()
            d = simulate_sequences(200, 20, 10, 3, label_probability=often, seed=seed)
            found = fit_transitions(lagged_moments(d.annotations), d.model.confusions, weights=weights)
            made.append(error(found.transitions, d.transitions))
        errors[weights] = np.mean(made)
    assert errors["counts"] < 0.9 * errors["equal"]


def test_the_order_of_annotators_and_the_names_of_classes_do_not_matter() -> None:
    d = drawn(6, 4, 5)
    moments, A = lagged_moments(d.annotations), d.model.confusions
    first = fit_transitions(moments, A)
    rng = np.random.default_rng(0)
    m, k = rng.permutation(6), rng.permutation(4)
    who = np.argsort(m)[moments.who]
    order = np.lexsort(who.T[::-1])
    turned = LaggedMoments(who[order], moments.counts[order][:, k][:, :, k], moments.annotators, moments.classes)
    second = fit_transitions(turned, A[m][:, k][:, :, k])
    np.testing.assert_allclose(second.transitions, first.transitions[k][:, k], atol=1e-6)


def test_a_class_without_mass_is_followed_by_the_prior() -> None:
    T = np.array([[0.7, 0.2, 1 / 3], [0.3, 0.8, 1 / 3], [0.0, 0.0, 1 / 3]])
    pi = np.array([0.4, 0.6, 0.0])
    A = np.stack([0.8 * np.eye(3) + 0.2 / 3, np.array([[0.9, 0.1, 0.2], [0.1, 0.7, 0.1], [0.0, 0.2, 0.7]])])
    prior = np.array([0.5, 0.3, 0.2])
    found = fit_transitions(exact(A, T * pi), A, prior)
    assert found.joint[:, 2].sum() < 1e-7
    np.testing.assert_allclose(found.transitions[:, :2], T[:, :2], atol=1e-5)
    np.testing.assert_allclose(found.transitions.sum(axis=0), 1.0)
    if found.stationary[2] == 0:
        np.testing.assert_allclose(found.transitions[:, 2], prior)


def test_without_neighbours_the_next_truth_is_the_prior() -> None:
    d = simulate_sequences(30, 1, 3, 3)
    found = fit_transitions(lagged_moments(d.annotations), d.model.confusions, np.array([0.5, 0.3, 0.2]))
    np.testing.assert_allclose(found.transitions, np.repeat([[0.5], [0.3], [0.2]], 3, axis=1))
    assert found.converged
    assert found.iterations == 0


def test_annotators_who_tell_nothing_leave_the_prior() -> None:
    spam = np.full((4, 3, 3), 1 / 3)
    d = simulate_sequences(20, 10, 4, 3, confusions=spam)
    prior = np.array([0.5, 0.3, 0.2])
    found = fit_transitions(lagged_moments(d.annotations), spam, prior)
    assert found.converged
    np.testing.assert_allclose(found.transitions, np.repeat(prior[:, None], 3, axis=1), atol=1e-6)


def test_one_class_is_no_problem() -> None:
    d = simulate_sequences(5, 4, 2, 2)
    moments = lagged_moments(d.annotations)
    one = LaggedMoments(moments.who, moments.totals[:, None, None], moments.annotators, Ids([0]))
    assert fit_transitions(one, np.ones((2, 1, 1))).transitions.tolist() == [[1.0]]


def test_running_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EXPLICIT", 0)
    d = drawn(6, 5, 1)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        found = fit_transitions(lagged_moments(d.annotations), d.model.confusions, max_iter=3)
    assert not found.converged
    assert found.iterations == len(found.history) == 3
    np.testing.assert_allclose(found.transitions.sum(axis=0), 1.0)


def test_what_does_not_fit_is_refused() -> None:
    d = drawn(3, 3, 0)
    moments, A = lagged_moments(d.annotations), d.model.confusions
    with pytest.raises(ParameterError, match="shape"):
        fit_transitions(moments, A[:2])
    with pytest.raises(ParameterError, match="prior"):
        fit_transitions(moments, A, np.array([0.5, 0.5]))
    with pytest.raises(ParameterError, match="'counts' or 'equal'"):
        fit_transitions(moments, A, weights="some")  # type: ignore[arg-type]
