"""Known answers that are left out: how often a method is wrong about items of known truth that it did not learn from.

A fit holds known answers fixed, so its own labels of these items are right and show nothing.  The method runs again,
without all known answers, and without a fifth of them in turn.  Both errors stand beside those that its confidence
leads to expect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.constants import FOLDS, LEAST_KNOWN
from consilience.diagnose.rules import surprising
from consilience.exceptions import DataWarning, MethodError
from consilience.fitting.fit import Caution, vote_posterior
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.moments.label_pairs import items_by_content
from consilience.runs.consensus import Consensus
from consilience.runs.estimated_error import EstimatedError, estimate

__all__ = ["contradiction", "estimated_error", "known_items", "left_out", "parts_of_known", "report"]

#: Returns the labels of all items and the confidence in them, (N,) both, from labels and known answers.
Label = Callable[[Annotations], tuple[Codes, Floats]]


def known_items(annotations: Annotations, *, silent: bool = False) -> Ints:
    """Return the items with a known answer and a label; ``silent`` adds those without a label."""
    if annotations.gold is None:
        return np.empty(0, np.int64)
    return np.flatnonzero((annotations.gold >= 0) & (silent | (annotations.labels_per_item > 0)))


def parts_of_known(annotations: Annotations, items: Ints) -> list[Ints]:
    """Divide known items into parts of about the same classes and votes; return their places among ``items``.

    The parts depend neither on the order of rows nor on names.
    """
    a = annotations
    assert a.gold is not None
    truth, K = a.gold[items], a.n_classes
    votes = vote_posterior(a.select_items(items).with_gold(None))[np.arange(items.size), truth]
    frequency = np.bincount(a.label, minlength=K), np.bincount(truth, minlength=K)
    order = np.lexsort((np.argsort(items_by_content(a))[items], votes, *(-each[truth] for each in frequency)))
    n = min(FOLDS, items.size)
    return [np.sort(order[first::n]) for first in range(n)]


def left_out(annotations: Annotations, label: Label) -> tuple[dict[str, Any], tuple[Caution, ...]]:
    """Run a method without known answers; return what :func:`report` has of it, and a caution if it is contradicted.

    Both are empty if there are fewer than ``LEAST_KNOWN`` known answers.  A method that refuses to run without them, or
    on a sample, is not compared, which a caution says: its fit to all labels is sound.
    """
    a, items = annotations, known_items(annotations)
    if items.size < LEAST_KNOWN or a.n_classes < 2:
        return {}, ()
    assert a.gold is not None
    truth = a.gold[items]
    try:
        best, confidence = (each[items] for each in label(a.forgetting(items)))
        alone = best != truth, confidence
        wrong, sure = np.empty(items.size, bool), np.empty(items.size)
        for part in parts_of_known(a, items):
            here = items[part]
            best, confidence = label(a.forgetting(here))
            wrong[part], sure[part] = best[here] != truth[part], confidence[here]
    except MethodError as error:
        return {}, ((f"this run was not compared with your known answers: without them, {error}", DataWarning),)
    made = report(alone, (wrong, sure))
    return made, contradiction(made)


def report(alone: tuple[Any, Floats], taught: tuple[Any, Floats]) -> dict[str, Any]:
    """Return the error on known answers and the expected one, without and with what the known answers teach.

    Both arguments have whether a known item is labelled wrongly, and the confidence in its label.
    """
    (wrong, sure), (wrong_with, sure_with) = alone, taught
    return {
        "items": int(sure.size),
        "error": float(np.mean(wrong)),
        "expected": float(1.0 - sure.mean()),
        "error_with": float(np.mean(wrong_with)),
        "expected_with": float(1.0 - sure_with.mean()),
    }


def contradiction(known: dict[str, Any]) -> tuple[Caution, ...]:
    """Return the caution where known answers contradict the labels' own estimate, by more than chance."""
    if not surprising(known["items"], known["error"], known["expected"]):
        return ()
    sentence = (
        f"on your {known['items']} known answers, the consensus of the labels alone is {known['error']:.0%} wrong; it "
        f"expected {known['expected']:.0%}. Known answers are used as far as they help; collect more, or find out what "
        "the annotators misunderstand"
    )
    return ((sentence, DataWarning),)


def estimated_error(consensus: Consensus) -> EstimatedError:
    """Return the estimated share of wrong labels of a run by its confidence, and by known answers if there are any."""
    judged = np.asarray(consensus.label_columns["label"].is_valid())
    if consensus.annotations is not None and consensus.annotations.gold is not None:
        judged &= consensus.annotations.gold < 0
    confidence = np.asarray(consensus.label_columns["confidence"])[judged]
    doubt = float(1.0 - confidence.mean()) if confidence.size else 0.0
    known = consensus.run.get("known_answers")
    if not known:
        return estimate(doubt, confidence.size)
    wrong = round(known["error_with"] * known["items"])
    return estimate(doubt, confidence.size, wrong=wrong, known=known["items"], known_doubt=known["expected_with"])
