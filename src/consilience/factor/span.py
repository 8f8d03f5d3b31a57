"""The subspace that holds all samples and features, if its dimension is small."""

from __future__ import annotations

import numpy as np

from consilience.kernels._arrays import Floats

__all__ = ["ROUNDING", "joint_span", "unit_columns"]

#: Singular values below this share of the largest are rounding.
_RANK = 1e-12
#: A squared residual below this share of the data's is rounding, not noise.
ROUNDING = 1e-13


def joint_span(rows: Floats, A: Floats, square: float) -> Floats | None:
    """Return an orthonormal basis, (W, r), of the span of samples and features; None if 2 r > W or r < D.

    The span of the samples (n, W) is that of D + 10 random mixtures of them, unless it has more dimensions: then some
    of their energy, ``square``, lies outside.
    """
    n, W = rows.shape
    D = A.shape[1]
    if 2 * (D + 10) > W:
        return None
    mixtures = rows.T @ np.random.default_rng(0).standard_normal((n, D + 10))
    basis = _directions(mixtures)
    outside = unit_columns(A)
    for _ in range(2):  # the second time removes rounding errors
        outside = outside - basis @ (basis.T @ outside)
    # directions of the features that are not rounding beside unit columns
    basis = np.column_stack([basis, _directions(outside, 1.0)])
    if not D <= basis.shape[1] <= W // 2:
        return None
    inside = rows @ basis
    return basis if square - float(np.vdot(inside, inside)) <= ROUNDING * square else None


def unit_columns(A: Floats) -> Floats:
    """Return the columns divided by their lengths; zero columns stay zero."""
    length = np.linalg.norm(A, axis=0)
    return A / np.where(length > 0, length, 1.0)


def _directions(columns: Floats, scale: float | None = None) -> Floats:
    """Return left singular vectors whose values are not rounding beside ``scale``, by default the largest."""
    U, s, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(U[:, s > _RANK * max(scale or s[0], 1e-300)], np.float64)
