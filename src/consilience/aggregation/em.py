"""Expectation maximisation: parameters in, better parameters out.

The E-step is one sweep over the labels (:mod:`consilience.kernels.em`); an M-step turns its sums into
parameters.  Methods differ in the M-step alone.  What rises is the penalised log-likelihood

    L(θ) = Σ_n log Σ_k π_k ∏ A_m(i, k)  +  log-density of the Dirichlet priors (when there is smoothing).

Plain EM creeps when annotators are poor.  SQUAREM (Varadhan & Roland 2008, scheme S3) extrapolates along two EM steps

    r = θ1 - θ0,   v = (θ2 - θ1) - r,   a = -‖r‖ / ‖v‖,   θ' = θ0 - 2 a r + a² v,

with a ≤ -1, here on the probabilities themselves, pulled back onto the simplex, and with norms that weigh a column of a
confusion matrix by the labels behind it (its information), so that annotators with three labels do not set the
step.  The pass at θ' tells L(θ') and is the first step of the next leap: two passes a leap.  When L(θ') is
below L(θ1), θ' is dropped and EM goes on from θ2: the recorded objective never falls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from consilience.annotations import Annotations
from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR, SMALL, Statistics, Sweep

__all__ = [
    "Callback",
    "ClassOneCoinStep",
    "ConfusionStep",
    "EMResult",
    "MStep",
    "OneCoinStep",
    "Parameters",
    "Progress",
    "leap",
    "run_em",
    "sweep_of",
]

_log = logging.getLogger("consilience")


class Parameters(NamedTuple):
    """A class prior (K,) and confusions (M, K, K)."""

    prior: Floats
    confusions: Floats


class Progress(NamedTuple):
    """What a callback is told after every pass; it stops the fit by returning True."""

    iteration: int
    max_iter: int
    objective: float
    change: float  #: relative change of the objective in the last EM step; NaN before the first


Callback = Callable[[Progress], Any]


class MStep(Protocol):
    """Turns the sums of a sweep into parameters, and knows the penalty that goes with it."""

    def __call__(self, statistics: Statistics) -> Parameters:
        """Maximise the expected complete log-likelihood plus penalty."""

    def penalty(self, parameters: Parameters) -> float:
        """Give the log-density of the parameters' prior, up to a constant."""


@dataclass(frozen=True)
class ConfusionStep:
    """A free confusion matrix for every annotator (Dawid & Skene 1979, eqs 2.3 and 2.4).

    ``pseudo`` labels are added to every annotator's cells before anything is counted, a number or one for each cell
    (K, K): the mode under a Dirichlet(1 + pseudo) prior.  An annotator who never met a class has the uniform
    column for it.
    """

    pseudo: float | Floats = 0.0
    learn_prior: bool = True

    @property
    def penalised(self) -> bool:
        """Whether there is a prior on the confusions."""
        return isinstance(self.pseudo, np.ndarray) or self.pseudo != 0

    def __call__(self, statistics: Statistics) -> Parameters:
        """Normalise the counts."""
        # A_m(i, k) = (counts + pseudo) / Σ_i (counts + pseudo)
        counts = statistics.counts + self.pseudo if self.penalised else statistics.counts
        total = counts[:, 0, :].copy()
        for i in range(1, counts.shape[1]):
            total += counts[:, i, :]
        if total.min(initial=1.0) > 0:
            confusions = counts / total[:, None, :]
        else:
            empty = total <= 0
            confusions = counts / np.where(empty, 1.0, total)[:, None, :]
            confusions += np.where(empty, 1.0 / counts.shape[1], 0.0)[:, None, :]
        return Parameters(_prior(statistics, self.learn_prior), confusions)

    def penalty(self, parameters: Parameters) -> float:
        """Give Σ ``pseudo`` · log of every probability."""
        if not self.penalised:
            return 0.0
        return float((self.pseudo * np.log(np.maximum(parameters.confusions, FLOOR))).sum())


@dataclass(frozen=True)
class OneCoinStep:
    """One accuracy for each annotator; errors fall evenly on the other classes.

    ``smoothing`` is the number of labels added to the right and to the wrong answers each.
    """

    smoothing: float = 0.0
    learn_prior: bool = True

    def __call__(self, statistics: Statistics) -> Parameters:
        """Give the share of right answers, by annotator."""
        M, K, _ = statistics.counts.shape
        right = np.einsum("mkk->m", statistics.counts) + self.smoothing
        total = statistics.counts.sum(axis=(1, 2)) + 2 * self.smoothing
        # a_m = right / all;  A_m(i, k) = a_m if i = k else (1 - a_m) / (K - 1)
        accuracy = np.divide(right, total, out=np.full(M, 1.0 / K), where=total > 0)
        return Parameters(_prior(statistics, self.learn_prior), _even_errors(np.repeat(accuracy, K).reshape(M, K)))

    def penalty(self, parameters: Parameters) -> float:
        """Give ``smoothing`` · Σ log of every smoothed probability."""
        if not self.smoothing:
            return 0.0
        accuracy = np.clip(parameters.confusions[:, 0, 0], FLOOR, 1.0)
        return self.smoothing * float((np.log(accuracy) + np.log(np.maximum(1.0 - accuracy, FLOOR))).sum())


@dataclass(frozen=True)
class ClassOneCoinStep:
    """One accuracy for each annotator and class; errors fall evenly on the other classes.

    ``smoothing`` is the number of labels added to the right and to the wrong answers each, in every class.
    """

    smoothing: float = 0.0
    learn_prior: bool = True

    def __call__(self, statistics: Statistics) -> Parameters:
        """Give the share of right answers, by annotator and class."""
        M, K, _ = statistics.counts.shape
        right = np.einsum("mkk->mk", statistics.counts) + self.smoothing
        total = statistics.counts.sum(axis=1) + 2 * self.smoothing
        # p_mk = right / all;  A_m(i, k) = p_mk if i = k else (1 - p_mk) / (K - 1)
        accuracy = np.divide(right, total, out=np.full((M, K), 1.0 / K), where=total > 0)
        return Parameters(_prior(statistics, self.learn_prior), _even_errors(accuracy))

    def penalty(self, parameters: Parameters) -> float:
        """Give ``smoothing`` · Σ log of every smoothed probability."""
        if not self.smoothing:
            return 0.0
        accuracy = np.clip(np.einsum("mkk->mk", parameters.confusions), FLOOR, 1.0)
        return self.smoothing * float((np.log(accuracy) + np.log(np.maximum(1.0 - accuracy, FLOOR))).sum())


def _even_errors(accuracy: Floats) -> Floats:
    """Give the confusions (M, K, K) of annotators who are right so often, (M, K), and err evenly."""
    M, K = accuracy.shape
    confusions = np.repeat((1.0 - accuracy) / max(K - 1, 1), K, axis=0).reshape(M, K, K)
    diagonal = np.arange(K)
    confusions[:, diagonal, diagonal] = accuracy if K > 1 else 1.0
    return confusions


def _prior(statistics: Statistics, learn: bool) -> Floats:
    # π_k = Σ_n posterior[n, k] / N
    K = statistics.class_counts.size
    total = statistics.class_counts.sum()
    return statistics.class_counts / total if learn and total > 0 else np.full(K, 1.0 / K)


@dataclass
class EMResult:
    """Where EM ended, and how it got there."""

    parameters: Parameters
    log_likelihood: float
    converged: bool
    history: list[float] = field(default_factory=list)  #: penalised log-likelihood after every pass

    @property
    def iterations(self) -> int:
        """Passes over the data."""
        return len(self.history)


class _Stop(Exception):  # noqa: N818 - it ends the loop, it is no error
    """The tolerance was met, the passes ran out, or the callback asked for the end."""


class _Passes:
    """Counts passes, keeps the history, knows when to stop, and remembers the best parameters seen."""

    def __init__(self, sweep: Sweep, step: MStep, max_iter: int, tol: float, callback: Callback | None) -> None:
        self.sweep, self.step, self.max_iter, self.tol, self.callback = sweep, step, max_iter, tol, callback
        self.history: list[float] = []
        self.best: tuple[float, float, Parameters] | None = None
        self.converged = False

    def __call__(self, at: Parameters, plain_from: float | None = None) -> _Pass:
        """Sweep at ``at``.

        ``plain_from`` is the objective one plain EM step earlier; only such steps are tested for convergence.
        """
        if len(self.history) >= self.max_iter:
            raise _Stop
        statistics = self.sweep(at.prior, at.confusions)
        objective = statistics.log_likelihood + self.step.penalty(at)
        if self.best is None or objective >= self.best[0]:
            self.best = objective, statistics.log_likelihood, at
        change = float("nan")
        if plain_from is not None:
            change = abs(objective - plain_from) / max(abs(objective), 1.0)
        # A rejected leap cost a pass, but the fit did not go there.  A plain step is recorded as it is.
        leapt = plain_from is None and bool(self.history)
        self.history.append(self.best[0] if leapt else objective)
        _log.debug("pass %d: objective %.6f, change %.1e", len(self.history), objective, change)
        asked = self.callback and self.callback(Progress(len(self.history), self.max_iter, self.history[-1], change))
        if plain_from is not None and self.tol > 0 and change <= self.tol:
            self.converged = True
            raise _Stop
        if asked is True:
            raise _Stop
        return _Pass(at, objective, self.steady(self.step(statistics)), statistics)

    def steady(self, parameters: Parameters) -> Parameters:
        """Round parameters to forty bits where the data is small enough for exact symmetry.

        Two annotators who mirror each other put EM on a saddle; there the order of a sum, in its last bit, would decide
        whom to believe.  Rounded, what is symmetric stays so, and the tie is seen as one.
        """
        if self.sweep.label.size >= SMALL:
            return parameters
        prior, confusions = (np.rint(x * 2.0**40) / 2.0**40 for x in parameters)
        return Parameters(prior, confusions)


class _Pass(NamedTuple):
    """A pass at ``at``, its objective there, and the EM step ``after`` it."""

    at: Parameters
    objective: float
    after: Parameters
    statistics: Statistics


def sweep_of(annotations: Annotations) -> Sweep:
    """Make the E-step of these annotations."""
    a = annotations
    return Sweep(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes)


def run_em(
    annotations: Annotations,
    start: Parameters,
    step: MStep,
    *,
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
) -> EMResult:
    """Run EM from ``start`` until an EM step changes the objective by less than ``tol`` (relative).

    With ``tol=0`` all ``max_iter`` passes are run.  The parameters after the last pass are those whose objective is the
    last of the history, except with ``tol=0`` and no acceleration: there the last M-step counts, as in textbooks.
    """
    sweep = sweep_of(annotations)
    passes = _Passes(sweep, step, max_iter, tol, callback)
    latest = start
    try:
        here = passes(start)
        while True:
            latest = here.after
            there = passes(here.after, here.objective)
            latest = there.after
            leap = _extrapolate(here, there) if accelerate else None
            if leap is None:
                here = there
                continue
            here = passes(passes.steady(leap))
            if here.objective < there.objective:
                here = passes(there.after, there.objective)
    except _Stop:
        _log.info("EM: %d passes, converged: %s", len(passes.history), passes.converged)
    textbook = tol == 0 and not accelerate
    if passes.best is None or textbook:
        parameters, log_likelihood = latest, sweep.posterior(*latest)[1]
    else:
        _, log_likelihood, parameters = passes.best
    return EMResult(parameters, log_likelihood, passes.converged, passes.history)


def _extrapolate(here: _Pass, there: _Pass) -> Parameters | None:
    """Leap along two EM steps (SQUAREM S3), back onto the simplex; None when the leap would be a plain step."""
    weights = there.statistics.class_counts.sum(), np.einsum("mik->mk", there.statistics.counts)[:, None, :]
    far = leap(here.at, there.at, there.after, weights)
    if far is None:
        return None
    prior, confusions = far
    return Parameters(prior / prior.sum(), confusions / confusions.sum(axis=1, keepdims=True))


def leap(one: Sequence[Floats], two: Sequence[Floats], three: Sequence[Floats], weights: Any) -> list[Floats] | None:
    """Go from three points in a row, arrays of probabilities each, to where SQUAREM S3 leads; None for a plain step.

    ``weights`` are the labels behind each array.  Columns of the result need not sum to one.
    """
    r = [b - a for a, b in zip(one, two, strict=True)]
    v = [(c - b) - d for b, c, d in zip(two, three, r, strict=True)]
    r_norm = sum(float((w * x * x).sum()) for w, x in zip(weights, r, strict=True))
    v_norm = sum(float((w * x * x).sum()) for w, x in zip(weights, v, strict=True))
    if v_norm <= 0 or r_norm <= v_norm:
        return None
    a = -np.sqrt(r_norm / v_norm)
    far = [t - (2 * a) * x + (a * a) * y for t, x, y in zip(one, r, v, strict=True)]
    return [np.maximum(x, 0.1 * FLOOR) for x in far]
