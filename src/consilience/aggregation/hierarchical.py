"""Dawid and Skene's model with annotators drawn from a crowd whose habits are learned too.

    A_m(:, k) ~ Dirichlet(β(:, k)),    β: how the crowd answers, and how much its members are alike

As in :mod:`consilience.aggregation.ibcc` the confusions are integrated out by variational Bayes; here β is not given
but maximises the lower bound F (empirical Bayes), so the data decides how far whoever gave few labels is taken
to be like the others.  For given expected counts c the part of F that depends on β is

    Σ_m Σ_k  log B(c_m(:, k) + β(:, k)) - log B(β(:, k)),        B the multivariate beta function,

and Minka's fixed point raises it (T. Minka, "Estimating a Dirichlet distribution", 2000, eq. (55)):

    β(i, k)  ←  β(i, k) · Σ_m [ψ(c_m(i, k) + β(i, k)) - ψ(β(i, k))] / (1 + Σ_m [ψ(c_m(k) + β(k)) - ψ(β(k))]),

where c_m(k) and β(k) are sums over i, and the 1 is the rate of an exponential prior: without it, β creeps to infinity
where annotators differ little, and everybody is taken for the same.  With ``coin`` an annotator has one probability
of being right, whatever the class, drawn from a Beta distribution learned in the same way; errors are spread evenly.
F tells which of the two suits the data: it is a lower bound of the log-probability of all labels, the models
integrated out, and so pays for parameters that the data does not need.

====== ======================================== =============
symbol name                                     shape
====== ======================================== =============
β      ``Dirichlet.pseudo``                     (K, K)
c      ``Statistics.counts``                    (M, K, K)
F      ``details["lower_bound"]``, ``history``  a number
====== ======================================== =============
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from consilience.aggregation.em import Callback, Parameters, sweep_of
from consilience.aggregation.fit import Fit, vote_posterior
from consilience.aggregation.variational import (
    LEAST,
    RATE,
    Beliefs,
    ConfusionBeliefs,
    Dirichlet,
    Expectation,
    Weighted,
    ascend,
    fit_of,
    flat_proportions,
    informed,
)
from consilience.annotations import Annotations
from consilience.dawid_skene import DawidSkene
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats
from consilience.kernels.em import Statistics
from consilience.kernels.votes import vote_statistics

__all__ = ["CoinBeliefs", "CrowdBeliefs", "hierarchical"]

#: What annotators are taken for before anything is known: right four times in five.
_RIGHT, _WRONG = 4.0, 1.0
#: Steps of the fixed point in every pass over the data.
_STEPS = 3
#: Calls that bring β to a given start.
_SETTLING = 8


def hierarchical(
    annotations: Annotations,
    *,
    coin: bool = False,
    prior: Literal["learned", "uniform"] = "learned",
    weights: Sequence[float] | Floats | None = None,
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
    start: Floats | None = None,
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
    weights
        How many times the labels of each annotator count, (M,): once by default.
    max_iter, tol
        Passes over the data, and the relative change of the lower bound in one step that ends them (0: run all).
    accelerate
        Leap along the steps (SQUAREM) where the lower bound allows it.
    callback
        Told of every pass; ends the fit by returning True.
    start
        Posterior to start from, (N, K), instead of vote shares.
    """
    a = informed(annotations)
    proportions = flat_proportions(a.n_classes) if prior == "learned" else None
    beliefs: Beliefs = (CoinBeliefs if coin else CrowdBeliefs)(proportions, a.n_classes)
    if weights is not None:
        beliefs = Weighted(beliefs, _checked(weights, a.n_annotators))
    q = vote_posterior(annotations) if start is None else start
    begin = vote_statistics(annotations.indptr, annotations.annotator, annotations.label, q, annotations.n_annotators)
    if start is not None:  # habits that suit it, before anything else moves
        for _ in range(_SETTLING):
            beliefs(begin)
    ascent = ascend(sweep_of(a), beliefs, begin, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback)
    means = beliefs.means(ascent.at)
    # under the expected model, which also holds for new items, and is a little more honest than the variational one
    model = DawidSkene(*means, annotations.class_ids, annotations.annotator_ids)
    posterior = model.posterior(annotations, None if weights is None else _checked(weights, a.n_annotators))
    return fit_of(annotations, means, posterior, ascent, tol)


def _checked(weights: Sequence[float] | Floats, n_annotators: int) -> Floats:
    checked = np.asarray(weights, float)
    if checked.shape != (n_annotators,) or not (np.isfinite(checked) & (checked >= 0)).all():
        raise ParameterError(f"weights must hold a number ≥ 0 for each of the {n_annotators} annotators")
    return checked


class CrowdBeliefs(ConfusionBeliefs):
    """Confusions drawn from a crowd; β takes a few steps of its fixed point whenever counts come in.

    Each step raises the lower bound at these counts, so learning on the way never lowers it.
    """

    def __init__(self, proportions: Dirichlet | None, n_classes: int) -> None:
        K = n_classes
        beta = np.where(np.eye(K, dtype=bool), _RIGHT, max(_WRONG / max(K - 1, 1), LEAST))
        super().__init__(proportions, Dirichlet(beta, axis=-2))

    def __call__(self, statistics: Statistics) -> Expectation:
        """Learn from these counts how the crowd answers, then give the expected logarithms after them."""
        self.confusions = self.confusions.learned(statistics.counts, _STEPS)
        expected = super().__call__(statistics)
        return expected._replace(divergence=expected.divergence + RATE * float(self.confusions.pseudo.sum()))


class CoinBeliefs:
    """One probability of being right for every annotator, drawn from a Beta distribution of the crowd's."""

    def __init__(self, proportions: Dirichlet | None, n_classes: int) -> None:
        self.proportions = proportions
        self.n_classes = n_classes
        self.coin = Dirichlet(np.array([_RIGHT, _WRONG]))

    def __call__(self, statistics: Statistics) -> Expectation:
        """Learn from these counts how the crowd answers, then give the expected logarithms after them."""
        K, tosses = self.n_classes, self._tosses(statistics)
        self.coin = self.coin.learned(tosses, _STEPS)
        expected, divergence = self.coin.expected_log(tosses)
        divergence += RATE * float(self.coin.pseudo.sum())
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
