"""The model of ``auto``: a confusion matrix for every annotator, and subtypes of classes where annotators err together.

:mod:`consilience.methods.ebcc` has the model.  Subtypes are looked for in a sample of the items, from several starts.
If they do not clearly raise the lower bound of the log-probability of the labels, the model has none; otherwise the
subtypes that the sample needs are the start of a fit to all labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from consilience.auto import constants
from consilience.data.annotations import Annotations
from consilience.fitting.em import Parameters
from consilience.kernels._arrays import Floats
from consilience.methods.ebcc import Subtypes, fit_subtypes, subtype_sweep
from consilience.models.dawid_skene import DawidSkene

__all__ = ["Model", "SubtypeModel", "fit_model", "sample_of"]


class Model(NamedTuple):
    """The fitted model."""

    subtypes: Subtypes
    gain: float  #: what subtypes add to the lower bound beyond the margin, nats per label of the sample


def sample_of(annotations: Annotations) -> Annotations:
    """Return every n-th item, such that about ``SAMPLE`` labels remain."""
    step = -(-annotations.n_labels // constants.SAMPLE)
    return annotations.select_items(np.arange(0, annotations.n_items, step)) if step > 1 else annotations


def fit_model(
    annotations: Annotations,
    sample: Annotations,
    *,
    weights: Floats | None = None,
    random_state: Any = 0,
    options: Mapping[str, Any],
) -> Model:
    """Fit the model to all labels; subtypes are looked for in the ``sample``, which may be all of them."""
    fixed = {
        "smoothing": constants.SMOOTHING,
        "diagonal": constants.DIAGONAL,
        "concentration": constants.SUBTYPE_ITEMS,
        "pseudo_items": constants.CLASS_ITEMS,
        "weights": weights,
        "random_state": random_state,
        **options,
    }
    gain, found = 0.0, None
    cells = annotations.n_annotators * annotations.n_classes**2
    if annotations.n_classes > 1 and cells * constants.SUBTYPES <= constants.MOST_CELLS:
        one = fit_subtypes(sample, 1, starts=1, **fixed)
        needed = one.bound + constants.MARGIN
        many = fit_subtypes(sample, constants.SUBTYPES, starts=constants.STARTS, needed=needed, **fixed)
        gain = (many.bound - needed) / max(sample.n_labels, 1)
        found = many if gain > 0 else one
        if sample is annotations:
            return Model(found, gain)
    if found is None or gain <= 0:
        return Model(fit_subtypes(annotations, 1, starts=1, **fixed), gain)
    start = _needed(found, annotations.n_classes)
    subtypes = start.prior.size // annotations.n_classes
    return Model(fit_subtypes(annotations, subtypes, start=start, starts=1, **fixed), gain)


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
    def of(cls, found: Subtypes, annotations: Annotations) -> SubtypeModel:
        """Name what was found in these annotations."""
        return cls(found.tables, DawidSkene(*found.means, annotations.class_ids, annotations.annotator_ids))

    def __call__(self, annotations: Annotations) -> Floats:
        """Return the posterior of every item, (N, K); an unknown annotator is like the average of the others."""
        coded, (weights, tables) = self.named.recoded(annotations), self.tables
        strangers = coded.n_annotators - len(tables)
        if strangers:
            tables = np.concatenate([tables, np.repeat(tables.mean(axis=0, keepdims=True), strangers, axis=0)])
        return subtype_sweep(coded, weights.size // coded.n_classes).posterior(weights, tables)
