"""Groups of annotators in the co-label graph, and whether their pairs determine the confusions.

Annotators are nodes; an edge joins two who labelled an item in common.  In a group (a connected component) that is
bipartite, U_m → U_m T on one side and U_j → U_j T⁻ᵀ on the other leave every observed block R[m, j] = U_m U_jᵀ as it
is, whatever T: pairs do not determine the factors.  An odd cycle rules that out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.kernels._arrays import Ints
from consilience.kernels.grouping import components
from consilience.moments.cooccurrence import CoOccurrences

__all__ = ["Group", "adjacency_rows", "camps", "groups"]


@dataclass(frozen=True, eq=False)
class Group:
    """Annotators who are joined by common items."""

    members: Ints
    bipartite: bool

    @property
    def determined(self) -> bool:
        """Whether the pairs of its members can determine their confusions: three or more of them, not bipartite."""
        return self.members.size >= 3 and not self.bipartite


def groups(pairs: CoOccurrences) -> tuple[Group, ...]:
    """Return the groups of annotators that common items join, the largest first."""
    component, side = camps(pairs)
    order = np.argsort(component, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(component[order])) + 1) if order.size else []
    found = [Group(who.astype(np.int64), bool(side[who[0]] >= 0)) for who in members]
    return tuple(sorted(found, key=lambda group: (-group.members.size, int(group.members[0]))))


def camps(pairs: CoOccurrences) -> tuple[Ints, Ints]:
    """Return the component of each annotator, and their camp (0 or 1) where it is bipartite, otherwise -1."""
    M = pairs.n_annotators
    # Two copies of every annotator, each joined to the other copy of their partners: a component without an odd cycle
    # falls apart into two, the others do not.  The part of an annotator's first copy is their camp.
    edges = np.concatenate([pairs.who + np.array([0, M]), pairs.who + np.array([M, 0])])
    halves = components(2 * np.arange(len(edges) + 1), edges.ravel(), 2 * M)
    either = np.minimum(halves[:M], halves[M:])
    side = np.where(halves[:M] == halves[M:], -1, halves[:M] > either)
    return np.unique(either, return_inverse=True)[1], side


def adjacency_rows(pairs: CoOccurrences) -> tuple[Ints, Any]:
    """Return the upper half of the adjacency matrix as compressed rows; pairs are already in order."""
    start = np.concatenate([[0], np.cumsum(np.bincount(pairs.who[:, 0], minlength=pairs.n_annotators))])
    return start, pairs.who[:, 1]
