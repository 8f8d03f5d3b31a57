"""From codes to clusters: neighbours, graph, eigenvectors, k-means (thesis, Alg. 2.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from consilience.exceptions import DataError, DataWarning, warn
from consilience.kernels._arrays import Bools, Ints
from consilience.subspace.embedding import Embedding, cluster_embedding, in_order, spectral_embedding
from consilience.subspace.graph import Weights, join_components, neighbour_graph
from consilience.subspace.neighbours import Method, Similarity, nearest_neighbours
from consilience.validation import whole

__all__ = ["Callback", "GraphClusters", "Stage", "cluster_codes", "default_n_neighbors", "embed_codes", "vote"]

Stage: TypeAlias = Literal["sketch", "codes", "graph", "embedding", "clusters"]
Callback: TypeAlias = Callable[[Stage], object]


class GraphClusters(NamedTuple):
    """The result of Alg. 2.3."""

    labels: Ints  #: (N,)
    affinity: Any  #: W, (N, N), sparse
    embedding: Embedding


def default_n_neighbors(n_samples: int, n_clusters: int) -> int:
    """Return k = log2(N / K), at least 5 (the thesis' k for all small sets), at most 15, and below N / K.

    A graph of nearest neighbours of m points needs k of the order of log m to be connected.  With k ≥ m = N / K,
    samples would have to be joined to those of other clusters.
    """
    size = n_samples / n_clusters
    k = max(5, min(round(float(np.log2(max(size, 1.0)))), 15))
    return max(1, min(k, int(np.ceil(size)) - 1, n_samples - 1))


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

    Small components of the graph are first joined to the rest, see
    :func:`~consilience.subspace.graph.join_components`.  Codes of zeros lie in every subspace: they are not in the
    graph and go to the largest cluster, with a DataWarning.  Other arguments are those of
    :func:`~consilience.subspace.graph.neighbour_graph`.
    """
    from scipy.sparse import csr_array

    Z = np.asarray(Z)
    N = len(Z)
    if N == 1:
        return GraphClusters(np.zeros(1, np.int64), csr_array((1, 1)), Embedding(np.ones((1, 1)), np.zeros(1), 1, True))
    n_clusters = whole("n_clusters", n_clusters, N, "(samples)")
    if n_neighbors is None:
        n_neighbors = default_n_neighbors(N, n_clusters)
    coded = Z.any(axis=1)
    rows = np.flatnonzero(coded)
    if rows.size < N:
        if rows.size < max(n_clusters, 2):
            raise DataError(
                f"only {rows.size} of {N} samples have a nonzero code, too few for {n_clusters} clusters; are samples "
                "zero, or is lam too small?"
            )
        n_neighbors = min(n_neighbors, rows.size - 1)
    search: dict[str, Any] = {"weights": weights, "method": neighbors, "random_state": random_state}
    some = Z if rows.size == N else Z[rows]
    W, embedding = embed_codes(some, n_clusters, n_neighbors, similarity, callback=callback, **search)
    if callback is not None:
        callback("clusters")
    found, _ = cluster_embedding(embedding, n_clusters, random_state)
    if rows.size == N:
        return GraphClusters(found, W, embedding)
    labels = np.full(N, _largest_cluster(~coded, found))
    labels[rows] = found
    W = W.tocoo()
    W = csr_array((W.data, (rows[W.row], rows[W.col])), shape=(N, N))
    vectors = np.zeros((N, n_clusters))
    vectors[rows] = embedding.vectors
    return GraphClusters(in_order(labels, n_clusters)[0], W, embedding._replace(vectors=vectors))


def vote(Z: Any, codes: Any, labels: Ints, k: int, similarity: Similarity) -> Ints:
    """Return the clusters of new codes ``Z``: a vote of the k nearest of ``codes`` (N, n), weighted by nearness.

    Codes of zeros have no vote; a new one goes to the largest cluster, with a DataWarning.
    """
    Z, voters = np.asarray(Z), np.flatnonzero(codes.any(axis=1))
    coded = Z.any(axis=1)
    chosen = np.full(len(Z), _largest_cluster(~coded, labels))
    asked = np.flatnonzero(coded)
    if voters.size < len(codes):
        codes, labels = codes[voters], labels[voters]
    if asked.size:
        k = min(k, len(codes))
        found = nearest_neighbours(codes, k, queries=Z if asked.size == len(Z) else Z[asked], similarity=similarity)
        # from 2k votes of the nearest to k + 1 of the farthest: nearness decides near-ties
        votes = np.zeros((len(asked), int(labels.max()) + 1))
        rank = np.broadcast_to(2.0 * k - np.arange(k), found.indices.shape)
        np.add.at(votes, (np.arange(len(asked))[:, None], labels[found.indices]), rank)
        chosen[asked] = votes.argmax(axis=1)
    return chosen


def _largest_cluster(uncoded: Bools, labels: Ints) -> int:
    """Return the largest cluster; warn how many samples without a code go there."""
    count, largest = int(uncoded.sum()), int(np.bincount(labels).argmax())
    if count:
        warn(
            f"{count} of {len(uncoded)} samples have a code of zeros (they are zero, very short or without any "
            "observed entry) and go to the largest cluster",
            DataWarning,
        )
    return largest


def embed_codes(
    Z: Any,
    n_clusters: int,
    n_neighbors: int,
    similarity: Similarity,
    *,
    random_state: int = 0,
    callback: Callback | None = None,
    **search: Any,
) -> tuple[Any, Embedding]:
    """Return the graph of codes (N, n) and its eigenvectors; ``search`` are options of :func:`neighbour_graph`."""
    if callback is not None:
        callback("graph")
    W, sigma = neighbour_graph(Z, n_neighbors, similarity=similarity, random_state=random_state, **search)
    W = join_components(W, Z, n_neighbors, n_clusters, sigma=sigma, similarity=similarity)
    if callback is not None:
        callback("embedding")
    return W, spectral_embedding(W, n_clusters, random_state)
