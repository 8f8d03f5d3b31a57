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
from typing import Any

import numpy as np

from consilience.exceptions import DataError
from consilience.kernels._arrays import Floats, Ints
from consilience.subspace.completion import filled, totals
from consilience.subspace.encoding import Encoder
from consilience.subspace.lsr import default_lam
from consilience.subspace.missing import fill
from consilience.subspace.sketches import Sketch, default_n_sketch

__all__ = ["LocalSamples", "gram_of", "reduced", "sketch_size", "some_rows", "sparse_lams"]

#: Samples by which n and λ are chosen.
_SOME = 4096
#: α of the candidate λ of sparse codes.  The first is Elhamifar and Vidal's, for samples with little noise.
_ALPHAS = 800.0, 80.0, 20.0


def some_rows(N: int) -> Ints:
    """Return the indices of the samples by which n and λ are chosen."""
    if N <= _SOME:
        return np.arange(N)
    return np.sort(np.random.default_rng(0).choice(N, _SOME, replace=False))


def reduced(X: Any, reduction: Sketch | None) -> Any:
    """Return X̌ = X Ř (Alg. 2.2, line 3), or X without Ř."""
    if np.isinf(X).any():
        raise DataError("samples must not be infinite; NaN is for missing entries")
    if reduction is None:
        return X
    if np.isnan(X).any():
        raise DataError("features cannot be mixed where entries are missing; leave n_features out")
    return reduction.apply_right(X)


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
    X = fill(X).astype(np.float64, copy=False)
    gram: Floats = X.T @ X
    return gram


class LocalSamples:
    """Samples in memory; :class:`consilience.subspace.distributed.ChunkedSamples` has the same methods."""

    def __init__(self, X: Any, reduction: Sketch | None) -> None:
        self._X = reduced(X, reduction)

    def some(self) -> Any:
        """Return the samples by which n and λ are chosen."""
        return self._X[some_rows(len(self._X))]

    def totals(self) -> Floats:
        """Return the sums and numbers of observed entries, (2, D)."""
        return totals(self._X)

    def sketched(self, sketch: Sketch, fill: Callable[[Any], Any]) -> Any:
        """Return Rᵀ X after filling the gaps."""
        return sketch.apply(fill(self._X))

    def gram(self) -> Floats:
        """Return Xᵀ X."""
        return gram_of(self._X)

    def codes(self, encoder: Encoder) -> tuple[Any, int]:
        """Return the codes of all samples, and the steps of the solver."""
        return encoder.encode_counting(self._X)
