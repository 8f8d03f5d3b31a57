"""Projection onto the probability simplex.

    P(v) = argmin ‖x - v‖²  s.t.  x ≥ 0, Σ x = 1        is        x = max(v - θ, 0),

with the one θ that makes the sum one.  Of the sorted entries u_1 ≥ u_2 ≥ … some ρ stay above zero, and then
θ = (u_1 + … + u_ρ - 1) / ρ; any other number of them gives a smaller one, so θ is the largest.

J. Duchi, S. Shalev-Shwartz, Y. Singer and T. Chandra, "Efficient projections onto the l1-ball for learning in high
dimensions", ICML 2008.
"""

from __future__ import annotations

import numpy as np

from consilience.kernels._arrays import Floats

__all__ = ["project_to_simplex"]


def project_to_simplex(values: Floats, axis: int = -1) -> Floats:
    """Give the nearest probabilities along ``axis``, for all vectors of an array at once."""
    v = np.asarray(values, np.float64)
    n = v.shape[axis]
    if n == 2:  # most crowds are binary
        theta = np.maximum(v.max(axis, keepdims=True) - 1.0, 0.5 * (v.sum(axis, keepdims=True) - 1.0))
    else:
        counts = np.arange(1.0, n + 1.0)
        counts.shape = [-1 if d == axis % v.ndim else 1 for d in range(v.ndim)]
        falling = -np.sort(-v, axis)
        theta = ((falling.cumsum(axis) - 1.0) / counts).max(axis, keepdims=True)
    projected: Floats = np.maximum(v - theta, 0.0)
    return projected
