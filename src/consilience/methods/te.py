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

In the paper everybody shares items with everybody.  Where that is not so, the pair is the best among those who both
share items with k, and signs spread from k* and its partners by agreement.  The paper also assumes that annotators
prefer no class: two who always give the same answer agree perfectly and would be the reference for all.  So covariances
replace correlations, which is the same where classes and answers are balanced (``center=False, smoothing=0`` is the
paper's method).  The model is the one-coin model of the accuracies (1 + θ) / 2 with a uniform prior: votes weighted by
log-odds.

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
from consilience.methods.base.weighted_votes import oriented, signed_means, signed_products, tilted_confusions
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences, pair_moments

__all__ = ["METHOD", "TriangularEstimation", "strongest_pairs", "te"]

#: Pairs that are tried at first, and the most at a time.
_FIRST, _MOST = 256, 1 << 14
#: Rounds in which signs spread to annotators without common items with k*.
_SIGN_ROUNDS = 50


class TriangularEstimation(RefinableEstimator):
    """An annotator's reliability from two others who agree well (Bonald & Combes 2017); two classes.

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    center
        Use covariances for correlations, so that two annotators who always give the same answer do not count as
        agreeing.
    smoothing
        Common items added to every pair, half of them agreements: correlations of pairs with few items shrink to zero.
    random_state
        Not used: the fit is deterministic.
    callback
        Called once with the mean reliability, and after every pass of the refinement.
    """

    _method = "te"

    center: bool = True
    smoothing: float = 3.0


def te(
    annotations: Annotations, *, center: bool = True, smoothing: float = 3.0, callback: Callback | None = None
) -> Fit:
    """Fit by triangular estimation; :class:`TriangularEstimation` documents the parameters."""
    a = annotations
    M, K = a.n_annotators, a.n_classes
    n = a.labels_per_annotator
    pairs = pair_moments(a)
    agree = pairs.totals if K < 2 else signed_products(pairs, signed_means(a) if center else np.zeros(M))
    correlation = agree / (pairs.totals + smoothing)
    first, second = strongest_pairs(pairs, correlation, _order(pairs, correlation, agree, n))
    known = np.flatnonzero(first >= 0)
    i, j = first[known], second[known]
    lookup = _Lookup(pairs, correlation)
    theta = np.zeros(M)
    theta[known] = np.sqrt(np.abs(lookup(i, known) * lookup(j, known) / lookup(i, j)))
    # nobody is perfect: one more label each way
    theta = np.minimum(theta, 1.0 - 1.0 / (n + 2.0))
    theta = oriented(a, theta * _signs(pairs, correlation, agree, theta))
    met = np.bincount(pairs.who.ravel(), minlength=M)
    # annotators in no triangle are taken to be average
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
    # all signs reversed explain the labels as well; gold decides
    for sign in (1.0, -1.0) if a.gold is not None else (1.0,):
        model = DawidSkene(flat[0], tilted_confusions(sign * log_odds, flat), a.class_ids, a.annotator_ids)
        made.append((*model.posterior_and_likelihood(a), model))
    posterior, log_likelihood, model = max(made, key=lambda end: end[1])
    return Fit(model, posterior, log_likelihood, history=[log_likelihood], hint=vote_posterior(a))


METHOD = Method("te", te, "TriangularEstimation", "accuracies from triangles of annotators", needs=(TWO_CLASSES,))


def _order(pairs: CoOccurrences, correlation: Floats, agree: Floats, n: Ints) -> Ints:
    """Order pairs by |C|, the strongest first; ties are broken by the data, not by its order."""
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


def strongest_pairs(pairs: CoOccurrences, correlation: Floats, order: Ints) -> tuple[Ints, Ints]:
    """Return for each annotator the first pair in ``order`` that both share items with them; -1 if there is none."""
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
        # entry (p, k): both members of pair p share items with annotator k
        both = (near[i][:, left]).multiply(near[j][:, left]).tocsc()
        both.sort_indices()
        found = np.flatnonzero(np.diff(both.indptr) > 0)
        best = both.indices[both.indptr[found]]
        first[left[found]], second[left[found]] = i[best], j[best]
        left = np.delete(left, found)
        at, size = at + size, min(2 * size, _MOST)
        if left.size:
            # keep the pairs that share items with somebody who is left
            meets = np.diff(near[left].tocsc().indptr) > 0
            rest = order[at:]
            order, at = rest[meets[who[rest, 0]] & meets[who[rest, 1]]], 0
    return first, second


def _signs(pairs: CoOccurrences, correlation: Floats, agree: Floats, theta: Floats) -> Floats:
    """Return the signs: that of k*, of its partners through k*, then of all by agreement over common items."""
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
    """The correlation of pairs of annotators, given in any order."""

    def __init__(self, pairs: CoOccurrences, correlation: Floats) -> None:
        self.M, self.correlation = pairs.n_annotators, correlation
        self.keys = pairs.who[:, 0].astype(np.int64) * self.M + pairs.who[:, 1]

    def __call__(self, one: Any, other: Any) -> Floats:
        wanted = np.minimum(one, other) * self.M + np.maximum(one, other)
        return np.asarray(self.correlation[np.searchsorted(self.keys, wanted)])
