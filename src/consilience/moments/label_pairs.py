"""Pairs of labels of one item, by their positions."""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.kernels._arrays import Ints

__all__ = ["label_pairs", "labels_of_some"]


def labels_of_some(annotations: Annotations, most_pairs: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Return items with two or more labels, their ``indptr``, and annotator and label of each label.

    With more than ``most_pairs`` pairs of labels, every n-th item is taken.
    """
    n = annotations.labels_per_item
    step = max(1, int(np.ceil((n * (n - 1.0)).sum() / 2 / most_pairs)))
    kept = np.zeros(n.size, bool)
    kept[::step] = n[::step] >= 2
    indptr = np.concatenate([[0], np.cumsum(n[kept])])
    places = np.arange(indptr[-1]) + np.repeat(annotations.indptr[:-1][kept] - indptr[:-1], n[kept])
    return (
        np.flatnonzero(kept),
        indptr,
        annotations.annotator[places].astype(np.int64),
        annotations.label[places].astype(np.int64),
    )


def label_pairs(indptr: Ints) -> tuple[Ints, Ints]:
    """Return the positions of the first and of the second label of every pair on one item."""
    n = np.diff(indptr)
    first, second = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for size in np.unique(n):
        place = indptr[:-1][n == size]
        one, other = np.triu_indices(size, 1)
        first.append((place[:, None] + one).ravel())
        second.append((place[:, None] + other).ravel())
    return np.concatenate(first), np.concatenate(second)
