"""Classifiers as a source beside the annotators: learned weights (inverse temperatures) and a learned confusion.

A classifier's probabilities are neither votes nor the truth: it may be too sure, too modest, useless, or mistake one
class for another.  With P_s the out-of-fold probabilities of classifier s,

    z_n(j)  ∝  Π_s P_s,n(j)^β_s,        g_n(k)  =  Σ_j z_n(j) T(j, k),

where 1 / β is the temperature and T(j, k) the probability that items taken for j are of class k.  With ℓ_n(k) the
probability of the labels of item n if its class is k, β and T maximise

    Σ_n log Σ_k g_n(k) ℓ_n(k)  -  precision / 2 · ‖β - 1/S‖²  +  diagonal · Σ_k log T(k, k)  +  smoothing · Σ log T.

β by L-BFGS given T; T by EM given β, since g is linear in T.  A useless classifier gets β near zero, and g is then the
share of every class.  Items of known truth have ℓ at their truth, so known answers teach most.

====== ========================= ==========
symbol name                      shape
====== ========================= ==========
P      ``members``               (S, N, K)
β      ``weights``               (S,)
T      ``confusion``             (K, K)
g      ``probabilities``         (N, K)
ℓ      ``likelihood``            (N, K), up to a factor for each item
====== ========================= ==========
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilience.features import constants
from consilience.kernels._arrays import Floats

__all__ = ["Source", "fit_source"]


@dataclass(frozen=True)
class Source:
    """What was learned of some classifiers."""

    weights: Floats  #: β, (S,)
    confusion: Floats  #: T, (K, K); rows sum to one

    @classmethod
    def at_its_word(cls, n_members: int, n_classes: int) -> Source:
        """Return the source that believes its classifiers, or the geometric mean of several."""
        return cls(np.full(n_members, 1.0 / n_members), np.eye(n_classes))

    def __call__(self, members: Floats) -> Floats:
        """Return g, the probability of every class, (N, K)."""
        return _tempered(_logarithms(members), self.weights) @ self.confusion


def fit_source(members: Floats, likelihood: Floats, start: Source, *, rounds: int = 1) -> Source:
    """Return the source under which the labels are most probable, after some rounds of ascent."""
    logs, found = _logarithms(members), start
    for _ in range(rounds):
        # the confusion first: a classifier that swaps two classes would seem useless without it
        confusion = _fit_confusion(_tempered(logs, found.weights), likelihood, found.confusion)
        found = Source(_fit_weights(logs, likelihood @ confusion.T, found.weights), confusion)
    return found


def penalty(source: Source) -> float:
    """Return the log-density of the prior of β and T, up to a constant."""
    S, K = source.weights.size, len(source.confusion)
    away = float(np.square(source.weights - 1.0 / S).sum())
    logs = np.log(np.maximum(source.confusion, 1e-300))
    prior = constants.SOURCE_DIAGONAL * np.trace(logs) + constants.SOURCE_SMOOTHING / K * logs.sum()
    return float(prior) - 0.5 * constants.WEIGHT_PRECISION * away


def _logarithms(members: Floats) -> Floats:
    floor = constants.LEAST_PROBABILITY
    logs: Floats = np.log(np.maximum(members, floor))
    return logs


def _tempered(logs: Floats, weights: Floats) -> Floats:
    total = np.tensordot(weights, logs, 1)
    z: Floats = np.exp(total - total.max(axis=1, keepdims=True))
    z /= z.sum(axis=1, keepdims=True)
    return z


def _fit_weights(logs: Floats, r: Floats, start: Floats) -> Floats:
    """Maximise Σ_n log Σ_j z_n(j) r_n(j) over β ≥ 0, with r_n(j) = Σ_k T(j, k) ℓ_n(k)."""
    from scipy.optimize import minimize

    S = start.size

    def loss(weights: Floats) -> tuple[float, Floats]:
        z = _tempered(logs, weights)
        joint = z * r
        total = joint.sum(axis=1, keepdims=True)
        # d / dβ_s  =  Σ_n Σ_j (z r / Σ z r - z) log P_s
        slope = np.tensordot(logs, joint / total - z, 2)
        away = weights - 1.0 / S
        value = 0.5 * constants.WEIGHT_PRECISION * float(away @ away) - float(np.log(total).sum())
        return value, constants.WEIGHT_PRECISION * away - slope

    bounds = [(0.0, constants.LARGEST_WEIGHT)] * S
    # where probabilities are near 0 and 1 the loss is flat, so it is worth looking at smaller weights first
    start = min((start, 0.3 * start, 0.1 * start, 0.03 * start), key=lambda each: loss(each)[0])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 20})
    return np.asarray(found.x, np.float64)


def _fit_confusion(z: Floats, likelihood: Floats, confusion: Floats) -> Floats:
    """Take EM steps for T: expected number of items that z takes for j and that are k, and pseudo-items."""
    K = len(confusion)
    pseudo = constants.SOURCE_DIAGONAL * np.eye(K) + constants.SOURCE_SMOOTHING / K
    for _ in range(constants.CONFUSION_STEPS):
        total = ((z @ confusion) * likelihood).sum(axis=1, keepdims=True)
        confusion = confusion * (z.T @ (likelihood / total)) + pseudo
        confusion /= confusion.sum(axis=1, keepdims=True)
    return confusion
