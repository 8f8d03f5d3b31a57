"""Baum-Welch: EM for sequences (thesis Alg. 4.1).

The E-step is one forward-backward pass (:mod:`consilience.kernels.chains`), which leaves expected counts behind; an
M-step turns them into parameters.  The one here gives the mode under Dirichlet priors: for every column of the model,
with expected counts c and pseudo-counts a,

    θ = (a + c) / Σ (a + c),        and what rises is  log Pr(labels | θ) + Σ a log θ.

With a = 0 it is maximum likelihood, thesis (4.9)-(4.10) with the errata.  :mod:`consilience.structured.chain_beliefs`
has the M-step of variational Bayes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from consilience.engine.checkpoint import Keeper
from consilience.engine.progress import Callback, Progress, passes_left
from consilience.kernels._arrays import Bools, Floats
from consilience.kernels.chains import ChainStatistics
from consilience.kernels.em import FLOOR
from consilience.models.chain_mixture import Never

__all__ = ["ChainMStep", "ChainParameters", "ChainResult", "ModeStep", "run_baum_welch"]

_log = logging.getLogger("consilience")


class ChainParameters(NamedTuple):
    """A start (H,), transitions (H, H) and emissions (M, C · K, H)."""

    start: Floats
    transitions: Floats
    emissions: Floats


class ChainMStep(Protocol):
    """Turns the sums of a pass into parameters."""

    def __call__(self, statistics: ChainStatistics) -> tuple[ChainParameters, float]:
        """Give what the next pass runs with, and what it adds to the objective."""

    def means(self, statistics: ChainStatistics) -> ChainParameters:
        """Give the parameters, normalised."""


@dataclass(frozen=True)
class ModeStep:
    """The mode of the parameters under Dirichlet priors."""

    n_classes: int
    labels: float | Floats = 0.0  #: pseudo-labels, broadcast to (M, C, K, H)
    chain: float = 0.0  #: pseudo-counts of every start and every transition
    never: Never | None = None

    def __call__(self, statistics: ChainStatistics) -> tuple[ChainParameters, float]:
        """Give the parameters after these counts, and the logarithm of their prior."""
        M, R, H = statistics.counts.shape
        counts = statistics.counts.reshape(M, R // self.n_classes, self.n_classes, H)
        never = self.never or Never(np.zeros(H, np.bool_), np.zeros((H, H), np.bool_))
        start, a = _mode(statistics.starts, self.chain, 0, never.start)
        transitions, b = _mode(statistics.pairs, self.chain, 0, never.pair)
        emissions, c = _mode(counts, self.labels, 2, np.zeros((), np.bool_))
        return ChainParameters(start, transitions, emissions.reshape(M, R, H)), a + b + c

    def means(self, statistics: ChainStatistics) -> ChainParameters:
        """Give the same parameters."""
        return self(statistics)[0]


def _mode(counts: Floats, pseudo: float | Floats, axis: int, never: Bools) -> tuple[Floats, float]:
    """Give θ = (a + c) / Σ (a + c) among what is possible, evenly spread where nothing was counted, and Σ a log θ."""
    possible = np.broadcast_to(~never, counts.shape)
    a = np.where(possible, counts + pseudo, 0.0)
    total = a.sum(axis=axis, keepdims=True)
    even = possible / np.maximum(possible.sum(axis=axis, keepdims=True), 1)
    theta = np.divide(a, total, out=even, where=total > 0)
    return theta, float(np.where(possible, pseudo * np.log(np.maximum(theta, FLOOR)), 0.0).sum())


class ChainResult(NamedTuple):
    """Where Baum-Welch ended, and how it got there."""

    parameters: ChainParameters  #: the mode or the expected parameters
    tables: ChainParameters  #: what the last pass ran with
    objective: float
    converged: bool
    history: list[float]


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
    """Run from the counts of ``begin`` until a step changes the objective by less than ``tol`` (relative).

    With ``tol=0`` all ``max_iter`` passes are run.  ``labels`` are those of one pass, for whom is told.  A ``keeper``
    keeps the counts and the history; where it has some, the run goes on from there.
    """
    statistics, history = begin, list[float]()
    if keeper is not None and (kept := keeper.load(len(begin))) is not None:
        history = list(kept[0]["history"])
        *sums, likelihood = kept[1]
        statistics = ChainStatistics(sums[0], sums[1], sums[2], sums[3], float(likelihood))
    changes: list[tuple[int, float]] = []
    tables, extra = step(statistics)
    converged = False
    while len(history) < max_iter:
        if keeper is not None:
            keeper.save({"history": history}, statistics)
        after = sweep(*tables)
        objective = after.log_likelihood + extra
        change = abs(objective - history[-1]) / max(abs(objective), 1.0) if history else float("nan")
        history.append(objective)
        _log.debug("pass %d: objective %.6f, change %.1e", len(history), objective, change)
        changes += [(len(history), change)] if history[1:] else []
        left = passes_left(changes, tol, max_iter - len(history))
        asked = callback and callback(Progress(len(history), max_iter, objective, change, "", labels, left))
        converged = bool(history[1:]) and tol > 0 and change <= tol
        if converged or asked is True or len(history) == max_iter:
            break
        statistics = after
        tables, extra = step(statistics)
    _log.info("Baum-Welch: %d passes, converged: %s", len(history), converged)
    return ChainResult(step.means(statistics), tables, history[-1] if history else float("nan"), converged, history)
