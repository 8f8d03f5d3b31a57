"""The default method: models of different richness, chosen or averaged by the evidence of the labels themselves.

No model is best for all crowds.  Few labels need few parameters, annotators with different habits need a confusion
matrix each, and where people err together the model needs hard items.  Four steps:

1. annotators who answer as one (:mod:`consilience.moments.copies`) share one vote;
2. models are compared, and one or several are chosen (:mod:`consilience.auto.candidates`);
3. several are averaged, those far from the others with less weight (:mod:`consilience.auto.ensemble`);
4. confidence is lowered where errors correlate (:mod:`consilience.auto.calibration`);
5. with known answers, the result is averaged with a vote in which annotators count by their record
   (:mod:`consilience.auto.known_answers`), as far as the known answers speak for it.

Labelling functions and others who choose when to speak are different: if silence says something about the truth
(:mod:`consilience.diagnose.silence`), the votes are averaged with :mod:`consilience.methods.propensity`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from consilience.auto import constants
from consilience.auto.calibration import soften
from consilience.auto.candidates import Candidate, Comparison, Crowd, choose_models, compare_models
from consilience.auto.ensemble import Ensemble, mean_opinion, votes_of
from consilience.auto.known_answers import known_items, weigh_by_known_answers
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import CHANCE, CLEAR
from consilience.diagnose.silence import Silence, examine_silence
from consilience.exceptions import DataWarning
from consilience.fitting.em import Callback
from consilience.fitting.fit import Caution, Fit, unconverged
from consilience.kernels._arrays import Floats
from consilience.methods.base.estimator import SeededEstimator
from consilience.methods.base.method import Method
from consilience.methods.ebcc import Subtypes
from consilience.methods.hard_items import HardItems, HardItemsModel
from consilience.methods.propensity import SpeakingModel, propensity
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.copies import Copies

__all__ = ["METHOD", "Auto", "auto"]

#: What a fit without a comparison of models reports of one.
_NO_DETAILS: Mapping[str, Any] = {
    "evidence": {},
    "prior": "uniform",
    "gain_of_subtypes": 0.0,
    "gain_of_hard_items": 0.0,
    "copies": [],
    "error_correlation": 0.0,
}
_WORDS = {"confusions": "a confusion matrix for everybody", "coin": "one accuracy for everybody"}


class Auto(SeededEstimator):
    """The default: models chosen or averaged by evidence, with confidence that allows for correlated errors.

    Parameters
    ----------
    silence
        What it means that an annotator gave no label: "random" (items were assigned), "informative" (annotators see
        every item and choose to speak, as labelling functions do), or "auto" to decide from the labels.
    max_iter, tol
        Passes over the data for each model, and the relative change of its lower bound that ends them.
    random_state
        Decides everything that is random.
    callback
        Called after every pass; ends the fit of one model by returning True.

    Examples
    --------
    >>> from consilience import Auto, simulate
    >>> crowd = simulate(500, 12, 3, experts=0.3, seed=1)
    >>> model = Auto(random_state=0).fit(crowd.annotations)
    >>> float((model.labels_ == crowd.truth).mean()) > 0.9
    True
    """

    _method = "auto"

    silence: Literal["auto", "random", "informative"] = "auto"
    max_iter: int = 1000
    tol: float = 1e-5


def auto(
    annotations: Annotations,
    *,
    silence: Literal["auto", "random", "informative"] = "auto",
    max_iter: int = 1000,
    tol: float = 1e-5,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Average or choose models by their evidence, and calibrate; :class:`Auto` documents the parameters."""
    options = {"max_iter": max_iter, "tol": tol, "callback": callback}
    fit = _fit(annotations, silence, random_state, options)
    if known_items(annotations).size < constants.LEAST_KNOWN or annotations.n_classes < 2:
        return fit
    blind = _fit(annotations.with_gold(None), silence, random_state, options)
    return weigh_by_known_answers(annotations, fit, blind)


METHOD = Method("auto", auto, "Auto", "models chosen or averaged by how well they explain the labels")


def _fit(annotations: Annotations, silence: str, random_state: Any, options: Mapping[str, Any]) -> Fit:
    """Fit the models; known answers are held, and no more."""
    a, tol = annotations, options["tol"]
    if a.gold is None and a.n_classes > 1 and int(a.labels_per_item.max(initial=0)) < 2:
        return _unchecked(a)
    heard = examine_silence(a) if silence == "auto" else None
    if silence == "informative" or (heard and heard.informative):
        return _speaking(a, heard, **options)
    crowd = Crowd(a, options, random_state)
    seen = compare_models(crowd)
    members, main, hardness = choose_models(crowd, seen)
    correlation = crowd.correlation(seen.models["confusions"].means)
    # hard items are hard for all: errors correlate even where few pairs of labels show it
    rho = max(correlation, CLEAR) if hardness > constants.HARD_GAIN else correlation
    model = DawidSkene(*main.means, a.class_ids, a.annotator_ids)
    if "subtypes" in members:
        votes, n_labels = votes_of(a, crowd.weights)
        opinions = {kind: _opinion(member, a) for kind, member in members.items()} | {"votes": votes}
        mean, by_weight = mean_opinion(list(opinions.values()))
        shares = dict(zip(opinions, by_weight.tolist(), strict=True))
        posterior = soften(a, mean, mean, votes, n_labels, rho)
        predictor = Ensemble((model,), np.ones(1), crowd.weights, rho)
    else:
        found = [_model_of(member, a) for member in members.values()]
        predictor = Ensemble.of(found, crowd.sample, crowd.weights, rho)
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
        details=_details(a, shares, seen, hardness, crowd.groups, correlation),
    )


def _speaking(annotations: Annotations, found: Silence | None, **options: Any) -> Fit:
    """Return the fit where annotators choose to speak: the mean of the votes and the model of their propensities."""
    fit = propensity(annotations, **options)
    assert isinstance(fit.predictor, SpeakingModel)
    predictor = SpeakingAndVotes(fit.predictor)
    posterior, votes = predictor(annotations)
    details = {
        **_NO_DETAILS,
        "chosen": "propensity+votes",
        "why": "silence is taken as information, as asked" if found is None else found.reason,
        "weights": {"propensity": 0.5, "votes": 0.5},
        "prior": "learned",
        "silence": "informative",
    }
    return replace(fit, posterior=posterior, hint=votes, predictor=predictor, details=details)


@dataclass(frozen=True)
class SpeakingAndVotes:
    """The mean of a model of propensities and the votes; items without labels have no votes."""

    model: SpeakingModel

    def __call__(self, annotations: Annotations) -> tuple[Floats, Floats]:
        """Return probabilities and vote shares of any items, both (N, K)."""
        posterior, votes = self.model(annotations)
        voted = annotations.labels_per_item > 0
        posterior[voted] = 0.5 * (posterior[voted] + votes[voted])
        return posterior, votes


def _model_of(member: Candidate, annotations: Annotations) -> DawidSkene | HardItemsModel:
    names = annotations.class_ids, annotations.annotator_ids
    if isinstance(member, HardItems):
        return HardItemsModel(DawidSkene(*member.usual, *names), member.spread)
    return DawidSkene(*member.means, *names)


def _opinion(member: Candidate, annotations: Annotations) -> Floats:
    if isinstance(member, Subtypes):
        return member.fit(annotations).posterior
    return _model_of(member, annotations).posterior(annotations)


def _unchecked(annotations: Annotations) -> Fit:
    """Return the fit where no item has two labels: every label is taken to be right four times in five."""
    K, right = annotations.n_classes, constants.RIGHT / (constants.RIGHT + constants.WRONG)
    confusion = np.where(np.eye(K, dtype=bool), right, (1.0 - right) / (K - 1))
    confusions = np.tile(confusion, (annotations.n_annotators, 1, 1))
    model = DawidSkene(np.full(K, 1.0 / K), confusions, annotations.class_ids, annotations.annotator_ids)
    posterior, log_likelihood = model.posterior_and_likelihood(annotations)
    details = {
        **_NO_DETAILS,
        "chosen": "labels",
        "why": f"no item has two labels, so nothing shows who is right: every label is taken at {right:.0%}",
        "weights": {"labels": 1.0},
    }
    predictor = Ensemble((model,), np.ones(1), np.ones(annotations.n_annotators), 0.0)
    return Fit(model, posterior, log_likelihood, predictor=predictor, details=details)


def _details(
    annotations: Annotations,
    shares: Mapping[str, float],
    seen: Comparison,
    hardness: float,
    groups: Sequence[Copies],
    correlation: float,
) -> dict[str, Any]:
    """Return what was chosen and why, in numbers and in words."""
    evidence, gain, even = seen.evidence, seen.gain, seen.even
    names = annotations.annotator_ids
    copies = [[names[int(m)] for m in group.members] for group in groups]
    if "subtypes" in shares:
        why = (
            f"annotators err together: two kinds of items in a class explain the labels better, so "
            f"{', '.join(kind for kind in shares if kind != 'votes')} and the votes are averaged"
        )
    elif len(evidence) > 1:
        better, other = sorted(evidence, key=lambda kind: -evidence[kind])
        why = f"{_WORDS[better]} explains the labels better than {_WORDS[other]}"
    else:
        why = "there is one class only"
    if "hard items" in shares:
        why += "; some items are harder than others"
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
        "silence": "random",
    }


def _cautions(annotations: Annotations, groups: Sequence[Copies]) -> tuple[Caution, ...]:
    cautions = []
    for group in groups:
        sentence = (
            f"annotators {_listed(list(annotations.annotators[group.members]))} answer as one: beyond chance they "
            f"agree with each other by {group.within:.2f}, but with the others by {group.observed:.2f} where "
            f"{group.expected:.2f} is expected. They are taken for copies and share one vote"
        )
        cautions.append((sentence, DataWarning))
    return tuple(cautions)


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(map(str, names[:6]))
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"
