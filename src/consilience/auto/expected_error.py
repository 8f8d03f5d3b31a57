"""The estimated share of wrong labels of a run, whatever its method: one minus the mean confidence of ``auto``.

The posterior of a model of independent annotators is far too sure, so for other methods than ``auto`` it is pooled with
the votes first, by the same rule and with the same doubt (:mod:`consilience.auto.pool`).  With known answers, such a
method is fitted again without them (:mod:`consilience.diagnose.left_out`), to a sample if there are many labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from consilience.auto import constants
from consilience.auto.places import sample_and_known
from consilience.auto.pool import features, normalised, votes_of
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import ERR_TOGETHER
from consilience.diagnose.left_out import left_out
from consilience.diagnose.runs import LATER as _LATER
from consilience.engine.passes import Labels, passes_of
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.runs.consensus import Consensus
from consilience.runs.estimated_error import EstimatedError, estimate

__all__ = ["LATER", "compare_with_known", "estimated_error"]

#: Probabilities that are computed at a time.
_CELLS = 1 << 18


def estimated_error(
    annotations: Annotations, consensus: Consensus, sample: tuple[int, int, float | None] | None = None
) -> EstimatedError:
    """Return the estimated share of wrong labels, over labelled items whose truth is not known.

    ``sample`` shows how far confidences are off: the number of its items, how many of them are wrong, and their mean of
    1 - confidence.  By default it is all items of known truth.
    """
    a, run = annotations, consensus.run
    judged = a.labels_per_item > 0
    if run.get("silence") == "informative":
        judged = np.ones_like(judged)
    if a.gold is not None:
        judged &= a.gold < 0
    if not judged.any() or a.n_classes < 2:
        return estimate(0.0, 0)
    items = np.flatnonzero(judged)
    doubt = float(1.0 - _confidence(a, consensus, items).mean())
    if sample is None and "known_answers" in run:
        report = run["known_answers"]
        # without an item's own answer
        sample = report["items"], round(report["error_with"] * report["items"]), report["expected_with"]
    known, wrong, known_doubt = sample or (0, 0, None)
    return estimate(doubt, items.size, wrong=wrong, known=known, known_doubt=known_doubt)


def _confidence(annotations: Annotations, consensus: Consensus, items: Ints) -> Floats:
    """Return the probability of the chosen label of some items, pooled with the votes if the method has not done so."""
    best = consensus.choice.best[items]
    if consensus.run["method"] == "auto":
        return consensus.posterior[items, best]
    return _pooled(annotations, consensus.posterior, best, items, consensus.run)


def _pooled(annotations: Annotations, posterior: Floats, best: Codes, items: Ints, run: Mapping[str, Any]) -> Floats:
    """Return the probability of the labels ``best`` of some items, with the posterior pooled with the votes."""
    together = run.get("silence") == "informative" or run.get("gain_of_subtypes", 0.0) > ERR_TOGETHER
    kind = "together" if together else "assigned"
    made, step = np.empty(items.size), max(1, _CELLS // annotations.n_classes)
    for first in range(0, items.size, step):
        block = slice(first, first + step)
        some = items[block]
        votes, n_labels = votes_of(annotations.select_items(some), None)
        both = features(votes, posterior[some], n_labels, constants.EXPONENTS[kind])
        pooled = normalised(np.add(*both), constants.DOUBT[kind])
        made[block] = pooled[np.arange(some.size), best[block]]
    return made


def compare_with_known(labels: Labels, fit: Fit, again: Callable[[Annotations], Fit]) -> Fit:
    """Return the fit of a method other than ``auto`` with its error on known answers, and a caution if it is large.

    ``again`` fits the method to other labels.  ``auto`` has learned from the known answers already.
    """
    if "known_answers" in fit.details:
        return fit

    def label(some: Annotations) -> tuple[Codes, Floats]:
        found = again(some)
        best, every = found.choice.best, np.arange(some.n_items)
        return best, _pooled(some, found.posterior, best, every, found.details)

    found, cautions = left_out(sample_and_known(passes_of(labels)), label)  # as many known answers as from disk
    known = {"known_answers": found} if found else {}
    return replace(fit, details={**fit.details, **known}, cautions=(*cautions, *fit.cautions))


#: What a run computes beside its fit.
LATER = replace(_LATER, estimate=estimated_error, compare=compare_with_known)
