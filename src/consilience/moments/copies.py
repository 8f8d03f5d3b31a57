"""Groups of annotators who answer as one: copies, not independent sources.

Cohen's κ (1960) is the agreement of two annotators beyond chance.  If annotators err independently given the truth, the
table of all κ has one factor: κ[m, j] ≈ r[m] r[j] (Parisi et al. 2014 for covariances).  Copies agree with each other
far more than their agreement with everybody else explains.  For a group G and the others O (Jaffe et al. 2016 look for
such groups in the covariances of classifiers):

    κ within G is large,   but   κ between G and O  ≪  √(κ within G) · mean of r over O.

The same pattern would arise if the others were the copies and the group were right.  The rule decides that those who
agree most closely are the copies: independent annotators who are right that often also agree with the others more than
the others do among themselves, and then nothing is found.

Good annotators agree because they are right, and differ on hard items.  Where a copy differs from the others of its
group it is by a slip, which says nothing about the item.  So for a member who says x where most of the group say g, the
labels y of annotators outside the group are compared with those on all items of which the group says g:

    d  =  Σ ([y = x] - Pr(y = x | g))  /  Σ (1 - Pr(y = x | g)).

For copies d is zero.  A group with a clearly larger d is not taken for copies.

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

__all__ = ["Copies", "KappaTable", "find_copies", "group_sums", "one_factor"]

# Origin: decision 0005, simulated copies and classifiers of public tables.  Sensitivity: groups found in the 21 public
# crowds, in 15 simulated crowds of eleven annotators, six of them copies, and in 20 without copies.

#: Annotators examined, those with the most labels.  75 and 300: the same groups.
_MOST = 150
#: Least κ within a group.  0.4: groups in rte, trec and zencrowd_all; 0.8: copies with a tenth of the answers changed
#: are missed.
_TIGHT = 0.6
#: Greatest κ with others, as a share of what independence gives.  0.85: the same; 0.5: one group of duck less.
_SHARE = 0.7
#: Least size of a group: two copies do little harm.  2: a pair in dices350; 5: the same.
_FEWEST = 3
#: Greatest share of the annotators: if most agree, the others are the exception (15 classifiers of digits: without the
#: limit, the error rose from 8 to 36 %).  0.5: one of six copies is missed; 0.8: the same.
_LARGEST = 0.6
#: Standard errors by which the agreement with others must fall short.  4: groups in rte, zencrowd_us, zencrowd_all; 12:
#: the same.
_SURE = 8.0
#: Least d from which differences within a group say something about the items.  Simulated copies have -0.06 to 0.04,
#: groups of good annotators in duck, llmbar and llmjudge_trecdl23 0.10 to 0.23.
_INFORMED = 0.07
#: Least label pairs of two annotators, and of two sets of annotators.  Half and twice: the same.
_PAIR, _SETS = 10, 50


@dataclass(frozen=True)
class Copies:
    """A group of annotators who answer as one."""

    members: Ints  #: codes of the annotators
    within: float  #: κ among them
    expected: float  #: κ with the others, if all were independent
    observed: float  #: κ with the others


def find_copies(annotations: Annotations) -> tuple[Copies, ...]:
    """Return groups of three or more annotators who answer as one, and who are not most of the crowd."""
    n_labels = annotations.labels_per_annotator
    chosen = np.sort(np.argsort(-n_labels, kind="stable")[:_MOST])
    if np.count_nonzero(n_labels) < 5:
        return ()
    table = KappaTable.of(pair_moments(annotations.select_annotators(chosen)))
    found: list[Copies] = []
    while (group := _worst_group(annotations, table, chosen)) is not None:
        found.append(group)
        # without them: next to many copies, whoever differs from these looks like a group of copies, too
        kept = ~np.isin(chosen, group.members)
        chosen, table = chosen[kept], table.part(kept)
    return tuple(found)


def _worst_group(annotations: Annotations, table: KappaTable, codes: Ints) -> Copies | None:
    """Return the group of copies that agrees least with the others; the table is that of the annotators ``codes``."""
    if len(codes) < 5:
        return None
    for inside in _suspects(table):
        copies = _verdict(table, inside)
        if copies is not None and not _look_at_items(annotations, codes[inside]):
            return Copies(codes[inside], *copies)
    return None


@dataclass(frozen=True)
class KappaTable:
    """Label pairs of every two annotators, all (m, m)."""

    pairs: Floats  #: number of label pairs
    weight: Floats  #: number that could agree beyond chance
    surplus: Floats  #: number that do

    @classmethod
    def of(cls, moments: CoOccurrences) -> KappaTable:
        """Compute the tables from pair counts."""
        counts, total = moments.counts.astype(float), moments.totals
        equal = np.einsum("pii->p", counts)
        chance = (counts.sum(axis=2) * counts.sum(axis=1)).sum(axis=1) / np.maximum(total, 1.0)
        tables = np.zeros((3, moments.n_annotators, moments.n_annotators))
        m, j = moments.who.T
        for at, values in enumerate((total, np.maximum(total - chance, 0.0), equal - chance)):
            tables[at, m, j] = tables[at, j, m] = values
        return cls(*tables)

    def part(self, kept: Bools) -> KappaTable:
        """Return the tables of some annotators."""
        return KappaTable(*(values[np.ix_(kept, kept)] for values in (self.pairs, self.weight, self.surplus)))

    @property
    def kappa(self) -> Floats:
        """κ of every two annotators; 0 where they share nothing."""
        return _ratio(self.surplus, self.weight)


def _suspects(table: KappaTable) -> list[Bools]:
    """Return groups by average linkage that agree with others less than independence allows, the worst first."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    m = len(table.pairs)
    # lower bound of κ: two standard errors less, and unrelated where few labels were shared
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
        group_sums(values[np.ix_(order, order)], low, high) for values in (table.pairs, table.weight, table.surplus)
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


def _verdict(table: KappaTable, inside: Bools) -> tuple[float, float, float] | None:
    """Compare the group's agreement with the others with what the reliabilities of the others predict."""
    here, between, there = np.ix_(inside, inside), np.ix_(inside, ~inside), np.ix_(~inside, ~inside)
    within = float(table.surplus[here].sum() / table.weight[here].sum())
    weight = table.weight[between]
    across = float(table.surplus[between].sum() / weight.sum())
    error = float(_error(table.pairs[between].sum(), weight.sum()))
    reliability = one_factor(table.kappa[there], table.weight[there])
    lean = weight.sum(axis=0) * reliability
    if -np.minimum(lean, 0.0).sum() > 0.1 * np.maximum(lean, 0.0).sum():
        return None  # adversaries among the others: agreement does not show who copies
    # κ between G and O, were G independent: √(κ within G) · Σ weight · r / Σ weight
    expected = float(np.sqrt(within) * lean.sum() / weight.sum())
    copies = 0.0 <= across <= _SHARE * expected and expected - across >= _SURE * error
    return (within, expected, across) if copies else None


def _look_at_items(annotations: Annotations, members: Ints) -> bool:
    """Whether members who differ from the rest of their group agree with annotators outside it, beyond chance."""
    N, K = annotations.n_items, annotations.n_classes
    of_group = np.isin(annotations.annotator, members)
    cell = annotations.item_of_label() * K + annotations.label
    inside, outside = (np.bincount(cell[of], minlength=N * K).reshape(N, K) for of in (of_group, ~of_group))
    clear = (inside == inside.max(axis=1, keepdims=True)).sum(axis=1) == 1
    kept = np.flatnonzero(clear & (inside.sum(axis=1) > 2) & (outside.sum(axis=1) > 0))
    said, others = inside[kept].astype(float), outside[kept].astype(float)
    group = said.argmax(axis=1)
    said[np.arange(group.size), group] = 0.0  # what differs is left
    usual: Floats = np.stack([np.bincount(group, others[:, k], K) for k in range(K)], axis=1).astype(
        np.float64
    )  # (g, y)
    usual = _ratio(usual, np.broadcast_to(usual.sum(axis=1, keepdims=True), usual.shape))[group]
    beyond = (said * (others / others.sum(axis=1, keepdims=True) - usual)).sum(axis=1)
    room = (said * (1.0 - usual)).sum(axis=1)
    if room.sum() <= 0:
        return False
    return float(beyond.sum() / room.sum()) > _INFORMED


def one_factor(kappa: Floats, weight: Floats) -> Floats:
    """Return r with κ[m, j] ≈ r[m] r[j] off the diagonal, by damped coordinate-wise weighted least squares."""
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


def group_sums(values: Floats, low: Ints, high: Ints) -> Floats:
    """Sum a symmetric table within the rows from ``low`` to ``high``, between these and others, and among the others.

    For many such groups at once, (3, groups), from cumulative sums.
    """
    m = len(values)
    corner = np.zeros((m + 1, m + 1))
    corner[1:, 1:] = values.cumsum(axis=0).cumsum(axis=1)
    inside = corner[high, high] - corner[low, high] - corner[high, low] + corner[low, low]
    across = corner[high, m] - corner[low, m] - inside
    return np.stack([0.5 * inside, across, 0.5 * (corner[m, m] - inside) - across])


def _error(pairs: Floats, weight: Floats) -> Floats:
    """Return an upper bound of the standard error of κ: the standard deviation of one agreement is at most a half."""
    return _ratio(0.5 * np.sqrt(np.maximum(pairs, 0.0)), weight)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.zeros(np.shape(bottom)), where=np.asarray(bottom) > 0)
