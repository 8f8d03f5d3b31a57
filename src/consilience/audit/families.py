"""Families: judges whose errors go together, by the correlations of errors of every two.

Average linkage joins judges as long as the mean lower bound (two standard errors) of the correlations between them is
at least ``FAMILY``.  Without known answers, errors that most judges share look like the truth, and do not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilience.audit.constants import FAMILY, FAMILY_COMMON, FAMILY_GOLD, MOST_JUDGES
from consilience.data.annotations import Annotations
from consilience.diagnose.dependence import dependence, model_without
from consilience.kernels._arrays import Floats, Ints

__all__ = ["Families", "find_families"]


@dataclass(frozen=True, eq=False)
class Families:
    """Groups of judges, the largest first."""

    members: list[Ints]
    correlation: list[float]  #: mean correlation of errors within each
    by_gold: bool


def find_families(annotations: Annotations) -> Families:
    """Return the families; known answers are used if there are enough."""
    a = annotations
    M = a.n_annotators
    known = np.zeros(a.n_items, bool) if a.gold is None else (a.gold >= 0) & (a.labels_per_item > 1)
    by_gold = int(known.sum()) >= FAMILY_GOLD
    if M < 3 or M > MOST_JUDGES or a.n_classes < 2 or not (a.labels_per_item > 1).any():
        return Families([], [], False)
    a = a.select_items(known) if by_gold else a
    found = dependence(a, model_without(a, ()))
    rho, low = np.zeros((M, M)), np.zeros((M, M))
    one, other = found.who.T
    rho[one, other] = rho[other, one] = found.correlation
    bound = np.where(found.common >= FAMILY_COMMON, found.correlation - 2.0 * found.error, 0.0)
    low[one, other] = low[other, one] = bound
    names = np.argsort(a.annotator_ids.sorted()[1])  # so that equal distances do not depend on the order of the rows
    groups = [np.sort(names[members]) for members in _linked(low[np.ix_(names, names)])]
    mean = [float(rho[np.ix_(g, g)].sum() / (g.size * (g.size - 1))) for g in groups]
    order = sorted(range(len(groups)), key=lambda i: (-groups[i].size, -mean[i]))
    return Families([groups[i] for i in order], [mean[i] for i in order], by_gold)


def _linked(low: Floats) -> list[Ints]:
    """Return the groups of two or more whose mean bound is at least ``FAMILY``."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distance = np.clip(1.0 - low, 0.0, 2.0)
    np.fill_diagonal(distance, 0.0)
    group = fcluster(linkage(squareform(distance, checks=False), "average"), 1.0 - FAMILY, "distance")
    return [np.flatnonzero(group == g) for g in np.unique(group) if (group == g).sum() > 1]
