"""Bonald and Combes's triangular estimation: an annotator's reliability from two others who agree well with each other.

With labels ±1 and θ(m) = 2 Pr(m is right) - 1, two annotators have the correlation C(i, j) = θ(i) θ(j) on their common
items.  So (Bonald & Combes 2017)

    |θ(k)|  =  sqrt |C(i, k) C(j, k) / C(i, j)|,      (i, j) the pair with the largest |C(i, j)|, both other than k,

and the sign: k* is where |θ(k)² + Σ_i C(i, k)| is largest; that sum has the sign of θ(k*), and θ(k) that of
θ(k*) C(k, k*).

====== ==================================== ==================
symbol meaning                              shape
====== ==================================== ==================
C      ``correlation`` of observed pairs    (P,)
θ      ``reliability``                      (M,)
====== ==================================== ==================

The paper lets everybody meet everybody.  Where they do not, the pair is the best among those who both met k, and the
signs then follow everybody's agreement with all whom they met, from those of k* and its partners on.  Nor does it know
habits: two annotators who always give the same answer agree perfectly, are the best pair of all, and everything is
measured by them.  So covariances stand for correlations, which is the same where classes and answers are balanced
(``center=False, smoothing=0`` is the paper's).  The model is the one-coin model of the accuracies (1 + θ) / 2 with a
uniform prior: votes weighted by log-odds, as in the paper.

T. Bonald and R. Combes, "A minimax optimal algorithm for crowdsourcing", NIPS 2017.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.fitting.em import Callback, Progress
from consilience.fitting.fit import Fit, vote_posterior
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.base.estimator import RefinableEstimator
from consilience.methods.base.method import TWO_CLASSES, Method
from consilience.methods.base.weighted_votes import oriented, tilted_confusions
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences, pair_moments

__all__ = ["METHOD", "TriangularEstimation", "te"]

#: Pairs that are tried at first, and the most at a time.
_FIRST, _MOST = 256, 1 << 14
#: Rounds in which signs spread to those who did not meet k*.
_SIGN_ROUNDS = 50


class TriangularEstimation(RefinableEstimator):
    """An annotator's reliability from two others who agree well (Bonald & Combes 2017); two classes.

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    center
        Take covariances for correlations: two who always give the same answer agree, and mean nothing by it.
    smoothing
        Common items added to every pair, half of them agreements.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told once, of the mean reliability, and of every pass of the refinement.
    """

    _method = "te"

    center: bool = True
    smoothing: float = 3.0


def te(
    annotations: Annotations, *, center: bool = True, smoothing: float = 3.0, callback: Callback | None = None
) -> Fit:
    """Fit by triangular estimation.

    Parameters
    ----------
    annotations
        Labels of two classes.
    center
        Take covariances for correlations: two who always give the same answer agree, and mean nothing by it.
    smoothing
        Common items added to every pair, half of them agreements: correlations of those who hardly met go to zero.
    callback
        Told once; the objective is the mean reliability.
    """
    a = annotations
    M, K = a.n_annotators, a.n_classes
    n = a.labels_per_annotator
    pairs = pair_moments(a)
    agree = _agreement(pairs, _means(a) if center else np.zeros(M))
    correlation = agree / (pairs.totals + smoothing)
    first, second = _strongest_pairs(pairs, correlation, _order(pairs, correlation, agree, n))
    known = np.flatnonzero(first >= 0)
    i, j = first[known], second[known]
    lookup = _Lookup(pairs, correlation)
    theta = np.zeros(M)
    theta[known] = np.sqrt(np.abs(lookup(i, known) * lookup(j, known) / lookup(i, j)))
    # nobody is known to be perfect: one more label each way
    theta = np.minimum(theta, 1.0 - 1.0 / (n + 2.0))
    theta = oriented(a, theta * _signs(pairs, correlation, agree, theta))
    met = np.bincount(pairs.who.ravel(), minlength=M)
    # whoever met fewer than two that met each other is taken to be average
    unknown = (first < 0) | (met < 2)
    if K > 1 and n[~unknown].sum() > 0:
        theta[unknown] = n[~unknown] @ theta[~unknown] / n[~unknown].sum()
    elif K > 1:
        theta[unknown] = 0.5
    if callback:
        callback(Progress(1, 1, float(n @ theta) / max(n.sum(), 1), float("nan")))
    log_odds = np.repeat((np.log1p(theta) - np.log1p(-theta))[:, None], K, axis=1)
    flat = np.full((M, K), 1.0 / K)
    made = []
    # all signs reversed explain labels just as well; gold tells
    for sign in (1.0, -1.0) if a.gold is not None else (1.0,):
        model = DawidSkene(flat[0], tilted_confusions(sign * log_odds, flat), a.class_ids, a.annotator_ids)
        made.append((*model.posterior_and_likelihood(a), model))
    posterior, log_likelihood, model = max(made, key=lambda end: end[1])
    return Fit(model, posterior, log_likelihood, history=[log_likelihood], hint=vote_posterior(a))


METHOD = Method("te", te, "TriangularEstimation", "accuracies from triangles of annotators", needs=(TWO_CLASSES,))


def _means(annotations: Annotations) -> Floats:
    """Give the mean label of each annotator, labels being -1 and 1."""
    a = annotations
    n = a.labels_per_annotator
    return np.asarray((2.0 * np.bincount(a.annotator, a.label, a.n_annotators) - n) / np.maximum(n, 1))


def _agreement(pairs: CoOccurrences, mean: Floats) -> Floats:
    """Give Σ (f_i - μ_i)(f_j - μ_j) over the common items of each pair, labels being -1 and 1."""
    i, j = pairs.who.T
    counts, S = pairs.counts.astype(np.float64), pairs.totals
    if pairs.n_classes < 2:
        return S
    first, second = 2.0 * counts[:, 1].sum(axis=1) - S, 2.0 * counts[:, :, 1].sum(axis=1) - S
    both = 2.0 * np.einsum("pii->p", counts) - S
    return np.asarray(both - mean[i] * second - mean[j] * first + S * mean[i] * mean[j])


def _order(pairs: CoOccurrences, correlation: Floats, agree: Floats, n: Ints) -> Ints:
    """Order pairs by |C|, the strongest first; those that tie by what is not their place in the data."""
    M = pairs.n_annotators
    i, j = pairs.who.T
    strength = np.bincount(i, agree, M) + np.bincount(j, agree, M)
    keys = (
        np.abs(strength[i] - strength[j]),
        strength[i] + strength[j],
        np.abs(n[i] - n[j]),
        n[i] + n[j],
        pairs.totals,
        np.round(np.abs(correlation), 12),
    )
    return np.lexsort(keys)[::-1]


def _strongest_pairs(pairs: CoOccurrences, correlation: Floats, order: Ints) -> tuple[Ints, Ints]:
    """Give for each annotator the first pair in ``order`` whose two members both met them; -1 where there is none."""
    from scipy.sparse import csr_array

    M = pairs.n_annotators
    who = pairs.who.astype(np.int64)
    here, there = np.concatenate([who.T, who.T[::-1]], axis=1)
    near = csr_array((np.ones(here.size, np.int8), (here, there)), shape=(M, M))
    first, second = np.full(M, -1), np.full(M, -1)
    order = order[correlation[order] != 0]
    left = np.flatnonzero(np.diff(near.indptr) >= 2)
    at, size = 0, _FIRST
    while at < order.size and left.size:
        tried = order[at : at + size]
        i, j = who[tried].T
        # entry (p, k): pair p and annotator k all met
        both = (near[i][:, left]).multiply(near[j][:, left]).tocsc()
        both.sort_indices()
        found = np.flatnonzero(np.diff(both.indptr) > 0)
        best = both.indices[both.indptr[found]]
        first[left[found]], second[left[found]] = i[best], j[best]
        left = np.delete(left, found)
        at, size = at + size, min(2 * size, _MOST)
        if left.size:
            # of the pairs to come, only those that met somebody who is left
            meets = np.diff(near[left].tocsc().indptr) > 0
            rest = order[at:]
            order, at = rest[meets[who[rest, 0]] & meets[who[rest, 1]]], 0
    return first, second


def _signs(pairs: CoOccurrences, correlation: Floats, agree: Floats, theta: Floats) -> Floats:
    """Give everybody's sign: k*'s, its partners' through k*, then everybody's by agreement with all whom they met."""
    M = pairs.n_annotators
    i, j = pairs.who.T
    support = theta**2 + np.bincount(i, correlation, M) + np.bincount(j, correlation, M)
    star = int(np.argmax(np.round(np.abs(support), 9)))
    sign = np.zeros(M)
    partner = np.where(i == star, j, i)
    joined = (i == star) | (j == star)
    sign[partner[joined]] = np.sign(correlation[joined])
    sign[star] = 1.0
    sign *= np.sign(support[star]) or 1.0
    for _ in range(_SIGN_ROUNDS):
        trust = sign * theta
        score = np.bincount(i, agree * trust[j], M) + np.bincount(j, agree * trust[i], M)
        new = np.where(score == 0, sign, np.sign(score))
        if np.array_equal(new, sign):
            break
        sign = new
    return np.where(sign == 0, 1.0, sign)


class _Lookup:
    """Finds the correlation of pairs of annotators, given in any order."""

    def __init__(self, pairs: CoOccurrences, correlation: Floats) -> None:
        self.M, self.correlation = pairs.n_annotators, correlation
        self.keys = pairs.who[:, 0].astype(np.int64) * self.M + pairs.who[:, 1]

    def __call__(self, one: Any, other: Any) -> Floats:
        wanted = np.minimum(one, other) * self.M + np.maximum(one, other)
        return np.asarray(self.correlation[np.searchsorted(self.keys, wanted)])
