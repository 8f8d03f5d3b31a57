r"""The k nearest codes of every code (thesis, Section 2.2.3).

====== ============== ==============================================
symbol name           shape
====== ============== ==============================================
a_i    ``Z[i]``       (n,), the code of sample i
K_i    ``indices[i]`` (k,), its nearest neighbours, nearest first
====== ============== ==============================================

The thesis uses Euclidean distance.  Three similarities of codes are offered:

``"euclidean"``
    as in the thesis.
``"cosine"``
    between codes scaled to unit length: the length of a sample says nothing about its subspace.
``"absolute"``
    the absolute cosine: the sign says nothing either, because a subspace contains -x with x.  For LSR with large λ the
    inner product of two sketched codes, :math:`x_i^\top (B B^\top)^+ x_j`, tends to the entry :math:`[X^+ X]_{ij}` of
    the batch representation (2.11) as :math:`B B^\top = X R R^\top X^\top` tends to :math:`X X^\top`; this entry is
    zero between independent subspaces, and the batch method takes its absolute value.  So the largest absolute cosines
    are the largest entries of the batch affinity :math:`|Z| + |Z|^\top`, for codes scaled to unit length.

:mod:`consilience.kernels.neighbours` searches for a few more candidates than k; the k nearest of them are chosen by
distances from differences in double precision, ties by index.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from consilience.exceptions import DataError
from consilience.kernels import blocks
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.neighbours import MANY_ROWS, nearest_rows, search_approximately
from consilience.validation import one_of, whole

__all__ = ["Method", "NearestCodes", "Similarity", "nearest_neighbours"]

Similarity: TypeAlias = Literal["euclidean", "cosine", "absolute"]
Method: TypeAlias = Literal["auto", "exact", "approximate", "pynndescent"]

#: Candidates beyond k, for the final choice.
_SPARE = 6


class NearestCodes(NamedTuple):
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
) -> NearestCodes:
    """Find the k nearest codes of every row of ``queries``, or of every row of ``Z`` without itself.

    Parameters
    ----------
    Z
        Codes (N, n).
    k
        Neighbours.
    queries
        Other codes (Q, n); the search for them is always exact.
    similarity, method, random_state
        See :func:`~consilience.subspace.graph.neighbour_graph`.
    """
    codes = _codes(Z, similarity)
    N = len(codes)
    among = N if queries is not None else N - 1
    k = whole("k", k, among, f"for {N} codes")
    one_of("method", method, get_args(Method))
    asked = None if queries is None else _codes(queries, similarity)
    if asked is not None and asked.shape[1] != codes.shape[1]:
        raise DataError(f"queries have {asked.shape[1]} columns, the codes {codes.shape[1]}")
    absolute = similarity == "absolute"
    if not absolute:  # differences from the mean lose less to rounding
        middle = codes.mean(axis=0, dtype=np.float64).astype(codes.dtype)
        codes, asked = codes - middle, None if asked is None else asked - middle
    approximate = (
        asked is None
        and method != "exact"
        and (method != "auto" or N > MANY_ROWS)
        and search_approximately(N, required=method == "pynndescent")
    )
    candidates = nearest_rows(
        codes,
        min(k + _SPARE, among),
        asked,
        absolute=absolute,
        approximate=approximate,
        random_state=random_state,
    )
    return _nearest_of(codes, asked, candidates, k, absolute)


def _codes(Z: Any, similarity: str) -> Floats:
    """Check the codes; scale them to unit length unless the distance is Euclidean."""
    one_of("similarity", similarity, get_args(Similarity))
    codes: Any = np.asarray(Z)
    if codes.dtype != np.float32:
        codes = codes.astype(np.float64, copy=False)
    if codes.ndim != 2 or codes.shape[1] == 0:
        raise DataError(f"codes must be a matrix (N, n) with at least one column, not of shape {codes.shape}")
    if not np.isfinite(codes).all():
        raise DataError("codes must be finite; some are NaN or infinite")
    if similarity == "euclidean":
        plain: Floats = codes
        return plain
    # in double precision: squares of single precision leave its range
    length = np.sqrt(np.einsum("ij,ij->i", codes, codes, dtype=np.float64))[:, None]
    unit: Floats = np.divide(codes, np.where(length > 0, length, 1.0), out=np.empty_like(codes), casting="same_kind")
    return unit


def _nearest_of(codes: Floats, asked: Floats | None, candidates: Ints, k: int, absolute: bool) -> NearestCodes:
    """Choose the k nearest candidates by distances from differences, in the precision of the codes."""
    candidates = np.sort(candidates, axis=1)
    unwanted = np.zeros(candidates.shape, np.bool_)
    unwanted[:, 1:] = candidates[:, 1:] == candidates[:, :-1]
    if asked is None:
        unwanted |= candidates == np.arange(len(codes))[:, None]
        asked = codes
    Q, m = candidates.shape
    indices, distances = np.empty((Q, k), np.int64), np.empty((Q, k))

    def work(first: int, stop: int) -> None:
        near = codes[candidates[first:stop]]
        mine = asked[first:stop, None, :]
        if absolute:
            near *= np.where(np.einsum("qmj,qxj->qm", near, mine) < 0, -1, 1)[:, :, None].astype(near.dtype)
        near -= mine
        square = np.einsum("qmj,qmj->qm", near, near)
        square[unwanted[first:stop]] = np.inf
        order = np.argsort(square, axis=1, kind="stable")[:, :k]
        indices[first:stop] = np.take_along_axis(candidates[first:stop], order, axis=1)
        distances[first:stop] = np.sqrt(np.take_along_axis(square, order, axis=1))

    rows = max(1, (1 << 20) // max(1, m * codes.shape[1]))
    blocks.run(work, [(i, min(i + rows, Q)) for i in range(0, Q, rows)])
    return NearestCodes(indices, distances)
