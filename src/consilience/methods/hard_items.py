"""Dawid and Skene's model where items differ: all are more often right about an easy one, and wrong about a hard one.

    Pr(m says i of n | truth k, ease x)  ∝  A_m(i, k) · exp(σ x [i = k]),        x ~ N(0, 1) for every item,

a latent class model with a random effect (Y. Qu, M. Tan and M. H. Kutner, "Random effects models in latent class
analysis for evaluating accuracy of diagnostic tests", Biometrics 52, 1996).  Given the truth alone, annotators then err
together, as people do.  σ is the ``spread`` of ease; with σ = 0 this is Dawid and Skene's model.  As ease has three
degrees (:mod:`consilience.models.ease`), the E-step is the sweep of :mod:`consilience.kernels.subtypes` with three
subtypes a class.  In place of the M-step there is one step of iterative scaling, with pseudo-labels β: how the crowd
answers (:mod:`consilience.methods.hierarchical`), where EM also starts.  What rises is the log-likelihood plus
Σ_m Σ β log A_m, plus Σ log π where the proportions of the classes are learned, from one pseudo-item each.

====== ================================= ============
symbol name                              shape
====== ================================= ============
σ      ``spread``                        a number
A      ``usual.confusions``              (M, K, K)
π      ``usual.prior``                   (K,)
β      ``pseudo``                        (K, K)
c      ``counts``                        (M, K, K, 3)
====== ================================= ============
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.fitting.em import Callback, Parameters, Progress, leap_along, steady
from consilience.fitting.fit import Fit, unconverged
from consilience.fitting.squarem import run_squarem
from consilience.fitting.variational import informed
from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR
from consilience.kernels.subtypes import SubtypeSweep
from consilience.methods.hierarchical import Hierarchy
from consilience.models.dawid_skene import DawidSkene
from consilience.models.ease import Ease

__all__ = ["HardItems", "HardItemsModel", "fit_hard_items", "hard_items"]

#: Spreads that are tried where none is given, upwards until the objective falls.
_SPREADS = (0.0, 0.35, 0.7, 1.05, 1.4, 1.75, 2.1)
#: Relative change that ends the fit of the crowd's habits, and of a spread that is only compared.
_ROUGH = 1e-5


def hard_items(
    annotations: Annotations,
    *,
    spread: float | None = None,
    prior: Literal["learned", "uniform"] = "learned",
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
) -> Fit:
    """Fit by EM, from the confusions of a crowd whose habits are learned.

    The model that is given holds confusions as the average item sees them; its own posterior is not the one given here.

    Parameters
    ----------
    annotations
        The labels.  Gold items are held at their gold.
    spread
        σ, how much items differ in ease.  None takes the one that makes the labels most probable; the details of the
        fit tell which.
    prior
        Learn the class proportions (from one pseudo-item a class), or hold them uniform.
    max_iter, tol
        Passes over the data for one spread, and the relative change of the objective that ends them (0: run all).
    accelerate
        Leap along the steps (SQUAREM) where the objective allows it.
    callback
        Told of every pass; ends the fit by returning True.
    """
    rough, stopped = max(tol, _ROUGH), False

    def tell(progress: Progress) -> bool:
        nonlocal stopped
        stopped = callback is not None and bool(callback(progress))
        return stopped

    crowd = Hierarchy(annotations, prior=prior, accelerate=accelerate, compiled=True)
    crowd.climb(max_iter=max_iter, tol=rough, callback=tell)
    fitted = partial(
        fit_hard_items,
        annotations,
        pseudo=crowd.pseudo,
        learn_prior=prior == "learned",
        accelerate=accelerate,
        callback=tell,
    )
    start, best = crowd.means, -np.inf
    for tried in _SPREADS if spread is None else ():
        if stopped:
            break
        found = fitted(start, spread=tried, max_iter=max_iter, tol=rough)
        if found.objective <= best:
            break
        start, best, spread = found.usual, found.objective, tried
    spread = 0.0 if spread is None else spread
    if stopped:  # what is known so far, as one more pass tells it
        found = fitted(start, spread=spread, max_iter=1, tol=tol, callback=None)
    else:
        found = fitted(start, spread=spread, max_iter=max_iter, tol=tol)
    names = annotations.class_ids, annotations.annotator_ids
    return Fit(
        DawidSkene(*found.means, *names),
        HardItemsModel(DawidSkene(*found.usual, *names), spread).posterior(annotations),
        found.log_likelihood,
        found.converged,
        found.history,
        unconverged(found.converged, "EM", f"{len(found.history)} passes", tol),
        details={"spread": spread},
    )


class HardItems(NamedTuple):
    """Where EM ended, and how it got there."""

    usual: Parameters  #: the class proportions, and confusions on items of usual ease
    spread: float
    objective: float  #: log-likelihood, and log-density of the parameters' prior
    log_likelihood: float
    converged: bool
    history: list[float]  #: the objective after every pass

    @property
    def means(self) -> Parameters:
        """The class proportions, and confusions as the average item sees them."""
        prior, confusions = self.usual
        ease = _ease(self.spread, prior.size)
        return Parameters(prior, ease.tables(confusions) @ ease.shares)


def fit_hard_items(
    annotations: Annotations,
    start: Parameters,
    *,
    spread: float,
    pseudo: Floats,
    learn_prior: bool = True,
    weights: Floats | None = None,
    max_iter: int,
    tol: float,
    accelerate: bool = True,
    callback: Callback | None = None,
) -> HardItems:
    """Run EM for one spread.

    Parameters
    ----------
    annotations
        The labels.
    start
        Class proportions and confusions.
    spread
        σ.
    pseudo
        β, pseudo-labels in every annotator's confusion, (K, K).
    learn_prior
        Whether to learn the proportions; else they stay as they are.
    weights
        How many times the labels of each annotator count, (M,): once by default.
    max_iter, tol, accelerate, callback
        As in :func:`hard_items`.
    """
    a = informed(annotations)
    model = _Model(a, spread, pseudo, learn_prior, weights)
    end = run_squarem(
        model, start, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback, labels=a.n_labels
    )
    objective = end.log_likelihood + model.penalty(end.best)
    return HardItems(end.best, spread, objective, end.log_likelihood, end.converged, end.history)


@dataclass(frozen=True)
class HardItemsModel:
    """What was learned, to be asked about any items by these annotators."""

    usual: DawidSkene  #: the model of items of usual ease
    spread: float

    def posterior(self, annotations: Annotations, weights: Floats | None = None) -> Floats:
        """Give ``Pr(truth of n = k | all labels of n)``, (N, K), as :meth:`DawidSkene.posterior` does."""
        coded, ease = self.recoded(annotations), _ease(self.spread, self.usual.prior.size)
        tables = ease.tables(self.usual.confusions)
        if weights is not None:
            tables **= weights[:, None, None, None]
        if strangers := coded.n_annotators - len(tables):
            tables = np.concatenate([tables, np.repeat(tables.mean(axis=0, keepdims=True), strangers, axis=0)])
        return _sweep(coded, ease).posterior(_subtype_shares(self.usual.prior, ease), _wide(tables))

    def recoded(self, annotations: Annotations) -> Annotations:
        """Give the same labels in the codes of the model."""
        return self.usual.recoded(annotations)


class _Sums(NamedTuple):
    """A pass: where it was made, and what it counted."""

    at: Parameters
    counts: Floats  #: (M, K, K, 3)
    class_counts: Floats  #: (K,)


class _Model:
    """The model as EM sees it."""

    def __init__(
        self, annotations: Annotations, spread: float, pseudo: Floats, learn_prior: bool, weights: Floats | None
    ) -> None:
        self.ease, self.pseudo, self.learn_prior = _ease(spread, annotations.n_classes), pseudo, learn_prior
        self.weights = None if weights is None else weights[:, None, None, None]
        self.sweep, self.n_labels = _sweep(annotations, self.ease), annotations.n_labels

    def e_step(self, at: Parameters) -> tuple[_Sums, float]:
        tables = self.ease.tables(at.confusions)
        if self.weights is not None:
            tables **= self.weights
        found = self.sweep(_subtype_shares(at.prior, self.ease), _wide(tables))
        counts = found.counts.reshape(tables.shape)
        if self.weights is not None:
            counts = counts * self.weights
        classes = found.class_counts.reshape(at.prior.size, -1).sum(axis=1)
        return _Sums(at, counts, classes), found.log_likelihood

    def penalty(self, at: Parameters) -> float:
        of_confusions = float((self.pseudo * np.log(np.maximum(at.confusions, FLOOR))).sum())
        return of_confusions + (float(np.log(np.maximum(at.prior, FLOOR)).sum()) if self.learn_prior else 0.0)

    def m_step(self, sums: _Sums) -> Parameters:
        confusions = self.ease.scaled(sums.counts, sums.at.confusions, self.pseudo)
        prior = sums.at.prior
        if self.learn_prior:
            prior = (sums.class_counts + 1.0) / (sums.class_counts.sum() + prior.size)
        return steady(Parameters(prior, confusions), self.n_labels)

    def leap(self, one: Parameters, two: Parameters, three: Parameters, sums: _Sums) -> Parameters | None:
        labels = sums.counts.sum(axis=(1, 3))
        return leap_along(one, two, three, labels, float(sums.class_counts.sum()), self.n_labels)


def _ease(spread: float, n_classes: int) -> Ease:
    """Tell that all are more often right about an easy item."""
    return Ease(spread, np.arange(n_classes))


def _subtype_shares(prior: Floats, ease: Ease) -> Floats:
    """Give the share of every class and degree of ease, (3 K,)."""
    return np.maximum(prior[:, None] * ease.shares, FLOOR).ravel()


def _wide(tables: Floats) -> Floats:
    M, K = tables.shape[:2]
    return tables.reshape(M, K, -1)


def _sweep(annotations: Annotations, ease: Ease) -> SubtypeSweep:
    a = annotations
    return SubtypeSweep(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes, ease.nodes.size)
