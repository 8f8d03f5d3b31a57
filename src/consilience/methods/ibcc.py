"""Independent Bayesian classifier combination: Dawid and Skene's model with Dirichlet priors, by variational Bayes.

    π ~ Dirichlet(α),   A_m(:, k) ~ Dirichlet(β(:, k)),   truth of n ~ π,   label of n by m ~ A_m(:, truth)

Not one model is fitted but a distribution over models, q(truth) q(π) ∏ q(A_m(:, k)), the nearest of that form to the
posterior given all labels (Simpson et al. 2013).  The factors of the parameters are Dirichlet again: what counts is
the prior's pseudo-labels plus the expected counts of a sweep,

    q(A_m(:, k)) = Dirichlet(β(:, k) + counts[m, :, k]),   q(π) = Dirichlet(α + class_counts),

and the sweep of :mod:`consilience.kernels.em` runs with exp E log π and exp E log A_m in place of π and A_m.  What
rises is the lower bound of the log-probability of all labels, the models integrated out,

    F = Σ_n log Σ_k exp(E log π_k + Σ E log A_m(i, k))  -  KL(q(π) ‖ p(π))  -  Σ KL(q(A_m(:, k)) ‖ p(A_m(:, k))).

An annotator with five labels is not taken to be as they show: E log A is small where little is known.

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
from consilience.fitting.climb import Climb
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
)
from consilience.kernels._arrays import Floats
from consilience.kernels.em import SMALL
from consilience.models.dawid_skene import DawidSkene

__all__ = ["ibcc", "pseudo_labels"]


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
    """Fit by variational Bayes.

    The posterior is the variational one; the model holds the posterior means of prior and confusions.

    Parameters
    ----------
    annotations
        The labels.  Gold items are held at their gold.
    smoothing
        Pseudo-labels in every cell of every annotator's confusion (β off the diagonal; a tenth at least).
    diagonal
        Further pseudo-labels on the diagonal: annotators are expected to be right more often than not.
    shrinkage
        Further pseudo-labels for every cell on average, spread over the cells of a class as the whole crowd answers
        (judged by the votes): whoever gave few labels is expected to be like the others.
    prior
        Learn the class proportions (from one pseudo-item a class), or hold them uniform.
    max_iter, tol
        Passes over the data, and the relative change of the lower bound in one step that ends them (0: run all).
    accelerate
        Leap along the steps (SQUAREM) where the lower bound allows it.
    callback
        Told of every pass; ends the fit by returning True.
    """
    a = informed(annotations)
    proportions = flat_proportions(a.n_classes) if prior == "learned" else None
    pseudo = pseudo_labels(a, smoothing, diagonal, shrinkage)
    beliefs = ConfusionBeliefs(proportions, Dirichlet(pseudo, axis=-2, compiled=a.n_labels >= SMALL))
    climb = Climb(sweep_of(a), beliefs, from_votes(a), accelerate=accelerate)
    ascent = climb.run(max_iter=max_iter, tol=tol, callback=callback)
    posterior, _ = sweep_of(annotations).posterior(*beliefs(ascent.at).tables)
    model = DawidSkene(*beliefs.means(ascent.at), annotations.class_ids, annotations.annotator_ids)
    return fit_of(annotations, model, posterior, model.log_likelihood(annotations), ascent, tol)


def pseudo_labels(annotations: Annotations, smoothing: float, diagonal: float, shrinkage: float = 0.0) -> Floats:
    """Give β, the pseudo-labels that every annotator's confusion starts with, (K, K)."""
    K = annotations.n_classes
    beta = smoothing + diagonal * np.eye(K)
    if shrinkage:
        beta += shrinkage * K * crowd_confusion(annotations)
    return np.maximum(beta, LEAST)
