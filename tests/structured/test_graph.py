from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import coo_array, csr_matrix

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.exceptions import ColumnError, DataError, DataWarning, IdError, ParameterError
from consilience.structured.graph import Graph, as_graph, nearest_neighbours


@pytest.fixture
def four() -> Annotations:
    frame = pd.DataFrame({"task": ["c", "a", "b", "d"], "worker": ["w"] * 4, "label": [0, 1, 0, 1]})
    return Annotations.from_frame(frame)


#: c-a (twice, both ways), a-b, and a loop at d; items are numbered c, a, b, d
EXPECTED = {(0, 1), (1, 2)}


def edges_of(graph: Graph) -> set[tuple[int, int]]:
    low, high, _ = graph.edges()
    return set(zip(low.tolist(), high.tolist(), strict=True))


@pytest.mark.parametrize(
    "given",
    [
        pd.DataFrame({"source": ["c", "a", "b", "d"], "target": ["a", "c", "a", "d"]}),
        pl.DataFrame({"to": ["c", "a", "b", "d"], "x": [1, 2, 3, 4], "from": ["a", "c", "a", "d"]}),
        pd.DataFrame({"one": ["c", "a", "b", "d"], "other": ["a", "c", "a", "d"]}),
        [("c", "a"), ("a", "c"), ("b", "a"), ("d", "d")],
        np.array([["c", "a"], ["a", "c"], ["b", "a"], ["d", "d"]]),
        csr_matrix(([1, 1, 1, 1], ([0, 1, 2, 3], [1, 0, 1, 3])), shape=(4, 4)),
        coo_array(([1.0, 1.0, 1.0], ([0, 2, 3], [1, 1, 3])), shape=(4, 4)),
    ],
)
def test_every_form_gives_the_same_symmetric_graph(given: Any, four: Annotations) -> None:
    graph = as_graph(given, four)
    assert edges_of(graph) == EXPECTED
    assert graph.n_edges == 2
    assert graph.degree.tolist() == [1, 2, 1, 0]
    assert graph.neighbour.tolist() == [1, 0, 2, 1]
    assert graph.joined.tolist() == [True, True, True, False]
    assert graph.weight.tolist() == [1, 1, 1, 1]


def test_the_heaviest_of_repeated_edges_stays(four: Annotations) -> None:
    frame = {"source": ["c", "a", "b", "b"], "target": ["a", "c", "a", "d"], "weight": [0.5, 2.0, 1.0, 0.0]}
    graph = as_graph(pd.DataFrame(frame), four)
    assert edges_of(graph) == EXPECTED  # no edge of weight 0
    assert graph.edges()[2].tolist() == [2.0, 1.0]


def test_edges_of_many_random_forms_agree_with_a_dense_matrix() -> None:
    rng = np.random.default_rng(0)
    N = 30
    source, target, weight = rng.integers(0, N, 200), rng.integers(0, N, 200), rng.uniform(0, 3, 200)
    dense = np.zeros((N, N))
    for s, t, w in zip(source, target, weight, strict=True):
        if s != t:
            dense[s, t] = dense[t, s] = max(dense[s, t], w)
    graph = Graph.from_edges(source, target, weight, n_items=N)
    found = csr_matrix((graph.weight, graph.neighbour, graph.indptr), shape=(N, N)).toarray()
    np.testing.assert_array_equal(found, dense)
    order = rng.permutation(N)[:20]
    part = graph.select(order)
    found = csr_matrix((part.weight, part.neighbour, part.indptr), shape=(20, 20)).toarray()
    np.testing.assert_array_equal(found, dense[np.ix_(order, order)])


def test_edges_to_strangers_are_left_out_with_a_warning(four: Annotations) -> None:
    with pytest.warns(DataWarning, match="1 of 2 edges lead to items that are not among the labelled ones"):
        graph = as_graph([("a", "b"), ("a", "z")], four)
    assert edges_of(graph) == {(1, 2)}
    with pytest.raises(IdError, match="none of the 1 edges joins two labelled items"):
        as_graph([("y", "z")], four)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (csr_matrix((3, 3)), DataError, r"must be of shape \(4, 4\)"),
        (pd.DataFrame({"source": ["a"]}), ColumnError, "which columns join items"),
        (pd.DataFrame({"source": ["a"], "target": [None]}), IdError, "no 'target' in row 1"),
        (pd.DataFrame({"source": ["a"], "target": ["b"], "weight": [-1.0]}), DataError, "numbers ≥ 0"),
        (pd.DataFrame({"source": ["a"], "target": ["b"], "weight": [np.nan]}), DataError, "numbers ≥ 0"),
        (pd.DataFrame({"source": ["a"], "target": ["b"], "weight": ["much"]}), DataError, "must be numbers"),
        (pd.DataFrame({"source": ["a"], "target": ["b"], "weight": [None]}), DataError, "numbers ≥ 0"),
        ([("a", "b", "c")], DataError, "expected a graph"),
        (7, DataError, "expected a graph"),
        (Graph.from_edges([0], [1], n_items=2), DataError, "the graph has 2 items, the annotations 4"),
    ],
)
def test_what_is_no_graph_is_refused(given: Any, error: type[Exception], message: str, four: Annotations) -> None:
    with pytest.raises(error, match=message):
        as_graph(given, four)


def test_no_edges_are_a_graph_too(four: Annotations) -> None:
    assert as_graph([], four).n_edges == 0


def test_a_path_is_read(four: Annotations, tmp_path: Path) -> None:
    (tmp_path / "edges.tsv").write_text("source\ttarget\nc\ta\nb\ta\n")
    assert edges_of(as_graph(tmp_path / "edges.tsv", four)) == EXPECTED


def test_a_graph_with_names_finds_its_items(four: Annotations) -> None:
    graph = Graph.from_edges([0, 1], [1, 2], n_items=3, items=Ids(["b", "a", "c"]))
    assert edges_of(as_graph(graph, four)) == EXPECTED


# ---- nearest neighbours ---------------------------------------------------------------------------------


def brute_force(X: Any, k: int, mutual: bool = False) -> set[tuple[int, int]]:
    distance = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    near = {(n, int(m)) for n in range(len(X)) for m in np.argsort(distance[n])[:k]}
    return {(min(e), max(e)) for e in near if not mutual or (e[1], e[0]) in near}


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_neighbours_are_the_nearest(metric: Any, mutual: bool) -> None:
    X = np.random.default_rng(0).normal(size=(60, 4))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    expected = brute_force(unit if metric == "cosine" else X, 3, mutual)
    assert edges_of(nearest_neighbours(X, 3, metric=metric, mutual=mutual)) == expected
    assert edges_of(nearest_neighbours(csr_matrix(X), 3, metric=metric, mutual=mutual)) == expected


def test_an_approximate_search_finds_nearly_all_and_depends_on_the_seed_alone() -> None:
    pytest.importorskip("pynndescent")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6)) @ rng.normal(size=(6, 30)) + 0.1 * rng.normal(size=(4000, 30))
    exact, near = nearest_neighbours(X, 4, exact=True), nearest_neighbours(X, 4, exact=False)
    assert len(edges_of(exact) & edges_of(near)) > 0.95 * exact.n_edges
    again = nearest_neighbours(X, 4, exact=False)
    assert again.neighbour.tobytes() == near.neighbour.tobytes()


def test_without_pynndescent_the_search_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    X = np.random.default_rng(1).normal(size=(60, 4))
    assert edges_of(nearest_neighbours(X, 3, exact=False)) == brute_force(X, 3)


def test_rows_with_names_find_their_items(four: Annotations) -> None:
    graph = nearest_neighbours([[0.0], [1.0], [10.0], [11.0]], 1, items=["d", "a", "b", "c"])
    assert edges_of(as_graph(graph, four)) == {(1, 3), (0, 2)}


@pytest.mark.parametrize(
    ("features", "options", "error"),
    [
        ([[0.0], [np.nan]], {}, DataError),
        ([0.0, 1.0], {}, DataError),
        ([[0.0], [1.0]], {"k": 2}, ParameterError),
        ([[0.0], [1.0]], {"k": 0}, ParameterError),
        ([[0.0], [1.0]], {"metric": "taxi"}, ParameterError),
        ([[0.0], [1.0]], {"items": ["a"]}, DataError),
    ],
)
def test_features_that_cannot_be_used(features: Any, options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        nearest_neighbours(features, **{"k": 1, **options})
