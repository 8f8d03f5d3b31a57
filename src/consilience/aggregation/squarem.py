"""EM steps with leaps between them (SQUAREM): parameters in, better parameters out, whatever the model.

Plain EM creeps when annotators are poor.  SQUAREM (Varadhan & Roland 2008, scheme S3) extrapolates along two EM steps

    r = θ1 - θ0,   v = (θ2 - θ1) - r,   a = -‖r‖ / ‖v‖,   θ' = θ0 - 2 a r + a² v,

with a ≤ -1, here on the probabilities themselves, pulled back onto the simplex, and with norms that weigh probabilities
by the labels behind them (their information), so that annotators with three labels do not set the step.  The pass at
θ' tells L(θ') and is the first step of the next leap: two passes a leap.  When L(θ') is below L(θ1), θ' is dropped and
EM goes on from θ2: the recorded objective never falls.

R. Varadhan and C. Roland, "Simple and globally convergent methods for accelerating the convergence of any EM
algorithm", Scandinavian Journal of Statistics 35 (2008).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from consilience.engine.checkpoint import Keeper
from consilience.engine.progress import Callback, Progress, passes_left
from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR

__all__ = ["Callback", "Ended", "Model", "Progress", "leap", "run_squarem", "stride"]

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

    def leap(self, one: At, two: At, three: At, sums: Sums, /) -> At | None:
        """Extrapolate along two EM steps (:func:`leap`), the sums being those of the second."""


class Ended(NamedTuple, Generic[At]):
    """Where EM ended, and how it got there."""

    best: At  #: the parameters with the highest objective of all that were passed at
    log_likelihood: float  #: there; NaN without a pass
    latest: At  #: after the last M-step
    converged: bool
    history: list[float]  #: objective after every pass


class _Pass(NamedTuple, Generic[At, Sums]):
    """A pass at ``at``, its objective there, and the EM step ``after`` it."""

    at: At
    objective: float
    after: At
    sums: Sums


class _Stop(Exception):  # noqa: N818 - it ends the loop, it is no error
    """The tolerance was met, the passes ran out, or the callback asked for the end."""


def run_squarem(
    model: Model[At, Sums],
    start: At,
    *,
    max_iter: int,
    tol: float,
    accelerate: bool = True,
    callback: Callback | None = None,
    labels: int = 0,
    keeper: Keeper | None = None,
) -> Ended[At]:
    """Run EM from ``start`` until an EM step changes the objective by at most ``tol`` (relative).

    With ``tol=0`` all ``max_iter`` passes are run.  ``labels`` are those of one pass, for whom is told.  A ``keeper``
    keeps the state between leaps; where it has one, EM goes on from there.  Parameters are then tuples of arrays.
    """
    passes = _Passes(model, start, max_iter, tol, callback, labels)
    try:
        here = (passes.taken_up(keeper) if keeper else None) or passes(start)
        while True:
            if keeper:
                passes.keep(keeper, here)
            there = passes(here.after, here.objective)
            far = model.leap(here.at, there.at, there.after, there.sums) if accelerate else None
            if far is None:
                here = there
                continue
            here = passes(far)
            if here.objective < there.objective:
                here = passes(there.after, there.objective)
    except _Stop:
        _log.info("EM: %d passes, converged: %s", len(passes.history), passes.converged)
    return Ended(passes.best, passes.log_likelihood, passes.latest, passes.converged, passes.history)


class _Passes(Generic[At, Sums]):
    """Counts passes, keeps the history, knows when to stop, and remembers the best parameters seen."""

    def __init__(
        self, model: Model[At, Sums], start: At, max_iter: int, tol: float, callback: Callback | None, labels: int
    ) -> None:
        self.model, self.max_iter, self.tol, self.callback, self.labels = model, max_iter, tol, callback, labels
        self.history: list[float] = []
        self.changes: list[tuple[int, float]] = []  # of plain EM steps
        self.best = self.latest = start
        self.highest, self.log_likelihood = -np.inf, float("nan")
        self.converged = False

    def __call__(self, at: At, plain_from: float | None = None) -> _Pass[At, Sums]:
        """Pass over the data at ``at``.

        ``plain_from`` is the objective one plain EM step earlier; only such steps are tested for convergence.
        """
        if len(self.history) >= self.max_iter:
            raise _Stop
        sums, log_likelihood = self.model.e_step(at)
        objective = log_likelihood + self.model.penalty(at)
        if not self.history or objective >= self.highest:
            self.highest, self.log_likelihood, self.best = objective, log_likelihood, at
        change = float("nan")
        if plain_from is not None:
            change = abs(objective - plain_from) / max(abs(objective), 1.0)
        # A rejected leap cost a pass, but the fit did not go there.  A plain step is recorded as it is.
        leapt = plain_from is None and bool(self.history)
        self.history.append(self.highest if leapt else objective)
        _log.debug("pass %d: objective %.6f, change %.1e", len(self.history), objective, change)
        asked = self.callback and self.callback(self._progress(change))
        if plain_from is not None and self.tol > 0 and change <= self.tol:
            self.converged = True
            raise _Stop
        if asked is True:
            raise _Stop
        self.latest = self.model.m_step(sums)
        return _Pass(at, objective, self.latest, sums)

    def _progress(self, change: float) -> Progress:
        n = len(self.history)
        if np.isfinite(change):
            self.changes.append((n, change))
        left = passes_left(self.changes, self.tol, self.max_iter - n)
        return Progress(n, self.max_iter, self.history[-1], change, "", self.labels, left)

    def keep(self, keeper: Keeper, here: _Pass[At, Sums]) -> None:
        """Keep where EM stands before its next two steps."""
        content = {
            "history": self.history,
            "changes": self.changes,
            "highest": self.highest,
            "log_likelihood": self.log_likelihood,
            "objective": here.objective,
        }
        points: Any = (here.at, here.after, self.best, self.latest)
        keeper.save(content, [array for point in points for array in point])

    def taken_up(self, keeper: Keeper) -> _Pass[At, Sums] | None:
        """Go back to where EM stood; None if there is no such state."""
        start: Any = self.latest
        n = len(start)
        found = keeper.load(4 * n)
        if found is None:
            return None
        content, arrays = found
        at, after, self.best, self.latest = (type(start)(*arrays[i * n : i * n + n]) for i in range(4))
        self.history, self.highest = list(content["history"]), content["highest"]
        self.log_likelihood = content["log_likelihood"]
        self.changes = [(n, change) for n, change in content["changes"]]
        sums: Any = None  # those of this pass are not asked for again
        return _Pass(at, content["objective"], after, sums)


def stride(r_norm: float, v_norm: float) -> float | None:
    """Give a = -‖r‖ / ‖v‖ for squared norms; None where it would be a plain EM step or less."""
    return None if v_norm <= 0 or r_norm <= v_norm else -float(np.sqrt(r_norm / v_norm))


def leap(one: Sequence[Floats], two: Sequence[Floats], three: Sequence[Floats], weights: Any) -> list[Floats] | None:
    """Go from three points in a row, arrays of probabilities each, to where SQUAREM S3 leads; None for a plain step.

    ``weights`` are the labels behind each array.  Columns of the result need not sum to one.
    """
    r = [b - a for a, b in zip(one, two, strict=True)]
    v = [(c - b) - d for b, c, d in zip(two, three, r, strict=True)]
    r_norm = sum(float((w * x * x).sum()) for w, x in zip(weights, r, strict=True))
    v_norm = sum(float((w * x * x).sum()) for w, x in zip(weights, v, strict=True))
    a = stride(r_norm, v_norm)
    if a is None:
        return None
    far = [t - (2 * a) * x + (a * a) * y for t, x, y in zip(one, r, v, strict=True)]
    return [np.maximum(x, 0.1 * FLOOR) for x in far]
