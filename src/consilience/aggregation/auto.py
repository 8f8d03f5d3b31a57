"""The default: models of different richness, chosen or averaged by how well the labels themselves speak for each.

No model is best for all crowds.  Few labels want few parameters, a crowd with habits wants a confusion matrix for
everybody, and where people err together the classes need room for hard items.  The lower bound F of
:mod:`consilience.aggregation.variational` says, without any truth, how probable the labels are under a family of models
as a whole, parameters integrated out; it compares

====================  =================================================================
coin                  one probability of being right for every annotator
confusions            a confusion matrix for everybody, drawn from the crowd's
subtypes              two kinds of items in a class, fixed prior
====================  =================================================================

* Where the coin is ahead by a wide margin, it decides alone.
* Where subtypes raise F by a wide margin, annotators err together: subtypes, confusions, coin and votes are averaged.
  They are held beside the same model without them, both with the fixed prior that annotators are right more often than
  not (with a learned one, a second kind of items may become a class of its own), and must not owe their lead to it.
* Else up to four models are averaged: confusions, the same with equal classes and the same drawn from the fixed prior
  instead of the crowd's, if F does not rule these out, and the coin.  Nearer by, F is no guide: no real crowd is drawn
  from any of them.  What they have in common survives, and who stands alone counts little
  (:mod:`consilience.aggregation.ensemble`).

Before, annotators who answer as one (:mod:`consilience.moments.copies`) are given one vote together; after, confidence
is brought down to what the measured correlation of errors allows (:mod:`consilience.aggregation.calibration`).

Copies and subtypes are looked for in a sample of the items where there are many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from consilience.aggregation.calibration import CHANCE, CLEAR, error_correlation, soften
from consilience.aggregation.ebcc import Subtypes, fit_subtypes
from consilience.aggregation.em import Callback, ConfusionStep, Parameters
from consilience.aggregation.ensemble import Ensemble, mean_opinion, votes_of, weights_by_distance
from consilience.aggregation.fit import Caution, Fit, unconverged, vote_posterior
from consilience.aggregation.hierarchical import Hierarchy
from consilience.annotations import Annotations
from consilience.dawid_skene import DawidSkene
from consilience.exceptions import DataWarning
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.votes import vote_counts, vote_statistics
from consilience.moments.copies import Copies, find_copies

__all__ = ["auto"]

#: Labels that are enough to find copies and subtypes.  (How rich a model the data bears shows in all of them only.)
_SAMPLE = 20_000
#: Relative change of the lower bound that ends the fit of a coin which is only compared, and of subtypes to all labels.
_ROUGH, _FINE = 1e-4, 1e-6
#: Labels of an annotator, for each class, without which nothing can be said about subtypes.
_ENOUGH = 10
#: Subtypes, a coin alone, or a start from known answers must raise the log-probability of the labels by so much: odds
#: of e^20 to 1.
_MARGIN = 20.0
#: Equal classes, or a fixed prior, that make the labels less probable by so much are out of the question.
_FAR = 100.0
#: Random starts of the subtypes, and the pseudo-items that the subtypes of a class share.
_STARTS, _SHARED = 2, 0.2
#: The fixed prior: right four times in five, wrong answers spread over the others.
_RIGHT, _WRONG = 4.0, 1.0
_WORDS = {"confusions": "a confusion matrix for everybody", "coin": "one accuracy for everybody"}


def auto(
    annotations: Annotations,
    *,
    max_iter: int = 1000,
    tol: float = 1e-5,
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
    K = annotations.n_classes
    sample = _sample(annotations)
    groups = find_copies(sample)
    compiled = bool(np.count_nonzero(annotations.labels_per_annotator) >= 5)  # looking for copies has loaded numba
    weights = _weights(annotations.n_annotators, [group.members for group in groups])

    def hierarchy(kind: str, **more: Any) -> Hierarchy:
        shared = weights if groups else None
        return Hierarchy(annotations, coin=kind == "coin", weights=shared, compiled=compiled, **more)

    models = {"confusions": hierarchy("confusions").climb(**options)}
    misled = _votes_mislead(annotations)
    if annotations.gold is not None and K > 1:  # from the votes, steps may not lead to where known answers point
        by_gold = hierarchy("confusions", start=_by_gold(annotations)).climb(**options)
        if by_gold.bound > models["confusions"].bound + _MARGIN:
            models["confusions"] = by_gold
    posterior = models["confusions"].posterior()
    even = K > 1 and _look_even(annotations, posterior)
    gain, fixed, subtypes = 0.0, None, None
    if K > 1:
        rough = {**options, "tol": max(tol, _ROUGH)}
        models["coin"] = hierarchy("coin", prior="uniform" if even else "learned").climb(**rough)
        if models["confusions"].bound > models["coin"].bound and not groups and _tells_of_subtypes(sample):
            subtypes, fixed = (_subtypes(sample, n, options, random_state) for n in (2, 1))
            gain = subtypes.bound - fixed.bound
            if gain > _MARGIN and (misled or _correlation(annotations, models["confusions"].means, groups) < CLEAR):
                # adversaries: the fixed prior does not suit them, and subtypes only mend that
                learned = (
                    models["confusions"]
                    if sample is annotations
                    else Hierarchy(sample, compiled=compiled).climb(**options)
                )
                gain = gain if subtypes.bound > learned.bound - _MARGIN else 0.0
    evidence = {kind: model.bound for kind, model in models.items()}

    alone = "coin" if K > 1 and evidence["coin"] > evidence["confusions"] + _MARGIN else "confusions"
    main = models[alone].climb(**options)
    members: dict[str, Hierarchy | Subtypes] = {alone: main}
    if gain > _MARGIN and subtypes is not None:
        members["coin"] = models["coin"].climb(**options)
        to_the_end = {**options, "tol": min(tol, _FINE)}  # two kinds of items come apart late
        members["subtypes"] = _subtypes(annotations, 2, to_the_end, random_state, subtypes.tables)
    elif alone == "confusions" and K > 1 and not misled:
        equal = hierarchy("confusions", prior="uniform", start=posterior).climb(**options)
        others: dict[str, Hierarchy | Subtypes] = {"equal classes": equal}
        if not groups:  # whose copies it would not know of
            if fixed is None or sample is not annotations:
                fixed = _subtypes(annotations, 1, options, random_state)
            others["fixed prior"] = fixed
        near = {kind: other for kind, other in others.items() if other.bound > main.bound - _FAR}
        if near:  # of two opinions, nothing tells which is to be trusted
            members |= near | {"coin": models["coin"]}
        main = equal if even else main

    fit = main.fit()
    correlation = _correlation(annotations, main.means, groups)
    votes, n_labels = votes_of(annotations, weights)
    if "subtypes" in members:
        opinions = {
            kind: member.posterior() if isinstance(member, Hierarchy) else member.fit(annotations).posterior
            for kind, member in members.items()
        }
        opinions["votes"] = votes
        shares = dict(zip(opinions, weights_by_distance(list(opinions.values())).tolist(), strict=True))
        posterior = mean_opinion(list(opinions.values()))
        posterior = soften(annotations, posterior, posterior, votes, n_labels, correlation)
        predictor = Ensemble((fit.model,), np.ones(1), weights, correlation)
    else:
        names = annotations.class_ids, annotations.annotator_ids
        found = [DawidSkene(*member.means, *names) for member in members.values()]
        predictor = Ensemble.of(found, sample, weights, correlation)
        shares = dict(zip(members, predictor.weights.tolist(), strict=True))
        posterior, _ = predictor(annotations)
    converged = all(member.converged for member in members.values())
    return replace(
        fit,
        posterior=posterior,
        converged=converged,
        hint=votes,
        predictor=predictor,
        cautions=(
            *_cautions(annotations, groups),
            *unconverged(converged, "variational Bayes", f"{max_iter} passes for one of the models", tol),
        ),
        details=_story(annotations, shares, evidence, gain, even, groups, correlation),
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
        "weights": {"labels": 1.0},
        "prior": "uniform",
        "gain_of_subtypes": 0.0,
        "copies": [],
        "error_correlation": 0.0,
    }
    predictor = Ensemble((model,), np.ones(1), np.ones(annotations.n_annotators), 0.0)
    return Fit(model, posterior, log_likelihood, predictor=predictor, details=story)


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


def _story(
    annotations: Annotations,
    shares: Mapping[str, float],
    evidence: Mapping[str, float],
    gain: float,
    even: bool,
    groups: Sequence[Copies],
    correlation: float,
) -> dict[str, Any]:
    """Tell what was chosen and why, in numbers and in words."""
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
