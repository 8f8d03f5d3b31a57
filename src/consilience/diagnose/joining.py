"""Labels that make annotators comparable: who should label whose items so that missing pair blocks can be imputed.

Annotators m and n who share no item have no pair block R[m, n].  It follows from three others (Ibrahim & Fu 2022,
Section 3.1, eqs (7)-(8)),

    R[m, n]  =  R[m, r] R[ℓ, r]⁻¹ R[ℓ, n],

once two *designated* annotators ℓ and r label items of others: r those that m labelled, ℓ those that n labelled, and
both some in common.  So

* two groups without a common item are joined by a designated annotator of each, who labels items of the other group,
  first those that many of its members labelled, ℓ's and r's own among them;
* two camps (a bipartite group) are joined by two annotators of the same camp who label common items: an odd cycle;
* within a group, a pair that no walk of three common items connects is joined by the best connected annotator, who
  labels items of those with whom they share none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.constants import EXACT_WALKS, JOIN_LABELS, JOIN_POOL, OUTSIDE_NOT
from consilience.diagnose.graph import co_label_graph, needed_items, observed_pairs, single_answers
from consilience.kernels._arrays import Bools, Floats, Ints

__all__ = ["Link", "links"]


class Link(NamedTuple):
    """A designated annotator, the items to label, and the reason."""

    annotator: int
    items: Ints
    reason: str
    urgent: bool  #: whether the model is not identified without it


def links(annotations: Annotations, information: Floats, doubt: Floats, able: Bools) -> Iterator[Link]:
    """Yield the labels that join annotators who cannot be compared, the most urgent first.

    Parameters
    ----------
    annotations
        The labels; gold links everybody who labelled its items.
    information
        Information of a label of each annotator, in bits, (M,).
    doubt
        Entropy of each item's posterior, (N,): of items that serve equally well, the most uncertain are taken.
    able
        Annotators who can be asked, (M,).
    """
    step = annotations.n_labels // JOIN_LABELS
    if step > 1:  # more items only add links: if nothing is missing in some of them, nothing is
        some = _Joiner(annotations.select_items(slice(0, None, step)), information, doubt, able)
        if some.complete(annotations.labels_per_annotator > 0):
            return
    joiner = _Joiner(annotations, information, doubt, able)
    yield from joiner.groups()
    yield from joiner.camps()
    yield from joiner.gaps()


class _Joiner:
    """Chooses designated annotators and their items; gold is the last annotator of ``answers``."""

    def __init__(self, annotations: Annotations, information: Floats, doubt: Floats, able: Bools) -> None:
        self.names, self.M = annotations.annotator_ids, annotations.n_annotators
        self.answers = single_answers(annotations)
        self.pairs = observed_pairs(self.answers)
        self.graph = co_label_graph(self.pairs, self.answers.labels_per_annotator)
        self.information, self.doubt, self.able = information, doubt, able
        self.needed = needed_items(annotations.n_classes)

    def complete(self, active: Bools) -> bool:
        """Whether all ``active`` annotators, (M,), can be compared."""
        g = self.graph
        everybody = bool((g.component[: self.M][active] == 0).all())
        walks = g.imputable >= 1.0 or int(active.sum()) > EXACT_WALKS  # of more annotators, gaps() joins nobody
        return everybody and not g.bipartite(0) and walks

    def groups(self) -> Iterator[Link]:
        """Join the other groups of annotators to the largest."""
        g = self.graph
        main = g.members(0)
        for c in range(1, g.n_components):
            other = g.members(c)
            labels = int(g.n_labels[other].sum())
            if labels < self.needed // 2 or (other >= self.M).all():
                continue  # joining them would cost more labels than they have
            here, there = self._designated(main), self._designated(other)
            reason = "links {} with {}, who never labelled the same item"
            urgent = labels > OUTSIDE_NOT * float(g.n_labels.sum())
            half = self.needed // 2 if here is not None and there is not None and other.size > 1 else self.needed
            if there is not None:
                words = reason.format(self._who(other), self._who(main))
                yield Link(there, self._covering(main, there, half, here), words, urgent)
            if here is not None and (other.size > 1 or there is None):
                words = reason.format(self._who(main), self._who(other))
                yield Link(here, self._covering(other, here, half, there), words, urgent)

    def camps(self) -> Iterator[Link]:
        """Let two annotators of the same camp share items, where the largest group falls into two camps."""
        g = self.graph
        main = g.members(0)
        if main.size < 3 or not g.bipartite(0):
            return
        sides = [main[(g.side[main] == side) & (main < self.M)] for side in (0, 1)]
        camp = max(sides, key=lambda side: (int(self.able[side].any()), side.size))
        two = self._best(camp, 2)
        able = two[self.able[two]]
        if two.size < 2 or not able.size:
            return
        asked = int(able[-1])
        partner = int(two[two != asked][0])
        words = f"labels items of {self.names[partner]}, so that the two can be compared directly"
        yield Link(asked, self._covering(np.array([partner]), asked, self.needed, partner), words, True)

    def gaps(self) -> Iterator[Link]:
        """Let the best connected annotator label items of those whom no walk of three steps connects with all."""
        g = self.graph
        main = g.members(0)
        main = main[main < self.M]
        if not 3 < main.size <= EXACT_WALKS or g.imputable >= 1.0 or not self.able[main].any():
            return
        near = np.zeros((g.n_labels.size, g.n_labels.size), np.float32)
        one, other = self.pairs.who.T
        near[one, other] = near[other, one] = 1.0
        walks = (near @ near > 0).astype(np.float32) @ near
        alone = (near + walks == 0) & ~np.eye(len(near), dtype=bool)
        lost = alone[np.ix_(main, main)].sum(axis=1)
        hub = int(max(main[self.able[main]], key=lambda m: (near[m].sum(), self.information[m], -m)))
        for m in main[np.argsort(-lost, kind="stable")].tolist():
            if not alone[m, main].any() or near[m, hub] > 0 or g.n_labels[m] < self.needed // 2:
                continue
            words = (
                f"labels items of {self.names[m]}, who cannot be compared with {int(alone[m, main].sum())} others yet"
            )
            yield Link(hub, self._covering(np.array([m]), hub, self.needed // 2, m), words, False)

    def _designated(self, members: Ints) -> int | None:
        found = members[(members < self.M)]
        best = self._best(found[self.able[found]], 1)
        return int(best[0]) if best.size else None

    def _best(self, members: Ints, n: int) -> Ints:
        """Return the n most informative members, weighted by their labels up to ``needed``."""
        enough = np.minimum(self.graph.n_labels[members], self.needed)
        order = np.lexsort((members, -self.information[members] * enough))
        return members[order[:n]]

    def _who(self, members: Ints) -> str:
        people = members[members < self.M]
        shown = ", ".join(str(self.names[int(m)]) for m in people[:2])
        if people.size > 2:
            return f"{shown} and {people.size - 2} more"
        return shown.replace(", ", " and ") if people.size else "the known answers"

    def _covering(self, members: Ints, asked: int, n: int, partner: int | None) -> Ints:
        """Choose n items for ``asked`` that cover the members evenly; half of them are the partner's."""
        a = self.answers
        inside = np.zeros(a.n_annotators, bool)
        inside[members] = True
        item = a.item_of_label()
        counts = np.bincount(item[inside[a.annotator]], minlength=a.n_items)
        mine = np.bincount(item[a.annotator == asked], minlength=a.n_items)
        pool = np.flatnonzero((counts > 0) & (mine == 0))
        pool = pool[np.lexsort((pool, -self.doubt[pool], -counts[pool]))][:JOIN_POOL]
        if pool.size <= n:
            return pool
        part = a.select_items(pool)
        place, who = part.item_of_label(), part.annotator.astype(np.int64)
        covered = np.where(inside, 0.0, np.inf)
        chosen = np.zeros(pool.size, bool)
        of_partner = np.zeros(pool.size, bool) if partner is None else np.bincount(place, who == partner, pool.size) > 0
        for step in range(n):
            # labels of members who are covered least count most
            value = np.bincount(place, 1.0 / (1.0 + covered[who]), pool.size) + 1e-6 * self.doubt[pool]
            if of_partner.any() and 2 * step < n:
                value = np.where(of_partner, value + pool.size, value)
            value[chosen] = -1.0
            best = int(value.argmax())
            chosen[best] = True
            covered[who[place == best]] += 1.0
        return pool[chosen]
