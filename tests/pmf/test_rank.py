"""The search for the rank, on scores whose best is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consilience.pmf.rank import LEAST_TOL, MOST_ROWS, choose_rank, hold_out, rank_by_held_out


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


def test_ranks_are_compared_by_em_from_one_start() -> None:
    codes = np.arange(40).reshape(20, 2)
    given: dict[str, Any] = {"smoothing": 0.0, "n_starts": 5, "refine": None, "callback": print, "tol": 1e-3}
    seeds = []

    def score(rank: int, seen: Any, unseen: Any, options: dict[str, Any]) -> float:
        assert len(seen) == 15
        assert len(unseen) == 5
        assert {name: options[name] for name in given} == {
            "smoothing": 0.1,
            "n_starts": 1,
            "refine": "em",
            "callback": None,
            "tol": 1e-3,
        }
        seeds.append(options["random_state"])
        return -abs(rank - 3.0)

    assert rank_by_held_out(codes, 0.25, {**given, "random_state": 3}, score)[0] == 3
    assert len(set(seeds)) == 1
    assert rank_by_held_out(codes[:1], 0.25, {**given, "random_state": None}, score) == (1, {})


def test_some_of_many_rows_are_enough() -> None:
    codes = np.arange(2 * MOST_ROWS + 2).reshape(-1, 1)
    met: list[Any] = []

    def score(rank: int, seen: Any, unseen: Any, options: dict[str, Any]) -> float:
        assert options["tol"] == LEAST_TOL
        met.append(np.sort(np.concatenate([seen, unseen])[:, 0]))
        return 0.0

    given: dict[str, Any] = {"smoothing": 1.0, "tol": 0.0, "random_state": 1}
    assert rank_by_held_out(codes, 0.1, given, score)[0] == 1
    assert all(np.array_equal(rows, met[0]) for rows in met)
    assert len(np.unique(met[0])) == MOST_ROWS
    # from everywhere: the mean of so many of 0 … 2 MOST_ROWS + 1 is within 1 % of the middle
    assert abs(met[0].mean() / MOST_ROWS - 1.0) < 0.01
