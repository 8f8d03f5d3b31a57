"""Sums over items for coefficients of agreement, against their definition with numpy."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.kernels.agreement import agreement_sums


@pytest.mark.parametrize("coincide", [False, True])
def test_sums_follow_their_definition(coincide: bool) -> None:
    rng = np.random.default_rng(0)
    N, K, B = 500, 5, 7
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 6, N))])
    label = rng.integers(0, K, indptr[-1]).astype(np.uint8)
    block, values = rng.integers(0, B, N, np.int32), rng.normal(size=K)
    found = agreement_sums(indptr, label, block, B, values, coincide)
    sums, classes, shares = np.zeros((B, 6)), np.zeros((B, K)), np.zeros((B, K))
    coincidences = np.zeros((B if coincide else 0, K, K))
    for u in range(N):
        c = np.bincount(label[indptr[u] : indptr[u + 1]], minlength=K).astype(float)
        n, b = c.sum(), block[u]
        if n >= 1:
            sums[b, 0] += 1
            shares[b] += c / n
        if n >= 2:
            agreeing = (c * (c - 1)).sum() / (n * (n - 1))
            squares = 2 * (n * (c @ values**2) - (c @ values) ** 2) / (n - 1)
            sums[b, 1:] += [1, n, agreeing, n * agreeing, squares]
            classes[b] += c
            if coincide:
                coincidences[b] += np.outer(c, c) / (n - 1)
    for ours, expected in zip(found, (sums, classes, shares, coincidences), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-9)
