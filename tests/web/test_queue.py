"""The value of a decision and the first-order update, against computations that share no code with them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import consilience as cs
from consilience.auto import constants
from consilience.data.annotations import Annotations
from consilience.kernels._arrays import Floats
from consilience.web.learning import Beliefs, LabelsByAnnotator, beliefs_of, decided, shifted
from consilience.web.queue import needed, order_of, reordered, teaching


@pytest.fixture(scope="module")
def crowd() -> tuple[Annotations, LabelsByAnnotator, Beliefs]:
    a = cs.simulate(40, 6, 3, labels_per_item=3, seed=2).annotations
    run = cs.aggregate(a, "ds-em", smoothing=1.0)
    return a, LabelsByAnnotator.of(a), beliefs_of(a, run.posterior.copy(), run.counts.copy(), "ds-em")


def by_loops(a: Annotations, now: Beliefs, n: int, k: int) -> Floats:
    """The posterior of all items after a decision, label by label."""
    K = a.n_classes
    triples = [
        (j, int(a.annotator[at]), int(a.label[at]))
        for j in range(a.n_items)
        for at in range(a.indptr[j], a.indptr[j + 1])
    ]
    after = now.counts.copy()
    for j, m, i in triples:
        if j == n:
            for c in range(K):
                after[m, i, c] += (c == k) - now.posterior[n, c]

    def log_confusion(counts: Floats, m: int, i: int, c: int) -> float:
        column = [max(counts[m, x, c], 0) + constants.SMOOTHING + constants.DIAGONAL * (x == c) for x in range(K)]
        return float(np.log(column[i] / sum(column)))

    made = np.log(now.posterior)
    mine = {m for j, m, _ in triples if j == n}
    for j, m, i in triples:
        for c in range(K):
            if m in mine:
                made[j, c] += now.weight[j] * (log_confusion(after, m, i, c) - log_confusion(now.counts, m, i, c))
    p = np.exp(made)
    p /= p.sum(axis=1, keepdims=True)
    p[n] = np.arange(K) == k
    return np.asarray(p)


@pytest.mark.parametrize(("n", "k"), [(0, 0), (7, 2), (39, 1)])
def test_a_decision_moves_what_it_should(crowd: tuple[Annotations, LabelsByAnnotator, Beliefs], n: int, k: int) -> None:
    a, by, now = crowd
    mine = Beliefs(now.posterior.copy(), now.counts.copy(), now.weight)
    moved = decided(a, by, mine, n, k, np.array([n]))
    np.testing.assert_allclose(mine.posterior, by_loops(a, now, n, k), atol=1e-12)
    assert n not in moved
    same = np.setdiff1d(np.arange(a.n_items), [*moved, n])
    np.testing.assert_array_equal(mine.posterior[same], now.posterior[same])


def test_counts_still_hold_every_label(crowd: tuple[Annotations, LabelsByAnnotator, Beliefs]) -> None:
    a, by, now = crowd
    mine = Beliefs(now.posterior.copy(), now.counts.copy(), now.weight)
    for n in range(5):
        decided(a, by, mine, n, 1, np.arange(5))
    np.testing.assert_allclose(mine.counts.sum(axis=2), now.counts.sum(axis=2))
    np.testing.assert_allclose(mine.posterior.sum(axis=1), 1.0)


def test_known_items_stay(crowd: tuple[Annotations, LabelsByAnnotator, Beliefs]) -> None:
    a, by, now = crowd
    mine = Beliefs(now.posterior.copy(), now.counts.copy(), now.weight)
    settled = np.arange(10)
    moved = decided(a, by, mine, 0, 0, settled)
    assert not np.isin(moved, settled).any()


def test_teaching_is_the_expected_gain_elsewhere(crowd: tuple[Annotations, LabelsByAnnotator, Beliefs]) -> None:
    a, by, now = crowd
    items = np.array([3, 11, 25])
    found = teaching(a, by, now, items)
    for n, value in zip(items.tolist(), found, strict=True):
        gain = 0.0
        for k in range(3):
            after = by_loops(a, now, n, k)
            others = np.arange(a.n_items) != n
            gain += now.posterior[n, k] * (after[others].max(axis=1) - now.posterior[others].max(axis=1)).sum()
        assert value == pytest.approx(gain, abs=1e-10)


def test_a_rare_annotator_teaches_nothing() -> None:
    # annotator x labelled one item only: nobody else's item can change through them
    rows = [("a", "x", 0), *((f"i{n}", f"w{m}", (n + m) % 2) for n, m in itertools.product(range(6), range(3)))]
    a = Annotations.from_frame(_frame(rows))
    now = beliefs_of(a, np.full((a.n_items, 2), 0.5), np.ones((a.n_annotators, 2, 2)), "ds-em")
    alone, busy = (int(np.flatnonzero(a.items == name)[0]) for name in ("a", "i1"))
    others, _, _, _ = shifted(a, LabelsByAnnotator.of(a), now, alone, 1)
    assert others.size == 0
    assert shifted(a, LabelsByAnnotator.of(a), now, busy, 1)[0].size == 5


def _frame(rows: list[tuple[str, str, int]]) -> object:
    import pandas as pd

    return pd.DataFrame(rows, columns=["item", "worker", "label"])


def test_order() -> None:
    value = np.array([0.1, 0.5, 0.5, 0.9])
    assert order_of(value, np.array([True, True, True, False])).tolist() == [1, 2, 0]


@pytest.mark.parametrize("target", [0.0, 0.3, 1.0, 2.5, 9.0])
@pytest.mark.parametrize("size", [1, 7, 30])
def test_needed_decisions(target: float, size: int) -> None:
    wrong = np.sort(np.random.default_rng(0).random(30) / 4)[::-1]
    best = next(n for n in range(31) if sum(wrong[n:]) <= target + 1e-9)
    assert needed((wrong[at : at + size] for at in range(0, 30, size)), wrong.sum(), target) == best


@pytest.mark.parametrize("seed", range(5))
def test_moved_items_find_their_place(seed: int) -> None:
    rng = np.random.default_rng(seed)
    value, open_ = rng.random(50), rng.random(50) < 0.8
    order = order_of(value, open_)
    moved = rng.choice(50, 10, replace=False)
    value[moved] = rng.random(10)
    open_[moved[:3]] = False
    open_[moved[3]] = True
    np.testing.assert_array_equal(reordered(order, value, moved, open_), order_of(value, open_))
