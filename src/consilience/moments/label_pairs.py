"""Pairs of labels of one item: all of them, or a sample of bounded size.

An item with n labels has n (n - 1) / 2 pairs.  Where there are more pairs than wanted, they are sampled evenly, so that
sums over the sample estimate sums over all.  Of many labels, items are sampled first.  The sample is systematic: items,
and labels within an item, are sorted by a hash of their content, and taken at about equal distances.
The hash depends neither on the order of rows nor on names:

    class       c_k  =  h(number of labels k)
    votes       v_n  =  Σ c_k over the labels k of the item
    annotator   a_m  =  Σ h(c_k + h(v_n)) over their labels k of items n
    item        b_n  =  Σ h(a_m + c_k) over its labels k by annotators m

with sums modulo 2^64.  Items of equal content are neighbours in this order, so each content has its share of a sample.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from consilience.data.annotations import Annotations
from consilience.kernels._arrays import Ints

__all__ = ["ItemPairs", "annotators_by_content", "item_pairs", "items_by_content"]

#: Labels of the sampled items for each pair wanted, if there are so many.  Chosen for time: pairs from many items vary
#: less than as many pairs from few items.
_SPREAD = 8
#: Labels that are hashed at a time.
_BLOCK = 1 << 20

_Hashes = npt.NDArray[np.uint64]


class ItemPairs(NamedTuple):
    """Labels of some items with two or more labels, and pairs of these labels."""

    items: Ints  #: the items, (I,)
    indptr: Ints  #: where the labels of each begin, (I + 1,)
    annotator: Ints  #: annotator and label of each of their labels
    label: Ints
    first: Ints  #: positions of the two labels of each pair, (P,)
    second: Ints


def item_pairs(annotations: Annotations, most: int) -> ItemPairs:
    """Return pairs of labels of one item: at most about ``most`` of them, whatever the shape of the crowd."""
    n = annotations.labels_per_item.astype(np.int64)
    items = np.flatnonzero(n >= 2)
    is_sample = float((n * (n - 1.0)).sum()) / 2.0 > most
    if is_sample:
        hashes = _hashes(annotations)
        step = -(-max(items.size * _SPREAD, int(n[items].sum())) // (_SPREAD * most))
        items = items[np.argsort(hashes.item[items], kind="stable")][min(step, items.size) // 2 :: step]
    indptr = np.concatenate([[0], np.cumsum(n[items])])
    places = np.arange(indptr[-1]) + np.repeat(annotations.indptr[:-1][items] - indptr[:-1], n[items])
    annotator, label = (codes[places].astype(np.int64) for codes in (annotations.annotator, annotations.label))
    if not is_sample:
        return ItemPairs(items, indptr, annotator, label, *_all_pairs(indptr))
    # another order of labels on every item: items of equal content would have the same pairs otherwise
    rank = np.repeat(np.arange(items.size, dtype=np.uint64), n[items])
    order = np.lexsort((_mixed(hashes.of(annotator, label) + _mixed(rank)), rank))
    first, second = _some_pairs(indptr, most)
    return ItemPairs(items, indptr, annotator, label, order[first], order[second])


def items_by_content(annotations: Annotations) -> Ints:
    """Return the items in an order that depends neither on rows nor on names; items of equal content are neighbours."""
    return np.argsort(_hashes(annotations).item, kind="stable")


def annotators_by_content(annotations: Annotations) -> Ints:
    """Return the annotators in an order that depends neither on rows nor on names."""
    return np.argsort(_hashes(annotations).by_annotator, kind="stable")


def _all_pairs(indptr: Ints) -> tuple[Ints, Ints]:
    """Return the positions of the first and of the second label of every pair of an item."""
    n = np.diff(indptr)
    first, second = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for size in np.unique(n):
        place = indptr[:-1][n == size]
        one, other = np.triu_indices(size, 1)
        first.append((place[:, None] + one).ravel())
        second.append((place[:, None] + other).ravel())
    return np.concatenate(first), np.concatenate(second)


def _some_pairs(indptr: Ints, most: int) -> tuple[Ints, Ints]:
    """Return ``most`` pairs: all pairs are cut into so many equal parts, and each part has one, at a random place."""
    n = np.diff(indptr)
    ends = np.concatenate([[0], np.cumsum(n * (n - 1) // 2)])
    edges = np.linspace(0, ends[-1], min(most, int(ends[-1])) + 1).astype(np.int64)
    u = (_mixed(np.arange(edges.size - 1, dtype=np.uint64)) >> np.uint64(11)) / 2.0**53
    p = edges[:-1] + (u * np.diff(edges)).astype(np.int64)
    item = np.searchsorted(ends, p, side="right") - 1
    # labels of an item on a circle: pair p is label i and the one d places further, with p = i + n (d - 1)
    p, n, start = p - ends[item], n[item], indptr[item]
    return start + p % n, start + (p + p // n + 1) % n


class _Content(NamedTuple):
    by_class: _Hashes  #: c, (K,)
    by_annotator: _Hashes  #: a, (M,)
    item: _Hashes  #: b, (N,)

    def of(self, annotator: Ints, label: Ints) -> _Hashes:
        """Return h(a_m + c_k) of labels."""
        return _mixed(self.by_annotator[annotator] + self.by_class[label])


def _hashes(annotations: Annotations) -> _Content:
    """Compute the hashes of the content, a block of items at a time."""
    a, indptr = annotations, annotations.indptr
    cuts = np.unique(np.append(np.searchsorted(indptr, np.arange(0, a.n_labels, _BLOCK)), a.n_items)).tolist()
    blocks = [(low, high, slice(int(indptr[low]), int(indptr[high]))) for low, high in pairwise(cuts)]
    times = np.zeros(a.n_classes, np.uint64)
    for *_, inside in blocks:
        times += np.bincount(a.label[inside], minlength=a.n_classes).astype(np.uint64)
    c = _mixed(times)
    made = _Content(c, np.zeros(a.n_annotators, np.uint64), np.zeros(a.n_items, np.uint64))
    for low, high, inside in blocks:
        ends, own = indptr[low : high + 1], c[a.label[inside]]
        h = _mixed(own + np.repeat(_mixed(_item_sums(own, ends)), np.diff(ends)))
        np.add.at(made.by_annotator, a.annotator[inside], h)
    for low, high, inside in blocks:
        made.item[low:high] = _item_sums(made.of(a.annotator[inside], a.label[inside]), indptr[low : high + 1])
    return made


def _item_sums(values: _Hashes, ends: Ints) -> _Hashes:
    """Return the sum of each item: a difference of running sums, which may wrap around."""
    running = np.concatenate([[np.uint64(0)], np.cumsum(values)])
    sums: _Hashes = np.diff(running[ends - ends[0]])
    return sums


def _mixed(x: _Hashes) -> _Hashes:
    """Return well-mixed bits of each number (the finaliser of splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
