"""Simulated crowds follow the model that they say they were drawn from, and the roles keep their promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilience.datasets import Simulation, simulate
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Bools, Floats, Ints


def role(crowd: Simulation, name: str) -> Bools:
    return np.array([played == name for played in crowd.roles])


def label_counts(crowd: Simulation) -> Floats:
    """How often annotator m said i of an item of class k, (M, K, K)."""
    M, K = crowd.annotations.n_annotators, crowd.annotations.n_classes
    counts = np.zeros((M, K, K))
    truth = crowd.truth[crowd.annotations.item_of_label()]
    np.add.at(counts, (crowd.annotations.annotator, crowd.annotations.label, truth), 1)
    return counts


def surprise(counts: Floats, confusions: Floats) -> float:
    """Pearson's statistic of all columns, in standard deviations from its mean."""
    expected = counts.sum(axis=1, keepdims=True) * confusions
    statistic = ((counts - expected) ** 2 / expected).sum()
    M, K, _ = confusions.shape
    freedom = M * K * (K - 1)
    return float((statistic - freedom) / np.sqrt(2 * freedom))


# ---- the seed -------------------------------------------------------------------------------------------

MIXED: dict[str, Any] = {"experts": 0.2, "spammers": 0.2, "adversaries": 0.1, "specialists": 0.2}


def content(crowd: Simulation) -> list[bytes]:
    said = crowd.annotations
    arrays = (said.indptr, said.annotator, said.label, crowd.truth, crowd.model.prior, crowd.model.confusions)
    return [array.tobytes() for array in arrays]


@pytest.mark.parametrize("how", [{}, {"labels_per_item": 7}, {"label_probability": 0.3}])
def test_the_seed_decides_everything(how: dict[str, Any]) -> None:
    one, same, other = (simulate(300, 20, 4, seed=seed, **MIXED, **how) for seed in (5, 5, 6))
    assert content(one) == content(same)
    assert one.roles == same.roles
    assert one.annotations == same.annotations
    for ours, theirs in zip(content(one)[1:4], content(other)[1:4], strict=True):
        assert ours != theirs
    assert one.roles != other.roles


def test_the_same_seed_gives_the_same_annotators_for_more_items() -> None:
    few, many = simulate(10, 20, 4, **MIXED), simulate(2000, 20, 4, labels_per_item=2, **MIXED)
    assert few.model == many.model
    assert few.roles == many.roles


# ---- the draw -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", [{}, {"experts": 0.5}, {"specialists": 0.5}, {"adversaries": 0.5}])
def test_labels_follow_the_confusions(shares: dict[str, Any]) -> None:
    crowd = simulate(40_000, 12, 3, prior=[0.5, 0.3, 0.2], label_probability=0.8, seed=3, **shares)
    counts = label_counts(crowd)
    assert abs(surprise(counts, crowd.model.confusions)) < 5
    # the test can tell: the transpose, and annotators in another order, are no explanation
    transposed = crowd.model.confusions.transpose(0, 2, 1)
    assert surprise(counts, transposed / transposed.sum(axis=1, keepdims=True)) > 50
    assert surprise(counts, np.roll(crowd.model.confusions, 1, axis=0)) > 50


def test_every_label_frequency_is_within_five_sigma() -> None:
    crowd = simulate(30_000, 10, 4, seed=8, **MIXED, labels_per_item=10)
    counts = label_counts(crowd)
    n, p = counts.sum(axis=1, keepdims=True), crowd.model.confusions
    assert np.all(np.abs(counts - n * p) <= 5 * np.sqrt(n * p * (1 - p)) + 5)


def test_annotators_err_independently_of_each_other() -> None:
    crowd = simulate(60_000, 6, 3, labels_per_item=6, seed=2)
    order = np.argsort(crowd.annotations.annotator, kind="stable")
    wrong = (crowd.annotations.label[order].reshape(6, -1) != crowd.truth).astype(float)
    for k in range(3):
        given_truth = wrong[:, crowd.truth == k]
        correlation = np.corrcoef(given_truth)[np.triu_indices(6, 1)]
        assert np.abs(correlation).max() < 5 / np.sqrt(given_truth.shape[1])


def test_imbalance_is_respected() -> None:
    prior = np.array([0.9, 0.08, 0.02])
    crowd = simulate(50_000, 5, 3, prior=prior.tolist(), seed=1)
    share = np.bincount(crowd.truth, minlength=3) / 50_000
    assert np.all(np.abs(share - prior) < 5 * np.sqrt(prior * (1 - prior) / 50_000))
    assert np.allclose(crowd.model.prior, prior, atol=1e-15)


def test_a_class_of_probability_zero_does_not_occur() -> None:
    assert 1 not in simulate(500, 5, 3, prior=[0.5, 0.0, 0.5]).truth


def test_thirds_written_by_hand_are_good_enough() -> None:
    assert simulate(10, 5, 3, prior=[0.3333333, 0.3333333, 0.3333333]).model.prior.sum() == pytest.approx(1, abs=1e-15)


def test_one_label_probability_for_all() -> None:
    crowd = simulate(20_000, 8, label_probability=0.25, seed=4)
    sigma = np.sqrt(20_000 * 0.25 * 0.75)
    assert np.all(np.abs(crowd.annotations.labels_per_annotator - 5000) < 5 * sigma)


def test_a_label_probability_for_each() -> None:
    p = np.array([0.0, 0.01, 0.1, 0.5, 0.9, 1.0])
    crowd = simulate(20_000, 6, label_probability=p.tolist(), seed=4)
    labels = crowd.annotations.labels_per_annotator
    assert np.all(np.abs(labels - 20_000 * p) <= 5 * np.sqrt(20_000 * p * (1 - p)))
    assert labels[0] == 0
    assert labels[-1] == 20_000


def test_nobody_labels_an_item_twice() -> None:
    for crowd in (simulate(500, 15, labels_per_item=4), simulate(500, 15, label_probability=0.4)):
        said = crowd.annotations
        pairs = said.item_of_label() * said.n_annotators + said.annotator
        assert np.unique(pairs).size == said.n_labels


def test_labels_per_item() -> None:
    assert set(simulate(100, 30, labels_per_item=7).annotations.labels_per_item.tolist()) == {7}
    assert set(simulate(100, 30).annotations.labels_per_item.tolist()) == {5}
    assert set(simulate(100, 3).annotations.labels_per_item.tolist()) == {3}


def test_names() -> None:
    said = simulate(4, 3, 2).annotations
    assert said.items.tolist() == [0, 1, 2, 3]
    assert said.annotators.tolist() == ["a0", "a1", "a2"]
    assert said.classes.tolist() == [0, 1]


# ---- the roles ------------------------------------------------------------------------------------------


def known_classes(crowd: Simulation) -> tuple[Ints, Ints]:
    who = np.flatnonzero(role(crowd, "specialist"))
    return who, np.arange(who.size) % crowd.annotations.n_classes


@pytest.mark.parametrize("K", [2, 3, 5])
def test_specialists_know_their_class(K: int) -> None:
    crowd = simulate(10, 60, K, specialists=0.5, accuracy=(0.5, 0.7), seed=K)
    who, known = known_classes(crowd)
    assert who.size == 30
    assert set(known.tolist()) == set(range(K))
    for m, k in zip(who, known, strict=True):
        confusion = crowd.model.confusions[m]
        elsewhere = np.arange(K) != k
        assert confusion[k, k] >= 0.95
        assert confusion[k, elsewhere].max() <= 0.01
        if K > 2:  # with two classes, who never says the one by mistake always knows the other
            diagonal = np.diag(confusion)[elsewhere]
            assert diagonal.min() >= 0.5 * 0.99
            assert diagonal.max() <= 0.7


def test_specialists_labels_show_it() -> None:
    crowd = simulate(30_000, 9, 3, specialists=1.0, labels_per_item=9, seed=7)
    counts = label_counts(crowd)
    for m, k in zip(*known_classes(crowd), strict=True):
        assert counts[m, k, k] / counts[m, :, k].sum() > 0.94
        # of all the times that they say it, it is nearly always so
        assert counts[m, k, k] / counts[m, k].sum() > 0.97


@pytest.mark.parametrize("K", [2, 4])
def test_spammers_tell_nothing(K: int) -> None:
    prior = np.arange(1, K + 1) / np.arange(1, K + 1).sum()
    crowd = simulate(10, 30, K, spammers=0.5, prior=prior.tolist(), seed=5)
    spam = crowd.model.confusions[role(crowd, "spammer")]
    assert spam.shape[0] == 15
    # the label is independent of the truth: all columns are the same, to the last bit
    assert np.array_equal(spam, np.broadcast_to(spam[:, :, :1], spam.shape))
    joint = spam * crowd.model.prior
    independent = joint.sum(axis=2, keepdims=True) * joint.sum(axis=1, keepdims=True)
    seen = joint > 0
    information = (joint[seen] * np.log(joint[seen] / independent[seen])).sum()
    assert abs(information) < 1e-13
    honest = crowd.model.confusions[role(crowd, "ordinary")] * crowd.model.prior
    assert (honest * np.log(honest / (honest.sum(2, keepdims=True) * honest.sum(1, keepdims=True)))).sum() > 0.1
    said = spam[:, :, 0]
    assert [np.allclose(row, 1 / K) for row in said].count(True) == 5
    assert [row.max() == 1 for row in said].count(True) == 5
    assert [np.allclose(row, prior) for row in said].count(True) == 5


@pytest.mark.parametrize("K", [2, 3, 6])
def test_adversaries_are_wrong_by_plan(K: int) -> None:
    crowd = simulate(10, 40, K, adversaries=0.5, seed=K)
    adverse = crowd.model.confusions[role(crowd, "adversary")]
    assert adverse.shape[0] == 20
    assert np.diagonal(adverse, axis1=1, axis2=2).max() <= 0.5 / K
    favourite = adverse.argmax(axis=1)
    assert adverse.max(axis=1).min() >= 0.8
    for said in favourite:
        assert sorted(said) == list(range(K))
        assert np.all(said != np.arange(K))
    if K > 2:
        assert np.unique(favourite, axis=0).shape[0] > 1


def test_experts_and_ordinary_annotators_keep_to_their_ranges() -> None:
    crowd = simulate(10, 200, 4, experts=0.5, accuracy=(0.3, 0.6), seed=1)
    right = np.diagonal(crowd.model.confusions, axis1=1, axis2=2)
    experts, ordinary = right[role(crowd, "expert")], right[role(crowd, "ordinary")]
    for values, low, high in ((experts, 0.9, 0.99), (ordinary, 0.3, 0.6)):
        assert values.min() >= low
        assert values.max() <= high
        # spread over the whole range, not gathered at one end: mean of 400 uniform draws
        assert values.mean() == pytest.approx((low + high) / 2, abs=5 * (high - low) / np.sqrt(12 * values.size))


def test_errors_are_spread_by_a_flat_dirichlet() -> None:
    crowd = simulate(10, 500, 4, seed=9)
    k = np.arange(4)
    errors = crowd.model.confusions / (1 - crowd.model.confusions[:, k, k])[:, None, :]
    off = errors[:, ~np.eye(4, dtype=bool)]
    # each share of three has mean 1/3 and variance 2/36
    assert off.mean() == pytest.approx(1 / 3)
    assert off.var() == pytest.approx(1 / 18, rel=0.1)


def test_shares_become_numbers_of_annotators() -> None:
    crowd = simulate(10, 50, experts=0.1, spammers=0.2, adversaries=0.06, specialists=0.3)
    numbers = [crowd.roles.count(name) for name in ("expert", "spammer", "adversary", "specialist", "ordinary")]
    assert numbers == [5, 10, 3, 15, 17]
    assert len(crowd.roles) == 50
    # roles fall at random, not in blocks
    assert list(crowd.roles) != sorted(crowd.roles)


def test_shares_that_round_up_together_still_fit() -> None:
    roles = simulate(10, 3, experts=0.5, spammers=0.5).roles
    assert sorted(roles) == ["expert", "expert", "spammer"]
    assert set(simulate(10, 7, experts=0.1, spammers=0.2, adversaries=0.3, specialists=0.4).roles) <= {
        "expert",
        "spammer",
        "adversary",
        "specialist",
    }


@given(
    M=st.integers(1, 12),
    K=st.integers(2, 6),
    parts=st.lists(st.integers(0, 5), min_size=5, max_size=5).filter(any),
    accuracy=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(lambda pair: (min(pair), max(pair))),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_any_crowd_is_a_model(M: int, K: int, parts: list[int], accuracy: tuple[float, float], seed: int) -> None:
    experts, spammers, adversaries, specialists, _ = np.divide(parts, sum(parts)).tolist()
    crowd = simulate(
        5,
        M,
        K,
        experts=experts,
        spammers=spammers,
        adversaries=adversaries,
        specialists=specialists,
        accuracy=accuracy,
        seed=seed,
    )
    assert np.all(crowd.model.confusions >= 0)
    assert np.allclose(crowd.model.confusions.sum(axis=1), 1, atol=1e-12)
    assert len(crowd.roles) == M


# ---- what makes no sense --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"experts": 0.6, "spammers": 0.5}, "sum to at most 1"),
        ({"experts": -0.1}, "between 0 and 1"),
        ({"spammers": 1.1}, "between 0 and 1"),
        ({"adversaries": float("nan")}, "between 0 and 1"),
        ({"n_items": 0}, "n_items"),
        ({"n_items": 2.5}, "n_items"),
        ({"n_annotators": 0}, "n_annotators"),
        ({"n_classes": 1}, "n_classes"),
        ({"seed": -1}, "seed"),
        ({"labels_per_item": 0}, "labels_per_item"),
        ({"labels_per_item": 51}, "labels_per_item"),
        ({"labels_per_item": 2, "label_probability": 0.5}, "not both"),
        ({"label_probability": 1.5}, "label_probability"),
        ({"label_probability": [0.5, 0.5]}, "50 annotators"),
        ({"prior": [0.5, 0.5]}, "3 probabilities"),
        ({"prior": [0.5, 0.5, 0.5]}, "sum to one"),
        ({"prior": [1.5, -0.5, 0.0]}, "3 probabilities"),
        ({"prior": 0.5}, "3 probabilities"),
        ({"accuracy": (0.9, 0.5)}, "accuracy"),
        ({"accuracy": (0.5, 1.5)}, "accuracy"),
        ({"accuracy": 0.7}, "accuracy"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        simulate(**wrong)


def test_all_annotators_may_play_one_role() -> None:
    assert set(simulate(10, 10, experts=1.0).roles) == {"expert"}
    # tenths do not add up to one exactly
    assert simulate(10, 10, experts=0.1, spammers=0.2, adversaries=0.3, specialists=0.4).roles.count("ordinary") == 0


def test_colluding_adversaries_have_one_plan() -> None:
    plans = {}
    for colluding in (False, True):
        drawn = simulate(10, 20, 4, adversaries=0.5, colluding=colluding, seed=3)
        who = [m for m, role in enumerate(drawn.roles) if role == "adversary"]
        plans[colluding] = {tuple(drawn.model.confusions[m].argmax(axis=0).tolist()) for m in who}
    assert len(plans[True]) == 1 < len(plans[False])
    assert all(k != said for plan in plans[True] for k, said in enumerate(plan))
