"""The default: models of different richness, chosen or averaged by how well the labels themselves speak for each.

No model is best for all crowds.  Few labels want few parameters, a crowd with habits wants a confusion matrix for
everybody, and where people err together the classes need room for hard items.  The lower bound F of
:mod:`consilience.fitting.variational` says, without any truth, how probable the labels are under a family of models
as a whole, parameters integrated out; it compares

====================  ==========================================================================
coin                  one probability of being right for every annotator
confusions            a confusion matrix for everybody, drawn from the crowd's
hard items            the same on items of usual ease, and items that are easier or harder
subtypes              two kinds of items in a class, fixed prior
====================  ==========================================================================

* Where the coin is ahead by a wide margin, it decides alone.
* Where subtypes raise F by a wide margin, and by more than hard items do, annotators err together: subtypes,
  confusions, coin and votes are averaged.  Subtypes are held beside the same model without them, both with the fixed
  prior that annotators are right more often than not (with a learned one, a second kind of items may become a class of
  its own), and must not owe their lead to it.
* Else up to four models are averaged: confusions, the same with equal classes and the same drawn from the fixed prior
  instead of the crowd's, if F does not rule these out, and the coin.  Nearer by, F is no guide: no real crowd is drawn
  from any of them.  What they have in common survives, and who stands alone counts little
  (:mod:`consilience.auto.ensemble`).  Where it makes the labels more probable, the first two allow for items
  that are easier or harder than others (:mod:`consilience.methods.hard_items`).

Before, annotators who answer as one (:mod:`consilience.moments.copies`) are given one vote together; after, confidence
is brought down to what the measured correlation of errors allows (:mod:`consilience.auto.calibration`).

Copies, subtypes and hard items are looked for in a sample of the items where there are many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from consilience.auto import constants
from consilience.auto.calibration import soften
from consilience.auto.ensemble import Ensemble, mean_opinion, votes_of
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import CHANCE, CLEAR
from consilience.diagnose.error_correlation import error_correlation
from consilience.exceptions import DataWarning
from consilience.fitting.em import Callback, ConfusionStep, Parameters
from consilience.fitting.fit import Caution, Fit, unconverged, vote_posterior
from consilience.kernels._arrays import Floats
from consilience.kernels.votes import vote_counts, vote_statistics
from consilience.methods.base.estimator import SeededEstimator
from consilience.methods.base.method import Method
from consilience.methods.ebcc import Subtypes, fit_subtypes
from consilience.methods.hard_items import HardItems, HardItemsModel, fit_hard_items
from consilience.methods.hierarchical import Hierarchy
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.copies import Copies, find_copies

__all__ = ["METHOD", "Auto", "auto"]

_WORDS = {"confusions": "a confusion matrix for everybody", "coin": "one accuracy for everybody"}


class Auto(SeededEstimator):
    """The model that the labels themselves ask for, chosen by evidence, with confidence that allows for common errors.

    Parameters
    ----------
    max_iter, tol
        Passes over the data for one model, and the relative change of its lower bound that ends them.
    random_state
        Decides everything that is random.
    callback
        Told of every pass; ends the fit of one model by returning True.

    Examples
    --------
    >>> from consilience import Auto, simulate
    >>> crowd = simulate(500, 12, 3, experts=0.3, seed=1)
    >>> model = Auto(random_state=0).fit(crowd.annotations)
    >>> float((model.labels_ == crowd.truth).mean()) > 0.9
    True
    """

    _method = "auto"

    max_iter: int = 1000
    tol: float = 1e-05

    def _keep(self, X: Any, annotations: Annotations, fit: Fit) -> None:
        super()._keep(X, annotations, fit)
        self._predictor = fit.predictor

    def _posterior(self, X: Any) -> tuple[Annotations, Floats, Floats | None]:
        # models are averaged and copies share one vote on new items too, and confidence allows for common errors
        annotations = self._new_items(X)
        assert self._predictor is not None
        return annotations, *self._predictor(annotations)


def auto(
    annotations: Annotations,
    *,
    max_iter: int = 1000,
    tol: float = 1e-5,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Average models that the labels do not tell apart, or take the one they do; give honest probabilities.

    Parameters
    ----------
    annotations
        The labels.  Gold items are held at their gold.
    max_iter, tol
        Passes over the data for one model, and the relative change of its lower bound that ends them.
    random_state
        Decides the starts of the subtypes.
    callback
        Told of every pass; ends the fit of one model by returning True.
    """
    a = annotations
    if a.gold is None and a.n_classes > 1 and int(a.labels_per_item.max(initial=0)) < 2:
        return _unchecked(a)
    crowd = _Crowd(a, {"max_iter": max_iter, "tol": tol, "callback": callback}, random_state)
    seen = _compare(crowd)
    members, main, hardness = _members(crowd, seen)
    correlation = crowd.correlation(seen.models["confusions"].means)
    # hard items are hard for all: even where few pairs of labels show it, errors go together
    together = max(correlation, CLEAR) if hardness > constants.HARD_GAIN else correlation
    model = DawidSkene(*main.means, a.class_ids, a.annotator_ids)
    if "subtypes" in members:
        votes, n_labels = votes_of(a, crowd.weights)
        opinions = {kind: _opinion(member, a) for kind, member in members.items()} | {"votes": votes}
        mean, by_weight = mean_opinion(list(opinions.values()))
        shares = dict(zip(opinions, by_weight.tolist(), strict=True))
        posterior = soften(a, mean, mean, votes, n_labels, together)
        predictor = Ensemble((model,), np.ones(1), crowd.weights, together)
    else:
        found = [_model_of(member, a) for member in members.values()]
        predictor = Ensemble.of(found, crowd.sample, crowd.weights, together)
        shares = dict(zip(members, predictor.weights.tolist(), strict=True))
        posterior, votes = predictor(a)
    converged = all(member.converged for member in members.values())
    passes = max(len(member.history) for member in members.values())
    return Fit(
        model,
        posterior,
        model.log_likelihood(a),
        converged,
        main.history,
        hint=votes,
        predictor=predictor,
        cautions=(
            *_cautions(a, crowd.groups),
            *unconverged(converged, "variational Bayes", f"{passes} passes for one of its models", tol),
        ),
        details=_story(a, shares, seen, hardness, crowd.groups, correlation),
    )


METHOD = Method("auto", auto, "Auto", "the model that the labels themselves ask for")


class _Crowd:
    """The labels, a sample of them, who copies whom, and the models that can be fitted to them."""

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
        """Fit a confusion matrix for everybody."""
        return self._hierarchy(self.annotations, **more).climb(**self.options)

    def coin(self, prior: str) -> Hierarchy:
        """Fit one accuracy for everybody, as well as is needed to compare it."""
        return self._hierarchy(self.annotations, coin=True, prior=prior).climb(**self._rough)

    def of_sample(self) -> Hierarchy:
        """Fit a confusion matrix for everybody to the sample."""
        return self._hierarchy(self.sample).climb(**self.options)

    def subtypes(
        self, n: int, *, all_labels: bool = False, start: Parameters | None = None, enough: float = np.inf
    ) -> Subtypes:
        """Fit n kinds of items in a class with the fixed prior; with one, this is Dawid and Skene's model.

        To a sample of the labels, or to all; from random starts, until one is good ``enough``, or from a given one.
        """
        annotations = self.annotations if all_labels else self.sample
        wrong = constants.WRONG / max(annotations.n_classes - 1, 1)
        options = dict(self.options)
        if start is not None:  # to the end: two kinds of items come apart late
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
        """Give what hard items add to the log-probability of a sample of the labels, in nats."""
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
        """Fit items that are easier or harder than others; with equal classes from where it ended before."""
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
        """Give the correlation of errors, one member standing for every group of copies."""
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


class _Compared(NamedTuple):
    """What the labels say of the models."""

    models: Mapping[str, Hierarchy]  #: confusions, and the coin unless there is one class only
    evidence: Mapping[str, float]  #: the lower bounds of both
    even: bool  #: classes look equally frequent
    gain: float = 0.0  #: of subtypes, in nats
    fixed: Subtypes | None = None  #: the model with the fixed prior, fitted to the sample
    subtypes: Subtypes | None = None  #: the same with two kinds of items in a class


def _compare(crowd: _Crowd) -> _Compared:
    """Fit confusions and the coin to all labels, and subtypes to a sample where they may be of use."""
    a = crowd.annotations
    confusions = crowd.confusions()
    if a.n_classes == 1:
        return _Compared({"confusions": confusions}, {"confusions": confusions.bound}, even=False)
    if a.gold is not None:  # from the votes, steps may not lead to where known answers point
        by_gold = crowd.confusions(start=_by_gold(a))
        confusions = by_gold if by_gold.bound > confusions.bound + constants.MARGIN else confusions
    even = _look_even(a, confusions.posterior())
    models = {"confusions": confusions, "coin": crowd.coin("uniform" if even else "learned")}
    seen = _Compared(models, {kind: model.bound for kind, model in models.items()}, even)
    if seen.evidence["confusions"] <= seen.evidence["coin"] or crowd.groups or not _tells_of_subtypes(crowd.sample):
        return seen
    fixed = crowd.subtypes(1)
    subtypes = crowd.subtypes(2, enough=fixed.bound - constants.EMPTY_COST * a.n_classes)
    gain = subtypes.bound - fixed.bound
    if gain > constants.MARGIN and (crowd.misled or crowd.correlation(confusions.means) < CLEAR):
        # adversaries: the fixed prior does not suit them, and subtypes only mend that
        learned = confusions if crowd.sample is a else crowd.of_sample()
        gain = gain if subtypes.bound > learned.bound - constants.MARGIN else 0.0
    return seen._replace(gain=gain, fixed=fixed, subtypes=subtypes)


#: A confusion matrix for everybody, of all items or of items of usual ease.
_Confusions = Hierarchy | HardItems


class _Members(NamedTuple):
    """Who decides."""

    models: Mapping[str, _Confusions | Subtypes]  #: to be averaged, or one alone
    shown: _Confusions  #: the one whose confusions are shown
    hardness: float = 0.0  #: by how much hard items make the labels more probable, in nats


def _members(crowd: _Crowd, seen: _Compared) -> _Members:
    """Choose the models to average, or the one that decides."""
    if "coin" not in seen.models:
        return _Members(seen.models, seen.models["confusions"])
    confusions, coin = seen.models["confusions"], seen.models["coin"]
    if seen.evidence["coin"] > seen.evidence["confusions"] + constants.MARGIN:
        return _Members({"coin": coin.climb(**crowd.options)}, coin)
    hardness = crowd.hardness(confusions)
    if seen.gain > max(constants.MARGIN, hardness) and seen.subtypes is not None:
        subtypes = crowd.subtypes(2, all_labels=True, start=seen.subtypes.tables)
        alone: dict[str, _Confusions] = {"confusions": confusions, "coin": coin.climb(**crowd.options)}
        return _Members({**alone, "subtypes": subtypes}, confusions, hardness)
    if crowd.misled:  # known answers speak against votes, and so against whoever starts from them
        return _Members({"confusions": confusions}, confusions, hardness)
    first, equal = _hard_or_not(crowd, confusions, hardness)
    others: dict[str, _Confusions | Subtypes] = {"equal classes": equal} if equal is not None else {}
    # it would not know of copies; and for very few annotators loading numba would take longer than all the rest
    if not crowd.groups and crowd.rich:
        fixed = (seen.fixed if crowd.sample is crowd.annotations else None) or crowd.subtypes(1, all_labels=True)
        if fixed.bound > confusions.bound - constants.FAR:
            others["fixed prior"] = fixed
    if others:  # of two opinions alone, nothing would tell which is to be trusted
        others["coin"] = coin
    models: dict[str, _Confusions | Subtypes] = {"hard items" if isinstance(first, HardItems) else "confusions": first}
    return _Members(models | others, equal if seen.even and equal is not None else first, hardness)


def _hard_or_not(crowd: _Crowd, confusions: Hierarchy, hardness: float) -> tuple[_Confusions, _Confusions | None]:
    """Give confusions, and the same with equal classes unless that is out of the question.

    Both allow for hard items if these are seen.
    """
    if not hardness > constants.HARD_GAIN:  # nor where it is unknown, without a pass
        equal = crowd.confusions(prior="uniform", start=confusions.posterior())
        return confusions, equal if equal.bound > confusions.bound - constants.FAR else None
    hard = crowd.hard_items(crowd.annotations, confusions)
    same = crowd.hard_items(crowd.annotations, confusions, equal_from=hard, at_most=constants.GLANCE)
    if same.objective > hard.objective - 3 * constants.FAR:  # else it will not come near
        same = crowd.hard_items(crowd.annotations, confusions, equal_from=same)
    return hard, same if same.objective > hard.objective - constants.FAR else None


def _model_of(member: _Confusions | Subtypes, annotations: Annotations) -> DawidSkene | HardItemsModel:
    names = annotations.class_ids, annotations.annotator_ids
    if isinstance(member, HardItems):
        return HardItemsModel(DawidSkene(*member.usual, *names), member.spread)
    return DawidSkene(*member.means, *names)


def _opinion(member: _Confusions | Subtypes, annotations: Annotations) -> Floats:
    if isinstance(member, Subtypes):
        return member.fit(annotations).posterior
    return _model_of(member, annotations).posterior(annotations)


def _unchecked(annotations: Annotations) -> Fit:
    """Take every label to be right four times in five: where no item has two, nothing shows more."""
    K, right = annotations.n_classes, constants.RIGHT / (constants.RIGHT + constants.WRONG)
    confusion = np.where(np.eye(K, dtype=bool), right, (1.0 - right) / (K - 1))
    confusions = np.tile(confusion, (annotations.n_annotators, 1, 1))
    model = DawidSkene(np.full(K, 1.0 / K), confusions, annotations.class_ids, annotations.annotator_ids)
    posterior, log_likelihood = model.posterior_and_likelihood(annotations)
    story = {
        "chosen": "labels",
        "why": f"no item has two labels, so nothing shows who is right: every label is taken at {right:.0%}",
        "evidence": {},
        "weights": {"labels": 1.0},
        "prior": "uniform",
        "gain_of_subtypes": 0.0,
        "gain_of_hard_items": 0.0,
        "copies": [],
        "error_correlation": 0.0,
    }
    predictor = Ensemble((model,), np.ones(1), np.ones(annotations.n_annotators), 0.0)
    return Fit(model, posterior, log_likelihood, predictor=predictor, details=story)


def _votes_mislead(annotations: Annotations) -> bool:
    """Tell whether the votes are wrong about more than half of the items whose truth is known."""
    if annotations.gold is None:
        return False
    known = np.flatnonzero((annotations.gold >= 0) & (annotations.labels_per_item > 0))
    asked = annotations.select_items(known)
    votes = vote_counts(asked.indptr, asked.label, asked.n_classes)
    right = votes[np.arange(known.size), annotations.gold[known]] == votes.max(axis=1, initial=0.0)
    return bool(2 * np.count_nonzero(right) < known.size)


def _by_gold(annotations: Annotations) -> Floats:
    """Give the posterior (N, K) under confusions that were learned from items of known truth alone.

    One label more in all is spread over every column, so that whoever met few of them is taken to say anything.
    """
    assert annotations.gold is not None
    known = annotations.select_items(np.flatnonzero(annotations.gold >= 0))
    truth = vote_posterior(known)  # items at their gold
    statistics = vote_statistics(known.indptr, known.annotator, known.label, truth, known.n_annotators)
    prior, confusions = ConfusionStep(1.0 / annotations.n_classes, learn_prior=False)(statistics)
    return DawidSkene(prior, confusions, annotations.class_ids, annotations.annotator_ids).posterior(annotations)


def _look_even(annotations: Annotations, posterior: Floats) -> bool:
    """Tell whether the expected numbers of items n_k are more probable with equal classes than with any prior.

    log ∏ (1/K)^n_k  >  log of its mean over a flat Dirichlet,  log Γ(K) + Σ log Γ(n_k + 1) - log Γ(N + K).
    """
    from scipy.special import gammaln

    labelled = annotations.labels_per_item > 0
    n = (posterior if labelled.all() else posterior[labelled]).sum(axis=0)
    K, N = n.size, n.sum()
    return bool(-N * np.log(K) > gammaln(K) + gammaln(n + 1.0).sum() - gammaln(N + K))


def _tells_of_subtypes(annotations: Annotations) -> bool:
    """Tell whether most labels are of annotators with enough of them to show two kinds of items."""
    n = annotations.labels_per_annotator
    return bool(n[n >= constants.SUBTYPE_LABELS * annotations.n_classes].sum() >= 0.5 * n.sum())


def _story(
    annotations: Annotations,
    shares: Mapping[str, float],
    seen: _Compared,
    hardness: float,
    groups: Sequence[Copies],
    correlation: float,
) -> dict[str, Any]:
    """Tell what was chosen and why, in numbers and in words."""
    evidence, gain, even = seen.evidence, seen.gain, seen.even
    names = annotations.annotator_ids
    copies = [[names[int(m)] for m in group.members] for group in groups]
    if "subtypes" in shares:
        why = (
            f"annotators err together: two kinds of items in a class explain the labels better by {gain:.0f} nats, so "
            f"{', '.join(kind for kind in shares if kind != 'votes')} and the votes are averaged"
        )
    elif len(evidence) > 1:
        better, other = sorted(evidence, key=lambda kind: -evidence[kind])
        lead = evidence[better] - evidence[other]
        why = f"{_WORDS[better]} explains the labels better than {_WORDS[other]}, by {lead:.0f} nats"
    else:
        why = "there is one class only"
    if "hard items" in shares:
        why += f"; some items are harder than others, which explains them better by {hardness:.0f} nats"
    if len(shares) > 1 and "subtypes" not in shares:
        counted = ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in shares.items())
        why += f"; {len(shares)} models are averaged ({counted})"
    elif even:
        why += "; classes are taken to be equally frequent"
    if copies:
        votes = "one vote" if len(copies) == 1 else f"{len(copies)} votes"
        why += f"; {sum(map(len, copies))} annotators who answer as one share {votes}"
    if correlation > CHANCE:
        why += f"; errors of different annotators correlate by {correlation:.2f}, and confidence allows for it"
    return {
        "chosen": "+".join(shares),
        "why": why,
        "evidence": dict(evidence),
        "weights": dict(shares),
        "prior": "uniform" if even else "learned",
        "gain_of_subtypes": gain,
        "gain_of_hard_items": hardness,
        "copies": copies,
        "error_correlation": correlation,
    }


def _cautions(annotations: Annotations, groups: Sequence[Copies]) -> tuple[Caution, ...]:
    cautions = []
    for group in groups:
        sentence = (
            f"annotators {_listed(list(annotations.annotators[group.members]))} answer as one: beyond chance they "
            f"agree with each other by {group.within:.2f}, but with the others by {group.observed:.2f} where "
            f"{group.expected:.2f} was to be expected. They are taken for copies and share one vote"
        )
        cautions.append((sentence, DataWarning))
    return tuple(cautions)


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(map(str, names[:6]))
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"
