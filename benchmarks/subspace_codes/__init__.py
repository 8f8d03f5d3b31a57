"""Batch self-representations by public peers of the sketched methods: SSC-OMP and elastic nets, to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Floats, Ints

__all__ = ["HELD", "chosen_rows", "samples"]

#: Correlations in memory at once, as a number of doubles.
HELD = 1 << 23


def samples(X: Any, *, normalize: bool) -> Floats:
    """Return the samples as finite doubles in rows, scaled to length one where asked (rows of zeros stay)."""
    rows: Floats = np.ascontiguousarray(X, np.float64)
    if rows.ndim != 2 or rows.shape[0] < 2 or not rows.shape[1]:
        raise DataError(f"samples must be a matrix (N ≥ 2, D ≥ 1), not of shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise DataError("samples have entries that are NaN or infinite; fill them in, or use the sketched methods")
    if normalize:
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(length > 0, length, 1.0)
    return rows


def chosen_rows(rows: Any, n_samples: int) -> Ints:
    """Return the indices of the samples that ``rows`` selects: indices, a mask of all samples, or None for all."""
    if rows is None:
        return np.arange(n_samples)
    chosen: Any = np.asarray(rows)
    if chosen.dtype == np.bool_ and chosen.shape == (n_samples,):
        return np.flatnonzero(chosen)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise ParameterError(f"rows must be indices of samples or a mask of all {n_samples}, not {rows!r}")
    if chosen.size and not 0 <= int(chosen.min()) <= int(chosen.max()) < n_samples:
        raise ParameterError(f"rows must be indices from 0 to {n_samples - 1}, not {rows!r}")
    numbers: Ints = chosen.astype(np.int64)
    return numbers
