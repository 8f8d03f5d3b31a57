"""From codes to clusters: neighbours, graph, eigenvectors, k-means (thesis, Alg. 2.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from consilience.kernels._arrays import Ints
from consilience.subspace.embedding import Embedding, cluster_embedding, spectral_embedding
from consilience.subspace.graph import Weights, join_components, mutual_neighbours
from consilience.subspace.neighbours import Method, Similarity

__all__ = ["Callback", "GraphClusters", "Stage", "cluster_codes", "default_n_neighbors", "embed_codes", "tell"]

Stage: TypeAlias = Literal["sketch", "codes", "graph", "embedding", "clusters"]
Callback: TypeAlias = Callable[[Stage], object]


class GraphClusters(NamedTuple):
    """What Alg. 2.3 makes of codes."""

    labels: Ints  #: (N,)
    affinity: Any  #: W, (N, N), sparse
    embedding: Embedding


def default_n_neighbors(n_samples: int, n_clusters: int) -> int:
    """Give k = log2(N / K), at least 5 (the thesis' k for all small sets), at most 15, and below N.

    A graph of nearest neighbours of m points needs k of the order of log m to hold together.
    """
    k = round(float(np.log2(max(n_samples / n_clusters, 1.0))))
    return max(1, min(max(5, min(k, 15)), n_samples - 1))


def cluster_codes(
    Z: Any,
    n_clusters: int,
    *,
    n_neighbors: int | None = None,
    weights: Weights = "binary",
    neighbors: Method = "auto",
    similarity: Similarity = "absolute",
    random_state: int = 0,
    callback: Callback | None = None,
) -> GraphClusters:
    """Cluster codes ``Z`` (N, n) by Alg. 2.3: neighbours, graph, eigenvectors, k-means.

    Small components of the graph are joined to the rest first, see
    :func:`~consilience.subspace.graph.join_components`.  Other arguments are those of
    :func:`~consilience.subspace.graph.mutual_neighbours`.
    """
    N = len(Z)
    if N == 1:
        from scipy.sparse import csr_array

        return GraphClusters(np.zeros(1, np.int64), csr_array((1, 1)), Embedding(np.ones((1, 1)), np.zeros(1), 1, True))
    W, embedding = embed_codes(
        Z,
        n_clusters,
        n_neighbors=n_neighbors,
        weights=weights,
        neighbors=neighbors,
        similarity=similarity,
        random_state=random_state,
        callback=callback,
    )
    tell(callback, "clusters")
    labels, _ = cluster_embedding(embedding, n_clusters, random_state)
    return GraphClusters(labels, W, embedding)


def embed_codes(
    Z: Any,
    n_clusters: int,
    *,
    n_neighbors: int | None = None,
    weights: Weights = "binary",
    neighbors: Method = "auto",
    similarity: Similarity = "absolute",
    random_state: int = 0,
    callback: Callback | None = None,
) -> tuple[Any, Embedding]:
    """Give the graph of codes (N, n) and the eigenvectors of its Laplacian; arguments as in :func:`cluster_codes`."""
    if n_neighbors is None:
        n_neighbors = default_n_neighbors(len(Z), n_clusters)
    tell(callback, "graph")
    W = mutual_neighbours(
        Z, n_neighbors, weights=weights, method=neighbors, similarity=similarity, random_state=random_state
    )
    W = join_components(W, Z, n_neighbors, n_clusters, weights=weights, similarity=similarity)
    tell(callback, "embedding")
    return W, spectral_embedding(W, n_clusters, random_state)


def tell(callback: Callback | None, stage: Stage) -> None:
    """Say which stage begins."""
    if callback is not None:
        callback(stage)
