"""Coupled tensor decomposition: known parameters come back, from triples alone."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

from consilience.exceptions import DataError, ParameterError
from consilience.factor import coupled_tensors
from consilience.factor.coupled_tensors import coupled_tensor_decomposition
from consilience.kernels._arrays import Floats


def drawn(rng: np.random.Generator, sizes: list[int], rank: int, rows: int, observed: float) -> tuple[Any, Any, Any]:
    weights = rng.dirichlet(5 * np.ones(rank))
    factors = [rng.dirichlet(np.ones(size), rank).T for size in sizes]
    component = rng.choice(rank, rows, p=weights)
    codes = np.stack(
        [(rng.random(rows)[:, None] > A.cumsum(axis=0)[:-1].T[component]).sum(axis=1) for A in factors], axis=1
    ).astype(np.int8)
    codes[rng.random(codes.shape) > observed] = -1
    return codes, weights, factors


def tensor(weights: Floats, factors: Any) -> Floats:
    """The whole joint distribution, from the definition."""
    made = np.zeros([len(A) for A in factors])
    for f, weight in enumerate(weights):
        part = np.array(weight)
        for A in factors:
            part = np.multiply.outer(part, A[:, f])
        made += part
    return made


def objective(codes: Any, weights: Floats, factors: Any) -> float:
    """The h of the module, from the definition, one triple at a time."""
    total = 0.0
    for three in combinations(range(codes.shape[1]), 3):
        rows = codes[:, three][(codes[:, three] >= 0).all(axis=1)]
        if not len(rows):
            continue
        X = np.zeros([len(factors[n]) for n in three])
        np.add.at(X, tuple(rows.T), 1.0 / len(rows))
        total += 0.5 * len(rows) / len(codes) * ((X - tensor(weights, [factors[n] for n in three])) ** 2).sum()
    return float(total)


def test_parameters_come_back_with_alphabets_of_different_sizes_and_missing_entries() -> None:
    rng = np.random.default_rng(0)
    codes, weights, factors = drawn(rng, [3, 4, 5, 2, 6], 3, 200_000, 0.7)
    found, made, history, converged = coupled_tensor_decomposition(codes, [3, 4, 5, 2, 6], 3, starts=2, random_state=1)
    assert converged
    assert np.all(np.diff(history) <= 1e-15)
    truth = tensor(weights, factors)
    assert np.abs(tensor(found, made) - truth).sum() < 0.06
    order = min(permutations(range(3)), key=lambda o: float(np.abs(found[list(o)] - weights).sum()))
    assert np.abs(found[list(order)] - weights).max() < 0.03
    for A, B in zip(made, factors, strict=True):
        np.testing.assert_allclose(A.sum(axis=0), 1.0)
        assert (A >= 0).all()
        assert np.abs(A[:, order] - B).max() < 0.06


def test_the_objective_is_that_of_the_definition_and_the_end_is_a_minimum() -> None:
    rng = np.random.default_rng(3)
    codes, _, _ = drawn(rng, [3, 2, 4, 3], 2, 500, 0.8)
    weights, factors, history, _ = coupled_tensor_decomposition(codes, [3, 2, 4, 3], 2, tol=1e-12, max_iter=2000)
    assert history[-1] == pytest.approx(objective(codes, weights, factors), rel=1e-9)
    for _ in range(20):
        n = int(rng.integers(4))
        moved = [A.copy() for A in factors]
        moved[n] = 0.999 * moved[n] + 0.001 * rng.dirichlet(np.ones(len(moved[n])), 2).T
        assert objective(codes, weights, moved) > history[-1] - 1e-12
    # λ too is where it should be: the slope along the simplex is zero, and moving up or down is no better
    assert (weights > 0.01).all()
    up, down = (objective(codes, weights + step * np.array([1.0, -1.0]), factors) for step in (1e-3, -1e-3))
    assert min(up, down) > history[-1] - 1e-12
    curvature = (up + down - 2 * history[-1]) / 1e-6
    assert curvature > 0
    assert abs(up - down) / 2e-3 < 1e-4 * curvature  # within 1e-4 of the best λ


def test_same_seed_same_bytes_and_the_callback_ends_the_run() -> None:
    codes, _, _ = drawn(np.random.default_rng(5), [3, 3, 3, 3], 2, 1000, 0.9)
    one = coupled_tensor_decomposition(codes, [3] * 4, 2, max_iter=20, random_state=7)
    two = coupled_tensor_decomposition(codes, [3] * 4, 2, max_iter=20, random_state=7)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one[1], two[1], strict=True))
    told: list[int] = []

    def stop(sweep: int, value: float, change: float) -> bool:
        told.append(sweep)
        return sweep == 3

    *_, history, converged = coupled_tensor_decomposition(codes, [3] * 4, 2, callback=stop)
    assert told == [1, 2, 3]
    assert len(history) == 3
    assert not converged
    *_, history, converged = coupled_tensor_decomposition(codes, [3] * 4, 2, tol=0.0, max_iter=7)
    assert len(history) == 7
    assert not converged


def test_triples_within_random_groups_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    codes, weights, factors = drawn(rng, [3] * 12, 2, 50_000, 1.0)
    monkeypatch.setattr(coupled_tensors, "_GROUP_CELLS", 16)
    found, made, *_ = coupled_tensor_decomposition(codes, [3] * 12, 2, random_state=0)
    order = [0, 1] if abs(found[0] - weights[0]) < abs(found[1] - weights[0]) else [1, 0]
    # one order for all variables, though no triple has them all
    assert max(np.abs(A[:, order] - B).max() for A, B in zip(made, factors, strict=True)) < 0.1


@pytest.mark.parametrize("sizes", [[200] * 5, [200] * 3, [300, 2, 2, 2], [3] * 200, [250, 2, 2, 2, 250, 2, 2]], ids=str)
def test_groups_have_three_variables_and_every_variable_has_a_group(sizes: list[int]) -> None:
    for seed in range(20):
        groups = coupled_tensors.variable_groups(np.array(sizes), np.random.default_rng(seed))
        assert {n for group in groups for n in group.tolist()} == set(range(len(sizes)))
        for group in groups:
            assert np.array_equal(group, np.unique(group))
            assert group.size == 3 or (group.size > 3 and sum(sizes[n] for n in group) <= 256)


def test_a_table_and_a_sort_count_the_same() -> None:
    codes, _, _ = drawn(np.random.default_rng(4), [3, 2, 4, 3, 2], 2, 300, 0.6)
    sizes, members = np.array([3, 2, 4, 3, 2]), np.array([0, 2, 3, 4])
    counted: list[set[tuple[int, ...]]] = []
    for count in (coupled_tensors.count_by_table, coupled_tensors.count_by_sorting):
        who, cells, counts = count(codes, sizes, members)
        counted.append({(*w, *c, n) for w, c, n in zip(who.tolist(), cells.tolist(), counts.tolist(), strict=True)})
        assert len(counted[-1]) == len(counts)
    assert counted[0] == counted[1]


def test_variables_of_many_categories_have_triples_too() -> None:
    """Five of 200 categories, of which each component has four."""
    rng = np.random.default_rng(6)
    component = rng.random(3000) < 0.3
    codes = 25 * rng.integers(4, size=(3000, 5)) + 100 * component[:, None]
    weights, factors, *_ = coupled_tensor_decomposition(codes, [200] * 5, 2, starts=3)
    order = np.argsort(-weights)
    np.testing.assert_allclose(weights[order], [1 - component.mean(), component.mean()], atol=0.02)
    for A in factors:
        np.testing.assert_allclose([A[:100, order[0]].sum(), A[100:, order[1]].sum()], 1.0, atol=0.02)


def test_a_variable_without_entries_is_uniform_and_one_in_no_triple_has_its_marginal() -> None:
    codes, _, _ = drawn(np.random.default_rng(2), [3, 3, 3, 2, 2], 2, 400, 1.0)
    codes[:, 3] = -1
    codes[:300, 4] = -1
    codes[300:, :3] = -1
    _, factors, *_ = coupled_tensor_decomposition(codes, [3, 3, 3, 2, 2], 2)
    np.testing.assert_array_equal(factors[3], 0.5)
    share = np.mean(codes[300:, 4] == 0)
    np.testing.assert_allclose(factors[4][0], share)


def test_what_cannot_be_decomposed_is_refused() -> None:
    with pytest.raises(DataError, match="three variables"):
        coupled_tensor_decomposition(np.array([[0, 1, -1], [-1, 0, 1]]), [2, 2, 2], 2)
    with pytest.raises(DataError, match="one column for each size"):
        coupled_tensor_decomposition(np.zeros((4, 2), np.int8), [1, 1, 1], 2)
    with pytest.raises(ParameterError, match="rank"):
        coupled_tensor_decomposition(np.zeros((4, 3), np.int8), [1, 1, 1], 0)
