"""EM by conjugate steps, over all items and, while most of these are settled, over the open ones.

1. Steps over all items (:mod:`consilience.fitting.conjugate`).  At the third pass, the sixth, the twelfth … a look
   tells how many labels open items have (:mod:`consilience.fitting.open_items`).
2. If they are few, rounds of steps over open items, until one gains a quarter of the best at most, and one over all
   items, which renews the posteriors of settled ones.
3. When a round gains more than a quarter of what the round before did, settled items are what holds it up, for they
   move once a round: back to 1.

What has converged is decided by an EM step over all items.
"""

from __future__ import annotations

from typing import NoReturn

from consilience.engine.checkpoint import Keeper
from consilience.engine.passes import Passes
from consilience.engine.progress import Callback
from consilience.fitting.conjugate import Ascent, Before, Step
from consilience.fitting.ledger import Ended, Ledger, Model, Stop
from consilience.fitting.m_steps import Parameters
from consilience.fitting.open_items import OpenItems
from consilience.kernels.em import Statistics

__all__ = ["run_narrowing"]

#: The pass that is the first look; the next are at twice as many each.
_FIRST_LOOK = 3
#: It is put off while the EM step promises less than so many times the tolerance: there is little left to do.
_FAR = 1e4
#: A step over open items that gains at most this share of the best one ends a round, and so do so many steps.  A round
#: that gains more than this share of the round before is the last.
_LITTLE, _MOST = 0.25, 8


def run_narrowing(
    model: Model[Parameters, Statistics],
    start: Parameters,
    passes: Passes,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
    keeper: Keeper | None = None,
) -> Ended[Parameters]:
    """Run EM from ``start`` until an EM step changes the objective by at most ``tol`` (relative).

    With ``tol=0`` all ``max_iter`` passes are run.  A ``keeper`` keeps the state between steps; where it has one, EM
    goes on from there.
    """
    ledger = Ledger(model, start, max_iter, tol, callback, passes.n_labels)
    run = _Run(ledger, OpenItems(passes), keeper)
    try:
        run.begin(start)
    except Stop:
        return ledger.ended()


class _Run:
    """Steps over all items, and rounds of steps over open ones; a ``keeper`` is told between them where it stands."""

    def __init__(self, ledger: Ledger[Parameters, Statistics], items: OpenItems, keeper: Keeper | None) -> None:
        self.ledger, self.items, self.keeper = ledger, items, keeper
        self.next_look = _FIRST_LOOK if items.worth_a_look else ledger.max_iter + 1

    def begin(self, start: Parameters) -> NoReturn:
        """Take steps until there is a reason to stop, from ``start`` or from where a killed run stood."""
        found = self.ledger.taken_up(self.keeper, 3) if self.keeper else None
        if found is None:
            self._over_all(self.ledger(start), Ascent(self.ledger))
        (at, one, two), state = found
        self.next_look = state["next_look"]
        if state["narrowed"]:
            self.ledger.again(one, self.items.looking)
            here = self._over_open(self.ledger.again(at, self.items.all), state["gained"])
            self._over_all(here, Ascent(self.ledger))
        before = Before(one, two) if state["before"] else None
        self._over_all(self.ledger.again(at), Ascent(self.ledger, before, state["cap"]))

    def _over_all(self, here: Step, ascent: Ascent) -> NoReturn:
        while True:
            before = ascent.before
            self._keep([here.at, *(before or (here.at, here.at))], before=before is not None, cap=ascent.cap)
            ascent.arrive(here)
            if len(self.ledger.history) + 1 < self.next_look or ascent.promised < _FAR * self.ledger.tol:
                here = ascent.step()
                continue
            here = ascent.step(self.items.looking)
            self.next_look = 2 * len(self.ledger.history)
            if self.items.are_few:
                here, ascent = self._over_open(here), Ascent(self.ledger)

    def _over_open(self, here: Step, gained: float | None = None) -> Step:
        """Go on from a pass over all items, after a round that gained so much."""
        while True:
            self._keep([here.at, self.items.looked, here.at], narrowed=True, gained=gained)
            ascent, now, most = Ascent(self.ledger), here, 0.0
            ascent.arrive(here)
            if ascent.is_near():
                return ascent.step(self.items.all)
            # under the same parameters, a pass over open items tells their sums from those of the others
            self.ledger(here.at, over=self.items.open)
            for _ in range(_MOST):
                before, now = now, ascent.step(self.items.open)
                ascent.arrive(now)
                gain = now.objective - before.objective
                most = max(most, gain)
                if ascent.is_near() or gain <= _LITTLE * most:
                    break
            last, begun, here = gained, here, ascent.step(self.items.all)
            gained = here.objective - begun.objective
            if last is not None and gained > _LITTLE * last:
                return here

    def _keep(self, points: list[Parameters], **more: object) -> None:
        if self.keeper:
            state = {"narrowed": False, "gained": None, "before": False, "cap": 0.0, "next_look": self.next_look}
            self.ledger.keep(self.keeper, points, **{**state, **more})
