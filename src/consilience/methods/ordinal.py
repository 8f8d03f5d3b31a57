"""Dawid and Skene's model for answers on a scale: annotators with a severity and a sharpness.

:mod:`consilience.fitting.ordinal` has the model of an annotator.  The labels decide two things by the lower bound of
their log-probability: whether items of one level are alike, and answers fall off with the distance from it, or whether
they differ in their place on the scale (three places for each level), and answers are normal around that place; and, by
the strength α, how far a confusion may depart from severity and sharpness.  With three places, annotators agree about
which items are near the next level, as panels of language models do: given the level alone their answers are far from
independent.

Severity and sharpness are maximised over, confusions and shares are integrated out by variational Bayes, and σ² is
learned by empirical Bayes between the climbs (Laplace's approximation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.scales import scale_of
from consilience.engine.passes import Labels, passes_of
from consilience.fitting.em import Callback, Parameters, Progress, SweepFunction, without_blanks
from consilience.fitting.fit import Fit, unconverged, vote_posterior
from consilience.fitting.ordinal import OrdinalBeliefs
from consilience.fitting.variational import Dirichlet, Weighted, fit_of, informed, variational_ascent
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.em import Statistics
from consilience.methods.base.constants import ROUGH_TOL, SCALE_CELLS, SCALE_PLACES
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.method import Method
from consilience.methods.ebcc import subtype_sweep
from consilience.methods.hierarchical import checked_weights
from consilience.models.dawid_skene import DawidSkene

__all__ = ["METHOD", "OrdinalDawidSkene", "PlacesModel", "ordinal"]

#: Steps towards the parameters before the first pass; climbs, between which the variances are learned.
_FIRST_STEPS, _CLIMBS = 5, 3


class OrdinalDawidSkene(IterativeEstimator):
    r"""Dawid and Skene's model for answers on a scale: annotators with a severity and a sharpness.

    .. math:: A_m(:, z) \sim \text{Dirichlet}(\alpha P_m(:, z) + \lambda), \qquad
        P_m(i, z) \propto \exp(c_m i - w_m d(i, z))

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    order
        The levels from low to high.  By default numbers are in their order, words in that of a known scale.
    places
        Places on the scale for each level; by default the labels decide between one and three.
    prior
        "learned" (from one pseudo-item per level), or "uniform" to hold all levels equally likely.
    weights
        How many times the labels of each annotator count, (M,); once by default.
    max_iter, tol
        Passes over the data for each fit, and the relative change of the lower bound that ends it (0: run all passes).
    accelerate
        Extrapolate along the steps (SQUAREM) where that raises the lower bound.
    random_state
        Not used: the fit is deterministic.
    callback
        Called after every pass; ends the fit by returning True.

    Examples
    --------
    >>> from consilience import OrdinalDawidSkene, datasets
    >>> crowd = datasets.simulate_scale(300, 12, 5, seed=1)
    >>> model = OrdinalDawidSkene().fit(crowd.annotations)
    >>> float(abs(model.labels_ - crowd.truth).mean()) < 0.3
    True
    """

    _method = "ordinal"

    order: Sequence[Any] | None = None
    places: int | None = None
    prior: Literal["learned", "uniform"] = "learned"
    weights: Sequence[float] | Floats | None = None
    accelerate: bool = True


def ordinal(
    annotations: Labels,
    *,
    order: Sequence[Any] | None = None,
    places: int | None = None,
    prior: Literal["learned", "uniform"] = "learned",
    weights: Sequence[float] | Floats | None = None,
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
) -> Fit:
    """Fit by variational Bayes; :class:`OrdinalDawidSkene` documents the parameters.

    Labels that are not in memory get no posterior: the predictor labels items block by block.
    """
    a, levels = annotations, scale_of(annotations.class_ids, order).order
    K = a.n_classes
    counted = None if weights is None else checked_weights(weights, a.n_annotators)
    stopped = False

    def tell(progress: Progress) -> bool:
        nonlocal stopped
        stopped = callback is not None and bool(callback(progress))
        return stopped

    def climb(places: int) -> _Climb:
        made = _Climb(a, levels, places, learned=prior == "learned", weights=counted, accelerate=accelerate)
        if not stopped:
            made.run(max_iter=max_iter, tol=max(tol, ROUGH_TOL), callback=tell)
        return made

    # the first of equals wins
    finer = K > 1 and a.n_annotators * K * K * SCALE_PLACES <= SCALE_CELLS
    grids = ((1, SCALE_PLACES) if finer else (1,)) if places is None else (places,)
    best = max(map(climb, grids), key=_Climb.bound)
    for _ in range(_CLIMBS):
        if not stopped:
            best.learn_variance()
            best.run(max_iter=max_iter, tol=tol, callback=tell)
    return best.fit(annotations, tol)


METHOD = Method("ordinal", ordinal, "OrdinalDawidSkene", "answers on a scale: annotators with a severity and a spread")


class _Climb:
    """The ascent of one form of the model; ``levels`` are the codes of the classes from low to high."""

    def __init__(
        self,
        annotations: Labels,
        levels: Ints,
        places: int,
        *,
        learned: bool,
        weights: Floats | None,
        accelerate: bool,
    ) -> None:
        a = informed(annotations)
        K = a.n_classes
        self.levels, self.places, self.weights = levels, places, weights
        self._accelerate = accelerate
        proportions = Dirichlet(np.full(K * places, 1.0 / places)) if learned else None
        self._own = OrdinalBeliefs(proportions, a.n_annotators, K, places)
        self._beliefs = self._own if weights is None else Weighted(self._own, weights)
        self._sweep = _sweep(a, levels, places)
        # levels as frequent as they were said, and annotators who are all alike
        said = passes_of(a).votes.class_counts[levels]
        shares = (said + 1.0) / (said.sum() + K)
        tables = self._own.expected if weights is None else self._own.expected ** weights[:, None, None]
        start = self._sweep(np.repeat(shares / places, places), tables)
        self._own.settle(self._counted(start), _FIRST_STEPS)
        self._ascent = variational_ascent(self._sweep, self._beliefs, start, accelerate=accelerate)

    def bound(self) -> float:
        """Return the lower bound; minus infinity before the first pass."""
        return -np.inf if self._ascent.best is None else self._ascent.objective

    def run(self, *, max_iter: int, tol: float, callback: Callback) -> None:
        """Climb from where the last climb ended."""
        self._ascent = variational_ascent(self._sweep, self._beliefs, self._ascent.at, accelerate=self._accelerate)
        self._ascent.run(max_iter=max_iter, tol=tol, callback=callback)

    def learn_variance(self) -> None:
        """Learn how different annotators are."""
        self._own.learn_variance(self._counted(self._ascent.at))

    def fit(self, annotations: Labels, tol: float) -> Fit:
        """Return the result with classes as ``annotations`` has them."""
        at = self._counted(self._ascent.at)
        rank = np.argsort(self.levels)
        prior, confusions = self._own.means(at)
        named = DawidSkene(
            prior[rank], confusions[:, rank][:, :, rank], annotations.class_ids, annotations.annotator_ids
        )
        predictor = PlacesModel(named, self.levels, self._own.places_means(at), self.weights)
        found = self._found(annotations, predictor, tol)
        details = {**found.details, "places": self.places, "strength": self._own.strength}
        return replace(found, predictor=predictor, details=details)

    def _found(self, annotations: Labels, predictor: PlacesModel, tol: float) -> Fit:
        named, ascent = predictor.named, self._ascent
        if isinstance(annotations, Annotations):
            likelihood = named.log_likelihood(annotations)
            return fit_of(annotations, named, predictor.posterior(annotations), likelihood, ascent, tol)
        likelihood = annotations.sweep(named.prior, named.confusions).log_likelihood
        passes = f"{len(ascent.history)} passes"
        cautions = unconverged(ascent.converged, "variational Bayes", passes, tol)
        none = np.empty((0, annotations.n_classes))
        details = {"lower_bound": ascent.objective}
        return Fit(named, none, likelihood, ascent.converged, ascent.history, cautions, details=details)

    def _counted(self, statistics: Statistics) -> Statistics:
        return self._beliefs.count(statistics) if isinstance(self._beliefs, Weighted) else statistics


@dataclass(frozen=True)
class PlacesModel:
    """A fitted model with its places; gives posteriors of any items by these annotators."""

    named: DawidSkene  #: the places of a level taken together
    levels: Ints  #: codes of its classes from low to high, (K,)
    places: Parameters  #: shares of the places, (C,), and answers about them, (M, K, C), levels in order
    weights: Floats | None = None  #: how many times the labels of each annotator count, (M,)

    def posterior(self, annotations: Annotations) -> Floats:
        """Return the posterior of every item, (N, K); an unknown annotator is like the average of the others."""
        coded = self.named.recoded(annotations)
        shares, tables = self.places
        if self.weights is not None:
            tables = tables ** self.weights[:, None, None]
        if strangers := coded.n_annotators - len(tables):
            tables = np.concatenate([tables, np.repeat(tables.mean(axis=0, keepdims=True), strangers, axis=0)])
        turned = _Turned(self.levels, shares.size // coded.n_classes)
        return subtype_sweep(coded, turned.places).posterior(*turned.by_code(shares, tables))

    def __call__(self, annotations: Annotations) -> tuple[Floats, Floats]:
        """Return the posterior and the vote shares of any items, (N, K) both."""
        return self.posterior(annotations), vote_posterior(self.named.recoded(annotations))


class _Turned:
    """Tables of places in the order of the levels, and in that of the codes of the classes."""

    def __init__(self, levels: Ints, places: int) -> None:
        self.levels, self.places = levels, places
        self.rank = np.argsort(levels)
        self._there, self._back = (
            (order[:, None] * places + np.arange(places)).ravel() for order in (self.rank, levels)
        )

    def by_code(self, shares: Floats, tables: Floats) -> tuple[Floats, Floats]:
        """Return shares (C,) and tables (M, K, C) by code."""
        return shares[self._there], np.ascontiguousarray(tables[:, self.rank][:, :, self._there])

    def by_level(self, found: Statistics) -> Statistics:
        """Return the statistics of a sweep by level."""
        counts = np.ascontiguousarray(found.counts[:, self.levels][:, :, self._back])
        return Statistics(counts, found.class_counts[self._back], found.log_likelihood)


def _sweep(annotations: Labels, levels: Ints, places: int) -> SweepFunction:
    """Return the E-step over these labels, wherever they are, in terms of levels."""
    a = annotations
    plain = subtype_sweep(a, places) if isinstance(a, Annotations) else without_blanks(a, a.subtype_sweep)
    if (levels[:-1] < levels[1:]).all():
        return plain
    turned = _Turned(levels, places)
    return lambda shares, tables: turned.by_level(plain(*turned.by_code(shares, tables)))
