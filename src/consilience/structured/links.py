r"""Must-link and cannot-link constraints: pairs of items that have, or have not, the same class (thesis, 5.2.2).

* **Must-link.**  Items that are linked, directly or through others, are merged into one before the fit: it has the
  labels, the neighbours and the known answer of all of them.  This is exact, where a strong coupling would make a
  mean field follow whichever item it updates first.
* **Cannot-link.**  A pair has the potential of (4.14) with the opposite sign,

  .. math:: \Pr(y) \propto \exp\Big( \ldots - \sum_{(n, n')} \kappa\, c_{y_n} [y_n = y_{n'}] \Big),

  so that the same class multiplies the odds by :math:`e^{-\kappa}`.  An edge of the graph between the two is dropped.

====== ==================== =======================================
symbol name                 meaning
====== ==================== =======================================
κ      ``link_strength``    of a cannot-link pair
..     ``group``            (N,), the merged item of each item
====== ==================== =======================================
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.exceptions import DataError
from consilience.kernels._arrays import Floats, Ints
from consilience.structured.graph import Graph, as_graph

__all__ = ["LINK_STRENGTH", "joined_strengths", "linked_groups", "merged_annotations", "merged_graph", "without_pairs"]

#: κ by default: a violated pair has odds of e^-3, one in 20.
#: origin: simulated networks, seeds 0-7; sensitivity: of 12.3 % wrong, 50 pairs of neighbours leave 3.6, 2.6, 2.6, 4.4
#: and 6.8 % with κ = 1, 2, 3, 5 and 8, random pairs 9.5, 9.1, 9.2, 10.0 and 13.7 %.  A mean field with a hard coupling
#: keeps what it guessed first.
LINK_STRENGTH = 3.0


def linked_groups(must_link: Any, annotations: Annotations) -> Ints:
    """Return the merged item of each item, (N,), numbered in the order of their first items."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    low, high, _ = as_graph(must_link, annotations).edges()
    N = annotations.n_items
    _, component = connected_components(coo_array((np.ones(low.size), (low, high)), shape=(N, N)), directed=False)
    _, first, group = np.unique(component, return_index=True, return_inverse=True)
    order = np.empty(first.size, np.int64)
    order[np.argsort(first)] = np.arange(first.size)
    return np.asarray(order[group.reshape(-1)], np.int64)


def merged_annotations(annotations: Annotations, group: Ints) -> Annotations:
    """Return annotations whose items are the groups, named after their first items."""
    a = annotations
    _, first = np.unique(group, return_index=True)
    gold = None
    if a.gold is not None:
        gold = np.full(first.size, -1, np.int32)
        known = np.flatnonzero(a.gold >= 0)
        gold[group[known]] = a.gold[known]
        bad = known[gold[group[known]] != a.gold[known]]
        if bad.size:
            raise DataError(
                f"must_link joins items with different known answers, such as {a.items[bad[0]]!r}; remove the link or "
                "correct the answer"
            )
    order = np.argsort(group[a.item_of_label()], kind="stable")
    counts = np.bincount(group, a.labels_per_item, first.size).astype(np.int64)
    return Annotations(
        np.concatenate([[0], np.cumsum(counts)]),
        a.annotator[order],
        a.label[order],
        items=a.item_ids.take(first),
        annotators=a.annotator_ids,
        classes=a.class_ids,
        gold=gold,
        origin=a.origin,
    )


def merged_graph(graph: Graph, group: Ints) -> Graph:
    """Return the graph of the merged items; edges within a group are dropped."""
    low, high, weight = graph.edges()
    return Graph.from_edges(group[low], group[high], weight, n_items=int(group.max()) + 1)


def without_pairs(graph: Graph, pairs: Graph) -> Graph:
    """Return the graph without the edges of ``pairs``."""
    low, high, weight = graph.edges()
    far, away, _ = pairs.edges()
    kept = ~np.isin(low * graph.n_items + high, far * graph.n_items + away)
    return Graph.from_edges(low[kept], high[kept], weight[kept], n_items=graph.n_items)


def joined_strengths(graph: Graph, strength: Floats, apart: Graph, kappa: float) -> tuple[Graph, Floats]:
    """Return the graph of edges and cannot-link pairs, and the strength of each, -κ for a pair."""
    start = [np.repeat(np.arange(each.n_items), each.degree) for each in (graph, apart)]
    source = np.concatenate(start)
    target = np.concatenate([graph.neighbour, apart.neighbour])
    values = np.concatenate([strength, np.full(apart.neighbour.size, -kappa)])
    order = np.lexsort((target, source))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=graph.n_items))])
    weight = np.concatenate([graph.weight, apart.weight])[order]
    return Graph(indptr, target[order].astype(np.int32), weight), values[order]
