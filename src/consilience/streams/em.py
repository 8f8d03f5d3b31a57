"""EM over the labels that a stream holds, with settled labels (the past) as sums.

EM needs only the E-step sums of the past, and these add up.  Let ``C`` and ``c`` be the sums of the past (expected
counts of annotators and classes) and q° the posterior of an item before its new labels.  Then

    q_n(k)    ∝  π_k ρ_n(k) ∏_{new (m, i)} A_m(i, k),    ρ_n(k) = q°_n(k) / π°_k,  or 1 for an item without a past
    A_m(i, k) ∝  C_m(i, k) + Σ_{new (m, i)} q_n(k)
    π_k       ∝  c_k + Σ_n q_n(k)

are passes over the new labels alone.  Each pass increases

    Σ_n log Σ_k π_k ρ_n(k) ∏ A_m(i, k)  +  Σ C_m(i, k) log A_m(i, k)  +  Σ c_k log π_k,

the free energy of Neal and Hinton with the posteriors of all old items held fixed.  With one pass per update it is the
online EM of Cappé and Moulines.  The approximation: C was summed under earlier parameters.

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
from functools import cached_property

import numpy as np

from consilience.data.annotations import Annotations
from consilience.fitting.ascent import Ascent
from consilience.fitting.em import Callback, ConfusionModel, MStep, Parameters, sweep_of
from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR, Statistics, Sweep
from consilience.kernels.votes import vote_statistics

__all__ = ["LabelsWithPast", "StreamFit", "fit_held", "ratios_of"]

#: Lower limit of a posterior, so that the past never excludes a class for good.
_LEAST = 1e-150


def ratios_of(posterior: Floats, prior: Floats) -> Floats:
    """Return ρ: the evidence of the past about items, relative to the prior, (N, K)."""
    ratios: Floats = np.maximum(posterior, _LEAST) / np.maximum(prior, FLOOR)
    return ratios


@dataclass(frozen=True)
class LabelsWithPast:
    """Labels to pass over, and the past of their items and annotators."""

    labels: Annotations  #: only items and annotators that have labels here; all classes, with gold
    past: Statistics  #: sums of the past of these annotators; class counts without the items of ``labels``
    ratios: Floats | None = None  #: ρ, (N, K); None if no item has a past

    @cached_property
    def _sweep(self) -> Sweep:
        return sweep_of(self.labels)

    @cached_property
    def _ratios(self) -> Floats | None:
        gold = self.labels.gold
        if self.ratios is None or gold is None:
            return self.ratios
        return np.where(gold[:, None] >= 0, 1.0, self.ratios)  # a known item needs no past

    def posterior(self, at: Parameters) -> tuple[Floats, float]:
        """Return the posterior of the items, (N, K), and the log-likelihood of the labels."""
        posterior, log_likelihood = self._sweep.posterior(*at)
        if self._ratios is None:
            return posterior, log_likelihood
        # log Σ_k π_k ρ_k ∏ A = log Σ_k π_k ∏ A + log Σ_k q_k ρ_k, q the posterior without a past
        posterior = np.where(posterior > 0, np.maximum(posterior, _LEAST), 0.0) * self._ratios
        total = posterior.sum(axis=1, keepdims=True)
        return posterior / total, log_likelihood + float(np.log(total).sum())

    def sums(self, at: Parameters) -> Statistics:
        """Return the sums of the E-step over the labels, without those of the past."""
        if self._ratios is None:
            return self._sweep(*at)
        a, (posterior, log_likelihood) = self.labels, self.posterior(at)
        sums = vote_statistics(a.indptr, a.annotator, a.label, posterior, a.n_annotators)
        return Statistics(sums.counts, sums.class_counts, log_likelihood)

    def log_likelihoods(self, at: Parameters) -> Floats:
        """Return the log-probability of the labels of each item, (N,)."""
        a, (posterior, _) = self.labels, self.posterior(at)
        best, every = posterior.argmax(axis=1), np.arange(posterior.shape[0])
        # q_n(k) = π_k ρ_n(k) ∏ A_m(i, k) / Pr(labels), at the most probable k
        A = np.log(np.maximum(at.confusions, FLOOR))[a.annotator, a.label, np.repeat(best, a.labels_per_item)]
        found: Floats = np.log(np.maximum(at.prior, FLOOR))[best] - np.log(posterior[every, best])
        found += np.bincount(np.repeat(every, a.labels_per_item), A, every.size)
        if self._ratios is not None:
            found += np.log(self._ratios[every, best])
        return found


@dataclass(frozen=True)
class StreamFit:
    """Parameters and posteriors from held labels and the past."""

    parameters: Parameters
    posterior: Floats  #: of the items of the held labels, (N, K)
    log_likelihood: float  #: of the held labels, given the past
    converged: bool = True
    history: list[float] = field(default_factory=list)
    hint: Floats | None = None  #: a second opinion that breaks ties, (N, K)
    everybody: Parameters | None = None  #: parameters of all annotators, if the method re-estimates them all


def fit_held(
    data: LabelsWithPast,
    start: Parameters,
    step: MStep,
    *,
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
) -> StreamFit:
    """Run EM over labels with a past until it converges."""
    ascent = Ascent(_ModelWithPast(data, step, start), start, accelerate=accelerate, labels=len(data.labels))
    ascent.run(max_iter=max_iter, tol=tol, callback=callback)
    at = ascent.at if tol > 0 else ascent.latest
    return StreamFit(at, *data.posterior(at), ascent.converged, ascent.history)


class _ModelWithPast(ConfusionModel):
    """The past adds its sums to those of every pass, and its terms to the objective."""

    def __init__(self, data: LabelsWithPast, step: MStep, start: Parameters) -> None:
        super().__init__(data._sweep, step)
        self.data = data
        # a constant, so that the tolerance is relative to the objective of the new labels
        self.offset = 0.0
        self.offset = self.penalty(start)

    def e_step(self, at: Parameters) -> tuple[Statistics, float]:
        new, past = self.data.sums(at), self.data.past
        sums = Statistics(past.counts + new.counts, past.class_counts + new.class_counts, new.log_likelihood)
        return sums, new.log_likelihood

    def penalty(self, at: Parameters) -> float:
        # Σ C log A + Σ c log π
        past, A, prior = self.data.past, *(np.log(np.maximum(x, FLOOR)) for x in (at.confusions, at.prior))
        of_past = float((past.counts * A).sum() + (past.class_counts * prior).sum())
        return self.step.penalty(at) + of_past - self.offset
