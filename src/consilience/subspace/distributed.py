"""Samples in a Dask array whose chunks lie on many workers (thesis, Alg. 2.4).

=== ============================================================================== ===============================
..  at each node ℓ                                                                 what travels
=== ============================================================================== ===============================
1   its rows R_ℓ of the sketch, from the common seed; B_ℓ = R_ℓᵀ X_ℓ               (n, D) per chunk
2   B = Σ B_ℓ, (2.23)                                                              (n, D) to all
3   the codes Z_ℓ of its samples, (2.24)                                           (N_ℓ, min(n, D)) to the client
=== ============================================================================== ===============================

Sparse codes are (N_ℓ, n).  Graph, eigenvectors and k-means need Z only, at the client.  Tasks receive what they need,
never the model.  For LRR the D × D Gram matrices are summed too (:mod:`consilience.subspace.encoding`).
Sub-dictionaries are added in the order of chunks, so results do not depend on which worker finishes first; they equal
those of the local run up to rounding of that sum.

Dask is optional: ``pip install consilience[dask]``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from importlib import import_module
from itertools import accumulate
from operator import add
from typing import Any

import numpy as np

from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.subspace.completion import totals
from consilience.subspace.encoding import Encoder
from consilience.subspace.preparation import FeatureMap, gram_of, reduced, some_rows
from consilience.subspace.sketches import Sketch

__all__ = ["ChunkedSamples", "check_chunks", "predict_chunks"]


def check_chunks(X: Any, *, fit: bool = False) -> None:
    """Raise unless ``X`` is a Dask array (N, D) of numbers with known chunks, large enough for a ``fit``."""
    try:
        array: Any = import_module("dask.array")
    except ImportError as error:
        raise ParameterError("distributed runs need Dask: pip install consilience[dask]") from error
    if not isinstance(X, array.Array) or X.ndim != 2:
        raise DataError(
            f"a Dask array (N, D) is needed, not {type(X).__name__} of shape {getattr(X, 'shape', '?')}; make one with "
            "dask.array.from_array, or from a Dask frame with to_dask_array(lengths=True)"
        )
    if X.dtype.kind not in "biuf":
        raise DataError(f"samples must be numbers, not of type {X.dtype}")
    if any(np.isnan(rows) for rows in X.chunks[0]):
        raise DataError("the sizes of the chunks are not known; call X.compute_chunk_sizes() first")
    if fit and (X.shape[0] < 2 or X.shape[1] < 1):
        raise DataError(f"a fit needs at least 2 samples and 1 feature, not shape {X.shape}")


class ChunkedSamples:
    """Samples in a checked Dask array; :class:`consilience.subspace.preparation.LocalSamples` has the same methods."""

    def __init__(self, X: Any, *maps: FeatureMap | None) -> None:
        self._dask: Any = import_module("dask")
        self._sizes: tuple[int, ...] = X.chunks[0]
        # What tasks share is a node of its own: it is sent once, not with each chunk.
        shared = [self._dask.delayed(step, traverse=False) for step in maps]
        self._parts = [self._dask.delayed(_samples)(chunk, *shared) for chunk in _blocks(X)]
        if _has_workers():
            self._parts = list(self._dask.persist(*self._parts))

    def some(self) -> Any:
        """Return the samples by which n and λ are chosen."""
        return self.take(some_rows(sum(self._sizes)))

    def take(self, rows: Ints) -> Any:
        """Return these samples; ``rows`` ascend."""
        starts = np.cumsum((0, *self._sizes))
        cuts = np.split(rows, np.searchsorted(rows, starts[1:-1]))
        wanted = [(part, cut - start) for part, cut, start in zip(self._parts, cuts, starts[:-1], strict=True)]
        jobs = [self._dask.delayed(_take)(part, cut) for part, cut in wanted if cut.size]
        return np.concatenate(self._dask.compute(*jobs))

    def totals(self) -> Floats:
        """Return the sums and numbers of observed entries, (2, D)."""
        counted: Floats = reduce(add, self._each(totals))
        return counted

    def sketched(self, sketch: Sketch, fill: Callable[[Any], Any]) -> Any:
        """Return Rᵀ X after filling the gaps (2.23)."""
        shared = [self._dask.delayed(each, traverse=False) for each in (sketch, fill)]
        starts = [0, *accumulate(self._sizes)][:-1]
        job = self._dask.delayed(_subdictionary)
        jobs = [job(part, start, *shared) for part, start in zip(self._parts, starts, strict=True)]
        return reduce(add, self._dask.compute(*jobs))

    def gram(self) -> Floats:
        """Return Xᵀ X."""
        summed: Floats = reduce(add, self._each(gram_of))
        return summed

    def codes(self, encoder: Encoder) -> tuple[Any, int]:
        """Return the codes of all samples, and the steps of the solver."""
        done = self._each(_codes, self._dask.delayed(encoder, traverse=False))
        return np.concatenate([codes for codes, _ in done]), max(steps for _, steps in done)

    def _each(self, function: Callable[..., Any], *shared: Any) -> Any:
        return self._dask.compute(*(self._dask.delayed(function)(part, *shared) for part in self._parts))


def predict_chunks(X: Any, function: Callable[..., Ints], *shared: Any) -> Any:
    """Return function(samples, *shared), the clusters of a checked Dask array ``X`` (N, D), as a lazy Dask array."""
    dask: Any = import_module("dask")
    da: Any = import_module("dask.array")
    sent = [dask.delayed(each, traverse=False) for each in shared]
    return da.concatenate(
        [
            da.from_delayed(dask.delayed(_predicted)(chunk, function, *sent), (rows,), np.int64)
            for chunk, rows in zip(_blocks(X), X.chunks[0], strict=True)
        ]
    )


def _blocks(X: Any) -> list[Any]:
    """Return one delayed block of samples per chunk, with all features."""
    blocks: list[Any] = X.rechunk({1: -1}).to_delayed().ravel().tolist()
    return blocks


def _has_workers() -> bool:
    """Return whether workers keep chunks; the local schedulers would read them into this process."""
    try:
        distributed: Any = import_module("distributed")
        distributed.default_client()
    except (ImportError, ValueError):
        return False
    return True


def _samples(chunk: Any, *maps: FeatureMap | None) -> Any:
    if hasattr(chunk, "tocsr"):
        raise DataError("chunks of samples must be dense arrays; convert them with X.map_blocks(lambda c: c.toarray())")
    chunk = np.asarray(chunk)
    if chunk.dtype not in (np.float32, np.float64):
        chunk = chunk.astype(np.float64)
    return reduced(chunk, *maps)


def _take(part: Any, rows: Ints) -> Any:
    return part[rows]


def _subdictionary(part: Any, start: int, sketch: Sketch, fill: Callable[[Any], Any]) -> Any:
    return sketch.apply_block(fill(part), start)


def _codes(part: Any, encoder: Encoder) -> tuple[Any, int]:
    return encoder.encode_counting(part)


def _predicted(chunk: Any, function: Callable[..., Ints], *shared: Any) -> Ints:
    return function(_samples(chunk), *shared)
