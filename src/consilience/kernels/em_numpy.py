"""The sweep of :mod:`consilience.kernels.em` in plain numpy and in logarithms.

For data so small that loading numba would take longer than the whole fit.  It shares no arithmetic with the
compiled sweep, which makes each the other's test.  No array of labels × K is made: classes are taken in turn.
"""

from __future__ import annotations

import numpy as np

from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.em import FLOOR, Statistics

__all__ = ["posterior", "statistics"]


def posterior(
    indptr: Ints, annotator: Codes, label: Codes, gold: Codes, prior: Floats, confusions: Floats
) -> tuple[Floats, float]:
    """Give the posterior (N, K) and the log-likelihood."""
    item = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    q, log_likelihood = _posterior(item, _cells(annotator, label, prior.size), indptr.size - 1, gold, prior, confusions)
    return q, log_likelihood


def statistics(
    indptr: Ints, annotator: Codes, label: Codes, gold: Codes, prior: Floats, confusions: Floats
) -> Statistics:
    """Give the sums that the M-step needs."""
    M, K, _ = confusions.shape
    item = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    cell = _cells(annotator, label, K)
    q, log_likelihood = _posterior(item, cell, indptr.size - 1, gold, prior, confusions)
    counts = np.empty((M * K, K))
    for k in range(K):
        counts[:, k] = np.bincount(cell, q[item, k], M * K)
    return Statistics(counts.reshape(M, K, K), q.sum(axis=0), log_likelihood)


def _cells(annotator: Codes, label: Codes, K: int) -> Ints:
    """Row of each label in the (M·K, K) table of confusions."""
    return annotator.astype(np.int64) * K + label


def _posterior(item: Ints, cell: Ints, N: int, gold: Codes, prior: Floats, confusions: Floats) -> tuple[Floats, float]:
    K = prior.size
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
    return q, float((top + np.log(total)).sum())
