"""Sketched subspace clustering of a Dask array whose chunks of samples live on many workers (thesis, Alg. 2.4).

=== ============================================================================== ===============================
..  at each node ℓ                                                                 what travels
=== ============================================================================== ===============================
1   its rows R_ℓ of the sketch, from the common seed and its place; B_ℓ = R_ℓᵀ X_ℓ (n, D) per chunk
2   B = Σ B_ℓ, (2.23)                                                              (n, D) to all
3   the codes Z_ℓ of its samples, (2.24)                                           (N_ℓ, min(n, D)) to the client
=== ============================================================================== ===============================

Sparse codes are (N_ℓ, n).  The graph, the eigenvectors and k-means then see Z alone, at the client.  Tasks are given
what they need and never the model.  For LRR the D × D Gram matrices are summed likewise
(:mod:`consilience.subspace.encoding`).  Sub-dictionaries are added in the order of chunks, so results do not depend on
which worker is done first; they are those of the local run but for rounding of that sum.

Dask is optional: ``pip install consilience[dask]``.
"""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from itertools import accumulate
from operator import add
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import validate_data

from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Ints
from consilience.subspace.clustering import SketchedSubspaceClustering
from consilience.subspace.completion import dictionary_of, totals
from consilience.subspace.encoding import Encoder
from consilience.subspace.graph_clusters import tell, vote
from consilience.subspace.neighbours import Similarity
from consilience.subspace.preparation import gram_of, reduced, sketch_size, some_rows
from consilience.subspace.sketches import Sketch

__all__ = ["fit_distributed", "predict_distributed"]

Model = TypeVar("Model", bound=SketchedSubspaceClustering)


def fit_distributed(model: Model, X: Any) -> Model:
    """Fit ``model`` to a Dask array ``X`` (N, D), chunked along samples, where its chunks live; give the model.

    It is what ``model.fit`` does with a Dask array.  Labels are those of the whole array for the same ``random_state``.

    Examples
    --------
    >>> import dask.array as da
    >>> from consilience.datasets.subspaces import simulate_subspaces
    >>> from consilience.subspace.clustering import SketchedSubspaceClustering
    >>> X = simulate_subspaces(300, 30, 3, 4, noise=0.1).data
    >>> model = SketchedSubspaceClustering(3).fit(da.from_array(X, chunks=(100, -1)))
    >>> (model.labels_ == SketchedSubspaceClustering(3).fit(X).labels_).all()
    np.True_
    """
    dask, chunks = _chunks(X)
    N, D = X.shape
    if N < 2 or D < 1:
        raise DataError(f"a fit needs at least 2 samples and 1 feature; came shape {X.shape}")
    validate_data(model, X, skip_check_array=True)  # sets n_features_in_ and forgets names of features
    seed = model._prepare(N, D)
    tell(model.callback, "sketch")
    # What tasks share is a node of its own: it is sent once, not with each chunk.  No task is given the model.
    reduction = dask.delayed(model._reduction_, traverse=False)
    parts = [dask.delayed(_samples)(chunk, reduction) for chunk in chunks]
    if _cluster_is_there():
        parts = list(dask.persist(*parts))
    some = _rows(dask, parts, X.chunks[0], some_rows(N))
    if model.n_sketch is None:
        model.n_sketch_ = sketch_size(some)
    sketch = dask.delayed(model._sketch(N, seed), traverse=False)
    starts = [0, *accumulate(X.chunks[0])][:-1]

    def sketched(fill: Any) -> Any:  # (2.23)
        fill = dask.delayed(fill, traverse=False)
        jobs = [
            dask.delayed(_subdictionary)(sketch, part, start, fill) for part, start in zip(parts, starts, strict=True)
        ]
        return reduce(add, dask.compute(*jobs))

    counted = reduce(add, dask.compute(*(dask.delayed(totals)(part) for part in parts)))
    B = dictionary_of(sketched, counted, some, N)
    tell(model.callback, "codes")
    gram = None
    if model.representation == "lrr":
        gram = reduce(add, dask.compute(*(dask.delayed(gram_of)(part) for part in parts)))
    model._encoder_ = model._make_encoder(B, gram, some, seed)
    encoder = dask.delayed(model._encoder_, traverse=False)
    done = dask.compute(*(dask.delayed(_codes)(encoder, part) for part in parts))
    model.n_iter_ = max(steps for _, steps in done)
    model._cluster(np.concatenate([codes for codes, _ in done]), seed)
    return model


def predict_distributed(model: SketchedSubspaceClustering, X: Any) -> Any:
    """Give the clusters of a Dask array ``X`` (N, D) as a lazy Dask array (N,)."""
    dask, chunks = _chunks(X)
    validate_data(model, X, skip_check_array=True, reset=False)
    da = dask.array
    needed = model._reduction_, model._encoder_, model.codes_, model.labels_
    shared = [dask.delayed(each, traverse=False) for each in needed]
    how = model.n_neighbors_, model._similarity_
    return da.concatenate(
        [
            da.from_delayed(dask.delayed(_predicted)(chunk, *shared, *how), (rows,), np.int64)
            for chunk, rows in zip(chunks, X.chunks[0], strict=True)
        ]
    )


def _chunks(X: Any) -> tuple[Any, list[Any]]:
    """Check that X is a Dask array chunked along samples; give dask, and one delayed block of samples per chunk."""
    try:
        dask: Any = import_module("dask")
        import_module("dask.array")
    except ImportError as error:
        raise ParameterError("distributed runs need Dask: pip install consilience[dask]") from error
    if not isinstance(X, dask.array.Array) or X.ndim != 2:
        raise DataError(
            f"a Dask array (N, D) is needed, not {type(X).__name__} of shape {getattr(X, 'shape', '?')}; make one with "
            "dask.array.from_array, or of a Dask frame with to_dask_array(lengths=True)"
        )
    if X.dtype.kind not in "biuf":
        raise DataError(f"samples are numbers, not of type {X.dtype}")
    if any(np.isnan(rows) for rows in X.chunks[0]):
        raise DataError("the sizes of the chunks are not known; call X.compute_chunk_sizes() first")
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    return dask, X.to_delayed().ravel().tolist()


def _cluster_is_there() -> bool:
    """Say whether there are workers that keep chunks; the local schedulers would read them into this process."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        return False
    try:
        distributed.default_client()
    except ValueError:
        return False
    return True


def _samples(chunk: Any, reduction: Sketch | None) -> Any:
    if hasattr(chunk, "tocsr"):
        raise DataError("chunks of samples must be dense arrays; make them so with X.map_blocks(lambda c: c.toarray())")
    chunk = np.asarray(chunk)
    if chunk.dtype not in (np.float32, np.float64):
        chunk = chunk.astype(np.float64)
    return reduced(chunk, reduction)


def _rows(dask: Any, parts: list[Any], sizes: tuple[int, ...], rows: Ints) -> Any:
    """Gather some samples."""
    starts = np.cumsum((0, *sizes))
    cuts = np.split(rows, np.searchsorted(rows, starts[1:-1]))
    jobs = [dask.delayed(_take)(p, c - s) for p, c, s in zip(parts, cuts, starts[:-1], strict=True) if c.size]
    return np.concatenate(dask.compute(*jobs))


def _take(part: Any, rows: Ints) -> Any:
    return part[rows]


def _subdictionary(sketch: Any, part: Any, start: int, fill: Any) -> Any:
    return sketch.apply_block(fill(part), start)


def _codes(encoder: Any, part: Any) -> Any:
    return encoder.encode_counting(part)


def _predicted(
    chunk: Any, reduction: Sketch | None, encoder: Encoder, codes: Any, labels: Ints, k: int, similarity: Similarity
) -> Ints:
    return vote(encoder.encode(_samples(chunk, reduction)), codes, labels, k, similarity)
