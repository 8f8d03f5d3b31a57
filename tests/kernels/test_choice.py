"""The two best classes of every item: the compiled loop against the rule, one item at a time."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.kernels import choice
from consilience.kernels._arrays import Floats

TIE = 1e-9


def by_rule(p: Floats, order: list[int]) -> tuple[int, int]:
    """Take the classes in order; one wins a place from those before it if it is larger by more than the tie."""
    ranked: list[int] = []
    for k in order:
        at = next((i for i, other in enumerate(ranked) if p[k] > p[other] + TIE), len(ranked))
        ranked.insert(at, k)
    return ranked[0], ranked[1]


@pytest.mark.parametrize("decimals", [1, 2, 12])
@pytest.mark.parametrize("K", [2, 3, 6])
def test_ties_follow_the_order(K: int, decimals: int) -> None:
    """Rounded to one decimal nearly all items have ties, to twelve none."""
    rng = np.random.default_rng(K)
    posterior = np.round(rng.dirichlet(np.full(K, 0.7), 400), decimals)
    order = rng.permutation(K)
    best, second, margin = choice.two_best(posterior, order, TIE)
    expected = np.array([by_rule(p, order.tolist()) for p in posterior])
    np.testing.assert_array_equal(np.column_stack([best, second]), expected)
    rows = np.arange(400)
    np.testing.assert_array_equal(margin, posterior[rows, expected[:, 0]] - posterior[rows, expected[:, 1]])


def test_one_class_is_best_and_second() -> None:
    best, second, margin = choice.two_best(np.ones((5, 1)), np.array([0]), TIE)
    assert (best == 0).all()
    assert (second == 0).all()
    assert (margin == 0).all()


def test_differences_below_the_tie_are_ties() -> None:
    posterior = np.array([[0.4, 0.4 + 1e-10, 0.2 - 1e-10], [0.4, 0.2, 0.4 - 1e-8]])
    best, second, _ = choice.two_best(posterior, np.array([2, 0, 1]), TIE)
    assert best.tolist() == [0, 0]  # the order has 0 before 1; and 0 is larger than 2 by more than a tie
    assert second.tolist() == [1, 2]
