"""What only the labels themselves show of annotators: who copies whom, who changes, and how many they are worth."""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.changes import find_changes
from consilience.diagnose.dependence import dependence, effective_number, groups_of_copies, model_without
from consilience.kernels._arrays import Floats
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.annotator_table import Health
from consilience.runs.consensus import Consensus

__all__ = ["annotator_health", "effective_annotators"]

#: Labels that are enough to see who answers with whom.
_SAMPLE = 50_000
#: Classes, beyond which the tables of what two annotators say would take too long.
_MOST_CLASSES = 64
#: Known answers that are enough to go by them alone.
_ENOUGH_GOLD = 30


def annotator_health(annotations: Annotations, consensus: Consensus) -> Health:
    """Look for copies and changes, and count independent annotators.

    Parameters
    ----------
    annotations
        The labels that the run came from.
    consensus
        The run.
    """
    number, groups, by_gold = effective_annotators(annotations, consensus.model)
    return Health(
        effective=number,
        by_gold=by_gold,
        copies=groups,
        changes=find_changes(annotations, consensus.model, consensus.posterior),
    )


def effective_annotators(
    annotations: Annotations, model: DawidSkene
) -> tuple[float | None, tuple[tuple[int, ...], ...], bool]:
    """Give the effective number of independent annotators, the groups who answer as one, and whether gold told.

    Without gold (at least 30 items with two labels), errors that all annotators share do not show, and the number is
    the most that it can be.  With more than 64 classes nothing is said.
    """
    if annotations.n_classes > _MOST_CLASSES:
        return None, (), False
    a = _sample(annotations)
    active = a.labels_per_annotator > 0
    if a.n_classes < 2 or int(active.sum()) < 3 or not (a.labels_per_item > 1).any():
        return float((annotations.labels_per_annotator > 0).sum()), (), False
    found = dependence(a, model)
    groups = groups_of_copies(a, model, found)
    known = None if a.gold is None else (a.gold >= 0) & (a.labels_per_item > 1)
    by_gold = known is not None and int(known.sum()) >= _ENOUGH_GOLD
    if known is not None and by_gold:
        judged = a.select_items(known)
        found = dependence(judged, model_without(judged, groups))
    elif groups:
        weights: Floats = np.ones(a.n_annotators)
        for members in groups:
            weights[members] = 1.0 / members.size
        found = dependence(a, model_without(a, groups), weights)
    number = effective_number(found, annotations.labels_per_annotator > 0, groups)
    return number, tuple(tuple(members.tolist()) for members in groups), by_gold


def _sample(annotations: Annotations) -> Annotations:
    step = -(-annotations.n_labels // _SAMPLE)
    return annotations.select_items(np.arange(0, annotations.n_items, step)) if step > 1 else annotations
