"""Dawid and Skene's model where items differ in ease: annotators err more often, and together, on hard ones.

    Pr(m says i of n | truth k, ease x)  ∝  A_m(i, k) · exp(σ x [i = k]),        x ~ N(0, 1) for every item,

a latent class model with a random effect (Y. Qu, M. Tan and M. H. Kutner, "Random effects models in latent class
analysis for evaluating accuracy of diagnostic tests", Biometrics 52, 1996).  Given the truth alone, annotators then err
together.  σ is the ``spread`` of ease; with σ = 0 this is Dawid and Skene's model.  As ease has three degrees
(:mod:`consilience.models.ease`), the E-step is the sweep of :mod:`consilience.kernels.subtypes` with three subtypes per
class.  The M-step is replaced by one step of iterative scaling with pseudo-labels β, the crowd's habits
(:mod:`consilience.methods.hierarchical`), from which EM also starts.  The objective is the log-likelihood plus
Σ_m Σ β log A_m, plus Σ log π where the class proportions are learned, from one pseudo-item each.

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
from consilience.fitting.ascent import Ascent, EMModel, Pass
from consilience.fitting.em import Callback, Parameters, Progress, leap_confusions, rounded
from consilience.fitting.fit import Fit, unconverged
from consilience.fitting.variational import informed
from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR
from consilience.kernels.subtypes import SubtypeSweep
from consilience.methods.base.constants import ROUGH_TOL, SPREADS
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.method import Method
from consilience.methods.hierarchical import Hierarchy
from consilience.models.dawid_skene import DawidSkene
from consilience.models.ease import Ease

__all__ = ["METHOD", "HardItems", "HardItemsDawidSkene", "HardItemsModel", "fit_hard_items", "hard_items"]


class HardItemsDawidSkene(IterativeEstimator):
    r"""Dawid and Skene's model where all are more often right about an easy item, and wrong about a hard one.

    .. math:: \Pr(m \text{ says } i \text{ of } n \mid k) \propto A_m(i, k) e^{\sigma x [i = k]}, \quad x \sim N(0, 1)

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    spread
        σ, how much items differ in ease; None chooses the one that makes the labels most probable, and ``details_``
        holds it.
    prior
        "learned" (from one pseudo-item per class), or "uniform" to hold all classes equally likely.
    max_iter, tol
        Passes over the data for one spread, and the relative change of the objective that ends them (0: run all).
    accelerate
        Extrapolate along the steps (SQUAREM) where that raises the objective.
    random_state
        Not used: the fit is deterministic.
    callback
        Called after every pass; ends the fit by returning True.
    """

    _method = "hard-items"

    spread: float | None = None
    prior: Literal["learned", "uniform"] = "learned"
    accelerate: bool = True


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
    """Fit by EM, from the confusions of a crowd whose habits are learned; see :class:`HardItemsDawidSkene`.

    The model holds confusions averaged over items; its own posterior is not the one returned here.
    """
    rough, stopped = max(tol, ROUGH_TOL), False

    def tell(progress: Progress) -> bool:
        nonlocal stopped
        stopped = callback is not None and bool(callback(progress))
        return stopped

    crowd = Hierarchy(annotations, prior=prior, accelerate=accelerate)
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
    for tried in SPREADS if spread is None else ():
        if stopped:
            break
        found = fitted(start, spread=tried, max_iter=max_iter, tol=rough)
        if found.objective <= best:
            break
        start, best, spread = found.usual, found.objective, tried
    spread = 0.0 if spread is None else spread
    if stopped:  # one more pass, for the likelihood of what was found so far
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


METHOD = Method(
    "hard-items",
    hard_items,
    "HardItemsDawidSkene",
    "a confusion matrix for every annotator, and items that are harder than others",
)


class HardItems(NamedTuple):
    """The result of EM."""

    usual: Parameters  #: the class proportions, and confusions on items of usual ease
    spread: float
    objective: float  #: log-likelihood, and log-density of the parameters' prior
    log_likelihood: float
    converged: bool
    history: list[float]  #: the objective after every pass

    @property
    def means(self) -> Parameters:
        """The class proportions, and confusions averaged over items."""
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
    end = Ascent(model, start, accelerate=accelerate, labels=a.n_labels)
    end.run(max_iter=max_iter, tol=tol, callback=callback)
    return HardItems(end.at, spread, end.objective, end.log_likelihood, end.converged, end.history)


@dataclass(frozen=True)
class HardItemsModel:
    """The fitted model, for any items of these annotators."""

    usual: DawidSkene  #: the model of items of usual ease
    spread: float

    def posterior(self, annotations: Annotations, weights: Floats | None = None) -> Floats:
        """Return ``Pr(truth of n = k | all labels of n)``, (N, K), as :meth:`DawidSkene.posterior` does."""
        coded, ease = self.recoded(annotations), _ease(self.spread, self.usual.prior.size)
        tables = ease.tables(self.usual.confusions)
        if weights is not None:
            tables **= weights[:, None, None, None]
        if strangers := coded.n_annotators - len(tables):
            tables = np.concatenate([tables, np.repeat(tables.mean(axis=0, keepdims=True), strangers, axis=0)])
        return _sweep(coded, ease).posterior(_subtype_shares(self.usual.prior, ease), _wide(tables))

    def recoded(self, annotations: Annotations) -> Annotations:
        """Return the same labels in the codes of the model."""
        return self.usual.recoded(annotations)


class _Sums(NamedTuple):
    """The point and the expected counts of a pass."""

    at: Parameters
    counts: Floats  #: (M, K, K, 3)
    class_counts: Floats  #: (K,)


class _Model(EMModel[Parameters, _Sums]):
    """The model as the ascent sees it."""

    def __init__(
        self, annotations: Annotations, spread: float, pseudo: Floats, learn_prior: bool, weights: Floats | None
    ) -> None:
        self.ease, self.pseudo, self.learn_prior = _ease(spread, annotations.n_classes), pseudo, learn_prior
        self.weights = None if weights is None else weights[:, None, None, None]
        self.sweep = _sweep(annotations, self.ease)

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
        return rounded(Parameters(prior, confusions))

    def leap(self, one: Pass[Parameters, _Sums], two: Pass[Parameters, _Sums]) -> Parameters | None:
        labels = two.sums.counts.sum(axis=(1, 3))
        return leap_confusions(one.at, two.at, two.after, labels, float(two.sums.class_counts.sum()))


def _ease(spread: float, n_classes: int) -> Ease:
    """Return the random effect that makes right answers more likely on easy items."""
    return Ease(spread, np.arange(n_classes))


def _subtype_shares(prior: Floats, ease: Ease) -> Floats:
    """Return the share of every class and degree of ease, (3 K,)."""
    return np.maximum(prior[:, None] * ease.shares, FLOOR).ravel()


def _wide(tables: Floats) -> Floats:
    M, K = tables.shape[:2]
    return tables.reshape(M, K, -1)


def _sweep(annotations: Annotations, ease: Ease) -> SubtypeSweep:
    a = annotations
    return SubtypeSweep(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes, ease.nodes.size)
