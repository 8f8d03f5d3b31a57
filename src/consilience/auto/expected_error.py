"""The estimated share of wrong labels of a run, whatever its method: what ``auto`` thinks of its labels.

The posterior of a model of independent annotators is far too sure, and vote shares are not sure enough.  So the labels
of any method have the probability that ``auto`` gives them: its own with ``auto``, otherwise that of a fit to a sample,
without known answers.  These stand beside it: the method is fitted again without them
(:mod:`consilience.diagnose.left_out`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from consilience.auto.auto import auto
from consilience.auto.places import sample_and_known, sampled_items
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import LEAST_KNOWN
from consilience.diagnose.left_out import known_items, left_out
from consilience.diagnose.runs import LATER as _LATER
from consilience.engine.passes import Labels
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Bools, Codes, Floats
from consilience.runs.consensus import Consensus
from consilience.runs.estimated_error import EstimatedError, estimate

__all__ = ["LATER", "compare_with_known", "estimated_error"]


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
    confidence, together = _confidence(a, consensus, judged)
    doubt = float(1.0 - confidence.mean())
    if sample is None and "known_answers" in run:
        report = run["known_answers"]
        # without an item's own answer
        sample = report["items"], round(report["error_with"] * report["items"]), report["expected_with"]
    known, wrong, known_doubt = sample or (0, 0, None)
    n_items = int(judged.sum())
    return estimate(doubt, n_items, wrong=wrong, known=known, known_doubt=known_doubt, together=together)


def _confidence(annotations: Annotations, consensus: Consensus, judged: Bools) -> tuple[Floats, tuple[float, float]]:
    """Return the probability of the chosen labels of the judged items, or of those in a sample.

    Beside it are the probability that annotators err together, and by how much the log-odds of doubt are larger then.
    """
    best, details = consensus.choice.best, consensus.run
    if consensus.run["method"] == "auto":
        confidence = consensus.posterior[judged, best[judged]]
    else:
        items = sampled_items(annotations)
        opinion, kept = _opinion(annotations.select_items(items)), judged[items]
        confidence, details = opinion.posterior[kept, best[items[kept]]], opinion.details
    return confidence, (details.get("dependent", 0.0), details.get("if_dependent", 0.0))


def _opinion(annotations: Annotations) -> Fit:
    """Return what ``auto`` says of every item without known answers."""
    return auto(annotations.with_gold(None))


def compare_with_known(labels: Labels, fit: Fit, again: Callable[[Annotations], Fit]) -> Fit:
    """Return the fit of a method other than ``auto`` with its error on known answers, and a caution if it is large.

    ``again`` fits the method to other labels.  ``auto`` has learned from the known answers already.
    """
    if "known_answers" in fit.details:
        return fit
    part = sample_and_known(labels)
    if known_items(part).size < LEAST_KNOWN:
        return fit
    opinion = _opinion(part).posterior

    def label(some: Annotations) -> tuple[Codes, Floats]:
        best = again(some).choice.best
        return best, opinion[np.arange(some.n_items), best]

    found, cautions = left_out(part, label)
    known = {"known_answers": found} if found else {}
    return replace(fit, details={**fit.details, **known}, cautions=(*cautions, *fit.cautions))


#: What a run computes beside its fit.
LATER = replace(_LATER, estimate=estimated_error, compare=compare_with_known)
