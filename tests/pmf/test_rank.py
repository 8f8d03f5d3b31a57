"""The search for the rank, on scores whose best is known."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.pmf.rank import choose_rank, hold_out


@pytest.mark.parametrize("best", [1, 2, 3, 5, 11, 20, 37, 64])
def test_the_peak_of_a_score_is_found(best: int) -> None:
    asked: list[int] = []

    def score(rank: int) -> float:
        asked.append(rank)
        return -abs(float(np.log(rank / best)))

    rank, scores = choose_rank(score)
    assert rank == best
    assert len(asked) == len(set(asked)) == len(scores) <= 20
    assert scores == {rank: -abs(float(np.log(rank / best))) for rank in sorted(asked)}


def test_of_equals_the_smallest() -> None:
    assert choose_rank(lambda rank: 0.0)[0] == 1
    assert choose_rank(lambda rank: float(min(rank, 6)))[0] == 6
    assert choose_rank(lambda rank: float(rank), largest=5)[0] == 4
    assert choose_rank(lambda rank: float(rank), largest=0)[0] == 1


def test_held_out_rows() -> None:
    codes = np.arange(22).reshape(11, 2)
    seen, unseen = hold_out(codes, 0.25, np.random.default_rng(0))
    assert len(unseen) == 3
    assert sorted([*seen[:, 0], *unseen[:, 0]]) == codes[:, 0].tolist()
    assert not np.array_equal(unseen, codes[:3])
