"""Weighted votes as a Dawid-Skene model, and what else the spectral methods share.

Spectral and message-passing methods compute a weight w_m for every annotator and decide by the largest weighted vote.
That is the most probable class of a model in which the truth tilts an annotator's habits towards itself,

    Pr(m says i | truth k)  ∝  h_m(i) · exp(t w_m [i = k]),

with a uniform prior.  If all habits h_m are even, this is the one-coin model with Pr(right) = e^(t w) / (e^(t w) + K -
1), and the most probable class has the largest Σ w_m over those who said k.  If h_m are the shares of m's labels,
habits are discounted: to first order in t w, the score of k is Σ w_m ([m said k] - h_m(k)), the vote of the centred
labels.  The scale t changes no vote where habits are even; it is fitted by maximum likelihood, for calibrated
probabilities.

====== =================== ==================
symbol name                shape
====== =================== ==================
w      ``weights``         (M,) or (M, K)
h      ``habits``          (M, K)
t      ``scale``           number
====== =================== ==================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.passes import passes_of
from consilience.fitting.em import Parameters, sweep_of
from consilience.fitting.fit import Fit, vote_posterior
from consilience.fitting.known import by_gold, permuted
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.em import Sweep
from consilience.kernels.grouping import components
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences

__all__ = [
    "label_shares",
    "leading_eigenvector",
    "oriented",
    "signed_means",
    "signed_products",
    "steadied",
    "tilted_confusions",
    "weighted_vote",
]

#: The largest log-odds of a label; bounds of the typical label's; and the standard deviation of its log around 1.
_LARGEST = 20.0
_SCALES = 0.01, 10.0
_SPREAD = 2.0
#: Rounds that learn the prior with the scale, passes of each, and the change of the prior that ends them.
_ROUNDS, _PASSES, _PRIOR_TOL = 3, 50, 1e-5
#: Labels added to every annotator, as a share of the average annotator's number.
_ADDED = 0.25
#: Up to this many annotators, all eigenvectors are computed at once.
_SMALL = 64


def weighted_vote(
    annotations: Annotations,
    weights: Floats,
    *,
    habits: Floats | None = None,
    prior: Literal["learned", "uniform"] = "uniform",
    **story: Any,
) -> Fit:
    """Return the fit of annotators' weights.

    Parameters
    ----------
    annotations
        The labels.  Gold items are held at their gold; if there are any, they also decide whether all signs are
        reversed, and on the order of more than two classes.
    weights
        Weights of the annotators' labels, up to a common positive factor: one for all classes (M,) or one for each
        class (M, K).  NaN where unknown: the average is used.
    habits
        How often each annotator says each class, whatever the truth, (M, K); even if None.
    prior
        Hold the class prior uniform, or learn it together with the scale.
    story
        Other fields of the fit: ``converged``, ``history``, ``cautions``…
    """
    a = annotations
    M, K = a.n_annotators, a.n_classes
    w = _standardised(a, np.broadcast_to(weights[:, None] if weights.ndim == 1 else weights, (M, K)))
    h = np.full((M, K), 1.0 / K) if habits is None else habits
    best = _scaled(a, w, h, prior == "learned")
    if K > 2 and a.gold is not None:  # more orders of the classes than signs of the scale
        blind = _scaled(a.with_gold(None), w, h, prior == "learned")
        order = by_gold(passes_of(a), blind)
        if not np.array_equal(order, np.arange(K)):
            best = permuted(blind, order)
    model = DawidSkene(*best, a.class_ids, a.annotator_ids)
    posterior, log_likelihood = model.posterior_and_likelihood(a)
    return Fit(model, posterior, log_likelihood, hint=vote_posterior(a), **story)


def _scaled(annotations: Annotations, weights: Floats, habits: Floats, learn_prior: bool) -> Parameters:
    """Return the model with the likeliest scale of the weights (M, K), and prior if it is learned."""
    a, K = annotations, annotations.n_classes
    sweep = sweep_of(a)
    best = Parameters(np.full(K, 1.0 / K), tilted_confusions(0.0 * weights, habits))
    for _ in range(_ROUNDS if learn_prior else 1):
        if K == 1 or not weights.any():
            break
        before = best.prior

        def likelihood(scale: float, prior: Floats = before) -> float:
            return sweep(prior, tilted_confusions(scale * weights, habits)).log_likelihood

        scale = _likeliest_scale(likelihood, a.gold is not None)
        best = Parameters(before, tilted_confusions(scale * weights, habits))
        if learn_prior:
            best = _learn_prior(sweep, best)
        if np.abs(best.prior - before).max() < _PRIOR_TOL:
            break
    return best


def tilted_confusions(log_odds: Floats, habits: Floats) -> Floats:
    """Return the confusions (M, K, K) of habits (M, K) that the truth k tilts towards itself by ``log_odds[m, k]``."""
    K = habits.shape[1]
    confusions = np.repeat(np.maximum(habits, 1e-6)[:, :, None], K, axis=2)
    same = np.arange(K)
    confusions[:, same, same] *= np.exp(np.clip(log_odds, -_LARGEST, _LARGEST))
    confusions /= confusions.sum(axis=1, keepdims=True)
    return confusions


def oriented(annotations: Annotations, weights: Floats) -> Floats:
    """Choose the sign of each connected group of annotators such that they are right on average over labels."""
    group = components(annotations.indptr, annotations.annotator, annotations.n_annotators)
    known = np.where(np.isfinite(weights), weights, 0.0)
    sums = np.bincount(group, annotations.labels_per_annotator * known)
    return np.asarray(np.where(sums[group] < 0, -1.0, 1.0) * weights)


def label_shares(annotations: Annotations) -> Floats:
    """Return each annotator's shares of the classes, (M, K), with one label added as the whole crowd labels."""
    a = annotations
    M, K = a.n_annotators, a.n_classes
    counts = np.zeros((M, K))
    for k in range(K):
        counts[:, k] = np.bincount(a.annotator[a.label == k], minlength=M)
    crowd = (counts.sum(axis=0) + 1.0 / K) / (counts.sum() + 1.0)
    return np.asarray((counts + crowd) / (counts.sum(axis=1, keepdims=True) + 1.0))


def steadied(n_labels: Ints) -> Floats:
    """Return each annotator's number of labels plus a quarter of the average: the divisor for sums over labels.

    With plain sums the annotators with most labels decide alone, with means those with a single label.
    """
    active = np.count_nonzero(n_labels)
    return np.asarray(n_labels + _ADDED * (float(n_labels.sum()) / active if active else 1.0), np.float64)


def signed_means(annotations: Annotations) -> Floats:
    """Return the mean label of each annotator, (M,), for two classes as -1 and 1."""
    a, n = annotations, annotations.labels_per_annotator
    return np.asarray((2.0 * np.bincount(a.annotator, a.label, a.n_annotators) - n) / np.maximum(n, 1))


def signed_products(pairs: CoOccurrences, mean: Floats) -> Floats:
    """Return Σ (f_i - μ_i)(f_j - μ_j) over the common items of each pair, (P,), labels f being -1 and 1."""
    i, j = pairs.who.T
    counts, S = pairs.counts.astype(np.float64), pairs.totals
    first, second = 2.0 * counts[:, 1].sum(axis=1) - S, 2.0 * counts[:, :, 1].sum(axis=1) - S
    both = 2.0 * np.einsum("pii->p", counts) - S
    return np.asarray(both - mean[i] * second - mean[j] * first + S * mean[i] * mean[j])


def leading_eigenvector(product: Callable[[Floats], Floats], size: int) -> tuple[float, Floats]:
    """Return the largest eigenvalue and its unit eigenvector of a symmetric matrix, given as a product with vectors."""
    start = np.full(size, 1.0 / np.sqrt(size))
    if size <= _SMALL:
        values, vectors = np.linalg.eigh(np.stack([product(column) for column in np.eye(size)], axis=1))
        value, vector = float(values[-1]), vectors[:, -1]
    else:
        from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

        operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
        try:
            found, vectors = eigsh(operator, 1, which="LA", v0=start)
            value, vector = float(found[0]), vectors[:, 0]
        except ArpackNoConvergence:  # no gap at all: equal weights are as good
            value, vector = float(start @ product(start)), start
    return value, vector if vector.sum() >= 0 else -vector


def _standardised(annotations: Annotations, weights: Floats) -> Floats:
    """Replace unknown weights by the average, and scale the typical label to one."""
    n, K = annotations.labels_per_annotator, annotations.n_classes
    known = np.isfinite(weights)
    behind = np.where(known, n[:, None], 0)
    total = behind.sum(axis=0)
    average = np.where(total > 0, (behind * np.where(known, weights, 0.0)).sum(axis=0) / np.maximum(total, 1), 1.0)
    weights = np.where(known, weights, average)
    typical = np.sqrt((n @ weights**2).sum() / max(K * n.sum(), 1))
    return np.asarray(weights / typical) if typical > 0 else weights


def _likeliest_scale(likelihood: Callable[[float], float], signed: bool) -> float:
    """Return the scale that makes the labels most probable; ``signed`` if it may be negative.

    All weights reversed explain the labels as well, but not gold.  A weak prior that a typical label has log-odds of
    about one decides where labels do not determine the scale (single labels, or full agreement).
    """
    from scipy.optimize import minimize_scalar

    low, high = np.log(_SCALES)
    ends = []
    for sign in (1.0, -1.0) if signed else (1.0,):

        def loss(u: float, sign: float = sign) -> float:
            return 0.5 * (u / _SPREAD) ** 2 - likelihood(sign * float(np.exp(u)))

        found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-3})
        ends.append((float(found.fun), sign * float(np.exp(found.x))))
    return min(ends, key=lambda end: end[0])[1]


def _learn_prior(sweep: Sweep, at: Parameters) -> Parameters:
    prior = at.prior
    for _ in range(_PASSES):
        # half an item per class, so that none has probability zero
        counts = sweep(prior, at.confusions).class_counts + 0.5
        before, prior = prior, counts / counts.sum()
        if np.abs(prior - before).max() < _PRIOR_TOL:
            break
    return Parameters(prior, at.confusions)
