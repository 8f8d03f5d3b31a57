"""Rows as they come, beside the same work done one row at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from consilience.kernels._arrays import Codes
from consilience.kernels.rows import MISSING, UNKNOWN, changes, code_by_table, gather, hash_words, partition


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_numbers_by_a_table(kind: type) -> None:
    rng = np.random.default_rng(0)
    table = np.full(60, UNKNOWN, np.int32)
    table[7], table[9] = MISSING, 0
    codes: dict[int, int] = {9 - 50: 0}
    for _ in range(3):
        numbers: Codes = rng.integers(-50, -30, 40).astype(kind)
        expected, firsts = [], []
        for row, number in enumerate(numbers.tolist()):
            if number == 7 - 50:
                expected.append(-1)
                continue
            if number not in codes:
                codes[number] = len(codes)
                firsts.append(row)
            expected.append(codes[number])
        found = code_by_table(numbers, -50, table, len(codes) - len(firsts))
        assert found is not None
        assert found[0].tolist() == expected
        assert found[1].tolist() == firsts


def test_a_number_outside_leaves_the_table_alone() -> None:
    table = np.array([3, UNKNOWN, UNKNOWN], np.int32)
    for wrong in (-1, 3, 2**40, -(2**63)):
        assert code_by_table(np.array([1, 0, 2, wrong]), 0, table, 4) is None
        assert table.tolist() == [3, UNKNOWN, UNKNOWN]


def test_where_strings_change() -> None:
    rng = np.random.default_rng(0)
    words = ["", "a", "b", "abcdefgh", "abcdefgi", "abcdefghi", "abcdefghijklmnop", "abcdefghijklmnoq", "xbcdefgh"]
    rows = [words[k] for k in rng.integers(0, len(words), 400) for _ in range(rng.integers(1, 3))]
    data = np.frombuffer("".join(rows).encode(), np.uint8)
    for kind in (np.int32, np.int64):
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(kind)
        assert changes(offsets, data).tolist() == [i for i in range(1, len(rows)) if rows[i] != rows[i - 1]]
        # a window on a longer column
        assert changes(offsets[100:200], data).tolist() == [i for i in range(1, 99) if rows[100 + i] != rows[99 + i]]
    assert changes(np.array([0, 3], np.int32), data).size == 0


@pytest.mark.parametrize("width", [1, 2])
def test_partitions_hold_every_row_once_in_order_and_items_whole(width: int) -> None:
    rng = np.random.default_rng(0)
    n, n_parts = 3000, 7
    item = rng.integers(0, 500, n)
    words = rng.integers(0, 2**63, (500, width)).astype(np.uint64)
    annotator, label = rng.integers(0, 2**28, n).astype(np.int32), rng.integers(-1, 2**24, n).astype(np.int32)
    keys = words[item] if width == 2 else words[item, 0]
    records, edges = partition(keys, 10**10, annotator, label, n_parts, width == 1)
    assert edges[0] == 0
    assert edges[-1] == n
    row = records[:, width].astype(np.int64) - 10**10
    assert sorted(row.tolist()) == list(range(n))
    assert np.array_equal(records[:, :width].ravel(), keys[row].ravel())
    assert np.array_equal(records[:, -1] >> np.uint64(32), annotator[row])
    assert np.array_equal((records[:, -1] & np.uint64(2**32 - 1)).astype(np.int64) - 1, label[row])
    parts = [row[a:b] for a, b in pairwise(edges.tolist())]
    assert all((np.diff(part) > 0).all() for part in parts)
    homes = [set(item[part].tolist()) for part in parts]
    assert sum(map(len, homes)) == len(set(item.tolist()))
    # numbers in a row are spread as well as any: no part has twice its share
    _, edges = partition(np.arange(n, dtype=np.uint64), 0, annotator, label, n_parts, True)
    assert max(np.diff(edges)) < 2 * n / n_parts


def test_labels_in_another_order() -> None:
    rng = np.random.default_rng(0)
    length = rng.integers(0, 5, 40)
    start = np.concatenate([[0], np.cumsum(length)[:-1]])
    annotator = rng.integers(0, 900, length.sum()).astype(np.uint16)
    label = rng.integers(0, 4, length.sum()).astype(np.uint8)
    order = rng.permutation(40)
    by, said = gather(order, start, length, annotator, label)
    assert by.tolist() == [m for n in order for m in annotator[start[n] : start[n] + length[n]].tolist()]
    assert said.tolist() == [k for n in order for k in label[start[n] : start[n] + length[n]].tolist()]
    assert by.dtype == annotator.dtype
    assert said.dtype == label.dtype


def test_different_words_have_different_keys() -> None:
    words = np.concatenate([np.arange(100_000), np.arange(100_000) << 40]).astype(np.uint64)
    keys = hash_words(words)
    assert len(set(keys[:, 0].tolist())) == len(set(words.tolist()))
