"""Independent Bayesian classifier combination: Dawid and Skene's model with Dirichlet priors, by variational Bayes.

    π ~ Dirichlet(α),   A_m(:, k) ~ Dirichlet(β(:, k)),   truth of n ~ π,   label of n by m ~ A_m(:, truth)

The fit is a distribution over models, q(truth) q(π) ∏ q(A_m(:, k)), the nearest of that form to the posterior given all
labels (Simpson et al. 2013).  The factors of the parameters are Dirichlet, with the prior's pseudo-labels plus the
expected counts of a sweep,

    q(A_m(:, k)) = Dirichlet(β(:, k) + counts[m, :, k]),   q(π) = Dirichlet(α + class_counts),

and the sweep of :mod:`consilience.kernels.em` runs with exp E log π and exp E log A_m in place of π and A_m.  The
objective is the lower bound of the log-probability of all labels, the models integrated out,

    F = Σ_n log Σ_k exp(E log π_k + Σ E log A_m(i, k))  -  KL(q(π) ‖ p(π))  -  Σ KL(q(A_m(:, k)) ‖ p(A_m(:, k))).

An annotator with five labels is not judged by them alone: E log A is small where little is known.

====== ============================================= ==============
symbol name                                          shape
====== ============================================= ==============
α      ``Dirichlet.pseudo`` of the class proportions (K,)
β      ``Dirichlet.pseudo`` of the confusions        (K, K)
F      ``history``                                   one for a pass
====== ============================================= ==============

H.-C. Kim and Z. Ghahramani, "Bayesian classifier combination" (AISTATS 2012).  E. Simpson, S. Roberts, I. Psorakis and
A. Smith, "Dynamic Bayesian combination of multiple imperfect classifiers" (2013).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.passes import Labels
from consilience.fitting.em import Callback, sweep_of
from consilience.fitting.fit import Fit, crowd_confusion
from consilience.fitting.variational import (
    LEAST,
    ConfusionBeliefs,
    Dirichlet,
    fit_of,
    flat_proportions,
    from_votes,
    informed,
    variational_ascent,
)
from consilience.kernels._arrays import Floats
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.method import Method
from consilience.models.dawid_skene import DawidSkene

__all__ = ["IBCC", "METHOD", "ibcc", "pseudo_labels"]


class IBCC(IterativeEstimator):
    r"""Independent Bayesian classifier combination (Kim & Ghahramani 2012): Dawid and Skene's model with priors.

    .. math:: A_m(:, k) \sim \text{Dirichlet}(\beta(:, k)), \qquad \pi \sim \text{Dirichlet}(\alpha)

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    smoothing, diagonal
        Pseudo-labels in every cell of every confusion (β; a tenth at least), and further ones on the diagonal:
        annotators are expected to be right more often than not.
    shrinkage
        Further pseudo-labels for every cell on average, spread over the cells of a class as the whole crowd answers
        (judged by the votes): annotators with few labels are expected to be like the others.
    prior
        "learned" (from one pseudo-item per class), or "uniform" to hold all classes equally likely.
    max_iter, tol
        Passes over the data, and the relative change of the lower bound that ends them (0: run all passes).
    accelerate
        Extrapolate along the steps (SQUAREM) where that raises the lower bound.
    random_state
        Not used: the fit is deterministic.
    callback
        Called after every pass; ends the fit by returning True.
    """

    _method = "ibcc"

    smoothing: float = 1.0
    diagonal: float = 3.0
    shrinkage: float = 0.0
    prior: Literal["learned", "uniform"] = "learned"
    accelerate: bool = True


def ibcc(
    annotations: Annotations,
    *,
    smoothing: float = 1.0,
    diagonal: float = 3.0,
    shrinkage: float = 0.0,
    prior: Literal["learned", "uniform"] = "learned",
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
) -> Fit:
    """Fit by variational Bayes; :class:`IBCC` documents the parameters.

    The posterior is the variational one; the model holds the posterior means of prior and confusions.
    """
    a = informed(annotations)
    proportions = flat_proportions(a.n_classes) if prior == "learned" else None
    pseudo = pseudo_labels(a, smoothing, diagonal, shrinkage)
    beliefs = ConfusionBeliefs(proportions, Dirichlet(pseudo, axis=-2))
    ascent = variational_ascent(sweep_of(a), beliefs, from_votes(a), accelerate=accelerate)
    ascent.run(max_iter=max_iter, tol=tol, callback=callback)
    posterior, _ = sweep_of(annotations).posterior(*beliefs(ascent.at).tables)
    model = DawidSkene(*beliefs.means(ascent.at), annotations.class_ids, annotations.annotator_ids)
    return fit_of(annotations, model, posterior, model.log_likelihood(annotations), ascent, tol)


METHOD = Method("ibcc", ibcc, "IBCC", "a distribution over confusion matrices, by variational Bayes")


def pseudo_labels(annotations: Labels, smoothing: float, diagonal: float, shrinkage: float = 0.0) -> Floats:
    """Return β, the pseudo-labels of every annotator's confusion, (K, K)."""
    K = annotations.n_classes
    beta = smoothing + diagonal * np.eye(K)
    if shrinkage:
        beta += shrinkage * K * crowd_confusion(annotations)
    return np.maximum(beta, LEAST)
