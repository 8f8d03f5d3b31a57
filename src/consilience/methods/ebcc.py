"""Enhanced Bayesian classifier combination: classes of several subtypes, so that annotators may err together.

Given the class alone, annotators need not be independent: there are hard items, on which many err the same way.  So
class k is a mixture of L subtypes, and annotators are independent given class and subtype (Li et al. 2019):

    τ ~ Dirichlet(α),  truth of n ~ τ,    π_k ~ Dirichlet(a/L, …, a/L),  subtype of n ~ π_truth,
    V_m(:, k, l) ~ Dirichlet(β(:, k)),    label of n by m ~ V_m(:, truth, subtype).

With a small, subtypes that the data does not ask for stay empty.  Inference is mean-field variational Bayes, the same
ascent as in :mod:`consilience.methods.ibcc`, which is this model with L = 1; only here truth and subtype of an item
share one factor q, with K L entries.  There are many local optima: of several random starts the one with the
largest lower bound is kept.

====== ================================================ ==================
symbol name                                             shape
====== ================================================ ==================
α      ``Dirichlet.pseudo`` of the class proportions    (K,)
a      ``concentration``                                a number
β      ``Dirichlet.pseudo`` of the confusions           (K, K)
τ, π   ``weights``: their product                       (K L,)
V      ``tables``                                       (M, K, K L)
====== ================================================ ==================

Y. Li, B. I. P. Rubinstein and T. Cohn, "Exploiting worker correlation for label aggregation in crowdsourcing"
(ICML 2019).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.fitting.climb import Ascent, Climb, Expectation
from consilience.fitting.em import Callback, Parameters, Progress, sweep_of
from consilience.fitting.fit import Fit
from consilience.fitting.variational import Dirichlet, fit_of, from_votes, informed
from consilience.kernels.em import Statistics
from consilience.kernels.subtypes import SubtypeSweep
from consilience.methods.ibcc import pseudo_labels
from consilience.models.dawid_skene import DawidSkene

__all__ = ["Subtypes", "ebcc", "fit_subtypes"]

#: The least of a/L.  With less, exp E log π of an empty subtype would be no number that the sweep can work with.
_LEAST = 0.005


def ebcc(
    annotations: Annotations,
    *,
    subtypes: int = 10,
    smoothing: float = 1.0,
    diagonal: float = 3.0,
    concentration: float = 0.1,
    empirical: bool = True,
    starts: int = 10,
    max_iter: int = 500,
    tol: float = 1e-6,
    accelerate: bool = True,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Fit by variational Bayes from several random starts.

    The posterior is the variational one.  The model is of the Dawid-Skene kind, the subtypes of a class taken together:
    it tells how annotators answer, but its own posterior is not the one given here.

    Parameters
    ----------
    annotations
        The labels.  Gold items are held at their gold.
    subtypes
        L, the most subtypes that a class may have.  With one, this is :func:`consilience.methods.ibcc.ibcc`.
    smoothing, diagonal
        Pseudo-labels in every cell of every annotator's confusion, and further ones on the diagonal (β).
    concentration
        a, the pseudo-items that the subtypes of a class share: the less, the fewer subtypes are used.
    empirical
        Take the vote totals for α, as the authors do in their experiments; else one pseudo-item a class.
    starts
        Random starts.
    max_iter, tol
        Passes over the data in a start, and the relative change of the lower bound that ends them (0: run all).
    accelerate
        Leap along the steps (SQUAREM) where the lower bound allows it.
    random_state
        Decides the starts.
    callback
        Told of every pass of every start; ends the fit by returning True.
    """
    return fit_subtypes(
        annotations,
        subtypes,
        smoothing=smoothing,
        diagonal=diagonal,
        concentration=concentration,
        empirical=empirical,
        starts=starts,
        max_iter=max_iter,
        tol=tol,
        accelerate=accelerate,
        random_state=random_state,
        callback=callback,
    ).fit(annotations)


def fit_subtypes(
    annotations: Annotations,
    subtypes: int,
    *,
    smoothing: float,
    diagonal: float,
    concentration: float,
    empirical: bool,
    starts: int,
    max_iter: int,
    tol: float,
    accelerate: bool = True,
    random_state: Any = 0,
    callback: Callback | None = None,
    start: Parameters | None = None,
    enough: float = np.inf,
) -> Subtypes:
    """Do the work of :func:`ebcc`.

    The tables that come of it can be the ``start`` for more data of the same annotators, instead of random ones.  After
    a start that ends with a lower bound of ``enough`` there is no other.
    """
    rng = np.random.default_rng(random_state)
    a = informed(annotations)
    votes = from_votes(a)
    beliefs = _Subtyped(
        subtypes,
        Dirichlet(np.maximum(votes.class_counts, 0.1) if empirical else np.ones(a.n_classes)),
        Dirichlet(np.full(subtypes, max(concentration / subtypes, _LEAST))),
        Dirichlet(np.repeat(pseudo_labels(a, smoothing, diagonal), subtypes, axis=1), axis=-2, compiled=True),
    )
    sweep = _sweep_of(a, subtypes)
    stopped = False

    def tell(progress: Progress) -> bool:
        nonlocal stopped
        stopped = callback is not None and bool(callback(progress))
        return stopped

    best: Ascent | None = None
    begins = [sweep(*start)] if start is not None else _starts(a, beliefs, votes, sweep, starts, rng)
    for begin in begins:
        ascent = Climb(sweep, beliefs, begin, accelerate=accelerate).run(max_iter=max_iter, tol=tol, callback=tell)
        if best is None or ascent.bound > best.bound:
            best = ascent
        if stopped or best.bound >= enough:
            break
    assert best is not None
    return Subtypes(beliefs, best, tol)


@dataclass(frozen=True)
class _Subtyped:
    """Dirichlet distributions of class proportions, of subtypes within a class, and of every column of a confusion."""

    subtypes: int
    proportions: Dirichlet
    shares: Dirichlet
    confusions: Dirichlet

    def __call__(self, statistics: Statistics) -> Expectation:
        items = statistics.class_counts.reshape(-1, self.subtypes)
        log_proportions, d1 = self.proportions.expected_log(items.sum(axis=1))
        log_shares, d2 = self.shares.expected_log(items)
        log_confusions, d3 = self.confusions.expected_log(statistics.counts)
        weights = np.exp(log_proportions[:, None] + log_shares).ravel()
        return Expectation(Parameters(weights, np.exp(log_confusions)), d1 + d2 + d3)

    def means(self, statistics: Statistics) -> Parameters:
        """Give the expected class proportions and confusions, the subtypes of a class counted as one."""
        M, K, _ = statistics.counts.shape
        items, counts = statistics.class_counts.reshape(K, -1), statistics.counts.reshape(M, K, K, -1)
        of_one = self.of_one()
        return Parameters(of_one.proportions.mean(items.sum(axis=1)), of_one.confusions.mean(counts.sum(axis=-1)))

    def of_one(self) -> _Subtyped:
        """Give the same prior with one subtype a class."""
        pseudo = self.confusions.pseudo[:, :: self.subtypes]
        return _Subtyped(1, self.proportions, Dirichlet(np.ones(1)), Dirichlet(pseudo, axis=-2))


@dataclass(frozen=True)
class Subtypes:
    """What the best of the starts found."""

    beliefs: _Subtyped
    ascent: Ascent
    tol: float

    @property
    def bound(self) -> float:
        """The lower bound."""
        return self.ascent.bound

    @property
    def tables(self) -> Parameters:
        """Weights (K L,) and tables (M, K, K L) of all subtypes."""
        return self.beliefs(self.ascent.at).tables

    @property
    def converged(self) -> bool:
        """Whether the tolerance was met."""
        return self.ascent.converged

    @property
    def history(self) -> list[float]:
        """The lower bound after every pass of the best start."""
        return self.ascent.history

    @property
    def means(self) -> Parameters:
        """The expected parameters, the subtypes of a class counted as one."""
        return self.beliefs.means(self.ascent.at)

    def fit(self, annotations: Annotations) -> Fit:
        """Give labels and model for the annotations that this was fitted to."""
        posterior = _sweep_of(annotations, self.beliefs.subtypes).posterior(*self.tables)
        model = DawidSkene(*self.means, annotations.class_ids, annotations.annotator_ids)
        return fit_of(annotations, model, posterior, model.log_likelihood(annotations), self.ascent, self.tol)


def _sweep_of(annotations: Annotations, subtypes: int) -> SubtypeSweep:
    a = annotations
    return SubtypeSweep(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes, subtypes)


def _starts(
    annotations: Annotations,
    beliefs: _Subtyped,
    votes: Statistics,
    sweep: SubtypeSweep,
    starts: int,
    rng: np.random.Generator,
) -> Iterator[Statistics]:
    """Give the votes, with the items of a class spread over its subtypes at random.

    The authors draw every item's shares of the subtypes from a flat Dirichlet.  Here the logarithms of the annotators'
    tables are disturbed instead, so that what is drawn does not depend on the order of the items, and by so much that
    the shares which follow spread as those would: log of an exponential variable has variance π²/6.
    """
    M, K, _ = votes.counts.shape
    L = beliefs.subtypes
    if L == 1:
        yield votes
        return
    plain = beliefs.of_one()(votes).tables
    weights, tables = np.repeat(plain.prior / L, L), plain.confusions[:, :, :, None]
    order = _in_order(sweep_of(annotations)(*plain), rng)
    deviation = np.sqrt(np.pi**2 / 6 / max(annotations.n_labels / max(annotations.n_items, 1), 1.0))
    for _ in range(starts):
        noise = np.empty((M, K, K, L))
        noise[order] = rng.normal(0.0, deviation, (M, K, K, L))
        yield sweep(weights, (tables * np.exp(noise)).reshape(M, K, K * L))


def _in_order(statistics: Statistics, rng: np.random.Generator) -> tuple[Any, ...]:
    """Give an order of annotators and classes that depends on what was said, not on their names or the rows' order."""
    counts = np.round(statistics.counts, 6)
    classes = np.argsort(np.round(statistics.class_counts, 6), kind="stable")
    mixed = counts[:, classes][:, :, classes].reshape(len(counts), -1) @ rng.random(classes.size**2)
    annotators = np.argsort(np.round(mixed, 4), kind="stable")
    return np.ix_(annotators, classes, classes)
