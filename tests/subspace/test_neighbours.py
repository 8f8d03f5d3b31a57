"""Nearest codes against scikit-learn and brute force, and the graphs made of them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import NearestNeighbors

from consilience.datasets.subspaces import simulate_subspaces
from consilience.exceptions import DataError, EngineWarning, ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.neighbours import search_approximately
from consilience.subspace import graph
from consilience.subspace.graph import affinity_from_codes, join_components, neighbour_graph
from consilience.subspace.neighbours import nearest_neighbours


def by_definition(Z: Floats, k: int, similarity: str) -> tuple[Ints, Floats]:
    """All pairs, from the definition."""
    if similarity != "euclidean":
        Z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    apart = np.linalg.norm(Z[:, None] - Z, axis=2)
    if similarity == "absolute":
        apart = np.minimum(apart, np.linalg.norm(Z[:, None] + Z, axis=2))
    np.fill_diagonal(apart, np.inf)
    order = np.argsort(apart, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(apart, order, axis=1)


# ---- exact search -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("similarity", ["euclidean", "cosine", "absolute"])
@pytest.mark.parametrize("shift", [0.0, 1000.0, 1e4])
def test_exact_neighbours_are_those_of_the_definition(similarity: Any, shift: float) -> None:
    Z = np.random.default_rng(1).standard_normal((600, 6))
    Z[:, 0] += shift
    true, apart = by_definition(Z, 8, similarity)
    found = nearest_neighbours(Z, 8, similarity=similarity, method="exact")
    np.testing.assert_array_equal(found.indices, true)
    np.testing.assert_allclose(found.distances, apart, atol=1e-9)
    sign = np.random.default_rng(2).choice([-1.0, 1.0], (600, 1)) if similarity == "absolute" else 1.0
    np.testing.assert_array_equal(nearest_neighbours(sign * Z, 8, similarity=similarity).indices, true)
    asked = nearest_neighbours(Z, 9, queries=(sign * Z)[:50], similarity=similarity)
    np.testing.assert_array_equal(asked.indices[:, 0], np.arange(50))
    np.testing.assert_array_equal(asked.indices[:, 1:], true[:50])


def test_many_codes_and_new_codes() -> None:
    rng = np.random.default_rng(2)
    Z, queries = rng.standard_normal((9000, 4)), rng.standard_normal((700, 4))
    index = NearestNeighbors(n_neighbors=6).fit(Z)
    apart, true = index.kneighbors()
    found = nearest_neighbours(Z, 6, method="exact")
    np.testing.assert_array_equal(found.indices, true)
    np.testing.assert_allclose(found.distances, apart, atol=1e-9)
    apart, true = index.kneighbors(queries)
    found = nearest_neighbours(Z, 6, queries=queries)
    np.testing.assert_array_equal(found.indices, true)
    np.testing.assert_allclose(found.distances, apart, atol=1e-9)


def test_the_scale_of_codes_does_not_matter() -> None:
    Z = np.random.default_rng(3).standard_normal((300, 5))
    for scale in (1e-30, 1e30):
        for similarity in ("euclidean", "cosine", "absolute"):
            true = nearest_neighbours(Z, 5, similarity=similarity).indices
            np.testing.assert_array_equal(nearest_neighbours(scale * Z, 5, similarity=similarity).indices, true)
            if similarity != "euclidean":
                single = (scale * Z).astype(np.float32)
                np.testing.assert_array_equal(nearest_neighbours(single, 5, similarity=similarity).indices, true)


def test_signs_and_lengths_do_not_change_the_absolute_cosine() -> None:
    rng = np.random.default_rng(4)
    Z = rng.standard_normal((300, 5))
    turned = Z * rng.choice([-3.0, -1.0, 0.1, 2.0], (300, 1))
    np.testing.assert_array_equal(
        nearest_neighbours(turned, 5, similarity="absolute").indices,
        nearest_neighbours(Z, 5, similarity="absolute").indices,
    )


def test_orthogonal_codes_have_as_many_neighbours_as_others() -> None:
    """Codes and their opposites are then equally far; none may be listed twice."""
    for k in (3, 11):
        found = nearest_neighbours(np.eye(12), k, similarity="absolute")
        assert all(np.unique(row).size == k for row in found.indices)
        np.testing.assert_allclose(found.distances, np.sqrt(2.0))


# ---- approximate search -------------------------------------------------------------------------------------


class NNDescent:
    """A stand-in with the interface of pynndescent, whose compilation takes half a minute."""

    def __init__(self, data: Any, metric: Any, n_neighbors: int, tree_init: bool, random_state: int) -> None:
        assert random_state == 7
        assert tree_init == (metric == "euclidean")
        if metric == "euclidean":
            indices = NearestNeighbors(n_neighbors=n_neighbors).fit(data).kneighbors(data, return_distance=False)
        else:
            assert metric(data[0], -data[0]) == pytest.approx(0.0, abs=1e-6)
            indices = np.argsort(-np.abs(data @ data.T), axis=1)[:, :n_neighbors]
        self.neighbor_graph = indices.astype(np.int32), None


@pytest.mark.parametrize("similarity", ["euclidean", "cosine", "absolute"])
@pytest.mark.parametrize("method", ["approximate", "pynndescent"])
def test_pynndescent_searches_and_no_code_is_its_own_neighbour(
    similarity: Any, method: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynndescent", SimpleNamespace(NNDescent=NNDescent))
    Z = np.random.default_rng(13).standard_normal((100, 3))
    Z[1:20] = Z[0]  # of codes in one place, any may come first
    found = nearest_neighbours(Z, 6, similarity=similarity, method=method, random_state=7)
    exact = nearest_neighbours(Z, 6, similarity=similarity, method="exact")
    np.testing.assert_allclose(found.distances, exact.distances, atol=1e-12)
    assert (found.indices != np.arange(100)[:, None]).all()
    assert all(np.unique(row).size == 6 for row in found.indices)


def test_without_pynndescent_the_search_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    Z = np.random.default_rng(13).standard_normal((100, 3))
    exact = nearest_neighbours(Z, 6, method="exact").indices
    np.testing.assert_array_equal(nearest_neighbours(Z, 6, method="approximate").indices, exact)
    with pytest.raises(ParameterError, match=r"pip install 'consilience\[neighbours\]'"):
        nearest_neighbours(Z, 6, method="pynndescent")
    with pytest.warns(EngineWarning, match=r"50001 rows are searched exactly.*consilience\[neighbours\]"):
        assert not search_approximately(50_001)
    assert not search_approximately(50_000)


@pytest.mark.parametrize("similarity", ["euclidean", "absolute"])
def test_an_approximate_search_finds_most_neighbours(similarity: Any) -> None:
    pytest.importorskip("pynndescent")
    drawn = simulate_subspaces(8000, 40, 5, 5, noise=0.1, random_state=1)
    exact = nearest_neighbours(drawn.data, 10, similarity=similarity, method="exact")
    near = nearest_neighbours(drawn.data, 10, similarity=similarity, method="pynndescent")
    recall = (near.indices[:, :, None] == exact.indices[:, None, :]).any(axis=2).mean()
    assert recall > 0.9
    assert near.distances.mean() < 1.01 * exact.distances.mean()
    assert (near.indices != np.arange(8000)[:, None]).all()
    assert all(np.unique(row).size == 10 for row in near.indices[:500])
    assert (np.diff(near.distances, axis=1) >= 0).all()
    again = nearest_neighbours(drawn.data, 10, similarity=similarity, method="pynndescent")
    np.testing.assert_array_equal(again.indices, near.indices)


# ---- graphs -------------------------------------------------------------------------------------------------


def test_the_graph_is_that_of_2_19_and_2_20() -> None:
    Z = np.random.default_rng(7).standard_normal((80, 3))
    near, apart = by_definition(Z, 4, "euclidean")
    lists = np.zeros((80, 80), bool)
    np.put_along_axis(lists, near, True, axis=1)
    either = lists | lists.T
    W, _ = neighbour_graph(Z, 4)
    np.testing.assert_array_equal(W.toarray(), either)
    heat = neighbour_graph(Z, 4, weights="heat")[0].toarray()
    square = ((Z[:, None] - Z) ** 2).sum(axis=2)
    np.testing.assert_allclose(heat, either * np.exp(-square / (2 * apart.mean() ** 2)), atol=1e-12)


def test_a_code_of_zeros_has_no_direction() -> None:
    Z = np.random.default_rng(8).standard_normal((30, 3))
    Z[4] = 0.0
    W, _ = neighbour_graph(Z, 3, similarity="absolute")
    assert W[[4]].nnz == 0
    assert (np.delete(W.sum(axis=1), 4) >= 3).all()
    assert connected_components(join_components(W, Z, 3, 1, similarity="absolute"))[0] == 2
    assert neighbour_graph(Z, 3)[0][[4]].nnz >= 3


def test_permutation_of_samples_permutes_the_graph() -> None:
    Z = np.random.default_rng(9).standard_normal((200, 5))
    order = np.random.default_rng(10).permutation(200)
    W = neighbour_graph(Z, 5, weights="heat", similarity="absolute")[0].toarray()
    moved = neighbour_graph(Z[order], 5, weights="heat", similarity="absolute")[0].toarray()
    np.testing.assert_allclose(moved, W[np.ix_(order, order)], atol=1e-12)


def test_batch_codes_become_an_affinity() -> None:
    C = np.array([[0.0, 2.0, 0.0], [-0.5, 0.0, 0.25], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(
        affinity_from_codes(csr_array(C), normalise=False).toarray(),
        [[0.0, 2.5, 0.0], [2.5, 0.0, 0.25], [0.0, 0.25, 0.0]],
    )
    np.testing.assert_allclose(affinity_from_codes(C).toarray(), [[0.0, 2.0, 0.0], [2.0, 0.0, 0.5], [0.0, 0.5, 0.0]])
    np.testing.assert_array_equal(affinity_from_codes(C + np.eye(3)).diagonal(), 0.0)


def test_small_components_are_joined_and_large_ones_left_alone() -> None:
    rng = np.random.default_rng(11)
    far = [(0.0, 100), (50.0, 100), (1000.0, 5), (60.0, 6)]
    Z = np.concatenate([rng.standard_normal((n, 2)) + np.array([x, 0.0]) for x, n in far])
    W, _ = neighbour_graph(Z, 4)
    assert connected_components(W)[0] == 4
    joined = join_components(W, Z, 4, 2)
    assert connected_components(joined)[0] == 2
    assert abs(joined - joined.T).max() == 0
    parts = connected_components(joined)[1]
    assert parts[200] == parts[150] == parts[205] != parts[0]  # both are nearer to the second cloud
    old = W.nonzero()
    np.testing.assert_array_equal(joined[old], W[old])
    assert connected_components(join_components(W, Z, 4, 4, smallest=1))[0] == 4
    assert connected_components(join_components(W, Z, 4, 1, smallest=1))[0] == 1


def test_small_components_may_be_clusters_where_clusters_are_small() -> None:
    rng = np.random.default_rng(14)
    Z = np.concatenate([rng.standard_normal((10, 2)) + np.array([30.0 * i, 0.0]) for i in range(10)])
    W, _ = neighbour_graph(Z, 5)
    assert connected_components(W)[0] == 10
    assert join_components(W, Z, 5, 10) is W
    outliers = np.concatenate([Z, rng.standard_normal((4, 2)) + np.array([500.0, 0.0])])
    W, _ = neighbour_graph(outliers, 3)
    assert connected_components(join_components(W, outliers, 3, 10))[0] <= 10


def test_joining_edges_have_the_width_of_the_others() -> None:
    rng = np.random.default_rng(15)
    Z = np.concatenate([rng.standard_normal((100, 2)), rng.standard_normal((5, 2)) + 20.0])
    W, sigma = neighbour_graph(Z, 4, weights="heat")
    assert sigma is not None
    assert sigma == pytest.approx(nearest_neighbours(Z, 4).distances.mean())
    joined = join_components(W, Z, 4, 1, sigma=sigma)
    added = (joined - W).tocoo()
    square = ((Z[added.row] - Z[added.col]) ** 2).sum(axis=1)
    assert added.nnz
    expected = np.maximum(np.exp(-square / (2 * sigma**2)), np.finfo(np.float32).tiny)
    np.testing.assert_allclose(added.data, expected, rtol=1e-12)
    assert neighbour_graph(Z, 4)[1] is None


def test_small_components_are_joined_to_some_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(16)
    Z = np.concatenate([rng.standard_normal((300, 2)), rng.standard_normal((5, 2)) + 50.0])
    W, _ = neighbour_graph(Z, 4)
    monkeypatch.setattr(graph, "_MOST_OUTSIDE", 40)
    searched: list[int] = []

    def counting(codes: Any, *args: Any, **options: Any) -> Any:
        searched.append(len(codes))
        return nearest_neighbours(codes, *args, **options)

    monkeypatch.setattr(graph, "nearest_neighbours", counting)
    joined = join_components(W, Z, 4, 1)
    assert connected_components(joined)[0] == 1
    assert (joined - W).nnz == 2 * 5 * 4
    assert searched == [40]


# ---- refusals -----------------------------------------------------------------------------------------------


def test_invalid_arguments_are_refused() -> None:
    Z = np.random.default_rng(12).standard_normal((10, 3))
    for bad in ({"k": 0}, {"k": 10}, {"k": 2.5}, {"k": True}):
        with pytest.raises(ParameterError, match="from 1 to 9"):
            neighbour_graph(Z, **bad)
    for name in ("weights", "method", "similarity"):
        with pytest.raises(ParameterError, match=name):
            neighbour_graph(Z, 2, **{name: "other"})  # type: ignore[arg-type]
    with pytest.raises(DataError, match="finite"):
        neighbour_graph(np.where(Z > 1, np.nan, Z), 2)
    with pytest.raises(DataError, match="matrix"):
        neighbour_graph(Z[0], 2)
    with pytest.raises(DataError, match="columns"):
        nearest_neighbours(Z, 2, queries=Z[:, :2])
    with pytest.raises(DataError, match="square"):
        affinity_from_codes(Z)
    with pytest.raises(DataError, match="finite"):
        affinity_from_codes(np.full((2, 2), np.nan))
