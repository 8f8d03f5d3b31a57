"""CNMF-SPA from exact pair marginals, where it is provably right, and from samples, beside the paper's Table I."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats
from consilience.pmf.cnmf_spa import cnmf_spa, simplex_weights
from consilience.pmf.cpd import CPD, split_factors
from consilience.pmf.pairs import PairMarginals, pair_marginals

SIZES = (4, 6, 3, 9, 5, 8)


def separable(sizes: tuple[int, ...], M: int, F: int, seed: int) -> CPD:
    """A model where variables M … N - 1 have a category for each component that occurs in no other."""
    rng = np.random.default_rng(seed)
    factors = [rng.dirichlet(np.ones(size), F).T for size in sizes]
    stacked = np.concatenate(factors[M:])
    for f, row in enumerate(rng.permutation(len(stacked))[:F]):
        stacked[row] = np.where(np.arange(F) == f, stacked[row] + 0.2, 0.0)
    factors[M:] = split_factors(stacked, sizes[M:])
    return CPD(rng.dirichlet(np.full(F, 5.0)), tuple(factor / factor.sum(axis=0) for factor in factors))


def exact(model: CPD) -> PairMarginals:
    """Pair marginals A_j D A_kᵀ as if of a million rows."""
    counts: Floats = 1e6 * (model.stacked * model.weights) @ model.stacked.T
    first = np.concatenate([[0], np.cumsum(model.sizes)])
    for n in range(len(model.sizes)):
        counts[first[n] : first[n + 1], first[n] : first[n + 1]] = 0.0
    return PairMarginals(counts, model.sizes, model.stacked @ model.weights)


def of(weights: Floats, stacked: Floats, sizes: tuple[int, ...]) -> CPD:
    return CPD(weights, split_factors(stacked, sizes))


@pytest.mark.parametrize("F", [1, 2, 5, 8])
@pytest.mark.parametrize("seed", [0, 1])
def test_exact_marginals_of_a_separable_model_give_it_back(F: int, seed: int) -> None:
    model = separable(SIZES, 3, F, seed)
    found = of(*cnmf_spa(exact(model), F, split="fixed"), SIZES).align(model)
    assert np.allclose(found.stacked, model.stacked, atol=1e-7)
    assert np.allclose(found.weights, model.weights, atol=1e-7)


def test_any_cut_may_be_given() -> None:
    model = separable(SIZES, 2, 4, 3)
    found = of(*cnmf_spa(exact(model), 4, split=[1, 0]), SIZES).align(model)
    assert np.allclose(found.stacked, model.stacked, atol=1e-7)
    for wrong in ([], range(6), [7]):
        with pytest.raises(ParameterError, match="S1"):
            cnmf_spa(exact(model), 4, split=list(wrong))


def test_conditioning_finds_a_cut_that_separates() -> None:
    # separable from every side: each variable has a category of its own for each component
    rng = np.random.default_rng(0)
    factors = tuple(np.concatenate([np.diag(d), (1 - d)[None, :]]) for d in rng.uniform(0.3, 0.8, (6, 4)))
    model = CPD(np.array([0.1, 0.2, 0.3, 0.4]), factors)
    found = of(*cnmf_spa(exact(model), 4), model.sizes).align(model)
    assert np.allclose(found.stacked, model.stacked, atol=1e-7)


def test_weights_against_least_squares() -> None:
    model = separable(SIZES, 3, 5, 4)
    pairs = exact(model)
    assert np.allclose(simplex_weights(pairs, model.stacked), model.weights, atol=1e-8)
    # from other factors: the same as a solver of the constrained problem
    from scipy.optimize import minimize

    other = separable(SIZES, 3, 5, 5)

    def misfit(x: Floats) -> float:
        total = 0.0
        for j in range(6):
            for k in range(j):
                fit = (other.factors[j] * x) @ other.factors[k].T
                total += float(((pairs.block(j, k) - fit) ** 2).sum())
        return 1e3 * total

    found = simplex_weights(pairs, other.stacked)
    bounds, one = [(0.0, 1.0)] * 5, {"type": "eq", "fun": lambda x: x.sum() - 1.0}
    best = minimize(misfit, np.full(5, 0.2), bounds=bounds, constraints=one, method="SLSQP", options={"ftol": 1e-14})
    assert np.isclose(found.sum(), 1.0)
    assert found.min() >= 0
    assert misfit(found) <= best.fun * (1 + 1e-6)
    assert np.allclose(found, best.x, atol=1e-3)


def test_more_components_than_the_pairs_can_tell() -> None:
    model = separable((2, 2, 2), 1, 2, 0)
    weights, stacked = cnmf_spa(exact(model), 7)
    found = of(weights, stacked, model.sizes)
    assert found.rank == 7
    assert np.isfinite(found.stacked).all()


def test_one_variable() -> None:
    codes = np.array([[0], [1], [1], [1]], np.int8)
    weights, stacked = cnmf_spa(pair_marginals(codes, (2,)), 3)
    assert np.allclose(weights, 1 / 3)
    assert np.allclose(stacked, [[0.3], [0.7]])


def test_error_falls_with_the_root_of_the_rows() -> None:
    errors = []
    for S in (10_000, 160_000):
        each = []
        for seed in range(3):
            model = separable((10,) * 5, 3, 5, seed)
            codes = model.sample(S, seed)
            codes[np.random.default_rng(seed).random(codes.shape) < 0.5] = -1
            found = of(*cnmf_spa(pair_marginals(codes, model.sizes), 5, split="fixed"), model.sizes).align(model)
            each.append(float(np.abs(found.stacked - model.stacked).mean()))
        errors.append(np.mean(each))
    assert errors[1] < 0.4 * errors[0]
    assert errors[1] < 0.01
