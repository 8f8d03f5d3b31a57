r"""What precedes the codes: reduced features, the size of the dictionary, candidate values of λ, sums over samples.

All of it needs some samples only, or sums over blocks of samples, so that nodes with different samples agree.

====== ===================== ==================================================
symbol name                  shape
====== ===================== ==================================================
X      ``X``                 (N, D)
Ř      ``reduction``         (D, d), of Alg. 2.2
B      ``B``                 (n, D)
..     ``gram_of(X)``        (D, D), Xᵀ X
====== ===================== ==================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from consilience.exceptions import DataError
from consilience.kernels._arrays import Floats, Ints
from consilience.subspace.completion import filled, totals
from consilience.subspace.encoding import Encoder
from consilience.subspace.lsr import default_lam
from consilience.subspace.missing import fill
from consilience.subspace.sketches import Sketch, default_n_sketch

__all__ = ["FeatureMap", "LocalSamples", "flattened", "gram_of", "reduced", "sketch_size", "some_rows", "sparse_lams"]

#: Samples by which n and λ are chosen.
_SOME = 4096
#: Entries of sparse samples that are made dense for it.
_DENSE = 1 << 25
#: α of the candidate λ of sparse codes.  The first is Elhamifar and Vidal's, for samples with little noise.
_ALPHAS = 800.0, 80.0, 20.0


def some_rows(N: int, most: int = _SOME) -> Ints:
    """Return the indices of the samples by which n and λ are chosen."""
    if most >= N:
        return np.arange(N)
    return np.sort(np.random.default_rng(0).choice(N, most, replace=False))


class FeatureMap(Protocol):
    """What turns samples (N, D) into fewer or other features: a sketch, a kernel, or one after the other."""

    def apply_right(self, X: Any) -> Any:
        """Return the new features."""


def flattened(X: Any) -> tuple[Any, tuple[int, ...]]:
    """Return samples as rows, and the shape of one of them: tensors (N, D1, D2, …) become (N, D1 D2 …)."""
    shape = X.shape if hasattr(X, "shape") else np.shape(X)
    if len(shape) > 2:
        X = np.asarray(X).reshape(shape[0], -1)
    return X, tuple(shape[1:])


def reduced(X: Any, *maps: FeatureMap | None) -> Any:
    """Return X̌ = X Ř (Alg. 2.2, line 3), and then the features of a kernel; X without either."""
    values = X.data if hasattr(X, "tocsr") else X
    if np.isinf(values).any():
        raise DataError("samples must not be infinite; NaN is for missing entries")
    steps = [step for step in maps if step is not None]
    if steps and np.isnan(values).any():
        raise DataError("features cannot be mixed where entries are missing; leave n_features and kernel out")
    for step in steps:
        X = step.apply_right(X)
    return X


def sketch_size(X: Any) -> int:
    """Choose n from the numerical rank of some samples, with means in their gaps: zeros would add to the rank."""
    sums, counts = totals(X)
    return default_n_sketch(filled(X, sums / np.maximum(counts, 1)))


def sparse_lams(X: Any, B: Floats) -> tuple[float, ...]:
    """Return the candidate λ of ``"ssc"``: α / μ of Elhamifar & Vidal (2013) for α = 800, 80 and 20.

    A large λ fits the noise too, and sparse codes of noise join unrelated samples.  μ is that of samples ``X`` scaled
    to their median length: otherwise a single very short sample would determine it.
    """
    X = fill(np.asarray(X, np.float64))
    length = np.linalg.norm(X, axis=1)
    there = length > 0
    if there.any():
        X = X[there] * (np.median(length[there]) / length[there])[:, None]
    largest = default_lam(X, B, _ALPHAS[0])
    return tuple(largest * alpha / _ALPHAS[0] for alpha in _ALPHAS)


def gram_of(X: Any) -> Floats:
    """Return Xᵀ X, missing entries being 0; it adds up over blocks of samples."""
    if hasattr(X, "tocsr"):
        return np.asarray((X.T @ X).toarray(), np.float64)
    X = fill(X).astype(np.float64, copy=False)
    gram: Floats = X.T @ X
    return gram


class LocalSamples:
    """Samples in memory; :class:`consilience.subspace.distributed.ChunkedSamples` has the same methods."""

    def __init__(self, X: Any, *maps: FeatureMap | None) -> None:
        self._X = reduced(X, *maps)

    def some(self) -> Any:
        """Return the samples by which n and λ are chosen."""
        N, D = self._X.shape
        sparse = hasattr(self._X, "tocsr")
        return self.take(some_rows(N, max(min(_SOME, _DENSE // D), 2) if sparse else _SOME))

    def take(self, rows: Ints) -> Any:
        """Return these samples, as a dense array."""
        part = self._X[rows]
        return part.toarray() if hasattr(part, "toarray") else part

    def all(self) -> Any:
        """Return all samples."""
        return self._X

    def totals(self) -> Floats:
        """Return the sums and numbers of observed entries, (2, D)."""
        if hasattr(self._X, "tocsr"):  # what is not stored is 0, not missing
            N, D = self._X.shape
            return np.stack([np.asarray(self._X.sum(axis=0, dtype=np.float64)).ravel(), np.full(D, float(N))])
        return totals(self._X)

    def sketched(self, sketch: Sketch, fill: Callable[[Any], Any]) -> Any:
        """Return Rᵀ X after filling the gaps."""
        return sketch.apply(self._X if hasattr(self._X, "tocsr") else fill(self._X))

    def gram(self) -> Floats:
        """Return Xᵀ X."""
        return gram_of(self._X)

    def codes(self, encoder: Encoder) -> tuple[Any, int]:
        """Return the codes of all samples, and the steps of the solver."""
        return encoder.encode_counting(self._X)
