"""The default: models of different richness, chosen by how well the labels themselves speak for each.

No model is best for all crowds.  Few labels want few parameters, a crowd with habits wants a confusion matrix for
everybody, and where people err together the classes need room for hard items.  The lower bound F of
:mod:`consilience.aggregation.variational` says, without any truth, how probable the labels are under a family of models
as a whole, parameters integrated out; it compares

====================  =================================================================
coin                  one probability of being right for every annotator
confusions            a confusion matrix for everybody, drawn from the crowd's
subtypes              the same with two kinds of items in a class, fixed prior
====================  =================================================================

and, where classes look equally frequent, the class prior held uniform with the learned one.  Subtypes are taken
where they raise F by a wide margin over the same model without them, both with the fixed prior that annotators are
right more often than not (with a learned one, a second kind of items may become a class of its own), and where
that prior itself costs little.  Before, annotators who answer as one (:mod:`consilience.moments.copies`) are
given one vote together; after, confidence is brought down to what the measured correlation of errors allows
(:mod:`consilience.aggregation.calibration`).

Copies and subtypes are looked for in a sample of the items where there are many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from consilience.aggregation.calibration import CHANCE, CLEAR, error_correlation, soften
from consilience.aggregation.ebcc import Subtypes, fit_subtypes
from consilience.aggregation.em import Callback, ConfusionStep, Parameters, Progress
from consilience.aggregation.fit import Caution, Fit, vote_posterior
from consilience.aggregation.hierarchical import Hierarchy
from consilience.annotations import Annotations
from consilience.dawid_skene import DawidSkene
from consilience.exceptions import DataWarning
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.votes import vote_counts, vote_statistics
from consilience.moments.copies import Copies, find_copies

__all__ = ["auto", "predict"]

#: Labels that are enough to find copies and subtypes.  (How rich a model the data bears shows in all of them only.)
_SAMPLE = 20_000
#: Relative change of the lower bound that ends a fit which is only compared.
_QUICK = 1e-5
#: Passes after which a coin that is so many nats behind is given up, or before where steps are too small to get there.
_GLANCE, _NEAR = 15, 100.0
#: Labels of an annotator, for each class, without which nothing can be said about subtypes.
_ENOUGH = 10
#: Subtypes, or a start from known answers, must raise the log-probability of the labels by so much: odds of e^20 to 1.
_MARGIN = 20.0
#: Random starts of the subtypes, and the pseudo-items that the subtypes of a class share.
_STARTS, _SHARED = 2, 0.2
#: The fixed prior: right four times in five, wrong answers spread over the others.
_RIGHT, _WRONG = 4.0, 1.0
_WORDS = {"confusions": "a confusion matrix for everybody", "coin": "one accuracy for everybody"}


def auto(
    annotations: Annotations,
    *,
    max_iter: int = 1000,
    tol: float = 1e-6,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Choose a model by its evidence, and give labels with honest probabilities.

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
    if annotations.gold is None and annotations.n_classes > 1 and int(annotations.labels_per_item.max(initial=0)) < 2:
        return _unchecked(annotations)
    options: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "callback": callback}
    quick = {**options, "tol": max(tol, _QUICK)}
    K = annotations.n_classes
    sample = _sample(annotations)
    groups = find_copies(sample)
    compiled = bool(np.count_nonzero(annotations.labels_per_annotator) >= 5)  # looking for copies has loaded numba
    weights = _weights(annotations.n_annotators, [group.members for group in groups])

    def hierarchy(kind: str, **more: Any) -> Hierarchy:
        shared = weights if groups else None
        return Hierarchy(annotations, coin=kind == "coin", weights=shared, compiled=compiled, **more)

    models = {"confusions": hierarchy("confusions").climb(**quick)}
    misled = _votes_mislead(annotations)
    if annotations.gold is not None and K > 1:  # from the votes, steps may not lead to where known answers point
        by_gold = hierarchy("confusions", start=_by_gold(annotations)).climb(**quick)
        if by_gold.bound > models["confusions"].bound + _MARGIN:
            models["confusions"] = by_gold
    gain, subtypes = 0.0, None
    if K > 1:
        models["coin"] = hierarchy("coin").climb(**_glance(quick, models["confusions"].bound - _NEAR))
        behind = models["confusions"].bound - models["coin"].bound
        if behind > 0 and not groups and _tells_of_subtypes(sample):
            subtypes = _subtypes(sample, 2, quick, random_state)
            gain = subtypes.bound - _subtypes(sample, 1, quick, random_state).bound
            if gain > _MARGIN and (misled or _correlation(annotations, models["confusions"].means, groups) < CLEAR):
                # adversaries: the fixed prior does not suit them, and subtypes only mend that
                learned = (
                    models["confusions"]
                    if sample is annotations
                    else Hierarchy(sample, compiled=compiled).climb(**quick)
                )
                gain = gain if subtypes.bound > learned.bound - _MARGIN else 0.0
        if behind < _NEAR or gain > _MARGIN:
            models["coin"].climb(**quick)
    evidence = {kind: model.bound for kind, model in models.items()}
    chosen = max(evidence, key=lambda kind: evidence[kind])
    posterior = models[chosen].posterior()
    even = K > 1 and _look_even(annotations, posterior)
    prior = "uniform" if even else "learned"
    models[chosen] = hierarchy(chosen, prior=prior, start=posterior).climb(**options)
    if gain > _MARGIN and subtypes is not None:
        fits = {kind: model.fit() for kind, model in models.items()}
        fits["subtypes"] = _subtypes(annotations, 2, options, random_state, subtypes.tables).fit(annotations)
    else:
        fits = {chosen: models[chosen].fit()}

    main, averaged = fits[chosen], len(fits) > 1
    correlation = _correlation(annotations, Parameters(main.model.prior, main.model.confusions), groups)
    votes, n_labels = _votes(annotations, weights)
    posterior = main.posterior
    if averaged:
        posterior = _average([votes, *(fit.posterior for fit in fits.values())])
    posterior = soften(annotations, posterior, votes, n_labels, correlation, tempered=averaged)
    return replace(
        main,
        posterior=posterior,
        converged=all(fit.converged for fit in fits.values()),
        hint=votes,
        cautions=(*_cautions(annotations, groups), *(c for fit in fits.values() for c in fit.cautions)),
        details=_story(annotations, tuple(fits), evidence, gain, even, groups, correlation),
    )


def _unchecked(annotations: Annotations) -> Fit:
    """Take every label to be right four times in five: where no item has two, nothing shows more."""
    K, right = annotations.n_classes, _RIGHT / (_RIGHT + _WRONG)
    confusion = np.where(np.eye(K, dtype=bool), right, (1.0 - right) / (K - 1))
    confusions = np.tile(confusion, (annotations.n_annotators, 1, 1))
    model = DawidSkene(np.full(K, 1.0 / K), confusions, annotations.class_ids, annotations.annotator_ids)
    posterior, log_likelihood = model.posterior_and_likelihood(annotations)
    story = {
        "chosen": "labels",
        "why": f"no item has two labels, so nothing shows who is right: every label is taken at {right:.0%}",
        "evidence": {},
        "prior": "uniform",
        "gain_of_subtypes": 0.0,
        "copies": [],
        "error_correlation": 0.0,
    }
    return Fit(model, posterior, log_likelihood, details=story)


def predict(model: DawidSkene, details: Mapping[str, Any], annotations: Annotations) -> tuple[Floats, Floats]:
    """Give probabilities and votes, both (N, K), for new items by what :func:`auto` found: a model and its details.

    Where models were averaged, this is the one with confusions.
    """
    groups = [model.annotators.codes_of(names) for names in details["copies"]]
    weights = _weights(len(model.annotators), groups)
    posterior = model.posterior(annotations, weights)
    coded = model.recoded(annotations)
    votes, n_labels = _votes(coded, np.append(weights, np.ones(coded.n_annotators - weights.size)))
    return soften(coded, posterior, votes, n_labels, details["error_correlation"]), votes


def _sample(annotations: Annotations) -> Annotations:
    step = -(-annotations.n_labels // _SAMPLE)
    return annotations.select_items(np.arange(0, annotations.n_items, step)) if step > 1 else annotations


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


def _glance(options: Mapping[str, Any], near: float) -> dict[str, Any]:
    """Give options that end a fit soon, and at once where steps as large as the last would not bring it ``near``."""
    callback = options["callback"]

    def hopeless(progress: Progress) -> bool:
        asked = callback is not None and bool(callback(progress))
        step = progress.change * max(abs(progress.objective), 1.0)  # NaN after a leap: that says nothing
        return asked or progress.objective + _GLANCE * step < near

    return {**options, "max_iter": min(options["max_iter"], _GLANCE), "callback": hopeless}


def _average(opinions: Sequence[Floats]) -> Floats:
    """Average what several models say of every item, (N, K) each, by how far each is from the others.

    Where nobody knows which model errs, the mean of the others stands for the truth, and the weights are those of
    measurements of different variance:

        w_j  ∝  1 / mean of ‖q_j - q̄_j‖² over the items,      q̄_j the mean of all but the j-th.
    """
    total, n = np.sum(opinions, axis=0), len(opinions)
    apart = [float(np.square(q - (total - q) / (n - 1)).sum(axis=1).mean()) for q in opinions]
    weights = np.reciprocal(np.maximum(apart, 1e-12))
    weights /= weights.sum()
    averaged: Floats = np.einsum("j,jnk->nk", weights, np.asarray(opinions))
    return averaged


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
    return bool(n[n >= _ENOUGH * annotations.n_classes].sum() >= 0.5 * n.sum())


def _correlation(annotations: Annotations, parameters: Parameters, groups: Sequence[Copies]) -> float:
    """Give the correlation of errors, one member standing for every group of copies."""
    kept = np.ones(annotations.n_annotators, bool)
    for group in groups:
        kept[group.members[1:]] = False
    if groups:
        annotations = annotations.select_annotators(kept)
        parameters = Parameters(parameters.prior, parameters.confusions[kept])
    return error_correlation(annotations, parameters)


def _subtypes(
    annotations: Annotations,
    n_subtypes: int,
    options: Mapping[str, Any],
    random_state: Any,
    start: Parameters | None = None,
) -> Subtypes:
    """Fit with so many kinds of items in a class and the fixed prior; with one, this is Dawid and Skene's model."""
    wrong = _WRONG / max(annotations.n_classes - 1, 1)
    return fit_subtypes(
        annotations,
        n_subtypes,
        smoothing=wrong,
        diagonal=_RIGHT - wrong,
        starts=_STARTS,
        concentration=_SHARED,
        empirical=False,
        random_state=random_state,
        start=start,
        **options,
    )


def _weights(n_annotators: int, groups: Sequence[Ints]) -> Floats:
    """Give the members of a group one vote together, everybody else one each."""
    weights = np.ones(n_annotators)
    for members in groups:
        weights[members] = 1.0 / members.size
    return weights


def _votes(annotations: Annotations, weights: Floats) -> tuple[Floats, Floats]:
    """Give the shares of votes that count as ``weights`` say, (N, K), and how many there are on each item, (N,)."""
    N, K = annotations.n_items, annotations.n_classes
    if (weights == 1.0).all():
        return vote_posterior(annotations), annotations.labels_per_item.astype(float)
    cell = np.repeat(np.arange(N), annotations.labels_per_item) * K + annotations.label
    votes = np.bincount(cell, weights[annotations.annotator], N * K).reshape(N, K)
    total = votes.sum(axis=1)
    shares = np.divide(votes, total[:, None], out=np.full((N, K), 1.0 / K), where=total[:, None] > 0)
    if annotations.gold is not None:
        known = annotations.gold >= 0
        shares[known] = np.arange(K) == annotations.gold[known, None]
    return shares, total


def _story(
    annotations: Annotations,
    members: Sequence[str],
    evidence: Mapping[str, float],
    gain: float,
    even: bool,
    groups: Sequence[Copies],
    correlation: float,
) -> dict[str, Any]:
    """Tell what was chosen and why, in numbers and in words."""
    names = annotations.annotator_ids
    copies = [[names[int(m)] for m in group.members] for group in groups]
    if len(members) > 1:
        why = (
            f"annotators err together: two kinds of items in a class explain the labels better by {gain:.0f} nats, so "
            f"{', '.join(members)} and the votes are averaged"
        )
    elif len(evidence) > 1:
        other = next(kind for kind in evidence if kind != members[0])
        lead = evidence[members[0]] - evidence[other]
        why = f"{_WORDS[members[0]]} explains the labels better than {_WORDS[other]}, by {lead:.0f} nats"
    else:
        why = "there is one class only"
    if even:
        why += "; classes are taken to be equally frequent"
    if copies:
        votes = "one vote" if len(copies) == 1 else f"{len(copies)} votes"
        why += f"; {sum(map(len, copies))} annotators who answer as one share {votes}"
    if correlation > CHANCE:
        why += f"; errors of different annotators correlate by {correlation:.2f}, and confidence allows for it"
    return {
        "chosen": "+".join((*members, "votes")) if len(members) > 1 else members[0],
        "why": why,
        "evidence": dict(evidence),
        "prior": "uniform" if even else "learned",
        "gain_of_subtypes": gain,
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
