"""Expectation maximisation: parameters in, better parameters out.

The E-step is one sweep over the labels (:mod:`consilience.kernels.em`); an M-step turns its sums into parameters
(:mod:`consilience.fitting.m_steps`).  What rises is the penalised log-likelihood

    L(θ) = Σ_n log Σ_k π_k ∏ A_m(i, k)  +  log-density of the Dirichlet priors (when there is smoothing).

What makes it fast are conjugate steps over items that are still open (:mod:`consilience.fitting.narrowing`) where
confusions are free and there are many labels to each probability.  With few, the likelihood has many maxima and does
not bend as near one; and a conjugate step leaves models whose confusions are not free.  There it is leaps along EM
steps (:mod:`consilience.fitting.squarem`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.checkpoint import Keeper
from consilience.engine.passes import Labels, Passes, passes_of
from consilience.fitting.m_steps import (
    ClassOneCoinStep,
    ConfusionStep,
    MStep,
    OneCoinStep,
    Parameters,
    steady,
)
from consilience.fitting.narrowing import run_narrowing
from consilience.fitting.squarem import Callback, Progress, leap, run_squarem, stride
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


#: So many labels for each probability of the model are many.
_RICH = 4


@dataclass
class EMResult:
    """Where EM ended, and how it got there."""

    parameters: Parameters
    log_likelihood: float
    converged: bool
    #: Penalised log-likelihood after every pass, or a lower bound of it after one over open items.
    history: list[float] = field(default_factory=list)

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
    model = _Model(passes, step)
    keeper = Keeper(passes.checkpoint, "em") if passes.checkpoint else None
    if accelerate and step.free and passes.n_labels >= _RICH * start.confusions.size:
        end = run_narrowing(model, start, passes, max_iter=max_iter, tol=tol, callback=callback, keeper=keeper)
    else:
        end = run_squarem(
            model,
            start,
            max_iter=max_iter,
            tol=tol,
            accelerate=accelerate,
            callback=callback,
            labels=passes.n_labels,
            keeper=keeper,
        )
    textbook = tol == 0 and not accelerate
    if textbook or not end.history:
        return EMResult(end.latest, passes.sweep(*end.latest).log_likelihood, end.converged, end.history)
    likelihood = end.log_likelihood if end.exact else passes.sweep(*end.best).log_likelihood
    return EMResult(end.best, likelihood, end.converged, end.history)
