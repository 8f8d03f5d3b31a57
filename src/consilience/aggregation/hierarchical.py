"""Dawid and Skene's model with annotators drawn from a crowd whose habits are learned too.

    A_m(:, k) ~ Dirichlet(β(:, k)),    β: how the crowd answers, and how much its members are alike

As in :mod:`consilience.aggregation.ibcc` the confusions are integrated out by variational Bayes; here β is not given
but maximises the lower bound F (empirical Bayes), so the data decides how far whoever gave few labels is taken
to be like the others.  For given expected counts c the part of F that depends on β is

    Σ_m Σ_k  log B(c_m(:, k) + β(:, k)) - log B(β(:, k)),        B the multivariate beta function,

and Minka's fixed point raises it (T. Minka, "Estimating a Dirichlet distribution", 2000, eq. (55)):

    β(i, k)  ←  β(i, k) · Σ_m [ψ(c_m(i, k) + β(i, k)) - ψ(β(i, k))] / Σ_m [ψ(c_m(k) + β(k)) - ψ(β(k))],

where c_m(k) and β(k) are sums over i.  With ``coin`` an annotator has one probability of being right, whatever the
class, drawn from a Beta distribution learned in the same way; errors are spread evenly.  F tells which of the two suits
the data: it is a lower bound of the log-probability of all labels, the models integrated out, and so pays for
parameters that the data does not need.

====== ======================================== =============
symbol name                                     shape
====== ======================================== =============
β      ``Dirichlet.pseudo``                     (K, K)
c      ``Statistics.counts``                    (M, K, K)
F      ``details["lower_bound"]``, ``history``  a number
====== ======================================== =============
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from consilience.aggregation.em import Callback, Parameters, sweep_of
from consilience.aggregation.fit import Fit, vote_posterior
from consilience.aggregation.variational import (
    ConfusionBeliefs,
    Dirichlet,
    Expectation,
    ascend,
    fit_of,
    flat_proportions,
    informed,
)
from consilience.annotations import Annotations
from consilience.kernels._arrays import Floats
from consilience.kernels.em import Statistics
from consilience.kernels.votes import vote_statistics

__all__ = ["CoinBeliefs", "CrowdBeliefs", "hierarchical"]

#: What annotators are taken for before anything is known: right four times in five.
_RIGHT, _WRONG = 4.0, 1.0
#: Pseudo-labels are kept between these: below, exp E log A would be no number; above, everybody is the same already.
_LEAST, _MOST = 0.1, 1000.0
#: Steps of the fixed point in every pass over the data.
_STEPS = 3
RATE = 1.0


def hierarchical(
    annotations: Annotations,
    *,
    coin: bool = False,
    prior: Literal["learned", "uniform"] = "learned",
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
) -> Fit:
    """Fit by variational Bayes, the crowd's habits by empirical Bayes.

    Parameters
    ----------
    annotations
        The labels.  Gold items are held at their gold.
    coin
        One probability of being right for every annotator, instead of a confusion matrix.
    prior
        Learn the class proportions (from one pseudo-item a class), or hold them uniform.
    max_iter, tol
        Passes over the data, and the relative change of the lower bound in one step that ends them (0: run all).
    accelerate
        Leap along the steps (SQUAREM) where the lower bound allows it.
    callback
        Told of every pass; ends the fit by returning True.
    """
    a = informed(annotations)
    proportions = flat_proportions(a.n_classes) if prior == "learned" else None
    beliefs = (CoinBeliefs if coin else CrowdBeliefs)(proportions, a.n_classes)
    start = vote_statistics(a.indptr, a.annotator, a.label, vote_posterior(a), a.n_annotators)
    ascent = ascend(sweep_of(a), beliefs, start, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback)
    posterior, _ = sweep_of(annotations).posterior(*beliefs(ascent.at).tables)
    return fit_of(annotations, beliefs.means(ascent.at), posterior, ascent, tol)


class CrowdBeliefs(ConfusionBeliefs):
    """Confusions drawn from a crowd; β takes a few steps of its fixed point whenever counts come in.

    Each step raises the lower bound at these counts, so learning on the way never lowers it.
    """

    def __init__(self, proportions: Dirichlet | None, n_classes: int) -> None:
        K = n_classes
        beta = np.where(np.eye(K, dtype=bool), _RIGHT, max(_WRONG / max(K - 1, 1), _LEAST))
        super().__init__(proportions, Dirichlet(beta, axis=-2))

    def __call__(self, statistics: Statistics) -> Expectation:
        """Learn from these counts how the crowd answers, then give the expected logarithms after them."""
        counts = statistics.counts
        beta = self.confusions.pseudo
        for _ in range(_STEPS):
            beta = _fixed_point(counts, counts.sum(axis=1), beta, beta.sum(axis=0))
        self.confusions = Dirichlet(beta, axis=-2)
        return super().__call__(statistics)


class CoinBeliefs:
    """One probability of being right for every annotator, drawn from a Beta distribution of the crowd's."""

    def __init__(self, proportions: Dirichlet | None, n_classes: int) -> None:
        self.proportions = proportions
        self.n_classes = n_classes
        self.coin = Dirichlet(np.array([_RIGHT, _WRONG]))

    def __call__(self, statistics: Statistics) -> Expectation:
        """Learn from these counts how the crowd answers, then give the expected logarithms after them."""
        K, tosses = self.n_classes, self._tosses(statistics)
        beta = self.coin.pseudo
        for _ in range(_STEPS):
            beta = _fixed_point(tosses, tosses.sum(axis=1, keepdims=True), beta, beta.sum(keepdims=True))
        self.coin = Dirichlet(beta)
        expected, divergence = self.coin.expected_log(tosses)
        # a wrong answer is any of the K - 1 others
        right, wrong = np.exp(expected[:, 0]), np.exp(expected[:, 1]) / max(K - 1, 1)
        tables = np.where(np.eye(K, dtype=bool), right[:, None, None], wrong[:, None, None])
        if self.proportions is None:
            return Expectation(Parameters(np.full(K, 1.0 / K), tables), divergence)
        log_prior, further = self.proportions.expected_log(statistics.class_counts)
        return Expectation(Parameters(np.exp(log_prior), tables), divergence + further)

    def means(self, statistics: Statistics) -> Parameters:
        """Give the expected parameters."""
        K = self.n_classes
        right, wrong = self.coin.mean(self._tosses(statistics)).T
        confusions = np.where(np.eye(K, dtype=bool), right[:, None, None], wrong[:, None, None] / max(K - 1, 1))
        if K == 1:
            confusions = np.ones_like(confusions)
        prior = np.full(K, 1.0 / K) if self.proportions is None else self.proportions.mean(statistics.class_counts)
        return Parameters(prior, confusions)

    @staticmethod
    def _tosses(statistics: Statistics) -> Floats:
        """How often everybody was right, and wrong, (M, 2)."""
        right = np.einsum("mkk->m", statistics.counts)
        return np.stack([right, np.maximum(statistics.counts.sum(axis=(1, 2)) - right, 0.0)], axis=1)


def _fixed_point(counts: Floats, totals: Floats, beta: Floats, strength: Floats) -> Floats:
    """Take one of Minka's steps; ``strength`` is the sum of ``beta`` as ``totals`` is that of ``counts``."""
    from scipy.special import psi

    # β ← β · Σ_m [ψ(c_m + β) - ψ(β)] / Σ_m [ψ(c_m(k) + β(k)) - ψ(β(k))]
    gained = (psi(counts + beta) - psi(beta)).sum(axis=0)
    spread = (psi(totals + strength) - psi(strength)).sum(axis=0)
    moved = gained / (spread + RATE)
    moved_beta: Floats = np.clip(beta * moved, _LEAST, _MOST)
    return moved_beta
