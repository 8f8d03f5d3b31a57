"""Ease as a random effect on one label: the definition, and a step that raises the likelihood."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.kernels._arrays import Floats
from consilience.models.ease import Ease


def confusions(shape: tuple[int, ...], seed: int) -> Floats:
    """Columns that sum to one, along the last axis but one."""
    p = np.random.default_rng(seed).gamma(1.0, 1.0, shape) + 0.05
    return np.asarray(p / p.sum(axis=-2, keepdims=True))


def test_the_nodes_have_the_moments_of_the_normal_distribution() -> None:
    ease = Ease(0.5, np.arange(3))
    moments = [float((ease.shares * ease.nodes**power).sum()) for power in range(6)]
    np.testing.assert_allclose(moments, [1, 0, 1, 0, 3, 0], atol=1e-12)
    alike = Ease(0.0, np.arange(3))
    assert alike.nodes.tolist() == [0.0]
    assert alike.shares.tolist() == [1.0]


@pytest.mark.parametrize("cell", [[0, 1, 2, 3], [2, 2, 2, 2]])
def test_tables_are_those_of_the_definition(cell: list[int]) -> None:
    A = confusions((2, 5, 4, 4), seed=1)
    ease = Ease(0.9, np.array(cell))
    tables = ease.tables(A)
    for h in range(4):
        for j, x in enumerate(ease.nodes):
            odds = A[..., h] * np.exp(0.9 * x * (np.arange(4) == cell[h]))
            np.testing.assert_allclose(tables[..., h, j], odds / odds.sum(axis=-1, keepdims=True), atol=1e-14)
    # logarithmic means in place of the probabilities, the sums as before
    np.testing.assert_allclose(ease.tables(A, 0.5 * A), 0.5 * tables, atol=1e-14)
    np.testing.assert_allclose(Ease(0.0, np.array(cell)).tables(A)[..., 0], A, atol=1e-14)


@pytest.mark.parametrize("cell", [[0, 1, 2], [1, 1, 1]])
def test_scaling_raises_the_likelihood_to_its_top(cell: list[int]) -> None:
    from scipy.optimize import minimize

    rng = np.random.default_rng(2)
    ease, counts, pseudo = Ease(1.2, np.array(cell)), rng.gamma(1.0, 5.0, (3, 3, 3)), np.full((3, 3), 0.3)

    def likelihood(A: Floats) -> float:
        return float((counts * np.log(ease.tables(A))).sum() + (pseudo * np.log(A)).sum())

    A, heights = confusions((3, 3), seed=3), []
    for _ in range(300):
        heights.append(likelihood(A))
        A = ease.scaled(counts, A, pseudo)
        np.testing.assert_allclose(A.sum(axis=0), 1.0)
    assert np.diff(heights).min() > -1e-9
    logits = minimize(
        lambda free: -likelihood((p := np.exp(free.reshape(3, 3))) / p.sum(axis=0)), np.zeros(9), tol=1e-12
    )
    assert heights[-1] == pytest.approx(-logits.fun, abs=1e-6)


def test_without_spread_a_step_is_the_share_of_the_counts() -> None:
    counts = np.random.default_rng(4).gamma(1.0, 5.0, (2, 3, 3, 1))
    found = Ease(0.0, np.arange(3)).scaled(counts, confusions((2, 3, 3), seed=5), np.full((3, 3), 0.5))
    expected = counts[..., 0] + 0.5
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=1e-14)
