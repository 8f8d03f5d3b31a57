"""Variational Bayes for the crowd family: not one model but a distribution over models, and the ascent to it.

A distribution over models is told by the expected counts of a sweep: q(π) and q(A_m(:, k)) are Dirichlet with the
prior's pseudo-labels plus those counts.  A step is counts in, counts out: the sweep of :mod:`consilience.kernels.em`
runs with exp E log π and exp E log A_m in place of π and A_m, and what rises is the lower bound of the
log-probability of all labels, the models integrated out,

    F = Σ_n log Σ_k exp(E log π_k + Σ E log A_m(i, k))  -  KL(q(π) ‖ p(π))  -  Σ KL(q(A_m(:, k)) ‖ p(A_m(:, k))).

Methods differ in their :class:`Beliefs`: what counts say of the models.

H. Attias, "A variational Bayesian framework for graphical models" (2000).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from consilience.data.annotations import Annotations
from consilience.fitting.climb import Ascent, Beliefs, Expectation
from consilience.fitting.em import Parameters
from consilience.fitting.fit import Fit, unconverged, vote_posterior
from consilience.kernels._arrays import Floats
from consilience.kernels.em import SMALL, Statistics
from consilience.kernels.votes import share_statistics, vote_statistics
from consilience.models.dawid_skene import DawidSkene

__all__ = [
    "LEAST",
    "RATE",
    "ConfusionBeliefs",
    "Dirichlet",
    "Weighted",
    "fit_of",
    "flat_proportions",
    "from_votes",
    "informed",
]

#: The least that a pseudo-label may be.  With less, exp E log A would fall below what the sweep tells from zero.
LEAST = 0.1
#: With so many pseudo-labels everybody is the same already.
_MOST = 1000.0
#: Rate of the exponential distribution that β is drawn from: as if one more annotator spoke against sameness.
RATE = 1.0


def informed(annotations: Annotations) -> Annotations:
    """Leave out the items of which nothing is known.

    Integrated out they change nothing; with a factor of their own they would pull π towards the commoner classes.
    """
    known = annotations.labels_per_item > 0
    if annotations.gold is not None:
        known |= annotations.gold >= 0
    return annotations if known.all() or not known.any() else annotations.select_items(known)


def from_votes(annotations: Annotations) -> Statistics:
    """Give the counts that an ascent begins with: the shares of the votes are the truth."""
    a = annotations
    if a.n_labels >= SMALL:
        return share_statistics(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes)
    return vote_statistics(a.indptr, a.annotator, a.label, vote_posterior(a), a.n_annotators)


def fit_of(
    annotations: Annotations, model: DawidSkene, posterior: Floats, log_likelihood: float, ascent: Ascent, tol: float
) -> Fit:
    """Make a fit of what variational Bayes found; items of which nothing is known are at the expected prior."""
    unknown = annotations.labels_per_item == 0
    if annotations.gold is not None:
        unknown &= annotations.gold < 0
    posterior[unknown] = model.prior
    return Fit(
        model,
        posterior,
        log_likelihood,
        ascent.converged,
        ascent.history,
        unconverged(ascent.converged, "variational Bayes", f"{len(ascent.history)} passes", tol),
        details={"lower_bound": ascent.bound},
    )


@dataclass(frozen=True)
class Dirichlet:
    """Independent Dirichlet distributions along one axis, and what they become when something is counted."""

    pseudo: Floats  #: parameters of the prior; broadcast to the shape of what is counted
    axis: int = -1  #: the last or the last but one
    #: Use the loops of :mod:`consilience.kernels.special`: where numba is loaded anyway, and there is enough to do.
    compiled: bool = False

    def expected_log(self, counts: Floats) -> tuple[Floats, float]:
        """Give E log p under Dirichlet(pseudo + counts), and that distribution's divergence from the prior."""
        a = self.pseudo + counts
        total = self._total(a)
        if self.compiled:
            from consilience.kernels.special import psi_and_log_gamma

            (expected, of_cells), (psi_total, of_totals) = psi_and_log_gamma(a), psi_and_log_gamma(total)
        else:
            from scipy.special import gammaln, psi

            expected, psi_total = psi(a), psi(total)
            of_cells, of_totals = gammaln(a).sum(), gammaln(total).sum()
        # E log p_i = ψ(a_i) - ψ(Σ a)
        expected -= psi_total
        # KL = log Γ(Σ a) - Σ log Γ(a_i) - (the same of the prior) + Σ (a_i - prior's a_i) E log p_i
        times, prior = self._prior
        divergence = of_totals - of_cells - prior * (total.size / times)
        return expected, float(divergence + (counts * expected).sum())

    def learned(self, counts: Floats, steps: int) -> Dirichlet:
        """Take steps towards the prior that makes these counts most probable, ``counts[m]`` being one draw each.

        Minka's fixed point ("Estimating a Dirichlet distribution", 2000, eq. (55)), with an exponential prior on β.
        """
        if self.compiled:
            from consilience.kernels.special import learn_pseudo_counts

            limits = {"rate": RATE, "least": LEAST, "most": _MOST}
            beta = learn_pseudo_counts(np.ascontiguousarray(counts), self.pseudo, self.axis, steps=steps, **limits)
            return replace(self, pseudo=beta)
        from scipy.special import psi

        beta, total = self.pseudo, self._total(counts)
        for _ in range(steps):
            together = self._total(beta)
            # β ← β · Σ_m [ψ(c_m + β) - ψ(β)] / (rate + Σ_m [ψ(c_m(k) + β(k)) - ψ(β(k))])
            of_cells = psi(counts + beta).sum(axis=0) - len(counts) * psi(beta)
            of_totals = psi(total + together).sum(axis=0) - len(counts) * psi(together)
            beta = np.minimum(np.maximum(beta * (of_cells / (of_totals + RATE)), LEAST), _MOST)
        return replace(self, pseudo=beta)

    def mean(self, counts: Floats) -> Floats:
        """Give E p under Dirichlet(pseudo + counts)."""
        a = self.pseudo + counts
        return np.asarray(a / self._total(a))

    @cached_property
    def _prior(self) -> tuple[int, float]:
        """How many distributions the pseudo-counts tell of, and Σ log Γ(Σ a) - Σ log Γ(a) of them."""
        from scipy.special import gammaln

        total = self._total(self.pseudo)
        return total.size, float(gammaln(total).sum() - gammaln(self.pseudo).sum())

    def _total(self, x: Floats) -> Floats:
        """Sum along the axis, which stays: by additions, for which numpy is faster where axes are short."""
        if self.axis == -1:
            return np.asarray(x.sum(axis=-1, keepdims=True))
        total = x[..., :1, :].copy()
        for i in range(1, x.shape[-2]):
            total += x[..., i : i + 1, :]
        return total


def flat_proportions(n_classes: int) -> Dirichlet:
    """Give the prior of class proportions that holds one pseudo-item a class."""
    return Dirichlet(np.ones(n_classes))


@dataclass
class ConfusionBeliefs:
    """One Dirichlet for the class proportions (None holds them uniform), one for every column of a confusion."""

    proportions: Dirichlet | None
    confusions: Dirichlet

    def __call__(self, statistics: Statistics) -> Expectation:
        """Give the expected logarithms after these counts."""
        log_confusions, divergence = self.confusions.expected_log(statistics.counts)
        tables = np.exp(log_confusions)
        if self.proportions is None:
            K = statistics.class_counts.size
            return Expectation(Parameters(np.full(K, 1.0 / K), tables), divergence)
        log_prior, further = self.proportions.expected_log(statistics.class_counts)
        return Expectation(Parameters(np.exp(log_prior), tables), divergence + further)

    def means(self, statistics: Statistics) -> Parameters:
        """Give the expected parameters."""
        K = statistics.class_counts.size
        prior = np.full(K, 1.0 / K) if self.proportions is None else self.proportions.mean(statistics.class_counts)
        return Parameters(prior, self.confusions.mean(statistics.counts))


@dataclass
class Weighted:
    """The same beliefs where every label of annotator m counts ``weights[m]`` times: copies of one share one vote."""

    beliefs: Beliefs
    weights: Floats

    def __call__(self, statistics: Statistics) -> Expectation:
        """Give the expected logarithms after these counts."""
        expected = self.beliefs(self.count(statistics))
        prior, tables = expected.tables
        return Expectation(Parameters(prior, tables ** self.weights[:, None, None]), expected.divergence)

    def means(self, statistics: Statistics) -> Parameters:
        """Give the expected parameters."""
        return self.beliefs.means(self.count(statistics))

    def count(self, statistics: Statistics) -> Statistics:
        """Give the counts as they weigh."""
        return statistics._replace(counts=statistics.counts * self.weights[:, None, None])
