"""Pair and triple counts against counting by hand, both ways of counting against each other."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import consilience as cs
from consilience.data.ids import Ids
from consilience.exceptions import FormatError, MethodError, ParameterError
from consilience.kernels import cooccurrence as kernels
from consilience.moments import CoOccurrences, pair_moments, triple_moments


def crowd(seed: int = 0, n_items: int = 200, n_annotators: int = 7, n_classes: int = 3) -> cs.Annotations:
    return cs.simulate(n_items, n_annotators, n_classes, label_probability=0.35, seed=seed).annotations


def by_hand(a: cs.Annotations, order: int) -> dict[tuple[int, ...], np.ndarray]:
    counts: dict[tuple[int, ...], np.ndarray] = {}
    for n in range(a.n_items):
        here = slice(a.indptr[n], a.indptr[n + 1])
        said = sorted(zip(a.annotator[here], a.label[here], strict=True))
        for chosen in combinations(said, order):
            who = tuple(int(m) for m, _ in chosen)
            block = counts.setdefault(who, np.zeros([a.n_classes] * order, int))
            block[tuple(int(i) for _, i in chosen)] += 1
    return counts


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_made_by_hand(order: int, seed: int) -> None:
    a = crowd(seed)
    found = pair_moments(a) if order == 2 else triple_moments(a)
    expected = by_hand(a, order)
    assert [tuple(row) for row in found.who.tolist()] == sorted(expected)
    for who, block in zip(found.who.tolist(), found.counts, strict=True):
        np.testing.assert_array_equal(block, expected[tuple(who)])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), K=st.integers(1, 5), M=st.integers(1, 9))
def test_sorting_keys_and_the_table_agree(seed: int, K: int, M: int) -> None:
    rng = np.random.default_rng(seed)
    degree = rng.integers(0, M + 1, 40)
    indptr = np.concatenate([[0], np.cumsum(degree)])
    annotator = np.concatenate([rng.permutation(M)[:d] for d in degree]).astype(np.uint8)
    label = rng.integers(0, K, annotator.size).astype(np.uint8)
    table = kernels._by_table(indptr, annotator, label, M, K)
    keys = kernels._by_sorting(indptr, annotator, label, M, K)
    np.testing.assert_array_equal(table[0], keys[0])
    np.testing.assert_array_equal(table[1], keys[1])


def test_repeated_answers_do_not_pair_an_annotator_with_themselves() -> None:
    a = cs.datasets.load("dawid_skene").annotations  # the first observer rated every patient three times
    pairs = pair_moments(a)
    assert (pairs.who[:, 0] < pairs.who[:, 1]).all()
    # three of the first observer's labels meet one of the second's on each of 45 patients
    assert pairs.totals[pairs.find(0, 1)] == 3 * 45
    assert kernels._by_sorting(a.indptr, a.annotator, a.label, 5, 4)[1].tolist() == pairs.counts.tolist()


@pytest.mark.parametrize("count", [pair_moments, triple_moments])
def test_disjoint_sets_of_items_add_up_to_the_whole(count: type) -> None:
    a = crowd(5)
    first, second = a.select_items(np.arange(0, 60)), a.select_items(np.arange(60, a.n_items))
    assert count(first) + count(second) == count(a)
    assert count(second) + count(first) == count(a)


def test_counts_of_one_thread_and_of_two_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    a = cs.simulate(30_000, 30, 3, seed=3).annotations
    monkeypatch.setenv("CONSILIENCE_THREADS", "1")
    one = pair_moments(a)
    monkeypatch.delenv("CONSILIENCE_THREADS")
    assert pair_moments(a) == one


def test_blocks_sum_to_one_and_are_transposed_the_other_way() -> None:
    pairs = pair_moments(crowd())
    np.testing.assert_allclose(pairs.frequencies.sum(axis=(1, 2)), 1.0)
    m, j = pairs.who[3]
    block, mirrored = pairs.block(m, j), pairs.block(j, m)
    assert block is not None
    assert mirrored is not None
    np.testing.assert_array_equal(block, mirrored.T)
    np.testing.assert_allclose(block, pairs.frequencies[3])


def test_who_never_met_has_no_block_and_is_counted_as_missing() -> None:
    matrix = np.array([[0, 1, -1, -1], [1, 1, -1, -1], [-1, -1, 0, 0], [-1, -1, 1, -1]])
    pairs = pair_moments(cs.Annotations.from_matrix(matrix))
    assert pairs.who.tolist() == [[0, 1], [2, 3]]
    assert pairs.block(0, 2) is None
    assert pairs.missing == pytest.approx(4 / 6)
    around = pairs.neighbours
    assert [around.neighbour[around.indptr[m] : around.indptr[m + 1]].tolist() for m in range(4)] == [
        [1],
        [0],
        [3],
        [2],
    ]


def test_neighbours_know_their_blocks() -> None:
    pairs = pair_moments(crowd(1))
    indptr, neighbour, pair = pairs.neighbours
    for m in range(pairs.n_annotators):
        others = neighbour[indptr[m] : indptr[m + 1]]
        assert (np.diff(others) > 0).all()
        for j, p in zip(others, pair[indptr[m] : indptr[m + 1]], strict=True):
            assert sorted((m, int(j))) == pairs.who[p].tolist()


def test_they_are_saved_and_loaded_without_loss(tmp_path: Path) -> None:
    pairs = pair_moments(crowd())
    pairs.save(tmp_path / "pairs.npz")
    loaded = CoOccurrences.load(tmp_path / "pairs.npz")
    assert loaded == pairs
    assert list(loaded.annotators) == list(pairs.annotators)
    cs.simulate(50, 3, 2).model.save(tmp_path / "model.npz")
    with pytest.raises(FormatError, match="not co-occurrences"):
        CoOccurrences.load(tmp_path / "model.npz")


def test_too_many_annotators_for_triples_are_refused() -> None:
    a = cs.simulate(500, 400, 4, seed=0).annotations
    with pytest.raises(MethodError, match="select fewer annotators"):
        triple_moments(a)


def test_pairs_in_disorder_are_refused() -> None:
    names, block = Ids(["a", "b", "c"]), np.ones((2, 2, 2))
    with pytest.raises(ParameterError, match="increasing order"):
        CoOccurrences(np.array([[1, 2], [0, 1]]), block, names, Ids([0, 1]))
    with pytest.raises(ParameterError, match="increasing order"):
        CoOccurrences(np.array([[1, 0], [0, 1]]), block, names, Ids([0, 1]))
    with pytest.raises(ParameterError, match="shape"):
        CoOccurrences(np.array([[0, 1]]), block, names, Ids([0, 1]))
    with pytest.raises(ParameterError, match="same annotators"):
        pair_moments(crowd()) + pair_moments(crowd(n_annotators=5))


def test_an_item_with_many_labels_adds_a_sample_of_its_pairs() -> None:
    """Of 3,000 labels on one item, pairs of 1,000 and one of each other; items with few labels as they are."""
    rng = np.random.default_rng(0)
    sizes = [3000, *[4] * 200]
    rows = [(n, m, rng.integers(3)) for n, size in enumerate(sizes) for m in rng.choice(3000, size, replace=False)]
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    annotations = cs.Annotations.from_frame(frame)
    small = cs.Annotations.from_frame(frame[frame["item"] > 0])
    found = pair_moments(annotations)
    code = {name: at for at, name in enumerate(annotations.annotators)}
    said = {(n, code[m]): int(k) for n, m, k in rows}
    place = {(int(m), int(j)): p for p, (m, j) in enumerate(found.who)}
    expected = np.zeros_like(found.counts)
    for n in range(1, 201):
        start, stop = small.indptr[n - 1], small.indptr[n]
        who = sorted(code[small.annotators[int(m)]] for m in small.annotator[start:stop])
        for m, j in combinations(who, 2):
            expected[place[m, j], said[n, m], said[n, j]] += 1
    extra = found.counts - expected
    of_dense = np.array([said[0, m] for m in range(3000)])[found.who]
    here = extra[np.arange(len(found.who)), of_dense[:, 0], of_dense[:, 1]]
    assert set(here.tolist()) == {0, 1}
    assert np.abs(extra).sum() == here.sum() == 1000 * 999 // 2 + 2000
    assert np.unique(found.who[here > 0]).size == 3000
