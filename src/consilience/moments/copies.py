"""Annotators who answer as one: copies of each other, not independent witnesses.

Take the agreement of two annotators beyond chance, κ (Cohen 1960).  If annotators err independently given the truth,
the table of all κ has one factor: κ[m, j] ≈ r[m] r[j] (Parisi et al. 2014 for covariances).  Copies break that
pattern: they agree with each other by far more than their agreement with everybody else explains.  For a group G and
the others O (Jaffe et al. 2016 look for such groups in the covariances of classifiers):

    κ within G is large,   but   κ between G and O  ≪  √(κ within G) · mean of r over O.

The same pattern would come about if the others were the copies and the group were right.  What decides is the
rule that whoever agrees most closely is taken to copy: independent people who are right that often also agree with
the others more than the others do among themselves, and then nothing is found.

====== ====================================== =========
symbol name                                   shape
====== ====================================== =========
κ      ``kappa``                              (m, m)
r      ``reliability``, one factor of κ       (m,)
====== ====================================== =========

F. Parisi, F. Strino, B. Nadler and Y. Kluger, "Ranking and combining multiple predictors without labeled data" (2014).
A. Jaffe, E. Fetaya, B. Nadler, T. Jiang and Y. Kluger, "Unsupervised ensemble learning with dependent classifiers"
(2016).  Traganitis 2019, section 5.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilience.data.annotations import Annotations
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.moments.cooccurrence import CoOccurrences, pair_moments

__all__ = ["Copies", "find_copies"]

#: The annotators with the most labels are looked at: copies that matter are among them.
_MOST = 150
#: A group of copies agrees at least so well (κ), and with others at most this share of what independence would give.
_TIGHT, _SHARE = 0.6, 0.7
#: Two who agree do little harm; and if most annotators agree, the others are the odd ones.
_FEWEST, _LARGEST = 3, 0.6
#: Standard errors by which the agreement with others must fall short.
_SURE = 8.0
#: Fewer label pairs than this say nothing about two annotators, or about two sets of them.
_PAIR, _SETS = 10, 50


@dataclass(frozen=True)
class Copies:
    """A group of annotators who answer as one."""

    members: Ints  #: codes of the annotators
    within: float  #: κ among them
    expected: float  #: κ with the others, if all were independent
    observed: float  #: κ with the others


def find_copies(annotations: Annotations) -> tuple[Copies, ...]:
    """Find groups of at least three annotators who answer as one, and who are not most of the crowd."""
    n_labels = annotations.labels_per_annotator
    chosen = np.sort(np.argsort(-n_labels, kind="stable")[:_MOST])
    if np.count_nonzero(n_labels) < 5:
        return ()
    table = _Agreement.of(pair_moments(annotations.select_annotators(chosen)))
    found: list[Copies] = []
    taken = np.zeros(chosen.size, bool)
    for inside in _suspects(table):
        if taken[inside].any():
            continue
        copies = _verdict(table, inside)
        if copies is not None:
            taken |= inside
            found.append(Copies(chosen[inside], *copies))
    return tuple(found)


@dataclass(frozen=True)
class _Agreement:
    """Label pairs of every two annotators, all (m, m)."""

    pairs: Floats  #: how many
    weight: Floats  #: how many could agree beyond chance
    surplus: Floats  #: how many do

    @classmethod
    def of(cls, moments: CoOccurrences) -> _Agreement:
        counts, total = moments.counts.astype(float), moments.totals
        equal = np.einsum("pii->p", counts)
        chance = (counts.sum(axis=2) * counts.sum(axis=1)).sum(axis=1) / np.maximum(total, 1.0)
        tables = np.zeros((3, moments.n_annotators, moments.n_annotators))
        m, j = moments.who.T
        for at, values in enumerate((total, np.maximum(total - chance, 0.0), equal - chance)):
            tables[at, m, j] = tables[at, j, m] = values
        return cls(*tables)

    @property
    def kappa(self) -> Floats:
        """κ of every two annotators; 0 where they share nothing."""
        return _ratio(self.surplus, self.weight)


def _suspects(table: _Agreement) -> list[Bools]:
    """Merge annotators by average linkage, and give the groups that agree with others less than independence allows.

    The worst first.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    m = len(table.pairs)
    # cautious κ: two standard errors lower, and unrelated where little was shared
    error = _error(table.pairs, table.weight)
    near = np.where(table.pairs >= _PAIR, table.kappa - 2.0 * error, -1.0)
    distance = np.clip(1.0 - near, 0.0, 2.0)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average")
    # in the order of the leaves, the members of every group stand next to each other
    order = leaves_list(tree)
    first, stop = np.argsort(order).tolist(), (np.argsort(order) + 1).tolist()
    for one, other in tree[:, :2].astype(int).tolist():
        first.append(min(first[one], first[other]))
        stop.append(max(stop[one], stop[other]))
    low, high = np.array(first), np.array(stop)
    wanted = (high - low >= _FEWEST) & (high - low <= min(_LARGEST * m, m - 3))
    low, high = low[wanted], high[wanted]

    pairs, weight, surplus = (
        _split(values[np.ix_(order, order)], low, high) for values in (table.pairs, table.weight, table.surplus)
    )
    within, across, among = _ratio(surplus, weight)
    e_within, e_across, e_among = _error(pairs, weight)
    tight = (pairs.min(axis=0) >= _SETS) & (within >= _TIGHT) & (within > among) & (among > 0.0)
    expected = np.sqrt(np.where(tight, within * among, 1.0))
    error = np.sqrt(
        e_across**2 + (0.5 * expected * _ratio(e_within, within)) ** 2 + (0.5 * expected * _ratio(e_among, among)) ** 2
    )
    short = np.where(tight, _ratio(expected - across, error), 0.0)
    suspects = [g for g in np.argsort(-short, kind="stable") if short[g] >= _SURE]
    return [np.isin(np.arange(m), order[low[g] : high[g]]) for g in suspects]


def _verdict(table: _Agreement, inside: Bools) -> tuple[float, float, float] | None:
    """Compare the group's agreement with the others with what these others' own reliabilities lead to expect."""
    here, between, there = np.ix_(inside, inside), np.ix_(inside, ~inside), np.ix_(~inside, ~inside)
    within = float(table.surplus[here].sum() / table.weight[here].sum())
    weight = table.weight[between]
    across = float(table.surplus[between].sum() / weight.sum())
    error = float(_error(table.pairs[between].sum(), weight.sum()))
    reliability = _one_factor(table.kappa[there], table.weight[there])
    lean = weight.sum(axis=0) * reliability
    if -np.minimum(lean, 0.0).sum() > 0.1 * np.maximum(lean, 0.0).sum():
        return None  # adversaries among the others: who agrees with whom does not tell who copies
    # κ between G and O, were G independent: √(κ within G) · Σ weight · r / Σ weight
    expected = float(np.sqrt(within) * lean.sum() / weight.sum())
    copies = 0.0 <= across <= _SHARE * expected and expected - across >= _SURE * error
    return (within, expected, across) if copies else None


def _one_factor(kappa: Floats, weight: Floats) -> Floats:
    """Give r with κ[m, j] ≈ r[m] r[j] off the diagonal, by weighted least squares for one r at a time."""
    weighted = weight * kappa
    mean = float(weighted.sum() / max(weight.sum(), 1e-9))
    r = np.full(len(kappa), np.sqrt(max(mean, 0.05)))
    for _ in range(50):
        best = np.minimum(np.maximum(_ratio(weighted @ r, weight @ (r * r)), -1.0), 1.0)
        step = 0.5 * (best - r)  # half the way: all at once would swing
        r += step
        if np.abs(step).max(initial=0.0) < 1e-6:
            break
    return r


def _split(values: Floats, low: Ints, high: Ints) -> Floats:
    """Sum a symmetric table within the rows from ``low`` to ``high``, between these and others, and among the others.

    For many such groups at once, (3, groups), from sums over all rectangles that begin in the corner.
    """
    m = len(values)
    corner = np.zeros((m + 1, m + 1))
    corner[1:, 1:] = values.cumsum(axis=0).cumsum(axis=1)
    inside = corner[high, high] - corner[low, high] - corner[high, low] + corner[low, low]
    across = corner[high, m] - corner[low, m] - inside
    return np.stack([0.5 * inside, across, 0.5 * (corner[m, m] - inside) - across])


def _error(pairs: Floats, weight: Floats) -> Floats:
    """Give the standard error of κ at most: a share of agreements has a standard deviation of at most a half."""
    return _ratio(0.5 * np.sqrt(np.maximum(pairs, 0.0)), weight)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.zeros(np.shape(bottom)), where=np.asarray(bottom) > 0)
