"""Expectation maximisation of the Dawid-Skene model and its kin: parameters in, better parameters out.

The E-step is one sweep over the labels (:mod:`consilience.kernels.em`); an M-step turns its sums into parameters
(:mod:`consilience.fitting.m_steps`).  The objective is the penalised log-likelihood

    L(θ) = Σ_n log Σ_k π_k ∏ A_m(i, k)  +  log-density of the Dirichlet priors (when there is smoothing).

:mod:`consilience.fitting.ascent` has the loop and its acceleration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.checkpoint import Keeper
from consilience.engine.passes import Labels, Passes, passes_of
from consilience.engine.progress import Callback, Progress
from consilience.fitting.ascent import Ascent, EMModel, Pass, step_length
from consilience.fitting.m_steps import (
    ClassOneCoinStep,
    ConfusionStep,
    MStep,
    OneCoinStep,
    Parameters,
    rounded,
)
from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR, Statistics, Sweep
from consilience.kernels.leaps import land, lengths

__all__ = [
    "Callback",
    "ClassOneCoinStep",
    "ConfusionModel",
    "ConfusionStep",
    "EMResult",
    "MStep",
    "OneCoinStep",
    "Parameters",
    "Progress",
    "SweepFunction",
    "leap_confusions",
    "rounded",
    "run_em",
    "sweep_of",
    "without_blanks",
]

#: Parameters in, the sums of one pass over all labels out.
SweepFunction = Callable[[Floats, Floats], Statistics]


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


class ConfusionModel(EMModel[Parameters, Statistics]):
    """A prior and confusions, as the ascent sees them."""

    def __init__(self, sweep: Callable[[Floats, Floats], Statistics], step: MStep) -> None:
        self.sweep, self.step = sweep, step

    def evaluate(self, at: Parameters) -> Pass[Parameters, Statistics]:
        """Run the E-step and the M-step; of the counts, only the sums (M, K) that a leap needs are kept."""
        done = super().evaluate(at)
        return done._replace(sums=done.sums._replace(counts=np.einsum("mik->mk", done.sums.counts)))

    def e_step(self, at: Parameters) -> tuple[Statistics, float]:
        """Sweep over the labels."""
        statistics = self.sweep(at.prior, at.confusions)
        return statistics, statistics.log_likelihood

    def m_step(self, sums: Statistics) -> Parameters:
        """Maximise, rounded."""
        return rounded(self.step(sums))

    def penalty(self, at: Parameters) -> float:
        """Return the log-density of the prior that the M-step stands for."""
        return self.step.penalty(at)

    def leap(self, one: Pass[Parameters, Statistics], two: Pass[Parameters, Statistics]) -> Parameters | None:
        """Extrapolate, with the labels behind each column and the items behind the prior as weights."""
        sums = two.sums
        return leap_confusions(one.at, two.at, two.after, sums.counts, sums.class_counts.sum())


def leap_confusions(
    one: Parameters, two: Parameters, three: Parameters, labels: Floats, items: float
) -> Parameters | None:
    """Return where SQUAREM leads from three points in a row, normalised; None for a plain step.

    ``labels`` (M, K) and ``items`` are those behind the confusions and the prior.
    """
    r = two.prior - one.prior
    v = (three.prior - two.prior) - r
    r_norm, v_norm = lengths(one.confusions, two.confusions, three.confusions, labels)
    a = step_length(r_norm + items * float((r * r).sum()), v_norm + items * float((v * v).sum()))
    if a is None:
        return None
    floor = 0.1 * FLOOR
    prior = np.maximum(one.prior - (2 * a) * r + (a * a) * v, floor)
    confusions = land(one.confusions, two.confusions, three.confusions, a, floor)
    return rounded(Parameters(prior / prior.sum(), confusions))


def sweep_of(annotations: Annotations) -> Sweep:
    """Return the E-step of these annotations."""
    a = annotations
    return Sweep(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes)


def without_blanks(passes: Passes, sweep: SweepFunction) -> SweepFunction:
    """Return a sweep without the terms of items that have neither a label nor a known truth."""
    n = passes.survey.blank

    def labelled(weights: Floats, tables: Floats) -> Statistics:
        made, p = sweep(weights, tables), np.maximum(weights, FLOOR)
        # the posterior of a blank item is weights / Σ weights, its likelihood Σ weights
        total = float(p.sum())
        return Statistics(
            made.counts, made.class_counts - n * p / total, made.log_likelihood - n * float(np.log(total))
        )

    return labelled if n else sweep


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
    """Run EM from ``start`` until a plain step changes the objective by at most ``tol`` (relative).

    With ``tol=0`` all ``max_iter`` passes are run.  The result holds the parameters with the highest objective, except
    with ``tol=0`` and no acceleration: then those of the last M-step, as in textbooks.
    """
    passes = passes_of(data)
    keeper = Keeper(passes.checkpoint, "em") if passes.checkpoint else None
    model = ConfusionModel(passes.sweep, step)
    ascent = Ascent(model, start, accelerate=accelerate, labels=passes.n_labels, keeper=keeper)
    ascent.run(max_iter=max_iter, tol=tol, callback=callback)
    if ascent.best is None or (tol == 0 and not accelerate):
        at, log_likelihood = ascent.latest, passes.sweep(*ascent.latest).log_likelihood
    else:
        at, log_likelihood = ascent.best.at, ascent.best.log_likelihood
    return EMResult(at, log_likelihood, ascent.converged, ascent.history)
