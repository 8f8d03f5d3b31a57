"""What the judges together say of each pair, by the default method for labels (``auto``).

An item of ``auto`` is a pair, or a pair and a task if there are tasks.  Its classes are "left", "tie" and "right",
where the left one is the item with the higher score: which side an item was shown on, or how it is called, plays no
role, and the share of pairs in which the higher score wins is learned as the prior of a class.  If ``auto`` confuses
the classes, votes decide: the higher score then wins far fewer pairs than by votes.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data.annotations import Annotations
from consilience.data.frames import Origin
from consilience.data.ids import Ids
from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.base.running import run_method
from consilience.ranking.comparisons import Comparisons
from consilience.ranking.constants import CONFUSED

__all__ = ["pair_columns"]

_CLASSES = Ids(["left", "tie", "right"])


def pair_columns(data: Comparisons, scores: Floats, seed: int) -> dict[str, Any]:
    """Return the columns task (if there are tasks), left, right, winner, confidence and n_comparisons."""
    one, two = data.first.astype(np.int64), data.second.astype(np.int64)
    turned = scores[one] < scores[two]
    better, worse = np.where(turned, two, one), np.where(turned, one, two)
    said = (1 - np.where(turned, -data.outcome, data.outcome)).astype(np.int32)  # 0 left, 1 tie, 2 right
    unit, first = _units(data)
    annotations = Annotations.from_codes(
        (unit, Ids.range(first.size)),
        (data.judge.copy(), data.judge_ids),
        (said, _CLASSES),
        classes=list(_CLASSES),
        duplicates="keep",
        origin=Origin(),
    )
    with warnings.catch_warnings():  # about single judges and groups: the ranking says it in its own words
        warnings.simplefilter("ignore", ConsilienceWarning)
        consensus, votes = run_method(annotations, "auto", seed=seed), run_method(annotations, "majority")
    # Scores come from the same comparisons, so the higher one wins most pairs.  A model that sees far fewer such pairs
    # than the votes has taken one class for another, which happens if judges are near chance; votes cannot.
    if (consensus.choice.best == 0).sum() < CONFUSED * (votes.choice.best == 0).sum():
        consensus = votes
    at = first[np.asarray(consensus.item_ids.to_numpy(), np.int64)]
    names = data.item_ids.to_arrow()
    best = consensus.choice.best
    columns: dict[str, Any] = {}
    if data.task.size:
        columns["task"] = data.task_ids.to_arrow().take(pa.array(data.task[at]))
    return columns | {
        "left": names.take(pa.array(better[at])),
        "right": names.take(pa.array(worse[at])),
        "winner": _CLASSES.to_arrow().take(pa.array(best)),
        "confidence": consensus.posterior[np.arange(best.size), best],
        "n_comparisons": np.asarray(consensus.n_labels, np.int64),
    }


def _units(data: Comparisons) -> tuple[Any, Ints]:
    """Return the code of each comparison's pair (and task), and where each first occurs."""
    _, pair = data.pair
    key = pair * max(len(data.task_ids), 1) + (data.task if data.task.size else 0)
    _, first, unit = np.unique(key, return_index=True, return_inverse=True)
    return unit.astype(np.int32), first
