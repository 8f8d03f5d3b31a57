"""Candidates, ticks and the pass over them, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.kernels.multi import decision_counts, level_pass, ticks_of

# classes: {}, {0}, {0, 2}, {1, 2}; three items with 2, 3 and 1 labels
SETS = np.array([0, 0, 1, 3, 5]), np.array([0, 0, 2, 1, 2], np.int32)
INDPTR = np.array([0, 2, 5, 6])
ANNOTATOR = np.array([0, 1, 0, 1, 2, 0], np.uint8)
LABEL = np.array([1, 0, 2, 2, 3, 0], np.uint8)


def test_candidates_and_ticks() -> None:
    ticks = ticks_of(INDPTR, ANNOTATOR, LABEL, SETS, 3, shared=True)
    assert ticks.first.tolist() == [0, 3, 6, 9]
    rows = [ticks.ticked[ticks.start[n] : ticks.start[n + 1]].reshape(-1, 3).tolist() for n in range(3)]
    assert rows == [[[1, 0, 0], [0, 0, 0]], [[1, 0, 1], [1, 0, 1], [0, 1, 1]], [[0, 0, 0]]]
    assert ticks.n_ticks.tolist() == [1, 0, 0, 2, 1, 3, 0, 0, 0]
    own = ticks_of(INDPTR, ANNOTATOR, LABEL, SETS, 3, shared=False, more=(np.array([2]), np.array([1])))
    assert own.first.tolist() == [0, 1, 4, 5]
    assert own.option.tolist() == [0, 0, 1, 2, 1]
    assert set(own.kind.tolist()) == {0}
    assert own.ticked[own.start[1] : own.start[2]].reshape(3, 3).tolist() == [[1, 0, 1], [1, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize("pulled", [False, True])
@pytest.mark.parametrize("shared", [True, False])
def test_pass_against_sums_written_out(shared: bool, pulled: bool) -> None:
    rng = np.random.default_rng(0)
    G, J, M = (3 if shared else 1), 4, 3
    ticks = ticks_of(INDPTR, ANNOTATOR, LABEL, SETS, 3, shared=shared)
    odds, shares = rng.normal(size=(M, G, J)), rng.dirichlet(np.ones(J), G)
    above = np.sort(rng.random((G, J)))
    pull = rng.normal(size=ticks.option.size) if pulled else None
    posterior, sums = level_pass(ticks, odds, np.log(shares), above, pull)
    p = 1.0 / (1.0 + np.exp(-odds))
    total, said, asked = 0.0, np.zeros((M, G, J)), np.zeros((M, G, J))
    for c, (n, g) in enumerate(zip(ticks.item, ticks.kind, strict=True)):
        prior = shares[g] * (np.exp(pull[c] * above[g]) if pull is not None else 1.0)
        weight = prior / prior.sum()
        cell = ticks.ticked[ticks.start[n] : ticks.start[n + 1]].reshape(-1, np.diff(ticks.first)[n])
        here = cell[:, c - ticks.first[n]]
        who = ANNOTATOR[INDPTR[n] : INDPTR[n + 1]]
        for m, tick in zip(who, here, strict=True):
            weight = weight * (p[m, g] if tick else 1.0 - p[m, g])
        total += np.log(weight.sum())
        weight = weight / weight.sum()
        np.testing.assert_allclose(posterior[c], weight, rtol=1e-12)
        for m, tick in zip(who, here, strict=True):
            asked[m, g] += weight
            said[m, g] += weight * tick
    assert sums.log_likelihood == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(sums.said, said, atol=1e-12)
    np.testing.assert_allclose(sums.asked, asked, atol=1e-12)


def test_decisions_are_counted() -> None:
    ticks = ticks_of(INDPTR, ANNOTATOR, LABEL, SETS, 3, shared=True)
    p = np.linspace(0.1, 0.9, 9)
    counts = decision_counts(ticks, p, 3)
    # annotator 2 ticks the last two options of item 1, and nothing else
    np.testing.assert_allclose(counts[2, 1], [2 - p[4] - p[5], p[4] + p[5]])
    np.testing.assert_allclose(counts[2, 0], [1 - p[3], p[3]])
    assert counts.sum() == pytest.approx(18)
