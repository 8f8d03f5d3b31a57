"""What one decision changes at once: the annotators of the item, and through them all items that they labelled.

A decision moves the item from its posterior to a certain class, δ = e_k - p_n.  Each of its labels moves a row of its
annotator's expected counts by δ, and so the logarithm of that annotator's confusion.  The other items of these
annotators follow to first order in the model, with the weight that the consensus gives to the model's evidence:

    C_m(i, ·) += δ,   A_m = (C_m + s) / Σ_i (C_m + s),   log p_j += w_j Σ over labels (m, i) of j of Δ log A_m(i, ·).

Nothing is iterated: the exact fit follows in the background and replaces this.

====== ============================== ============
symbol name                           shape
====== ============================== ============
C      ``counts``                     (M, K, K)
p      ``posterior``                  (N, K)
w      ``weight``                     (N,)
====== ============================== ============
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.auto import constants
from consilience.data.annotations import Annotations, entries_of
from consilience.kernels._arrays import Codes, Floats, Ints

__all__ = ["Beliefs", "LabelsByAnnotator", "beliefs_of", "decided", "shifted"]

#: Labels of the item's annotators that are followed at most; the exact fit follows all.
MOST_LABELS = 100_000


class LabelsByAnnotator(NamedTuple):
    """The labels grouped by annotator: those of m are ``indptr[m]`` up to ``indptr[m + 1]``."""

    indptr: Ints
    item: Codes
    label: Codes

    @classmethod
    def of(cls, annotations: Annotations) -> LabelsByAnnotator:
        """Group the labels; items ascend within an annotator."""
        order = np.argsort(annotations.annotator, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(annotations.labels_per_annotator)])
        item = np.repeat(np.arange(annotations.n_items, dtype=np.int32), annotations.labels_per_item)
        return cls(indptr, item[order], annotations.label[order])


class Beliefs(NamedTuple):
    """Posterior and expected counts, between two exact fits."""

    posterior: Floats
    counts: Floats
    weight: Floats


def beliefs_of(annotations: Annotations, posterior: Floats, counts: Floats, method: str) -> Beliefs:
    """Return the state after a fit; ``auto`` weighs the model as :mod:`consilience.auto.pool` does."""
    n = np.maximum(annotations.labels_per_item, 1).astype(float)
    if method != "auto":
        return Beliefs(posterior, counts, np.ones(n.size))
    _, of_model = constants.EXPONENTS["assigned"]
    return Beliefs(posterior, counts, of_model / (1.0 + (n - 1.0) * constants.CORRELATION))


def shifted(
    annotations: Annotations, by: LabelsByAnnotator, now: Beliefs, n: int, k: int
) -> tuple[Ints, Floats, Ints, Floats]:
    """Return the items that a decision for class k on item n moves, their posterior, and its annotators' counts.

    Item n itself is left out, and so are items whose class is certain.
    """
    here = slice(int(annotations.indptr[n]), int(annotations.indptr[n + 1]))
    who, row = np.unique(annotations.annotator[here].astype(np.int64), return_inverse=True)
    delta = -now.posterior[n]
    delta[k] += 1.0
    before = now.counts[who]
    after = before.copy()
    np.add.at(after, (row, annotations.label[here].astype(np.int64)), delta)
    change = _log_confusions(after) - _log_confusions(before)
    if int((by.indptr[who + 1] - by.indptr[who]).sum()) > MOST_LABELS:
        return np.empty(0, np.int64), np.empty((0, delta.size)), who, after
    first, at = entries_of(by.indptr, who)
    moves = change[np.repeat(np.arange(who.size), np.diff(first)), by.label[at]]
    items, place = np.unique(by.item[at], return_inverse=True)
    K = delta.size
    cells = (place[:, None] * K + np.arange(K)).ravel()
    total = np.bincount(cells, moves.ravel(), items.size * K).reshape(items.size, K)
    p = now.posterior[items]
    moved = p * np.exp(now.weight[items, None] * total)
    moved /= np.maximum(moved.sum(axis=1, keepdims=True), 1e-300)
    free = (items != n) & (p.max(axis=1) < 1.0)
    return items[free], moved[free], who, after


def decided(annotations: Annotations, by: LabelsByAnnotator, now: Beliefs, n: int, k: int, settled: Ints) -> Ints:
    """Update the beliefs in place after a decision; return the items that moved.  Known items are ``settled``."""
    items, moved, who, counts = shifted(annotations, by, now, n, k)
    free = ~np.isin(items, settled)
    now.counts[who] = counts
    now.posterior[items[free]] = moved[free]
    now.posterior[n] = np.arange(now.posterior.shape[1]) == k
    return items[free]


def _log_confusions(counts: Floats) -> Floats:
    """Return log A under the prior of ``auto``: pseudo-labels in every cell, more on the diagonal."""
    K = counts.shape[1]
    smooth = np.maximum(counts, 0.0) + constants.SMOOTHING + constants.DIAGONAL * np.eye(K)
    logs: Floats = np.log(smooth / smooth.sum(axis=1, keepdims=True))
    return logs
