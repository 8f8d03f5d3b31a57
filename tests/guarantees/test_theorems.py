"""The bounds of the papers, against simulated data for which the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience import guarantees
from consilience.data.ids import Ids
from consilience.exceptions import DataError, ParameterError
from consilience.guarantees.crowds import factor_of
from consilience.subspace.lsr import lsr
from consilience.subspace.sketches import make_sketch


def drawn_block(R: Any, n: int, rng: np.random.Generator) -> Any:
    return rng.multinomial(n, R.ravel()).reshape(R.shape) / n


def test_block_error_holds_in_nearly_all_draws() -> None:
    rng = np.random.default_rng(0)
    model = cs.simulate(10, 2, 3, seed=1).model
    A = np.asarray(model.confusions)
    R = A[0] @ np.diag(model.prior) @ A[1].T
    bound = guarantees.block_error(200, delta=0.1)
    errors = [np.linalg.norm(drawn_block(R, 200, rng) - R) for _ in range(500)]
    assert np.mean(np.array(errors) > bound) <= 0.1
    n = guarantees.items_for_block_error(0.05)
    assert guarantees.block_error(n) <= 0.05 < guarantees.block_error(n - 1)


def test_theorem_1_of_the_symnmf_paper() -> None:
    """With so many items that it applies, the imputed block is far inside; with few, it says that it does not."""
    A = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.15], [0.2, 0.85]], [[0.85, 0.2], [0.15, 0.8]]])
    model = cs.DawidSkene(np.full(2, 0.5), A, Ids([0, 1]), Ids(["m", "n", "r"]))
    n = guarantees.items_for_imputation(model, 0.5)
    bound = guarantees.imputation_bound(model, int(n))
    assert bound.value == pytest.approx(0.5, rel=1e-3)
    assert not bound.vacuous
    assert "does not apply" in str(guarantees.imputation_bound(model, 100))
    # (7)-(8) with m = l: R_mn from R_mr, R_lr, R_nl; the bound is for exactly this computation
    rng = np.random.default_rng(0)

    def block(a: int, b: int) -> Any:
        return A[a] @ np.diag(model.prior) @ A[b].T

    C = np.concatenate([drawn_block(block(0, 2), int(n), rng), drawn_block(block(1, 2), int(n), rng)])
    U = np.linalg.svd(C, full_matrices=False)[0]
    imputed = U[:2] @ np.linalg.inv(U[2:]) @ drawn_block(block(1, 1), int(n), rng)
    assert np.linalg.norm(imputed - block(0, 1)) <= bound.value


def test_theorem_2_of_the_symnmf_paper() -> None:
    few, many = (guarantees.robust_bound(np.full(45, n), 10, 2) for n in (100, 10**6))
    assert many.value < few.value
    assert many.probability == pytest.approx(1 - 47 * np.exp(-10))
    # all pairs observed exactly: what is left is the covering term, which does not vanish
    assert many.value == pytest.approx(2 / 45 + np.sqrt((10 + 82 * np.log(9 * 450)) * 4 / (2 * 45 * 45)), rel=0.02)
    assert guarantees.robust_bound([5], 10, 2).vacuous
    with pytest.raises(ParameterError, match="1 to 45"):
        guarantees.robust_bound(np.full(46, 5), 10, 2)


def test_theorem_3_of_the_symnmf_paper() -> None:
    """Its leverage is a supremum over matrices; its rate is below one only for factors that are very sparse."""
    model = cs.simulate(10, 10, 3, seed=0).model
    found, H = guarantees.symnmf_convergence(model), factor_of(model)
    rng = np.random.default_rng(0)
    tried = []
    for _ in range(200):
        projected = H @ rng.standard_normal((3, 3))
        tried.append((projected**2).sum(axis=1).max() / (projected**2).sum())
    assert max(tried) <= found["coherence"]
    assert found["rate"] > 1
    assert not found["applies"]
    assert found["start"] == pytest.approx(H[H > 0].min() / (2 * np.linalg.norm(H)))


def test_marginals_of_the_joint_pmf_paper() -> None:
    rng = np.random.default_rng(0)
    R = rng.dirichlet(np.ones(16)).reshape(4, 4)
    bound = guarantees.marginal_error(400, observed=0.7, delta=0.1)
    errors = []
    for _ in range(300):
        both = rng.binomial(400, 0.49)
        errors.append(np.linalg.norm(drawn_block(R, both, rng) - R))
    assert np.mean(np.array(errors) > bound.value) <= 0.1
    assert guarantees.marginal_error(5, observed=0.3).vacuous


def test_theorems_of_the_joint_pmf_paper_say_where_they_do_not_apply() -> None:
    rng = np.random.default_rng(1)
    factors = [rng.dirichlet(np.ones(3), 2).T * 0.7 + 0.1 for _ in range(6)]
    prior = np.full(2, 0.5)
    spa = guarantees.cnmf_spa_bound(factors, prior, 10**4)
    assert spa.vacuous
    assert not spa.holds
    assert guarantees.cnmf_spa_bound(factors, prior, 10**16).holds
    # entries of at least ρ have divergences of at most log 1/ρ: the first condition fails for any ρ
    em = guarantees.em_bound(factors, prior, 10**6)
    assert not em.conditions[0].met
    for low in np.linspace(1e-3, 0.5, 50):
        assert (8 - 4 * low**2) / low**2 > np.log(1 / low) / 2
    assert guarantees.em_bound([np.eye(2)] * 3, prior, 10).vacuous


def test_conditions_of_the_and_paper() -> None:
    """Proposition 1: uniform s-sparse binary vectors have r = s, and E[x_i x_j] = s (s - 1) / (D (D - 1))."""
    D, s, rng = 10, 3, np.random.default_rng(0)
    X = np.zeros((50_000, D))
    np.put_along_axis(X, rng.permuted(np.tile(np.arange(D), (50_000, 1)), axis=1)[:, :s], 1.0, axis=1)
    found = guarantees.correlations(X)
    assert found.r == s
    assert found.k == pytest.approx(s / 2, rel=0.03)  # the definition has 2 k / D
    assert found.m == pytest.approx(D**2 * s * (s - 1) / (D * (D - 1)), rel=0.05)
    assert guarantees.decay_order(X) == np.inf
    uniform = rng.random((5000, 2)) * (rng.random((5000, 2)) < 0.5)
    assert 0.5 < guarantees.decay_order(uniform) <= 1.05
    assert guarantees.decay_order(np.sqrt(uniform)) > guarantees.decay_order(uniform)  # Pr(√u ≤ α) = α²
    assert guarantees.recovery_condition(np.ones((5, 2)))["ratio"] == np.inf
    with pytest.raises(DataError, match="weights"):
        guarantees.correlations(-X)


def measured_distortion(X: np.ndarray, R: np.ndarray) -> float:
    """Return ε of the sketch R (N, n) for the directions of the samples X (N, D)."""
    V, singular, _ = np.linalg.svd(X, full_matrices=False)
    squares = np.linalg.svd(V[:, singular > singular[0] * 1e-10].T @ R, compute_uv=False) ** 2
    return float(max(squares.max() - 1, 1 - squares.min()))


def test_sketches_of_the_thesis() -> None:
    """Proposition 2.3 and the sharpened Theorem 2.1, with the distortion of the drawn sketch."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6)) @ rng.standard_normal((6, 30))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    R = make_sketch("gaussian", 400, 300, 0).toarray()
    epsilon, lam = measured_distortion(X, R), 50.0
    assert epsilon <= guarantees.sketch_distortion(6, 300)
    B = R.T @ X
    Z = lsr(X, B, lam)
    bound = guarantees.representation_bound(np.asarray(np.linalg.svd(X, compute_uv=False), np.float64), lam, epsilon)
    worst = np.linalg.norm(X - Z @ B, axis=1).max()
    assert worst <= bound.value < 1
    # λ → ∞: the least-norm solutions
    codes, batch = X @ np.linalg.pinv(B), X @ np.linalg.pinv(X)
    pairs = rng.integers(0, 400, (200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    ratio = np.linalg.norm(np.subtract(*codes[pairs.T]), axis=1) / np.linalg.norm(np.subtract(*batch[pairs.T]), axis=1)
    low, high = guarantees.code_distance_bound(epsilon)
    assert low <= ratio.min()
    assert ratio.max() <= high
    assert guarantees.representation_bound(np.ones(3), 0.5, 0.1).vacuous
    assert "does not apply" in str(guarantees.representation_bound(np.ones(3), 50.0, 1.2))
