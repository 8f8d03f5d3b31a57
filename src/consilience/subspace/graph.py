r"""Graphs of samples: from the neighbours of their codes, or from batch codes (thesis, Section 2.2.3, Alg. 2.3).

Two samples are joined where either is among the k nearest of the other, (2.19)-(2.20):

.. math:: W_{ij} = w_{ij} \;\text{ if }\; a_j \in K_i \text{ or } a_i \in K_j, \quad 0 \text{ otherwise}

with :math:`w_{ij} = 1` ("binary") or :math:`\exp(-\|a_i - a_j\|^2 / 2\sigma^2)` ("heat", σ being the mean distance
between neighbours, Section 2.5; the thesis prints σ² for 2σ² in Section 2.2.3).

====== ============== ==============================================
symbol name           shape
====== ============== ==============================================
a_i    ``Z[i]``       (n,), the code of sample i
K_i    ``indices[i]`` (k,), its nearest neighbours
W      the result     (N, N), sparse, symmetric, zero diagonal
====== ============== ==============================================
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from consilience.exceptions import DataError
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.subspace.neighbours import Method, Similarity, nearest_neighbours
from consilience.validation import one_of

__all__ = ["Weights", "affinity_from_codes", "join_components", "mutual_neighbours", "neighbour_graph"]

Weights: TypeAlias = Literal["binary", "heat"]

#: Samples of large components that those of small ones may be joined to.
_MOST_OUTSIDE = 20_000


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
    return neighbour_graph(Z, k, weights=weights, method=method, similarity=similarity, random_state=random_state)[0]


def neighbour_graph(
    Z: Any,
    k: int,
    *,
    weights: Weights = "binary",
    method: Method = "auto",
    similarity: Similarity = "euclidean",
    random_state: int = 0,
) -> tuple[Any, float | None]:
    """Give what :func:`mutual_neighbours` gives, and σ of heat weights, for edges that come later; None for binary."""
    one_of("weights", weights, get_args(Weights))
    found = nearest_neighbours(Z, k, similarity=similarity, method=method, random_state=random_state)
    N = len(found.indices)
    rows = np.repeat(np.arange(N), found.indices.shape[1])
    columns, distances = found.indices.ravel(), found.distances.ravel()
    if similarity != "euclidean":
        none: Bools = ~np.asarray(np.any(np.asarray(Z), axis=1))
        keep = ~(none[rows] | none[columns])
        rows, columns, distances = rows[keep], columns[keep], distances[keep]
    # the mean distance (thesis, Section 2.5)
    sigma = None if weights == "binary" else float(distances.mean()) if distances.size else 0.0
    return _graph(rows, columns, distances, N, sigma), sigma


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
    sigma: float | None = None,
    similarity: Similarity = "euclidean",
) -> Any:
    """Join small components of the graph ``W`` to the rest, each of their samples to its k nearest outside.

    A component apart takes an eigenvector of its own, whatever its size: a few outliers that list each other would
    be a cluster, and two others would have to be one.  Joined are components of fewer than ``smallest`` samples and,
    while there are more than ``most``, the smallest.  None for ``smallest``: 2 (k + 1), or half the mean size of a
    cluster if that is less, for such may be a cluster; and always what has less than 2 % of that mean.

    ``sigma`` is σ of heat weights, that of the other edges; None gives binary ones.  Above 20,000 samples outside, the
    nearest are those of 20,000.  Other arguments are those of :func:`mutual_neighbours`.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    N = W.shape[0]
    if smallest is None:
        smallest = max(min(2 * (k + 1), max(2, N // (2 * most))), int(0.02 * N / most))
    codes = np.asarray(Z)
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
        if outside.size > _MOST_OUTSIDE:
            outside = np.sort(np.random.default_rng(0).choice(outside, _MOST_OUTSIDE, replace=False))
        near = min(k, outside.size)
        found = nearest_neighbours(codes[outside], near, queries=codes[inside], similarity=similarity)
        added = _graph(np.repeat(inside, near), outside[found.indices.ravel()], found.distances.ravel(), N, sigma)
        before, W = count, csr_array(W.maximum(added))
        if connected_components(W, directed=False)[0] == before:
            return W


def _graph(rows: Ints, columns: Ints, distances: Floats, N: int, sigma: float | None) -> Any:
    """Give the symmetric graph of these edges: heat weights w = exp(-‖a_i - a_j‖² / 2σ²), or ones without σ."""
    from scipy.sparse import csr_array

    values = np.ones(len(rows))
    if sigma:
        values = np.exp(-0.5 * (distances / sigma) ** 2)
        values = np.maximum(values, np.finfo(np.float32).tiny)  # an edge, however long, stays one
    directed = csr_array((values, (rows, columns)), shape=(N, N))
    return csr_array(directed.maximum(directed.T))
