"""The bound of the error of labels, against the exact error of all answers and against simulations."""

from __future__ import annotations

import tracemalloc
from itertools import product
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

import consilience as cs
from consilience.data.ids import Ids
from consilience.diagnose.guaranteed import Guarantees
from consilience.exceptions import ParameterError
from consilience.guarantees import error_bound, error_exponent, known_answers_needed, labels_needed


def exact_error(model: cs.DawidSkene) -> float:
    """Sum over all answers of all annotators: what the most probable class leaves."""
    A, prior = np.asarray(model.confusions), np.asarray(model.prior)
    joint = [
        prior * np.prod([A[m, i] for m, i in enumerate(answers)], axis=0)
        for answers in product(range(prior.size), repeat=len(A))
    ]
    return 1.0 - float(np.max(joint, axis=1).sum())


@pytest.mark.parametrize("seed", range(4))
def test_bound_is_above_the_exact_error(seed: int) -> None:
    crowd = cs.simulate(10, 6, 3, accuracy=(0.5, 0.9), prior=(0.5, 0.3, 0.2), seed=seed)
    exact, bound = exact_error(crowd.model), error_bound(crowd.model, 6)
    assert exact <= bound.value < 6 * exact
    assert not bound.vacuous


def test_bound_holds_for_few_labels_by_random_annotators() -> None:
    for labels in (2, 5, 9):
        crowd = cs.simulate(4000, 10, 3, labels_per_item=labels, seed=1)
        wrong = np.mean(crowd.model.posterior(crowd.annotations).argmax(axis=1) != crowd.truth)
        assert wrong <= error_bound(crowd.model, labels).value


def test_exponent_of_one_coin() -> None:
    """Two classes and equal annotators: the Bhattacharyya coefficient 2 √(a (1 - a)) is the largest overlap."""
    a = 0.8
    A = np.full((5, 2, 2), 1 - a)
    A[:, [0, 1], [0, 1]] = a
    model = cs.DawidSkene(np.full(2, 0.5), A, Ids.range(2), Ids.range(5))
    assert error_exponent(model) == pytest.approx(-np.log(2 * np.sqrt(a * (1 - a))))
    assert error_bound(model, 3).value == pytest.approx(0.5 * (2 * np.sqrt(a * (1 - a))) ** 3)


def test_many_classes_need_little_memory() -> None:
    """One coin of K faces: the overlap of two classes is 2 √(a b) + (K - 2) b, at s = 1/2."""
    K, a = 700, 0.99
    b = (1 - a) / (K - 1)
    A = np.full((3, K, K), b)
    A[:, range(K), range(K)] = a
    model = cs.DawidSkene(np.full(K, 1 / K), A, Ids.range(K), Ids.range(3))
    tracemalloc.start()
    bound = error_bound(model, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert bound.value == pytest.approx((K - 1) / 2 * (2 * np.sqrt(a * b) + (K - 2) * b) ** 4)
    assert not bound.vacuous
    assert peak < 6 * A.nbytes


def test_no_guarantee_is_computed_for_thousands_of_classes() -> None:
    """The confusions take no memory here; their products would."""
    K = 6000
    model = cs.simulate(10, 2, 2, seed=0).model
    many = SimpleNamespace(prior=np.full(K, 1 / K), confusions=np.broadcast_to(1 / K, (3, K, K)))
    assert Guarantees.of(model, 3.0) is not None
    assert Guarantees.of(cast("cs.DawidSkene", many), 3.0) is None


def test_labels_needed_is_the_smallest_number() -> None:
    model = cs.simulate(10, 8, 3, accuracy=(0.6, 0.9), seed=3).model
    needed = labels_needed(model, 0.02)
    assert needed is not None
    assert error_bound(model, needed).value <= 0.02 < error_bound(model, needed - 1).value


def test_perfect_annotators_need_one_label() -> None:
    model = cs.DawidSkene(np.full(2, 0.5), np.tile(np.eye(2), (3, 1, 1)), Ids.range(2), Ids.range(3))
    assert labels_needed(model, 0.01) == 1
    assert error_bound(model, 0).vacuous
    assert error_exponent(model) == np.inf


def test_spammers_guarantee_nothing() -> None:
    model = cs.simulate(10, 6, 2, spammers=1.0, seed=0).model
    assert labels_needed(model, 0.05) is None
    assert known_answers_needed(model, 5) is None
    assert "says nothing" in str(error_bound(model, 5))
    with pytest.raises(ParameterError, match="between 0 and 1"):
        labels_needed(model, 0.0)


def test_known_answers_decide_which_class_is_which() -> None:
    """Draw known answers, and count how often another order of the classes agrees with as many of them."""
    crowd = cs.simulate(3000, 10, 3, labels_per_item=5, accuracy=(0.7, 0.9), seed=2)
    n = known_answers_needed(crowd.model, 5, delta=0.1)
    assert n is not None
    assert n < 60
    labels = crowd.model.posterior(crowd.annotations).argmax(axis=1)
    rng, failed = np.random.default_rng(0), 0
    for _ in range(300):
        drawn = rng.choice(3000, n)
        agree = [np.sum(np.asarray(order)[labels[drawn]] == crowd.truth[drawn]) for order in _orders()]
        failed += int(np.argmax(agree) != 0 or agree.count(max(agree)) > 1)
    assert failed / 300 <= 0.1


def _orders() -> list[tuple[int, ...]]:
    from itertools import permutations

    return list(permutations(range(3)))
