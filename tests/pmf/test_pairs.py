"""Pair marginals against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.exceptions import MethodError
from consilience.kernels._arrays import Codes
from consilience.pmf.pairs import pair_marginals

SIZES = (2, 5, 3, 4)


def table(S: int, seed: int = 0) -> Codes:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, S) for size in SIZES], axis=1).astype(np.int8)
    codes[rng.random(codes.shape) < 0.4] = -1
    return codes


def test_blocks_against_counting() -> None:
    codes = table(400)
    pairs = pair_marginals(codes, SIZES)
    for j in range(4):
        for k in range(4):
            if j == k:
                assert pairs.totals[j, k] == 0
                continue
            both = (codes[:, j] >= 0) & (codes[:, k] >= 0)
            expected = np.zeros((SIZES[j], SIZES[k]))
            for a, b in codes[both][:, [j, k]]:
                expected[a, b] += 1
            assert pairs.totals[j, k] == both.sum() > 0
            assert np.allclose(pairs.block(j, k), expected / both.sum())
    assert np.array_equal(pairs.counts, pairs.counts.T)


def test_counts_of_parts_add_up() -> None:
    codes = table(300)
    whole = pair_marginals(codes, SIZES).counts
    assert np.array_equal(whole, pair_marginals(codes[:120], SIZES).counts + pair_marginals(codes[120:], SIZES).counts)


def test_variables_never_seen_together_are_independent() -> None:
    codes = np.array([[0, -1], [0, -1], [1, -1], [-1, 1], [-1, 0]], np.int8)
    pairs = pair_marginals(codes, (2, 2))
    assert pairs.totals.sum() == 0
    assert np.allclose(pairs.block(0, 1), np.outer([2.5 / 4, 1.5 / 4], [0.5, 0.5]))


def test_too_many_categories_are_refused() -> None:
    with pytest.raises(MethodError, match="random"):
        pair_marginals(np.zeros((2, 2), np.int32), (9000, 9000))
