"""Expectation maximisation: parameters in, better parameters out.

The E-step is one sweep over the labels (:mod:`consilience.kernels.em`); an M-step turns its sums into
parameters.  Methods differ in the M-step alone.  What rises is the penalised log-likelihood

    L(θ) = Σ_n log Σ_k π_k ∏ A_m(i, k)  +  log-density of the Dirichlet priors (when there is smoothing).

Leaps along EM steps make it fast (:mod:`consilience.aggregation.squarem`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from consilience.aggregation.squarem import Callback, Progress, leap, run_squarem, stride
from consilience.annotations import Annotations
from consilience.engine.checkpoint import Keeper
from consilience.engine.passes import Labels, Passes, passes_of
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
    "leap_along",
    "run_em",
    "steady",
    "sweep_of",
]


class Parameters(NamedTuple):
    """A class prior (K,) and confusions (M, K, K)."""

    prior: Floats
    confusions: Floats


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
        total = np.einsum("mik->mk", counts)
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


class _Model:
    """Annotators' confusions as EM sees them."""

    def __init__(self, data: Passes | Sweep, step: MStep) -> None:
        self.step, self.penalty = step, step.penalty
        self.sweep: Callable[[Floats, Floats], Statistics] = data if isinstance(data, Sweep) else data.sweep
        self.n_labels = data.label.size if isinstance(data, Sweep) else data.n_labels

    def e_step(self, at: Parameters) -> tuple[Statistics, float]:
        statistics = self.sweep(at.prior, at.confusions)
        return statistics, statistics.log_likelihood

    def m_step(self, sums: Statistics) -> Parameters:
        return steady(self.step(sums), self.n_labels)

    def leap(self, one: Parameters, two: Parameters, three: Parameters, sums: Statistics) -> Parameters | None:
        return leap_along(one, two, three, np.einsum("mik->mk", sums.counts), sums.class_counts.sum(), self.n_labels)


def leap_along(
    one: Parameters, two: Parameters, three: Parameters, labels: Floats, items: float, n_labels: int
) -> Parameters | None:
    """Go from three points in a row to where SQUAREM leads, pulled back onto the simplex; None for a plain step.

    ``labels`` (M, K) and ``items`` are those behind the confusions and the prior.
    """
    if n_labels >= SMALL:
        return _leap_compiled(one, two, three, labels, items)
    far = leap(one, two, three, (items, labels[:, None, :]))
    if far is None:
        return None
    prior, confusions = far
    return steady(Parameters(prior / prior.sum(), confusions / confusions.sum(axis=1, keepdims=True)), n_labels)


def _leap_compiled(
    one: Parameters, two: Parameters, three: Parameters, labels: Floats, items: float
) -> Parameters | None:
    """Do the same where numba is loaded anyway."""
    from consilience.kernels.leaps import land, lengths

    r = two.prior - one.prior
    v = (three.prior - two.prior) - r
    r_norm, v_norm = lengths(one.confusions, two.confusions, three.confusions, labels)
    r_norm, v_norm = r_norm + items * float((r * r).sum()), v_norm + items * float((v * v).sum())
    a, least = stride(r_norm, v_norm), 0.1 * FLOOR
    if a is None:
        return None
    prior = np.maximum(one.prior - (2 * a) * r + (a * a) * v, least)
    return Parameters(prior / prior.sum(), land(one.confusions, two.confusions, three.confusions, a, least))


def steady(parameters: Parameters, n_labels: int) -> Parameters:
    """Round parameters to forty bits where the data is small enough for exact symmetry.

    Two annotators who mirror each other put EM on a saddle; there the order of a sum, in its last bit, would decide
    whom to believe.  Rounded, what is symmetric stays so, and the tie is seen as one.
    """
    if n_labels >= SMALL:
        return parameters
    prior, confusions = (np.rint(x * 2.0**40) / 2.0**40 for x in parameters)
    return Parameters(prior, confusions)


def sweep_of(annotations: Annotations) -> Sweep:
    """Make the E-step of these annotations."""
    a = annotations
    return Sweep(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes)


def run_em(
    data: Labels,
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
    passes = passes_of(data)
    end = run_squarem(
        _Model(passes, step),
        start,
        max_iter=max_iter,
        tol=tol,
        accelerate=accelerate,
        callback=callback,
        labels=passes.n_labels,
        keeper=Keeper(passes.checkpoint, "em") if passes.checkpoint else None,
    )
    textbook = tol == 0 and not accelerate
    if textbook or not end.history:
        return EMResult(end.latest, passes.sweep(*end.latest).log_likelihood, end.converged, end.history)
    return EMResult(end.best, end.log_likelihood, end.converged, end.history)
