"""Known answers in every method: held, and worth what they should be where most annotators are consistently wrong."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import quietly

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.kernels._arrays import Ints
from consilience.methods.base.registry import METHODS, fit
from consilience.models.dawid_skene import DawidSkene

#: Methods that need two classes.
BINARY = ("eigenratio", "ghosh-svd", "sml", "te")
#: Limits in percent where they are not the best possible plus 1.5: one accuracy cannot describe who takes every class
#: for the next, completed labels are votes, and messages weigh annotators by class alone.
LIMITS = {"one-coin": 20.0, "class-one-coin": 20.0, "glad": 20.0, "cria-v": 20.0, "kos": 6.0}
ALL = [name for name in METHODS if name not in ("auto", "majority", "open-answers")]


def misled(K: int, n_items: int, n_known: int, seed: int = 0) -> tuple[Annotations, Ints, float]:
    """Seven of ten annotators take every class for the next one; the least error of all items without gold."""
    rng = np.random.default_rng(seed)
    right = rng.uniform(0.65, 0.8, 10)
    A = np.stack([np.where(np.eye(K, dtype=bool), r, (1 - r) / (K - 1)) for r in right])
    A[:7] = np.roll(A[:7], 1, axis=1)
    model = DawidSkene(np.full(K, 1 / K), A, Ids.range(K), Ids([f"a{m}" for m in range(10)]))
    annotations, truth = model.sample(n_items, random_state=rng)
    best = model.posterior(annotations)[n_known:].argmax(axis=1)
    known = np.where(np.arange(n_items) < n_known, truth, -1)
    return annotations.with_gold(known), truth, 100 * float((best != truth[n_known:]).mean())


def error_on_others(annotations: Annotations, method: str, truth: Ints, n_known: int) -> float:
    posterior = fit(method, annotations).posterior
    np.testing.assert_array_equal(posterior[np.arange(n_known), truth[:n_known]], 1.0)
    return 100 * float((posterior.argmax(axis=1) != truth)[n_known:].mean())


@pytest.mark.parametrize("method", ALL)
def test_known_answers_turn_a_misled_crowd_over(method: str) -> None:
    K = 2 if method in BINARY else 3
    annotations, truth, best = misled(K, 1500, 150)
    assert error_on_others(annotations, method, truth, 150) < LIMITS.get(method, best + 1.5)
    assert error_on_others(annotations, f"{method}+em", truth, 150) < best + 1.5


@pytest.mark.parametrize("method", ["ds-em", "ibcc", "rob-symnmf+em", "tensor-admm"])
def test_the_benchmark_of_three_hundred_answers(method: str) -> None:
    annotations, truth, best = misled(3, 5000, 300, seed=1)
    assert error_on_others(annotations, method, truth, 300) < best + 0.5


def test_votes_are_votes_whatever_is_known() -> None:
    annotations, truth, best = misled(3, 600, 60)
    consensus, blind = quietly(annotations, "majority"), quietly(annotations.with_gold(None), "majority")
    np.testing.assert_array_equal(consensus.posterior[60:], blind.posterior[60:])
    assert error_on_others(annotations, "majority+em", truth, 60) < best + 1.5


@pytest.mark.parametrize("method", ["ds-em", "hierarchical", "rob-symnmf", "tensor-admm", "multispa", "cnmf"])
def test_a_few_answers_do_no_harm_to_a_sound_crowd(method: str) -> None:
    changes = []
    for seed in range(1 if method == "tensor-admm" else 5):  # a pair of its fits takes ten seconds
        sim = cs.simulate(400, 20, 4, labels_per_item=5, experts=0.1, spammers=0.2, seed=seed)
        known = {n: int(sim.truth[n]) for n in range(0, 400, 40)}
        others = {n: int(k) for n, k in enumerate(sim.truth) if n not in known}
        blind = quietly(sim.annotations, method).error_rate(others)
        changes.append(quietly(sim.annotations, method, gold=known).error_rate(others) - blind)
    assert np.mean(changes) < 0.5
    assert np.max(changes) < 3.0
