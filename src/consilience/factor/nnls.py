"""Nonnegative least squares for many right-hand sides: X = argmin ‖B X - C‖² subject to X ≥ 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels._arrays import Floats

__all__ = ["nonnegative_least_squares"]


def nonnegative_least_squares(B: Floats, C: Any) -> Floats:
    """Return X, (D, n), for B (W, D) and C (W, n), an array or SciPy sparse."""
    from scipy.optimize import nnls

    # R of B = Q R gives the same residuals up to a constant, with only D rows
    Q, R = np.linalg.qr(B)
    X = np.zeros((B.shape[1], C.shape[1]))
    for n, column in enumerate(np.asarray(Q.T @ C, np.float64).T if X.size else ()):
        X[:, n] = nnls(R, column)[0]
    return X
