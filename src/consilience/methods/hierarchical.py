"""Dawid and Skene's model with annotators drawn from a crowd whose habits are learned too.

    A_m(:, k) ~ Dirichlet(β(:, k)),    β: how the crowd answers, and how much its members are alike

As in :mod:`consilience.methods.ibcc` the confusions are integrated out by variational Bayes; here β is not given
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

from consilience.data.annotations import Annotations
from consilience.exceptions import ParameterError
from consilience.fitting.climb import Ascent, Beliefs, Climb, Expectation
from consilience.fitting.em import Callback, Parameters, sweep_of
from consilience.fitting.fit import Fit
from consilience.fitting.variational import (
    LEAST,
    RATE,
    ConfusionBeliefs,
    Dirichlet,
    Weighted,
    fit_of,
    flat_proportions,
    from_votes,
    informed,
)
from consilience.kernels._arrays import Floats
from consilience.kernels.em import SMALL, Statistics
from consilience.kernels.subtypes import SubtypeSweep
from consilience.kernels.votes import vote_statistics
from consilience.models.dawid_skene import DawidSkene

__all__ = ["CoinBeliefs", "CrowdBeliefs", "Hierarchy", "hierarchical"]

#: What annotators are taken for before anything is known: right four times in five.
_RIGHT, _WRONG = 4.0, 1.0
#: Steps of the fixed point in every pass over the data, and those that settle it.
_STEPS, _SETTLING = 3, 24


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
    hierarchy = Hierarchy(annotations, coin=coin, prior=prior, weights=weights, accelerate=accelerate, start=start)
    hierarchy.climb(max_iter=max_iter, tol=tol, callback=callback)
    return hierarchy.fit()


class Hierarchy:
    """The fit of :func:`hierarchical`, which can be left and taken up again; the parameters are the same.

    One more: ``compiled`` runs compiled loops on small data too, for whom has loaded numba already.
    """

    def __init__(
        self,
        annotations: Annotations,
        *,
        coin: bool = False,
        prior: Literal["learned", "uniform"] = "learned",
        weights: Sequence[float] | Floats | None = None,
        accelerate: bool = True,
        start: Floats | None = None,
        compiled: bool = False,
    ) -> None:
        a = informed(annotations)
        self.annotations = annotations
        self.weights = None if weights is None else _checked(weights, a.n_annotators)
        proportions = flat_proportions(a.n_classes) if prior == "learned" else None
        large = a.n_labels >= SMALL
        habits = (CoinBeliefs if coin else CrowdBeliefs)(proportions, a.n_classes, compiled or large)
        self._habits = habits
        beliefs: Beliefs = habits if self.weights is None else Weighted(habits, self.weights)
        begin = from_votes(a)
        if start is not None:  # habits that suit it, before anything else moves
            begin = vote_statistics(
                annotations.indptr, annotations.annotator, annotations.label, start, annotations.n_annotators
            )
            habits.settle(beliefs.count(begin) if isinstance(beliefs, Weighted) else begin)
        self._climb = Climb(
            _compiled_sweep(a) if compiled and not large else sweep_of(a), beliefs, begin, accelerate=accelerate
        )
        self._ascent: Ascent | None = None
        self._tol = 0.0

    def climb(self, *, max_iter: int, tol: float, callback: Callback | None = None) -> Hierarchy:
        """Go on until there were ``max_iter`` passes in all, or a step changes the bound by less than ``tol``."""
        self._ascent, self._tol = self._climb.run(max_iter=max_iter, tol=tol, callback=callback), tol
        return self

    @property
    def bound(self) -> float:
        """The best lower bound so far."""
        return self._climb.bound

    @property
    def means(self) -> Parameters:
        """The expected parameters."""
        return self._climb.beliefs.means(self._climb.at)

    @property
    def pseudo(self) -> Floats:
        """The crowd's habits β, (K, K); of confusions, not of coins."""
        assert isinstance(self._habits, CrowdBeliefs)
        return self._habits.confusions.pseudo

    @property
    def model(self) -> DawidSkene:
        """The expected model."""
        return DawidSkene(*self.means, self.annotations.class_ids, self.annotations.annotator_ids)

    @property
    def history(self) -> list[float]:
        """The lower bound after every pass."""
        return list(self._climb.history)

    @property
    def converged(self) -> bool:
        """Whether the last climb met its tolerance."""
        return self._ascent is not None and self._ascent.converged

    def posterior(self) -> Floats:
        """Give the posterior under the expected model, (N, K).

        It also holds for new items, and is a little more honest than the variational one.
        """
        return self.model.posterior(self.annotations, self.weights)

    def fit(self) -> Fit:
        """Give what was found."""
        model = self.model
        posterior, log_likelihood = model.posterior_and_likelihood(self.annotations, self.weights)
        if self.weights is not None:
            log_likelihood = model.log_likelihood(self.annotations)
        assert self._ascent is not None
        return fit_of(self.annotations, model, posterior, log_likelihood, self._ascent, self._tol)


def _compiled_sweep(a: Annotations) -> SubtypeSweep:
    """Make the sweep that is compiled for data of any size: one subtype a class is the class itself."""
    return SubtypeSweep(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes, 1)


def _checked(weights: Sequence[float] | Floats, n_annotators: int) -> Floats:
    checked = np.asarray(weights, float)
    if checked.shape != (n_annotators,) or not (np.isfinite(checked) & (checked >= 0)).all():
        raise ParameterError(f"weights must hold a number ≥ 0 for each of the {n_annotators} annotators")
    return checked


class CrowdBeliefs(ConfusionBeliefs):
    """Confusions drawn from a crowd; β takes a few steps of its fixed point whenever counts come in.

    Each step raises the lower bound at these counts, so learning on the way never lowers it.
    """

    def __init__(self, proportions: Dirichlet | None, n_classes: int, compiled: bool = False) -> None:
        K = n_classes
        beta = np.where(np.eye(K, dtype=bool), _RIGHT, max(_WRONG / max(K - 1, 1), LEAST))
        super().__init__(proportions, Dirichlet(beta, axis=-2, compiled=compiled))

    def settle(self, statistics: Statistics) -> None:
        """Learn from these counts how the crowd answers, until little changes."""
        self.confusions = self.confusions.learned(statistics.counts, _SETTLING)

    def __call__(self, statistics: Statistics) -> Expectation:
        """Learn from these counts how the crowd answers, then give the expected logarithms after them."""
        self.confusions = self.confusions.learned(statistics.counts, _STEPS)
        expected = super().__call__(statistics)
        return expected._replace(divergence=expected.divergence + RATE * float(self.confusions.pseudo.sum()))


class CoinBeliefs:
    """One probability of being right for every annotator, drawn from a Beta distribution of the crowd's."""

    def __init__(self, proportions: Dirichlet | None, n_classes: int, compiled: bool = False) -> None:
        self.proportions = proportions
        self.n_classes = n_classes
        self.coin = Dirichlet(np.array([_RIGHT, _WRONG]), compiled=compiled)

    def settle(self, statistics: Statistics) -> None:
        """Learn from these counts how the crowd answers, until little changes."""
        self.coin = self.coin.learned(self._tosses(statistics), _SETTLING)

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
        given = statistics.counts.reshape(right.size, -1).sum(axis=1)
        return np.stack([right, np.maximum(given - right, 0.0)], axis=1)
