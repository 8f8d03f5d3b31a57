r"""Graphs of samples: from the neighbours of their codes, or from batch codes (thesis, Section 2.2.3, Alg. 2.3).

Two samples are joined if either is among the k nearest of the other, (2.19)-(2.20):

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
from consilience.kernels._arrays import Floats, Ints
from consilience.subspace.neighbours import Method, Similarity, nearest_neighbours
from consilience.validation import one_of

__all__ = ["Weights", "affinity_from_codes", "join_components", "neighbour_graph"]

Weights: TypeAlias = Literal["binary", "heat"]

#: Most samples of large components among which the nearest to small ones are searched.
_MOST_OUTSIDE = 20_000


def neighbour_graph(
    Z: Any,
    k: int,
    *,
    weights: Weights = "binary",
    method: Method = "auto",
    similarity: Similarity = "euclidean",
    random_state: int = 0,
) -> tuple[Any, float | None]:
    """Return the graph (2.19)-(2.20): two samples are joined if either is among the k nearest of the other.

    Parameters
    ----------
    Z
        Codes (N, n).
    k
        Neighbours.
    weights
        Weights of edges: ``"binary"`` or ``"heat"``.
    method
        ``"exact"``; ``"approximate"``, by pynndescent if it is installed, otherwise exact; ``"pynndescent"``, which
        must then be installed; ``"auto"``: exact for up to 50,000 codes, else approximate.
    similarity
        ``"euclidean"``, ``"cosine"`` or ``"absolute"`` (cosine).
    random_state
        Seed of the approximate search.

    Returns
    -------
    csr_array (N, N), symmetric, without diagonal, and σ of heat weights for later edges (None for binary ones).  A code
    of zeros has no direction, so it has neighbours only if ``similarity`` is ``"euclidean"``.
    """
    one_of("weights", weights, get_args(Weights))
    codes = np.asarray(Z)
    N = len(codes)
    places = np.arange(N)
    if similarity != "euclidean" and codes.ndim == 2 and not (coded := codes.any(axis=1)).all():
        places, codes = np.flatnonzero(coded), codes[coded]
        k = min(k, places.size - 1)
    found = nearest_neighbours(codes, k, similarity=similarity, method=method, random_state=random_state)
    rows = np.repeat(places, found.indices.shape[1])
    columns, distances = places[found.indices.ravel()], found.distances.ravel()
    # the mean distance (thesis, Section 2.5)
    sigma = None if weights == "binary" else float(distances.mean()) if distances.size else 0.0
    return _graph(rows, columns, distances, N, sigma), sigma


def affinity_from_codes(C: Any, *, normalise: bool = True) -> Any:
    """Return the affinity |C| + |C|ᵀ of batch codes ``C`` (N, N), sparse or dense, row i being the code of sample i.

    ``normalise`` first divides every row by its largest absolute entry, so that samples which need large coefficients
    do not outweigh others (Elhamifar & Vidal 2013, Alg. 1).  The diagonal is left out.
    """
    from scipy import sparse

    if getattr(C, "ndim", 0) != 2 or C.shape[0] != C.shape[1]:
        raise DataError(f"batch codes must be a square matrix (N, N), not {getattr(C, 'shape', type(C).__name__)}")
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

    A separate component takes an eigenvector of its own, whatever its size: a few outliers that list each other would
    be a cluster, and two true clusters would have to share one.  Components of fewer than ``smallest`` samples are
    joined and, while there are more than ``most`` components, the smallest.  None for ``smallest``: 2 (k + 1), or half
    the mean size of a cluster if that is less; and at least 2 % of that mean.

    ``sigma`` is σ of the heat weights of the other edges; None: binary weights.  Of more than 20,000 samples outside,
    20,000 are searched.  Other arguments are those of :func:`neighbour_graph`.
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
        if similarity != "euclidean":  # a code of zeros has no direction and stays alone
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
    """Return the symmetric graph of these edges: heat weights w = exp(-‖a_i - a_j‖² / 2σ²), or ones without σ."""
    from scipy.sparse import csr_array

    values = np.ones(len(rows))
    if sigma:
        values = np.exp(-0.5 * (distances / sigma) ** 2)
        values = np.maximum(values, np.finfo(np.float32).tiny)  # a long edge stays an edge
    directed = csr_array((values, (rows, columns)), shape=(N, N))
    return csr_array(directed.maximum(directed.T))
