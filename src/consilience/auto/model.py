"""The model of ``auto``: a confusion matrix for every annotator, and subtypes of classes where annotators err together.

:mod:`consilience.methods.ebcc` has the model.  Subtypes are looked for in a sample of the items, from several starts.
If they do not clearly raise the lower bound of the log-probability of the labels, the model has none; otherwise the
subtypes that the sample needs are the start of a fit to all labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from consilience.auto import constants
from consilience.data.annotations import Annotations
from consilience.engine.passes import Labels, passes_of
from consilience.fitting.em import Parameters
from consilience.kernels._arrays import Floats
from consilience.methods.base.constants import SUBTYPE_CELLS
from consilience.methods.ebcc import Subtypes, fit_subtypes, subtype_sweep
from consilience.models.dawid_skene import DawidSkene

__all__ = ["Looked", "SubtypeModel", "fit_model", "look_for_subtypes", "sample_of"]


class Looked(NamedTuple):
    """What a sample shows of subtypes."""

    found: Subtypes | None  #: the better fit, with or without subtypes; None where nobody looked
    gain: float  #: what subtypes add to the lower bound beyond the margin, nats per label


def sample_of(annotations: Labels) -> Annotations:
    """Return every n-th item, such that about ``SAMPLE`` labels remain."""
    return passes_of(annotations).sample(-(-annotations.n_labels // constants.SAMPLE))


def look_for_subtypes(sample: Annotations, **options: Any) -> Looked:
    """Fit the model to a sample, with and without subtypes; ``options`` are those of :func:`fit_model`."""
    cells = sample.n_annotators * sample.n_classes**2 * constants.SUBTYPES
    if sample.n_classes < 2 or cells > SUBTYPE_CELLS:
        return Looked(None, 0.0)
    one = _fit(sample, 1, **options)
    needed = one.bound + constants.MARGIN
    many = _fit(sample, constants.SUBTYPES, starts=constants.STARTS, needed=needed, **options)
    gain = (many.bound - needed) / max(sample.n_labels, 1)
    return Looked(many if gain > 0 else one, gain)


def fit_model(annotations: Labels, sample: Annotations, looked: Looked, **options: Any) -> Subtypes:
    """Fit the model to all labels, with the subtypes that the sample needs.

    Options are ``weights`` (how many times the labels of each annotator count), ``random_state``, ``max_iter``, ``tol``
    and ``callback``.
    """
    if looked.found is not None and sample is annotations:
        return looked.found
    if looked.found is None or looked.gain <= 0:
        return _fit(annotations, 1, **options)
    start = _needed(looked.found, annotations.n_classes)
    return _fit(annotations, start.prior.size // annotations.n_classes, start=start, **options)


def _fit(annotations: Labels, subtypes: int, *, starts: int = 1, **options: Any) -> Subtypes:
    return fit_subtypes(
        annotations,
        subtypes,
        smoothing=constants.SMOOTHING,
        diagonal=constants.DIAGONAL,
        concentration=constants.SUBTYPE_ITEMS,
        pseudo_items=constants.CLASS_ITEMS,
        starts=starts,
        **options,
    )


def _needed(found: Subtypes, n_classes: int) -> Parameters:
    """Return the tables of as many subtypes of each class as the class with the most of them has items in."""
    items = found.ascent.at.class_counts.reshape(n_classes, -1)
    n = int((items >= 0.5).sum(axis=1).max(initial=1))
    kept = np.argsort(-items, axis=1, kind="stable")[:, :n] + np.arange(n_classes)[:, None] * found.subtypes
    weights, tables = found.tables
    return Parameters(weights[kept.ravel()], np.ascontiguousarray(tables[:, :, kept.ravel()]))


@dataclass(frozen=True)
class SubtypeModel:
    """The fitted tables with their names; gives posteriors of any items by these annotators."""

    tables: Parameters  #: weights (K L,) and tables (M, K, K L)
    named: DawidSkene  #: the subtypes of a class taken together

    @classmethod
    def of(cls, found: Subtypes, annotations: Labels) -> SubtypeModel:
        """Name what was found in these annotations."""
        return cls(found.tables, DawidSkene(*found.means, annotations.class_ids, annotations.annotator_ids))

    def __call__(self, annotations: Annotations) -> Floats:
        """Return the posterior of every item, (N, K); an unknown annotator is like the average of the others."""
        coded, (weights, tables) = self.named.recoded(annotations), self.tables
        strangers = coded.n_annotators - len(tables)
        if strangers:
            tables = np.concatenate([tables, np.repeat(tables.mean(axis=0, keepdims=True), strangers, axis=0)])
        return subtype_sweep(coded, weights.size // coded.n_classes).posterior(weights, tables)
