"""Which of several fitted models the labels speak for, their freedom paid for.

The likelihood of a model with M K (K - 1) free probabilities rewards splitting a class in two as much as finding the
right classes.  The evidence integrates the probabilities out.  With expected counts n_m(i, k) of annotator m and n(k)
of the classes, under the posterior q of the fitted model (a variational bound, up to the spread of q):

    log E = entropy(q) + Σ_mk log DM(n_m(·, k) | K c(·, k)) + log DM(n(·) | 1).

DM is the Dirichlet-multinomial of a sequence, log DM(n | a) = log Γ(Σa) - log Γ(Σn + Σa) + Σ [log Γ(n + a) - log Γ(a)],
and c the crowd's confusion, which every annotator is expected to resemble as if K labels of each class had shown it.
The entropy follows from the log-likelihood: entropy(q) = L - Σ n_m(i, k) log A_m(i, k) - Σ n(k) log π(k).
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from consilience.aggregation.em import Parameters
from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR, Statistics

__all__ = ["crowd_confusion", "evidence"]


def crowd_confusion(statistics: Statistics) -> Floats:
    """Give the confusion of all annotators together, (K, K), half a label added to every cell of a label in use."""
    pooled: Floats = statistics.counts.sum(axis=0)
    pooled += 0.5 * (pooled.sum(axis=1, keepdims=True) > 0)
    pooled /= pooled.sum(axis=0)
    return pooled


def evidence(parameters: Parameters, statistics: Statistics) -> float:
    """Give the log evidence of the model whose sweep left these statistics."""
    counts, classes = statistics.counts, statistics.class_counts
    K = classes.size
    entropy = (
        statistics.log_likelihood
        - float((counts * np.log(np.maximum(parameters.confusions, FLOOR))).sum())
        - float((classes * np.log(np.maximum(parameters.prior, FLOOR))).sum())
    )
    labels = _dirichlet_multinomial(counts, K * crowd_confusion(statistics))
    truth = _dirichlet_multinomial(classes[:, None], np.ones((K, 1)))
    return entropy + labels + truth


def _dirichlet_multinomial(counts: Floats, a: Floats) -> float:
    """Sum log DM over the columns (the second axis from the right runs over outcomes)."""
    possible = a > 0
    outcomes = gammaln(np.where(possible, counts + a, 1.0)) - gammaln(np.where(possible, a, 1.0))
    total = a.sum(axis=-2)
    return float(outcomes.sum() + (gammaln(total) - gammaln(counts.sum(axis=-2) + total)).sum())
