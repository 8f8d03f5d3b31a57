"""Honest probabilities where annotators err together.

Dawid and Skene take annotators for independent given the truth.  People share what they find hard: on a hard item many
err, often the same way, and the posterior of the model counts that as so many witnesses.  Two steps:

*How much do they err together?*  For two labels of an item, the other labels tell what the truth may be, and
so how often the two should agree.  With q the posterior of the item without both labels,

    excess  =  Σ over pairs of labels  [the two agree] - Σ_k q_k Σ_i A_m(i, k) A_j(i, k),

which is zero on average when annotators are independent, whatever their confusions.  Divided by the sum over the same
pairs of √(v_m v_j), v the variance of being right, it is the correlation of errors.

*What follows?*  n labels whose errors have correlation ρ are worth n w independent ones, w = 1 / (1 + (n - 1) ρ) (the
design effect of Kish 1965), so the posterior q is tempered: raised to the power w, which changes no label.  A model
that knows of hard items (:mod:`consilience.aggregation.hard_items`) allows for some of this by itself; there w is a
quarter at least.  The vote takes part, most where there is little else, and no confidence exceeds what a crowd can be
trusted with:

    p  =  (1 - ε) [ n² / (n² + 1) · q^w / Σ q^w  +  1 / (n² + 1) · votes ]  +  ε / K,      ε = ε₂ log₂ K.

That the truth may be one which the whole crowd misses shows in no agreement among annotators.  ρ and ε₂ are what public
crowds with known truth ask for (docs/decisions/0005); the measured correlation decides whether they apply.

L. Kish, "Survey sampling" (1965), section 5.4.
"""

from __future__ import annotations

import numpy as np

from consilience.aggregation.em import Parameters
from consilience.annotations import Annotations
from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR
from consilience.moments.label_pairs import label_pairs, labels_of_some

__all__ = ["CHANCE", "CLEAR", "OF_HARD_ITEMS", "TYPICAL", "applies", "error_correlation", "soften", "temper"]

#: ρ, the correlation of errors that tempers a posterior, and ε₂, the share of doubt for two classes.
TYPICAL, _DOUBT = 0.25, 0.03
#: The least that w is for a model which knows of hard items.
OF_HARD_ITEMS = 0.25
#: A measured correlation below the first may be chance; above the second it shows a crowd whose errors go together.
CHANCE, CLEAR = 0.02, 0.05
#: Pairs of labels to look at, about.
_PAIRS = 50_000


def error_correlation(annotations: Annotations, parameters: Parameters) -> float:
    """Give the correlation of errors that the labels show beyond the model; near 0 for independent annotators."""
    _, indptr, annotator, label = labels_of_some(annotations, _PAIRS)
    first, second = label_pairs(indptr)
    if not first.size:
        return 0.0
    prior, A = np.maximum(parameters.prior, FLOOR), np.maximum(parameters.confusions, FLOOR)
    M, K, _ = A.shape
    n_labels = np.diff(indptr)
    m, j = annotator.take(first), annotator.take(second)
    # log q without the two labels: what all labels say, less what these two do
    cell = annotator * K + label
    log_q = np.empty((K, first.size))
    for k in range(K):
        log_each = np.log(A[:, :, k]).ravel().take(cell)
        log_all = np.add.reduceat(log_each, indptr[:-1])
        log_rest = np.repeat(np.log(prior[k]) + log_all, n_labels) - log_each
        np.subtract(log_rest.take(first), log_each.take(second), out=log_q[k])
    log_q -= log_q.max(axis=0)
    q = np.exp(log_q, out=log_q)
    q /= q.sum(axis=0)
    # Σ_k q_k Σ_i A_m(i, k) A_j(i, k), and v = Σ_k q_k A_m(k, k) (1 - A_m(k, k))
    agree, v_m, v_j = (np.zeros(first.size) for _ in range(3))
    for k in range(K):
        of_k = np.ascontiguousarray(A[:, :, k])
        if first.size >= M * M:  # fewer pairs of annotators than of labels
            agree += q[k] * (of_k @ of_k.T).take(m * M + j)
        else:
            agree += q[k] * np.einsum("pi,pi->p", of_k.take(m, axis=0), of_k.take(j, axis=0))
        variance = of_k[:, k] * (1.0 - of_k[:, k])
        v_m += q[k] * variance.take(m)
        v_j += q[k] * variance.take(j)
    scale = float(np.sqrt(v_m * v_j).sum())
    excess = float(np.count_nonzero(label.take(first) == label.take(second)) - agree.sum())
    return excess / scale if scale > 0 else 0.0


def applies(correlation: float) -> bool:
    """Tell whether errors of this correlation lower the confidence at all."""
    return correlation > CHANCE


def temper(posterior: Floats, n_labels: Floats, least: float = 0.0) -> Floats:
    """Give the posterior (N, K) for which labels of correlated errors count as fewer; it changes no label.

    Each counts for ``least``, or more.
    """
    n = np.maximum(n_labels, 1.0)[:, None]
    w = np.maximum(1.0 / (1.0 + (n - 1.0) * TYPICAL), least)
    # q^w, of the largest, so that nothing underflows together
    p = (posterior / posterior.max(axis=1, keepdims=True)) ** w
    tempered: Floats = p / p.sum(axis=1, keepdims=True)
    return tempered


def soften(
    annotations: Annotations, posterior: Floats, mild: Floats, votes: Floats, n_labels: Floats, correlation: float
) -> Floats:
    """Give probabilities that allow for errors which go together.

    Parameters
    ----------
    annotations
        The labels; gold items and unlabelled ones stay as they are.
    posterior
        That of the model, (N, K).
    mild
        The same after :func:`temper`, or the average of models that differ, which needs none.
    votes
        Shares of the votes, (N, K).
    n_labels
        Independent labels of each item: copies of one annotator count once, (N,).
    correlation
        What :func:`error_correlation` found.  Below 0.05 the result moves towards the posterior of the model, which
        it is up to 0.02.
    """
    K = posterior.shape[1]
    share = float(np.clip((correlation - CHANCE) / (CLEAR - CHANCE), 0.0, 1.0))
    judged = annotations.labels_per_item > 0
    if annotations.gold is not None:
        judged &= annotations.gold < 0
    if share == 0.0 or K == 1 or not judged.any():
        return posterior
    q, p, v, n = posterior[judged], mild[judged], votes[judged], np.maximum(n_labels[judged], 1.0)[:, None]
    doubt = _DOUBT * np.log2(K)
    cautious = (1.0 - doubt) * (n**2 * p + v) / (n**2 + 1.0) + doubt / K
    softened = posterior.copy()
    softened[judged] = (1.0 - share) * q + share * cautious
    return softened
