"""Copies are found, independent annotators are not taken for them, and the arithmetic is that of the definition."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.conftest import real_crowd

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.datasets.hard_cases import clones
from consilience.kernels._arrays import Ints
from consilience.moments import copies as module
from consilience.moments.cooccurrence import pair_moments
from consilience.moments.copies import KappaTable, find_copies, group_sums, one_factor


def copies_in(annotations: Annotations) -> list[list[int]]:
    return [group.members.tolist() for group in find_copies(annotations)]


@pytest.mark.parametrize("flip", [0.0, 0.05, 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_six_copies_of_a_weak_judge_are_found(seed: int, flip: float) -> None:
    crowd = clones(seed, flip)
    assert copies_in(crowd.annotations) == [[m for m, role in enumerate(crowd.roles) if role == "copy"]]


def test_what_is_reported_is_what_independence_would_give() -> None:
    (group,) = find_copies(clones(0).annotations)
    assert group.within == pytest.approx(1.0)
    # five judges with one factor r = √κ each, κ of two coins with K = 3: ((p K - 1) / (K - 1)) of both, multiplied
    reliability = (3 * np.array([0.70, 0.725, 0.75, 0.775, 0.80]) - 1) / 2
    assert group.expected == pytest.approx(reliability.mean(), abs=0.03)
    assert group.observed == pytest.approx(reliability.mean() * (3 * 0.6 - 1) / 2, abs=0.03)


@pytest.mark.parametrize(
    "crowd",
    [
        {"experts": 0.3},
        {"spammers": 0.4},
        {"adversaries": 0.2},
        {"specialists": 0.3},
        {"experts": 0.3, "adversaries": 0.3},
        {"accuracy": (0.3, 0.95)},
    ],
    ids=str,
)
def test_independent_annotators_are_no_copies(crowd: dict[str, float]) -> None:
    for seed in range(8):
        drawn = cs.simulate(2000, 20, 2 + seed % 4, labels_per_item=6, seed=100 + seed, **crowd)  # type: ignore[arg-type]
        assert copies_in(drawn.annotations) == []


def test_six_experts_who_agree_because_they_are_right_are_no_copies() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 2000)
    accuracy = np.array([0.97] * 6 + [0.75] * 5)
    right = rng.random((2000, 11)) < accuracy
    labels = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, 3, (2000, 11))) % 3)
    assert copies_in(Annotations.from_matrix(labels)) == []


def test_most_of_the_crowd_are_no_copies_though_a_few_weak_ones_err_alike() -> None:
    # twelve good classifiers, and three weak ones whose errors go together
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 3000)
    wrong = (truth + rng.integers(1, 5, 3000)) % 5
    good = np.where(
        rng.random((3000, 12)) < 0.88, truth[:, None], (truth[:, None] + rng.integers(1, 5, (3000, 12))) % 5
    )
    misled = np.where(rng.random(3000) < 0.45, truth, wrong)
    weak = np.where(rng.random((3000, 3)) < 0.85, misled[:, None], rng.integers(0, 5, (3000, 3)))
    assert copies_in(Annotations.from_matrix(np.concatenate([good, weak], axis=1))) == [[12, 13, 14]]


def altered(labels: Ints, share: float, n: int, rng: np.random.Generator, K: int = 4) -> Ints:
    """``n`` columns of these labels, this share of them changed, independently."""
    turned = (labels[:, None] + rng.integers(1, K, (labels.size, n))) % K
    return np.where(rng.random((labels.size, n)) < share, turned, labels[:, None])


@pytest.mark.parametrize("seed", range(4))
def test_good_annotators_beside_many_copies_are_no_copies(seed: int) -> None:
    """They agree with each other, and not with the six; without the six nothing is left of that."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, 1000)
    weak = altered(truth, 0.4, 1, rng)[:, 0]
    crowd = Annotations.from_matrix(np.hstack([altered(truth, 0.1, 4, rng), altered(weak, 0.05, 6, rng)]))
    assert copies_in(crowd) == [[4, 5, 6, 7, 8, 9]]


def test_two_groups_of_copies_are_found() -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 4, 2000)
    good = altered(truth, 0.25, 6, rng)
    groups = [altered(altered(truth, 0.5, 1, rng)[:, 0], 0.03, 4, rng) for _ in range(2)]
    found = copies_in(Annotations.from_matrix(np.hstack([good, *groups])))
    assert sorted(found) == [[6, 7, 8, 9], [10, 11, 12, 13]]


# ---- members who differ from their group -----------------------------------------------------------------------------


def of_different_difficulty(seed: int, N: int = 1500) -> Annotations:
    """Six good annotators who err on hard items only, and eight weaker ones who are misled there more often.

    Weak annotators err alike, as people do who share a misconception.
    """
    rng = np.random.default_rng(seed)
    truth, hard = rng.integers(0, 2, N), rng.random(N) < 0.4
    good = np.where(rng.random((N, 6)) < np.where(hard, 0.25, 0.0)[:, None], 1 - truth[:, None], truth[:, None])
    weak = np.where(rng.random((N, 8)) < np.where(hard, 0.85, 0.15)[:, None], 1 - truth[:, None], truth[:, None])
    return Annotations.from_matrix(np.hstack([good, weak]))


@pytest.mark.parametrize("seed", range(4))
def test_a_group_that_differs_on_hard_items_is_no_group_of_copies(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By agreement alone the six good annotators look like copies; where one of them differs, so do others."""
    crowd = of_different_difficulty(seed)
    assert copies_in(crowd) == []
    monkeypatch.setattr(module, "_INFORMED", np.inf)
    assert copies_in(crowd) == [[0, 1, 2, 3, 4, 5]]


def test_differences_within_a_group_are_those_of_the_definition() -> None:
    """d, one label at a time; ``_look_at_items`` compares it with the threshold."""
    rng = np.random.default_rng(3)
    N, K, members = 300, 3, [0, 1, 2, 3]
    labels = np.where(rng.random((N, 9)) < 0.7, rng.integers(0, K, (N, 1)), rng.integers(0, K, (N, 9)))
    labels[rng.random((N, 9)) < 0.2] = -1
    a = Annotations.from_matrix(labels)
    pairs = []  # group's answer, differing answers of members, answers of others
    for row in labels:
        inside, outside = [int(x) for x in row[:4] if x >= 0], [int(x) for x in row[4:] if x >= 0]
        ranked = Counter(inside).most_common()
        if len(inside) > 2 and outside and (len(ranked) == 1 or ranked[0][1] > ranked[1][1]):
            pairs.append((ranked[0][0], [x for x in inside if x != ranked[0][0]], outside))
    beyond = room = 0.0
    for g, differing, outside in pairs:
        usual = Counter(y for other, _, said in pairs if other == g for y in said)
        for x in differing:
            p = usual[x] / sum(usual.values())
            beyond += outside.count(x) / len(outside) - p
            room += 1.0 - p
    for threshold, expected in ((beyond / room - 1e-9, True), (beyond / room + 1e-9, False)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(module, "_INFORMED", threshold)
            assert module._look_at_items(a, np.array(members)) is expected


def test_order_and_names_do_not_matter() -> None:
    crowd = clones(3, 0.05).annotations
    matrix = crowd.label.reshape(2000, 11)
    order = np.random.default_rng(1).permutation(11)
    rows = np.random.default_rng(2).permutation(2000)
    (members,) = copies_in(Annotations.from_matrix(matrix[rows][:, order]))
    assert sorted(order[members].tolist()) == list(range(5, 11))


def test_few_annotators_or_few_labels_show_nothing() -> None:
    assert find_copies(cs.simulate(100, 4, 2, seed=0).annotations) == ()
    assert find_copies(clones(0).annotations.select_items(np.arange(8))) == ()


def test_kappa_is_cohens() -> None:
    from sklearn.metrics import cohen_kappa_score

    labels: Ints = np.random.default_rng(4).integers(0, 3, (120, 1)) + np.zeros((1, 6), int)
    labels = np.where(np.random.default_rng(5).random((120, 6)) < 0.6, labels, labels[::-1])
    kappa = KappaTable.of(pair_moments(Annotations.from_matrix(labels))).kappa
    for m in range(6):
        for j in range(m):
            assert kappa[m, j] == pytest.approx(cohen_kappa_score(labels[:, m], labels[:, j]))


def testone_factor_is_recovered() -> None:
    r = np.array([0.9, 0.7, 0.5, 0.3, -0.2])
    np.testing.assert_allclose(one_factor(np.outer(r, r), np.ones((5, 5)) - np.eye(5)), r, atol=1e-3)


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize(
    "name",
    [*["bluebird", "dog52", "rte", "trec", "labelme", "music", "zencrowd_us", "product", "duck", "leaves", "dices350"]],
)
def test_public_crowds_have_none(name: str) -> None:
    assert find_copies(real_crowd(name)[0]) == ()


def test_sums_of_many_groups_are_those_of_each() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((9, 9))
    values += values.T
    np.fill_diagonal(values, 0.0)
    low, high = np.array([0, 2, 5, 0]), np.array([3, 4, 9, 9])
    within, across, among = group_sums(values, low, high)
    for g in range(4):
        inside = np.zeros(9, bool)
        inside[low[g] : high[g]] = True
        assert within[g] == pytest.approx(0.5 * values[np.ix_(inside, inside)].sum())
        assert across[g] == pytest.approx(values[np.ix_(inside, ~inside)].sum(), abs=1e-12)
        assert among[g] == pytest.approx(0.5 * values[np.ix_(~inside, ~inside)].sum(), abs=1e-12)
