"""Health of a crowd: who copies whom, who changes over time, and how many independent annotators it is worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.changes import find_changes
from consilience.diagnose.constants import ENOUGH_GOLD, HEALTH_CLASSES, HEALTH_LABELS
from consilience.diagnose.dependence import (
    dependence,
    effective_number,
    group_weights,
    groups_of_copies,
    model_without,
)
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.annotator_table import Health
from consilience.runs.consensus import Consensus

__all__ = ["annotator_health", "effective_annotators"]


def annotator_health(annotations: Annotations, consensus: Consensus) -> Health:
    """Find copies and changes in the labels that a run came from, and count independent annotators."""
    number, groups, by_gold = effective_annotators(annotations, consensus.model)
    return Health(number, by_gold, groups, find_changes(annotations, consensus.model, consensus.posterior))


def effective_annotators(
    annotations: Annotations, model: DawidSkene
) -> tuple[float | None, tuple[tuple[int, ...], ...], bool]:
    """Return the effective number of independent annotators, the groups of copies, and whether gold decided.

    Without gold (at least 30 items with two labels), errors that all annotators share do not show, and the number is
    an upper bound.  With more than 64 classes it is None.
    """
    if annotations.n_classes > HEALTH_CLASSES:
        return None, (), False
    step = -(-annotations.n_labels // HEALTH_LABELS)
    a = annotations.select_items(np.arange(0, annotations.n_items, step)) if step > 1 else annotations
    active, there = annotations.labels_per_annotator > 0, np.arange(annotations.n_annotators)
    if step > 1 and (a.labels_per_annotator == 0).any():  # of a million annotators, few may be in the sample
        there = np.flatnonzero(a.labels_per_annotator)
        a = a.select_annotators(there)
    if a.n_classes < 2 or int((a.labels_per_annotator > 0).sum()) < 3 or not (a.labels_per_item > 1).any():
        return float(active.sum()), (), False
    model = model_without(a, ())  # one that learns the habits of the crowd, the same for all methods
    found = dependence(a, model)
    groups = groups_of_copies(a, model, found)
    known = np.zeros(a.n_items, bool) if a.gold is None else (a.gold >= 0) & (a.labels_per_item > 1)
    by_gold = int(known.sum()) >= ENOUGH_GOLD
    if by_gold:
        judged = a.select_items(known)
        found = dependence(judged, model_without(judged, groups))
    elif groups:
        found = dependence(a, model_without(a, groups), group_weights(a.n_annotators, groups))
    found, groups = replace(found, who=there[found.who]), [there[members] for members in groups]
    return effective_number(found, active, groups), tuple(tuple(members.tolist()) for members in groups), by_gold
