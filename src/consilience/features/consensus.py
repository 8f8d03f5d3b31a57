"""The consensus of labels, features and probabilities: classifiers as one more factor of the pool of ``auto``.

With L the pool of votes and annotators (:mod:`consilience.auto.pool`, without its doubt) and g the opinion of the
classifiers (:mod:`consilience.features.source`), annotators and classifiers having been fitted together
(:mod:`consilience.features.joint`),

    p(k)  ∝  (L(k) · g(k))^(1 / (1 + ρ)),        then  (1 - ε²) p + ε² / K.

Two opinions whose errors have correlation ρ are worth 2 / (1 + ρ) independent ones, as labels are in the pool, and with
the same ρ: annotators and classifiers find the same items hard.  The doubt ε of the labels, the share of items of which
they say nothing, is squared: two sources have to fail.

The classifiers count only if they clearly help to predict labels of left-out items
(:mod:`consilience.features.held_out`).  That test fails where annotators err together or are labelling functions: there
a classifier learns their errors from the features and repeats them.  So classifiers do not count there, unless known
answers show that they should.

With known answers, the exponents are the coefficients of a logistic regression, with an offset for every class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from consilience.auto import constants as auto_constants
from consilience.auto.expected_error import LATER
from consilience.auto.fallback import why_not
from consilience.auto.known_answers import Regression, regression
from consilience.auto.pool import Pool, held
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.diagnose.constants import ERR_TOGETHER, LEAST_KNOWN
from consilience.diagnose.left_out import known_items
from consilience.engine.progress import Callback
from consilience.features import constants
from consilience.features.cross_fitting import check_classifier, draw_folds
from consilience.features.held_out import Gain, fold_likelihoods, held_out_gain, labels_alone
from consilience.features.inputs import feature_rows, probability_rows
from consilience.features.joint import Joint, fit_joint
from consilience.features.members import FeatureMembers
from consilience.features.source import Source
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.base.running import run_method
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.consensus import Consensus
from consilience.validation import numpy_seed

__all__ = ["Members", "aggregate_with_classifiers", "gathered"]

#: The exponent of two correlated opinions.
_SHARE = 1.0 / (1.0 + auto_constants.CORRELATION)

_ERR_TOGETHER = (
    "the annotators are labelling functions or err together, and a classifier would learn their errors. Known answers "
    "would show whether it helps"
)


def aggregate_with_classifiers(
    annotations: Annotations,
    *,
    probabilities: Any = None,
    features: Any = None,
    classifier: Any = None,
    gold: Any = None,
    seed: int | None = 0,
    callback: Callback | None = None,
    **parameters: Any,
) -> Consensus:
    """Aggregate labels together with a classifier's probabilities, with features, or with both.

    Parameters
    ----------
    annotations
        The labels.
    probabilities
        Class probabilities by a classifier that has not seen the labels of the item; see
        :func:`~consilience.features.inputs.probability_rows`.
    features
        What is known of the items; see :func:`~consilience.features.inputs.feature_rows`.
    classifier
        A scikit-learn classifier for the features.  By default logistic regression, and the nearest neighbours.
    gold, seed, callback, **parameters
        As for :func:`consilience.aggregate` with the method ``auto``.
    """
    a, members_of, fitted = gathered(annotations, probabilities, features, classifier)
    if gold is not None:
        a = a.with_gold(gold)
    revise = _Revision(members_of, fitted, numpy_seed(seed), callback)
    return run_method(a, "auto", later=LATER, revise=revise, seed=seed, callback=callback, **parameters)


def gathered(
    annotations: Annotations, probabilities: Any, features: Any, classifier: Any
) -> tuple[Annotations, Callable[[Annotations, Ints], Members], bool]:
    """Return the labels with all items, how their classifiers are made, and whether some are to be fitted.

    Classifiers are made for labels of the same items, with the same classes or some of them, and folds of the items.
    """
    a, rows, given = annotations, None, None
    if classifier is not None:
        check_classifier(classifier)
    if probabilities is not None:
        a, given = probability_rows(probabilities, a)
    if features is not None:
        a, rows = feature_rows(features, a)
        if given is not None and len(given) < a.n_items:  # features of items that have no probabilities
            given = np.concatenate([given, np.full((a.n_items - len(given), a.n_classes), 1.0 / a.n_classes)])
    return a, partial(Members, a.class_ids, given, rows, classifier), rows is not None


class Members:
    """The classifiers of a run: given probabilities, and those that are fitted to features."""

    def __init__(
        self, classes: Ids, given: Floats | None, rows: Any, classifier: Any, annotations: Annotations, folds: Ints
    ) -> None:
        self.given, self.fitted = None, None
        self.names: list[str] = []
        if given is not None:
            here = classes.codes_of(annotations.class_ids.to_arrow())
            some = given[:, here] + constants.LEAST_PROBABILITY
            self.given = some / some.sum(axis=1, keepdims=True)
            self.names.append("probabilities")
        if rows is not None:
            self.fitted = FeatureMembers(rows, classifier, folds, annotations.labels_per_item > 0)
            self.names += self.fitted.names

    def __call__(self, posterior: Floats) -> Floats:
        """Return the out-of-fold probabilities of every classifier, (S, N, K)."""
        made = [] if self.given is None else [self.given[None]]
        made += [] if self.fitted is None else [self.fitted(posterior)]
        return np.concatenate(made)


@dataclass(frozen=True)
class _Revision:
    """Revises the fit of ``auto`` by classifiers."""

    members_of: Callable[[Annotations, Ints], Members]
    fitted: bool  #: whether classifiers are fitted to features
    seed: Any
    callback: Callback | None

    def __call__(self, annotations: Annotations, fit: Fit) -> Fit:
        """Return the fit with classifiers, or the same with the reason why they do not count."""
        a, used = annotations, annotations.used_classes
        if used.sum() < 2:
            return _reported(fit, used=False, why="there is only one class")
        here = np.flatnonzero(used)
        if not used.all():  # a class that nobody used has no items
            inner = a.recode(a.annotator_ids, a.class_ids.take(here))
            rows = (np.arange(a.n_annotators), here, here)
            model = DawidSkene(
                fit.model.prior[here], fit.model.confusions[np.ix_(*rows)], inner.class_ids, a.annotator_ids
            )
            narrow = replace(fit, model=model, posterior=fit.posterior[:, here], hint=None)
            return self._revised(inner, narrow).among(a.class_ids, used)
        return self._revised(a, fit)

    def _revised(self, a: Annotations, fit: Fit) -> Fit:
        kind = _kind(fit)
        if kind != "assigned" and known_items(a).size < LEAST_KNOWN:
            return _reported(fit, used=False, why=_ERR_TOGETHER)
        folds = draw_folds(a.item_ids, min(constants.FOLDS, a.n_items), self.seed)
        members = self.members_of(a, folds)
        pool = fit.predictor if isinstance(fit.predictor, Pool) else Pool(fit.model.posterior, a.annotator_ids)
        if kind != "assigned":
            return _taught_alone(a, fit, pool, members(fit.posterior))
        rounds = constants.ROUNDS if self.fitted else 1
        joint = fit_joint(a, members, fit.posterior, weights=pool.counted, rounds=rounds, callback=self.callback)
        alone = labels_alone(a, fit.posterior, constants.PASSES)
        gain = held_out_gain(a, folds, joint, alone)
        return _combined(a, fit, pool, joint, gain, folds, members.names)


def _combined(a: Annotations, fit: Fit, pool: Pool, joint: Joint, gain: Gain, folds: Ints, names: list[str]) -> Fit:
    """Return the fit that the classifiers have a share in, or the same fit where they have none."""
    if why_not(a) or fit.details.get("chosen") == "labels":  # the labels alone say nothing of the annotators
        pool = Pool(joint.model.posterior, a.annotator_ids)
    doubt, pool = pool.doubt, replace(pool, model=_Weighted(joint.model, pool.counted), doubt=0.0)
    report: dict[str, Any] = {
        "weights": dict(zip(names, joint.source.weights.tolist(), strict=True)),
        "gain": gain.nats,
        "gain_error": gain.error,
        "hits": gain.hits,
        "hits_without": gain.hits_without,
    }
    if not gain.clear:
        return _reported(fit, used=False, why="held-out labels are not clearly predicted better with it", **report)
    known, why = known_items(a), "held-out labels are predicted better with it"
    lessons = Regression(np.array([_SHARE, _SHARE]), np.zeros(a.n_classes))
    if known.size >= LEAST_KNOWN:
        pool = _untaught(pool)  # the annotators have learned from the known answers, beside the classifiers
        blind, labels = a.with_gold(None), np.empty_like(joint.opinion)
        for items, model, _ in fold_likelihoods(blind, joint.posterior, folds):
            labels[items] = replace(pool, model=_Weighted(model, pool.counted))(blind.select_items(items))[0]
        lessons = _learned(a, labels, joint.opinion, known, doubt**2, (_SHARE, _SHARE))
        why = "known answers show how far to trust it"
    posterior = lessons.probabilities(_logs(pool(a)[0], joint.opinion), a, doubt**2)
    silent = a.labels_per_item == 0  # nothing to combine
    posterior[silent] = joint.opinion[silent]
    posterior = held(a, posterior)
    model = DawidSkene(posterior.mean(axis=0), joint.model.confusions, a.class_ids, a.annotator_ids)
    report["shares"] = _shares(lessons)
    return _reported(
        replace(fit, model=model, posterior=posterior, history=joint.history), used=True, why=why, **report
    )


def _taught_alone(a: Annotations, fit: Fit, pool: Pool, members: Floats) -> Fit:
    """Return the fit of annotators who err together, with a share of the classifiers that known answers decide.

    The classifiers are fitted to the consensus of the labels once: refitted to their own opinion, they would confirm
    the common errors.  The labels have learned from the known answers already, so the classifiers get rather too small
    a share than too large a one.
    """
    doubt = pool.doubt**2
    opinion = _relative(Source.at_its_word(len(members), a.n_classes)(members))
    labels = replace(pool, doubt=0.0)(a.with_gold(None))[0]
    lessons = _learned(a, labels, opinion, known_items(a), doubt, (1.0, 0.0))
    report = {"shares": _shares(lessons)}
    if report["shares"]["classifiers"] == 0:
        return _reported(fit, used=False, why="known answers are not predicted better with it", **report)
    posterior = held(a, lessons.probabilities(_logs(labels, opinion), a, doubt))
    why = "known answers show how far to trust it"
    return _reported(replace(fit, posterior=posterior), used=True, why=why, **report)


def _untaught(pool: Pool) -> Pool:
    """Return the pool without what it learned from the known answers, which predict themselves in it."""
    return replace(pool, weights=None, shares=(1.0, 1.0), offsets=None)


def _learned(
    a: Annotations, labels: Floats, opinion: Floats, known: Ints, doubt: float, centre: tuple[float, float]
) -> Regression:
    """Return how known answers combine labels and classifiers."""
    assert a.gold is not None
    least = auto_constants.LEAST_SHARE, 0.0
    return regression(_logs(labels[known], opinion[known]), a.gold[known], doubt, centre=centre, least=least)


def _shares(lessons: Regression) -> dict[str, float]:
    return dict(zip(("labels", "classifiers"), lessons.shares.tolist(), strict=True))


def _relative(opinion: Floats) -> Floats:
    """Return probabilities relative to the mean share of every class, which the labels have already counted."""
    made: Floats = opinion / np.maximum(opinion.mean(axis=0), 1e-12)
    made /= made.sum(axis=1, keepdims=True)
    return made


def _kind(fit: Fit) -> str:
    """Return the kind of annotators, as for the doubt of the pool."""
    if fit.details.get("silence") == "informative":
        return "by choice"
    return "together" if fit.details.get("gain_of_subtypes", 0.0) > ERR_TOGETHER else "assigned"


@dataclass(frozen=True)
class _Weighted:
    """The posterior of a model whose annotators count by weights."""

    model: DawidSkene
    weights: Floats | None

    def __call__(self, annotations: Annotations) -> Floats:
        return self.model.posterior(annotations, self.weights)


def _logs(labels: Floats, opinion: Floats) -> Floats:
    """Return the features of the regression, (2, N, K)."""
    made: Floats = np.log(np.maximum(np.stack([labels, opinion]), 1e-12))
    return made


def _reported(fit: Fit, *, used: bool, why: str, **report: Any) -> Fit:
    """Return the fit with a report of the classifiers among its details."""
    details = {**fit.details, "classifier": {"used": used, "why": why, **report}}
    if used:
        details |= {"chosen": f"{fit.details.get('chosen', 'labels')}+classifier", "neighbours": True}
    return replace(fit, details=details)
