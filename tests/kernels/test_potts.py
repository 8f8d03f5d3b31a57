"""The sweeps against plain loops from the equations, and against what they must never lower."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import random_model

from consilience.kernels import potts
from consilience.kernels._arrays import Floats
from consilience.structured.graph import Graph
from consilience.structured.potts import Field


def random_field(seed: int, N: int = 40, K: int = 3, E: int = 90) -> tuple[Field, Floats]:
    rng = np.random.default_rng(seed)
    graph = Graph.from_edges(rng.integers(0, N, E), rng.integers(0, N, E), rng.uniform(0.2, 2.0, E), n_items=N)
    prior = rng.dirichlet(np.ones(K))
    return Field.of(graph, rng.uniform(0, 2, N), prior, "stationary"), rng.normal(size=(N, K)) + np.log(prior)


def neighbours(field: Field, n: int) -> list[tuple[int, float]]:
    g = field.graph
    rows = range(int(g.indptr[n]), int(g.indptr[n + 1]))
    return [(int(g.neighbour[j]), float(field.strength[j])) for j in rows]


@pytest.mark.parametrize("seed", range(3))
def test_mean_field_is_the_equation_item_after_item(seed: int) -> None:
    field, evidence = random_field(seed)
    g = field.graph
    q = np.full(evidence.shape, 1 / 3)
    slow = q.copy()
    before = q.copy()
    for n in range(g.n_items):
        score = evidence[n].copy()
        for other, strength in neighbours(field, n):
            score += strength * field.scale * slow[other]
        slow[n] = np.exp(score) / np.exp(score).sum()
    change = potts.mean_field_sweep(g.indptr, g.neighbour, field.strength, evidence, field.scale, q)
    np.testing.assert_allclose(q, slow, atol=1e-12)
    assert change == pytest.approx(np.abs(slow - before).max())


@pytest.mark.parametrize("seed", range(3))
def test_icm_is_the_equation_item_after_item(seed: int) -> None:
    field, evidence = random_field(seed)
    g = field.graph
    state = evidence.argmax(axis=1)
    slow = state.copy()
    for n in range(g.n_items):
        score = evidence[n].copy()
        for other, strength in neighbours(field, n):
            score[slow[other]] += strength * field.scale[slow[other]]
        slow[n] = score.argmax()
    changed = potts.icm_sweep(g.indptr, g.neighbour, field.strength, evidence, field.scale, state)
    np.testing.assert_array_equal(state, slow)
    assert changed == int((slow != evidence.argmax(axis=1)).sum()) > 0


def test_a_tie_changes_nothing() -> None:
    state = np.array([1, 0])
    nothing = np.zeros(0, np.int32), np.zeros(0)
    assert potts.icm_sweep(np.zeros(3, np.int64), *nothing, np.zeros((2, 3)), np.ones(3), state) == 0
    assert state.tolist() == [1, 0]


@pytest.mark.parametrize("seed", range(5))
def test_mean_field_never_lowers_its_bound(seed: int) -> None:
    field, evidence = random_field(seed)
    g = field.graph
    q = np.random.default_rng(seed).dirichlet(np.ones(3), g.n_items)
    bounds = [field.bound(evidence, q)]
    for _ in range(30):
        potts.mean_field_sweep(g.indptr, g.neighbour, field.strength, evidence, field.scale, q)
        bounds.append(field.bound(evidence, q))
    assert np.all(np.diff(bounds) >= -1e-10)
    assert bounds[-1] > bounds[0] + 1


@pytest.mark.parametrize("seed", range(5))
def test_icm_never_lowers_the_posterior(seed: int) -> None:
    field, evidence = random_field(seed)
    g = field.graph
    state = np.random.default_rng(seed).integers(0, 3, g.n_items)
    energies = [field.energy(evidence, state)]
    for _ in range(30):
        changed = potts.icm_sweep(g.indptr, g.neighbour, field.strength, evidence, field.scale, state)
        energies.append(field.energy(evidence, state))
        if not changed:
            break
    assert np.all(np.diff(energies) >= -1e-10)
    assert changed == 0
    # where it ends no single change is better
    for n in range(g.n_items):
        for k in range(3):
            other = state.copy()
            other[n] = k
            assert field.energy(evidence, other) <= energies[-1] + 1e-10


def test_support_of_chosen_rows_is_part_of_that_of_all() -> None:
    field, _ = random_field(0)
    g = field.graph
    q = np.random.default_rng(0).dirichlet(np.ones(3), g.n_items)
    dense = np.zeros((g.n_items, g.n_items))
    for n in range(g.n_items):
        for other, strength in neighbours(field, n):
            dense[n, other] = strength
    everything = potts.support(g.indptr, g.neighbour, field.strength, q)
    np.testing.assert_allclose(everything, dense @ q, atol=1e-12)
    rows = np.array([7, 3, 31])
    np.testing.assert_array_equal(potts.support(g.indptr, g.neighbour, field.strength, q, rows), everything[rows])


def test_conditional_likelihood_by_hand() -> None:
    field, evidence = random_field(1)
    g = field.graph
    q = np.random.default_rng(0).dirichlet(np.ones(3), g.n_items)
    total = 0.0
    for n in range(g.n_items):
        said = np.zeros(3)
        for other, strength in neighbours(field, n):
            said += strength * field.scale * q[other]
        total += np.log(np.exp(evidence[n] + said).sum() / np.exp(field.field + said).sum())
    assert field.log_likelihood(evidence, q) == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("n_items", [50, 1 << 14])
def test_label_evidence_adds_up_logarithms(n_items: int) -> None:
    model = random_model(6, 3, 0)
    annotations, _ = model.sample(n_items, labels_per_item=3, random_state=0)
    a = annotations
    found = potts.label_evidence(a.indptr, a.annotator, a.label, model.confusions)
    for n in range(0, n_items, max(1, n_items // 50)):
        labels = range(a.indptr[n], a.indptr[n + 1])
        expected = sum(np.log(model.confusions[a.annotator[i], a.label[i]]) for i in labels)
        np.testing.assert_allclose(found[n], expected, atol=1e-12)
