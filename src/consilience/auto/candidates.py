"""The models that ``auto`` chooses from, fitted to one crowd and compared by their evidence.

The lower bound F of :mod:`consilience.fitting.variational` measures, without any truth, how probable the labels are
under a family of models, parameters integrated out.  It compares

====================  ==========================================================================
coin                  one probability of being right for every annotator
confusions            a confusion matrix for every annotator, drawn from the crowd's
hard items            the same on items of usual ease, and items that are easier or harder
subtypes              two kinds of items in a class, with a fixed prior
====================  ==========================================================================

* If the coin leads by a wide margin, it decides alone.
* If subtypes raise F by a wide margin, and by more than hard items do, annotators err together: subtypes, confusions,
  coin and votes are averaged.  Subtypes are compared to the same model without them, both with the fixed prior that
  annotators are right more often than not (with a learned one, a second kind of items may become a class of its own),
  and must not owe their lead to that prior.
* Otherwise up to four models are averaged: confusions, the same with equal classes and the same drawn from the fixed
  prior, unless F rules these out, and the coin.  Smaller differences of F are no guide: no real crowd is drawn from
  any of the models.  If that makes the labels more probable, the first two models allow for hard items.

Copies, subtypes and hard items are looked for in a sample of the items where there are many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from consilience.auto import constants
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import CLEAR
from consilience.diagnose.error_correlation import error_correlation
from consilience.fitting.em import ConfusionStep, Parameters
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Floats
from consilience.kernels.votes import vote_counts, vote_statistics
from consilience.methods.ebcc import Subtypes, fit_subtypes
from consilience.methods.hard_items import HardItems, fit_hard_items
from consilience.methods.hierarchical import Hierarchy
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.copies import find_copies

__all__ = ["Candidate", "Chosen", "Comparison", "Crowd", "choose_models", "compare_models"]

#: A confusion matrix for every annotator, for all items or for items of usual ease.
Confusions = Hierarchy | HardItems
Candidate = Confusions | Subtypes


class Crowd:
    """The labels, a sample of them, groups of copies, and the models that can be fitted to them."""

    def __init__(self, annotations: Annotations, options: Mapping[str, Any], random_state: Any) -> None:
        self.annotations, self.options, self.random_state = annotations, options, random_state
        self._rough = {**options, "tol": max(options["tol"], constants.ROUGH_TOL)}
        step = -(-annotations.n_labels // constants.SAMPLE)
        chosen = np.arange(0, annotations.n_items, step)
        self.sample = annotations.select_items(chosen) if step > 1 else annotations
        self.groups = find_copies(self.sample)
        self.weights = np.ones(annotations.n_annotators)
        for group in self.groups:  # one vote together
            self.weights[group.members] = 1.0 / group.members.size
        self.misled = _votes_mislead(annotations)
        active = np.count_nonzero(annotations.labels_per_annotator)
        self.rich = bool(active >= constants.FEWEST_ANNOTATORS)

    def confusions(self, **more: Any) -> Hierarchy:
        """Fit a confusion matrix for every annotator."""
        return self._hierarchy(self.annotations, **more).climb(**self.options)

    def coin(self, prior: str) -> Hierarchy:
        """Fit one accuracy for every annotator, roughly: for comparison."""
        return self._hierarchy(self.annotations, coin=True, prior=prior).climb(**self._rough)

    def of_sample(self) -> Hierarchy:
        """Fit a confusion matrix for every annotator to the sample."""
        return self._hierarchy(self.sample).climb(**self.options)

    def subtypes(
        self, n: int, *, all_labels: bool = False, start: Parameters | None = None, enough: float = np.inf
    ) -> Subtypes:
        """Fit n kinds of items in a class with the fixed prior; with one, this is Dawid and Skene's model.

        The start is given, or random ones are tried until one ends with a bound of ``enough``.
        """
        annotations = self.annotations if all_labels else self.sample
        wrong = constants.WRONG / max(annotations.n_classes - 1, 1)
        options = dict(self.options)
        if start is not None:  # two kinds of items separate late
            options["tol"] = min(options["tol"], constants.FINE_TOL)
        return fit_subtypes(
            annotations,
            n,
            smoothing=wrong,
            diagonal=constants.RIGHT - wrong,
            starts=constants.SUBTYPE_STARTS,
            concentration=constants.SUBTYPE_ITEMS,
            empirical=False,
            random_state=self.random_state,
            start=start,
            enough=enough,
            **options,
        )

    def hardness(self, confusions: Hierarchy) -> float:
        """Return how much hard items add to the log-probability of the sample, in nats."""
        a = self.annotations
        if not self.rich or a.n_annotators * a.n_classes**2 > constants.MOST_CELLS:
            return 0.0
        plain, hard = (self.hard_items(self.sample, confusions, spread=spread) for spread in (0.0, constants.SPREAD))
        return hard.objective - plain.objective

    def hard_items(
        self,
        annotations: Annotations,
        base: Hierarchy,
        *,
        spread: float = constants.SPREAD,
        equal_from: HardItems | None = None,
        at_most: int | None = None,
    ) -> HardItems:
        """Fit items that are easier or harder than others; ``equal_from`` is a fit to continue with equal classes."""
        start = base.means
        if equal_from is not None:
            K = annotations.n_classes
            start = Parameters(np.full(K, 1.0 / K), equal_from.usual.confusions)
        return fit_hard_items(
            annotations,
            start,
            spread=spread,
            pseudo=base.pseudo,
            learn_prior=equal_from is None,
            weights=self.weights if self.groups else None,
            **self._rough | ({} if at_most is None else {"max_iter": min(at_most, self._rough["max_iter"])}),
        )

    def correlation(self, parameters: Parameters) -> float:
        """Return the correlation of errors, with one member of every group of copies."""
        annotations, kept = self.annotations, np.ones(self.annotations.n_annotators, bool)
        for group in self.groups:
            kept[group.members[1:]] = False
        if self.groups:
            annotations = annotations.select_annotators(kept)
            parameters = Parameters(parameters.prior, parameters.confusions[kept])
        return error_correlation(annotations, parameters)

    def _hierarchy(self, annotations: Annotations, **more: Any) -> Hierarchy:
        shared = self.weights if self.groups else None
        return Hierarchy(annotations, weights=shared, **more)


class Comparison(NamedTuple):
    """The evidence for the models."""

    models: Mapping[str, Hierarchy]  #: confusions, and the coin unless there is one class only
    evidence: Mapping[str, float]  #: the lower bounds of both
    even: bool  #: whether classes look equally frequent
    gain: float = 0.0  #: of subtypes, in nats
    fixed: Subtypes | None = None  #: the model with the fixed prior, fitted to the sample
    subtypes: Subtypes | None = None  #: the same with two kinds of items in a class


def compare_models(crowd: Crowd) -> Comparison:
    """Fit confusions and the coin to all labels, and subtypes to a sample where they may help."""
    a = crowd.annotations
    confusions = crowd.confusions()
    if a.n_classes == 1:
        return Comparison({"confusions": confusions}, {"confusions": confusions.bound}, even=False)
    if a.gold is not None:  # an ascent from the votes may not reach the model of the known answers
        by_gold = crowd.confusions(start=_by_gold(a))
        confusions = by_gold if by_gold.bound > confusions.bound + constants.MARGIN else confusions
    even = _look_even(a, confusions.posterior())
    models = {"confusions": confusions, "coin": crowd.coin("uniform" if even else "learned")}
    seen = Comparison(models, {kind: model.bound for kind, model in models.items()}, even)
    if seen.evidence["confusions"] <= seen.evidence["coin"] or crowd.groups or not _may_show_subtypes(crowd.sample):
        return seen
    fixed = crowd.subtypes(1)
    subtypes = crowd.subtypes(2, enough=fixed.bound - constants.EMPTY_COST * a.n_classes)
    gain = subtypes.bound - fixed.bound
    if gain > constants.MARGIN and (crowd.misled or crowd.correlation(confusions.means) < CLEAR):
        # the fixed prior does not suit adversaries, and subtypes may only make up for that
        learned = confusions if crowd.sample is a else crowd.of_sample()
        gain = gain if subtypes.bound > learned.bound - constants.MARGIN else 0.0
    return seen._replace(gain=gain, fixed=fixed, subtypes=subtypes)


class Chosen(NamedTuple):
    """The models that decide."""

    models: Mapping[str, Candidate]  #: to be averaged, or one alone
    shown: Confusions  #: the one whose confusions are reported
    hardness: float = 0.0  #: gain of hard items, in nats


def choose_models(crowd: Crowd, seen: Comparison) -> Chosen:
    """Choose the models to average, or the one that decides."""
    if "coin" not in seen.models:
        return Chosen(seen.models, seen.models["confusions"])
    confusions, coin = seen.models["confusions"], seen.models["coin"]
    if seen.evidence["coin"] > seen.evidence["confusions"] + constants.MARGIN:
        return Chosen({"coin": coin.climb(**crowd.options)}, coin)
    hardness = crowd.hardness(confusions)
    if seen.gain > max(constants.MARGIN, hardness) and seen.subtypes is not None:
        subtypes = crowd.subtypes(2, all_labels=True, start=seen.subtypes.tables)
        alone: dict[str, Confusions] = {"confusions": confusions, "coin": coin.climb(**crowd.options)}
        return Chosen({**alone, "subtypes": subtypes}, confusions, hardness)
    if crowd.misled:  # known answers contradict the votes, and so the models that start from them
        return Chosen({"confusions": confusions}, confusions, hardness)
    first, equal = _hard_or_not(crowd, confusions, hardness)
    others: dict[str, Candidate] = {"equal classes": equal} if equal is not None else {}
    if not crowd.groups and crowd.rich:  # it does not know of copies
        fixed = (seen.fixed if crowd.sample is crowd.annotations else None) or crowd.subtypes(1, all_labels=True)
        if fixed.bound > confusions.bound - constants.FAR:
            others["fixed prior"] = fixed
    if others:  # with two models alone, nothing would show which one errs
        others["coin"] = coin
    models: dict[str, Candidate] = {"hard items" if isinstance(first, HardItems) else "confusions": first}
    return Chosen(models | others, equal if seen.even and equal is not None else first, hardness)


def _hard_or_not(crowd: Crowd, confusions: Hierarchy, hardness: float) -> tuple[Confusions, Confusions | None]:
    """Return confusions, and the same with equal classes unless F rules that out.

    Both allow for hard items if these gain enough.
    """
    if not hardness > constants.HARD_GAIN:  # also true for NaN, without a pass
        equal = crowd.confusions(prior="uniform", start=confusions.posterior())
        return confusions, equal if equal.bound > confusions.bound - constants.FAR else None
    hard = crowd.hard_items(crowd.annotations, confusions)
    same = crowd.hard_items(crowd.annotations, confusions, equal_from=hard, at_most=constants.GLANCE)
    if same.objective > hard.objective - 3 * constants.FAR:  # else it stays out of reach
        same = crowd.hard_items(crowd.annotations, confusions, equal_from=same)
    return hard, same if same.objective > hard.objective - constants.FAR else None


def _votes_mislead(annotations: Annotations) -> bool:
    """Whether the votes are wrong on more than half of the items with known truth."""
    if annotations.gold is None:
        return False
    known = np.flatnonzero((annotations.gold >= 0) & (annotations.labels_per_item > 0))
    asked = annotations.select_items(known)
    votes = vote_counts(asked.indptr, asked.label, asked.n_classes)
    right = votes[np.arange(known.size), annotations.gold[known]] == votes.max(axis=1, initial=0.0)
    return bool(2 * np.count_nonzero(right) < known.size)


def _by_gold(annotations: Annotations) -> Floats:
    """Return the posterior (N, K) under confusions learned from items of known truth only.

    One label is spread over every column, so that an annotator who saw few of them is near-uniform.
    """
    assert annotations.gold is not None
    known = annotations.select_items(np.flatnonzero(annotations.gold >= 0))
    truth = vote_posterior(known)  # items at their gold
    statistics = vote_statistics(known.indptr, known.annotator, known.label, truth, known.n_annotators)
    prior, confusions = ConfusionStep(1.0 / annotations.n_classes, learn_prior=False)(statistics)
    return DawidSkene(prior, confusions, annotations.class_ids, annotations.annotator_ids).posterior(annotations)


def _look_even(annotations: Annotations, posterior: Floats) -> bool:
    """Whether the expected numbers of items n_k are more probable with equal classes than under a flat Dirichlet.

    log ∏ (1/K)^n_k  >  log of its mean over a flat Dirichlet,  log Γ(K) + Σ log Γ(n_k + 1) - log Γ(N + K).
    """
    from scipy.special import gammaln

    labelled = annotations.labels_per_item > 0
    n = (posterior if labelled.all() else posterior[labelled]).sum(axis=0)
    K, N = n.size, n.sum()
    return bool(-N * np.log(K) > gammaln(K) + gammaln(n + 1.0).sum() - gammaln(N + K))


def _may_show_subtypes(annotations: Annotations) -> bool:
    """Whether most labels come from annotators with enough of them to show two kinds of items."""
    n = annotations.labels_per_annotator
    return bool(n[n >= constants.SUBTYPE_LABELS * annotations.n_classes].sum() >= 0.5 * n.sum())
