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

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from consilience.aggregation.em import Callback, Parameters, Progress
from consilience.aggregation.fit import Caution, Fit
from consilience.annotations import Annotations
from consilience.dawid_skene import DawidSkene
from consilience.exceptions import ConvergenceWarning
from consilience.kernels._arrays import Floats
from consilience.kernels.em import SMALL, Statistics

__all__ = [
    "LEAST",
    "RATE",
    "Ascent",
    "Beliefs",
    "ConfusionBeliefs",
    "Dirichlet",
    "Expectation",
    "Weighted",
    "ascend",
    "fit_of",
    "flat_proportions",
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


def fit_of(annotations: Annotations, means: Parameters, posterior: Floats, ascent: Ascent, tol: float) -> Fit:
    """Make a fit of what variational Bayes found; items of which nothing is known are at the expected prior."""
    model = DawidSkene(*means, annotations.class_ids, annotations.annotator_ids)
    unknown = annotations.labels_per_item == 0
    if annotations.gold is not None:
        unknown &= annotations.gold < 0
    posterior[unknown] = model.prior
    cautions: tuple[Caution, ...] = ()
    if tol > 0 and not ascent.converged:
        sentence = (
            f"variational Bayes did not converge in {len(ascent.history)} passes (relative tolerance {tol:g}); "
            "raise max_iter, or take the result as preliminary"
        )
        cautions = ((sentence, ConvergenceWarning),)
    return Fit(
        model,
        posterior,
        model.log_likelihood(annotations),
        ascent.converged,
        ascent.history,
        cautions,
        details={"lower_bound": ascent.bound},
    )


@dataclass(frozen=True)
class Dirichlet:
    """Independent Dirichlet distributions along one axis, and what they become when something is counted."""

    pseudo: Floats  #: parameters of the prior; broadcast to the shape of what is counted
    axis: int = -1

    def expected_log(self, counts: Floats) -> tuple[Floats, float]:
        """Give E log p under Dirichlet(pseudo + counts), and that distribution's divergence from the prior."""
        from scipy.special import gammaln, psi

        a = self.pseudo + counts
        total = a.sum(axis=self.axis, keepdims=True)
        # E log p_i = ψ(a_i) - ψ(Σ a)
        expected = psi(a)
        expected -= psi(total)
        # KL = log Γ(Σ a) - Σ log Γ(a_i) - (the same of the prior) + Σ (a_i - prior's a_i) E log p_i
        prior_total = self.pseudo.sum(axis=self.axis)
        prior = gammaln(prior_total).sum() - gammaln(self.pseudo).sum()
        divergence = gammaln(total).sum() - gammaln(a).sum() - prior * (total.size / prior_total.size)
        return expected, float(divergence + (counts * expected).sum())

    def learned(self, counts: Floats, steps: int) -> Dirichlet:
        """Take steps towards the prior that makes these counts most probable, ``counts[m]`` being one draw each.

        Minka's fixed point ("Estimating a Dirichlet distribution", 2000, eq. (55)), with an exponential prior on β.
        """
        from scipy.special import psi

        beta, totals = self.pseudo, counts.sum(axis=self.axis, keepdims=True)
        for _ in range(steps):
            strength = beta.sum(axis=self.axis, keepdims=True)
            # β ← β · Σ_m [ψ(c_m + β) - ψ(β)] / (rate + Σ_m [ψ(c_m(k) + β(k)) - ψ(β(k))])
            gained = (psi(counts + beta) - psi(beta)).sum(axis=0)
            spread = (psi(totals + strength) - psi(strength)).sum(axis=0)
            beta = np.clip(beta * (gained / (spread + RATE)), LEAST, _MOST)
        return Dirichlet(beta, self.axis)

    def mean(self, counts: Floats) -> Floats:
        """Give E p under Dirichlet(pseudo + counts)."""
        a = self.pseudo + counts
        return np.asarray(a / a.sum(axis=self.axis, keepdims=True))


def flat_proportions(n_classes: int) -> Dirichlet:
    """Give the prior of class proportions that holds one pseudo-item a class."""
    return Dirichlet(np.ones(n_classes))


class Expectation(NamedTuple):
    """What the sweep needs to know of a distribution over models."""

    tables: Parameters  #: exp E log π and exp E log A: less than probabilities where little is known
    divergence: float  #: from the prior


class Beliefs(Protocol):
    """Turns the sums of a sweep into a distribution over models."""

    def __call__(self, statistics: Statistics) -> Expectation:
        """Give the expected logarithms after these counts."""

    def means(self, statistics: Statistics) -> Parameters:
        """Give the expected parameters."""


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
        expected = self.beliefs(self._count(statistics))
        prior, tables = expected.tables
        return Expectation(Parameters(prior, tables ** self.weights[:, None, None]), expected.divergence)

    def means(self, statistics: Statistics) -> Parameters:
        """Give the expected parameters."""
        return self.beliefs.means(self._count(statistics))

    def _count(self, statistics: Statistics) -> Statistics:
        return statistics._replace(counts=statistics.counts * self.weights[:, None, None])


# ---- raising the lower bound --------------------------------------------------------------------------------


class Ascent(NamedTuple):
    """Where variational Bayes ended, and how it got there."""

    at: Statistics  #: the expected counts that define the distribution over models
    bound: float  #: the lower bound there
    converged: bool
    history: list[float]  #: the lower bound after every pass


class _Step(NamedTuple):
    at: Statistics
    bound: float
    after: Statistics


def ascend(
    sweep: Callable[[Floats, Floats], Statistics],
    beliefs: Beliefs,
    start: Statistics,
    *,
    max_iter: int,
    tol: float,
    accelerate: bool,
    callback: Callback | None,
) -> Ascent:
    """Raise the lower bound from the counts of ``start`` until a step changes it by less than ``tol`` (relative).

    A distribution over models is told by its expected counts, and a step is counts in, counts out.  SQUAREM leaps
    along two steps as in :mod:`consilience.aggregation.em`; every array of nonnegative counts is a distribution,
    so a leap needs no pulling back but to zero.  One that lowers the bound is dropped: the history never falls.
    """
    at, best = _steady(start), _Step(start, float("nan"), start)
    came: _Step | None = None  # one plain step earlier
    leapt_from: _Step | None = None
    history: list[float] = []
    converged = False
    while len(history) < max_iter:
        expected = beliefs(at)
        after = sweep(*expected.tables)
        here = _Step(at, after.log_likelihood - expected.divergence, _steady(after))
        change = float("nan") if came is None else abs(here.bound - came.bound) / max(abs(here.bound), 1.0)
        fell = leapt_from is not None and here.bound < leapt_from.bound
        history.append(history[-1] if fell else here.bound)
        if not history[:-1] or here.bound >= best.bound:
            best = here
        asked = bool(callback and callback(Progress(len(history), max_iter, history[-1], change)))
        converged = came is not None and tol > 0 and change <= tol
        if converged or asked:
            break
        if fell and leapt_from is not None:
            at, came, leapt_from = leapt_from.after, leapt_from, None
            continue
        leap = _leap(came, here) if accelerate and came is not None else None
        if leap is None:
            at, came, leapt_from = here.after, here, None
        else:
            at, came, leapt_from = _steady(leap), None, here
    return Ascent(best.at, best.bound, converged, history)


def _leap(one: _Step, two: _Step) -> Statistics | None:
    """Extrapolate along two steps (SQUAREM S3); None when the leap would be a plain step."""
    sums = two.at.class_counts.sum() + 1.0, two.at.counts.sum(axis=-2, keepdims=True) + 1.0
    states = [(s.class_counts, s.counts) for s in (one.at, two.at, two.after)]
    r = [b - a for a, b in zip(states[0], states[1], strict=True)]
    v = [(c - b) - d for b, c, d in zip(states[1], states[2], r, strict=True)]
    # counts over the sum of their column are probabilities: their change is weighed by the labels behind it
    r_norm, v_norm = (sum(float((x * x / s).sum()) for x, s in zip(change, sums, strict=True)) for change in (r, v))
    if v_norm <= 0 or r_norm <= v_norm:
        return None
    a = -np.sqrt(r_norm / v_norm)
    class_counts, counts = (
        np.maximum(t - (2 * a) * x + (a * a) * y, 0.0) for t, x, y in zip(states[0], r, v, strict=True)
    )
    return Statistics(counts, class_counts, float("nan"))


def _steady(statistics: Statistics) -> Statistics:
    """Round counts to 32 bits behind the point where the data is small enough for exact symmetry.

    What is symmetric then stays so, and the order of a sum does not decide whom to believe.
    """
    if statistics.counts.sum() >= SMALL:
        return statistics
    counts, class_counts = (np.rint(x * 2.0**32) / 2.0**32 for x in statistics[:2])
    return Statistics(counts, class_counts, statistics.log_likelihood)
