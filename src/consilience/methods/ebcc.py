"""Enhanced Bayesian classifier combination: classes of several subtypes, so that annotators may err together.

Given the class alone, annotators need not be independent: on hard items many err in the same way.  So class k is a
mixture of L subtypes, and annotators are independent given class and subtype (Li et al. 2019):

    τ ~ Dirichlet(α),  truth of n ~ τ,    π_k ~ Dirichlet(a/L, …, a/L),  subtype of n ~ π_truth,
    V_m(:, k, l) ~ Dirichlet(β(:, k)),    label of n by m ~ V_m(:, truth, subtype).

With a small, subtypes that the data does not need stay empty.  Inference is mean-field variational Bayes, the same
ascent as in :mod:`consilience.methods.ibcc`, which is this model with L = 1; here truth and subtype of an item share
one factor q, with K L entries.  There are many local optima: of several random starts the one with the largest lower
bound is kept.

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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.checkpoint import Keeper
from consilience.engine.passes import Labels, Passes
from consilience.exceptions import FewLabelsWarning
from consilience.fitting.em import Callback, Parameters, Progress, SweepFunction, sweep_of, without_blanks
from consilience.fitting.fit import Fit
from consilience.fitting.variational import (
    Dirichlet,
    Expectation,
    VariationalAscent,
    Weighted,
    fit_of,
    from_votes,
    informed,
    variational_ascent,
)
from consilience.kernels._arrays import Floats
from consilience.kernels.em import Statistics
from consilience.kernels.subtypes import SubtypeSweep
from consilience.methods.base.constants import LEAST_SUBTYPE, SUBTYPE_CELLS
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.method import Method
from consilience.methods.ibcc import pseudo_labels
from consilience.models.dawid_skene import DawidSkene

__all__ = ["EBCC", "METHOD", "Subtypes", "ebcc", "fit_subtypes", "subtype_sweep"]


class EBCC(IterativeEstimator):
    """Enhanced Bayesian classifier combination: classes of several subtypes, so that annotators may err together.

    After Li, Rubinstein and Cohn (2019).

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    subtypes
        L, the most subtypes that a class may have.  With one, this is :class:`consilience.IBCC`.  Fewer are taken, with
        a warning, where the tables would have more than four million cells.
    smoothing, diagonal
        Pseudo-labels in every cell of every confusion (β), and further ones on the diagonal.
    concentration
        a, the pseudo-items that the subtypes of a class share: the less, the fewer subtypes are used.
    empirical
        Take the vote totals as pseudo-items of the classes (α), as the authors do; else one per class.
    starts
        Random starts; the one with the largest lower bound is kept.
    max_iter, tol
        Passes over the data in a start, and the relative change of the lower bound that ends them (0: run all).
    accelerate
        Extrapolate along the steps (SQUAREM) where that raises the lower bound.
    random_state
        Decides everything that is random.
    callback
        Called after every pass of every start; ends the fit by returning True.
    """

    _method = "ebcc"

    subtypes: int = 10
    smoothing: float = 1.0
    diagonal: float = 3.0
    concentration: float = 0.1
    empirical: bool = True
    starts: int = 10
    accelerate: bool = True
    max_iter: int = 500
    tol: float = 1e-6


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
    """Fit by variational Bayes from several random starts; :class:`EBCC` documents the parameters.

    The posterior is the variational one.  The model is a Dawid-Skene model, the subtypes of a class taken together: it
    describes how annotators answer, but its own posterior is another.
    """
    a = annotations
    most = max(1, SUBTYPE_CELLS // (a.n_annotators * a.n_classes**2))
    fit = fit_subtypes(
        a,
        min(subtypes, most),
        smoothing=smoothing,
        diagonal=diagonal,
        concentration=concentration,
        pseudo_items=np.inf if empirical else None,
        starts=starts,
        max_iter=max_iter,
        tol=tol,
        accelerate=accelerate,
        random_state=random_state,
        callback=callback,
    ).fit(a)
    if subtypes <= most:
        return fit
    crowd = f"{a.n_classes} classes and {a.n_annotators} annotators are many for {subtypes} subtypes of every class"
    fewer = "none were fitted, as in ibcc" if most == 1 else f"at most {most} were fitted"
    return replace(fit, cautions=(*fit.cautions, (f"{crowd}: {fewer}", FewLabelsWarning)))


METHOD = Method("ebcc", ebcc, "EBCC", "classes of several subtypes, so that annotators may err together")


def fit_subtypes(
    annotations: Labels,
    subtypes: int,
    *,
    smoothing: float,
    diagonal: float,
    concentration: float,
    pseudo_items: float | None,
    starts: int,
    max_iter: int,
    tol: float,
    accelerate: bool = True,
    random_state: Any = 0,
    callback: Callback | None = None,
    weights: Floats | None = None,
    start: Parameters | None = None,
    needed: float = -np.inf,
) -> Subtypes:
    """Fit as :func:`ebcc` does.

    α has the vote shares of the classes, at most ``pseudo_items`` together; None for one per class.  The labels of
    annotator m count ``weights[m]`` times.  ``start`` are tables of an earlier result for the same annotators, instead
    of random starts.  Once two starts have ended below a lower bound of ``needed``, there is no third.
    """
    rng = np.random.default_rng(random_state)
    a = informed(annotations)
    votes = from_votes(a)
    alpha = np.ones(a.n_classes)
    if pseudo_items is not None:
        alpha = np.maximum(votes.class_counts * min(1.0, pseudo_items / votes.class_counts.sum()), 0.1)
    plain = SubtypeBeliefs(
        subtypes,
        Dirichlet(alpha),
        Dirichlet(np.full(subtypes, max(concentration / subtypes, LEAST_SUBTYPE))),
        Dirichlet(np.repeat(pseudo_labels(a, smoothing, diagonal), subtypes, axis=1), axis=-2),
    )
    beliefs: SubtypeBeliefs | Weighted = plain if weights is None else Weighted(plain, weights)
    sweep = _sweep_of(a, subtypes)
    stopped = False

    def tell(progress: Progress) -> bool:
        nonlocal stopped
        stopped = callback is not None and bool(callback(progress))
        return stopped

    keeper = Keeper(a.checkpoint, "subtypes") if isinstance(a, Passes) and a.checkpoint else None
    best: VariationalAscent | None = None
    begins = [sweep(*start)] if start is not None else _starts(a, plain, votes, sweep, starts, rng)
    for i, begin in enumerate(begins):
        ascent = variational_ascent(sweep, beliefs, begin, accelerate=accelerate, keeper=keeper if i == 0 else None)
        ascent.run(max_iter=max_iter, tol=tol, callback=tell)
        if best is None or ascent.objective > best.objective:
            best = ascent
        if stopped or (i == 1 and best.objective < needed):
            break
    assert best is not None
    return Subtypes(beliefs, best, tol, subtypes)


@dataclass(frozen=True)
class SubtypeBeliefs:
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
        """Return the expected class proportions and confusions, the subtypes of a class counted as one."""
        M, K, _ = statistics.counts.shape
        items, counts = statistics.class_counts.reshape(K, -1), statistics.counts.reshape(M, K, K, -1)
        of_one = self.of_one()
        return Parameters(of_one.proportions.mean(items.sum(axis=1)), of_one.confusions.mean(counts.sum(axis=-1)))

    def of_one(self) -> SubtypeBeliefs:
        """Return the same prior with one subtype per class."""
        pseudo = self.confusions.pseudo[:, :: self.subtypes]
        return SubtypeBeliefs(1, self.proportions, Dirichlet(np.ones(1)), Dirichlet(pseudo, axis=-2))


@dataclass(frozen=True)
class Subtypes:
    """The result of the best start."""

    beliefs: SubtypeBeliefs | Weighted
    ascent: VariationalAscent
    tol: float
    subtypes: int  #: L

    @property
    def bound(self) -> float:
        """The lower bound."""
        return self.ascent.objective

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
        """Return labels and model for the annotations that this was fitted to."""
        posterior = subtype_sweep(annotations, self.subtypes).posterior(*self.tables)
        model = DawidSkene(*self.means, annotations.class_ids, annotations.annotator_ids)
        return fit_of(annotations, model, posterior, model.log_likelihood(annotations), self.ascent, self.tol)


def _sweep_of(data: Labels, subtypes: int) -> SweepFunction:
    """Return the E-step over these labels, wherever they are."""
    if isinstance(data, Annotations):
        return subtype_sweep(data, subtypes)
    return without_blanks(data, data.subtype_sweep)


def subtype_sweep(annotations: Annotations, subtypes: int) -> SubtypeSweep:
    """Return the E-step over these labels."""
    a = annotations
    return SubtypeSweep(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes, subtypes)


def _starts(
    annotations: Labels,
    beliefs: SubtypeBeliefs,
    votes: Statistics,
    sweep: SweepFunction,
    starts: int,
    rng: np.random.Generator,
) -> Iterator[Statistics]:
    """Yield the votes, with the items of a class spread over its subtypes at random.

    The authors draw every item's shares of the subtypes from a flat Dirichlet.  Here noise is added to the logarithms
    of the annotators' tables instead, so that the draws do not depend on the order of the items.  Its variance gives
    shares of the same spread: the log of an exponential variable has variance π²/6.
    """
    M, K, _ = votes.counts.shape
    L = beliefs.subtypes
    if L == 1:
        yield votes
        return
    plain = beliefs.of_one()(votes).tables
    weights, tables = np.repeat(plain.prior / L, L), plain.confusions[:, :, :, None]
    plainly = sweep_of(annotations) if isinstance(annotations, Annotations) else annotations.sweep
    order = _in_order(plainly(*plain), rng)
    deviation = np.sqrt(np.pi**2 / 6 / max(annotations.n_labels / max(annotations.n_items, 1), 1.0))
    for _ in range(starts):
        noise = np.empty((M, K, K, L))
        noise[order] = rng.normal(0.0, deviation, (M, K, K, L))
        yield sweep(weights, (tables * np.exp(noise)).reshape(M, K, K * L))


def _in_order(statistics: Statistics, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return an order of annotators and classes that depends on the labels, not on names or the order of rows."""
    counts = np.round(statistics.counts, 9)
    classes = np.argsort(np.round(statistics.class_counts, 6), kind="stable")
    mixed = counts[:, classes][:, :, classes].reshape(len(counts), -1) @ rng.random(classes.size**2)
    annotators = np.argsort(np.round(mixed, 9), kind="stable")
    return np.ix_(annotators, classes, classes)
