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

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from consilience.auto import constants
from consilience.auto.crowds import NO_DETAILS, Annotators, Built, Crowd, Speakers
from consilience.auto.fallback import NO_SIGNAL, agreement_beyond_chance, labels_as_they_are, why_not
from consilience.auto.known_answers import learn_from_known
from consilience.auto.model import sample_of
from consilience.auto.places import predicted, sample_and_known, silence_on_disk
from consilience.auto.pool import Pool
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import LEAST_KNOWN
from consilience.diagnose.left_out import contradiction, known_items, report
from consilience.diagnose.silence import examine_silence
from consilience.engine.passes import Labels
from consilience.fitting.em import Callback
from consilience.fitting.fit import Caution, Fit, vote_posterior
from consilience.methods.base.estimator import SeededEstimator
from consilience.methods.base.method import Method
from consilience.methods.majority import majority_vote

__all__ = ["METHOD", "Auto", "auto", "pooled"]


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
    look = a if isinstance(a, Annotations) else sample_and_known(a)
    heard = examine_silence(look) if silence == "auto" else None
    chosen = silence == "informative" if heard is None else heard.informative
    unheard: tuple[Caution, ...] = ()
    if not isinstance(a, Annotations):
        unheard, chosen = silence_on_disk(chosen and heard is None, heard, a.n_labels), False
    crowd = Speakers(options, heard) if chosen else Annotators(a, options, random_state)
    return pooled(a, crowd, unheard)


def pooled(annotations: Labels, crowd: Crowd, cautions: tuple[Caution, ...] = ()) -> Fit:
    """Pool votes and the model of a crowd, and learn from known answers; without a model if labels cannot show one."""
    a = annotations
    look = a if isinstance(a, Annotations) else sample_and_known(a)  # what is judged in memory
    known = known_items(look).size
    if crowd.assigned and known == 0 and (why := why_not(a)):
        return _without_model(a, why)
    if a.n_annotators * a.n_classes**2 > constants.MOST_MODEL_CELLS:
        return _votes_alone(a)
    built = crowd.build(a, sample_of(a))
    no_sign = built.evidence < constants.SIGNAL and agreement_beyond_chance(look) < constants.AGREEMENT
    if no_sign and known == 0:
        return _without_model(a, NO_SIGNAL)
    cautions, details, pool = (*cautions, *built.cautions), built.details, built.pool
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


def _taught(part: Annotations, crowd: Crowd, built: Built) -> tuple[Pool, tuple[Caution, ...], dict[str, Any]]:
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


def _without_model(annotations: Labels, why: str) -> Fit:
    fit = labels_as_they_are(annotations, why)
    return replace(fit, details={**NO_DETAILS, **fit.details})


def _votes_alone(annotations: Labels) -> Fit:
    """Return the vote shares, where a confusion matrix for everybody would not fit in memory."""
    details = {
        **NO_DETAILS,
        "chosen": "votes",
        "why": f"{annotations.n_classes} classes are too many for a confusion matrix of every annotator: votes decide",
        "weights": {"votes": 1.0},
    }
    if not isinstance(annotations, Annotations):
        return replace(majority_vote(annotations), details=details)
    votes = vote_posterior(annotations)
    return replace(Fit.from_posterior(annotations, votes, hint=votes), details=details)
