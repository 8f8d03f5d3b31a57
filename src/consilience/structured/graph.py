"""Graphs of items: undirected, without self-loops or repeated edges, built from frames, pairs, matrices or features.

============= ============================================================ =================
name          meaning                                                      shape, type
============= ============================================================ =================
``indptr``    first neighbour of each item                                 (N + 1,) int64
``neighbour`` the item at the other end, ascending; every edge occurs twice(2 E,) int32
``weight``    of the edge, > 0                                             (2 E,) float64
============= ============================================================ =================
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
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
from consilience.kernels.neighbours import MANY_ROWS, nearest_rows, search_approximately

__all__ = ["Graph", "as_graph", "nearest_neighbours"]

#: With at most this many features a tree finds the exact neighbours of many items quickly.
_EXACT_FEATURES = 15


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
        """Build from two columns of node numbers, in either direction.

        Self-loops and edges of weight 0 are dropped; of repeated edges the heaviest is kept.
        """
        source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
        weight = np.ones(source.size) if weight is None else np.asarray(weight, np.float64)
        bad = ~(np.isfinite(weight) & (weight >= 0))
        if bad.any():
            raise DataError(
                f"weights of edges must be numbers ≥ 0, but {name_rows(np.flatnonzero(bad))} of the edges have others, "
                f"such as {float(weight[bad][0])}. Negative coupling is not supported"
            )
        kept = (source != target) & (weight > 0)
        low, high = np.minimum(source, target)[kept], np.maximum(source, target)[kept]
        edge, where = np.unique(low * n_items + high, return_inverse=True)
        heaviest = np.zeros(edge.size)
        np.maximum.at(heaviest, where, weight[kept])
        low, high = edge // max(n_items, 1), edge % max(n_items, 1)
        # edges are sorted by their lower end, so each half is grouped; a stable sort merges them
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
        """Return every edge once: its lower end, its higher end and its weight, in ascending order."""
        start = np.repeat(np.arange(self.n_items), self.degree)
        once = start < self.neighbour
        return start[once], self.neighbour[once].astype(np.int64), self.weight[once]

    def select(self, order: Ints) -> Graph:
        """Return the graph of these nodes, in this order, without edges to others."""
        new = np.full(self.n_items, -1)
        new[order] = np.arange(order.size)
        low, high, weight = self.edges()
        kept = (new[low] >= 0) & (new[high] >= 0)
        names = None if self.items is None else self.items.take(order)
        return Graph.from_edges(new[low][kept], new[high][kept], weight[kept], n_items=order.size, items=names)

    def __repr__(self) -> str:
        return f"<Graph: {self.n_items} items, {self.n_edges} edges, {int((~self.joined).sum())} isolated items>"


def as_graph(graph: Any, annotations: Annotations) -> Graph:
    """Build the graph of the annotated items.

    Parameters
    ----------
    graph
        A frame or table with two columns of item ids (``source`` and ``target``, or the only two) and optionally a
        ``weight``; a sequence of pairs of ids; a scipy sparse matrix (items × items, in the order of
        ``annotations.items``); the path of a file, see :func:`consilience.io.edges.read_edges`; or a :class:`Graph`.
    annotations
        Their items are the nodes.  Edges to other items are dropped with a warning.
    """
    N = annotations.n_items
    if isinstance(graph, Graph):
        return _renamed(graph, annotations)
    if isinstance(graph, str | os.PathLike):
        graph = read_edges(graph, like=annotations)
    if hasattr(graph, "tocoo"):
        if graph.shape != (N, N):
            raise DataError(
                f"a sparse graph must be of shape {(N, N)}, one row and column per item in the order of "
                f"annotations.items; got {graph.shape}"
            )
        matrix = graph.tocoo()
        row, column = matrix.coords if hasattr(matrix, "coords") else (matrix.row, matrix.col)
        return Graph.from_edges(row, column, matrix.data, n_items=N)
    source, target, weight = _columns(graph)
    known = annotations.item_ids
    return _among(known.codes_of(source), known.codes_of(target), weight, N)


def _columns(graph: Any) -> tuple[pa.Array, pa.Array, Any]:
    """Return the two columns of ids, and the weights or None."""
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
                f"the graph has {graph.n_items} items, the annotations {annotations.n_items}; give the "
                "graph the names of its items, so that they can be matched"
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
    """Connect every item to the k items with the nearest features.

    Parameters
    ----------
    features
        One row per item (items × features), dense or scipy sparse.  Scale the columns first, for example with
        scikit-learn's ``StandardScaler``.
    k
        Neighbours of each item.
    items
        Names of the rows; without them, the rows are the items of the annotations, in their order.
    metric
        "euclidean" or "cosine".
    mutual
        Connect two items only if each is among the nearest of the other.
    exact
        Whether to search exactly.  By default up to 50,000 items, or 15 features, or where the features are sparse;
        beyond that pynndescent finds nearly all neighbours (``pip install 'consilience[neighbours]'``).  Without it
        the search is exact, in time of order N², with an EngineWarning.
    random_state
        Seed of the approximate search.
    """
    if metric not in ("euclidean", "cosine"):
        raise ParameterError(f"metric must be 'euclidean' or 'cosine', not {metric!r}")
    X = features.tocsr() if hasattr(features, "tocsr") else np.ascontiguousarray(features, np.float64)
    sparse = not isinstance(X, np.ndarray)
    if X.ndim != 2:
        raise DataError(f"features must be a matrix of items × features, not of shape {X.shape}")
    if not np.isfinite(X.data if sparse else X).all():
        raise DataError("features must be finite numbers; fill in or remove missing values")
    N, d = X.shape
    if not 1 <= k < max(N, 2):
        raise ParameterError(f"k must be a whole number from 1 to {N - 1} (fewer than the items), not {k!r}")
    names = None if items is None else Ids(to_column(items if isinstance(items, pa.Array) else list(items), "items"))
    if names is not None and len(names) != N:
        raise DataError(f"there are {N} rows of features, but {len(names)} item names")
    if metric == "cosine":
        from sklearn.preprocessing import normalize

        X = normalize(X)
    if exact is None:
        exact = sparse or N <= MANY_ROWS or d <= _EXACT_FEATURES
    approximate = not exact and search_approximately(N)
    seed = int(np.random.default_rng(random_state).integers(2**31))
    nearest = nearest_rows(X, int(k), approximate=approximate, random_state=seed)
    source, target = np.repeat(np.arange(N), k), nearest.ravel()
    if mutual:
        # the key of a pair in both directions occurs twice
        key = np.minimum(source, target) * N + np.maximum(source, target)
        both, times = np.unique(key, return_counts=True)
        source, target = both[times > 1] // N, both[times > 1] % N
    return Graph.from_edges(source, target, n_items=N, items=names)
