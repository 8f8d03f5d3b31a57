"""Annotators who err together: the correlation of each pair, copies, and the effective number of independent ones.

The excess agreement of :mod:`consilience.diagnose.error_correlation` is summed over the items that m and j share:
ρ[m, j] is zero on average for annotators who err independently, and one for copies.  The share of copied answers is
excess / Σ (1 - expected agreement).

The effective number of independent annotators is

    M_eff  =  Σ_m 1 / (1 + Σ_(j ≠ m) ρ[m, j]),

so that k copies count as one, and errors that all correlate by ρ give M / (1 + (M - 1) ρ), the design effect of Kish
(1965).  Pairs that share too few items have the mean ρ of the crowd; what chance explains does not count.

Errors that the whole crowd shares look like the truth.  Without gold, ρ shows only what goes beyond that, and is too
small where most annotators share their errors.

====== ==================================== =========
symbol name                                 shape
====== ==================================== =========
ρ      ``correlation``                      (P,)
====== ==================================== =========

L. Kish, "Survey sampling" (1965), section 5.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.constants import (
    CLOSE_AGREEMENT,
    COPIED_SHARE,
    COPY_COMMON,
    COPY_ERRORS,
    LEAST_PAIRS,
    MOST_PAIRS,
)
from consilience.diagnose.error_correlation import label_pair_agreement
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.copies import find_copies

__all__ = ["Dependence", "dependence", "effective_number", "group_weights", "groups_of_copies", "model_without"]


@dataclass(frozen=True, eq=False)
class Dependence:
    """Agreement of pairs of annotators beyond what the truth explains; one entry for each pair that shares items."""

    who: Ints  #: the two annotators, (P, 2)
    common: Floats  #: items in common
    excess: Floats  #: agreements beyond the expected ones
    variance: Floats  #: variance of the excess of independent annotators
    scale: Floats  #: Σ √(g_m g_j), the excess of copies
    room: Floats  #: expected disagreements of independent annotators
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
        """Which pairs are surely copies, beyond the mean correlation of the crowd."""
        usual = max(0.0, float(self.excess.sum() / max(self.scale.sum(), 1e-300)))
        excess = self.excess - usual * self.scale
        sure = excess >= COPY_ERRORS * np.sqrt(np.maximum(self.variance, 1e-12))
        enough: Bools = sure & (self.common >= COPY_COMMON) & (_ratio(excess, self.room) >= COPIED_SHARE)
        return enough


def dependence(annotations: Annotations, model: DawidSkene, weights: Floats | None = None) -> Dependence:
    """Compare how often any two annotators agree with what the model expects.

    Parameters
    ----------
    annotations
        The labels, in the codes of the model; gold is used where it is known.
    model
        Prior and confusions.
    weights
        Weight of each annotator's labels in the posterior of the others, (M,); 1 by default.
    """
    M, most = annotations.n_annotators, max(LEAST_PAIRS, MOST_PAIRS // annotations.n_classes**2)
    m, j, agree, expected, scale = label_pair_agreement(annotations, model, most, weights=weights, gold=True)
    pairs, place = np.unique(np.minimum(m, j) * M + np.maximum(m, j), return_inverse=True)
    columns = (None, agree - expected, expected * (1.0 - expected), scale, 1.0 - expected, agree)
    sums = (np.bincount(place, column, pairs.size).astype(np.float64) for column in columns)
    return Dependence(np.stack([pairs // M, pairs % M], axis=1), *sums)


def groups_of_copies(annotations: Annotations, model: DawidSkene, found: Dependence) -> list[Ints]:
    """Find groups of two or more annotators who answer as one.

    Two copies show in what the others say.  Three or more may dominate the model.  So those who agree almost always
    get one vote together, the model is fitted again, and each is compared with the most central member while the rest
    of the group is left out.
    """
    groups: list[Ints] = []
    known = [group.members for group in find_copies(annotations)]
    for members in (*known, *_close(found)):
        if any(np.isin(members, group).any() for group in groups):
            continue
        copies = _confirmed(annotations, model, found, members)
        if copies.size < 2 and any(members is group for group in known):
            copies = members  # copies by their agreement with the others
        if copies.size > 1:
            groups.append(copies)
    for pair in _linked(found, found.copied, annotations.n_annotators):
        if not any(np.isin(pair, group).any() for group in groups):
            groups.append(pair)
    return groups


def _confirmed(annotations: Annotations, model: DawidSkene, found: Dependence, members: Ints) -> Ints:
    """Return the members who copy the most central one, judged by annotators outside the group."""
    M = annotations.n_annotators
    inside = np.isin(found.who, members).all(axis=1)
    agree = _ratio(found.same[inside], found.common[inside])
    near = np.bincount(found.who[inside, 0], agree, M) + np.bincount(found.who[inside, 1], agree, M)
    central = int(members[near[members].argmax()])
    alone = model_without(annotations, [members])
    others = np.setdiff1d(np.arange(M), members)
    copies = [central]
    for member in members[members != central].tolist():
        chosen = np.sort(np.append(others, [central, member]))
        part = DawidSkene(alone.prior, alone.confusions[chosen], model.classes, model.annotators.take(chosen))
        both = dependence(annotations.select_annotators(chosen), part)
        pair = (chosen[both.who] == np.sort([central, member])).all(axis=1)
        if both.copied[pair].any():
            copies.append(member)
    return np.sort(copies)


def group_weights(n_annotators: int, groups: Sequence[Ints]) -> Floats:
    """Return weights (M,) that give each group one vote together."""
    weights = np.ones(n_annotators)
    for members in groups:
        weights[members] = 1.0 / members.size
    return weights


def model_without(annotations: Annotations, groups: Sequence[Ints]) -> DawidSkene:
    """Fit a model in which the members of a group share one vote."""
    from consilience.methods.hierarchical import Hierarchy

    weights = group_weights(annotations.n_annotators, groups)
    return Hierarchy(annotations, weights=weights).climb(max_iter=1000, tol=1e-5).model


def _close(found: Dependence) -> list[Ints]:
    """Return groups of three or more annotators who hardly ever differ from each other, for any reason."""
    close = (found.common >= COPY_COMMON) & (found.same >= CLOSE_AGREEMENT * found.common)
    people, place = np.unique(found.who[close], return_inverse=True)
    if people.size < 3:
        return []
    from scipy.cluster.hierarchy import fcluster, linkage  # slow to import
    from scipy.spatial.distance import squareform

    differ = np.ones((people.size, people.size))
    np.fill_diagonal(differ, 0.0)
    one, other = place.reshape(-1, 2).T
    differ[one, other] = differ[other, one] = 1.0 - _ratio(found.same, found.common)[close]
    # complete linkage: every two of a group are close
    group = fcluster(linkage(squareform(differ, checks=False), "complete"), 1.0 - CLOSE_AGREEMENT, "distance")
    return [people[group == g] for g in np.unique(group) if (group == g).sum() > 2]


def _linked(found: Dependence, pairs: Bools, n_annotators: int) -> list[Ints]:
    """Return the connected components of these pairs."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    one, other = found.who[pairs].T
    graph = csr_array((np.ones(one.size), (one, other)), shape=(n_annotators, n_annotators))
    component = connected_components(graph, directed=False)[1]
    size = np.bincount(component, minlength=1)
    return [np.flatnonzero(component == c) for c in np.flatnonzero(size > 1)]


def effective_number(found: Dependence, active: Bools, groups: list[Ints]) -> float:
    """Return the effective number of independent annotators.

    Parameters
    ----------
    found
        Agreement of pairs of annotators.
    active
        Annotators with labels, (M,).
    groups
        Annotators who answer as one: each group counts once.
    """
    counted = active.astype(np.float64)
    for members in groups:
        counted[members[1:]] = 0.0  # the pairs of one member stand for the group
    M = int(counted.sum())
    kept = (counted[found.who] > 0).all(axis=1) & (found.scale > 0)
    if M < 2 or not kept.any():
        return float(M)
    one, other = found.who[kept].T
    rho, error, scale = found.correlation[kept], found.error[kept], found.scale[kept]
    mean = float(found.excess[kept].sum() / scale.sum())
    chance = float(np.sqrt(found.variance[kept].sum()) / scale.sum())
    # a mean below two standard errors counts as zero
    mean *= max(0.0, 1.0 - (2.0 * chance / mean) ** 2) if mean > 0 else 0.0
    # τ²: variance of ρ between pairs beyond its sampling error; ρ is shrunk towards the mean by τ² / (τ² + error²)
    firm = np.abs(rho - mean) >= COPY_ERRORS * error
    rest = ~firm
    beyond = np.average((rho - mean)[rest] ** 2 - error[rest] ** 2, weights=scale[rest]) if rest.any() else 0.0
    tau = max(0.0, float(beyond))
    shrunk = np.where(firm, rho, mean + (rho - mean) * tau / np.maximum(tau + error**2, 1e-300))
    around = np.bincount(one, shrunk - mean, active.size) + np.bincount(other, shrunk - mean, active.size)
    return float(np.sum(counted / np.maximum(1.0 + (M - 1) * mean + around, 1.0)))


def _ratio(top: Floats, bottom: Floats) -> Floats:
    ratio: Floats = np.divide(top, bottom, out=np.zeros(np.shape(top)), where=bottom > 0)
    return ratio
