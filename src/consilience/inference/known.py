"""Known answers, and a consensus that has not seen them."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.data.truth import classes_with_truths, truth_codes
from consilience.exceptions import DataError, DataWarning, did_you_mean, warn
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Codes
from consilience.runs.consensus import Consensus

__all__ = ["blind_consensus", "known_answers", "labels_alone"]


def known_answers(data: Any, gold: Any, annotations: Annotations) -> tuple[Codes, Ids]:
    """Return the codes of the known answers, -1 where unknown, and the classes, with those that nobody used."""
    a = annotations
    if gold is None:
        kept = data.annotations if isinstance(data, Consensus) else data if isinstance(data, Annotations) else None
        if kept is None or kept.gold is None:
            return np.full(a.n_items, -1, np.int32), a.class_ids
        return kept.gold, a.class_ids
    classes = classes_with_truths(gold, a.item_ids, a.class_ids, column=a.origin.item, what="gold")
    if len(classes) > a.n_classes:
        strange = classes[a.n_classes]
        hint = did_you_mean(strange, a.class_ids, "Is it spelt like theirs?")
        warn(
            f"gold has the label {strange!r}, which no annotator used: it counts as a class of its own{hint}",
            DataWarning,
        )
    codes = truth_codes(gold, a.item_ids, classes, column=a.origin.item, what="gold", strict=True)
    return codes, classes


def labels_alone(data: Any, what: str) -> Annotations:
    """Return the labels of a consensus, or of anything that can be read, without known answers; ``what`` needs them."""
    if isinstance(data, Consensus):
        if data.annotations is None or data.posterior.ndim != 2:
            raise DataError(
                f"{what} needs a consensus of classes that keeps its labels: streamed runs and open answers have none"
            )
        data = data.annotations
    return as_annotations(data).with_gold(None)


def blind_consensus(data: Any, seed: int, what: str) -> Consensus:
    """Return a consensus that has seen no known answers, so that none predicts itself; ``what`` needs it."""
    from consilience.api import aggregate

    labels, method = labels_alone(data, what), "auto"
    if isinstance(data, Consensus):
        assert data.annotations is not None
        if data.annotations.gold is None:
            return data
        method, seed = data.run["method"], data.run["seed"]
    return aggregate(labels, method, seed=seed, answers="nominal")
