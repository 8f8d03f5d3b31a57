"""What a ranking is worth, in sentences, and what to compare next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from consilience.data.names import shown
from consilience.kernels._arrays import Ints

if TYPE_CHECKING:
    from consilience.ranking.result import Ranking

__all__ = ["advice", "best", "headline", "next_columns", "reliability"]

#: Shares of the scores' variation that is not chance, from which an order is called clear, and rough: then four and two
#: levels can be told apart, by the usual rule of test theory.
_CLEAR, _ROUGH = 0.9, 0.5
_MOST_NAMED = 5
_MOST_NEXT = 20


def reliability(ranking: Ranking) -> float:
    """Return the share of the variation of scores within groups that is not chance."""
    signal = float(np.mean(ranking.model.scores**2))
    return signal / (signal + float(np.mean(ranking.deviation**2))) if signal > 0 else 0.0


def headline(ranking: Ranking) -> str:
    """Return whether the order can be trusted."""
    n_groups, group = ranking.comparisons.groups
    share = ranking.reliability
    if share >= _CLEAR:
        said = "The order is clear"
    elif share >= _ROUGH:
        said = "The order is rough: neighbours cannot be told apart"
    else:
        said = "The order is mostly chance: collect more comparisons before using it"
    said += f" ({100 * share:.0f}% of the differences between scores are not chance)."
    if n_groups == 1:
        return f"All {group.size} items are connected by comparisons. {said}"
    sizes = np.bincount(group)
    return (
        f"The items fall into {n_groups} groups that were never compared with each other ({sizes[0]} items in the "
        f"largest, {sizes[-1]} in the smallest): ranks hold within a group. {said}"
    )


def best(ranking: Ranking) -> str:
    """Return who is best, and who may be as good."""
    data = ranking.comparisons
    n_groups, group = data.groups
    if n_groups > 1:
        leaders = [_name(ranking, n) for n in _leaders(ranking)[:_MOST_NAMED]]
        more = f" and {n_groups - len(leaders)} more" if n_groups > len(leaders) else ""
        return f"Best of their groups: {', '.join(leaders)}{more}."
    first = _leaders(ranking)[0]
    others = np.flatnonzero((ranking.rank_low == 1) & (np.arange(group.size) != first))
    others = others[np.argsort(-ranking.model.scores[others], kind="stable")]
    if not others.size:
        return f"{_name(ranking, first)} is the best."
    return f"{_name(ranking, first)} comes first; {_listed(ranking, others)} may be as good."


def advice(ranking: Ranking) -> list[str]:
    """Return what to do next, most important first."""
    data = ranking.comparisons
    n_groups, _ = data.groups
    said = []
    if n_groups > 1:
        pairs = [f"{_name(ranking, i)} with {_name(ranking, j)}" for i, j in _bridges(ranking)[:3]]
        said.append(f"to compare groups, connect them: for example compare {', '.join(pairs)}")
    i, j, _ = ranking.close
    N = data.n_items
    if i.size:
        at = _most_useful(ranking)[:3]
        pairs = [f"{_name(ranking, i[k])} with {_name(ranking, j[k])}" for k in at]
        said.append(f"to settle the top of the order, compare {', '.join(pairs)} again")
    wins, losses, ties = data.tally()
    never = np.flatnonzero((losses + ties == 0) | (wins + ties == 0))
    if never.size:
        said.append(
            f"{never.size} of {N} items won or lost all of their comparisons ({_listed(ranking, never)}): how far they "
            "are from the others is mostly assumed; compare them with items near them in the order"
        )
    return said


def next_columns(ranking: Ranking) -> dict[str, Any]:
    """Return the pairs to compare next: those that connect groups, then open ones, the best items first."""
    names = ranking.comparisons.item_ids.to_arrow()
    bridges = _bridges(ranking)[:_MOST_NEXT]
    i, j, _ = ranking.close
    at = _most_useful(ranking)[: _MOST_NEXT - len(bridges)]
    one = [pair[0] for pair in bridges] + i[at].tolist()
    two = [pair[1] for pair in bridges] + j[at].tolist()
    reasons = ["connects two groups"] * len(bridges) + ["order is open"] * len(at)
    taken = (names.take(pa.array(each, pa.int64())) for each in (one, two))
    return dict(zip(("item", "other"), taken, strict=True)) | {"reason": pa.array(reasons, pa.string())}


def _leaders(ranking: Ranking) -> Ints:
    """Return the item with the highest score of every group."""
    n_groups, group = ranking.comparisons.groups
    order = np.lexsort((-ranking.model.scores, group))
    return np.asarray(order[np.searchsorted(group[order], np.arange(n_groups))])


def _bridges(ranking: Ranking) -> list[tuple[int, int]]:
    """Return a pair for every group but the largest: the items whose scores are known best."""
    n_groups, group = ranking.comparisons.groups
    if n_groups == 1:
        return []
    order = np.lexsort((ranking.deviation, group))
    surest = order[np.searchsorted(group[order], np.arange(n_groups))]
    return [(int(surest[0]), int(other)) for other in surest[1:]]


def _most_useful(ranking: Ranking) -> Ints:
    """Return open pairs of neighbours, those at the top of the order first."""
    i, j, _ = ranking.close
    group = ranking.comparisons.groups[1]
    order = np.lexsort((-ranking.model.scores, group))
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    near = np.flatnonzero(place[j] - place[i] == 1)
    return near[np.lexsort((place[i[near]], group[i[near]]))]


def _name(ranking: Ranking, n: Any) -> str:
    return shown(ranking.comparisons.item_ids[int(n)])


def _listed(ranking: Ranking, items: Ints) -> str:
    named = ", ".join(_name(ranking, n) for n in items[:_MOST_NAMED])
    return named + (f" and {items.size - _MOST_NAMED} more" if items.size > _MOST_NAMED else "")
