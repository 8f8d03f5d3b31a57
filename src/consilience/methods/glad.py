"""GLAD: every annotator has an ability, every item a difficulty, and the two together decide who is right.

J. Whitehill, P. Ruvolo, T. Wu, J. Bergsma and J. Movellan, "Whose vote should count more: optimal integration of labels
from labelers of unknown expertise", NIPS 2009.  An annotator m is right about item n with probability

    s(α_m β_n) = 1 / (1 + exp(-α_m β_n)),    β_n = exp(b_n),

and errs towards each of the other K - 1 classes alike.  An ability below zero is an adversary's; an item with β near
zero is so hard that everybody guesses between right and wrong.  The objective is the penalised log-likelihood

    L = Σ_n log Σ_k π_k ∏ Pr(label | truth k)  -  ½ Σ_m (α_m - 1)²  -  ½ Σ_n (b_n - 1)²:

α and b have normal priors with mean and variance one, as in the authors' own program.

====== ============= ========
symbol name          shape
====== ============= ========
α      ``ability``   (M,)
b      ``ease``      (N,)
π      ``prior``     (K,)
====== ============= ========

EM starts with everybody at the mean of the priors, where the posterior is a soft vote; with gold, abilities take a step
towards what gold makes of the votes first.  The M-step
has no closed form; two safeguarded Newton steps for each b_n, then for each α_m, take its place, and L cannot fall
(:mod:`consilience.kernels.glad`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.fitting.em import Callback, Progress
from consilience.fitting.fit import Fit, unconverged
from consilience.fitting.known import start_posterior
from consilience.kernels._arrays import Floats
from consilience.kernels.glad import PRIOR_MEAN, GladSweeps
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.method import Method

__all__ = ["GLAD", "METHOD", "GladFit", "fit_glad", "glad"]

_log = logging.getLogger("consilience")

#: The least probability of a class, so that no logarithm is infinite.
_SMALLEST = 1e-12


@dataclass
class GladFit:
    """Parameters and posterior of GLAD, and the course of the fit."""

    prior: Floats  #: (K,)
    ability: Floats  #: α, (M,); 1 for annotators without labels
    ease: Floats  #: b = log β, (N,); 1 for items without labels
    posterior: Floats  #: (N, K)
    log_likelihood: float = float("nan")
    converged: bool = False
    history: list[float] = field(default_factory=list)  #: penalised log-likelihood after every iteration

    @property
    def penalty(self) -> float:
        """Return ``½ Σ (α - 1)² + ½ Σ (b - 1)²``."""
        return 0.5 * float(((self.ability - 1.0) ** 2).sum() + ((self.ease - 1.0) ** 2).sum())


class GLAD(IterativeEstimator):
    r"""An ability for every annotator and a difficulty for every item (Whitehill et al. 2009).

    .. math:: \Pr(m \text{ is right about } n) = 1 / (1 + \exp(-\alpha_m \beta_n))

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    prior
        "uniform", as in the paper, or "learned".
    max_iter, tol
        EM iterations, and the relative change of the objective that ends them (0: run all).
    random_state
        Not used: the fit is deterministic.
    callback
        Called after every iteration; ends the fit by returning True.
    """

    _method = "glad"

    prior: Literal["learned", "uniform"] = "uniform"


def glad(
    annotations: Annotations,
    *,
    prior: Literal["learned", "uniform"] = "uniform",
    max_iter: int = 1000,
    tol: float = 1e-7,
    callback: Callback | None = None,
) -> Fit:
    """Fit abilities and difficulties by EM; :class:`GLAD` documents the parameters."""
    found = fit_glad(annotations, prior=prior, max_iter=max_iter, tol=tol, callback=callback)
    cautions = unconverged(found.converged, "GLAD", f"{len(found.history)} iterations", tol)
    return Fit.from_posterior(
        annotations, found.posterior, converged=found.converged, history=found.history, cautions=cautions
    )


METHOD = Method("glad", glad, "GLAD", "an ability for every annotator, a difficulty for every item")


def fit_glad(
    annotations: Annotations,
    *,
    prior: Literal["learned", "uniform"] = "uniform",
    max_iter: int = 1000,
    tol: float = 1e-7,
    callback: Callback | None = None,
) -> GladFit:
    """Fit as :func:`glad` does, and return abilities and difficulties."""
    a = annotations
    N, M, K = a.n_items, a.n_annotators, a.n_classes
    sweeps = GladSweeps(a.indptr, a.annotator, a.label, a.gold, M, K)
    fit = GladFit(np.full(K, 1.0 / K), np.full(M, PRIOR_MEAN), np.full(N, PRIOR_MEAN), np.full((N, K), 1.0 / K))
    iteration = 0
    if a.gold is not None:
        sweeps.improve_ability(start_posterior(a), fit.ability, fit.ease)
    while True:
        fit.posterior, class_counts, fit.log_likelihood = sweeps.posterior(fit.prior, fit.ability, fit.ease)
        if iteration == max_iter:
            break
        iteration += 1
        objective = fit.log_likelihood - fit.penalty
        change = abs(objective - fit.history[-1]) / max(abs(objective), 1.0) if fit.history else float("nan")
        fit.history.append(objective)
        _log.debug("iteration %d: objective %.6f, change %.1e", iteration, objective, change)
        asked = callback and callback(Progress(iteration, max_iter, objective, change))
        fit.converged = tol > 0 and change <= tol
        # what is returned is what the last objective was computed from
        if fit.converged or asked is True or iteration == max_iter:
            break
        sweeps.improve_ease(fit.posterior, fit.ability, fit.ease)
        sweeps.improve_ability(fit.posterior, fit.ability, fit.ease)
        # where annotators mirror each other, the last bit of a sum must not decide between them
        fit.ability, fit.ease = (np.rint(x * 2.0**40) / 2.0**40 for x in (fit.ability, fit.ease))
        if prior == "learned":
            # π_k = Σ_n posterior[n, k] / N, over the items with a label or gold
            fit.prior = np.maximum(class_counts / max(class_counts.sum(), 1e-300), _SMALLEST)
    _log.info("GLAD: %d iterations, converged: %s", iteration, fit.converged)
    return fit
