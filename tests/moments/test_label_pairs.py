"""Pairs of labels of one item: all of them, or a sample of bounded size that does not depend on order or names."""

from __future__ import annotations

import tracemalloc
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.kernels._arrays import Ints
from consilience.moments.label_pairs import ItemPairs, item_pairs


def _labels(rows: Ints, names: str = "", classes: list[int] | None = None) -> cs.Annotations:
    """Build annotations from rows (item, annotator, label); ids get a name that sorts and appears otherwise."""
    import pyarrow as pa

    named = [pa.array([f"{names}{(7919 * int(v)) % 10007}" if names else str(v) for v in rows[:, c]]) for c in (0, 1)]
    label = rows[:, 2] if classes is None else np.asarray(classes)[rows[:, 2]]
    return cs.Annotations.from_frame(pa.table({"item": named[0], "annotator": named[1], "label": label}))


def _crowd(sizes: list[int], n_annotators: int, seed: int = 0, n_classes: int = 3) -> Ints:
    rng = np.random.default_rng(seed)
    rows = [
        (item, m, rng.choice(n_classes, p=np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum()))
        for item, n in enumerate(sizes)
        for m in rng.choice(n_annotators, n, replace=False)
    ]
    return np.array(rows)


def _set(found: ItemPairs) -> list[tuple[int, int, int]]:
    item = found.items[np.searchsorted(found.indptr, found.first, side="right") - 1]
    low, high = np.minimum(found.first, found.second), np.maximum(found.first, found.second)
    return sorted(zip(item.tolist(), low.tolist(), high.tolist(), strict=True))


def test_few_labels_give_every_pair_once() -> None:
    sizes = [1, 2, 5, 3, 7, 1, 2]
    annotations = _labels(_crowd(sizes, 10))
    found = item_pairs(annotations, 10**6)
    starts = dict(zip(found.items.tolist(), found.indptr.tolist(), strict=False))
    expected = [
        (item, starts[item] + i, starts[item] + j) for item, n in enumerate(sizes) for i, j in combinations(range(n), 2)
    ]
    assert _set(found) == sorted(expected)
    assert found.annotator.size == sum(n for n in sizes if n >= 2)


@pytest.mark.parametrize("sizes", [[3000], [400] * 30, [6] * 4000, [2000, *[4] * 500], [129] * 3])
def test_the_sample_is_bounded_and_distinct(sizes: list[int]) -> None:
    annotations = _labels(_crowd(sizes, 3000))
    most = 20_000
    found = item_pairs(annotations, most)
    pairs = _set(found)
    assert len(set(pairs)) == len(pairs)
    assert all(low < high for _, low, high in pairs)
    item = np.searchsorted(found.indptr, [(low, high) for _, low, high in pairs], side="right")
    assert (item[:, 0] == item[:, 1]).all(), "both labels are of one item"
    available = sum(n * (n - 1) // 2 for n in sizes)
    assert min(available, most) * 0.5 <= len(pairs) <= most


def test_ten_thousand_labels_on_one_item_take_little_memory() -> None:
    annotations = _labels(_crowd([10_000, *[5] * 50], 10_000))
    tracemalloc.start()
    found = item_pairs(annotations, 50_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.first.size <= 50_000
    assert peak < 30e6


def _contents(annotations: cs.Annotations, found: ItemPairs) -> list[Any]:
    """Describe sampled pairs without names or positions: sizes of the item, the annotators and the classes."""
    a, n, k = annotations, annotations.labels_per_annotator, np.bincount(annotations.label)
    item = found.items[np.searchsorted(found.indptr, found.first, side="right") - 1]
    sides = [np.stack([n[found.annotator[s]], k[found.label[s]]], 1) for s in (found.first, found.second)]
    return sorted(
        (int(size), *sorted([tuple(one), tuple(other)]))
        for size, one, other in zip(a.labels_per_item[item], *(s.tolist() for s in sides), strict=True)
    )


@pytest.mark.parametrize("sizes", [[5] * 2000, [700, 300, *[6] * 300]])
def test_rows_names_and_classes_may_be_in_any_order(sizes: list[int]) -> None:
    rows = _crowd(sizes, 800, n_classes=4)
    plain = _labels(rows)
    shuffled = _labels(np.random.default_rng(1).permutation(rows), "x", [2, 0, 3, 1])
    one, other = (item_pairs(a, 5000) for a in (plain, shuffled))
    assert _contents(plain, one) == _contents(shuffled, other)


def test_pairs_of_a_dense_item_are_a_fair_sample() -> None:
    rows = _crowd([4000], 4000)
    annotations = _labels(rows)
    found = item_pairs(annotations, 40_000)
    share = np.bincount(rows[:, 2]) / len(rows)
    agree = (found.label[found.first] == found.label[found.second]).mean()
    expected = (share**2).sum()
    assert abs(agree - expected) < 4 * np.sqrt(expected * (1 - expected) / found.first.size)
    # labels are in as many pairs as chance explains
    uses = np.bincount(np.concatenate([found.first, found.second]), minlength=4000)
    assert uses.mean() == 20.0
    assert uses.var() < 1.2 * 20.0


def test_items_of_equal_content_have_their_share() -> None:
    """Three annotators who label everything: eight contents, each sampled in proportion."""
    rng = np.random.default_rng(3)
    label = (rng.random((6000, 3)) < [0.2, 0.5, 0.7]).astype(int)
    annotations = cs.Annotations.from_matrix(label)
    found = item_pairs(annotations, 3000)
    content = (label * [1, 2, 4]).sum(axis=1)
    whole, sampled = (np.bincount(content[i], minlength=8) for i in (np.arange(6000), found.items))
    assert found.items.size == found.first.size == 3000
    assert np.abs(sampled - whole / 2).max() <= 1.0


def test_sums_over_a_sample_estimate_sums_over_all_pairs() -> None:
    """A panel that labels everything: 36 pairs on each item, of which 25 are sampled."""
    rng = np.random.default_rng(1)
    hard = rng.random((2000, 1)) < 0.2
    label = (rng.random((2000, 9)) < np.where(hard, 0.5, np.linspace(0.6, 0.95, 9))).astype(int)
    annotations = cs.Annotations.from_matrix(label)
    every, some = item_pairs(annotations, 10**6), item_pairs(annotations, 50_000)
    assert (every.first.size, some.first.size) == (72_000, 50_000)
    agree = [(p.label[p.first] == p.label[p.second]).mean() for p in (every, some)]
    error = np.sqrt(agree[0] * (1 - agree[0]) / 50_000 * (1 - 50 / 72))
    assert abs(agree[1] - agree[0]) < 3.5 * error
    # every two annotators have about as many pairs
    one, other = (some.annotator[s] for s in (some.first, some.second))
    uses = np.bincount(np.minimum(one, other) * 9 + np.maximum(one, other), minlength=81)
    uses = uses[uses > 0]
    assert uses.size == 36
    assert np.abs(uses - 50_000 / 36).max() < 5 * np.sqrt(2000 * 25 / 36 * 11 / 36)
