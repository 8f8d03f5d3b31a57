from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from consilience.data.annotations import Annotations
from consilience.datasets.networks import simulate_network
from consilience.kernels.potts import label_evidence, support
from consilience.structured.graph import Graph, as_graph
from consilience.structured.potts import (
    Field,
    edge_agreement,
    error_correlation,
    field_and_scale,
    label_weights,
    most_delta,
    pseudo_likelihood_delta,
)

PRIOR = np.array([0.6, 0.3, 0.1])


def enumerated(field: Field, evidence: Any) -> Any:
    """Marginals of every item (N, K) under the exact posterior, one labelling at a time."""
    N, K = evidence.shape
    marginals = np.zeros((N, K))
    for labelling in product(range(K), repeat=N):
        state = np.array(labelling)
        marginals[np.arange(N), state] += np.exp(field.energy(evidence, state))
    return marginals / marginals.sum(axis=1, keepdims=True)


def test_energy_by_hand() -> None:
    graph = Graph.from_edges([0, 1], [1, 2], [1.0, 2.0], n_items=3)
    field = Field.of(graph, np.array([1.0, 3.0, 0.0]), PRIOR, "prior")
    evidence = np.log(np.tile(PRIOR, (3, 1)))
    # δ of an edge is the mean of its two items': 2 · 1 and 1.5 · 2
    expected = np.log(PRIOR[0]) + np.log(PRIOR[0]) + np.log(PRIOR[1])
    assert field.energy(evidence, np.array([0, 0, 1])) == pytest.approx(expected + 2.0)
    assert field.energy(evidence, np.array([1, 0, 0])) == pytest.approx(expected + 3.0)


@pytest.mark.parametrize("delta", [0.5, 2.0])
def test_on_a_tree_the_stationary_field_keeps_the_prior(delta: float) -> None:
    tree = Graph.from_edges([0, 0, 0, 1, 1], [1, 2, 3, 4, 5], n_items=6)
    field = Field.of(tree, delta, PRIOR, "stationary")
    marginals = enumerated(field, np.tile(field.field, (6, 1)))
    np.testing.assert_allclose(marginals, np.tile(PRIOR, (6, 1)), atol=1e-12)
    # the plain Potts field with the same prior does not: the frequent class grows
    plain = Field.of(tree, delta, PRIOR, "prior")
    assert enumerated(plain, np.tile(plain.field, (6, 1)))[0, 0] > PRIOR[0] + 0.05


def test_the_stationary_field_is_a_channel_along_edges() -> None:
    delta = 1.2
    a = np.expm1(delta) / (3 + np.expm1(delta))
    assert most_delta(a, 3) == pytest.approx(delta)
    pair = Graph.from_edges([0], [1], n_items=2)
    field = Field.of(pair, delta, PRIOR, "stationary")
    joint = np.array(
        [[np.exp(field.energy(np.tile(field.field, (2, 1)), np.array([i, k]))) for k in range(3)] for i in range(3)]
    )
    np.testing.assert_allclose(joint / joint.sum(), a * np.diag(PRIOR) + (1 - a) * np.outer(PRIOR, PRIOR), atol=1e-12)


@pytest.mark.parametrize("kind", ["stationary", "prior", "uniform"])
def test_with_equal_classes_all_scales_are_one(kind: Any) -> None:
    field, scale = field_and_scale(1.3, np.full(4, 0.25), kind)
    np.testing.assert_allclose(scale, np.ones(4))
    np.testing.assert_allclose(field, np.full(4, field[0]))
    # no coupling: the log-prior
    np.testing.assert_allclose(field_and_scale(0.0, PRIOR, kind)[0], np.log(PRIOR))


def test_mean_field_is_near_the_exact_marginals_where_coupling_is_weak() -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(rng.integers(0, 7, 10), rng.integers(0, 7, 10), n_items=7)
    field = Field.of(graph, 0.2, PRIOR, "stationary")
    evidence = field.field + rng.normal(size=(7, 3))
    q = np.full((7, 3), 1 / 3)
    field.mean_field(evidence, q, 100, 1e-12)
    np.testing.assert_allclose(q, enumerated(field, evidence), atol=0.03)
    field = Field.of(graph, 0.0, PRIOR, "stationary")  # and exact without any
    field.mean_field(evidence, q, 100, 1e-12)
    np.testing.assert_allclose(q, enumerated(field, evidence), atol=1e-12)


def test_conditional_probabilities_are_the_ratio_of_energies() -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(rng.integers(0, 7, 10), rng.integers(0, 7, 10), n_items=7)
    field = Field.of(graph, 1.5, PRIOR, "stationary")
    evidence = field.field + rng.normal(size=(7, 3))
    state = rng.integers(0, 3, 7)
    found = field.conditional(evidence, state)
    for n in range(7):
        energy = np.empty(3)
        for k in range(3):
            other = state.copy()
            other[n] = k
            energy[k] = field.energy(evidence, other)
        np.testing.assert_allclose(found[n], np.exp(energy) / np.exp(energy).sum(), atol=1e-12)


def test_delta_maximises_the_pseudo_likelihood() -> None:
    network = simulate_network(300, 5, 3, prior=PRIOR.tolist(), seed=2)
    graph = as_graph(network.edges, network.annotations)
    y = np.eye(3)[network.truth]
    prior = y.mean(axis=0)
    said = support(graph.indptr, graph.neighbour, graph.weight, y)[graph.joined]

    def loss(delta: Any) -> float:  # from the definition, item by item
        total = 0.0
        for s, truth in zip(said, network.truth[graph.joined], strict=True):
            score = np.log(prior) + np.log1p(np.expm1(delta[0]) / (3 * prior)) * s
            total -= score[truth] - np.log(np.exp(score).sum())
        return total

    expected = minimize(loss, [1.0], method="Nelder-Mead", options={"xatol": 1e-6}).x[0]
    assert pseudo_likelihood_delta(graph, y, prior, "stationary") == pytest.approx(expected, abs=1e-3)
    assert pseudo_likelihood_delta(graph, y, prior, "stationary", most=0.5) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("agreement", [0.0, 0.3, 0.7])
def test_agreement_and_delta_are_recovered(agreement: float) -> None:
    network = simulate_network(
        20_000, 20, 3, degree=3, agreement=agreement, prior=PRIOR.tolist(), labels_per_item=4, seed=1
    )
    a, graph = network.annotations, as_graph(network.edges, network.annotations)
    evidence = label_evidence(a.indptr, a.annotator, a.label, network.model.confusions)
    found = edge_agreement(graph, evidence, PRIOR)
    assert found == pytest.approx(agreement, abs=0.02)
    # in a sparse random graph, the truth is nearly a draw from the field with that δ
    delta = pseudo_likelihood_delta(graph, np.eye(3)[network.truth], PRIOR, "stationary")
    assert delta == pytest.approx(most_delta(agreement, 3), abs=0.1)


def test_weights_of_edges_count_in_agreement() -> None:
    network = simulate_network(4000, 20, 3, agreement=0.8, labels_per_item=4, seed=1)
    rng = np.random.default_rng(0)
    a = network.annotations
    noise = rng.integers(0, 4000, network.edges.shape)
    ends = np.concatenate([network.edges, noise])
    weight = np.repeat([1.0, 1e-3], len(network.edges))
    heavy = Graph.from_edges(ends[:, 0], ends[:, 1], weight, n_items=4000)
    even = Graph.from_edges(ends[:, 0], ends[:, 1], n_items=4000)
    evidence = label_evidence(a.indptr, a.annotator, a.label, network.model.confusions)
    assert edge_agreement(heavy, evidence, np.full(3, 1 / 3)) > 0.7
    assert edge_agreement(even, evidence, np.full(3, 1 / 3)) < 0.5


def together(share: float, seed: int = 0, N: int = 4000, n: int = 5) -> tuple[Annotations, Any, Any]:
    """Labels of equally good annotators who, on a share of the items, all say what one of them says."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, N)
    confusion = np.full((3, 3), 0.15) + 0.55 * np.eye(3)
    own = np.array([rng.choice(3, n, p=confusion[:, k]) for k in truth])
    said = np.where(rng.random((N, 1)) < share, own[:, :1], own)
    return Annotations.from_matrix(said), truth, np.tile(confusion, (n, 1, 1))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.6])
def test_the_correlation_of_errors_is_recovered(share: float) -> None:
    annotations, truth, confusions = together(share)
    # a mixture of the same and of independent draws has this share for its correlation
    assert error_correlation(annotations, np.eye(3)[truth], confusions) == pytest.approx(share, abs=0.02)


def test_weights_are_the_design_effect() -> None:
    weights = label_weights(np.array([0, 1, 5, 5]), 0.25, np.array([True, True, True, False]))
    np.testing.assert_allclose(weights, [1.0, 1.0, 0.5, 1.0])
