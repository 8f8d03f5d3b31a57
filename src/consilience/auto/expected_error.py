"""The estimated share of wrong labels of a run, whatever its method: one minus the mean confidence of ``auto``.

The posterior of a model of independent annotators is far too sure, so for other methods than ``auto`` it is pooled with
the votes first, by the same rule and with the same doubt (:mod:`consilience.auto.pool`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from consilience.auto import constants
from consilience.auto.pool import features, normalised, votes_of
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import ERR_TOGETHER
from consilience.diagnose.runs import LATER as _LATER
from consilience.kernels._arrays import Floats, Ints
from consilience.runs.consensus import Consensus
from consilience.runs.estimated_error import EstimatedError, estimate

__all__ = ["LATER", "estimated_error"]

#: Probabilities that are computed at a time.
_CELLS = 1 << 20


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
        # the pool has learned from the known answers how far to trust the model
        sample = report["items"], round(report["error_with"] * report["items"]), report["expected_with"]
    known, wrong, known_doubt = sample or (0, 0, None)
    return estimate(doubt, items.size, wrong=wrong, known=known, known_doubt=known_doubt)


def _confidence(annotations: Annotations, consensus: Consensus, items: Ints) -> Floats:
    """Return the probability of the chosen label of some items, pooled with the votes."""
    run, best = consensus.run, consensus.choice.best
    if run["method"] == "auto":
        return consensus.posterior[items, best[items]]
    together = run.get("silence") == "informative" or run.get("gain_of_subtypes", 0.0) > ERR_TOGETHER
    kind = "together" if together else "assigned"
    made, step = np.empty(items.size), max(1, _CELLS // annotations.n_classes)
    for first in range(0, items.size, step):
        some = items[first : first + step]
        votes, n_labels = votes_of(annotations.select_items(some), None)
        both = features(votes, consensus.posterior[some], n_labels, constants.EXPONENTS[kind])
        pooled = normalised(np.add(*both), constants.DOUBT[kind])
        made[first : first + step] = pooled[np.arange(some.size), best[some]]
    return made


#: What a consensus computes on first access.
LATER = replace(_LATER, estimate=estimated_error)
