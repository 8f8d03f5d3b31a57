"""Krippendorff's α where answers are sets of options, with the distances of Jaccard or MASI.

    Jaccard:  d(A, B) = 1 - |A ∩ B| / |A ∪ B|
    MASI:     d(A, B) = 1 - m |A ∩ B| / |A ∪ B|,   m = 1 if A = B, 2/3 if one contains the other, 1/3 if they
              overlap otherwise, 0 if not                                                       (Passonneau 2006)

Two empty sets have distance 0.  α = 1 - D_o / D_e has the means of d over pairs within items, each item weighted by its
labels, and over all pairs (:mod:`consilience.diagnose.agreement`).  Observed agreement is 1 less the mean of d over the
pairs of an item, mean over items.

R. Passonneau, "Measuring agreement on set-valued items (MASI) for semantic and pragmatic annotation" (2006).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.option_sets import option_sets
from consilience.diagnose.agreement import Agreement, Measure, in_canonical_order, measured
from consilience.diagnose.coefficients import bootstrap_weights, ratio
from consilience.diagnose.constants import AGREEMENT_BLOCKS
from consilience.diagnose.graph import single_answers
from consilience.exceptions import DataError
from consilience.kernels._arrays import Floats, Ints

__all__ = ["Distance", "set_agreement", "set_distances"]

Distance = Literal["jaccard", "masi"]
#: Different sets beyond which a bootstrap would take too long: there are no intervals.
_MOST_SETS = 2000
#: Different sets whose distances are held at a time.
_AT_ONCE = 512


def set_distances(first: Ints, option: Ints, n_options: int, rows: slice, distance: Distance) -> Floats:
    """Return the distances of these sets to all sets, (rows, K)."""
    from scipy.sparse import csr_matrix

    K = first.size - 1
    sets = csr_matrix((np.ones(option.size), option, first), shape=(K, max(n_options, 1)))
    size = np.diff(first).astype(float)
    both = np.asarray((sets[rows] @ sets.T).todense())
    own, other = size[rows, None], size[None, :]
    jaccard = np.where(own + other > 0, both / np.maximum(own + other - both, 1.0), 1.0)
    if distance == "jaccard":
        return 1.0 - jaccard
    equal = (both == own) & (both == other)
    nested = (both == own) | (both == other)
    weight = np.where(equal, 1.0, np.where(nested, 2.0 / 3.0, 1.0 / 3.0))
    return 1.0 - weight * jaccard


def set_agreement(
    annotations: Annotations, distance: Distance, *, bootstrap: int = 1000, confidence: float = 0.95, seed: int = 0
) -> Agreement:
    """Measure agreement on sets; the classes of the labels are options joined by ``|``."""
    a = in_canonical_order(single_answers(annotations, gold=False))
    a = a.select_items(a.labels_per_item > 1)
    if not a.n_items:
        raise DataError("no item has labels of two annotators: there is no agreement to measure")
    sets = option_sets(a.class_ids)
    within = _sums(a, (sets.first, sets.option.astype(np.int64)), len(sets.options), distance)
    n = a.labels_per_item.astype(float)
    rng = np.random.default_rng(seed)
    K = a.n_classes
    blocks = min(a.n_items, AGREEMENT_BLOCKS)
    block = np.arange(a.n_items) if blocks == a.n_items else rng.permutation(a.n_items) % blocks
    tables = [np.ones((1, blocks))]
    if bootstrap and K <= _MOST_SETS:
        tables.append(bootstrap_weights(rng, blocks, bootstrap))
    weights = np.concatenate(tables)
    cells = np.bincount(block[a.item_of_label()] * K + a.label, minlength=blocks * K).reshape(blocks, K).astype(float)
    used = weights @ cells  # labels of each set, in every draw
    between = np.zeros(len(weights))
    for start in range(0, K, _AT_ONCE):
        rows = slice(start, min(start + _AT_ONCE, K))
        d = set_distances(sets.first, sets.option.astype(np.int64), len(sets.options), rows, distance)
        between += np.einsum("dk,dk->d", used[:, rows] @ d, used)
    total = used.sum(axis=1)
    # D_o = Σ_u Σ_pairs d / (n_u - 1) / n,   D_e = Σ_kl n_k n_l d_kl / (n (n - 1))
    inside = weights @ np.bincount(block, within / (n - 1.0), blocks)
    alpha = 1.0 - ratio(inside * (total - 1.0), np.where(between > 1e-12 * total, between, 0.0))
    similar = weights @ np.bincount(block, 1.0 - within / (n * (n - 1.0)), blocks)
    observed = ratio(similar, weights @ np.bincount(block, minlength=blocks).astype(float))
    tail = 0.5 * (1.0 - confidence)
    nothing = Measure(None, None, None)
    return Agreement(
        observed=measured(float(observed[0]), [observed[1:]], tail),
        alpha=measured(float(alpha[0]), [alpha[1:]], tail),
        fleiss=nothing,
        cohen=nothing,
        gwet=nothing,
        level=distance,
        confidence=confidence,
        draws=len(weights) - 1,
        n_items=a.n_items,
        n_labels=a.n_labels,
        n_annotators=int((a.labels_per_annotator > 0).sum()),
        origin=a.origin,
    )


def _sums(a: Annotations, sets: tuple[Ints, Ints], n_options: int, distance: Distance) -> Floats:
    """Return the sum of distances over ordered pairs of labels of each item, (N,)."""
    n = a.labels_per_item
    first, second = _pairs(a.indptr)
    item = np.repeat(np.arange(a.n_items), n * (n - 1) // 2)
    pair, code = np.unique(
        np.stack([np.minimum(a.label[first], a.label[second]), np.maximum(a.label[first], a.label[second])], axis=1),
        axis=0,
        return_inverse=True,
    )
    d = np.empty(len(pair))
    for start in range(0, a.n_classes, _AT_ONCE):
        rows = slice(start, min(start + _AT_ONCE, a.n_classes))
        here = np.flatnonzero((pair[:, 0] >= rows.start) & (pair[:, 0] < rows.stop))
        if here.size:
            table = set_distances(*sets, n_options, rows, distance)
            d[here] = table[pair[here, 0] - start, pair[here, 1]]
    return 2.0 * np.bincount(item, d[code.ravel()], a.n_items).astype(np.float64)


def _pairs(indptr: Ints) -> tuple[Ints, Ints]:
    """Return all pairs of labels of the same item, item after item."""
    n = np.diff(indptr)
    row = np.arange(indptr[-1]) - np.repeat(indptr[:-1], n)
    left = np.repeat(n, n) - row - 1  # labels after each label, in its item
    first = np.repeat(np.arange(indptr[-1]), left)
    within = np.arange(first.size) - np.repeat(np.cumsum(left) - left, left)
    return first, first + 1 + within
