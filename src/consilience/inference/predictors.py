"""What a panel says about the value of an item: two predictors, neither of which has seen the item's own answer.

With a value for every class, such as 1 for "yes" and 0 for all others, each predictor is a mean value of the item:

panel      halfway between the mean over its labels and the mean over the posterior of a consensus that has seen no
           known answers (votes know less, but models are too sure)
record     over its labels, each weighted by the annotator's record on the known answers of the other folds,

    w_m = max(0, log a_m / (1 - a_m)),        a_m = (hits + ā) / (known + 1),

           where ā is the mean posterior probability of a label; where no answer is known, by the mean of the folds

Folds, not all known answers but one: a record that lacks one answer is lower where that answer is a hit, so beside the
panel it would tell the answer.  Of intervals of shares of 10 % (three judges who are right on 95 %, 100 known answers),
89 % covered then, 98 % with folds and the least number of rare answers (``RARER``).
"""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.inference.constants import FOLDS
from consilience.kernels._arrays import Codes, Floats

__all__ = ["panel_predictors"]


def panel_predictors(
    annotations: Annotations, posterior: Floats, values: Floats, truth: Codes, seed: int = 0
) -> Floats:
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
    seed
        Seed of the folds.
    """
    a = annotations
    by_posterior = posterior @ values
    item, value = a.item_of_label(), values[a.label]
    every = np.ones(a.n_labels)
    by_vote = _weighted_mean(item, every, value, by_posterior)
    panel = 0.5 * (by_vote + by_posterior)
    if not (truth >= 0).any():
        return panel[:, None]
    named = np.flatnonzero(truth >= 0)
    named = named[np.argsort(a.item_ids.sorted()[1][named])]  # folds must not depend on the order of the rows
    fold = np.full(a.n_items, -1, np.int64)
    fold[named] = np.random.default_rng(seed).permutation(named.size) % FOLDS
    of_label, M = fold[item], a.n_annotators
    cell = of_label * M + a.annotator
    known, hit = of_label >= 0, (of_label >= 0) & (a.label == truth[item])
    answered, right = (np.bincount(cell[these], minlength=FOLDS * M).reshape(FOLDS, M) for these in (known, hit))
    others, hits = (of.sum(axis=0) - of for of in (answered, right))
    average = float(np.clip(posterior[item, a.label].mean(), 0.01, 0.99))
    weights = np.maximum(np.log((hits + average) / (others - hits + 1.0 - average)), 0.0)
    weights = np.append(weights, weights.mean(axis=0))  # the last, fold -1, is that of all other items
    return np.column_stack([panel, _weighted_mean(item, weights.reshape(-1, M)[of_label, a.annotator], value, panel)])


def _weighted_mean(item: Codes, weights: Floats, value: Floats, otherwise: Floats) -> Floats:
    """Return the weighted mean value of the labels of every item, or ``otherwise`` where all weights are zero."""
    total = np.bincount(item, weights, otherwise.size)
    sums = np.bincount(item, weights * value, otherwise.size)
    return np.divide(sums, total, out=otherwise.copy(), where=total > 1e-9)
