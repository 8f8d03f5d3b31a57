"""The tables of a ranking: columns of scores, judges, win rates, and pairs that cannot be told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.ranking.comparisons import length_advantage
from consilience.ranking.constants import GUESSING, LEANING
from consilience.ranking.model import BradleyTerry, outcome_probabilities
from consilience.ranking.uncertainty import Uncertainty, normal_quantile, ranks_of

if TYPE_CHECKING:
    from consilience.ranking.result import Ranking

__all__ = ["close_columns", "close_pairs", "judge_columns", "score_columns", "win_columns"]

#: Pairs that are examined for being too close, over all items.
_MOST_PAIRS = 20_000
#: Groups beyond this size get their win rates from a grid of scores.
_GRID = 1024


def score_columns(ranking: Ranking) -> dict[str, Any]:
    """Return the columns of ``scores``, the best item of the largest group first."""
    data, model = ranking.comparisons, ranking.model
    n_groups, group = data.groups
    rank = ranks_of(model.scores, group)
    order = np.lexsort((np.arange(rank.size), rank, group))
    z = normal_quantile() * ranking.deviation
    wins, losses, ties = data.tally()
    columns = {
        "item": data.item_ids.take(order).to_arrow(),
        "score": model.scores[order],
        "low": (model.scores - z)[order],
        "high": (model.scores + z)[order],
        "rank": rank[order],
        "rank_low": ranking.rank_low[order],
        "rank_high": ranking.rank_high[order],
        "win_rate": win_rates(model, group)[order],
        "n_comparisons": (wins + losses + ties)[order],
        "wins": wins[order],
        "losses": losses[order],
        "ties": ties[order],
    }
    return columns | ({"group": group[order] + 1} if n_groups > 1 else {})


def win_rates(model: BradleyTerry, group: Ints) -> Floats:
    """Return the expected share of wins of each item against all others of its group, ties as halves.

    The judge is the average one, without an effect of the position or the length.
    """
    theta, ties = model.average[3], model.effects.ties
    out = np.full(model.scores.size, 0.5)
    begin = np.concatenate([[0], np.cumsum(np.bincount(group))])
    members = np.argsort(group, kind="stable")

    def beats(x: Floats, s: Floats) -> Floats:
        p = outcome_probabilities(x[:, None] - s[None, :], theta, ties)
        return np.asarray((p[..., 0] + 0.5 * p[..., 1]).sum(axis=1))

    for g in range(begin.size - 1):
        of = members[begin[g] : begin[g + 1]]
        s = model.scores[of]
        if s.size > 1:
            at = s if s.size <= _GRID else np.linspace(s.min(), s.max(), _GRID)
            total = sum(beats(at, s[k : k + _GRID]) for k in range(0, s.size, _GRID))
            total = total if s.size <= _GRID else np.interp(s, at, total)
            out[of] = (total - 0.5) / (s.size - 1)  # without the item itself
    return out


def judge_columns(ranking: Ranking) -> dict[str, Any]:
    """Return the columns of ``judges``, in the order of their ids."""
    data, model = ranking.comparisons, ranking.model
    M, z = data.n_judges, normal_quantile()
    count = np.bincount(data.judge, minlength=M)
    tied = data.outcome == 0
    gap = model.scores[data.first] - model.scores[data.second]
    clear = ~tied & (gap != 0)
    agrees = np.bincount(data.judge[clear], np.sign(gap[clear]) == data.outcome[clear], M)
    decided = np.bincount(data.judge[clear], minlength=M)
    reliability, sd = model.judges[:, 0], ranking.judge_deviations
    low, high = reliability - z * sd[:, 0], reliability + z * sd[:, 0]
    columns: dict[str, Any] = {
        data.origin.annotator: data.judge_ids.to_arrow(),
        "n_comparisons": count,
        "reliability": reliability,
        "low": low,
        "high": high,
        "agreement": pa.array(agrees / np.maximum(decided, 1), mask=decided == 0),
        "tie_share": np.bincount(data.judge[tied], minlength=M) / np.maximum(count, 1),
    }
    effects = np.asarray(model.effects.common) | np.asarray(model.effects.own)
    if effects[1]:
        columns["left_share"] = 1.0 / (1.0 + np.exp(-model.judges[:, 1]))
    if effects[2]:
        columns["longer_share"] = 1.0 / (1.0 + np.exp(-length_advantage(np.log(2.0)) * model.judges[:, 2]))
    columns["flags"] = _flags(model, sd, low, high)
    return columns


def _flags(model: BradleyTerry, sd: Floats, low: Floats, high: Floats) -> list[str]:
    z = normal_quantile()
    found: list[list[str]] = [[] for _ in range(low.size)]

    def mark(which: Bools, word: str) -> None:
        for m in np.flatnonzero(which):
            found[m].append(word)

    differ = bool(model.effects.own[0])
    mark((high < 0) & differ, "reversed")
    mark((high >= 0) & (high < GUESSING) & differ, "guesses")
    for p, words in ((1, ("prefers left", "prefers right")), (2, ("prefers long", "prefers short"))):
        if model.effects.common[p] or model.effects.own[p]:
            value = model.judges[:, p] * (length_advantage(np.log(2.0)) if p == 2 else 1.0)
            sure = np.abs(model.judges[:, p]) > z * sd[:, p]
            mark(sure & (value > LEANING), words[0])
            mark(sure & (value < -LEANING), words[1])
    return [", ".join(words) for words in found]


def win_columns(ranking: Ranking) -> dict[str, Any]:
    """Return a row for each pair that was compared, the better item first, with its observed and expected win rates."""
    data, model = ranking.comparisons, ranking.model
    starts, _ = data.pair
    at = starts[:-1]
    one, two = data.first[at], data.second[at]
    wins, ties, losses = (np.add.reduceat((data.outcome == y).astype(np.int64), at) for y in (1, 0, -1))
    turned = model.scores[one] < model.scores[two]
    item, other = np.where(turned, two, one), np.where(turned, one, two)
    wins, losses = np.where(turned, losses, wins), np.where(turned, wins, losses)
    n = wins + ties + losses
    gap = model.scores[item] - model.scores[other]
    p = outcome_probabilities(gap, model.average[3], model.effects.ties)
    names = data.item_ids.to_arrow()
    order = np.lexsort((-model.scores[other], -model.scores[item], data.groups[1][item]))
    return {
        "item": names.take(pa.array(item[order])),
        "other": names.take(pa.array(other[order])),
        "n_comparisons": n[order],
        "wins": wins[order],
        "ties": ties[order],
        "losses": losses[order],
        "observed": ((wins + 0.5 * ties) / n)[order],
        "expected": (p[:, 0] + 0.5 * p[:, 1])[order],
    }


def close_pairs(scores: Floats, group: Ints, found: Uncertainty) -> tuple[Ints, Ints, Floats]:
    """Return pairs of the same group whose order is open: the better item, the other one, and how unsure they are.

    Every item is held against those that follow it: all of them if there are few items, else the next ones.
    """
    N = scores.size
    order = np.lexsort((-scores, group))
    reach = max(1, min(N - 1, _MOST_PAIRS // N))
    i = np.repeat(np.arange(N), reach)
    j = i + np.tile(np.arange(1, reach + 1), N)
    inside = j < N
    i, j = order[i[inside]], order[j[inside]]
    same = group[i] == group[j]
    i, j = i[same], j[same]
    deviation = found.of_difference(i, j)
    close = scores[i] - scores[j] < normal_quantile() * deviation
    return i[close], j[close], deviation[close]


def close_columns(ranking: Ranking) -> dict[str, Any]:
    """Return the pairs of items whose order is open, those of the best items first."""
    from scipy.special import ndtr

    i, j, deviation = ranking.close
    scores, names = ranking.model.scores, ranking.comparisons.item_ids.to_arrow()
    z, gap = normal_quantile(), scores[i] - scores[j]
    return {
        "item": names.take(pa.array(i)),
        "other": names.take(pa.array(j)),
        "difference": gap,
        "low": gap - z * deviation,
        "high": gap + z * deviation,
        "probability": ndtr(gap / np.maximum(deviation, 1e-12)),
    }
