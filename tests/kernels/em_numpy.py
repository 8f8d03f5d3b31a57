"""The sweep of :mod:`consilience.kernels.em` in numpy and in logarithms: an independent oracle.

It shares no arithmetic with the compiled sweep.
"""

from __future__ import annotations

import numpy as np

from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.em import FLOOR, Statistics

__all__ = ["posterior", "statistics"]


def posterior(
    indptr: Ints, annotator: Codes, label: Codes, gold: Codes, prior: Floats, confusions: Floats
) -> tuple[Floats, float]:
    """Return the posterior (N, K) and the log-likelihood."""
    q, likelihoods = _posterior(_items(indptr), _cells(annotator, label, prior.size), indptr, gold, prior, confusions)
    return q, float(likelihoods.sum())


def statistics(
    indptr: Ints, annotator: Codes, label: Codes, gold: Codes, prior: Floats, confusions: Floats
) -> Statistics:
    """Return the sums that the M-step needs."""
    item, cell = _items(indptr), _cells(annotator, label, prior.size)
    q, likelihoods = _posterior(item, cell, indptr, gold, prior, confusions)
    return Statistics(_counts(item, cell, q, confusions), q.sum(axis=0), float(likelihoods.sum()))


def _items(indptr: Ints) -> Ints:
    """Item of each label."""
    return np.repeat(np.arange(indptr.size - 1), np.diff(indptr))


def _cells(annotator: Codes, label: Codes, K: int) -> Ints:
    """Row of each label in the (M·K, K) table of confusions."""
    return annotator.astype(np.int64) * K + label


def _counts(item: Ints, cell: Ints, q: Floats, confusions: Floats) -> Floats:
    """Return the expected number of times that annotator m said i of truth k, (M, K, K)."""
    M, K, _ = confusions.shape
    counts = np.empty((M * K, K))
    for k in range(K):
        counts[:, k] = np.bincount(cell, q[item, k], M * K)
    return counts.reshape(M, K, K)


def _posterior(
    item: Ints, cell: Ints, indptr: Ints, gold: Codes, prior: Floats, confusions: Floats
) -> tuple[Floats, Floats]:
    """Return the posterior (N, K) and the log-likelihood of every item, (N,)."""
    K, N = prior.size, indptr.size - 1
    log_confusions = np.log(np.maximum(confusions, FLOOR)).reshape(-1, K)
    # log Pr(labels of n, truth k) = log π_k + Σ log A_m(i, k)
    joint = np.tile(np.log(np.maximum(prior, FLOOR)), (N, 1))
    for k in range(K):
        joint[:, k] += np.bincount(item, log_confusions[cell, k], N)
    if gold.size:
        known = gold >= 0
        joint[known] = np.where(np.arange(K) == gold[known, None], joint[known], -np.inf)
    top = joint.max(axis=1, keepdims=True, initial=-np.inf)
    q = np.exp(joint - top)
    total = q.sum(axis=1, keepdims=True)
    q /= total
    return q, (top + np.log(total))[:, 0]
