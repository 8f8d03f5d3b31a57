"""The pool of votes and model: the formula by hand, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from consilience.auto import constants, pool
from consilience.auto.pool import Pool
from consilience.data.annotations import Annotations
from consilience.kernels._arrays import Floats, Ints


def crowd(seed: int = 0, N: int = 40, M: int = 7, K: int = 3) -> tuple[Annotations, Ints]:
    """Items with one to seven labels, and their labels as a matrix, -1 for none."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, K, (N, M))
    matrix[rng.random((N, M)) < np.linspace(0.0, 0.8, N)[:, None]] = -1
    matrix[(matrix < 0).all(axis=1), 0] = 1
    return Annotations.from_matrix(matrix), matrix


def any_posterior(annotations: Annotations) -> Floats:
    """Some probabilities that depend on the item's labels only."""
    a = annotations
    rows = [np.random.default_rng(a.label[a.indptr[n] : a.indptr[n + 1]] + 1) for n in range(a.n_items)]
    return np.array([rng.dirichlet(np.full(a.n_classes, 0.5)) for rng in rows])


def by_hand(
    labels: list[tuple[int, int]],
    q: Floats,
    exponents: tuple[float, float],
    dependent: float,
    counted: Floats,
    shares: Floats,
    weights: Floats,
    offsets: Floats,
    doubt: float,
) -> list[float]:
    """Pool the labels (annotator, class) of one item with the posterior q."""
    K, n = len(q), sum(counted[m] for m, _ in labels)
    votes = [sum(counted[m] for m, x in labels if x == k) / n for k in range(K)]
    exponent = (1 - dependent) + dependent * exponents[1] / (1 + (max(n, 1.0) - 1) * constants.CORRELATION)
    product = []
    for k in range(K):
        v = (1 - constants.FLOOR) * votes[k] + constants.FLOOR / K
        by_annotators = math.exp(sum(weights[m] for m, x in labels if x == k))
        of_both = v ** (shares[0] * dependent * exponents[0]) * q[k] ** (shares[1] * exponent)
        product.append(of_both * by_annotators * math.exp(offsets[k]))
    return [(1 - doubt) * p / sum(product) + doubt / K for p in product]


@pytest.mark.parametrize("dependent", [1.0, 0.4, 0.0])
@pytest.mark.parametrize("learned", [False, True])
def test_probabilities_are_those_of_the_formula(dependent: float, learned: bool) -> None:
    (a, matrix), exponents = crowd(), (0.8, 0.3)
    counted = np.array([1.0, 1.0, 0.5, 0.5, 1.0, 1.0, 1.0])
    weights = np.array([0.3, 1.2, 0.0, -2.0, 0.7, 0.1, 0.4]) if learned else np.zeros(7)
    shares = (0.7, 1.6) if learned else (1.0, 1.0)
    offsets, doubt = np.array([0.4, -0.3, 0.0]) if learned else np.zeros(3), 0.12
    made = Pool(any_posterior, a.annotator_ids, counted, exponents, dependent, doubt)
    if learned:
        made = replace(made, shares=shares, offsets=offsets, weights=weights)
    probabilities, votes = made(a)
    q = any_posterior(a)
    for n, row in enumerate(matrix):
        labels = [(m, int(x)) for m, x in enumerate(row) if x >= 0]
        expected = by_hand(labels, q[n], exponents, dependent, counted, np.array(shares), weights, offsets, doubt)
        np.testing.assert_allclose(probabilities[n], expected, rtol=1e-9)
        total = sum(counted[m] for m, _ in labels)
        np.testing.assert_allclose(votes[n], [sum(counted[m] for m, x in labels if x == k) / total for k in range(3)])


def test_votes_decide_where_the_model_is_undecided_and_only_there() -> None:
    a, _ = crowd(1)
    uniform = Pool(lambda some: np.full((some.n_items, 3), 1 / 3), a.annotator_ids)
    probabilities, votes = uniform(a)
    np.testing.assert_array_equal(np.argsort(probabilities, axis=1, kind="stable"), np.argsort(votes, 1, "stable"))
    # where all votes are equal, the model decides
    even = Annotations.from_matrix(np.tile(np.arange(3), (20, 1)))
    q = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    probabilities, _ = Pool(lambda _: q, even.annotator_ids)(even)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), q.argmax(axis=1))


def test_the_model_is_taken_at_its_word_where_errors_are_independent() -> None:
    a, _ = crowd(2)
    probabilities, _ = Pool(any_posterior, a.annotator_ids, dependent=0.0, doubt=0.0)(a)
    np.testing.assert_allclose(probabilities, any_posterior(a), atol=1e-10)


def test_the_same_posterior_is_believed_less_the_more_labels_it_rests_on() -> None:
    """A model of independent annotators overstates each of them."""
    q, sure = np.array([[0.99, 0.01], [0.01, 0.99]]), []
    for n in (1, 2, 5, 20):
        a = Annotations.from_matrix(np.repeat([[0], [1]], n, axis=1))
        sure.append(float(Pool(lambda _: q, a.annotator_ids)(a)[0][0, 0]))
    assert np.diff(sure).max() < -0.005


def test_copies_that_share_one_vote_count_like_one_annotator() -> None:
    rng = np.random.default_rng(3)
    matrix = rng.integers(0, 3, (50, 4))
    copied = np.hstack([matrix, matrix[:, 3:], matrix[:, 3:]])
    one, many = Annotations.from_matrix(matrix), Annotations.from_matrix(copied)
    q = rng.dirichlet(np.ones(3), 50)
    weights = np.array([1.0, 1.0, 1.0, 1 / 3, 1 / 3, 1 / 3])
    expected, _ = Pool(lambda _: q, one.annotator_ids)(one)
    np.testing.assert_allclose(Pool(lambda _: q, many.annotator_ids, weights)(many)[0], expected, rtol=1e-12)


def test_known_truths_are_held_and_items_without_labels_get_the_posterior() -> None:
    a, matrix = crowd(4)
    matrix = matrix.copy()
    matrix[5] = -1
    a = Annotations.from_matrix(matrix, gold=np.where(np.arange(40) < 3, [2] * 40, -1))
    q = np.random.default_rng(5).dirichlet(np.ones(3), 40)
    probabilities, votes = Pool(lambda _: q, a.annotator_ids)(a)
    np.testing.assert_array_equal(probabilities[:3], np.tile([0.0, 0.0, 1.0], (3, 1)))
    np.testing.assert_array_equal(votes[:3], probabilities[:3])
    np.testing.assert_array_equal(probabilities[5], q[5])


def test_blocks_of_items_and_the_order_of_annotators_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    a, matrix = crowd(6)
    made = Pool(any_posterior, a.annotator_ids, np.linspace(0.2, 1.0, 7))
    made = replace(made, shares=(1.0, 0.5), offsets=np.array([0.1, 0.0, -0.2]), weights=np.arange(7.0))
    whole, votes = made(a)
    monkeypatch.setattr(pool, "_BLOCK", 7)
    for one, other in zip(made(a), (whole, votes), strict=True):
        np.testing.assert_array_equal(one, other)
    # the last annotator is missing, the others come in another order
    order = [3, 0, 2, 1, 5, 4]
    few = Annotations.from_matrix(matrix[:, order], annotators=[a.annotators[m] for m in order])
    same = Annotations.from_matrix(np.where(np.arange(7) == 6, -1, matrix), annotators=list(a.annotators))
    blind = replace(made, model=lambda some: np.full((some.n_items, 3), 1 / 3))
    np.testing.assert_allclose(blind(few)[0], blind(same)[0], rtol=1e-12)


def test_unknown_annotators_count_once_and_have_no_weight() -> None:
    a = Annotations.from_matrix([[0, 1, 2], [1, 1, 0], [2, 0, 0]], annotators=["known", "new", "newer"])
    known = a.annotator_ids.take(np.array([0]))
    q = np.random.default_rng(0).dirichlet(np.ones(3), 3)
    made = replace(Pool(lambda _: q, known, np.array([0.25])), weights=np.array([0.8]))
    probabilities, _ = made(a)
    counted, weights = np.array([0.25, 1.0, 1.0]), np.array([0.8, 0.0, 0.0])
    for n, row in enumerate([[0, 1, 2], [1, 1, 0], [2, 0, 0]]):
        exponents, doubt = constants.EXPONENTS["assigned"], constants.DOUBT["assigned"]
        labels = list(enumerate(row))
        expected = by_hand(labels, q[n], exponents, 1.0, counted, np.ones(2), weights, np.zeros(3), doubt)
        np.testing.assert_allclose(probabilities[n], expected, rtol=1e-9)
