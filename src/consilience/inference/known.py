"""Known answers, and a consensus that has not seen them."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.data.truth import classes_with_truths, truth_codes
from consilience.exceptions import DataError, DataWarning, warn
from consilience.kernels._arrays import Codes
from consilience.runs.consensus import Consensus

__all__ = ["blind_consensus", "known_answers"]


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
        warn(f"gold has the label {strange!r}, which no annotator used: it counts as a class of its own", DataWarning)
    codes = truth_codes(gold, a.item_ids, classes, column=a.origin.item, what="gold", strict=True)
    return codes, classes


def blind_consensus(data: Any, seed: int, what: str) -> Consensus:
    """Return a consensus that has seen no known answers, so that none predicts itself; ``what`` needs it."""
    from consilience.api import aggregate

    method = "auto"
    if isinstance(data, Consensus):
        if data.annotations is None or data.posterior.ndim != 2:
            raise DataError(
                f"{what} needs a consensus of classes that keeps its labels: streamed runs and open answers have none"
            )
        if data.annotations.gold is None:
            return data
        method, seed, data = data.run["method"], data.run["seed"], data.annotations.with_gold(None)
    elif isinstance(data, Annotations) and data.gold is not None:
        data = data.with_gold(None)
    found = aggregate(data, method, seed=seed, answers="nominal")
    if found.annotations is None:
        raise DataError(f"{what} needs labels in memory: streamed runs do not keep them")
    return found
