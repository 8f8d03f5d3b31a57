"""The kinds of annotators that ``auto`` knows, and the pool of votes and model of each.

Who labelled what they were given is described by :mod:`consilience.auto.model`, or by
:mod:`consilience.methods.hierarchical` if errors look independent; who chose when to speak by
:mod:`consilience.methods.propensity`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from consilience.auto import constants
from consilience.auto.dependent import dependent_errors
from consilience.auto.fallback import evidence_of_truth
from consilience.auto.model import SubtypeModel, fit_model, look_for_subtypes, sample_of
from consilience.auto.places import log_likelihood
from consilience.auto.pool import Pool
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import ERR_TOGETHER
from consilience.diagnose.silence import Silence
from consilience.engine.passes import Labels
from consilience.exceptions import DataWarning
from consilience.fitting.fit import Caution, unconverged
from consilience.kernels._arrays import Floats
from consilience.methods.ebcc import Subtypes
from consilience.methods.hierarchical import Hierarchy
from consilience.methods.propensity import SpeakingModel, propensity
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.copies import Copies, find_copies

__all__ = ["NO_DETAILS", "Annotators", "Built", "Crowd", "Speakers"]

#: What a fit without a model beside the votes reports of one.
NO_DETAILS: Mapping[str, Any] = {
    "gain_of_subtypes": 0.0,
    "copies": [],
    "error_correlation": 0.0,
    "dependent": 1.0,
    "if_dependent": 0.0,
    "silence": "random",
}


@dataclass(frozen=True)
class Built:
    """A pool, and how its model was found."""

    pool: Pool
    model: DawidSkene
    log_likelihood: float
    converged: bool
    history: list[float]
    details: Mapping[str, Any]
    cautions: tuple[Caution, ...] = ()
    evidence: float = np.inf  #: nats by which a truth makes the labels more probable


class Crowd(Protocol):
    """Annotators of one kind."""

    @property
    def assigned(self) -> bool:
        """Whether they label what they are given, so that silence means nothing."""
        ...

    def build(self, annotations: Labels, sample: Annotations) -> Built:
        """Return the pool of these labels; ``sample`` is where choices are made that do not need all of them."""
        ...


class Annotators:
    """Annotators who label what they are given."""

    assigned = True

    def __init__(self, annotations: Labels, options: Mapping[str, Any], random_state: Any) -> None:
        self.annotations, self.options, self.random_state = annotations, options, random_state

    @cached_property
    def groups(self) -> Sequence[Copies]:
        """Groups of annotators who answer as one."""
        return find_copies(sample_of(self.annotations))

    @cached_property
    def weights(self) -> Floats | None:
        """How many times the labels of each annotator count, (M,): a group of copies has one vote together."""
        if not self.groups:
            return None
        weights = np.ones(self.annotations.n_annotators)
        for group in self.groups:
            weights[group.members] = 1.0 / group.members.size
        return weights

    def build(self, annotations: Labels, sample: Annotations) -> Built:
        """Return the pool of votes and confusion matrices."""
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
        return Built(
            Pool(posterior, a.annotator_ids, self.weights, constants.EXPONENTS[kind], dependent, doubt),
            model,
            log_likelihood(a, model),
            found.converged,
            found.history,
            details,
            (*_shared(a, self.groups), *unconverged(found.converged, "variational Bayes", passes, self.options["tol"])),
            np.inf if looked.found is None else evidence_of_truth(sample, looked.found.bound),
        )


class Speakers:
    """Annotators who see every item and choose when to speak."""

    assigned = False

    def __init__(self, options: Mapping[str, Any], heard: Silence | None) -> None:
        self.options = {**options, "tol": min(options["tol"], 1e-7)}
        self.why = "silence is taken as information, as asked" if heard is None else heard.reason

    def build(self, annotations: Labels, sample: Annotations) -> Built:
        """Return the pool of votes and propensities."""
        assert isinstance(annotations, Annotations)
        fit = propensity(annotations, **self.options)
        assert isinstance(fit.predictor, SpeakingModel)
        exponents, doubt = constants.EXPONENTS["together"], constants.DOUBT["together"]
        details = {
            **NO_DETAILS,
            "chosen": "propensity+votes",
            "why": self.why,
            "weights": dict(zip(("votes", "model"), exponents, strict=True)),
            "silence": "informative",
        }
        pool = Pool(fit.predictor.posterior, annotations.annotator_ids, exponents=exponents, doubt=doubt)
        return Built(pool, fit.model, fit.log_likelihood, fit.converged, fit.history, details, fit.cautions)


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
