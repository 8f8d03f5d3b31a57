"""The co-label graph: which annotators share items, and which pair blocks are missing.

Annotators are the nodes.  Two of them are joined when they labelled an item in common, so that their block ``R[m, j]``
of the block matrix (Ibrahim & Fu 2022, eqs (3) and (6)) was observed.

* Annotators in different components cannot be compared, and a bipartite component (common items only between two
  camps, never within one) fits many models equally well.
* A missing block (m, n) follows from observed ones by eqs (7)-(8) when there are l, r with (m, r), (r, l) and (l, n)
  observed: a walk of three steps from m to n.  The blocks (m, m), which are never observed, need a triangle: a walk of
  three steps back to m.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.diagnose.constants import (
    COMMON_PER_CLASS,
    EXACT_WALKS,
    LEAST_COMMON,
    MOST_CELLS,
    MOST_COMMON,
    WALK_COST,
    WALK_SAMPLE,
)
from consilience.kernels._arrays import Ints, code_counts
from consilience.kernels.grouping import drop_repeats
from consilience.moments.cooccurrence import CoOccurrences, pair_moments
from consilience.moments.graph import adjacency_rows, camps

__all__ = ["CoLabelGraph", "co_label_graph", "needed_items", "observed_pairs", "single_answers"]


def needed_items(n_classes: int) -> int:
    """Return the number of common items that a link between annotators takes."""
    return int(np.clip(COMMON_PER_CLASS * n_classes, LEAST_COMMON, MOST_COMMON))


def single_answers(annotations: Annotations, *, gold: bool = True) -> Annotations:
    """Return every annotator's last answer to every item, with known truths (gold) as one more annotator, the last."""
    a = annotations
    indptr, by, said, _ = drop_repeats(a.indptr, a.annotator, a.label, a.n_annotators, "last")
    M = a.n_annotators
    if gold and a.gold is not None:
        known = a.gold >= 0
        at = indptr[1:][known]
        by, said = np.insert(by.astype(np.int64), at, M), np.insert(said.astype(np.int64), at, a.gold[known])
        indptr = indptr + np.concatenate([[0], np.cumsum(known)])
        M += 1
    return Annotations(indptr, by, said, items=a.item_ids, annotators=Ids.range(M), classes=a.class_ids)


def observed_pairs(answers: Annotations) -> CoOccurrences:
    """Count the label pairs of all pairs of annotators.

    With too many classes for the blocks to fit in memory, the rarest are merged into one.
    """
    a = answers
    lengths, M, K = a.labels_per_item, a.n_annotators, a.n_classes
    most_pairs = max(1, min(M * (M - 1) // 2, int((lengths * (lengths - 1) // 2).sum())))
    room = max(2, int((MOST_CELLS / most_pairs) ** 0.5))
    if room < K:
        rank = np.argsort(np.argsort(-code_counts(a.label, K), kind="stable"))
        merged = np.minimum(rank, room - 1)[a.label]
        a = Annotations(
            a.indptr, a.annotator, merged, items=a.item_ids, annotators=a.annotator_ids, classes=Ids.range(room)
        )
    return pair_moments(a)


@dataclass(frozen=True, eq=False)
class CoLabelGraph:
    """The components of the co-label graph, and its missing blocks."""

    n_labels: Ints  #: labels of each annotator, (M,)
    partners: Ints  #: number of annotators that each shares an item with, (M,)
    component: Ints  #: component of each annotator, the one with most labels first; -1 without labels, (M,)
    side: Ints  #: the camp (0 or 1) of each annotator of a bipartite component, else -1, (M,)
    missing: float  #: share of the pairs of annotators that have no item in common
    imputable: float  #: share of these missing blocks that follow by eqs (7)-(8)
    triangles: float  #: share of the annotators whose own block (m, m) follows by eqs (7)-(8)
    exact: bool  #: whether the last two are exact; otherwise they are estimates from a sample

    @property
    def n_components(self) -> int:
        """Number of components among annotators with labels."""
        return int(self.component.max(initial=-1)) + 1

    @property
    def isolated(self) -> Ints:
        """Annotators with labels who share no item with anybody."""
        return np.flatnonzero((self.n_labels > 0) & (self.partners == 0))

    def members(self, component: int) -> Ints:
        """Return the annotators of a component, most labels first."""
        found = np.flatnonzero(self.component == component)
        return found[np.argsort(-self.n_labels[found], kind="stable")]

    def bipartite(self, component: int) -> bool:
        """Whether a component has two camps without a common item within either."""
        return bool(np.all(self.side[self.component == component] >= 0))


def co_label_graph(pairs: CoOccurrences, n_labels: Ints, *, seed: int = 0) -> CoLabelGraph:
    """Find components, camps and missing blocks of the co-label graph.

    Parameters
    ----------
    pairs
        The observed blocks.
    n_labels
        Labels of each annotator, (M,); annotators without labels are not part of the graph.
    seed
        Seed of the sample of annotators when there are more than ``EXACT_WALKS``.
    """
    from scipy.sparse import csr_array

    M = pairs.n_annotators
    active = n_labels > 0
    start, to = adjacency_rows(pairs)
    upper = csr_array((np.ones(len(pairs), np.float32), to, start), shape=(M, M))
    adjacency = (upper + upper.T).tocsr()
    found, side = camps(pairs)
    n_active = int(active.sum())
    possible = n_active * (n_active - 1) / 2
    imputable, triangles, exact = _walks(adjacency, np.flatnonzero(active), seed)
    return CoLabelGraph(
        n_labels=n_labels,
        partners=np.diff(adjacency.indptr).astype(np.int64),
        component=_ranked(found, n_labels),
        side=np.where(active, side, -1),
        missing=1.0 - len(pairs) / possible if possible else 0.0,
        imputable=imputable,
        triangles=triangles,
        exact=exact,
    )


def _ranked(component: Ints, n_labels: Ints) -> Ints:
    """Number components by their labels, most first, single annotators last; -1 for annotators without labels."""
    labels, size = np.bincount(component, n_labels), np.bincount(component)
    rank = np.empty(labels.size, np.int64)
    rank[np.lexsort((-labels, size == 1))] = np.arange(labels.size)
    return np.where(n_labels > 0, rank[component], -1)


def _walks(adjacency: Any, active: Ints, seed: int) -> tuple[float, float, bool]:
    """Return the share of missing blocks that are imputable, that of annotators in a triangle, and if both are exact.

    With many annotators, start and end nodes are sampled: no M × M array.
    """
    exact = active.size <= EXACT_WALKS
    if exact:
        starts = ends = active
        here = adjacency[active][:, active].toarray()
        three = (here @ here > 0).astype(np.float32) @ here > 0
        observed, in_triangle = here > 0, np.diagonal(three)
    else:
        rng = np.random.default_rng(seed)
        # two steps from m cost the sum of the degrees of m's neighbours
        cost = max(float((adjacency @ np.diff(adjacency.indptr))[active].mean()), 1.0)
        starts = rng.choice(active, max(8, min(WALK_SAMPLE, int(WALK_COST / cost))), replace=False)
        ends = rng.choice(active, WALK_SAMPLE, replace=False)
        first = adjacency[starts]
        two = first @ adjacency
        two.data[:] = 1.0
        three = (two @ adjacency[ends].T).toarray() > 0
        observed, in_triangle = first[:, ends].toarray() > 0, two.multiply(first).sum(axis=1) > 0
    missing = ~observed & (starts[:, None] != ends[None, :])
    gaps = int(missing.sum())
    imputable = float((missing & three).sum()) / gaps if gaps else 1.0
    return imputable, float(np.mean(in_triangle)), exact
