"""How surely annotators err together: how far their model may be taken at its word.

The correlation of errors (:mod:`consilience.diagnose.error_correlation`) and its standard error have a probability δ
that they come from annotators who err together.  A crowd whose labels leave the choice to the prior of its model says
nothing of independence either: δ is at least as large as the share of labels that change with the prior, between two
thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from consilience.auto import constants
from consilience.data.annotations import Annotations
from consilience.diagnose.error_correlation import error_correlation, probability_of_dependence
from consilience.kernels._arrays import Floats
from consilience.methods.hierarchical import Hierarchy
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.copies import Copies
from consilience.moments.label_pairs import annotators_by_content

__all__ = ["DependentErrors", "dependent_errors"]


class DependentErrors(NamedTuple):
    """What labels show of errors that annotators make together."""

    correlation: float
    probability: float  #: δ


def dependent_errors(
    sample: Annotations, posterior: Callable[[Annotations], Floats], groups: Sequence[Copies] = (), *, max_iter: int
) -> DependentErrors:
    """Return the correlation of errors, and how surely they are dependent.

    One member of every group of copies counts.  ``posterior`` is that of the model, which has a fixed prior; the one
    for the correlation learns the habits of the crowd, because a fixed prior would look like correlation where labels
    are few.
    """
    kept = sample.labels_per_annotator > 0
    if groups:
        place = np.argsort(annotators_by_content(sample))  # which member counts must not depend on the order of rows
        for group in groups:
            kept[group.members] &= place[group.members] == place[group.members].min()
    some = sample if kept.all() else sample.select_annotators(kept)
    habits = Hierarchy(some).climb(max_iter=max_iter, tol=constants.ROUGH_TOL).means
    correlation, error = error_correlation(some, habits)
    learned = DawidSkene(*habits, some.class_ids, some.annotator_ids).posterior(some)
    same, apart = constants.BY_PRIOR
    differ = float(np.mean(learned.argmax(axis=1) != posterior(some).argmax(axis=1)))
    by_prior = min(max((differ - same) / (apart - same), 0.0), 1.0)
    return DependentErrors(correlation, max(probability_of_dependence(correlation, error), by_prior))
