"""What EM keeps account of, however its steps are chosen: passes, their history, the best parameters, when to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from consilience.engine.checkpoint import Keeper
from consilience.engine.progress import Callback, Progress, passes_left

__all__ = ["Ended", "Ledger", "Model", "Over", "Pass", "Stop"]

_log = logging.getLogger("consilience")

At = TypeVar("At")
Sums = TypeVar("Sums")


class Model(Protocol[At, Sums]):
    """What EM needs to know of a model."""

    def e_step(self, at: At, /) -> tuple[Sums, float]:
        """Pass over the data at these parameters: the sums that the M-step needs, and the log-likelihood."""

    def penalty(self, at: At, /) -> float:
        """Give the log-density of the parameters' prior, up to a constant."""

    def m_step(self, sums: Sums, /) -> At:
        """Maximise the expected complete log-likelihood plus penalty."""


class Ended(NamedTuple, Generic[At]):
    """Where EM ended, and how it got there."""

    best: At  #: the parameters with the highest objective of all that were passed at
    log_likelihood: float  #: there, or a lower bound of it; NaN without a pass
    exact: bool  #: whether it is the log-likelihood itself
    latest: At  #: after the last M-step
    converged: bool
    history: list[float]  #: objective after every pass


class Pass(NamedTuple, Generic[At, Sums]):
    """A pass at ``at``, its objective there, and the EM step ``after`` it."""

    at: At
    objective: float
    after: At
    sums: Sums
    whole: bool = True  #: over all items


@dataclass(frozen=True)
class Over(Generic[At, Sums]):
    """An E-step over all items, or over some, which gives a lower bound of the log-likelihood."""

    e_step: Callable[[At], tuple[Sums, float]]
    labels: int  #: passed over
    whole: bool = True  #: all items


class Stop(Exception):  # noqa: N818 - it ends the loop, it is no error
    """The tolerance was met, the passes ran out, or the callback asked for the end."""


class Ledger(Generic[At, Sums]):
    """Counts passes, keeps the history, knows when to stop, and remembers the best parameters seen.

    Parameters
    ----------
    model
        Its E-step and M-step are run.
    start
        Parameters to start from.
    max_iter, tol
        Passes, and the relative change of the objective in one EM step that ends them; with 0, all are run.
    callback
        Told of every pass; stops them by returning True.
    labels
        Those of one pass over all items, for whom is told.
    """

    def __init__(
        self, model: Model[At, Sums], start: At, max_iter: int, tol: float, callback: Callback | None, labels: int
    ) -> None:
        self.model, self.max_iter, self.tol, self.callback = model, max_iter, tol, callback
        self.over_all = Over(model.e_step, labels)
        self.history: list[float] = []
        self.changes: list[tuple[int, float]] = []  # of the objective, relative
        self.best = self.latest = start
        self.highest, self.log_likelihood, self.exact = -np.inf, float("nan"), True
        self.converged = False

    def __call__(
        self,
        at: At,
        plain_from: Pass[At, Sums] | None = None,
        *,
        leap_from: Pass[At, Sums] | None = None,
        over: Over[At, Sums] | None = None,
    ) -> Pass[At, Sums]:
        """Pass over the data at ``at``.

        ``plain_from`` is the pass one plain EM step earlier; where both are over all items, the step is tested for
        convergence.  ``leap_from`` is that before a leap, which tells nothing of convergence, but how fast it goes.
        """
        if len(self.history) >= self.max_iter:
            raise Stop
        over = over or self.over_all
        sums, log_likelihood = over.e_step(at)
        objective = log_likelihood + self.model.penalty(at)
        if not self.history or objective >= self.highest:
            self.highest, self.log_likelihood, self.exact, self.best = objective, log_likelihood, over.whole, at
        plain, before = plain_from is not None, plain_from or leap_from
        change = (objective - before.objective) / max(abs(objective), 1.0) if before else float("nan")
        # A rejected leap cost a pass, but the fit did not go there.  A plain step is recorded as it is.
        self.history.append(objective if plain else self.highest)
        _log.debug("pass %d: objective %.6f, change %.1e", len(self.history), objective, change)
        asked = self.callback and self.callback(self._progress(change, plain, over.labels))
        if plain and before and before.whole and over.whole and self.tol > 0 and abs(change) <= self.tol:
            self.converged = True
            raise Stop
        if asked is True:
            raise Stop
        self.latest = self.model.m_step(sums)
        return Pass(at, objective, self.latest, sums, over.whole)

    def again(self, at: At, over: Over[At, Sums] | None = None) -> Pass[At, Sums]:
        """Pass over the data where it was done before, in a run that was killed: nothing is recorded."""
        over = over or self.over_all
        sums, log_likelihood = over.e_step(at)
        return Pass(at, log_likelihood + self.model.penalty(at), self.model.m_step(sums), sums, over.whole)

    def ended(self) -> Ended[At]:
        """Tell where EM ended."""
        _log.info("EM: %d passes, converged: %s", len(self.history), self.converged)
        return Ended(self.best, self.log_likelihood, self.exact, self.latest, self.converged, self.history)

    def _progress(self, change: float, plain: bool, labels: int) -> Progress:
        n = len(self.history)
        if plain or change > 0:
            self.changes.append((n, abs(change)))
        left = passes_left(self.changes, self.tol, self.max_iter - n)
        return Progress(n, self.max_iter, self.history[-1], abs(change) if plain else float("nan"), "", labels, left)

    # ---- states of a run that may be killed ----------------------------------------------------------------

    def keep(self, keeper: Keeper, points: list[Any], **more: Any) -> None:
        """Keep where EM stands: ``points``, all tuples of arrays, and ``more``, plain values."""
        content = {
            "history": self.history,
            "changes": self.changes,
            "highest": self.highest,
            "log_likelihood": self.log_likelihood,
            "exact": self.exact,
            **more,
        }
        keeper.save(content, [array for point in (self.best, self.latest, *points) for array in point])

    def taken_up(self, keeper: Keeper, n_points: int) -> tuple[list[At], dict[str, Any]] | None:
        """Go back to where EM stood, and give the points and plain values that were kept; None if there are none."""
        start: Any = self.latest
        n = len(start)
        found = keeper.load((2 + n_points) * n)
        if found is None:
            return None
        content, arrays = found
        self.best, self.latest, *points = (type(start)(*arrays[i * n : i * n + n]) for i in range(2 + n_points))
        self.history, self.highest = list(content["history"]), content["highest"]
        self.log_likelihood, self.exact = content["log_likelihood"], content["exact"]
        self.changes = [(n, change) for n, change in content["changes"]]
        return points, content
