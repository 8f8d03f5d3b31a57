"""Lagged counts against counting by hand, both ways of counting against each other, and the model's own moments."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.data.ids import Ids
from consilience.data.sequences import SequenceAnnotations
from consilience.datasets import simulate_sequences
from consilience.exceptions import ParameterError
from consilience.kernels import lagged as kernels
from consilience.moments.lagged import LaggedMoments, lagged_moments


def crowd(seed: int = 0, by_token: bool = True) -> SequenceAnnotations:
    return simulate_sequences(30, (1, 12), 6, 3, label_probability=0.4, by_token=by_token, seed=seed).annotations


def by_hand(s: SequenceAnnotations) -> dict[tuple[int, int], np.ndarray]:
    a = s.tokens
    counts: dict[tuple[int, int], np.ndarray] = {}
    for q in range(s.n_sequences):
        for n in range(s.indptr[q] + 1, s.indptr[q + 1]):
            for i in range(a.indptr[n], a.indptr[n + 1]):
                for j in range(a.indptr[n - 1], a.indptr[n]):
                    who = int(a.annotator[i]), int(a.annotator[j])
                    block = counts.setdefault(who, np.zeros((a.n_classes, a.n_classes), int))
                    block[a.label[i], a.label[j]] += 1
    return counts


@pytest.mark.parametrize("by_token", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_made_by_hand(seed: int, by_token: bool) -> None:
    s = crowd(seed, by_token)
    found, expected = lagged_moments(s), by_hand(s)
    assert [tuple(row) for row in found.who.tolist()] == sorted(expected)
    for who, block in zip(found.who.tolist(), found.counts, strict=True):
        np.testing.assert_array_equal(block, expected[tuple(who)])
        assert np.array_equal(found.block(*who), block / block.sum())  # type: ignore[arg-type]


@pytest.mark.parametrize("at_once", [5, 50])
def test_counts_do_not_depend_on_the_number_of_keys_sorted_at_a_time(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = crowd(1, True)
    whole = lagged_moments(s)
    monkeypatch.setattr(kernels, "_KEYS_AT_ONCE", at_once)
    assert lagged_moments(s) == whole


def test_memory_grows_with_the_pairs_that_occur() -> None:
    drawn = simulate_sequences(300, 5, 1500, 3, annotators_per_sequence=2, seed=0)
    moments = lagged_moments(drawn.annotations)  # a table would have (1500 · 3)² cells
    assert len(moments) <= 4 * 300
    assert moments.totals.sum() == 300 * 4 * 2 * 2
    some = moments.who[::97]
    expected = by_hand(drawn.annotations)
    for m, j in some.tolist():
        block = moments.block(m, j)
        assert block is not None
        np.testing.assert_allclose(block, expected[m, j] / expected[m, j].sum())


@pytest.mark.parametrize("seed", range(3))
def test_disjoint_sets_of_sequences_add_up_to_the_whole(seed: int) -> None:
    s = crowd(seed)
    one, other = (lagged_moments(s.select_sequences(part)) for part in (slice(0, 11), slice(11, None)))
    assert one + other == lagged_moments(s)
    assert other + one == lagged_moments(s)


def test_nothing_is_counted_across_sequences() -> None:
    s = simulate_sequences(50, 1, 4, 2, seed=0).annotations
    moments = lagged_moments(s)
    assert len(moments) == 0
    assert moments.frequencies.shape == (0, 2, 2)
    assert moments + moments == moments


def test_counts_of_one_thread_and_of_two_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    s = simulate_sequences(500, 100, 4, 3, seed=3).annotations
    monkeypatch.setenv("CONSILIENCE_THREADS", "1")
    one = lagged_moments(s)
    monkeypatch.delenv("CONSILIENCE_THREADS")
    assert lagged_moments(s) == one


def test_the_moments_of_many_tokens_are_those_of_the_model() -> None:
    around = np.array([[0.1, 0.1, 0.8], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])  # 0 → 1 → 2 → 0
    drawn = simulate_sequences(400, 250, 4, 3, transitions=around, seed=2)
    moments = lagged_moments(drawn.annotations)
    assert len(moments) == 16  # all ordered pairs, of an annotator with themselves too
    A, joint = drawn.model.confusions, drawn.transitions * drawn.model.prior
    forward, backward = (np.stack([A[m] @ law @ A[j].T for m, j in moments.who]) for law in (joint, joint.T))
    # five binomial deviations, doubled: neighbours in a chain are not independent
    assert np.all(np.abs(moments.frequencies - forward) < 10 * np.sqrt(forward / 1e5))
    assert np.abs(moments.frequencies - backward).max() > 0.05  # the order of now and before is that of the model


def test_bad_blocks_are_refused() -> None:
    names, block = Ids(["a", "b"]), np.ones((2, 2, 2))
    with pytest.raises(ParameterError, match="increasing order"):
        LaggedMoments(np.array([[1, 0], [0, 1]]), block, names, Ids([0, 1]))
    with pytest.raises(ParameterError, match="codes from 0 to 1"):
        LaggedMoments(np.array([[0, 1], [1, 2]]), block, names, Ids([0, 1]))
    with pytest.raises(ParameterError, match="shape"):
        LaggedMoments(np.array([[0, 1]]), block, names, Ids([0, 1]))
    with pytest.raises(ParameterError, match="same annotators"):
        lagged_moments(crowd()) + lagged_moments(simulate_sequences(3, 3, 5, 3).annotations)
    assert lagged_moments(simulate_sequences(3, 3, 5, 3, annotators_per_sequence=1).annotations).block(0, 0) is None
