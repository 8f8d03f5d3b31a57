"""Who has items in common with whom: the co-label graph, its groups, and whether their pairs determine them.

Annotators are nodes; an edge joins two who labelled an item in common.  In a group (a connected component) that is
bipartite, U_m → U_m T on one side and U_j → U_j T⁻ᵀ on the other leave every observed block R[m, j] = U_m U_jᵀ as it
is, whatever T: pairs cannot tell.  An odd cycle rules that out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from consilience.kernels._arrays import Ints
from consilience.moments.cooccurrence import CoOccurrences

__all__ = ["CoLabelGraph", "Group", "co_label_graph"]


@dataclass(frozen=True, eq=False)
class Group:
    """Annotators that are joined by common items."""

    members: Ints
    bipartite: bool

    @property
    def determined(self) -> bool:
        """Whether the pairs of its members can determine their confusions: three or more of them, not bipartite."""
        return self.members.size >= 3 and not self.bipartite


@dataclass(frozen=True, eq=False)
class CoLabelGraph:
    """The groups of a crowd, the largest first."""

    n_annotators: int
    groups: tuple[Group, ...]


def co_label_graph(pairs: CoOccurrences) -> CoLabelGraph:
    """Find the groups of annotators that common items join, and which of them are bipartite."""
    M = pairs.n_annotators
    first, second = pairs.who.T
    ones = np.ones(2 * len(pairs), np.int8)
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    graph = coo_array((ones, (rows, columns)), shape=(M, M)).tocsr()
    _, component = connected_components(graph, directed=False)
    order = np.argsort(component, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(component[order])) + 1) if M else []
    # two-colour each component by the depth of a breadth-first tree: bipartite unless an edge joins equal colours
    colour = np.zeros(M, np.int8)
    for group in members:
        if group.size > 1:
            walk, parent = breadth_first_order(graph, int(group[0]), directed=False)
            depth = _depths(walk, parent)
            colour[walk] = depth[walk] % 2
    clash = np.zeros(M, np.bool_)
    if len(pairs):
        clash[component[first[colour[first] == colour[second]]]] = True
    groups = [Group(group.astype(np.int64), not clash[component[group[0]]]) for group in members]
    return CoLabelGraph(M, tuple(sorted(groups, key=lambda g: (-g.members.size, int(g.members[0])))))


def _depths(walk: Ints, parent: Ints) -> Ints:
    """Give the depth of every node of a breadth-first tree, level by level."""
    depth = np.full(parent.size, -1, np.int64)
    depth[walk[0]] = 0
    rest = np.asarray(walk[1:])
    level = 0
    while rest.size:
        here = depth[parent[rest]] == level
        depth[rest[here]] = level + 1
        rest = rest[~here]
        level += 1
    return depth
