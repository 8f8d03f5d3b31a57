"""The k nearest rows of a matrix: exactly by scikit-learn, or approximately by pynndescent where there are many."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from consilience.exceptions import EngineWarning, ParameterError, warn
from consilience.kernels._arrays import Ints

__all__ = ["MANY_ROWS", "nearest_rows", "search_approximately"]

#: Up to this many rows the exact search takes no longer than pynndescent, which compiles for half a minute.
MANY_ROWS = 50_000
_INSTALL = "pip install 'consilience[neighbours]'"


def search_approximately(n_rows: int, *, required: bool = False) -> bool:
    """Return whether pynndescent is installed; if not, warn where an exact search of ``n_rows`` rows takes long.

    With ``required`` its absence is a ParameterError.
    """
    try:
        import_module("pynndescent")
    except ImportError as error:
        if required:
            raise ParameterError(f"pynndescent is not installed: {_INSTALL}, or search exactly") from error
        if n_rows > MANY_ROWS:
            warn(
                f"the nearest neighbours of {n_rows} rows are searched exactly, in time of order N²; for an "
                f"approximate search: {_INSTALL}",
                EngineWarning,
            )
        return False
    return True


def nearest_rows(
    X: Any, k: int, queries: Any = None, *, absolute: bool = False, approximate: bool = False, random_state: int = 0
) -> Ints:
    """Return the k rows of ``X`` that are nearest to every row of ``queries``, or to every other row of ``X``.

    Parameters
    ----------
    X
        Rows (N, n), dense or scipy sparse.
    k
        Neighbours, fewer than N.
    queries
        Other rows (Q, n); only for the exact search.
    absolute
        For rows of unit length: compare by absolute inner product instead of Euclidean distance.
    approximate
        Use pynndescent; see :func:`search_approximately`.
    random_state
        Seed of the approximate search.

    Returns
    -------
    indices (Q, k).  An exact search with ``absolute`` returns (Q, 2 k): the nearest to a row, then those to its
    opposite, which may repeat.
    """
    if approximate:
        return _descent(X, k, absolute, random_state)
    from sklearn.neighbors import NearestNeighbors

    finder = NearestNeighbors(n_neighbors=k).fit(X)
    found = [finder.kneighbors(queries, return_distance=False)]
    if absolute:
        found.append(finder.kneighbors(-(X if queries is None else queries), return_distance=False))
    return np.concatenate(found, axis=1, dtype=np.int64)


def _descent(X: Any, k: int, absolute: bool, random_state: int) -> Ints:
    # squares stay within the range of single precision
    scale = 1.0 if absolute else float(np.abs(X).max(initial=0.0)) or 1.0
    index = import_module("pynndescent").NNDescent(
        (X / scale).astype(np.float32),
        metric=_compiled_metric() if absolute else "euclidean",
        n_neighbors=k + 1,
        tree_init=not absolute,  # its trees separate a row from its opposite, and half of the neighbours would be lost
        random_state=random_state,
    )
    indices: Ints = index.neighbor_graph[0].astype(np.int64)
    own = indices == np.arange(len(X))[:, None]
    own[~own.any(axis=1), -1] = True  # a row with many copies need not be in its own list
    others: Ints = indices[~own].reshape(len(X), k)
    return others


def _absolute(x: Any, y: Any) -> Any:
    inner = np.float32(0.0)
    for i in range(x.size):
        inner += x[i] * y[i]
    return np.float32(1.0) - abs(inner)


@lru_cache(maxsize=1)
def _compiled_metric() -> Any:
    import numba

    return numba.njit(_absolute, fastmath=True)
