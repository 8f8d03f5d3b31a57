"""Which label to collect next where items are not judged by confusion matrices: the largest gain for its cost first.

Gains never grow with further labels on an item, so an item whose gain is still the largest of all when computed anew is
the best (lazy greedy).
"""

from __future__ import annotations

import heapq

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.constants import CONSIDERED, LEAST_CONSIDERED
from consilience.diagnose.plan_prospects import MOST_PLANNED, Prospects
from consilience.kernels._arrays import Floats, Ints

__all__ = ["Choice", "Chooser"]

#: Smallest gain that counts, and slack of sums of costs.
_LEAST, _SLACK = 1e-12, 1e-9

#: Item, annotator and gain of a label.
Choice = tuple[int, int, float]


class Chooser:
    """Chooses labels within a budget.

    Parameters
    ----------
    prospects
        What labels would tell.
    annotations
        The labels so far: nobody is asked twice about an item.
    open_to
        Who can be asked about which item, as :func:`consilience.diagnose.plan_input.open_pairs` returns it.
    price
        Cost of a label of each annotator, (M,).
    budget, labels
        What labels may cost, and about how many that buys.
    """

    def __init__(
        self,
        prospects: Prospects,
        annotations: Annotations,
        open_to: tuple[Ints, Ints],
        price: Floats,
        budget: float,
        labels: float,
    ) -> None:
        self.prospects, self.annotations, self.open_to, self.price = prospects, annotations, open_to, price
        self.rest = budget
        self.chosen: list[Choice] = []
        self.asked: dict[int, list[int]] = {}
        doubt = prospects.doubt
        first = np.argsort(-doubt, kind="stable")[: int(max(CONSIDERED * labels, LEAST_CONSIDERED))]
        self.items = first[doubt[first] > _LEAST]

    def spend(self, limit: Ints) -> None:
        """Choose labels while there is budget, at most ``limit`` of each annotator in all, (M,)."""
        left = limit - np.bincount([m for _, m, _ in self.chosen], minlength=limit.size).astype(np.int64)
        heap: list[tuple[float, int, int]] = []
        waiting = self.items.tolist()
        while True:
            for n in waiting:
                if (found := self._best(n, left)) is not None:
                    heapq.heappush(heap, (-found[1] / self.price[found[0]], n, found[0]))
            if not heap:
                return
            gain, n, m = heapq.heappop(heap)
            waiting = [n]
            if left[m] > 0 and self.price[m] <= self.rest + _SLACK:
                self.chosen.append((n, m, -gain * float(self.price[m])))
                self.asked.setdefault(n, []).append(m)
                left[m] -= 1
                self.rest -= float(self.price[m])

    def _best(self, n: int, left: Ints) -> tuple[int, float] | None:
        """Return the best annotator to ask about an item, and the gain; None if nobody can be asked."""
        planned, (start, who) = self.asked.get(n, []), self.open_to
        a, price = self.annotations, self.price
        able = who[start[n] : start[n + 1]] if start.size else who
        gone = a.annotator[a.indptr[n] : a.indptr[n + 1]]
        people = able[(left[able] > 0) & (price[able] <= self.rest + _SLACK) & ~np.isin(able, [*planned, *gone])]
        if not people.size or len(planned) >= MOST_PLANNED:
            return None
        gains = self.prospects.gains(n, planned, people)
        at = int(np.argmax(gains / price[people]))
        return (int(people[at]), float(gains[at])) if gains[at] > _LEAST else None
