"""Simulated sequences follow the chain and the crowd that they say they were drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consilience.datasets import SequenceSimulation, simulate_sequences
from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Floats


def content(drawn: SequenceSimulation) -> list[bytes]:
    said = drawn.annotations.tokens
    arrays = (
        drawn.annotations.indptr,
        said.indptr,
        said.annotator,
        said.label,
        drawn.truth,
        drawn.transitions,
        drawn.start,
        drawn.model.confusions,
    )
    return [array.tobytes() for array in arrays]


@pytest.mark.parametrize("how", [{}, {"annotators_per_sequence": 3}, {"label_probability": 0.3}, {"length": (2, 30)}])
def test_the_seed_decides_everything(how: dict[str, Any]) -> None:
    one, same, other = (simulate_sequences(40, seed=seed, **how) for seed in (5, 5, 6))
    assert content(one) == content(same)
    for ours, theirs in zip(content(one)[4:], content(other)[4:], strict=True):
        assert ours != theirs


def test_the_same_seed_gives_the_same_model_for_more_sequences() -> None:
    few, many = simulate_sequences(2, 3, seed=4), simulate_sequences(100, (1, 50), annotators_per_sequence=2, seed=4)
    assert few.model == many.model
    assert np.array_equal(few.transitions, many.transitions)


def transition_counts(drawn: SequenceSimulation) -> Floats:
    K = len(drawn.start)
    counts = np.zeros((K, K))
    for s in range(drawn.annotations.n_sequences):
        truth = drawn.truth[drawn.annotations.indptr[s] : drawn.annotations.indptr[s + 1]]
        np.add.at(counts, (truth[1:], truth[:-1]), 1)
    return counts


@pytest.mark.parametrize(("stickiness", "length"), [(0.0, 50), (0.6, (1, 60))])
def test_truths_follow_the_chain(stickiness: float, length: Any) -> None:
    drawn = simulate_sequences(2000, length, 2, 4, stickiness=stickiness, seed=1)
    counts = transition_counts(drawn)
    n, p = counts.sum(axis=0), drawn.transitions
    assert np.all(np.abs(counts - n * p) <= 5 * np.sqrt(n * p * (1 - p)) + 5)
    # the test can tell: another chain is no explanation
    other = np.roll(p, 1, axis=1)
    assert np.any(np.abs(counts - n * other) > 20 * np.sqrt(n * other * (1 - other)))
    assert np.all(np.diag(p) >= stickiness)


def test_first_truths_follow_the_start() -> None:
    start = [0.1, 0.0, 0.9]
    drawn = simulate_sequences(3000, 3, 2, 3, start=start, seed=1)
    first = np.bincount(drawn.truth[drawn.annotations.indptr[:-1]], minlength=3)
    assert first[1] == 0
    assert abs(first[0] - 300) < 5 * np.sqrt(3000 * 0.09)
    assert drawn.start.tolist() == start


@pytest.mark.parametrize("seed", range(5))
def test_the_prior_is_stationary_and_the_start(seed: int) -> None:
    drawn = simulate_sequences(3, 4, 3, 5, seed=seed)
    np.testing.assert_allclose(drawn.transitions.sum(axis=0), 1.0)
    np.testing.assert_allclose(drawn.transitions @ drawn.model.prior, drawn.model.prior, atol=1e-12)
    assert np.array_equal(drawn.start, drawn.model.prior)


@pytest.mark.parametrize("by_token", [False, True])
def test_labels_follow_the_confusions(by_token: bool) -> None:
    drawn = simulate_sequences(600, 40, 6, 3, label_probability=0.7, by_token=by_token, seed=3)
    said = drawn.annotations.tokens
    counts = np.zeros((6, 3, 3))
    np.add.at(counts, (said.annotator, said.label, drawn.truth[said.item_of_label()]), 1)
    n, p = counts.sum(axis=1, keepdims=True), drawn.model.confusions
    assert np.all(np.abs(counts - n * p) <= 5 * np.sqrt(n * p * (1 - p)) + 5)
    assert np.any(np.abs(counts - n * np.roll(p, 1, axis=0)) > 20 * np.sqrt(n * p * (1 - p)))


@pytest.mark.parametrize(("M", "better"), [(1, 1), (2, 2), (5, 3), (10, 6), (11, 6)])
def test_more_than_half_are_better_than_random(M: int, better: int) -> None:
    for seed in range(5):
        confusions = simulate_sequences(1, 2, M, 4, seed=seed).model.confusions
        right = (confusions.argmax(axis=1) == np.arange(4)).all(axis=1)
        # another one may be so by chance, 1 in 4⁴
        assert better <= right.sum() <= better + 1


def test_annotators_label_whole_sequences() -> None:
    drawn = simulate_sequences(50, (1, 9), 8, 3, annotators_per_sequence=3, seed=2).annotations
    said = drawn.tokens
    assert set(said.labels_per_item.tolist()) == {3}
    for s in range(drawn.n_sequences):
        rows = said.annotator[said.indptr[drawn.indptr[s]] : said.indptr[drawn.indptr[s + 1]]].reshape(-1, 3)
        assert (rows == rows[0]).all()
        assert (np.diff(rows[0].astype(int)) > 0).all()


def test_annotators_may_label_single_tokens() -> None:
    drawn = simulate_sequences(100, 20, 8, 3, annotators_per_sequence=2, by_token=True, seed=2).annotations.tokens
    pairs = drawn.annotator.reshape(-1, 2)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert (pairs[1:] != pairs[:-1]).any(axis=1).mean() > 0.9


def test_label_probabilities_are_those_asked_for() -> None:
    p = np.array([0.0, 0.1, 0.5, 1.0])
    said = simulate_sequences(3000, 2, 4, 3, label_probability=p.tolist(), seed=2).annotations.tokens
    assert np.all(np.abs(said.labels_per_annotator / 2 - 3000 * p) <= 5 * np.sqrt(3000 * p * (1 - p)))


def test_lengths() -> None:
    assert set(simulate_sequences(9, 7).annotations.lengths.tolist()) == {7}
    spread = simulate_sequences(500, (2, 5)).annotations.lengths
    assert set(spread.tolist()) == {2, 3, 4, 5}
    assert simulate_sequences(3, np.array([4, 1, 6])).annotations.lengths.tolist() == [4, 1, 6]


def test_names() -> None:
    drawn = simulate_sequences(2, np.array([2, 3]), 2, 2).annotations
    frame = drawn.to_frame("pyarrow").to_pydict()
    assert frame["sequence"] == [0] * 4 + [1] * 6
    assert frame["position"] == [0, 0, 1, 1, 0, 0, 1, 1, 2, 2]
    assert frame["annotator"] == ["a0", "a1"] * 5


def test_what_is_given_is_used() -> None:
    T = np.array([[0.0, 1.0], [1.0, 0.0]])
    drawn = simulate_sequences(4, 6, 3, 2, transitions=T, start=[1, 0], confusions=np.tile(np.eye(2), (3, 1, 1)))
    assert drawn.truth.tolist() == [0, 1, 0, 1, 0, 1] * 4
    assert np.array_equal(drawn.annotations.tokens.label, np.repeat(drawn.truth, 3))
    np.testing.assert_allclose(drawn.model.prior, 0.5)
    # two classes that never meet have many stationary distributions
    np.testing.assert_allclose(simulate_sequences(1, 2, 1, 2, transitions=np.eye(2)).model.prior, 0.5)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"n_sequences": 0}, "n_sequences"),
        ({"n_classes": 1}, "n_classes"),
        ({"length": 0}, "length"),
        ({"length": (5, 2)}, "least ≤ most"),
        ({"length": np.array([1, 2])}, "one for each"),
        ({"length": 2.5}, "whole numbers"),
        ({"stickiness": 1.0}, "stickiness"),
        ({"transitions": np.ones((4, 4))}, "transitions"),
        ({"start": [1.0, 1.0, 0.0, 0.0]}, "start"),
        ({"label_probability": 1.5}, "label_probability"),
        ({"label_probability": [0.1, 0.2]}, "label_probability"),
        ({"annotators_per_sequence": 11}, "number of annotators"),
        ({"annotators_per_sequence": 2, "label_probability": 0.5}, "not both"),
        ({"confusions": np.ones((10, 4, 4))}, "confusions"),
    ],
)
def test_what_makes_no_sense_is_refused(what: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        simulate_sequences(**what)


def test_nobody_labelling_anything_is_an_error() -> None:
    with pytest.raises(DataError, match="nobody labelled anything"):
        simulate_sequences(label_probability=0.0)
