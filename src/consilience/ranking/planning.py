"""Which pairs to compare next, given a budget.

Scores are normal with mean s and covariance Σ.  Whether a is better than b is p_ab = Φ(z_ab), where z_ab is the
difference of their means over its standard deviation σ_ab.  A comparison of i and j by the average judge has the
information v about d · s, d = e_i - e_j: Σ becomes Σ - c u uᵀ, with u = Σ d and c = v / (1 + v d · u).  The means move
too, by as much as the variances fall, so the doubt p (1 - p) about a pair falls by the variance of its p,

    φ(z_ab)² / σ_ab² · c (u_a - u_b)²    on average, and over all pairs by    c dᵀ Σ L Σ d,

where L is the Laplacian of the graph with weights φ(z_ab)² / σ_ab².  The pair with the largest decrease comes first.
Items of groups that were never compared differ by as much as the prior allows, so that pairs which connect groups come
first by themselves.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.names import shown
from consilience.exceptions import ParameterError
from consilience.files import atomic_file
from consilience.kernels._arrays import Floats, Ints
from consilience.ranking.comparisons import Comparisons
from consilience.ranking.constants import EXACT_COMPARISONS, PLANNED_EXACTLY
from consilience.ranking.information import Information, Spreads
from consilience.ranking.model import outcome_probabilities
from consilience.ranking.result import Ranking
from consilience.ranking.uncertainty import joint_covariance
from consilience.validation import number

__all__ = ["ComparisonPlan", "plan_comparisons"]

_FORMAT = {"format": "consilience.ComparisonPlan", "version": 1}
#: Rounds: in each, pairs that have no item in common are chosen together.
_ROUNDS = 16
#: With very many items, each is compared with this many of those that follow it.
_NEIGHBOURS = 10


@dataclass(frozen=True, eq=False)
class ComparisonPlan:
    """Pairs to compare, the most useful first."""

    left: Ints  #: code of the item to show on the left
    right: Ints
    reasons: list[str]
    budget: int
    wrong_now: float  #: expected number of pairs in the wrong order
    wrong_then: float  #: the same after the plan, if the model is right
    notes: list[str]
    comparisons: Comparisons

    @cached_property
    def table(self) -> Any:
        """Frame with a row for each comparison to make: left, right, reason."""
        return _frames.make(self._columns(), self.comparisons.origin.frame)

    def _columns(self) -> dict[str, pa.Array]:
        names = self.comparisons.item_ids.to_arrow()
        sides = (names.take(pa.array(codes, pa.int64())) for codes in (self.left, self.right))
        return dict(zip(("left", "right", "reason"), (*sides, pa.array(self.reasons, pa.string())), strict=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV, atomically."""
        import pyarrow.csv

        with atomic_file(path) as fresh:
            pyarrow.csv.write_csv(pa.table(self._columns()), fresh)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values, as in JSON."""
        return {
            **_FORMAT,
            "budget": self.budget,
            "comparisons": len(self),
            "measure": "pairs in the wrong order",
            "wrong_now": self.wrong_now,
            "wrong_then": self.wrong_then,
            "notes": list(self.notes),
            "plan": pa.table(self._columns()).to_pylist(),
        }

    def __len__(self) -> int:
        return int(self.left.size)

    def __repr__(self) -> str:
        pairs = len({*zip(np.minimum(self.left, self.right), np.maximum(self.left, self.right), strict=True)})
        return f"<ComparisonPlan: {len(self)} comparisons of {pairs} pairs>"


def plan_comparisons(ranking: Ranking, budget: float) -> ComparisonPlan:
    """Return the ``budget`` comparisons that tell most about the order of all items."""
    number("budget", budget)
    if budget < 1:
        raise ParameterError(f"budget must be at least 1 comparison, not {budget:g}")
    data, total = ranking.comparisons, int(budget)
    small = data.n_items <= PLANNED_EXACTLY and data.n_comparisons <= EXACT_COMPARISONS
    state: _Exact | _Independent = _Exact(ranking) if small else _Independent(ranking)
    room = _Room(data)
    most = max(1, total // _ROUNDS)
    now = state.doubts()
    chosen: list[Ints] = []
    found = 0
    while found < total:
        i, j, gain, v = state.gains()
        free = room.of(i, j) > 0
        at = np.flatnonzero(free)[np.argsort(-gain[free], kind="stable")]
        at = _apart(i[at], j[at], min(most, total - found), at, data.n_items)
        if not at.size:
            break
        state.observe(i[at], j[at], v[at])
        room.take(i[at], j[at])
        chosen.append(np.stack([i[at], j[at]]))
        found += at.size
    pairs = np.concatenate([np.empty((2, 0), np.int64), *chosen], axis=1)
    wrong = float(now.wrong.sum()), _wrong_then(now, state.variances(now.i, now.j))
    left, right = _sides(data, pairs)
    notes = _notes(ranking, total - found)
    return ComparisonPlan(left, right, _reasons(ranking, *pairs), total, *wrong, notes, data)


@dataclass(frozen=True)
class _Doubts:
    """Pairs of items, with mean and variance of the difference of their scores."""

    i: Ints
    j: Ints
    gap: Floats
    variance: Floats

    @property
    def wrong(self) -> Floats:
        """Probability that the order by score is wrong."""
        from scipy.special import ndtr

        return np.asarray(ndtr(-np.abs(self.gap) / np.sqrt(self.variance)))


class _Exact:
    """All scores together, with their covariance."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking, self.scores = ranking, ranking.model.scores
        self.covariance = joint_covariance(ranking.comparisons, _information(ranking))
        self.i, self.j = np.triu_indices(self.scores.size, 1)

    def variances(self, i: Ints, j: Ints) -> Floats:
        C = self.covariance
        own = np.diagonal(C)
        return np.asarray(np.maximum(own[i] + own[j] - 2.0 * C[i, j], 1e-12))

    def doubts(self) -> _Doubts:
        i, j = self.i, self.j
        return _Doubts(i, j, self.scores[i] - self.scores[j], self.variances(i, j))

    def gains(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Return pairs, how far comparing them reduces the doubt about the order, and their information."""
        i, j, C = self.i, self.j, self.covariance
        found = self.doubts()
        weights = np.zeros_like(C)
        weights[i, j] = weights[j, i] = _slopes(found)
        G = C @ (np.diag(weights.sum(axis=1)) - weights) @ C
        own = np.diagonal(G)
        v = _of_average_judge(self.ranking, found)
        return i, j, v / (1.0 + v * found.variance) * (own[i] + own[j] - 2.0 * G[i, j]), v

    def observe(self, i: Ints, j: Ints, v: Floats) -> None:
        """Reduce the covariance by these comparisons: Σ - Σ D (V⁻¹ + Dᵀ Σ D)⁻¹ Dᵀ Σ."""
        U = self.covariance[:, i] - self.covariance[:, j]
        self.covariance = self.covariance - U @ np.linalg.solve(np.diag(1.0 / v) + U[i] - U[j], U.T)


class _Independent:
    """Very many scores, taken as independent, and pairs of items that follow each other closely."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking, self.scores = ranking, ranking.model.scores
        self.own = np.maximum(ranking.deviation**2, 1e-12)
        self.group = ranking.comparisons.groups[1]
        # how far a group is from others is known from the prior alone
        self.shift = ranking.model.spread**2 / np.bincount(self.group)[self.group]
        order = np.argsort(-self.scores, kind="stable")
        N = order.size
        steps = range(1, min(_NEIGHBOURS, N - 1) + 1)
        self.i = np.concatenate([order[: N - step] for step in steps])
        self.j = np.concatenate([order[step:] for step in steps])

    def variances(self, i: Ints, j: Ints) -> Floats:
        apart = self.group[i] != self.group[j]
        return np.asarray(self.own[i] + self.own[j] + apart * (self.shift[i] + self.shift[j]))

    def doubts(self) -> _Doubts:
        i, j = self.i, self.j
        return _Doubts(i, j, self.scores[i] - self.scores[j], self.variances(i, j))

    def gains(self) -> tuple[Ints, Ints, Floats, Floats]:
        """As for all scores together; a comparison counts for its own pair."""
        found = self.doubts()
        v = _of_average_judge(self.ranking, found)
        return self.i, self.j, _slopes(found) * v * found.variance**2 / (1.0 + v * found.variance), v

    def observe(self, i: Ints, j: Ints, v: Floats) -> None:
        """Reduce the variances by these comparisons, which have no item in common."""
        c = v / (1.0 + v * self.variances(i, j))
        self.own[i], self.own[j] = self.own[i] - c * self.own[i] ** 2, self.own[j] - c * self.own[j] ** 2


def _information(ranking: Ranking) -> Information:
    """Return the information at the parameters of a ranking, which may have been loaded."""
    data, model = ranking.comparisons, ranking.model
    variances = ranking.deviation**2, ranking.judge_deviations[:, 0] ** 2
    sweep = data.passes.sweep(model.scores, model.judges, *variances, ties=model.effects.ties)
    spreads = Spreads(model.spread, model.judge_spreads)
    return Information(data.passes, model.scores, model.judges, sweep, spreads, model.effects, data.judge_shares)


def _slopes(found: _Doubts) -> Floats:
    """Return φ(z)² / σ², the weights of pairs."""
    return np.asarray(np.exp(-(found.gap**2) / found.variance) / (2.0 * np.pi * found.variance))


def _of_average_judge(ranking: Ranking, found: _Doubts) -> Floats:
    """Return the information of a comparison by the average judge, averaged over what the difference may be."""
    model, spread = ranking.model, np.sqrt(found.variance)
    total = np.zeros_like(spread)
    for gap in (found.gap - spread, found.gap + spread):
        win, tie, lose = np.moveaxis(outcome_probabilities(gap, model.average[3], model.effects.ties), -1, 0)
        total += 0.125 * (1.0 - tie - (win - lose) ** 2)
    return total


def _wrong_then(now: _Doubts, variance: Floats) -> float:
    """Return the expected number of pairs in the wrong order by the means that will then be known.

    The difference of two means will be normal around that of now, with the variance that is lost.  The probability that
    its sign is wrong is 2 T(|z|, σ' / √(σ² - σ'²)), where T is Owen's function.
    """
    from scipy.special import owens_t

    lost = np.sqrt(np.maximum(now.variance - variance, 1e-300))
    return float(2.0 * owens_t(np.abs(now.gap) / np.sqrt(now.variance), np.sqrt(variance) / lost).sum())


class _Room:
    """How often each pair can still be compared: once by every judge.

    There is no limit if comparisons have tasks, or if judges compared pairs repeatedly before.
    """

    def __init__(self, data: Comparisons) -> None:
        self.N = data.n_items
        self.most = data.n_judges
        starts, pair = data.pair
        judged = np.unique(pair * np.int64(data.n_judges) + data.judge) // data.n_judges
        self.unlimited = bool(data.task.size) or judged.size < pair.size or list(data.judge_ids) == ["all"]
        at = starts[:-1]
        # sorted, as comparisons are sorted by their items
        self.keys = data.first[at].astype(np.int64) * self.N + data.second[at]
        self.counts = np.bincount(judged, minlength=at.size)

    def of(self, i: Ints, j: Ints) -> Ints:
        if self.unlimited:
            return np.ones(i.size, np.int64)
        keys = self._keys(i, j)
        at = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return self.most - np.where(self.keys[at] == keys, self.counts[at], 0)

    def take(self, i: Ints, j: Ints) -> None:
        keys, inverse = np.unique(np.concatenate([self.keys, self._keys(i, j)]), return_inverse=True)
        counts = np.concatenate([self.counts, np.ones(i.size, np.int64)])
        self.keys, self.counts = keys, np.bincount(inverse, counts).astype(np.int64)

    def _keys(self, i: Ints, j: Ints) -> Ints:
        return np.asarray(np.minimum(i, j).astype(np.int64) * self.N + np.maximum(i, j))


def _apart(i: Ints, j: Ints, most: int, at: Ints, n_items: int) -> Ints:
    """Return up to ``most`` of the rows ``at``, of pairs without a common item; the first ones win."""
    taken = np.zeros(n_items, np.bool_)
    kept: list[int] = []
    for one, two, row in zip(i.tolist(), j.tolist(), at.tolist(), strict=True):
        if not (taken[one] or taken[two]):
            taken[one] = taken[two] = True
            kept.append(row)
            if len(kept) == most:
                break
    return np.array(kept, np.int64)


def _sides(data: Comparisons, pairs: Ints) -> tuple[Ints, Ints]:
    """Return the left and the right items: whoever was on the left less often is, so that sides even out."""
    lead = np.bincount(data.first, data.side, data.n_items) - np.bincount(data.second, data.side, data.n_items)
    left, right = pairs[0].copy(), pairs[1].copy()
    for k in range(left.size):
        if lead[left[k]] > lead[right[k]]:
            left[k], right[k] = right[k], left[k]
        lead[left[k]] += 1
        lead[right[k]] -= 1
    return left, right


def _reasons(ranking: Ranking, i: Ints, j: Ints) -> list[str]:
    from scipy.special import ndtr

    data, s = ranking.comparisons, ranking.model.scores
    group = data.groups[1]
    better, other = np.where(s[i] >= s[j], i, j), np.where(s[i] >= s[j], j, i)
    close = dict(
        zip(zip(ranking.close[0].tolist(), ranking.close[1].tolist(), strict=True), ranking.close[2], strict=True)
    )
    said = []
    for a, b in zip(better.tolist(), other.tolist(), strict=True):
        if group[a] != group[b]:
            said.append("connects two groups")
            continue
        spread = close.get((a, b), float(np.hypot(ranking.deviation[a], ranking.deviation[b])))
        sure = ndtr((s[a] - s[b]) / max(spread, 1e-12))
        one, two = shown(data.item_ids[a]), shown(data.item_ids[b])
        said.append(f"{one} ({100 * sure:.0f}%) or {two} ({100 - 100 * sure:.0f}%)?")
    return said


def _notes(ranking: Ranking, missing: int) -> list[str]:
    said = []
    columns = ranking.columns("judges")
    names = columns[ranking.comparisons.origin.annotator]
    poor = [shown(name) for name, flags in zip(names.to_pylist(), columns["flags"], strict=True) if _is_poor(flags)]
    if poor:
        more = f" and {len(poor) - 5} more" if len(poor) > 5 else ""
        said.append(f"do not ask {', '.join(poor[:5])}{more}: these judges guess, or prefer the worse item")
    if missing:
        said.append(
            f"{missing} of the budget are left: every judge has compared every pair that is left. Ask new judges, or "
            "name what was compared in a column task"
        )
    return said


def _is_poor(flags: str) -> bool:
    return "guesses" in flags or "reversed" in flags
