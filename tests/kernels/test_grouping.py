"""Grouping, repeated answers and components against plain numpy and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from consilience.exceptions import DataError
from consilience.kernels import blocks, grouping, votes
from consilience.kernels._arrays import code_dtype


def rows(seed: int, n: int = 2000, N: int = 150, M: int = 12, K: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return (
        rng.integers(0, N, n).astype(np.int32),
        rng.integers(0, M, n).astype(np.int32),
        rng.integers(-1, K, n).astype(np.int32),
    )


def test_grouping_keeps_rows_in_order_within_an_item() -> None:
    item, annotator, label = rows(0)
    indptr, by, said = grouping.group_by_item(item, annotator, label, 151, 12, 3)
    assert indptr[-1] == (label >= 0).sum()
    for n in range(151):
        mine = (item == n) & (label >= 0)
        np.testing.assert_array_equal(by[indptr[n] : indptr[n + 1]], annotator[mine])
        np.testing.assert_array_equal(said[indptr[n] : indptr[n + 1]], label[mine])


@pytest.mark.parametrize("keep", ["first", "last", "all"])
def test_repeated_answers(keep: str) -> None:
    item, annotator, label = rows(1)
    indptr, by, said = grouping.group_by_item(item, annotator, label, 150, 12, 3)
    new_indptr, new_by, new_said, repeats = grouping.drop_repeats(indptr, by, said, 12, keep)
    expected: dict[tuple[int, int], int] = {}
    total = 0
    for n in range(150):
        for i in range(indptr[n], indptr[n + 1]):
            total += 1
            key = (n, int(by[i]))
            if keep == "last" or key not in expected:
                expected[key] = int(said[i])
    assert repeats == total - len(expected)
    if keep == "all":
        np.testing.assert_array_equal(new_said, said)
        return
    found = {(n, int(new_by[i])): int(new_said[i]) for n in range(150) for i in range(new_indptr[n], new_indptr[n + 1])}
    assert new_by.size == len(found)
    assert found == expected


@pytest.mark.parametrize("n_annotators", [100, 30_000, 1 << 27])
@pytest.mark.parametrize("types", [(np.int32, np.int32, np.int32), (np.int16, np.int32, np.int8)])
def test_grouping_words_and_types_of_all_sizes(types: tuple[type, ...], n_annotators: int) -> None:
    item, annotator, label = rows(3, n=20_000, N=9000, M=n_annotators, K=100)
    kept = np.flatnonzero(label >= 0)
    order = kept[np.argsort(item[kept], kind="stable")]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(item[order], minlength=9000))])
    item, annotator, label = (column.astype(kind) for column, kind in zip((item, annotator, label), types, strict=True))
    found = grouping.group_by_item(item, annotator, label, 9000, n_annotators, 100)
    assert found[1].dtype == code_dtype(n_annotators)
    assert found[2].dtype == np.uint8
    for ours, expected in zip(found, (indptr, annotator[order], label[order]), strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_too_many_codes_are_refused() -> None:
    with pytest.raises(DataError, match="too many"):
        grouping.group_by_item(*rows(3), 150, 1 << 30, 1 << 25)


@pytest.mark.parametrize("keep", ["first", "last", "all"])
@pytest.mark.parametrize("M", [3, 12, 1000])
def test_repeats_are_dropped_alike_in_place_and_in_many_blocks(
    keep: str, M: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    item, annotator, label = rows(4, n=5000, N=700, M=M)
    grouped = grouping.group_by_item(item, annotator, label, 700, M, 3)
    expected = grouping.drop_repeats(*grouped, M, keep)
    monkeypatch.setattr(blocks, "cut", lambda indptr, _: [(0, 100), (100, 101), (101, 650), (650, indptr.size - 1)])
    for overwrite in (False, True):
        indptr, by, said = given = tuple(column.copy() for column in grouped)
        *found, repeats = grouping.drop_repeats(indptr, by, said, M, keep, overwrite=overwrite)
        assert repeats == expected[3]
        for ours, theirs in zip(found, expected, strict=False):
            np.testing.assert_array_equal(ours, theirs)
        if not overwrite:
            for column, before in zip(given, grouped, strict=True):
                np.testing.assert_array_equal(column, before)


def test_components_are_scipys() -> None:
    rng = np.random.default_rng(2)
    for degree in (1, 2, 3):
        M, N = 200, 120
        by = rng.integers(0, M, N * degree).astype(np.uint8)
        indptr = np.arange(0, N * degree + 1, degree)
        ours = grouping.components(indptr, by, M)
        item = np.repeat(np.arange(N), degree)
        graph = coo_array((np.ones(by.size), (by, M + item)), shape=(M + N, M + N))
        theirs = connected_components(graph, directed=False)[1][:M]
        pairs = set(zip(ours.tolist(), theirs.tolist(), strict=True))
        assert len(pairs) == len(set(ours.tolist())) == len(set(theirs.tolist()))


def test_votes_by_hand() -> None:
    indptr = np.array([0, 3, 3, 5])
    by, said = np.array([0, 1, 2, 0, 1], np.uint8), np.array([0, 0, 1, 1, 1], np.uint8)
    counts = votes.vote_counts(indptr, said, 2)
    np.testing.assert_array_equal(counts, [[2, 1], [0, 0], [0, 2]])
    q = np.array([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]])
    statistics = votes.vote_statistics(indptr, by, said, q, 3)
    expected = np.zeros((3, 2, 2))
    expected[0, 0], expected[1, 0], expected[2, 1] = q[0], q[0], q[0]
    expected[0, 1] += q[2]
    expected[1, 1] += q[2]
    np.testing.assert_allclose(statistics.counts, expected)
    np.testing.assert_allclose(statistics.class_counts, q[[0, 2]].sum(axis=0))


def test_share_statistics_by_hand() -> None:
    """Item 0 has votes 0, 0, 1; item 1 has none; item 2 is known to be 0 whatever its votes say."""
    indptr = np.array([0, 3, 3, 5])
    by, said = np.array([0, 1, 2, 0, 1], np.uint8), np.array([0, 0, 1, 1, 1], np.uint8)
    share, known = np.array([2 / 3, 1 / 3]), np.array([1.0, 0.0])
    share_of_blocks = blocks.Share.all_of(blocks.cut(indptr, 12))
    parts = votes.share_parts(indptr, by, said, np.array([-1, -1, 0], np.int32), 3, 2, share=share_of_blocks)
    statistics = blocks.total(parts, (0, share_of_blocks.n))
    expected = np.zeros((3, 2, 2))
    expected[0, 0], expected[1, 0], expected[2, 1] = share, share, share
    expected[0, 1], expected[1, 1] = known, known
    np.testing.assert_allclose(statistics.counts, expected)
    np.testing.assert_allclose(statistics.class_counts, share + known)
