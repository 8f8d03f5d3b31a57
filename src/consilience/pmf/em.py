r"""Expectation maximisation of the CPD model from rows with missing entries.

What rises at every step is the penalised log-likelihood

    L = Σ_s log Σ_f λ_f ∏_n A_n(z_s(n), f)  +  c Σ_n Σ_f Σ_i m_n(i) log A_n(i, f),

products over the entries that are there, m_n being how often variable n has each category and c the smoothing.  The
step (Ibrahim & Fu, "Recovering joint PMF from pairwise marginals", eqs (21)-(22); A. Yeredor and M. Haardt, IEEE Signal
Processing Letters 26 (2019)):

    q(s, f)   ∝  λ_f ∏_n A_n(z_s(n), f)
    A_n(i, f) =  (Σ_s q(s, f) [z_s(n) = i] + c m_n(i)) / (Σ_i … ),      λ_f = Σ_s q(s, f) / S.

It is accelerated by SQUAREM as in :mod:`consilience.aggregation.em`; a leap that lowers L is dropped.

====== ============== ============================
symbol name           shape
====== ============== ============================
λ      ``weights``    (F,)
A_n    ``stacked``    (Σ I_n, F), factors one below the other
c, m   ``smoothing``, ``shares``  a number, (Σ I_n,)
====== ============== ============================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from consilience.aggregation.em import Callback, Progress, leap
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.cpd import FLOOR, TablePass, TableStatistics

__all__ = ["CPDFit", "category_shares", "run_cpd_em"]


@dataclass
class CPDFit:
    """Where EM ended, and how it got there."""

    weights: Floats
    stacked: Floats
    log_likelihood: float
    converged: bool
    history: list[float] = field(default_factory=list)  #: penalised log-likelihood after every pass


class _Point(NamedTuple):
    weights: Floats
    stacked: Floats


class _Pass(NamedTuple):
    """A pass at ``at``, its objective there, and the EM step ``after`` it."""

    at: _Point
    objective: float
    after: _Point
    statistics: TableStatistics


class _Stop(Exception):  # noqa: N818 - it ends the loop, it is no error
    """The tolerance was met, the passes ran out, or the callback asked for the end."""


def category_shares(codes: Codes, sizes: Sequence[int]) -> Floats:
    """Give how often each variable has each category, stacked (Σ I_n,).

    One row more, spread evenly, keeps categories that no row has from being impossible; a variable that is never seen
    is uniform.
    """
    shares = []
    for n, size in enumerate(sizes):
        counts = np.bincount(codes[:, n][codes[:, n] >= 0], minlength=size) + 1.0 / size
        shares.append(counts / counts.sum())
    return np.concatenate(shares)


def run_cpd_em(
    codes: Codes,
    sizes: Sequence[int],
    weights: Floats,
    stacked: Floats,
    *,
    smoothing: float = 0.0,
    max_iter: int = 1000,
    tol: float = 1e-8,
    accelerate: bool = True,
    callback: Callback | None = None,
) -> CPDFit:
    """Run EM from these parameters until an EM step changes the objective by less than ``tol`` (relative).

    With ``tol=0`` all ``max_iter`` passes are run.  The parameters given back are the best that were met.
    """
    passes = _Passes(TablePass(codes, sizes), category_shares(codes, sizes), smoothing, max_iter, tol, callback)
    try:
        here = passes(_Point(np.asarray(weights, np.float64), np.asarray(stacked, np.float64)))
        while True:
            there = passes(here.after, here.objective)
            leap = passes.extrapolate(here, there) if accelerate else None
            if leap is None:
                here = there
                continue
            here = passes(leap)
            if here.objective < there.objective:
                here = passes(there.after, there.objective)
    except _Stop:
        pass
    if passes.best is None:
        return CPDFit(weights, stacked, float("nan"), False, [])
    _, log_likelihood, best = passes.best
    return CPDFit(best.weights, best.stacked, log_likelihood, passes.converged, passes.history)


class _Passes:
    """Counts passes, keeps the history, knows when to stop, and remembers the best parameters seen."""

    def __init__(
        self,
        sweep: TablePass,
        shares: Floats,
        smoothing: float,
        max_iter: int,
        tol: float,
        callback: Callback | None,
    ) -> None:
        self.sweep, self.pseudo = sweep, smoothing * shares[:, None]
        self.shares, self.max_iter, self.tol, self.callback = shares[:, None], max_iter, tol, callback
        self.first: Ints = sweep.offsets[:-1]
        self.variable = np.repeat(np.arange(len(sweep.sizes)), sweep.sizes)
        self.history: list[float] = []
        self.best: tuple[float, float, _Point] | None = None
        self.converged = False

    def __call__(self, at: _Point, plain_from: float | None = None) -> _Pass:
        """Pass over the rows at ``at``; ``plain_from`` is the objective one plain EM step earlier."""
        if len(self.history) >= self.max_iter:
            raise _Stop
        statistics = self.sweep(*at)
        objective = statistics.log_likelihood + self.penalty(at)
        if self.best is None or objective >= self.best[0]:
            self.best = objective, statistics.log_likelihood, at
        change = float("nan")
        if plain_from is not None:
            change = abs(objective - plain_from) / max(abs(objective), 1.0)
        # a rejected leap cost a pass, but the fit did not go there
        leapt = plain_from is None and bool(self.history)
        self.history.append(self.best[0] if leapt else objective)
        asked = self.callback and self.callback(Progress(len(self.history), self.max_iter, self.history[-1], change))
        if plain_from is not None and self.tol > 0 and change <= self.tol:
            self.converged = True
            raise _Stop
        if asked is True:
            raise _Stop
        return _Pass(at, objective, self.step(statistics), statistics)

    def step(self, statistics: TableStatistics) -> _Point:
        """Normalise the counts (22); a component that met no entry of a variable answers as all rows do."""
        counts = statistics.counts + self.pseudo
        total = np.add.reduceat(counts, self.first, axis=0)
        empty = (total <= 0)[self.variable]
        stacked = np.where(empty, self.shares, counts / np.where(total > 0, total, 1.0)[self.variable])
        rows = statistics.weights.sum()
        F = statistics.weights.size
        return _Point(statistics.weights / rows if rows > 0 else np.full(F, 1.0 / F), stacked)

    def penalty(self, at: _Point) -> float:
        """Give c Σ m log A."""
        if not self.pseudo.any():
            return 0.0
        return float((self.pseudo * np.log(np.maximum(at.stacked, FLOOR))).sum())

    def extrapolate(self, here: _Pass, there: _Pass) -> _Point | None:
        """Leap along two EM steps (SQUAREM S3), back onto the simplex; None when the leap would be a plain step."""
        behind = np.add.reduceat(there.statistics.counts, self.first, axis=0)[self.variable]
        far = leap(here.at, there.at, there.after, (np.asarray(there.statistics.weights.sum()), behind))
        if far is None:
            return None
        weights, stacked = far
        return _Point(weights / weights.sum(), stacked / np.add.reduceat(stacked, self.first, axis=0)[self.variable])
