"""Variational Bayes for the crowd family: a distribution over models instead of one model.

The distribution is described by the expected counts of a sweep: q(π) and q(A_m(:, k)) are Dirichlet with the prior's
pseudo-labels plus those counts.  A step is counts in, counts out: the sweep of :mod:`consilience.kernels.em` runs with
exp E log π and exp E log A_m in place of π and A_m.  The objective is the lower bound of the log-probability of all
labels, the models integrated out,

    F = Σ_n log Σ_k exp(E log π_k + Σ E log A_m(i, k))  -  KL(q(π) ‖ p(π))  -  Σ KL(q(A_m(:, k)) ‖ p(A_m(:, k))).

Methods differ in their :class:`Beliefs`: what counts say about the models.  :mod:`consilience.fitting.ascent` has the
loop; every array of nonnegative counts is a distribution, so a leap only needs clipping at zero.

H. Attias, "A variational Bayesian framework for graphical models" (2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol, overload

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.checkpoint import Keeper
from consilience.engine.passes import Labels, Passes
from consilience.fitting.ascent import Ascent, Pass, extrapolate
from consilience.fitting.fit import Fit, unconverged
from consilience.fitting.known import start_counts
from consilience.fitting.m_steps import Parameters
from consilience.kernels._arrays import Floats
from consilience.kernels.em import Statistics
from consilience.kernels.special import learn_pseudo_counts, psi_and_log_gamma
from consilience.models.dawid_skene import DawidSkene

__all__ = [
    "LEAST",
    "RATE",
    "Beliefs",
    "ConfusionBeliefs",
    "Dirichlet",
    "Expectation",
    "VariationalAscent",
    "Weighted",
    "fit_of",
    "flat_proportions",
    "from_votes",
    "informed",
    "variational_ascent",
]

#: The fewest pseudo-labels.  With less, exp E log A would fall below the floor of the sweep.
LEAST = 0.1
#: The most pseudo-labels: with so many, all annotators are the same already.
_MOST = 1000.0
#: Rate of the exponential distribution that β is drawn from: as if one more annotator spoke against sameness.
RATE = 1.0


class Expectation(NamedTuple):
    """What the sweep needs to know of a distribution over models."""

    tables: Parameters  #: exp E log π and exp E log A: less than probabilities where little is known
    divergence: float  #: from the prior


class Beliefs(Protocol):
    """Turns the sums of a sweep into a distribution over models."""

    def __call__(self, statistics: Statistics) -> Expectation:
        """Return the expected logarithms after these counts."""

    def means(self, statistics: Statistics) -> Parameters:
        """Return the expected parameters."""


VariationalAscent = Ascent[Statistics, None]


def variational_ascent(
    sweep: Callable[[Floats, Floats], Statistics],
    beliefs: Beliefs,
    start: Statistics,
    *,
    accelerate: bool = True,
    keeper: Keeper | None = None,
    forget: Callable[[], None] | None = None,
) -> VariationalAscent:
    """Return the ascent of the lower bound from the counts of ``start``; a ``keeper`` saves its state.

    ``forget`` undoes what the beliefs learned in the last pass: it is called after a leap that lowers the bound.
    """
    return Ascent(_VariationalModel(sweep, beliefs, forget), _rounded(start), accelerate=accelerate, keeper=keeper)


class _VariationalModel:
    """Expected counts, as the ascent sees them."""

    def __init__(
        self,
        sweep: Callable[[Floats, Floats], Statistics],
        beliefs: Beliefs,
        forget: Callable[[], None] | None,
    ) -> None:
        self.sweep, self.beliefs, self.forget = sweep, beliefs, forget
        self._bound = -np.inf  # of the last pass that was not a leap downwards

    def evaluate(self, at: Statistics) -> Pass[Statistics, None]:
        expected = self.beliefs(at)
        after = self.sweep(*expected.tables)
        bound = after.log_likelihood - expected.divergence
        if bound >= self._bound or self.forget is None:
            self._bound = bound
        else:
            self.forget()
        return Pass(at, bound, _rounded(after), after.log_likelihood, None)

    def leap(self, one: Pass[Statistics, None], two: Pass[Statistics, None]) -> Statistics | None:
        # counts over the sum of their column are probabilities: their change is weighted by the labels behind it
        counts, class_counts, _ = two.at
        weights = 1.0 / (_column_sums(counts) + 1.0), 1.0 / (class_counts.sum() + 1.0)
        far = extrapolate(one.at[:2], two.at[:2], two.after[:2], weights, 0.0)
        return None if far is None else _rounded(Statistics(far[0], far[1], float("nan")))


def _rounded(statistics: Statistics) -> Statistics:
    """Round counts to 32 bits behind the point, so that symmetric data stays symmetric (:func:`.m_steps.rounded`)."""
    counts, class_counts = (np.rint(x * 2.0**32) / 2.0**32 for x in statistics[:2])
    return Statistics(counts, class_counts, float("nan"))


def _column_sums(x: Floats) -> Floats:
    """Sum over the last axis but one, which stays: by additions, which are faster in numpy where that axis is short."""
    total = x[..., :1, :].copy()
    for i in range(1, x.shape[-2]):
        total += x[..., i : i + 1, :]
    return total


@overload
def informed(annotations: Annotations) -> Annotations: ...


@overload
def informed(annotations: Passes) -> Passes: ...


def informed(annotations: Labels) -> Labels:
    """Leave out items without label or gold.

    Integrated out they change nothing; with a factor of their own they would pull π towards the commoner classes.  If
    labels are not in memory, :func:`.em.without_blanks` leaves them out.
    """
    if isinstance(annotations, Passes):
        return annotations
    known = annotations.labels_per_item > 0
    if annotations.gold is not None:
        known |= annotations.gold >= 0
    return annotations if known.all() or not known.any() else annotations.select_items(known)


def from_votes(annotations: Labels) -> Statistics:
    """Return the counts that an ascent starts from: vote shares taken for the truth, corrected by gold."""
    return start_counts(annotations)


def fit_of(
    annotations: Annotations,
    model: DawidSkene,
    posterior: Floats,
    log_likelihood: float,
    ascent: VariationalAscent,
    tol: float,
) -> Fit:
    """Return the fit that variational Bayes found; items without labels get the expected prior."""
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
        details={"lower_bound": ascent.objective},
    )


@dataclass(frozen=True)
class Dirichlet:
    """Independent Dirichlet distributions along one axis, and their posteriors after counts."""

    pseudo: Floats  #: parameters of the prior; broadcast to the shape of what is counted
    axis: int = -1  #: the last or the last but one

    def expected_log(self, counts: Floats) -> tuple[Floats, float]:
        """Return E log p under Dirichlet(pseudo + counts), and that distribution's divergence from the prior."""
        a = self.pseudo + counts
        total = self._total(a)
        (expected, of_cells), (psi_total, of_totals) = psi_and_log_gamma(a), psi_and_log_gamma(total)
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
        limits = {"rate": RATE, "least": LEAST, "most": _MOST}
        beta = learn_pseudo_counts(np.ascontiguousarray(counts), self.pseudo, self.axis, steps=steps, **limits)
        return replace(self, pseudo=beta)

    def mean(self, counts: Floats) -> Floats:
        """Return E p under Dirichlet(pseudo + counts)."""
        a = self.pseudo + counts
        return np.asarray(a / self._total(a))

    @cached_property
    def _prior(self) -> tuple[int, float]:
        """The number of distributions, and Σ log Γ(Σ a) - Σ log Γ(a) of their pseudo-counts."""
        from scipy.special import gammaln

        total = self._total(self.pseudo)
        return total.size, float(gammaln(total).sum() - gammaln(self.pseudo).sum())

    def _total(self, x: Floats) -> Floats:
        """Sum along the axis, which stays."""
        return np.asarray(x.sum(axis=-1, keepdims=True)) if self.axis == -1 else _column_sums(x)


def flat_proportions(n_classes: int) -> Dirichlet:
    """Return the prior of class proportions with one pseudo-item per class."""
    return Dirichlet(np.ones(n_classes))


@dataclass
class ConfusionBeliefs:
    """One Dirichlet for the class proportions (None holds them uniform), one for every column of a confusion."""

    proportions: Dirichlet | None
    confusions: Dirichlet

    def __call__(self, statistics: Statistics) -> Expectation:
        """Return the expected logarithms after these counts."""
        log_confusions, divergence = self.confusions.expected_log(statistics.counts)
        tables = np.exp(log_confusions)
        if self.proportions is None:
            K = statistics.class_counts.size
            return Expectation(Parameters(np.full(K, 1.0 / K), tables), divergence)
        log_prior, further = self.proportions.expected_log(statistics.class_counts)
        return Expectation(Parameters(np.exp(log_prior), tables), divergence + further)

    def means(self, statistics: Statistics) -> Parameters:
        """Return the expected parameters."""
        K = statistics.class_counts.size
        prior = np.full(K, 1.0 / K) if self.proportions is None else self.proportions.mean(statistics.class_counts)
        return Parameters(prior, self.confusions.mean(statistics.counts))


@dataclass
class Weighted:
    """The same beliefs where every label of annotator m counts ``weights[m]`` times, so that copies share one vote."""

    beliefs: Beliefs
    weights: Floats

    def __call__(self, statistics: Statistics) -> Expectation:
        """Return the expected logarithms after these counts."""
        expected = self.beliefs(self.count(statistics))
        prior, tables = expected.tables
        return Expectation(Parameters(prior, tables ** self.weights[:, None, None]), expected.divergence)

    def means(self, statistics: Statistics) -> Parameters:
        """Return the expected parameters."""
        return self.beliefs.means(self.count(statistics))

    def count(self, statistics: Statistics) -> Statistics:
        """Return the weighted counts."""
        return statistics._replace(counts=statistics.counts * self.weights[:, None, None])
