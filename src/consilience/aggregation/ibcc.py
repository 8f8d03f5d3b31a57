"""Independent Bayesian classifier combination: Dawid and Skene's model with Dirichlet priors, by variational Bayes.

    π ~ Dirichlet(α),   A_m(:, k) ~ Dirichlet(β(:, k)),   truth of n ~ π,   label of n by m ~ A_m(:, truth)

Not one model is fitted but a distribution over models, q(truth) q(π) ∏ q(A_m(:, k)), the nearest of that form to the
posterior given all labels (Simpson et al. 2013).  The factors of the parameters are Dirichlet again: what counts is
the prior's pseudo-labels plus the expected counts of a sweep,

    q(A_m(:, k)) = Dirichlet(β(:, k) + counts[m, :, k]),   q(π) = Dirichlet(α + class_counts),

and the sweep of :mod:`consilience.kernels.em` runs with exp E log π and exp E log A_m in place of π and A_m.  What
rises is the lower bound of the log-probability of all labels, the models integrated out,

    F = Σ_n log Σ_k exp(E log π_k + Σ E log A_m(i, k))  -  KL(q(π) ‖ p(π))  -  Σ KL(q(A_m(:, k)) ‖ p(A_m(:, k))).

An annotator with five labels is not taken to be as they show: E log A is small where little is known.

====== ============================================ =============
symbol name                                         shape
====== ============================================ =============
α      ``Dirichlet.pseudo`` of the class proportions (K,)
β      ``Dirichlet.pseudo`` of the confusions       (K, K)
F      ``history``                                  one for a pass
====== ============================================ =============

H.-C. Kim and Z. Ghahramani, "Bayesian classifier combination" (AISTATS 2012).  E. Simpson, S. Roberts, I. Psorakis and
A. Smith, "Dynamic Bayesian combination of multiple imperfect classifiers" (2013), eqs (8)-(20).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from consilience.aggregation.em import Callback, Parameters, Progress, sweep_of
from consilience.aggregation.fit import Caution, Fit, crowd_confusion, vote_posterior
from consilience.annotations import Annotations
from consilience.dawid_skene import DawidSkene
from consilience.exceptions import ConvergenceWarning
from consilience.kernels._arrays import Floats
from consilience.kernels.em import SMALL, Statistics
from consilience.kernels.votes import vote_statistics

__all__ = ["Ascent", "Beliefs", "Dirichlet", "Expectation", "ascend", "fit_of", "ibcc", "informed", "pseudo_labels"]

#: The least that a cell of β holds.  With less, exp E log A would fall below what the sweep tells from zero.
_LEAST = 0.1


def ibcc(
    annotations: Annotations,
    *,
    smoothing: float = 1.0,
    diagonal: float = 3.0,
    shrinkage: float = 0.0,
    prior: Literal["learned", "uniform"] = "learned",
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
) -> Fit:
    """Fit by variational Bayes.

    The posterior is the variational one; the model holds the posterior means of prior and confusions.

    Parameters
    ----------
    annotations
        The labels.  Gold items are held at their gold.
    smoothing
        Pseudo-labels in every cell of every annotator's confusion (β off the diagonal; a tenth at least).
    diagonal
        Further pseudo-labels on the diagonal: annotators are expected to be right more often than not.
    shrinkage
        Further pseudo-labels for every cell on average, spread over the cells of a class as the whole crowd answers
        (judged by the votes): whoever gave few labels is expected to be like the others.
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
    proportions = Dirichlet(np.ones(a.n_classes)) if prior == "learned" else None
    beliefs = _Independent(proportions, Dirichlet(pseudo_labels(a, smoothing, diagonal, shrinkage), axis=-2))
    start = vote_statistics(a.indptr, a.annotator, a.label, vote_posterior(a), a.n_annotators)
    ascent = ascend(sweep_of(a), beliefs, start, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback)
    posterior, _ = sweep_of(annotations).posterior(*beliefs(ascent.at).tables)
    return fit_of(annotations, beliefs.means(ascent.at), posterior, ascent, tol)


def pseudo_labels(annotations: Annotations, smoothing: float, diagonal: float, shrinkage: float = 0.0) -> Floats:
    """Give β, the pseudo-labels that every annotator's confusion starts with, (K, K)."""
    K = annotations.n_classes
    beta = smoothing + diagonal * np.eye(K)
    if shrinkage:
        beta += shrinkage * K * crowd_confusion(annotations)
    return np.maximum(beta, _LEAST)


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
        details={"lower_bound": ascent.bound} if ascent.history else {},
    )


# ---- distributions over models ------------------------------------------------------------------------------


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

    def mean(self, counts: Floats) -> Floats:
        """Give E p under Dirichlet(pseudo + counts)."""
        a = self.pseudo + counts
        return np.asarray(a / a.sum(axis=self.axis, keepdims=True))


class Expectation(NamedTuple):
    """What the sweep needs to know of a distribution over models."""

    tables: Parameters  #: exp E log π and exp E log A: less than probabilities where little is known
    divergence: float  #: from the prior


class Beliefs(Protocol):
    """Turns the sums of a sweep into a distribution over models."""

    def __call__(self, statistics: Statistics) -> Expectation:
        """Give the expected logarithms after these counts."""


@dataclass(frozen=True)
class _Independent:
    """One Dirichlet for the class proportions (None holds them uniform), one for every column of a confusion."""

    proportions: Dirichlet | None
    confusions: Dirichlet

    def __call__(self, statistics: Statistics) -> Expectation:
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
        asked = callback and callback(Progress(len(history), max_iter, history[-1], change))
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
