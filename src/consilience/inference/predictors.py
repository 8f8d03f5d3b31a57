"""What a panel says about the value of an item: two predictors, neither of which has seen the item's own answer.

With a value for every class, such as 1 for "yes" and 0 for all others, each predictor is a mean value of the item:

panel      halfway between the mean over its labels and the mean over the posterior of a consensus that has seen no
           known answers (votes know less, but models are too sure)
record     over its labels, each weighted by the annotator's record on the known answers, the item's own left out,

    w_m = max(0, log a_m / (1 - a_m)),        a_m = (hits + ā) / (known + 1),

where ā is the mean posterior probability of a label.
"""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.kernels._arrays import Codes, Floats

__all__ = ["panel_predictors"]


def panel_predictors(annotations: Annotations, posterior: Floats, values: Floats, truth: Codes) -> Floats:
    """Return the predictors, (N, 2), or the first alone without known answers.

    Parameters
    ----------
    annotations
        The labels.
    posterior
        Probabilities of the classes from labels alone, (N, K).
    values
        The value of every class, (K,).
    truth
        Codes of the known answers, -1 where unknown, (N,).
    """
    a = annotations
    by_posterior = posterior @ values
    item, value = a.item_of_label(), values[a.label]
    every = np.ones(a.n_labels)
    by_vote = _weighted_mean(item, every, value, by_posterior)
    panel = 0.5 * (by_vote + by_posterior)
    if not (truth >= 0).any():
        return panel[:, None]
    known = truth[item] >= 0
    hit = known & (a.label == truth[item])
    hits, answered = (np.bincount(a.annotator, of, a.n_annotators) for of in (hit, known))
    average = float(np.clip(posterior[item, a.label].mean(), 0.01, 0.99))
    right, wrong = hits[a.annotator] - hit, (answered - hits)[a.annotator] - (known & ~hit)
    weights = np.maximum(np.log((right + average) / (wrong + 1.0 - average)), 0.0)
    return np.column_stack([panel, _weighted_mean(item, weights, value, panel)])


def _weighted_mean(item: Codes, weights: Floats, value: Floats, otherwise: Floats) -> Floats:
    """Return the weighted mean value of the labels of every item, or ``otherwise`` where all weights are zero."""
    total = np.bincount(item, weights, otherwise.size)
    sums = np.bincount(item, weights * value, otherwise.size)
    return np.divide(sums, total, out=otherwise.copy(), where=total > 1e-9)
