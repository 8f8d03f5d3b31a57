"""Refusals and unparsable answers: how often each judge gives no verdict, and what they do to its error.

A refusal is a label of a class that stands for one ("refused", "garbage"), or, if every judge was asked about every
item, a missing label.  Refusals are dropped before anything else is computed; counted as errors they give the error of
a judge who must answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Bools, Codes, Floats

__all__ = ["Refusals", "take_refusals"]


class Refusals(NamedTuple):
    """Who gave no verdict on which items."""

    asked: Floats  #: items that each judge was asked about, (M,)
    refused: Floats  #: those without a verdict, (M,)
    item: Codes
    annotator: Codes

    def on(self, known: Bools) -> Floats:
        """Return the refusals of each judge on these items, (M,)."""
        counts: Floats = np.bincount(self.annotator[known[self.item]], minlength=self.asked.size).astype(np.float64)
        return counts


def take_refusals(annotations: Annotations, refusals: Any) -> tuple[Annotations, Refusals]:
    """Return the labels without refusals, and these; ``refusals`` is a class, several, or True for missing labels."""
    a = annotations
    N, M = a.n_items, a.n_annotators
    item = a.item_of_label()
    if refusals is True:
        there = np.zeros((N, M), bool)
        there[item, a.annotator] = True
        rows, who = np.nonzero(~there)
        return a, Refusals(np.full(M, float(N)), np.bincount(who, minlength=M).astype(np.float64), rows, who)
    wanted = list(refusals) if isinstance(refusals, list | tuple | set | frozenset) else [refusals]
    names = [str(name) for name in a.classes]
    unknown = [name for name in wanted if str(name) not in names]
    if unknown:
        raise ParameterError(f"refusals names {unknown[0]!r}, which is not one of the classes {', '.join(names[:10])}")
    refused = np.isin(a.label, [names.index(str(name)) for name in wanted])
    if refused.all():
        raise DataError("all labels are refusals: there is nothing to audit")
    asked = a.labels_per_annotator.astype(np.float64)
    counts = np.bincount(a.annotator[refused], minlength=M).astype(np.float64)
    before = np.concatenate([[0], np.cumsum(~refused)])
    kept = a._with(
        indptr=before[a.indptr],
        annotator=a.annotator[~refused],
        label=a.label[~refused],
        time=None if a.time is None else a.time[~refused],
        gold=None,
    )
    classes = Ids(a.class_ids.to_arrow().take(np.flatnonzero([name not in map(str, wanted) for name in names])))
    return kept.recode(a.annotator_ids, classes), Refusals(asked, counts, item[refused], a.annotator[refused])
