"""The ascent of variational Bayes: counts in, counts out, until the lower bound rises no more.

:mod:`consilience.fitting.variational` tells what the counts stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from consilience.fitting.em import Callback, Parameters, Progress
from consilience.fitting.squarem import stride
from consilience.kernels._arrays import Floats
from consilience.kernels.em import SMALL, Statistics

__all__ = ["Ascent", "Beliefs", "Climb", "Expectation"]


class Expectation(NamedTuple):
    """What the sweep needs to know of a distribution over models."""

    tables: Parameters  #: exp E log π and exp E log A: less than probabilities where little is known
    divergence: float  #: from the prior


class Beliefs(Protocol):
    """Turns the sums of a sweep into a distribution over models."""

    def __call__(self, statistics: Statistics) -> Expectation:
        """Give the expected logarithms after these counts."""

    def means(self, statistics: Statistics) -> Parameters:
        """Give the expected parameters."""


class Ascent(NamedTuple):
    """Where variational Bayes ended, and how it got there."""

    at: Statistics  #: the expected counts that define the distribution over models
    bound: float  #: the lower bound there
    converged: bool
    history: list[float]  #: the lower bound after every pass


class _Step(NamedTuple):
    """A pass: the counts that it began with, the bound there, and the counts that came of it."""

    at: Floats
    bound: float
    after: Floats


class Climb:
    """An ascent that can be taken up again where it was left, to go on for longer or to a finer tolerance.

    A distribution over models is told by its expected counts, and a step is counts in, counts out.  SQUAREM leaps
    along two steps as in :mod:`consilience.fitting.em`; every array of nonnegative counts is a distribution,
    so a leap needs no pulling back but to zero.  One that lowers the bound is dropped: the history never falls.
    """

    def __init__(
        self,
        sweep: Callable[[Floats, Floats], Statistics],
        beliefs: Beliefs,
        start: Statistics,
        *,
        accelerate: bool = True,
    ) -> None:
        self.sweep, self.beliefs, self.accelerate = sweep, beliefs, accelerate
        self.history: list[float] = []
        # counts are kept in one vector: those of classes, then those of cells
        self._shapes = start.class_counts.shape, start.counts.shape
        self._small = start.counts.sum() < SMALL
        begin = self._steady(start)
        self._best = self._here = _Step(begin, float("nan"), begin)
        self._came: _Step | None = None  # one plain step earlier
        self._leapt_from: _Step | None = None
        self._change = float("nan")

    def run(self, *, max_iter: int, tol: float, callback: Callback | None = None) -> Ascent:
        """Go on until there were ``max_iter`` passes in all, or a step changes the bound by less than ``tol``."""
        asked = False
        while not asked and not self._within(tol) and len(self.history) < max_iter:
            self._pass(self._next())
            asked = bool(callback and callback(Progress(len(self.history), max_iter, self.history[-1], self._change)))
        return Ascent(self._statistics(self._best.at), self._best.bound, self._within(tol), list(self.history))

    @property
    def bound(self) -> float:
        """The best lower bound so far."""
        return self._best.bound

    @property
    def at(self) -> Statistics:
        """The expected counts there."""
        return self._statistics(self._best.at)

    def _within(self, tol: float) -> bool:
        return tol > 0 and self._change <= tol  # never of NaN

    def _pass(self, at: Floats) -> None:
        expected = self.beliefs(self._statistics(at))
        after = self.sweep(*expected.tables)
        bound = after.log_likelihood - expected.divergence
        here, came = _Step(at, bound, self._steady(after)), self._came
        self._change = float("nan") if came is None else abs(bound - came.bound) / max(abs(bound), 1.0)
        fell = self._leapt_from is not None and bound < self._leapt_from.bound
        if not self.history or bound >= self._best.bound:
            self._best = here
        self.history.append(self.history[-1] if fell else bound)
        self._here = here

    def _next(self) -> Floats:
        """Say where the next pass begins."""
        here, leapt_from = self._here, self._leapt_from
        if not self.history:
            return here.at
        if leapt_from is not None and here.bound < leapt_from.bound:
            self._came, self._leapt_from = leapt_from, None
            return leapt_from.after
        leap = self._leap(self._came, here) if self.accelerate and self._came is not None else None
        if leap is None:
            self._came, self._leapt_from = here, None
            return here.after
        self._came, self._leapt_from = None, here
        return leap

    def _leap(self, one: _Step, two: _Step) -> Floats | None:
        """Extrapolate along two steps (SQUAREM S3); None when the leap would be a plain step."""
        r = two.at - one.at
        v = (two.after - two.at) - r
        # counts over the sum of their column are probabilities: their change is weighed by the labels behind it
        weights = self._weights(two.at)
        # no dot products: BLAS splits them among threads, and on a busy machine waits for these
        r_norm, v_norm = float((r * r * weights).sum()), float((v * v * weights).sum())
        a = stride(r_norm, v_norm)
        if a is None:
            return None
        return self._rounded(np.maximum(one.at - (2 * a) * r + (a * a) * v, 0.0))

    def _weights(self, at: Floats) -> Floats:
        """Give one over the sum of the column that each count is in, one label more."""
        counts, class_counts, _ = self._statistics(at)
        column = counts[..., :1, :] + 1.0
        for i in range(1, counts.shape[-2]):
            column += counts[..., i : i + 1, :]
        weights = np.empty(at.size)
        of_cells, of_classes, _ = self._statistics(weights)
        of_cells[:], of_classes[:] = 1.0 / column, 1.0 / (class_counts.sum() + 1.0)
        return weights

    def _statistics(self, vector: Floats) -> Statistics:
        (K,), shape = self._shapes
        return Statistics(vector[K:].reshape(shape), vector[:K], float("nan"))

    def _steady(self, statistics: Statistics) -> Floats:
        return self._rounded(np.concatenate([statistics.class_counts, statistics.counts.ravel()]))

    def _rounded(self, counts: Floats) -> Floats:
        """Round to 32 bits behind the point where the data is small enough for exact symmetry.

        What is symmetric then stays so, and the order of a sum does not decide whom to believe.
        """
        return np.rint(counts * 2.0**32) / 2.0**32 if self._small else counts
