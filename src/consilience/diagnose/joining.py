"""Labels that make annotators comparable: who should label whose items so that missing pair blocks can be had.

Annotators m and n who share no item have no pair block R[m, n].  It follows from three others (Ibrahim & Fu 2022,
Section 3.1, eqs (7)-(8)),

    R[m, n]  =  R[m, r] R[ℓ, r]⁻¹ R[ℓ, n],

once two *designated* annotators ℓ and r label items of others: r those that m labelled, ℓ those that n labelled, and
both some in common.  So

* two groups without a common item are joined by a designated annotator of each, who labels items of the other group,
  those first that many of its members labelled, ℓ's and r's own among them;
* two camps (a bipartite group) are joined by two annotators of the same camp who label common items: an odd cycle;
* within a group, a pair that no walk of three common items connects is joined by the annotator whom most know, who
  labels items of those whom he does not share any with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.graph import CoLabelGraph, co_label_graph, observed_pairs, single_answers
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.moments.cooccurrence import CoOccurrences

__all__ = ["Link", "links", "needed_items"]

#: Common items that a link takes: ten for each class pin a confusion down to ±0.16.
_PER_CLASS, _LEAST, _MOST = 10, 20, 200
#: Items that are looked at for one link.
_POOL = 4000
#: Up to this many annotators, walks of three steps are counted.
_EXACT = 3000


class Link(NamedTuple):
    """A designated annotator, the items to be labelled, and why."""

    annotator: int
    items: Ints
    reason: str
    urgent: bool  #: whether the model is not identified without it


def needed_items(n_classes: int) -> int:
    """Give the number of common items that a link takes."""
    return int(np.clip(_PER_CLASS * n_classes, _LEAST, _MOST))


def links(annotations: Annotations, information: Floats, doubt: Floats, able: Bools) -> Iterator[Link]:
    """Give the labels that join what cannot be compared, the most urgent first.

    Parameters
    ----------
    annotations
        The labels; gold links everybody who labelled its items.
    information
        Bits that a label of each annotator tells, (M,).
    doubt
        Entropy of each item's posterior, (N,): of items that serve as well, the most doubtful are taken.
    able
        Who can be asked, (M,).
    """
    answers = single_answers(annotations)
    pairs = observed_pairs(answers)
    graph = co_label_graph(pairs, answers.labels_per_annotator)
    house = _House(answers, graph, annotations.n_annotators, information, doubt, able, needed_items(answers.n_classes))
    yield from house.groups(annotations)
    yield from house.camps(annotations)
    yield from house.gaps(annotations, pairs)


@dataclass(frozen=True, eq=False)
class _House:
    """What links are made of; gold is the last annotator of ``answers``."""

    answers: Annotations
    graph: CoLabelGraph
    M: int
    information: Floats
    doubt: Floats
    able: Bools
    needed: int

    def groups(self, annotations: Annotations) -> Iterator[Link]:
        """Join the other groups of annotators to the largest."""
        g, names = self.graph, annotations.annotator_ids
        main = g.members(0)
        for c in range(1, g.n_components):
            other = g.members(c)
            labels = int(g.n_labels[other].sum())
            if labels < self.needed // 2 or (other >= self.M).all():
                continue  # joining them would cost more than they have said
            here, there = self._designated(main), self._designated(other)
            reason = "links {} with {}, who never labelled the same item"
            # urgent where a tenth of all labels cannot be compared with the rest
            urgent = labels > 0.1 * float(g.n_labels.sum())
            half = self.needed // 2 if here is not None and there is not None and other.size > 1 else self.needed
            if there is not None:
                words = reason.format(self._who(names, other), self._who(names, main))
                yield Link(there, self._covering(main, there, half, here), words, urgent)
            if here is not None and (other.size > 1 or there is None):
                words = reason.format(self._who(names, main), self._who(names, other))
                yield Link(here, self._covering(other, here, half, there), words, urgent)

    def camps(self, annotations: Annotations) -> Iterator[Link]:
        """Give two annotators of the same camp common items, where the largest group falls into two camps."""
        g, names = self.graph, annotations.annotator_ids
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
        words = f"shares items with {names[partner]}: nobody who labels as they do checks either of them"
        yield Link(asked, self._covering(np.array([partner]), asked, self.needed, partner), words, True)

    def gaps(self, annotations: Annotations, pairs: CoOccurrences) -> Iterator[Link]:
        """Let the annotator whom most know label items of those whom no walk of three steps connects with all."""
        g, names = self.graph, annotations.annotator_ids
        main = g.members(0)
        main = main[main < self.M]
        if not 3 < main.size <= _EXACT or g.imputable >= 1.0 or not self.able[main].any():
            return
        near = np.zeros((g.n_labels.size, g.n_labels.size), np.float32)
        one, other = pairs.who.T
        near[one, other] = near[other, one] = 1.0
        walks = (near @ near > 0).astype(np.float32) @ near
        alone = (near + walks == 0) & ~np.eye(len(near), dtype=bool)
        lost = alone[np.ix_(main, main)].sum(axis=1)
        hub = int(max(main[self.able[main]], key=lambda m: (near[m].sum(), self.information[m], -m)))
        for m in main[np.argsort(-lost, kind="stable")].tolist():
            if not alone[m, main].any() or near[m, hub] > 0 or g.n_labels[m] < self.needed // 2:
                continue
            words = f"shares items with {names[m]}, who cannot be compared with {int(alone[m, main].sum())} others yet"
            yield Link(hub, self._covering(np.array([m]), hub, self.needed // 2, m), words, False)

    def _designated(self, members: Ints) -> int | None:
        found = members[(members < self.M)]
        best = self._best(found[self.able[found]], 1)
        return int(best[0]) if best.size else None

    def _best(self, members: Ints, n: int) -> Ints:
        """Give those who tell most, of people with enough labels to know it."""
        enough = np.minimum(self.graph.n_labels[members], self.needed)
        order = np.lexsort((members, -self.information[members] * enough))
        return members[order[:n]]

    def _who(self, names: object, members: Ints) -> str:
        people = members[members < self.M]
        shown = ", ".join(str(names[int(m)]) for m in people[:2])  # type: ignore[index]
        if people.size > 2:
            return f"{shown} and {people.size - 2} more"
        return shown.replace(", ", " and ") if people.size else "the known answers"

    def _covering(self, members: Ints, asked: int, n: int, partner: int | None) -> Ints:
        """Choose items for ``asked`` that many members labelled, each about as often; half are a partner's."""
        a = self.answers
        inside = np.zeros(a.n_annotators, bool)
        inside[members] = True
        item = a.item_of_label()
        counts = np.bincount(item[inside[a.annotator]], minlength=a.n_items)
        mine = np.bincount(item[a.annotator == asked], minlength=a.n_items)
        pool = np.flatnonzero((counts > 0) & (mine == 0))
        pool = pool[np.lexsort((pool, -self.doubt[pool], -counts[pool]))][:_POOL]
        if pool.size <= n:
            return pool
        part = a.select_items(pool)
        place, who = part.item_of_label(), part.annotator.astype(np.int64)
        covered = np.where(inside, 0.0, np.inf)
        chosen = np.zeros(pool.size, bool)
        of_partner = np.zeros(pool.size, bool) if partner is None else np.bincount(place, who == partner, pool.size) > 0
        for step in range(n):
            # an item counts by its labels of members who were covered least
            value = np.bincount(place, 1.0 / (1.0 + covered[who]), pool.size) + 1e-6 * self.doubt[pool]
            if of_partner.any() and 2 * step < n:
                value = np.where(of_partner, value + pool.size, value)
            value[chosen] = -1.0
            best = int(value.argmax())
            chosen[best] = True
            covered[who[place == best]] += 1.0
        return pool[chosen]
