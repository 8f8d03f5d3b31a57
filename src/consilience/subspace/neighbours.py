r"""The k nearest codes of every code (thesis, Section 2.2.3).

====== ============== ==============================================
symbol name           shape
====== ============== ==============================================
a_i    ``Z[i]``       (n,), the code of sample i
K_i    ``indices[i]`` (k,), its nearest neighbours, nearest first
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
double precision at the end; it never holds N × N numbers.  Differences from the middle of all codes keep it exact far
from the origin; for the absolute cosine that works where all codes lie within 45° of one line, and otherwise directions
less than about 3e-4 apart may be taken for one another.  The approximate search (:mod:`consilience.subspace.forest`)
takes time of order N log N.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from consilience.exceptions import DataError, ParameterError
from consilience.kernels import blocks
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.neighbours import update_lists
from consilience.validation import one_of, whole

__all__ = ["Method", "Neighbours", "Similarity", "nearest_neighbours"]

Similarity: TypeAlias = Literal["euclidean", "cosine", "absolute"]
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
        See :func:`~consilience.subspace.graph.mutual_neighbours`.
    """
    codes = _codes(Z, similarity)
    N = len(codes)
    among = N if queries is not None else N - 1
    k = whole("k", k, among, f"for {N} codes")
    one_of("method", method, get_args(Method))
    asked = codes if queries is None else _codes(queries, similarity)
    if asked.shape[1] != codes.shape[1]:
        raise DataError(f"queries have {asked.shape[1]} columns, the codes {codes.shape[1]}")
    absolute = similarity == "absolute"
    if absolute:
        codes, asked, absolute = _turned(codes, asked)
    if not absolute:  # differences from the middle suffer less from rounding
        middle = codes.mean(axis=0, dtype=np.float64).astype(codes.dtype)
        same, codes = asked is codes, codes - middle
        asked = codes if same else asked - middle
    approximate = method == "approximate" or (method == "auto" and N > _MOST_EXACT)
    if queries is not None or not (approximate or method == "pynndescent"):
        own = np.arange(N) if queries is None else np.full(len(asked), -1)
        candidates = _exact(codes, asked, own, min(k + _SPARE, among), absolute)
    elif method == "pynndescent":
        if similarity == "absolute":  # its trees cut by signed differences: half of the neighbours are lost
            raise ParameterError('pynndescent cannot search by similarity="absolute"; use method="approximate"')
        candidates = _pynndescent(codes, k, random_state)
    else:
        from consilience.subspace.forest import search

        candidates = search(_single(codes), k, absolute=absolute, random_state=random_state)
    return _ordered(codes, asked, candidates, k, absolute)


def _codes(Z: Any, similarity: str) -> Floats:
    """Check the codes; scale them to unit length unless the distance is Euclidean."""
    one_of("similarity", similarity, get_args(Similarity))
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
    # in double precision: squares of single precision leave its range
    length = np.sqrt(np.einsum("ij,ij->i", codes, codes, dtype=np.float64))[:, None]
    unit: Floats = np.divide(codes, np.where(length > 0, length, 1.0), out=np.empty_like(codes), casting="same_kind")
    return unit


def _turned(codes: Floats, asked: Floats) -> tuple[Floats, Floats, bool]:
    """Turn unit codes to one side where all lie within 45° of one line; say whether signs still matter.

    Any two on one side then are less than 90° apart: their absolute cosine is their cosine, and the search may take
    differences from the middle, as it must where all directions are nearly the same.
    """
    line = codes[0]
    for _ in range(2):
        sign = np.where(codes @ line < 0, -1, 1).astype(codes.dtype)
        total = sign @ codes
        line = total / max(float(np.linalg.norm(total)), np.finfo(codes.dtype).tiny)
    others = () if asked is codes else (asked,)
    sides = [each @ line for each in (codes, *others)]
    if any((np.abs(side) < 0.7072).any() for side in sides):
        return codes, asked, True
    turned = [each * np.sign(side)[:, None] for each, side in zip((codes, *others), sides, strict=True)]
    return turned[0], turned[-1], False


def _exact(codes: Floats, asked: Floats, own: Ints, k: int, absolute: bool) -> Ints:
    """Find k candidates of every row of ``asked`` by blocks of products in single precision.

    The order of -‖a_i - a_j‖² / 2 along a row is that of a_i · a_j - ‖a_j‖² / 2, also for codes of unit length.
    """
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

    with blocks.one_blas_thread():  # blocks already take all cores
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
            'method="pynndescent" needs that package: pip install consilience[neighbours], or use method="approximate"'
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
