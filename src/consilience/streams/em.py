"""Passes over new labels, with the past behind them in sums.

EM needs of the past nothing but the sums of its E-steps, and these add up.  Let ``C`` and ``c`` be the sums of the past
(expected counts of annotators and classes) and q° the posterior of an item before its new labels.  Then

    q_n(k)    ∝  π_k ρ_n(k) ∏_{new (m, i)} A_m(i, k),    ρ_n(k) = q°_n(k) / π°_k,  or 1 for an item without a past
    A_m(i, k) ∝  C_m(i, k) + Σ_{new (m, i)} q_n(k)
    π_k       ∝  c_k + Σ_n q_n(k)

are passes over the new labels alone.  What rises with each of them is

    Σ_n log Σ_k π_k ρ_n(k) ∏ A_m(i, k)  +  Σ C_m(i, k) log A_m(i, k)  +  Σ c_k log π_k,

the free energy of Neal and Hinton with the posteriors of all old items held where they were.  With one pass for each
update it is the online EM of Cappé and Moulines.  What is approximate: C was summed up under the parameters of its
time.

R. M. Neal and G. E. Hinton, "A view of the EM algorithm that justifies incremental, sparse, and other variants" (1998);
O. Cappé and E. Moulines, "On-line expectation-maximization algorithm for latent data models" (2009).

====== ============================== ===============
symbol name                           shape
====== ============================== ===============
C      ``past.counts``                (M, K, K)
c      ``past.class_counts``          (K,)
ρ      ``ratios``                     (N, K)
A, π   ``confusions``, ``prior``      (M, K, K), (K,)
====== ============================== ===============
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilience.data.annotations import Annotations
from consilience.fitting.em import Callback, MStep, Parameters, _Model, sweep_of
from consilience.fitting.squarem import run_squarem
from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR, Statistics, Sweep
from consilience.kernels.votes import vote_statistics

__all__ = ["Held", "Solved", "crowd_of", "fit_held", "likelihoods_of", "posterior_of", "ratios_of"]

#: The least that a posterior is taken to be, so that no past rules a class out for ever.
_LEAST = 1e-150


@dataclass(frozen=True)
class Held:
    """Labels that a stream holds, and the past of their items and annotators."""

    labels: Annotations  #: of the items and annotators that they are of, all classes, with gold
    past: Statistics  #: sums of the past of these annotators; class counts without the items of ``labels``
    ratios: Floats | None = None  #: ρ, (N, K); None where no item has a past


@dataclass(frozen=True)
class Solved:
    """What the labels that are held say, with the past behind them."""

    parameters: Parameters
    posterior: Floats  #: of the items of these labels, (N, K)
    log_likelihood: float  #: of these labels, given the past
    converged: bool = True
    history: list[float] = field(default_factory=list)
    hint: Floats | None = None  #: a second opinion that breaks ties, (N, K)
    everybody: Parameters | None = None  #: parameters of all annotators, where they changed for all


def ratios_of(posterior: Floats, prior: Floats) -> Floats:
    """Give ρ: what the past says of items beyond the prior, (N, K)."""
    ratios: Floats = np.maximum(posterior, _LEAST) / np.maximum(prior, FLOOR)
    return ratios


def crowd_of(counts: Floats) -> Floats:
    """Give the confusion of all annotators together, half a label in every cell, (K, K)."""
    pooled: Floats = counts.sum(axis=0) + 0.5
    pooled /= pooled.sum(axis=0)
    return pooled


def posterior_of(held: Held, at: Parameters) -> tuple[Floats, float]:
    """Give the posterior of the items under these parameters, (N, K), and the log-likelihood of their labels."""
    return _PastSweep(held).posterior(*at)


def likelihoods_of(held: Held, at: Parameters) -> Floats:
    """Give the log-probability of the labels of each item under these parameters, (N,)."""
    a, (posterior, _) = held.labels, posterior_of(held, at)
    best, every = posterior.argmax(axis=1), np.arange(posterior.shape[0])
    # q_n(k) = π_k ρ_n(k) ∏ A_m(i, k) / Pr(labels), at the most probable k
    A = np.log(np.maximum(at.confusions, FLOOR))[a.annotator, a.label, np.repeat(best, a.labels_per_item)]
    made: Floats = np.log(np.maximum(at.prior, FLOOR))[best] - np.log(posterior[every, best])
    made += np.bincount(np.repeat(every, a.labels_per_item), A, every.size)
    if held.ratios is not None:
        known = -1 if a.gold is None else a.gold
        made += np.where(known >= 0, 0.0, np.log(held.ratios[every, best]))
    return made


def fit_held(
    held: Held,
    start: Parameters,
    step: MStep,
    *,
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
) -> Solved:
    """Run EM over the labels that are held until it settles."""
    model = _PastModel(held, step, start)
    end = run_squarem(model, start, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback)
    at = end.best if tol > 0 and end.history else end.latest
    posterior, log_likelihood = model.past_sweep.posterior(*at)
    return Solved(at, posterior, log_likelihood, end.converged, end.history)


class _PastSweep:
    """The E-step over labels whose items may have a past."""

    def __init__(self, held: Held) -> None:
        self.plain: Sweep = sweep_of(held.labels)
        self.ratios = None
        if held.ratios is not None:
            self.ratios = held.ratios.copy()
            if held.labels.gold is not None:
                self.ratios[held.labels.gold >= 0] = 1.0  # what is known needs no past

    def __call__(self, prior: Floats, confusions: Floats) -> Statistics:
        if self.ratios is None:
            return self.plain(prior, confusions)
        posterior, log_likelihood = self.posterior(prior, confusions)
        sums = vote_statistics(
            self.plain.indptr, self.plain.annotator, self.plain.label, posterior, self.plain.shape[0]
        )
        return Statistics(sums.counts, sums.class_counts, log_likelihood)

    def posterior(self, prior: Floats, confusions: Floats) -> tuple[Floats, float]:
        posterior, log_likelihood = self.plain.posterior(prior, confusions)
        if self.ratios is None:
            return posterior, log_likelihood
        # log Σ_k π_k ρ_k ∏ A = log Σ_k π_k ∏ A + log Σ_k q_k ρ_k, q the posterior without a past
        posterior = np.where(posterior > 0, np.maximum(posterior, _LEAST), 0.0) * self.ratios
        total = posterior.sum(axis=1, keepdims=True)
        return posterior / total, log_likelihood + float(np.log(total).sum())


class _PastModel(_Model):
    """What EM sees: the sums of a pass and of the past together."""

    def __init__(self, held: Held, step: MStep, start: Parameters) -> None:
        self.past_sweep = _PastSweep(held)
        super().__init__(self.past_sweep.plain, step)
        self.past = held.past
        # a constant, so that the tolerance is relative to the labels that are new
        self.offset = 0.0
        self.offset = self._past_penalty(start)
        self.penalty = self._past_penalty

    def e_step(self, at: Parameters) -> tuple[Statistics, float]:
        new = self.past_sweep(*at)
        counts, class_counts = self.past.counts + new.counts, self.past.class_counts + new.class_counts
        return Statistics(counts, class_counts, new.log_likelihood), new.log_likelihood

    def _past_penalty(self, parameters: Parameters) -> float:
        # Σ C log A + Σ c log π
        A, prior = (np.log(np.maximum(x, FLOOR)) for x in (parameters.confusions, parameters.prior))
        behind = float((self.past.counts * A).sum() + (self.past.class_counts * prior).sum())
        return self.step.penalty(parameters) + behind - self.offset
