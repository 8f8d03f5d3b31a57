"""An order of annotators and classes that depends on what was said, not on names or on the order of rows.

Alternating updates end a little elsewhere if they begin with another annotator, and random starts belong to those for
whom they are drawn.  In this order of annotators and classes, both are the same for the same labels under other names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, Self

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.passes import Labels, passes_of
from consilience.fitting.em import ConfusionStep
from consilience.fitting.fit import Fit, vote_start
from consilience.fitting.m_steps import Parameters
from consilience.kernels._arrays import Ints
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences

__all__ = ["Order", "in_canonical_order"]

#: Labels added to every cell of the model of the votes, so that no probability is zero.
_START_SMOOTHING = 0.1

P = ParamSpec("P")


class Order(NamedTuple):
    """Annotators (M,) and classes (K,), given by their codes, in canonical order."""

    annotators: Ints
    classes: Ints

    @classmethod
    def of(cls, data: Labels) -> Self:
        """Return the order of these annotators and classes: most labels first.

        Classes that are equally frequent are ordered by the numbers of labels of their most frequent users; annotators
        who say every class equally often by how often they are right under the model of the votes.
        """
        passes = passes_of(data)
        said = passes.survey.said
        classes = np.lexsort((*np.sort(said, axis=0), said.sum(axis=0)))[::-1]
        counts = passes.sweep(*vote_start(passes, ConfusionStep(_START_SMOOTHING))).counts
        # rounded, as sums depend on the order of rows in their last bits
        right = np.round(np.einsum("mkk->mk", counts)[:, classes], 9)
        annotators = np.lexsort((*right.T, *said[:, classes].T, said.sum(axis=1)))[::-1]
        return cls(annotators, classes)

    @property
    def back(self) -> Self:
        """The positions of annotators and classes in this order."""
        return type(self)(np.argsort(self.annotators), np.argsort(self.classes))

    def parameters(self, parameters: Parameters) -> Parameters:
        """Return parameters of annotators and classes in this order."""
        confusions = parameters.confusions[np.ix_(self.annotators, self.classes, self.classes)]
        return Parameters(parameters.prior[self.classes], confusions)

    def pairs(self, pairs: CoOccurrences) -> CoOccurrences:
        """Return the co-occurrences of annotators and classes in this order."""
        who = self.back.annotators[pairs.who]
        counts = pairs.counts[:, self.classes][:, :, self.classes]
        turned = who[:, 0] > who[:, 1]
        counts = np.where(turned[:, None, None], counts.transpose(0, 2, 1), counts)
        who = np.sort(who, axis=1)
        rank = np.lexsort((who[:, 1], who[:, 0]))
        names = pairs.annotators.take(self.annotators), pairs.classes.take(self.classes)
        return CoOccurrences(who[rank], counts[rank], *names)


def in_canonical_order(
    method: Callable[Concatenate[Annotations, P], Fit],
) -> Callable[Concatenate[Annotations, P], Fit]:
    """Return the method with annotators and classes in canonical order while it runs."""

    @wraps(method)
    def ordered(annotations: Annotations, /, *args: P.args, **options: P.kwargs) -> Fit:
        a, order = annotations, Order.of(annotations)
        fit = method(
            a.recode(a.annotator_ids.take(order.annotators), a.class_ids.take(order.classes)), *args, **options
        )
        back = order.back
        found = back.parameters(Parameters(fit.model.prior, fit.model.confusions))
        return replace(
            fit,
            model=DawidSkene(*found, a.class_ids, a.annotator_ids),
            posterior=np.ascontiguousarray(fit.posterior[:, back.classes]),
            candidates=tuple(map(back.parameters, fit.candidates)),
        )

    return ordered
