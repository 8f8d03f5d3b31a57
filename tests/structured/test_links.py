"""Must-link and cannot-link constraints: against brute force over all labellings, and on simulated networks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.datasets.networks import simulate_network
from consilience.exceptions import DataError, ParameterError
from consilience.structured.graph import Graph
from consilience.structured.links import joined_strengths, linked_groups
from consilience.structured.potts import Field


def test_cannot_link_is_the_potential_with_the_opposite_sign() -> None:
    """The energy of every labelling is that of (4.14), with -κ for a pair that cannot be linked."""
    rng = np.random.default_rng(0)
    graph = Graph.from_edges([0, 1], [1, 2], n_items=4)
    apart = Graph.from_edges([2, 0], [3, 3], n_items=4)
    field = Field.of(graph, 0.7, np.full(3, 1 / 3), "uniform", apart, 2.0)
    evidence = rng.standard_normal((4, 3))
    for y in product(range(3), repeat=4):
        expected = sum(evidence[n, k] for n, k in enumerate(y)) + 0.7 * ((y[0] == y[1]) + (y[1] == y[2]))
        expected -= 2.0 * ((y[2] == y[3]) + (y[0] == y[3]))
        assert field.energy(evidence, np.array(y)) == pytest.approx(expected)


def test_joined_strengths_keep_neighbours_sorted() -> None:
    graph, apart = Graph.from_edges([0, 2], [3, 3], n_items=4), Graph.from_edges([1], [3], n_items=4)
    joined, strength = joined_strengths(graph, graph.weight * 0.5, apart, 3.0)
    assert joined.neighbour.tolist() == [3, 3, 3, 0, 1, 2]
    assert strength.tolist() == [0.5, -3.0, 0.5, 0.5, -3.0, 0.5]


VOTES = [[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]]


def test_links_decide_what_labels_leave_open() -> None:
    doubtful = [*VOTES, [0, 1, -1]]
    apart = cs.aggregate(cs.Annotations.from_matrix(doubtful), cannot_link=[(6, 0)])
    together = cs.aggregate(cs.Annotations.from_matrix(doubtful), must_link=[(6, 0)])
    assert apart.labels["label"][6] == 1
    assert together.labels["label"][6] == 0
    model = cs.NetworkConsensus(cannot_link=[(6, 0)]).fit(doubtful)
    assert model.labels_[6] == 1


def test_must_links_are_merged_through_others() -> None:
    annotations = cs.Annotations.from_matrix(VOTES)
    group = linked_groups([(4, 1), (1, 5)], annotations)
    assert group.tolist() == [0, 1, 2, 3, 1, 1]
    found = cs.aggregate(annotations, must_link=[(0, 1), (1, 4)])
    assert len(set(found.labels["confidence"][[0, 1, 4]])) == 1
    # the same as one item with the labels of all of them
    rows = [(0, m, label) for n in (0, 1, 4) for m, label in enumerate(VOTES[n])]
    rows += [(n, m, label) for n in (2, 3, 5) for m, label in enumerate(VOTES[n])]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    merged = cs.aggregate(cs.Annotations.from_frame(frame, duplicates="keep"))
    assert merged.labels["confidence"][0] == pytest.approx(found.labels["confidence"][0])
    assert found.run["parameters"]["must_link"] == 2
    for method in ("majority", "sml", "ds-em"):  # some break ties by a second opinion on every item
        assert len(cs.aggregate(annotations, method, must_link=[(0, 1)]).labels) == 6


def test_contradictions_are_refused() -> None:
    annotations = cs.Annotations.from_matrix(VOTES)
    with pytest.raises(DataError, match="cannot_link keeps apart"):
        cs.aggregate(annotations, must_link=[(0, 1), (1, 2)], cannot_link=[(0, 2)])
    with pytest.raises(DataError, match="different known answers"):
        cs.aggregate(annotations, must_link=[(0, 1)], gold={0: 0, 1: 1})
    with pytest.raises(ParameterError, match="networks cannot be streamed"):
        cs.aggregate(annotations, must_link=[(0, 1)], engine="stream")
    with pytest.raises(ParameterError, match="checkpoint"):
        cs.aggregate(annotations, must_link=[(0, 1)], checkpoint="kept")


def test_fifty_cannot_links_halve_the_error() -> None:
    """Pairs of neighbours that are known to differ, in networks of 150 items whose neighbours often mislead."""
    before, after = [], []
    for seed in range(40, 46):
        drawn = simulate_network(
            150, 10, 3, degree=4, agreement=0.7, labels_per_item=2, accuracy=(0.45, 0.75), seed=seed
        )
        differ = drawn.edges[drawn.truth[drawn.edges[:, 0]] != drawn.truth[drawn.edges[:, 1]]][:50]
        before.append(cs.aggregate(drawn.annotations, graph=drawn.edges).error_rate(drawn.truth))
        linked = cs.aggregate(drawn.annotations, graph=drawn.edges, cannot_link=drawn.annotations.items[differ])
        after.append(linked.error_rate(drawn.truth))
    assert np.mean(after) <= 0.5 * np.mean(before)


def test_must_links_help() -> None:
    drawn = simulate_network(150, 10, 3, degree=4, agreement=0.5, labels_per_item=2, accuracy=(0.4, 0.7), seed=3)
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 150, (500, 2))
    pairs = pairs[(drawn.truth[pairs[:, 0]] == drawn.truth[pairs[:, 1]]) & (pairs[:, 0] != pairs[:, 1])][:100]
    alone = cs.aggregate(drawn.annotations, graph=drawn.edges)
    linked = cs.aggregate(drawn.annotations, graph=drawn.edges, must_link=drawn.annotations.items[pairs])
    assert linked.error_rate(drawn.truth) < 0.7 * alone.error_rate(drawn.truth)
