"""The choice of the number of components F by held-out rows.

The score of a rank is the log-probability of held-out rows for a joint distribution, and of their labels for a
classifier.  The search tries few ranks: F doubles from 1 until it gains nothing twice in a row, then the gap around the
best is halved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from consilience.kernels._arrays import Codes
from consilience.validation import generator

__all__ = [
    "LARGEST_RANK",
    "LEAST_SMOOTHING",
    "LEAST_TOL",
    "MOST_ROWS",
    "choose_rank",
    "hold_out",
    "rank_by_held_out",
]

#: The largest rank that is tried.
LARGEST_RANK = 64
#: Least smoothing while ranks are compared: without it, one category that only held-out rows have would decide.
LEAST_SMOOTHING = 0.1
#: Most rows and least tolerance of EM while ranks are compared: more does not change the chosen rank.
MOST_ROWS, LEAST_TOL = 20_000, 1e-6


def hold_out(codes: Codes, share: float, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Split rows at random: those to learn from, and the share that is held out."""
    S = len(codes)
    order = rng.permutation(S)
    unseen = np.zeros(S, np.bool_)
    unseen[order[: int(np.ceil(share * S))]] = True
    return np.ascontiguousarray(codes[~unseen]), np.ascontiguousarray(codes[unseen])


def choose_rank(score: Callable[[int], float], largest: int = LARGEST_RANK) -> tuple[int, dict[int, float]]:
    """Return the rank with the highest score (of equals the smallest), and the score of every rank that was tried.

    Parameters
    ----------
    score
        Called once for each rank that is tried.
    largest
        The largest rank of the doubling.
    """
    scores: dict[int, float] = {}

    def best() -> int:
        top = max(scores.values())
        return min(rank for rank, value in scores.items() if value >= top - 1e-9)

    rank = 1
    while rank <= max(largest, 1) and rank <= 4 * (best() if scores else 1):
        scores[rank] = score(rank)
        rank *= 2
    while True:
        tried = sorted(scores)
        at = tried.index(best())
        near = [(tried[i] + tried[i + 1]) // 2 for i in (at - 1, at) if 0 <= i < len(tried) - 1]
        new = [rank for rank in near if rank not in scores]
        if not new:
            return best(), dict(sorted(scores.items()))
        for rank in new:
            scores[rank] = score(rank)


def rank_by_held_out(
    codes: Codes,
    share: float,
    options: dict[str, Any],
    score: Callable[[int, Codes, Codes, dict[str, Any]], float],
) -> tuple[int, dict[int, float]]:
    """Choose F by the score of held-out rows; return it and the score of every rank that was tried.

    Ranks are compared by EM from one start each, whatever the fit itself does later: several starts would be averaged
    to a model of more components, and without EM the score depends more on the start than on the rank.

    Parameters
    ----------
    codes
        Rows (S, N).
    share
        Share of the rows that is held out.
    options
        Options of the fit, including ``random_state``.
    score
        Called with a rank, the rows to learn from, the held-out rows, and the options of the fit.
    """
    rng = generator(options["random_state"])
    if len(codes) > MOST_ROWS:
        codes = codes[np.sort(rng.choice(len(codes), MOST_ROWS, replace=False))]
    seen, unseen = hold_out(codes, share, rng)
    if not len(seen):
        return 1, {}
    options = {
        **options,
        "smoothing": max(options["smoothing"], LEAST_SMOOTHING),
        "tol": max(options["tol"], LEAST_TOL),
        "n_starts": 1,
        "refine": "em",
        "callback": None,
        "random_state": int(rng.integers(2**31)),
    }
    return choose_rank(lambda rank: score(rank, seen, unseen, options), min(LARGEST_RANK, len(seen)))
