from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consilience.datasets import simulate_comparisons
from consilience.exceptions import ParameterError


def test_the_same_seed_draws_the_same_comparisons() -> None:
    one, two, other = (simulate_comparisons(10, 4, 100, seed=seed).comparisons for seed in (1, 1, 2))
    assert one.equals(two)
    assert not one.equals(other)


def test_frequencies_follow_the_model() -> None:
    drawn = simulate_comparisons(4, 3, 200_000, ties=0.5, position=0.4, reliability_spread=0.2, seed=3)
    frame = drawn.comparisons.to_pandas()
    cell = frame[(frame["left"] == "i1") & (frame["right"] == "i2") & (frame["worker"] == "j0")]["winner"]
    eta = drawn.reliability[0] * (drawn.scores[1] - drawn.scores[2]) + drawn.position[0]
    weights = np.array([np.exp(eta / 2), 0.5, np.exp(-eta / 2)])
    shares = [np.mean(cell == side) for side in ("left", "tie", "right")]
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.02)


def test_groups_never_meet_and_no_item_meets_itself() -> None:
    frame = simulate_comparisons(11, 2, 5000, groups=3).comparisons.to_pandas()
    left, right = (frame[side].str[1:].astype(int) for side in ("left", "right"))
    assert (left % 3 == right % 3).all()
    assert (left != right).all()


@pytest.mark.parametrize(
    "options", [{"n_items": 1}, {"guessers": 0.7, "adversaries": 0.7}, {"groups": 30}, {"ties": -1}]
)
def test_what_bad_options_get(options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        simulate_comparisons(**options)
