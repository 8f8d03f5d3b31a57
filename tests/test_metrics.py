"""Metrics: against scikit-learn, and against what can be counted by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as peer

import consilience as cs
from consilience import metrics
from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.runs.consensus import choose


def forecast(N: int, K: int, seed: int) -> tuple[Floats, Ints]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(0.4 * np.ones(K), N), rng.integers(0, K, N)


@pytest.mark.parametrize("K", [2, 3, 7])
def test_log_loss_is_scikit_learns(K: int) -> None:
    posterior, truth = forecast(400, K, K)
    posterior[0] = np.arange(K) == (truth[0] + 1) % K  # certain, and wrong
    posterior[1] = np.arange(K) == truth[1]
    assert metrics.log_loss(posterior, truth) == pytest.approx(peer.log_loss(truth, posterior), rel=1e-12)


@pytest.mark.parametrize("K", [2, 3, 7])
def test_brier_score_is_scikit_learns_summed_over_classes(K: int) -> None:
    posterior, truth = forecast(400, K, K)
    expected = sum(peer.brier_score_loss(truth == k, posterior[:, k]) for k in range(K))
    assert metrics.brier_score(posterior, truth) == pytest.approx(expected, rel=1e-12)


def test_error_rate_is_one_less_scikit_learns_accuracy() -> None:
    posterior, truth = forecast(400, 4, 1)
    labels = posterior.argmax(axis=1)
    assert metrics.error_rate(labels, truth) == pytest.approx(100 - 100 * peer.accuracy_score(truth, labels))


@pytest.mark.parametrize("K", [2, 3, 7])
def test_f_score_is_scikit_learns_macro_average(K: int) -> None:
    posterior, truth = forecast(400, K, K)
    labels = posterior.argmax(axis=1)
    labels[labels == 1] = 0  # a class that nobody says
    assert metrics.f_score(labels, truth) == pytest.approx(peer.f1_score(truth, labels, average="macro"), rel=1e-12)
    truth[:50] = -1
    kept = peer.f1_score(truth[50:], labels[50:], average="macro")
    assert metrics.f_score(labels, truth) == pytest.approx(kept, rel=1e-12)


def test_f_score_of_sequences_is_the_mean_of_theirs() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 40)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    truth = rng.integers(-1, 4, bounds[-1])
    labels = np.where(rng.random(bounds[-1]) < 0.6, truth, rng.integers(0, 4, bounds[-1])).clip(0)
    parts = [slice(a, b) for a, b in itertools.pairwise(bounds)]
    scores = [
        peer.f1_score(truth[p][truth[p] >= 0], labels[p][truth[p] >= 0], average="macro", zero_division=0.0)
        for p in parts
        if (truth[p] >= 0).any()
    ]
    assert metrics.f_score(labels, truth, bounds=bounds) == pytest.approx(np.mean(scores), rel=1e-12)
    assert metrics.f_score(labels, truth, bounds=np.array([0, truth.size])) == metrics.f_score(labels, truth)


def test_f_score_by_hand() -> None:
    truth, labels = np.array([0, 0, 0, 1, 1, 5]), np.array([0, 0, 1, 1, -1, 1])
    # class 0: 2 hits of 3 + 2; class 1: 1 of 2 + 3; class 5, which nobody named: none of 1 + 0
    assert metrics.f_score(labels, truth) == pytest.approx((4 / 5 + 2 / 5 + 0) / 3)
    with pytest.raises(DataError, match="nothing to judge"):
        metrics.f_score(labels, np.full(6, -1))
    with pytest.raises(ParameterError, match="same shape"):
        metrics.f_score(labels[:2], truth)
    with pytest.raises(ParameterError, match="bounds end at 5"):
        metrics.f_score(labels, truth, bounds=np.array([0, 5]))


def test_items_by_hand() -> None:
    posterior = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.0, 1.0]])
    truth = np.array([0, 1, 1, 0])
    assert metrics.error_rate(np.array([0, 0, 1, 1]), truth) == 50.0
    floor = 0.01
    by_hand = -(math.log(0.9) + math.log(0.3) + math.log(0.8) + math.log(floor)) / 4
    assert metrics.log_loss(posterior, truth, floor=floor) == pytest.approx(by_hand)
    assert metrics.log_loss(posterior, truth) == pytest.approx(by_hand + math.log(floor / metrics.FLOOR) / 4)
    assert metrics.brier_score(posterior, truth) == pytest.approx((0.02 + 0.98 + 0.08 + 2.0) / 4)
    assert metrics.mean_confidence(posterior, truth) == pytest.approx((0.9 + 0.7 + 0.8 + 1.0) / 4)


def test_bins_by_hand() -> None:
    # bins (0, 0.2], (0.2, 0.4], (0.4, 0.6], (0.6, 0.8], (0.8, 1]
    top = np.array([0.5, 0.55, 0.6, 0.7, 0.8, 0.81, 1.0])
    posterior = np.column_stack([top, 1 - top])
    truth = np.array([0, 1, 0, 0, 1, 0, 0])
    bins = metrics.reliability(posterior, truth, 5)
    np.testing.assert_allclose(bins.low, [0.0, 0.2, 0.4, 0.6, 0.8])
    np.testing.assert_allclose(bins.high, [0.2, 0.4, 0.6, 0.8, 1.0])
    assert bins.count.tolist() == [0, 0, 3, 2, 2]
    np.testing.assert_allclose(bins.confidence, [np.nan, np.nan, 0.55, 0.75, 0.905])
    np.testing.assert_allclose(bins.accuracy, [np.nan, np.nan, 2 / 3, 0.5, 1.0])
    by_hand = (3 * (2 / 3 - 0.55) + 2 * 0.25 + 2 * 0.095) / 7
    assert metrics.expected_calibration_error(posterior, truth, 5) == pytest.approx(by_hand)
    assert bins.calibration_error == pytest.approx(by_hand)
    one = abs(5 / 7 - top.mean())
    assert metrics.expected_calibration_error(posterior, truth, 1) == pytest.approx(one)


@pytest.mark.parametrize("votes", [3, 5, 6, 9, 15])
def test_the_last_digit_of_a_share_does_not_choose_the_bin(votes: int) -> None:
    for won in range(votes // 2 + 1, votes + 1):
        ways = np.array([won / votes, 1 - (votes - won) / votes, won * (1 / votes), sum([1 / votes] * won)])
        posterior = np.column_stack([ways, 1 - ways])
        assert (metrics.reliability(posterior, np.zeros(4, int), 15).count == 4).any(), (won, votes)


def test_calibration_is_that_of_the_loop_from_the_definition() -> None:
    posterior, truth = forecast(500, 3, 5)
    confidence, right = posterior.max(axis=1), posterior.argmax(axis=1) == truth
    total = 0.0
    for b in range(15):
        inside = (confidence > b / 15) & (confidence <= (b + 1) / 15)
        if inside.any():
            total += inside.sum() * abs(right[inside].mean() - confidence[inside].mean())
    assert metrics.expected_calibration_error(posterior, truth) == pytest.approx(total / 500)


def test_truth_drawn_from_the_posterior_is_calibrated_and_its_opposite_is_not() -> None:
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.ones(3), 10_000)
    truth = (rng.random((10_000, 1)) > posterior.cumsum(axis=1)).sum(axis=1)
    assert metrics.expected_calibration_error(posterior, truth) < 0.02
    assert metrics.expected_calibration_error(posterior, (truth + 1) % 3) > 0.2


def test_what_has_no_truth_is_not_judged() -> None:
    posterior, truth = forecast(300, 3, 2)
    known = np.arange(300) % 3 > 0
    partly = np.where(known, truth, -1)
    labels = posterior.argmax(axis=1)
    assert metrics.error_rate(labels, partly) == metrics.error_rate(labels[known], truth[known])
    for metric in (metrics.log_loss, metrics.brier_score, metrics.expected_calibration_error, metrics.mean_confidence):
        assert metric(posterior, partly) == pytest.approx(metric(posterior[known], truth[known]), rel=1e-12)
    assert metrics.reliability(posterior, partly).count.sum() == known.sum()


def test_a_truth_that_nobody_named_has_probability_zero() -> None:
    posterior = np.array([[0.6, 0.4], [1.0, 0.0]])
    truth = np.array([2, 0])
    assert metrics.error_rate(np.array([0, 0]), truth) == 50.0
    assert metrics.log_loss(posterior, truth) == pytest.approx(-math.log(metrics.FLOOR) / 2)
    assert metrics.brier_score(posterior, truth) == pytest.approx((0.36 + 0.16 + 1) / 2)
    # the same, with the class that is missing written out
    wide = np.column_stack([posterior, np.zeros(2)])
    assert metrics.brier_score(wide, truth) == pytest.approx(metrics.brier_score(posterior, truth))


def test_ties_are_the_librarys_choice() -> None:
    posterior = np.array([[0.5, 0.5], [0.5, 0.5], [0.1, 0.9]])
    truth = np.array([1, 1, 1])
    assert choose(posterior, posterior.mean(axis=0)).best.tolist() == [1, 1, 1]
    assert metrics.reliability(posterior, truth).accuracy[7] == 1.0  # argmax would say 0
    given = metrics.reliability(posterior, truth, labels=np.array([0, 1, 1]))
    assert given.accuracy[7] == 0.5


def test_perfect_labels() -> None:
    truth = np.array([0, 2, 1])
    posterior = np.eye(3)[truth]
    assert metrics.error_rate(truth, truth) == 0.0
    assert metrics.log_loss(posterior, truth) == 0.0
    assert metrics.brier_score(posterior, truth) == 0.0
    assert metrics.expected_calibration_error(posterior, truth) == 0.0
    assert metrics.log_loss(np.ones((2, 1)), np.zeros(2, int)) == 0.0
    assert math.copysign(1.0, metrics.log_loss(posterior, truth)) == 1.0


def test_the_error_of_a_consensus_is_the_same_number() -> None:
    crowd = cs.simulate(200, 8, 3, seed=4)
    consensus = cs.aggregate(crowd.annotations, "majority")
    assert metrics.error_rate(consensus.choice.best, crowd.truth) == consensus.error_rate(crowd.truth)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda p, t: metrics.log_loss(p, t[:-1]), ParameterError),
        (lambda p, t: metrics.brier_score(p[:, 0], t), ParameterError),
        (lambda p, t: metrics.reliability(p, t, 0), ParameterError),
        (lambda p, t: metrics.reliability(p, t, 2.5), ParameterError),  # type: ignore[arg-type]
        (lambda p, t: metrics.mean_confidence(p, t, labels=t[:-1]), ParameterError),
        (lambda _, t: metrics.error_rate(t[:-1], t), ParameterError),
        (lambda p, t: metrics.log_loss(p, np.full(t.size, -1)), DataError),
        (lambda _, t: metrics.error_rate(t, np.full(t.size, -1)), DataError),
    ],
)
def test_what_makes_no_sense_is_an_error(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call(*forecast(10, 2, 0))


# ---- features -----------------------------------------------------------------------------------------------


def test_correlation_error_is_the_best_of_all_matchings() -> None:
    rng = np.random.default_rng(0)
    A, truth = rng.standard_normal((6, 4)), rng.standard_normal((6, 4))
    unit = truth / np.linalg.norm(truth, axis=0)

    def distance(i: int, j: int) -> float:  # min over σ of ‖a*_i - σ a_j‖², by least squares
        return float(np.linalg.lstsq(A[:, [j]], unit[:, i])[1][0])

    by_hand = min(sum(distance(i, j) for i, j in enumerate(order)) for order in itertools.permutations(range(4)))
    assert metrics.correlation_error(A, truth) == pytest.approx(by_hand, rel=1e-12)


def test_correlation_error_knows_no_order_sign_or_length() -> None:
    rng = np.random.default_rng(1)
    truth = rng.standard_normal((9, 5))
    moved = truth[:, rng.permutation(5)] * np.array([1e-200, -3.0, 1e200, 0.5, -1e-9])
    assert metrics.correlation_error(moved, truth) < 1e-30
    # squared sines: an angle of 1e-9 is seen although its cosine is one
    turned = np.array([[math.cos(1e-9), 0.0], [math.sin(1e-9), 0.0], [0.0, 1.0]])
    assert metrics.correlation_error(turned, np.eye(3)[:, [0, 2]]) == pytest.approx(1e-18, rel=1e-6)


def test_a_feature_without_a_partner_counts_one() -> None:
    assert metrics.correlation_error(np.eye(3)[:, :1], np.eye(3)) == pytest.approx(2.0)
    assert metrics.correlation_error(np.eye(3), np.eye(3)[:, :1]) == 0.0
    assert metrics.correlation_error(np.zeros((3, 2)), np.eye(3)[:, :2]) == pytest.approx(2.0)
    # a column is given once: two like features of the truth cannot share it
    assert metrics.correlation_error(np.eye(2), np.ones((2, 2))) == pytest.approx(1.0)
    for bad in (np.ones((2, 3)), np.full((3, 3), np.nan), np.ones(3)):
        with pytest.raises(ParameterError):
            metrics.correlation_error(bad, np.eye(3))
    with pytest.raises(ParameterError, match="truth"):
        metrics.correlation_error(np.eye(3), np.zeros((3, 3)))
