"""Who answers with whom beyond what the truth explains, and how many independent annotators a crowd is worth.

For two labels of an item, by annotators m and j, the other labels tell what the truth may be, q, and so how often the
two should agree.  Summed over the items that m and j share:

    excess[m, j]  =  Σ [the two agree] - Σ_k q_k Σ_i A_m(i, k) A_j(i, k),
    ρ[m, j]       =  excess / Σ √(g_m g_j),      g_m = Σ_k q_k (1 - Σ_i A_m(i, k)²).

ρ is zero on average for annotators who err independently, and one for copies; with two classes it is the correlation
of their errors.  The share of copied answers is excess / Σ (1 - expected agreement).

The effective number of independent annotators counts everybody by how many they stand with:

    M_eff  =  Σ_m 1 / (1 + Σ_(j ≠ m) ρ[m, j]),

so that k copies count as one, and errors that all correlate by ρ give M / (1 + (M - 1) ρ), the design effect of Kish
(1965).  Pairs that share too little to tell have the mean ρ of the crowd; what may be chance does not count.

What the whole crowd gets wrong together looks like the truth: without gold, ρ is what shows beyond that, and too small
where most annotators share their errors.

====== ==================================== =========
symbol name                                 shape
====== ==================================== =========
q      posterior without the two labels     (K, pairs of labels)
ρ      ``correlation``                      (P,)
====== ==================================== =========

L. Kish, "Survey sampling" (1965), section 5.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from consilience.data.annotations import Annotations
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.kernels.em import FLOOR
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.copies import find_copies
from consilience.moments.label_pairs import label_pairs, labels_of_some

__all__ = ["Dependence", "dependence", "effective_number", "groups_of_copies", "model_without"]

#: Pairs of labels to look at, about: fewer with many classes, whose squares count.
_PAIRS, _LEAST_PAIRS = 1 << 22, 1 << 13
#: Two annotators are copies when so many items in common show, so surely, that at least this share was copied.
_COMMON, _SURE, _SHARE = 20, 5.0, 0.75
#: Three or more who all agree on this share of their common items may have made the model their own.
_CLOSE = 0.9


@dataclass(frozen=True, eq=False)
class Dependence:
    """Agreement of pairs of annotators beyond what the truth explains; one entry for each pair that shares items."""

    who: Ints  #: the two annotators, (P, 2)
    common: Floats  #: items in common
    excess: Floats  #: agreements beyond the expected ones
    variance: Floats  #: of the excess, if they were independent
    scale: Floats  #: what the excess of copies would be
    room: Floats  #: items on which independence expects them to differ
    same: Floats  #: items on which they agree

    @property
    def correlation(self) -> Floats:
        """ρ of each pair, between -1 and 1."""
        return np.clip(_ratio(self.excess, self.scale), -1.0, 1.0)

    @property
    def error(self) -> Floats:
        """Standard error of ρ."""
        return _ratio(np.sqrt(self.variance), self.scale)

    @property
    def copied(self) -> Bools:
        """Which pairs are surely copies, beyond what people have in common anyway."""
        usual = max(0.0, float(self.excess.sum() / max(self.scale.sum(), 1e-300)))
        excess = self.excess - usual * self.scale
        sure = excess >= _SURE * np.sqrt(np.maximum(self.variance, 1e-12))
        enough: Bools = sure & (self.common >= _COMMON) & (_ratio(excess, self.room) >= _SHARE)
        return enough


def dependence(annotations: Annotations, model: DawidSkene, weights: Floats | None = None) -> Dependence:
    """Compare how often any two annotators agree with what the model expects.

    Parameters
    ----------
    annotations
        The labels, in the codes of the model; on items with gold the truth is known.
    model
        Prior and confusions.
    weights
        How many times the labels of each annotator count for q, (M,): once by default.
    """
    K = annotations.n_classes
    items, indptr, annotator, label = labels_of_some(annotations, max(_LEAST_PAIRS, _PAIRS // K**2))
    first, second = label_pairs(indptr)
    two = annotator[first] != annotator[second]  # repeated answers of one annotator say nothing of two
    first, second = first[two], second[two]
    M = annotations.n_annotators
    prior, A = np.maximum(model.prior, FLOOR), np.maximum(model.confusions, FLOOR)
    m, j = annotator[first], annotator[second]
    q = _without_two(prior, A, indptr, annotator, label, first, second, np.ones(M) if weights is None else weights)
    if annotations.gold is not None:
        gold = np.repeat(annotations.gold[items], np.diff(indptr))[first]
        q = np.where(gold >= 0, np.arange(K)[:, None] == gold, q)
    expected, g_m, g_j = (np.zeros(first.size) for _ in range(3))
    for k in range(K):
        of_k = np.ascontiguousarray(A[:, :, k])
        spread = 1.0 - (of_k * of_k).sum(axis=1)
        expected += q[k] * np.einsum("pi,pi->p", of_k[m], of_k[j])
        g_m += q[k] * spread[m]
        g_j += q[k] * spread[j]
    expected = np.clip(expected, 0.0, 1.0)  # rounding
    agree = (label[first] == label[second]).astype(np.float64)
    pairs, place = np.unique(np.minimum(m, j) * M + np.maximum(m, j), return_inverse=True)
    columns = (None, agree - expected, expected * (1.0 - expected), np.sqrt(g_m * g_j), 1.0 - expected, agree)
    sums = (np.bincount(place, column, pairs.size).astype(np.float64) for column in columns)
    return Dependence(np.stack([pairs // M, pairs % M], axis=1), *sums)


def _without_two(
    prior: Floats,
    A: Floats,
    indptr: Ints,
    annotator: Ints,
    label: Ints,
    first: Ints,
    second: Ints,
    weights: Floats,
) -> Floats:
    """Give the posterior that the other labels of the item lead to, (K, pairs of labels)."""
    K, n_labels = prior.size, np.diff(indptr)
    cell, weight = annotator * K + label, weights[annotator]
    log_q = np.empty((K, first.size))
    for k in range(K):
        each = np.log(A[:, :, k]).ravel()[cell] * weight
        total = np.add.reduceat(each, indptr[:-1]) if each.size else each
        rest = np.repeat(np.log(prior[k]) + total, n_labels) - each
        log_q[k] = rest[first] - each[second]
    log_q -= log_q.max(axis=0, initial=-np.inf)
    q = np.exp(log_q)
    q /= q.sum(axis=0)
    return q


def groups_of_copies(annotations: Annotations, model: DawidSkene, found: Dependence) -> list[Ints]:
    """Find annotators who answer as one, in groups of two and more.

    Two copies are seen by what the others say.  Three or more may have made the model their own, so those who agree
    almost always are given one vote together, the model is fitted again, and each is compared with the one in their
    middle while the rest of them are left out.
    """
    groups: list[Ints] = []
    known = [group.members for group in find_copies(annotations)]
    for members in (*known, *_close(found)):
        if any(np.isin(members, group).any() for group in groups):
            continue
        copies = _confirmed(annotations, model, found, members)
        if copies.size < 2 and any(members is group for group in known):
            copies = members  # by their agreement with the others they are copies all the same
        if copies.size > 1:
            groups.append(copies)
    for pair in _linked(found, found.copied, annotations.n_annotators):
        if not any(np.isin(pair, group).any() for group in groups):
            groups.append(pair)
    return groups


def _confirmed(annotations: Annotations, model: DawidSkene, found: Dependence, members: Ints) -> Ints:
    """Give those of the members who copy the one in their middle, as far as the others can tell."""
    M = annotations.n_annotators
    inside = np.isin(found.who, members).all(axis=1)
    agree = _ratio(found.same[inside], found.common[inside])
    near = np.bincount(found.who[inside, 0], agree, M) + np.bincount(found.who[inside, 1], agree, M)
    middle = int(members[near[members].argmax()])
    alone = model_without(annotations, [members])
    others = np.setdiff1d(np.arange(M), members)
    copies = [middle]
    for member in members[members != middle].tolist():
        chosen = np.sort(np.append(others, [middle, member]))
        part = DawidSkene(alone.prior, alone.confusions[chosen], model.classes, model.annotators.take(chosen))
        both = dependence(annotations.select_annotators(chosen), part)
        pair = (chosen[both.who] == np.sort([middle, member])).all(axis=1)
        if both.copied[pair].any():
            copies.append(member)
    return np.sort(copies)


def model_without(annotations: Annotations, groups: Sequence[Ints]) -> DawidSkene:
    """Fit a model in which the members of a group share one vote."""
    from consilience.methods.hierarchical import hierarchical

    weights = np.ones(annotations.n_annotators)
    for members in groups:
        weights[members] = 1.0 / members.size
    return hierarchical(annotations, weights=weights, tol=1e-5).model


def _close(found: Dependence) -> list[Ints]:
    """Give the groups of three and more annotators who hardly ever differ from each other, whatever the reason."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    close = (found.common >= _COMMON) & (found.same >= _CLOSE * found.common)
    people, place = np.unique(found.who[close], return_inverse=True)
    if people.size < 3:
        return []
    differ = np.ones((people.size, people.size))
    np.fill_diagonal(differ, 0.0)
    one, other = place.reshape(-1, 2).T
    differ[one, other] = differ[other, one] = 1.0 - _ratio(found.same, found.common)[close]
    # complete linkage: every two of a group are close
    group = fcluster(linkage(squareform(differ, checks=False), "complete"), 1.0 - _CLOSE, "distance")
    return [people[group == g] for g in np.unique(group) if (group == g).sum() > 2]


def _linked(found: Dependence, pairs: Bools, n_annotators: int) -> list[Ints]:
    """Give the groups of annotators that these pairs link."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    one, other = found.who[pairs].T
    graph = csr_array((np.ones(one.size), (one, other)), shape=(n_annotators, n_annotators))
    component = connected_components(graph, directed=False)[1]
    size = np.bincount(component, minlength=1)
    return [np.flatnonzero(component == c) for c in np.flatnonzero(size > 1)]


def effective_number(found: Dependence, active: Bools, groups: list[Ints]) -> float:
    """Give the effective number of independent annotators.

    Parameters
    ----------
    found
        What pairs of annotators show.
    active
        Who gave labels, (M,).
    groups
        Annotators who answer as one: each group counts once.
    """
    stands_for = active.astype(np.float64)
    group = np.arange(active.size)
    for members in groups:
        stands_for[members[1:]] = 0.0
        group[members] = members[0]
    M = int(stands_for.sum())
    if M < 2:
        return float(M)
    # one member stands for a group: the one whose pairs are counted
    kept = (stands_for[found.who] > 0).all(axis=1) & (found.scale > 0)
    one, other = found.who[kept].T
    rho, error = found.correlation[kept], found.error[kept]
    if not rho.size:
        return float(M)
    scale = found.scale[kept]
    mean = float(found.excess[kept].sum() / scale.sum())
    chance = float(np.sqrt(found.variance[kept].sum()) / scale.sum())
    # what may be chance does not count: a mean below two standard errors is none
    mean *= max(0.0, 1.0 - (2.0 * chance / mean) ** 2) if mean > 0 else 0.0
    # pairs differ by more than chance as far as their spread shows it: τ²
    firm = np.abs(rho - mean) >= _SURE * error
    rest = ~firm
    tau = (
        max(0.0, float(np.average((rho - mean)[rest] ** 2 - error[rest] ** 2, weights=scale[rest])))
        if rest.any()
        else 0.0
    )
    held = np.where(firm, rho, mean + (rho - mean) * tau / np.maximum(tau + error**2, 1e-300))
    around = np.bincount(one, held - mean, active.size) + np.bincount(other, held - mean, active.size)
    total = 1.0 + (M - 1) * mean + around
    return float(np.sum(stands_for / np.maximum(total, 1.0)))


def _ratio(top: Floats, bottom: Floats) -> Floats:
    ratio: Floats = np.divide(top, bottom, out=np.zeros(np.shape(top)), where=bottom > 0)
    return ratio
