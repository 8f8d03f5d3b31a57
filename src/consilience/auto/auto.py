"""The default method: votes and a model of the annotators, combined by one rule.

1. Annotators who answer as one (:mod:`consilience.moments.copies`) share one vote.
2. A model is fitted: confusion matrices, with subtypes of the classes where annotators err together
   (:mod:`consilience.auto.model`), or :mod:`consilience.methods.hierarchical` if errors look independent
   (:mod:`consilience.auto.dependent`).  If silence says something about the truth
   (:mod:`consilience.diagnose.silence`), as with labelling functions, it is :mod:`consilience.methods.propensity`.
3. Votes and model are pooled (:mod:`consilience.auto.pool`), the less the surer it is that errors are independent.
4. Known answers teach how far to trust votes, model and each annotator (:mod:`consilience.auto.known_answers`).

If labels cannot show who is right at all, there is no model (:mod:`consilience.auto.fallback`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from consilience.auto import constants
from consilience.auto.dependent import dependent_errors
from consilience.auto.fallback import NO_SIGNAL, agreement_beyond_chance, evidence_of_truth, labels_as_they_are, why_not
from consilience.auto.known_answers import learn_from_known
from consilience.auto.model import SubtypeModel, fit_model, look_for_subtypes, sample_of
from consilience.auto.places import log_likelihood, predicted, sample_and_known, silence_on_disk
from consilience.auto.pool import Pool
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import ERR_TOGETHER, LEAST_KNOWN
from consilience.diagnose.left_out import contradiction, known_items, report
from consilience.diagnose.silence import Silence, examine_silence
from consilience.engine.passes import Labels
from consilience.exceptions import DataWarning
from consilience.fitting.em import Callback
from consilience.fitting.fit import Caution, Fit, unconverged, vote_posterior
from consilience.kernels._arrays import Floats
from consilience.methods.base.estimator import SeededEstimator
from consilience.methods.base.method import Method
from consilience.methods.ebcc import Subtypes
from consilience.methods.hierarchical import Hierarchy
from consilience.methods.majority import majority_vote
from consilience.methods.propensity import SpeakingModel, propensity
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.copies import Copies, find_copies

__all__ = ["METHOD", "Auto", "auto"]

#: What a fit without a model beside the votes reports of one.
_NO_DETAILS: Mapping[str, Any] = {
    "gain_of_subtypes": 0.0,
    "copies": [],
    "error_correlation": 0.0,
    "dependent": 1.0,
    "if_dependent": 0.0,
    "silence": "random",
}


class Auto(SeededEstimator):
    """The default: votes and a model of the annotators combined, with confidence that allows for correlated errors.

    Parameters
    ----------
    silence
        What it means that an annotator gave no label: "random" (items were assigned), "informative" (annotators see
        every item and choose to speak, as labelling functions do), or "auto" to decide from the labels.
    max_iter, tol
        Passes over the data for each fit, and the relative change of its lower bound that ends them.
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
    tol: float = 1e-6


def auto(
    annotations: Labels,
    *,
    silence: Literal["auto", "random", "informative"] = "auto",
    max_iter: int = 1000,
    tol: float = 1e-6,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Pool votes and a model of the annotators; :class:`Auto` documents the parameters."""
    a, options = annotations, {"max_iter": max_iter, "tol": tol, "callback": callback}
    look = a if isinstance(a, Annotations) else sample_and_known(a)  # what is judged in memory
    chosen = silence == "informative"
    heard = None
    if silence == "auto":
        heard = examine_silence(look)
        chosen = heard.informative
    unheard: tuple[Caution, ...] = ()
    if not isinstance(a, Annotations):
        unheard, chosen = silence_on_disk(chosen and heard is None, heard, a.n_labels), False
    known = known_items(look).size
    if not chosen and known == 0 and (why := why_not(a)):
        return _without_model(a, why)
    if a.n_annotators * a.n_classes**2 > constants.MOST_MODEL_CELLS:
        return _votes_alone(a)
    crowd: _Crowd = _Speakers(a, options, heard) if chosen else _Annotators(a, options, random_state)
    built = crowd.build(a, sample_of(a))
    no_sign = built.evidence < constants.SIGNAL and agreement_beyond_chance(look) < constants.AGREEMENT
    if no_sign and known == 0:
        return _without_model(a, NO_SIGNAL)
    cautions = (*unheard, *built.cautions)
    details = built.details
    pool = built.pool
    if known >= LEAST_KNOWN and a.n_classes > 1:
        pool, taught, found = _taught(sample_and_known(a), crowd, built)
        cautions, details = (*taught, *cautions), {**details, "known_answers": found}
    details = {**details, "if_dependent": _if_dependent(sample_of(a), pool)}
    posterior, votes = predicted(a, pool)
    return Fit(
        built.model,
        posterior,
        built.log_likelihood,
        built.converged,
        built.history,
        cautions,
        hint=votes,
        predictor=pool,
        details=details,
    )


METHOD = Method("auto", auto, "Auto", "votes and a model of the annotators, pooled by one rule")


@dataclass(frozen=True)
class _Built:
    """A pool, and how its model was found."""

    pool: Pool
    model: DawidSkene
    log_likelihood: float
    converged: bool
    history: list[float]
    details: Mapping[str, Any]
    cautions: tuple[Caution, ...] = ()
    evidence: float = np.inf  #: nats by which a truth makes the labels more probable


class _Annotators:
    """Annotators whose silence means nothing."""

    def __init__(self, annotations: Labels, options: Mapping[str, Any], random_state: Any) -> None:
        self.options, self.random_state = options, random_state
        self.groups = find_copies(sample_of(annotations))
        self.weights = _shared_votes(annotations.n_annotators, self.groups)

    def build(self, annotations: Labels, sample: Annotations) -> _Built:
        a = annotations
        options = {**self.options, "weights": self.weights, "random_state": self.random_state}
        looked = look_for_subtypes(sample, **options)
        gain = looked.gain
        fitted = fit_model(a, sample, looked, **options)
        found: Subtypes | Hierarchy = fitted
        subtypes = SubtypeModel.of(fitted, a)
        model, posterior = subtypes.named, subtypes.__call__
        correlation, dependent = dependent_errors(sample, subtypes, self.groups, max_iter=self.options["max_iter"])
        if gain > 0:
            dependent = 1.0
        if dependent < constants.AT_ITS_WORD:  # then a model that learns the habits of the crowd is best
            found = Hierarchy(a, weights=self.weights).climb(**self.options)
            model = found.model
            posterior = partial(model.posterior, weights=self.weights)
        kind = "together" if gain > ERR_TOGETHER else "assigned"
        (of_votes, of_model), doubt = constants.EXPONENTS[kind], dependent * constants.DOUBT[kind]
        names = a.annotator_ids
        details = {
            "chosen": ("subtypes" if gain > 0 else "confusions") + "+votes",
            "why": _why(gain, dependent, self.groups),
            "weights": {"votes": of_votes * dependent, "model": 1.0 - dependent + of_model * dependent},
            "gain_of_subtypes": gain,
            "copies": [[names[int(m)] for m in group.members] for group in self.groups],
            "error_correlation": correlation,
            "dependent": dependent,
            "silence": "random",
        }
        passes = f"{len(found.history)} passes"
        return _Built(
            Pool(posterior, a.annotator_ids, self.weights, constants.EXPONENTS[kind], dependent, doubt),
            model,
            log_likelihood(a, model),
            found.converged,
            found.history,
            details,
            (*_shared(a, self.groups), *unconverged(found.converged, "variational Bayes", passes, self.options["tol"])),
            np.inf if looked.found is None else evidence_of_truth(sample, looked.found.bound),
        )


class _Speakers:
    """Annotators who see every item and choose when to speak."""

    def __init__(self, annotations: Labels, options: Mapping[str, Any], heard: Silence | None) -> None:
        self.options = {**options, "tol": min(options["tol"], 1e-7)}
        self.why = "silence is taken as information, as asked" if heard is None else heard.reason

    def build(self, annotations: Labels, sample: Annotations) -> _Built:
        assert isinstance(annotations, Annotations)
        fit = propensity(annotations, **self.options)
        assert isinstance(fit.predictor, SpeakingModel)
        exponents, doubt = constants.EXPONENTS["together"], constants.DOUBT["together"]
        details = {
            **_NO_DETAILS,
            "chosen": "propensity+votes",
            "why": self.why,
            "weights": dict(zip(("votes", "model"), exponents, strict=True)),
            "silence": "informative",
        }
        pool = Pool(fit.predictor.posterior, annotations.annotator_ids, exponents=exponents, doubt=doubt)
        return _Built(pool, fit.model, fit.log_likelihood, fit.converged, fit.history, details, fit.cautions)


_Crowd = _Annotators | _Speakers


def _taught(part: Annotations, crowd: _Crowd, built: _Built) -> tuple[Pool, tuple[Caution, ...], dict[str, Any]]:
    """Return the pool with shares learned from known answers, cautions, and what was found.

    ``part`` has all items of known truth; refits use no other labels.
    """
    pool, judged, alone = learn_from_known(part, built.pool, lambda some: crowd.build(some, some).pool)
    assert part.gold is not None
    truth = part.gold[known_items(part)]
    made = report(*((each.argmax(axis=1) != truth, each.max(axis=1)) for each in (alone, judged)))
    made["shares"] = dict(zip(("votes", "model"), pool.shares, strict=True))
    return pool, contradiction(made), made


def _if_dependent(sample: Annotations, pool: Pool) -> float:
    """Return by how much the log-odds of the mean doubt are larger if annotators err together."""
    if pool.dependent >= 1:
        return 0.0
    blind = sample.with_gold(None)
    together = replace(pool, dependent=1.0, doubt=constants.DOUBT["assigned"])
    sure, less = (float(each(blind)[0].max(axis=1).mean()) for each in (pool, together))
    return max(float(np.log(sure / (1.0 - sure)) - np.log(less / (1.0 - less))), 0.0)


def _shared_votes(n_annotators: int, groups: Sequence[Copies]) -> Floats | None:
    """Return how many times the labels of each annotator count, (M,): a group of copies has one vote together."""
    if not groups:
        return None
    weights = np.ones(n_annotators)
    for group in groups:
        weights[group.members] = 1.0 / group.members.size
    return weights


def _without_model(annotations: Labels, why: str) -> Fit:
    fit = labels_as_they_are(annotations, why)
    return replace(fit, details={**_NO_DETAILS, **fit.details})


def _votes_alone(annotations: Labels) -> Fit:
    """Return the vote shares, where a confusion matrix for everybody would not fit in memory."""
    details = {
        **_NO_DETAILS,
        "chosen": "votes",
        "why": f"{annotations.n_classes} classes are too many for a confusion matrix of every annotator: votes decide",
        "weights": {"votes": 1.0},
    }
    if not isinstance(annotations, Annotations):
        return replace(majority_vote(annotations), details=details)
    votes = vote_posterior(annotations)
    return replace(Fit.from_posterior(annotations, votes, hint=votes), details=details)


def _why(gain: float, dependent: float, groups: Sequence[Copies]) -> str:
    """Return the choices in words."""
    if gain > 0:
        why = "annotators err together: kinds of items within a class explain the labels better"
    else:
        why = "a confusion matrix for every annotator explains the labels; no kinds of items within a class are needed"
    if dependent < constants.AT_ITS_WORD:
        why += "; errors look independent, so the model counts for more than usual beside the votes"
    else:
        why += "; the model is tempered and combined with the votes"
    if groups:
        why += f"; {len(groups)} group{'s' * (len(groups) > 1)} of annotators who answer as one share one vote each"
    return why


def _shared(annotations: Labels, groups: Sequence[Copies]) -> tuple[Caution, ...]:
    """Return a caution about annotators who share one vote."""
    sentences = []
    for group in groups:
        names = [str(annotations.annotator_ids[int(m)]) for m in group.members]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        sentences.append(f"{len(names)} annotators answer as one ({shown}) and share one vote")
    return tuple((sentence, DataWarning) for sentence in sentences)
