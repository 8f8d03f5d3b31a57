"""Minimax conditional entropy: what is said depends on the annotator's confusion and on the item's own.

D. Zhou, Q. Liu, J. Platt and C. Meek, "Aggregating ordinal labels from crowds by minimax conditional entropy", ICML
2014, and with N. Shah, "Regularized minimax conditional entropy for crowdsourcing", arXiv:1503.07240 (2015); the
categorical version.  Among all distributions of labels that agree with the counts of every annotator and of every
item, take the one with the largest entropy; among all truths, the one for which that is smallest.  The dual is

    Pr(m says c of n | truth k)  ∝  exp(σ_m[k, c] + τ_n[k, c]),
    max  Σ_n log Σ_k π_k ∏ Pr(label | truth k)  -  ½ λ_a Σ_m ‖σ_m‖²  -  ½ λ_i Σ_n ‖τ_n‖²,

the penalties being the dual of some slack in agreeing with the counts.  Without τ this is the model of Dawid
and Skene; with it, an item may attract a wrong answer of its own.

====== =============================== ===========
symbol meaning                         shape
====== =============================== ===========
σ      confusion of the annotators     (M, K, K)
τ      confusion of the items          (N, K, K)
π      class prior, uniform in paper   (K,)
q      posterior                       (N, K)
====== =============================== ===========

From vote shares on, corrected by gold, three steps alternate, none of which lets the objective fall: a Newton step in
all σ_m given q and τ, one in all τ_n given q and σ, and q by Bayes' rule (:mod:`consilience.kernels.minimax`).

The penalties are ``λ_a = 2/K`` and ``λ_i = 2/K · (labels per annotator / labels per item)`` on average, times
``annotator_penalty`` and ``item_penalty``.  The ratio is that of the authors' program, and so is the level with two
classes, where its demonstration has λ_a = ¼ K² = 1.  Its factor K² is not kept for more classes: the log-odds that σ
has to reach grow with K, the labels behind a row of σ fall as 1/K, and with eight classes all posteriors are pulled to
uniform and the labels become arbitrary.  Held-out labels, by which the authors choose, are most probable at λ_a of 0.3
to 1 on most crowds with two classes, and of 0.1 to 0.3 with four to ten.

Memory: two floating-point tables (N, K, K) and (M, K, K), 8 K² bytes for each item and annotator.
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
from consilience.kernels.minimax import MinimaxSweeps
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.method import Method

__all__ = ["METHOD", "MinimaxEntropy", "MinimaxFit", "fit_minimax_entropy", "minimax_entropy", "penalties"]

_log = logging.getLogger("consilience")

#: The least probability of a class, so that no logarithm is infinite.
_SMALLEST = 1e-12


@dataclass
class MinimaxFit:
    """Parameters and posterior of the model, and the course of the fit."""

    prior: Floats  #: (K,)
    annotators: Floats  #: e^σ, (M, K, K); the truth is the first index of each matrix
    items: Floats  #: e^τ, (N, K, K)
    posterior: Floats  #: (N, K)
    log_likelihood: float = float("nan")
    converged: bool = False
    history: list[float] = field(default_factory=list)  #: penalised log-likelihood after every iteration


class MinimaxEntropy(IterativeEstimator):
    r"""A confusion for every annotator and for every item (Zhou et al. 2014): an item may attract a wrong answer.

    .. math:: \Pr(m \text{ says } c \text{ of } n \mid k) \propto \exp(\sigma_m[k, c] + \tau_n[k, c])

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    annotator_penalty, item_penalty
        How strongly the confusions of annotators and of items are held near zero, as multiples of λ_a and λ_i (see
        :func:`consilience.methods.minimax_entropy.penalties`).  With a large ``item_penalty`` all items are alike, as
        for Dawid and Skene.
    prior
        "uniform", as in the paper, or "learned".
    max_iter, tol
        Iterations, and the relative change of the objective that ends them (0: run all).
    random_state
        Not used: the fit is deterministic.
    callback
        Called after every iteration; ends the fit by returning True.
    """

    _method = "minimax-entropy"

    annotator_penalty: float = 1.0
    item_penalty: float = 1.0
    prior: Literal["learned", "uniform"] = "uniform"
    tol: float = 1e-6


def minimax_entropy(
    annotations: Annotations,
    *,
    annotator_penalty: float = 1.0,
    item_penalty: float = 1.0,
    prior: Literal["learned", "uniform"] = "uniform",
    max_iter: int = 1000,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> Fit:
    """Fit by regularised minimax conditional entropy; :class:`MinimaxEntropy` documents the parameters."""
    found = fit_minimax_entropy(
        annotations,
        annotator_penalty=annotator_penalty,
        item_penalty=item_penalty,
        prior=prior,
        max_iter=max_iter,
        tol=tol,
        callback=callback,
    )
    cautions = unconverged(found.converged, "minimax entropy", f"{len(found.history)} iterations", tol)
    return Fit.from_posterior(
        annotations, found.posterior, converged=found.converged, history=found.history, cautions=cautions
    )


METHOD = Method(
    "minimax-entropy", minimax_entropy, "MinimaxEntropy", "a confusion for every annotator and for every item"
)


def penalties(annotations: Annotations, annotator_penalty: float, item_penalty: float) -> tuple[float, float]:
    """Return λ_a and λ_i: ``2/K``, and ``2/K`` times labels per annotator over labels per item, in these units.

    Annotators and items without labels do not count.
    """
    annotators = np.count_nonzero(annotations.labels_per_annotator)
    items = np.count_nonzero(annotations.labels_per_item)
    # labels per annotator / labels per item = items / annotators
    ratio = float(items) / max(float(annotators), 1.0)
    return annotator_penalty * 2.0 / annotations.n_classes, item_penalty * 2.0 / annotations.n_classes * ratio


def fit_minimax_entropy(
    annotations: Annotations,
    *,
    annotator_penalty: float = 1.0,
    item_penalty: float = 1.0,
    prior: Literal["learned", "uniform"] = "uniform",
    max_iter: int = 1000,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> MinimaxFit:
    """Fit as :func:`minimax_entropy` does, and return the parameters."""
    a = annotations
    N, M, K = a.n_items, a.n_annotators, a.n_classes
    of_annotators, of_items = penalties(a, annotator_penalty, item_penalty)
    sweeps = MinimaxSweeps(a.indptr, a.annotator, a.label, a.gold, M, K)
    fit = MinimaxFit(np.full(K, 1.0 / K), np.ones((M, K, K)), np.ones((N, K, K)), start_posterior(a))
    tables = fit.annotators, fit.items
    for iteration in range(1, max_iter + 1):
        squares = of_annotators * sweeps.improve_annotators(fit.posterior, *tables, of_annotators)
        squares += of_items * sweeps.improve_items(fit.posterior, *tables, of_items)
        # where annotators mirror each other, the last bit of a sum must not decide between them
        for table in tables:
            np.exp(np.rint(np.log(table) * 2.0**40) / 2.0**40, out=table)
        class_counts, fit.log_likelihood = sweeps.posterior(fit.prior, *tables, fit.posterior)
        objective = fit.log_likelihood - 0.5 * squares
        change = abs(objective - fit.history[-1]) / max(abs(objective), 1.0) if fit.history else float("nan")
        fit.history.append(objective)
        _log.debug("iteration %d: objective %.6f, change %.1e", iteration, objective, change)
        asked = callback and callback(Progress(iteration, max_iter, objective, change))
        fit.converged = tol > 0 and change <= tol
        # what is returned is what the last objective was computed from
        if fit.converged or asked is True:
            break
        if prior == "learned":
            # π_k = Σ_n posterior[n, k] / N, over the items with a label or gold
            fit.prior = np.maximum(class_counts / max(class_counts.sum(), 1e-300), _SMALLEST)
    _log.info("minimax entropy: %d iterations, converged: %s", len(fit.history), fit.converged)
    return fit
