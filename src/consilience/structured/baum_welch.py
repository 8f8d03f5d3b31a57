"""Baum-Welch: EM for sequences (thesis Alg. 4.1).

The E-step is one forward-backward pass (:mod:`consilience.kernels.chains`), which returns expected counts; an M-step
turns them into parameters.  :class:`ModeStep` takes the mode under Dirichlet priors: for every column of the model,
with expected counts c and pseudo-counts a,

    θ = (a + c) / Σ (a + c),        and the objective is  log Pr(labels | θ) + Σ a log θ.

With a = 0 it is maximum likelihood, thesis (4.9)-(4.10) with the errata.  :mod:`consilience.structured.chain_beliefs`
has the M-step of variational Bayes, :mod:`consilience.fitting.ascent` the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from consilience.engine.checkpoint import Keeper
from consilience.engine.progress import Callback
from consilience.fitting.ascent import Ascent, Pass
from consilience.kernels._arrays import Bools, Floats
from consilience.kernels.chains import ChainStatistics
from consilience.kernels.em import FLOOR
from consilience.models.chain_mixture import Never

__all__ = ["ChainMStep", "ChainParameters", "ChainResult", "ModeStep", "run_baum_welch"]


class ChainParameters(NamedTuple):
    """A start (H,), transitions (H, H) and emissions (M, C · K, H)."""

    start: Floats
    transitions: Floats
    emissions: Floats


class ChainMStep(Protocol):
    """Turns the sums of a pass into parameters."""

    def __call__(self, statistics: ChainStatistics) -> tuple[ChainParameters, float]:
        """Return the tables of the next pass, and what they add to the objective."""

    def means(self, statistics: ChainStatistics) -> ChainParameters:
        """Return the parameters, normalised."""


@dataclass(frozen=True)
class ModeStep:
    """The mode of the parameters under Dirichlet priors."""

    n_classes: int
    labels: float | Floats = 0.0  #: pseudo-labels, broadcast to (M, C, K, H)
    chain: float = 0.0  #: pseudo-counts of every start and every transition
    never: Never | None = None

    def __call__(self, statistics: ChainStatistics) -> tuple[ChainParameters, float]:
        """Return the parameters after these counts, and the logarithm of their prior."""
        M, R, H = statistics.counts.shape
        counts = statistics.counts.reshape(M, R // self.n_classes, self.n_classes, H)
        never = self.never or Never(np.zeros(H, np.bool_), np.zeros((H, H), np.bool_))
        start, a = _mode(statistics.starts, self.chain, 0, never.start)
        transitions, b = _mode(statistics.pairs, self.chain, 0, never.pair)
        emissions, c = _mode(counts, self.labels, 2, np.zeros((), np.bool_))
        return ChainParameters(start, transitions, emissions.reshape(M, R, H)), a + b + c

    def means(self, statistics: ChainStatistics) -> ChainParameters:
        """Return the same parameters."""
        return self(statistics)[0]


def _mode(counts: Floats, pseudo: float | Floats, axis: int, never: Bools) -> tuple[Floats, float]:
    """Return θ = (a + c) / Σ (a + c) over the possible entries (uniform without counts), and Σ a log θ."""
    possible = np.broadcast_to(~never, counts.shape)
    a = np.where(possible, counts + pseudo, 0.0)
    total = a.sum(axis=axis, keepdims=True)
    even = possible / np.maximum(possible.sum(axis=axis, keepdims=True), 1)
    theta = np.divide(a, total, out=even, where=total > 0)
    return theta, float(np.where(possible, pseudo * np.log(np.maximum(theta, FLOOR)), 0.0).sum())


class ChainResult(NamedTuple):
    """The last parameters of Baum-Welch, and how they were found."""

    parameters: ChainParameters  #: the mode or the expected parameters
    converged: bool
    history: list[float]  #: the objective after every pass


class _ChainModel:
    """Expected counts, as the ascent sees them: an M-step, then a pass that returns new counts."""

    def __init__(self, sweep: Callable[[Floats, Floats, Floats], ChainStatistics], step: ChainMStep) -> None:
        self.sweep, self.step = sweep, step
        self.at: ChainStatistics | None = None

    def evaluate(self, at: ChainStatistics) -> Pass[ChainStatistics, None]:
        self.at = at
        tables, extra = self.step(at)
        after = self.sweep(*tables)
        return Pass(at, after.log_likelihood + extra, after, after.log_likelihood, None)

    def leap(self, *_: object) -> None:
        """Take plain steps only."""


def run_baum_welch(
    sweep: Callable[[Floats, Floats, Floats], ChainStatistics],
    begin: ChainStatistics,
    step: ChainMStep,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
    labels: int = 0,
    keeper: Keeper | None = None,
) -> ChainResult:
    """Run from the counts of ``begin`` until a step changes the objective by at most ``tol`` (relative).

    With ``tol=0`` all ``max_iter`` passes are run.  ``labels`` and ``keeper`` are those of
    :class:`~consilience.fitting.ascent.Ascent`.
    """
    model = _ChainModel(sweep, step)
    ascent = Ascent(model, begin, accelerate=False, labels=labels, keeper=keeper)
    ascent.run(max_iter=max_iter, tol=tol, callback=callback)
    # the last counts, not the best: beliefs about ease belong to them
    return ChainResult(step.means(model.at or begin), ascent.converged, ascent.history)
