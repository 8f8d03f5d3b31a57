r"""The k nearest codes of every code, and the graph of them (thesis, Section 2.2.3, Alg. 2.3).

Two samples are joined where either is among the k nearest of the other, (2.19)-(2.20):

.. math:: W_{ij} = w_{ij} \;\text{ if }\; a_j \in K_i \text{ or } a_i \in K_j, \quad 0 \text{ otherwise}

with :math:`w_{ij} = 1` ("binary") or :math:`\exp(-\|a_i - a_j\|^2 / 2\sigma^2)` ("heat", σ being the mean distance
between neighbours, Section 2.5).

====== ============== ==============================================
symbol name           shape
====== ============== ==============================================
a_i    ``Z[i]``       (n,), the code of sample i
K_i    ``indices[i]`` (k,), its nearest neighbours, nearest first
W      the result     (N, N), sparse, symmetric, zero diagonal
====== ============== ==============================================

The thesis means Euclidean distance.  Three similarities of codes are offered:

``"euclidean"``
    as printed.
``"cosine"``
    between codes scaled to unit length: the length of a sample says nothing about its subspace.
``"absolute"``
    the absolute cosine: nor does its sign, for a subspace contains -x with x.  There is more to it.  For LSR with
    large λ the inner product of two sketched codes, :math:`x_i^\top (B B^\top)^+ x_j`, tends to the entry
    :math:`[X^+ X]_{ij}` of the batch representation (2.11) as :math:`B B^\top = X R R^\top X^\top` tends to
    :math:`X X^\top`; this entry is zero between independent subspaces, and the batch method takes its absolute value.
    The largest absolute cosines thus are the largest entries of the batch affinity :math:`|Z| + |Z|^\top`, for codes
    scaled to unit length.

The exact search multiplies blocks of codes in single precision and keeps the best few of each row, to be ordered in
double precision at the end; it never holds N × N numbers.  The approximate search (:mod:`consilience.subspace.forest`)
takes time of order N log N.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from consilience.exceptions import DataError, ParameterError
from consilience.kernels import blocks
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.kernels.neighbours import update_lists

__all__ = [
    "Method",
    "Neighbours",
    "Similarity",
    "Weights",
    "affinity_from_codes",
    "join_components",
    "mutual_neighbours",
    "nearest_neighbours",
]

Similarity: TypeAlias = Literal["euclidean", "cosine", "absolute"]
Weights: TypeAlias = Literal["binary", "heat"]
Method: TypeAlias = Literal["auto", "exact", "approximate", "pynndescent"]
Singles: TypeAlias = NDArray[np.float32]

#: Up to this many codes the exact search is as fast as the approximate one.
_MOST_EXACT = 20_000
#: Rows of a block of the exact search, and the codes that they are compared with at a time.
_ROWS, _COLUMNS = 512, 8192
#: Further candidates that single precision keeps, for double precision to choose from.
_SPARE = 6


class Neighbours(NamedTuple):
    """The nearest codes of each query, nearest first."""

    indices: Ints  #: (Q, k)
    distances: Floats  #: (Q, k); for ``"cosine"`` and ``"absolute"`` between unit vectors: √(2 - 2 similarity)


def nearest_neighbours(
    Z: Any,
    k: int,
    *,
    queries: Any = None,
    similarity: Similarity = "euclidean",
    method: Method = "auto",
    random_state: int = 0,
) -> Neighbours:
    """Find the k nearest codes of every row of ``queries``, or of every row of ``Z`` without itself.

    Parameters
    ----------
    Z
        Codes (N, n).
    k
        Neighbours.
    queries
        Other codes (Q, n); they are always searched for exactly.
    similarity, method, random_state
        See :func:`mutual_neighbours`.
    """
    codes = _codes(Z, similarity)
    N = len(codes)
    among = N if queries is not None else N - 1
    whole: Any = k
    if isinstance(whole, bool) or not isinstance(whole, int | np.integer) or not 1 <= whole <= among:
        raise ParameterError(f"k must be a whole number from 1 to {among} for {N} codes, not {k!r}")
    if method not in get_args(Method):
        raise ParameterError(f"method must be one of {', '.join(get_args(Method))}, not {method!r}")
    asked = codes if queries is None else _codes(queries, similarity)
    if asked.shape[1] != codes.shape[1]:
        raise DataError(f"queries have {asked.shape[1]} columns, the codes {codes.shape[1]}")
    if similarity == "euclidean":  # differences from the middle suffer less from rounding
        middle = codes.mean(axis=0)
        codes, asked = codes - middle, asked - middle
    absolute = similarity == "absolute"
    approximate = method == "approximate" or (method == "auto" and N > _MOST_EXACT)
    if queries is not None or not (approximate or method == "pynndescent"):
        own = np.arange(N) if queries is None else np.full(len(asked), -1)
        candidates = _exact(codes, asked, own, min(k + _SPARE, among), absolute)
    elif method == "pynndescent":
        if absolute:  # its trees cut by signed differences: half of the neighbours are lost
            raise ParameterError('pynndescent cannot search by similarity="absolute"; use method="approximate"')
        candidates = _pynndescent(codes, k, random_state)
    else:
        from consilience.subspace.forest import search

        candidates = search(_single(codes), k, absolute=absolute, random_state=random_state)
    return _ordered(codes, asked, candidates, k, absolute)


def mutual_neighbours(
    Z: Any,
    k: int,
    *,
    weights: Weights = "binary",
    method: Method = "auto",
    similarity: Similarity = "euclidean",
    random_state: int = 0,
) -> Any:
    """Give the graph (2.19)-(2.20): joined are samples of which either is among the k nearest of the other.

    Parameters
    ----------
    Z
        Codes (N, n).
    k
        Neighbours.
    weights
        Of edges: ``"binary"`` or ``"heat"``.
    method
        ``"exact"``; ``"approximate"``, in time of order N log N; ``"pynndescent"``, the package of that name, likewise
        approximate, not for ``"absolute"``; ``"auto"``: exact for up to 20,000 codes, else approximate.
    similarity
        ``"euclidean"``, ``"cosine"`` or ``"absolute"`` (cosine).
    random_state
        Seed of the approximate searches.

    Returns
    -------
    csr_array (N, N), symmetric, without diagonal.  A code of zeros has no direction, hence no neighbours unless
    ``similarity`` is ``"euclidean"``.
    """
    if weights not in get_args(Weights):
        raise ParameterError(f"weights must be one of {', '.join(get_args(Weights))}, not {weights!r}")
    found = nearest_neighbours(Z, k, similarity=similarity, method=method, random_state=random_state)
    N = len(found.indices)
    rows = np.repeat(np.arange(N), found.indices.shape[1])
    columns, distances = found.indices.ravel(), found.distances.ravel()
    if similarity != "euclidean":
        none: Bools = ~np.asarray(np.any(np.asarray(Z), axis=1))
        keep = ~(none[rows] | none[columns])
        rows, columns, distances = rows[keep], columns[keep], distances[keep]
    return _graph(rows, columns, distances, N, weights)


def affinity_from_codes(C: Any, *, normalise: bool = True) -> Any:
    """Give the affinity |C| + |C|ᵀ of batch codes ``C`` (N, N), sparse or dense, row i being the code of sample i.

    ``normalise`` first divides every row by its largest absolute entry, so that samples which need large coefficients
    do not outweigh others (Elhamifar & Vidal 2013, Alg. 1).  The diagonal is left out.
    """
    from scipy import sparse

    if getattr(C, "ndim", 0) != 2 or C.shape[0] != C.shape[1]:
        raise DataError(f"batch codes are a square matrix (N, N); came {getattr(C, 'shape', type(C).__name__)}")
    W = abs(sparse.csr_array(C, dtype=np.float64))
    if not np.isfinite(W.data).all():
        raise DataError("codes must be finite")
    if normalise:
        largest = np.asarray(W.max(axis=1).todense()).ravel()
        W = sparse.diags_array(1.0 / np.where(largest > 0, largest, 1.0)) @ W
    W = sparse.csr_array(W + W.T)
    W.setdiag(0.0)
    W.eliminate_zeros()
    return W


def join_components(
    W: Any,
    Z: Any,
    k: int,
    most: int,
    *,
    smallest: int | None = None,
    weights: Weights = "binary",
    similarity: Similarity = "euclidean",
) -> Any:
    """Join small components of the graph ``W`` to the rest, each of their samples to its k nearest outside.

    A component apart takes an eigenvector of its own, whatever its size: a few outliers that list each other would
    be a cluster, and two others would have to be one.  Joined are components of fewer than ``smallest`` samples
    (None: 2 (k + 1), or 2 % of the mean size of a cluster) and, while there are more than ``most``, the smallest.
    The arguments are those of :func:`mutual_neighbours`.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    N = W.shape[0]
    if smallest is None:
        smallest = max(2 * (k + 1), int(0.02 * N / most))
    codes = np.asarray(Z, np.float64)
    while True:
        count, component = connected_components(W, directed=False)
        size = np.bincount(component, minlength=count)
        order = np.argsort(-size, kind="stable")
        keep = order[: min(most, max(1, int((size >= smallest).sum())))]
        if count <= len(keep):
            return W
        large = np.zeros(count, bool)
        large[keep] = True
        outside = np.flatnonzero(large[component])
        inside = np.flatnonzero(~large[component])
        if similarity != "euclidean":  # a code of zeros stays alone: nothing is nearer to it than anything else
            inside = inside[codes[inside].any(axis=1)]
            if not inside.size:
                return W
        near = min(k, outside.size)
        found = nearest_neighbours(codes[outside], near, queries=codes[inside], similarity=similarity)
        added = _graph(np.repeat(inside, near), outside[found.indices.ravel()], found.distances.ravel(), N, weights)
        before, W = count, csr_array(W.maximum(added))
        if connected_components(W, directed=False)[0] == before:
            return W


def _graph(rows: Ints, columns: Ints, distances: Floats, N: int, weights: Weights) -> Any:
    from scipy.sparse import csr_array

    values = np.ones(len(rows))
    if weights == "heat" and len(rows):
        # w = exp(-‖a_i - a_j‖² / 2σ²), σ = mean distance (thesis, Section 2.5)
        sigma = float(distances.mean())
        if sigma > 0:
            values = np.exp(-0.5 * (distances / sigma) ** 2)
        values = np.maximum(values, np.finfo(np.float32).tiny)  # an edge, however long, stays one
    directed = csr_array((values, (rows, columns)), shape=(N, N))
    return csr_array(directed.maximum(directed.T))


def _codes(Z: Any, similarity: str) -> Floats:
    """Check the codes; scale them to unit length unless the distance is Euclidean."""
    if similarity not in get_args(Similarity):
        raise ParameterError(f"similarity must be one of {', '.join(get_args(Similarity))}, not {similarity!r}")
    codes: Any = np.asarray(Z)
    if codes.dtype != np.float32:
        codes = codes.astype(np.float64, copy=False)
    if codes.ndim != 2 or codes.shape[1] == 0:
        raise DataError(f"codes are a matrix (N, n) with at least one column; came shape {codes.shape}")
    if not np.isfinite(codes).all():
        raise DataError("codes must be finite; some are NaN or infinite")
    if similarity == "euclidean":
        plain: Floats = codes
        return plain
    length = np.sqrt(np.einsum("ij,ij->i", codes, codes))[:, None]
    unit: Floats = codes / np.where(length > 0, length, 1)
    return unit


def _exact(codes: Floats, asked: Floats, own: Ints, k: int, absolute: bool) -> Ints:
    """Find k candidates of every row of ``asked`` by blocks of products in single precision.

    The order of -‖a_i - a_j‖² / 2 along a row is that of a_i · a_j - ‖a_j‖² / 2, also for codes of unit length.
    """
    from threadpoolctl import threadpool_limits

    Z, Q = _single(codes), _single(asked, codes)
    half = 0.5 * np.einsum("ij,ij->i", Z, Z)
    N = len(Z)
    columns = np.arange(N)
    best = np.full((len(Q), k), -np.inf, np.float32)
    found = np.full((len(Q), k), -1, np.int64)

    def work(first: int, stop: int) -> None:
        for start in range(0, N, _COLUMNS):
            part = slice(start, min(start + _COLUMNS, N))
            update_lists(
                Q[first:stop] @ Z[part].T,
                half[part],
                columns[part],
                own[first:stop],
                best[first:stop],
                found[first:stop],
                absolute=absolute,
                unique=False,
            )

    with threadpool_limits(1, "blas"):  # blocks already take all cores
        blocks.run(work, [(i, min(i + _ROWS, len(Q))) for i in range(0, len(Q), _ROWS)])
    return found


def _single(codes: Floats, like: Floats | None = None) -> Singles:
    """Round to single precision, after a scaling (by that of ``like``) that keeps squares within range."""
    largest = float(np.abs(codes if like is None else like).max(initial=0.0))
    return np.ascontiguousarray(codes / (largest if largest > 0 else 1.0), np.float32)


def _pynndescent(codes: Floats, k: int, random_state: int) -> Ints:
    try:
        package: Any = import_module("pynndescent")
    except ImportError as error:
        raise ParameterError(
            'method="pynndescent" needs that package: pip install pynndescent, or use method="approximate"'
        ) from error
    index = package.NNDescent(
        codes.astype(np.float32), metric="euclidean", n_neighbors=k + 1, random_state=random_state
    )
    indices, distances = index.neighbor_graph
    # Its own number is among those of a row, first if nothing else is as near.
    distances = np.where(indices == np.arange(len(codes))[:, None], -1.0, distances)
    order = np.argsort(distances, axis=1, kind="stable")[:, 1:]
    return np.take_along_axis(indices.astype(np.int64), order, axis=1)


def _ordered(codes: Floats, asked: Floats, candidates: Ints, k: int, absolute: bool) -> Neighbours:
    """Keep the k nearest of the candidates by distances from differences, in the precision of the codes."""
    Q, m = candidates.shape
    indices, distances = np.empty((Q, k), np.int64), np.empty((Q, k))

    def work(first: int, stop: int) -> None:
        near = codes[candidates[first:stop]]
        mine = asked[first:stop, None, :]
        if absolute:
            near *= np.where(np.einsum("qmj,qxj->qm", near, mine) < 0, -1, 1)[:, :, None].astype(near.dtype)
        near -= mine
        square = np.einsum("qmj,qmj->qm", near, near)
        square[candidates[first:stop] < 0] = np.inf
        order = np.lexsort((candidates[first:stop], square), axis=1)[:, :k]
        indices[first:stop] = np.take_along_axis(candidates[first:stop], order, axis=1)
        distances[first:stop] = np.sqrt(np.take_along_axis(square, order, axis=1))

    rows = max(1, (1 << 20) // max(1, m * codes.shape[1]))
    blocks.run(work, [(i, min(i + rows, Q)) for i in range(0, Q, rows)])
    return Neighbours(indices, distances)
