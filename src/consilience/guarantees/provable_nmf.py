r"""The conditions of AND on the weights x of y = A x (Li & Liang 2017): GCC and order-q decay.

General correlation conditions (Definition 1): with :math:`\Delta = E[x x^\top]`,

.. math:: \|x\|_1 \le r, \quad x_i \in [0, 1], \quad \Delta_{ii} \le 2 k / D, \quad \Delta_{ij} \le m / D^2, \quad
          \Delta \succeq \lambda k / D .

Decay of order q (Definition 3): :math:`\Pr(x_i \le \alpha \mid x_i \ne 0) \le \alpha^q` for all α.  AND recovers A if
m is at most a constant times

.. math:: k\, D^{1 - 1/q}\, \lambda^{4 + 4/q} / r^{5 + 6 / (q + 1)}

(Theorem 4; with q = ∞, Theorem 1).  The constant is not known, so
:func:`recovery_condition` returns the ratio of the two sides: the smaller, the better.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from consilience.exceptions import DataError
from consilience.kernels._arrays import Floats

__all__ = ["Correlations", "correlations", "decay_order", "recovery_condition"]


#: Where the decay condition is checked.
_QUANTILES = np.arange(0.02, 0.985, 0.02)


class Correlations(NamedTuple):
    """The smallest r, k and m and the largest λ with which weights satisfy the GCC."""

    r: float  #: largest sum of the weights of a sample
    k: float  #: D / 2 times the largest E[x_i²]
    m: float  #: D² times the largest E[x_i x_j]
    lam: float  #: smallest eigenvalue of E[x xᵀ], times D / k
    D: int


def correlations(weights: Any) -> Correlations:
    """Return r, k, m, λ of samples of weights (N, D), each from 0 to 1; others are first divided by the largest."""
    X = _weights(weights)
    D = X.shape[1]
    second = X.T @ X / len(X)
    k = D / 2 * float(np.diag(second).max())
    apart = second[~np.eye(D, dtype=bool)]
    smallest = float(np.linalg.eigvalsh(second)[0])
    m = float(D**2 * apart.max(initial=0.0))
    return Correlations(float(X.sum(axis=1).max()), k, m, max(smallest, 0.0) * D / k if k else 0.0, D)


def decay_order(weights: Any) -> float:
    """Return the largest q of the decay condition; ∞ for weights of 0 and 1, and below 1 the theorems do not hold.

    The condition is checked at the quantiles 0.02 to 0.98 of the nonzero weights; a sample does not show the rest.
    """
    X = _weights(weights)
    q = np.inf
    for column in X.T:
        if not (positive := column[column > 0]).size:
            continue
        alpha = np.quantile(positive, _QUANTILES)
        inside = alpha < 1
        if inside.any():
            # Pr(x ≤ α) ≤ α^q  ⇔  q ≤ log Pr / log α, for α < 1
            q = min(q, float((np.log(_QUANTILES[inside]) / np.log(alpha[inside])).min()))
    return q


def recovery_condition(weights: Any) -> dict[str, float]:
    """Return r, k, m, lam, q and ``ratio``: m over its limit in Theorem 4, up to a constant; ∞ if λ is 0."""
    gcc, q = correlations(weights), decay_order(weights)
    limit = 0.0
    if q > 0 and gcc.lam > 0:
        inverse = 0.0 if np.isinf(q) else 1 / q
        limit = gcc.k * gcc.D ** (1 - inverse) * gcc.lam ** (4 + 4 * inverse)
        limit /= gcc.r ** (5 + (0.0 if np.isinf(q) else 6 / (q + 1)))
    found: dict[str, float] = {name: float(value) for name, value in gcc._asdict().items() if name != "D"}
    return {**found, "q": q, "ratio": gcc.m / limit if limit > 0 else np.inf}


def _weights(weights: Any) -> Floats:
    X = np.asarray(weights, np.float64)
    if X.ndim != 2 or not X.size or not np.isfinite(X).all() or X.min() < 0 or not X.max() > 0:
        raise DataError("weights must be a matrix (samples, D) of numbers ≥ 0, not all of them 0")
    scaled: Floats = X / X.max() if X.max() > 1 else X
    return scaled
