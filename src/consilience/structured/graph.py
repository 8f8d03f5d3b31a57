"""Which items are neighbours: an undirected graph without self-loops, each edge once, whatever it was given as.

============= ============================================================ =================
name          meaning                                                      shape, type
============= ============================================================ =================
``indptr``    where the neighbours of each item begin                      (N + 1,) int64
``neighbour`` item at the other end, ascending; every edge stands twice    (2 E,) int32
``weight``    of the edge, > 0                                             (2 E,) float64
============= ============================================================ =================
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, final

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids, name_rows, to_column
from consilience.data.truth import arrow_or_values
from consilience.exceptions import DataError, DataWarning, IdError, ParameterError, warn
from consilience.io.edges import edge_columns, read_edges
from consilience.kernels._arrays import Bools, Codes, Floats, Ints

__all__ = ["Graph", "as_graph", "nearest_neighbours"]

#: Up to so many items, or so few features, neighbours are searched exactly.
_EXACT_ITEMS, _EXACT_FEATURES = 50_000, 15
#: The forest: its trees, and how many items a leaf holds at most (more for many neighbours).
_TREES, _LEAF = 12, 128


@final
@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An undirected graph of items.  Make one with :func:`as_graph` or :func:`consilience.nearest_neighbours`.

    ``items`` names the nodes; without it they are the items of the annotations, in their order.
    """

    indptr: Ints
    neighbour: Codes
    weight: Floats
    items: Ids | None = None

    @classmethod
    def from_edges(
        cls, source: Any, target: Any, weight: Any = None, *, n_items: int, items: Ids | None = None
    ) -> Graph:
        """Build from two columns of node numbers; self-loops are dropped, and of repeated edges the heaviest stays.

        An edge is the same whichever end comes first.  Edges of weight 0 are dropped.
        """
        source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
        weight = np.ones(source.size) if weight is None else np.asarray(weight, np.float64)
        bad = ~(np.isfinite(weight) & (weight >= 0))
        if bad.any():
            raise DataError(
                f"weights of edges must be numbers ≥ 0; {name_rows(np.flatnonzero(bad))} of the edges have others, "
                f"such as {float(weight[bad][0])}. Items that repel each other cannot be described"
            )
        kept = (source != target) & (weight > 0)
        low, high = np.minimum(source, target)[kept], np.maximum(source, target)[kept]
        edge, where = np.unique(low * n_items + high, return_inverse=True)
        heaviest = np.zeros(edge.size)
        np.maximum.at(heaviest, where, weight[kept])
        low, high = edge // max(n_items, 1), edge % max(n_items, 1)
        # the edges are in order of their lower end, so each half is already grouped; a stable sort joins them
        start, to = np.concatenate([high, low]), np.concatenate([low, high])
        order = np.argsort(start, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(start, minlength=n_items))])
        return cls(indptr, to[order].astype(np.int32), np.tile(heaviest, 2)[order], items)

    @property
    def n_items(self) -> int:
        """N."""
        return int(self.indptr.size - 1)

    @property
    def n_edges(self) -> int:
        """E."""
        return int(self.neighbour.size // 2)

    @property
    def degree(self) -> Ints:
        """Neighbours of each item, (N,)."""
        return np.diff(self.indptr)

    @property
    def joined(self) -> Bools:
        """Which items have a neighbour, (N,)."""
        return self.degree > 0

    def edges(self) -> tuple[Ints, Ints, Floats]:
        """Give every edge once: its lower end, its higher end and its weight, in ascending order."""
        start = np.repeat(np.arange(self.n_items), self.degree)
        once = start < self.neighbour
        return start[once], self.neighbour[once].astype(np.int64), self.weight[once]

    def select(self, order: Ints) -> Graph:
        """Give the graph of these nodes, in this order; edges to others are left out."""
        new = np.full(self.n_items, -1)
        new[order] = np.arange(order.size)
        low, high, weight = self.edges()
        kept = (new[low] >= 0) & (new[high] >= 0)
        names = None if self.items is None else self.items.take(order)
        return Graph.from_edges(new[low][kept], new[high][kept], weight[kept], n_items=order.size, items=names)

    def __repr__(self) -> str:
        return f"<Graph: {self.n_items} items, {self.n_edges} edges, {int((~self.joined).sum())} items without>"


def as_graph(graph: Any, annotations: Annotations) -> Graph:
    """Make a graph of the annotated items out of whatever tells their neighbours.

    Parameters
    ----------
    graph
        A frame or table with two columns of item ids (``source`` and ``target``, or the only two) and, if there is
        one, a ``weight``; a sequence of pairs of ids; a scipy sparse matrix (items × items, in the order of
        ``annotations.items``); the path of a file, see :func:`consilience.io.edges.read_edges`; or a :class:`Graph`.
    annotations
        Their items are the nodes.  Edges to other items are left out with a warning.
    """
    N = annotations.n_items
    if isinstance(graph, Graph):
        return _renamed(graph, annotations)
    if isinstance(graph, str | os.PathLike):
        graph = read_edges(graph, like=annotations)
    if hasattr(graph, "tocoo"):
        if graph.shape != (N, N):
            raise DataError(
                f"a sparse graph must be of shape {(N, N)}, a row and a column for each item in the order of "
                f"annotations.items; got {graph.shape}"
            )
        matrix = graph.tocoo()
        row, column = matrix.coords if hasattr(matrix, "coords") else (matrix.row, matrix.col)
        return Graph.from_edges(row, column, matrix.data, n_items=N)
    source, target, weight = _columns(graph)
    known = annotations.item_ids
    return _among(known.codes_of(source), known.codes_of(target), weight, N)


def _columns(graph: Any) -> tuple[pa.Array, pa.Array, Any]:
    """Give the two columns of ids, and the weights where there are any."""
    if _frames.is_frame(graph):
        import narwhals as nw

        table = nw.from_native(graph, eager_only=True)
        source, target, weight = edge_columns(table.columns, "the edges")
        ends = [to_column(arrow_or_values(table[name]), name) for name in (source, target)]
        for name, end in zip((source, target), ends, strict=True):
            if end.null_count:
                rows = np.flatnonzero(np.asarray(end.is_null()))
                raise IdError(f"the edges have no {name!r} in {name_rows(rows)}; an edge needs two items")
        return ends[0], ends[1], None if weight is None else _numbers(table[weight].to_numpy(), weight)
    pairs = graph if isinstance(graph, np.ndarray) or not isinstance(graph, Iterable) else list(graph)
    if isinstance(pairs, np.ndarray) and pairs.ndim == 2 and pairs.shape[1] == 2:
        return to_column(pairs[:, 0], "source"), to_column(pairs[:, 1], "target"), None
    if isinstance(pairs, list) and all(isinstance(p, tuple | list | np.ndarray) and len(p) == 2 for p in pairs):
        return to_column([p[0] for p in pairs], "source"), to_column([p[1] for p in pairs], "target"), None
    raise DataError(
        "expected a graph: a frame with source and target, a sequence of pairs of items, a scipy sparse matrix of "
        f"items × items, or the path of a file; got {type(graph).__name__}"
    )


def _numbers(values: Any, column: str) -> Floats:
    try:
        return np.asarray(values, np.float64)  # a missing one becomes NaN
    except (TypeError, ValueError) as error:
        raise DataError(f"the weights of edges (column {column!r}) must be numbers: {error}") from error


def _among(source: Ints, target: Ints, weight: Any, n_items: int) -> Graph:
    known = (source >= 0) & (target >= 0)
    lost = int((~known).sum())
    if lost and lost == known.size:
        raise IdError(f"none of the {lost} edges joins two labelled items; are the ids the same?")
    if lost:
        warn(f"{lost} of {known.size} edges lead to items that are not among the labelled ones", DataWarning)
    weight = None if weight is None else np.asarray(weight, np.float64)[known]
    return Graph.from_edges(source[known], target[known], weight, n_items=n_items)


def _renamed(graph: Graph, annotations: Annotations) -> Graph:
    if graph.items is None or graph.items == annotations.item_ids:
        if graph.n_items != annotations.n_items:
            raise DataError(
                f"the graph has {graph.n_items} items, the annotations {annotations.n_items}; name the items of the "
                "graph, so that they can be found"
            )
        return graph
    low, high, weight = graph.edges()
    code = annotations.item_ids.codes_of(graph.items.to_arrow())
    return _among(code[low], code[high], weight, annotations.n_items)


def nearest_neighbours(
    features: Any,
    k: int = 5,
    *,
    items: Any = None,
    metric: Literal["euclidean", "cosine"] = "euclidean",
    mutual: bool = False,
    exact: bool | None = None,
    random_state: Any = 0,
) -> Graph:
    """Join every item to the k whose features are nearest.

    Parameters
    ----------
    features
        A row for each item (items × features), dense or scipy sparse.  Bring the columns to one scale first, for
        example with scikit-learn's ``StandardScaler``.
    k
        Neighbours of each item.
    items
        Names of the rows; without them, the rows are the items of the annotations, in their order.
    metric
        "euclidean", or "cosine" for the angle alone.
    mutual
        Join two items only if each is among the nearest of the other; else one of the two is enough.
    exact
        Whether to search exactly.  By default up to 50 000 items, or 15 features, or where the features are sparse;
        beyond, a forest of random projections finds nearly all neighbours.
    random_state
        Of the forest.
    """
    if metric not in ("euclidean", "cosine"):
        raise ParameterError(f"metric must be 'euclidean' or 'cosine', not {metric!r}")
    X = features.tocsr() if hasattr(features, "tocsr") else np.ascontiguousarray(features, np.float64)
    sparse = not isinstance(X, np.ndarray)
    if X.ndim != 2:
        raise DataError(f"features must be a matrix of items × features, not of shape {X.shape}")
    if not np.isfinite(X.data if sparse else X).all():
        raise DataError("features must be finite numbers; fill in or remove what is missing")
    N, d = X.shape
    if not 1 <= k < max(N, 2):
        raise ParameterError(f"k must be a whole number from 1 to {N - 1}, one less than there are items, not {k!r}")
    names = None if items is None else Ids(to_column(items if isinstance(items, pa.Array) else list(items), "items"))
    if names is not None and len(names) != N:
        raise DataError(f"there are {N} rows of features, but {len(names)} names of items")
    if metric == "cosine":
        from sklearn.preprocessing import normalize

        X = normalize(X)
    if exact is None:
        exact = sparse or N <= _EXACT_ITEMS or d <= _EXACT_FEATURES
    nearest = _exactly(X, int(k)) if exact else _by_forest(X, int(k), np.random.default_rng(random_state))
    source, target = np.repeat(np.arange(N), k), nearest.ravel()
    if mutual:
        # a pair that stands in both directions has its key twice
        key = np.minimum(source, target) * N + np.maximum(source, target)
        both, times = np.unique(key, return_counts=True)
        source, target = both[times > 1] // N, both[times > 1] % N
    return Graph.from_edges(source, target, n_items=N, items=names)


def _exactly(X: Any, k: int) -> Ints:
    from sklearn.neighbors import NearestNeighbors

    return np.asarray(NearestNeighbors(n_neighbors=k).fit(X).kneighbors(return_distance=False), np.int64)


def _by_forest(X: Floats, k: int, rng: np.random.Generator) -> Ints:
    """Give the nearest among those who share a leaf in one of the trees, or a neighbour's neighbour.

    A tree halves the items along one random direction after another, that from one item to another.
    """
    N = len(X)
    square = np.einsum("nd,nd->n", X, X)
    best, distance = np.full((N, k), -1), np.full((N, k), np.inf)
    levels = max(0, int(np.ceil(np.log2(N / max(_LEAF, 4 * k)))))
    for _ in range(_TREES):
        order, edges = np.arange(N), np.array([0, N])
        for _ in range(levels):
            one, other = rng.choice(N, 2, replace=False)
            leaf = np.repeat(np.arange(edges.size - 1), np.diff(edges))
            order = order[np.lexsort(((X @ (X[one] - X[other]))[order], leaf))]
            edges = np.sort(np.concatenate([edges, (edges[:-1] + edges[1:]) // 2]))
        for first, stop in pairwise(edges.tolist()):
            here = order[first:stop]
            apart = square[here][:, None] + square[here] - 2.0 * (X[here] @ X[here].T)
            np.fill_diagonal(apart, np.inf)
            near = np.argpartition(apart, min(k, here.size) - 1, axis=1)[:, :k]
            _keep_nearest(best, distance, here, here[near], np.take_along_axis(apart, near, axis=1))
    for start in range(0, N, 1 << 13):
        here = np.arange(start, min(start + (1 << 13), N))
        there = best[best[here]].reshape(here.size, -1)
        apart = square[here][:, None] + square[there] - 2.0 * np.einsum("nd,ncd->nc", X[here], X[there])
        apart[there == here[:, None]] = np.inf
        _keep_nearest(best, distance, here, there, apart)
    return best


def _keep_nearest(best: Ints, distance: Floats, rows: Ints, candidate: Ints, apart: Floats) -> None:
    """Keep the k nearest different ones of those known and the candidates of these rows."""
    k = best.shape[1]
    who, far = np.concatenate([best[rows], candidate], axis=1), np.concatenate([distance[rows], apart], axis=1)
    by_name = np.argsort(who, axis=1, kind="stable")
    who, far = np.take_along_axis(who, by_name, axis=1), np.take_along_axis(far, by_name, axis=1)
    far[:, 1:][who[:, 1:] == who[:, :-1]] = np.inf
    nearest = np.argsort(far, axis=1, kind="stable")[:, :k]
    best[rows], distance[rows] = np.take_along_axis(who, nearest, axis=1), np.take_along_axis(far, nearest, axis=1)
