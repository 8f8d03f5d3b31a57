"""One ascent loop for EM and variational Bayes: a point in, a better point out, whatever the model.

A pass over the data evaluates the objective at a point θ and returns F(θ), the point that plain EM moves to.  Plain EM
creeps when annotators are poor.  SQUAREM (Varadhan & Roland 2008, scheme S3) extrapolates along two steps θ1 = F(θ0)
and θ2 = F(θ1),

    r = θ1 - θ0,   v = (θ2 - θ1) - r,   a = -‖r‖ / ‖v‖ ≤ -1,   θ' = θ0 - 2 a r + a² v,

with norms that weight parameters by the labels behind them, so that annotators with three labels do not set the
step length.  The pass at θ' is also the first step of the next cycle: two passes per cycle.  If the objective at θ' is
below that at θ1, θ' is dropped and EM continues from θ1.  The recorded objective never falls.

R. Varadhan and C. Roland, "Simple and globally convergent methods for accelerating the convergence of any EM
algorithm", Scandinavian Journal of Statistics 35 (2008).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from consilience.engine.checkpoint import Keeper
from consilience.engine.progress import Callback, Progress, passes_left
from consilience.kernels._arrays import Floats

__all__ = ["Ascent", "EMModel", "Pass", "Problem", "extrapolate", "step_length"]

_log = logging.getLogger("consilience")

At = TypeVar("At")
Sums = TypeVar("Sums")


class Pass(NamedTuple, Generic[At, Sums]):
    """One pass over the data."""

    at: At  #: the point θ
    objective: float  #: what the ascent maximises, at θ
    after: At  #: F(θ), the plain step from there
    log_likelihood: float  #: part of the objective
    sums: Sums  #: statistics of the pass


class Problem(Protocol[At, Sums]):
    """What the loop needs to know of a model."""

    def evaluate(self, at: At, /) -> Pass[At, Sums]:
        """Run one pass over the data at a point."""

    def leap(self, one: Pass[At, Sums], two: Pass[At, Sums], /) -> At | None:
        """Extrapolate from a pass and the pass at its plain step; None if a plain step is as good."""


class EMModel(ABC, Generic[At, Sums]):
    """A problem given by its E-step and M-step; without :meth:`leap`, only plain steps are taken."""

    @abstractmethod
    def e_step(self, at: At) -> tuple[Sums, float]:
        """Return the statistics that the M-step needs, and the log-likelihood."""

    @abstractmethod
    def m_step(self, sums: Sums) -> At:
        """Maximise the expected complete log-likelihood plus penalty."""

    @abstractmethod
    def penalty(self, at: At) -> float:
        """Return the log-density of the parameters' prior, up to a constant."""

    def evaluate(self, at: At) -> Pass[At, Sums]:
        """Run the E-step and the M-step."""
        sums, log_likelihood = self.e_step(at)
        return Pass(at, log_likelihood + self.penalty(at), self.m_step(sums), log_likelihood, sums)

    def leap(self, one: Pass[At, Sums], two: Pass[At, Sums]) -> At | None:
        """Return None: no acceleration."""


class Ascent(Generic[At, Sums]):
    """Passes from a start to the best point found; :meth:`run` may be called again to go on for longer.

    Parameters
    ----------
    problem
        The model.
    start
        The first point; a tuple of arrays if there is a ``keeper``.
    accelerate
        Whether to leap (SQUAREM).
    labels
        Labels per pass, reported to the callback.
    keeper
        Saves the state before plain steps; a state found there is continued.

    Attributes
    ----------
    best
        The pass with the highest objective; None before the first.
    history
        Objective after every pass.
    converged
        Whether a plain step changed the objective by at most the tolerance (relative).
    """

    def __init__(
        self,
        problem: Problem[At, Sums],
        start: At,
        *,
        accelerate: bool = True,
        labels: int = 0,
        keeper: Keeper | None = None,
    ) -> None:
        self.problem, self.start, self.accelerate, self.labels, self.keeper = problem, start, accelerate, labels, keeper
        self.best: Pass[At, Sums] | None = None
        self.latest = start  #: the plain step from the last pass
        self.history: list[float] = []
        self.converged = False
        self._change = float("nan")  # relative, in the last pass if it was a plain step
        self._changes: list[tuple[int, float]] = []
        self._here: Pass[At, Sums] | None = None  # where the next plain step begins, and the pass after it
        self._there: Pass[At, Sums] | None = None

    @property
    def at(self) -> At:
        """The point with the highest objective, or the start before the first pass."""
        return self.start if self.best is None else self.best.at

    @property
    def objective(self) -> float:
        """The highest objective; NaN before the first pass."""
        return float("nan") if self.best is None else self.best.objective

    @property
    def log_likelihood(self) -> float:
        """The log-likelihood at the best point; NaN before the first pass."""
        return float("nan") if self.best is None else self.best.log_likelihood

    def run(self, *, max_iter: int, tol: float, callback: Callback | None = None) -> Self:
        """Continue until there were ``max_iter`` passes in all or the ascent converged; with ``tol=0``, run all passes.

        The callback is called after every pass and ends the run by returning True.
        """
        self.converged, stopped = self._meets(tol), False
        while not self.converged and not stopped and len(self.history) < max_iter:
            self._step()
            self.converged = self._meets(tol)
            if callback:
                n = len(self.history)
                left = passes_left(self._changes, tol, max_iter - n)
                stopped = callback(Progress(n, max_iter, self.history[-1], self._change, "", self.labels, left)) is True
        _log.info("%d passes, converged: %s", len(self.history), self.converged)
        return self

    def _meets(self, tol: float) -> bool:
        return tol > 0 and self._change <= tol  # also false for NaN

    def _step(self) -> None:
        """Run the next pass: at the start, at a plain step, or at a leap along two plain steps."""
        if self._here is None:
            self._here = self._restored()
        here, there = self._here, self._there
        far = self.problem.leap(here, there) if here and there and self.accelerate else None
        before = (there or here) if far is None else None  # the pass one plain step earlier
        if before:
            self._save(before)
        done = self.problem.evaluate(far if far is not None else before.after if before else self.start)
        self._record(done, before)
        if before:
            self._here, self._there = before, done
        elif there and done.objective < there.objective:  # a leap downwards: continue from the plain step before it
            self._here, self._there = there, None
        else:
            self._here, self._there = done, None

    def _record(self, done: Pass[At, Sums], before: Pass[At, Sums] | None) -> None:
        self.latest = done.after
        if self.best is None or done.objective >= self.best.objective:
            self.best = done
        # A rejected leap cost a pass, but the ascent did not go there.  A plain step is recorded as it is.
        self.history.append(done.objective if before else self.best.objective)
        self._change = float("nan")
        if before:
            self._change = abs(done.objective - before.objective) / max(abs(done.objective), 1.0)
            self._changes.append((len(self.history), self._change))
        _log.debug("pass %d: objective %.6f, change %.1e", len(self.history), done.objective, self._change)

    # ---- checkpoints -----------------------------------------------------------------------------------------

    def _save(self, here: Pass[At, Sums]) -> None:
        """Save the state before a plain step."""
        if self.keeper is None:
            return
        best: Any = self.best
        content = {
            "history": self.history,
            "changes": self._changes,
            "objectives": [here.objective, here.log_likelihood, best.objective, best.log_likelihood],
        }
        points: list[Any] = [here.at, here.after, best.at, best.after]
        self.keeper.save(content, [array for point in points for array in point])

    def _restored(self) -> Pass[At, Sums] | None:
        """Return the pass to continue from, if a state was saved; its statistics are not needed again."""
        if self.keeper is None:
            return None
        start: Any = self.start
        n = len(start)
        found = self.keeper.load(4 * n)
        if found is None:
            return None
        content, arrays = found
        values = [array if array.ndim else float(array) for array in arrays]
        at, after, best, best_after = (type(start)(*values[i : i + n]) for i in range(0, 4 * n, n))
        objective, log_likelihood, highest, of_best = content["objectives"]
        sums: Any = None
        self.best, self.latest = Pass(best, highest, best_after, of_best, sums), after
        self.history = list(content["history"])
        self._changes = [(n, change) for n, change in content["changes"]]
        return Pass(at, objective, after, log_likelihood, sums)


def step_length(r_norm: float, v_norm: float) -> float | None:
    """Return a = -‖r‖ / ‖v‖ from squared norms; None where the leap would be a plain step or less."""
    return None if v_norm <= 0 or r_norm <= v_norm else -float(np.sqrt(r_norm / v_norm))


def extrapolate(
    one: Sequence[Floats], two: Sequence[Floats], three: Sequence[Floats], weights: Sequence[Any], floor: float
) -> list[Floats] | None:
    """Return θ' from three points in a row, each a sequence of arrays; None for a plain step.

    ``weights`` has one number or array for each array of a point.  Entries below the ``floor`` are raised to it.
    """
    r = [b - a for a, b in zip(one, two, strict=True)]
    v = [(c - b) - d for b, c, d in zip(two, three, r, strict=True)]
    # no dot products: BLAS splits them among threads, whose number would decide the last bits
    r_norm, v_norm = (sum(float((w * x * x).sum()) for w, x in zip(weights, of, strict=True)) for of in (r, v))
    a = step_length(r_norm, v_norm)
    if a is None:
        return None
    return [np.maximum(t - (2 * a) * x + (a * a) * y, floor) for t, x, y in zip(one, r, v, strict=True)]
