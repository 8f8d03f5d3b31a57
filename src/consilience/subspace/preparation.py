r"""What is settled before samples are coded: fewer features, the size of the dictionary, and which λ may be taken.

All of it needs some samples only, or sums over blocks of samples, so that nodes which hold different samples agree.

====== ===================== ==================================================
symbol name                  shape
====== ===================== ==================================================
X      ``X``                 (N, D)
Ř      ``reduction``         (D, d), of Alg. 2.2
B      ``B``                 (n, D)
..     what ``gram_of`` gives (D, D), Xᵀ X
====== ===================== ==================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.exceptions import DataError
from consilience.kernels._arrays import Floats, Ints
from consilience.subspace.completion import filled, totals
from consilience.subspace.missing import fill
from consilience.subspace.sketches import Sketch, default_n_sketch

__all__ = ["gram_of", "reduced", "sketch_size", "some_rows", "sparse_lams"]

#: Samples by which n and λ are chosen.
_SOME = 4096
#: α of the λ that sparse codes may take.  The first is Elhamifar and Vidal's, for samples with little noise.
_ALPHAS = 800.0, 80.0, 20.0


def some_rows(N: int) -> Ints:
    """Say by which samples n and λ are chosen."""
    if N <= _SOME:
        return np.arange(N)
    return np.sort(np.random.default_rng(0).choice(N, _SOME, replace=False))


def reduced(X: Any, reduction: Sketch | None) -> Any:
    """Give X̌ = X Ř (Alg. 2.2, line 3), or X where there is no Ř."""
    if np.isinf(X).any():
        raise DataError("samples must not be infinite; NaN is for missing entries")
    if reduction is None:
        return X
    if np.isnan(X).any():
        raise DataError("features cannot be mixed where entries are missing; leave n_features out")
    return reduction.apply_right(X)


def sketch_size(X: Any) -> int:
    """Choose n from the numerical rank of some samples; zeros in their gaps would add to it."""
    sums, counts = totals(X)
    return default_n_sketch(filled(X, sums / np.maximum(counts, 1)))


def sparse_lams(X: Any, B: Floats) -> tuple[float, ...]:
    """Give the λ that ``"ssc"`` may take: α / μ of Elhamifar & Vidal (2013) for α = 800, 80 and 20.

    A large λ fits the noise too, and sparse codes of noise join anything with anything.  μ is that of samples ``X``
    scaled to one length, the median: of samples as they are, a single very short one would decide.
    """
    from consilience.subspace.lsr import default_lam

    X = fill(np.asarray(X, np.float64))
    length = np.linalg.norm(X, axis=1)
    there = length > 0
    if there.any():
        X = X[there] * (np.median(length[there]) / length[there])[:, None]
    largest = default_lam(X, B, _ALPHAS[0])
    return tuple(largest * alpha / _ALPHAS[0] for alpha in _ALPHAS)


def gram_of(X: Any) -> Floats:
    """Give Xᵀ X, missing entries being 0; it sums over blocks of samples."""
    X = fill(X).astype(np.float64, copy=False)
    gram: Floats = X.T @ X
    return gram
