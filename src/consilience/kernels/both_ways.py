"""One set of labels grouped by item and by annotator, for sweeps in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Ints
from consilience.kernels.grouping import group_by_item

__all__ = ["BothWays", "by_annotator", "normalise_row"]


class BothWays:
    """The labels of every item and of every annotator, in blocks that do not depend on the number of threads.

    Parameters
    ----------
    indptr, annotator, label
        The labels of item n are ``annotator[indptr[n]:indptr[n + 1]]`` and likewise ``label``.
    gold
        Known class of each item, -1 if unknown; None if no class is known.
    n_annotators, n_classes
        M and K.
    """

    def __init__(
        self, indptr: Ints, annotator: Codes, label: Codes, gold: Codes | None, n_annotators: int, n_classes: int
    ) -> None:
        self._by_item = indptr, annotator, label
        self._by_annotator = by_annotator(indptr, annotator, label, n_annotators, n_classes)
        self._gold = np.empty(0, np.int32) if gold is None else np.ascontiguousarray(gold, np.int32)
        self._blocks = {True: blocks.cut(indptr, 0), False: blocks.cut(self._by_annotator[0], 0)}


def by_annotator(
    indptr: Ints, annotator: Codes, label: Codes, n_annotators: int, n_classes: int
) -> tuple[Ints, Codes, Codes]:
    """Regroup labels from items to annotators: return ``indptr`` (M + 1,), ``item`` and ``label``."""
    n_items = indptr.size - 1
    item = np.repeat(np.arange(n_items, dtype=np.int32), np.diff(indptr))
    columns = annotator.astype(np.int32), item, label.astype(np.int32)
    return group_by_item(*columns, n_annotators, n_items, n_classes)


def normalise_row(q: Any, n: Any, counted: Any, sums: Any) -> Any:
    """Turn row n from log-probabilities into probabilities, add it to ``sums`` if counted, and return log Σ exp of it.

    A helper for kernels, to be compiled with them.
    """
    K = q.shape[1]
    top = q[n, 0]
    for k in range(1, K):
        top = max(top, q[n, k])
    total = 0.0
    for k in range(K):
        q[n, k] = np.exp(q[n, k] - top)
        total += q[n, k]
    for k in range(K):
        q[n, k] /= total
        if counted:
            sums[k] += q[n, k]
    return top + np.log(total)
