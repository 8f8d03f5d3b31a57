"""Pairwise comparisons of known scores, drawn from the Bradley-Terry model with ties and judges.

Judge m finds the left item i better than the right item j with weight exp(η / 2), worse with exp(-η / 2), and as good
with exp(θ), where ``η = reliability[m] (scores[i] - scores[j]) + position[m] + length tanh(ℓ[i] - ℓ[j])`` with ℓ the
logarithms of the lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.validation import number, whole

__all__ = ["ComparisonSimulation", "simulate_comparisons"]

#: Range of the logarithms of lengths around the mean of an item: texts differ by a factor of up to e^1.6 = 5.
_LENGTHS = (4.0, 5.6)


@dataclass(frozen=True, eq=False)
class ComparisonSimulation:
    """Simulated comparisons and what they were drawn from."""

    comparisons: pa.Table  #: left, right, worker, winner; left_length and right_length if they matter
    scores: Floats  #: of every item, (N,)
    reliability: Floats  #: of every judge, (M,)
    position: Floats  #: log-odds by which each judge prefers the left side, (M,)
    roles: tuple[str, ...]  #: "ordinary", "guesser" or "adversary" for every judge


def simulate_comparisons(
    n_items: int = 50,
    n_judges: int = 20,
    n_comparisons: int = 2000,
    *,
    spread: float = 1.0,
    ties: float = 0.0,
    reliability_spread: float = 0.3,
    position: float = 0.0,
    position_spread: float = 0.0,
    length: float | None = None,
    guessers: float = 0.0,
    adversaries: float = 0.0,
    groups: int = 1,
    seed: int = 0,
) -> ComparisonSimulation:
    """Draw comparisons of random pairs by random judges.

    Parameters
    ----------
    n_items, n_judges, n_comparisons
        N, M and C.  Items are named "i0", "i1", …; judges "j0", "j1", ….
    spread
        Standard deviation of the scores, which are normal.
    ties
        Weight exp(θ) of a tie: between equal items, a share ties / (2 + ties) are ties.
    reliability_spread
        Standard deviation of the reliability of judges, which is 1 on average.
    position, position_spread
        Mean and standard deviation of the log-odds by which judges prefer the left side.
    length
        Log-odds for a text that is much longer; None for comparisons without lengths.
    guessers, adversaries
        Share of the judges of reliability 0, and -1.
    groups
        Number of groups of items; items of different groups are never compared.
    seed
        Seed of all random numbers.

    Examples
    --------
    >>> drawn = simulate_comparisons(10, 5, 200)
    >>> drawn.comparisons.column_names
    ['left', 'right', 'worker', 'winner']
    """
    for name, value, least in (
        ("n_items", n_items, 2), ("n_judges", n_judges, 1), ("n_comparisons", n_comparisons, 1), ("groups", groups, 1),
        ("seed", seed, 0),
    ):  # fmt: skip
        whole(name, value, least=least)
    for name, amount in (("spread", spread), ("ties", ties), ("reliability_spread", reliability_spread)):
        number(name, amount, zero=True)
    if n_items < 2 * groups:
        raise ParameterError(f"every group needs two items to compare: {n_items} items are too few for {groups} groups")
    if not (guessers >= 0 and adversaries >= 0 and guessers + adversaries <= 1):
        raise ParameterError(f"guessers and adversaries must be shares, got {guessers!r} and {adversaries!r}")
    rng = np.random.default_rng(seed)
    scores = spread * rng.standard_normal(n_items)
    reliability = 1.0 + reliability_spread * rng.standard_normal(n_judges)
    leaning = position + position_spread * rng.standard_normal(n_judges)
    mixed = rng.permutation(n_judges)
    n_guess, n_against = round(guessers * n_judges), round(adversaries * n_judges)
    roles = np.full(n_judges, "ordinary", object)
    roles[mixed[:n_guess]], roles[mixed[n_guess : n_guess + n_against]] = "guesser", "adversary"
    reliability[roles == "guesser"], reliability[roles == "adversary"] = 0.0, -1.0

    left, right = _pairs(rng, n_items, groups, n_comparisons)
    judge = rng.integers(0, n_judges, n_comparisons)
    eta = reliability[judge] * (scores[left] - scores[right]) + leaning[judge]
    lengths = {}
    if length is not None:
        logs = rng.uniform(*_LENGTHS, (2, n_comparisons)) + 0.5 * rng.standard_normal(n_items)[[left, right]]
        words = np.rint(np.exp(logs)).astype(np.int64)
        eta += length * np.tanh(np.log1p(words[0]) - np.log1p(words[1]))
        lengths = {"left_length": words[0], "right_length": words[1]}
    weights = np.stack([np.exp(eta / 2.0), np.full(eta.size, ties), np.exp(-eta / 2.0)], axis=1)
    shares = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    drawn = np.minimum((rng.random(n_comparisons)[:, None] > shares).sum(axis=1), 2)
    columns = {
        "left": pa.array([f"i{n}" for n in range(n_items)]).take(pa.array(left)),
        "right": pa.array([f"i{n}" for n in range(n_items)]).take(pa.array(right)),
        "worker": pa.array([f"j{m}" for m in range(n_judges)]).take(pa.array(judge)),
        "winner": pa.array(["left", "tie", "right"]).take(pa.array(drawn)),
    }
    return ComparisonSimulation(pa.table(columns | lengths), scores, reliability, leaning, tuple(roles))


def _pairs(rng: np.random.Generator, N: int, groups: int, C: int) -> tuple[Ints, Ints]:
    """Draw pairs of different items; item n belongs to group n mod ``groups``."""
    left = rng.integers(0, N, C)
    size = (N - 1 - left % groups) // groups + 1  # items of the group
    other = (left // groups + rng.integers(1, np.maximum(size, 2), C)) % size
    return left, other * groups + left % groups
