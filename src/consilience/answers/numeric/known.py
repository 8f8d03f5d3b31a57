r"""Known values: how the crowd errs as a whole, and how large the error of a value is.

With values t_n known for some items, and v_n the crowd's values of the same items without them,

    t_n  =  c + α + β (v_n - c) + e_n,      α ~ N(0, σ_α²),   β ~ N(1, σ_β²),   e_n ~ N(0, k d²),

where d is the standard deviation that the labels alone suggest (root mean square over the known items), and c the mean
of v over them.  k is the mean of squared residuals in units of d², with a few pseudo-observations at one.  All other
values are mapped to c + α + β (v - c).  Items do not count more where annotators agree: their values may be no nearer.
The priors of α and β - 1 may be zero, usual or wide, so that a few known values change nothing without evidence.

Least squares can move most values away from the truth to bring a few nearer.  So α and β - 1 are multiplied by

    γ  =  max(0, 1 - s² / g²)   if g > 0,   otherwise 0,

where g is the mean by which the map reduces the absolute errors of known values that it was learned without, and s the
standard error of that mean: what is not clearly an improvement is not applied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from consilience.answers.numeric.constants import BELIEF, CROWD_BIAS, CROWD_SCALE
from consilience.kernels._arrays import Floats

__all__ = ["Correction", "learn_correction"]

_STEPS = 10
#: Parts of the known values that are left out in turn; each on its own if there are no more.
_PARTS = 20
#: Variances of α and β - 1, as multiples of those of public sets (none, usual, and beyond all that was seen), and their
#: probabilities beforehand.  origin: by design; alternatives: none; sensitivity: little, as only clear improvements are
#: applied.
_WIDTHS = (0.0, 0.5), (1.0, 0.45), (100.0, 0.05)


@dataclass(frozen=True)
class Correction:
    """An affine map from the crowd's values to true ones, and how uncertain it is."""

    centre: float = 0.0  #: c
    bias: float = 0.0  #: α
    scale: float = 1.0  #: β
    covariance: tuple[float, float, float] = (0.0, 0.0, 0.0)  #: of α, β, and between them
    error: float = 1.0  #: k
    known: int = 0  #: how many values it rests on

    def __call__(self, value: Floats) -> Floats:
        """Return true values for values of the crowd."""
        return self.centre + self.bias + self.scale * (value - self.centre)

    def back(self, truth: Floats) -> Floats:
        """Return values of the crowd for true ones."""
        return self.centre + (truth - self.centre - self.bias) / self.scale

    def deviation(self, value: Floats, deviation: Floats) -> Floats:
        """Return the standard deviation of true values, given that of the crowd's values without known ones."""
        x = value - self.centre
        of_bias, of_scale, both = self.covariance
        found: Floats = np.sqrt(self.error * deviation**2 + of_bias + 2.0 * both * x + of_scale * x * x)
        return found


def learn_correction(value: Floats, deviation: Floats, known: Floats, noise: float) -> Correction:
    """Learn the map from known values, NaN where unknown; ``noise`` is the standard deviation of answers to an item."""
    there = np.isfinite(known) & np.isfinite(value)
    v, t = value[there], known[there]
    if not v.size:
        return Correction()
    d = max(float(np.sqrt((deviation[there] ** 2).mean())), 1e-9 * abs(noise), 1e-300)
    whole, share = _learn(v, t, d, noise), _clear_share(v, t, d, noise)
    return replace(whole, bias=share * whole.bias, scale=1.0 + share * (whole.scale - 1.0))


def _clear_share(v: Floats, t: Floats, d: float, noise: float) -> float:
    """Return γ: how much of the map clearly improves values that it was learned without."""
    n = v.size
    if n < 2:
        return 0.0
    # parts that do not depend on the order of items, or on the direction of the scale
    part = np.empty(n, np.int64)
    part[np.argsort(np.abs(v - np.median(v)), kind="stable")] = np.arange(n) % _PARTS
    gain = np.empty(n)
    for each in range(min(n, _PARTS)):
        out = part == each
        gain[out] = np.abs(t - v)[out] - np.abs(t[out] - _learn(v[~out], t[~out], d, noise)(v[out]))
    mean, squared_error = float(gain.mean()), float(gain.var(ddof=1)) / n
    return max(0.0, 1.0 - squared_error / mean**2) if mean > 0.0 else 0.0


def _learn(v: Floats, t: Floats, d: float, noise: float) -> Correction:
    """Learn the map from values of the crowd and true ones."""
    centre = float(v.mean())
    X, residual = np.stack([np.ones(v.size), v - centre], axis=1), t - v
    slabs = max((CROWD_BIAS * noise) ** 2, 1e-300), CROWD_SCALE**2
    # average over how large α and β - 1 may be, by the probability of the known values under each prior
    priors = [(a * slabs[0], b * slabs[1], p * q) for a, p in _WIDTHS for b, q in _WIDTHS]
    found = [_solve(X, residual, d, (a, b)) for a, b, _ in priors]
    log_evidence = np.array([each.log_evidence + np.log(p) for each, (_, _, p) in zip(found, priors, strict=True)])
    share = np.exp(log_evidence - log_evidence.max())
    share /= share.sum()
    mean = sum(s * each.mean for s, each in zip(share, found, strict=True))
    k = sum(float(s) * each.k for s, each in zip(share, found, strict=True))
    covariance = sum(
        s * (each.covariance + np.outer(each.mean - mean, each.mean - mean))
        for s, each in zip(share, found, strict=True)
    )
    scale = max(1.0 + float(mean[1]), 0.1)  # the crowd is never turned around: known values would be wrong then
    entries = float(covariance[0, 0]), float(covariance[1, 1]), float(covariance[0, 1])
    return Correction(centre, float(mean[0]), scale, entries, k, int(v.size))


class _Solved(NamedTuple):
    """The coefficients under one prior."""

    mean: Floats  #: α, β - 1
    covariance: Floats
    k: float
    log_evidence: float


def _solve(X: Floats, y: Floats, d: float, prior: tuple[float, float]) -> _Solved:
    """Return coefficients, the size of errors, and the log-probability of y ~ N(0, k d² I + X P X')."""
    n, k = y.size, 1.0
    for _ in range(_STEPS):
        mean, covariance = _regress(X, y, k * d**2, prior)
        squares = float(((y - X @ mean) ** 2).sum() + ((X @ covariance) * X).sum())
        k = (squares / d**2 + BELIEF) / (n + BELIEF)
    mean, covariance = _regress(X, y, k * d**2, prior)
    determinant = float(np.linalg.slogdet(np.eye(2) + X.T @ X @ np.diag(prior) / (k * d**2))[1])
    quadratic = float(y @ (y - X @ mean)) / (k * d**2)
    log_evidence = -0.5 * (quadratic + determinant + (n + BELIEF) * np.log(k) + BELIEF / k)
    return _Solved(mean, covariance, k, log_evidence)


def _regress(X: Floats, y: Floats, variance: float, prior: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return mean and covariance of the coefficients, which are zero where their prior variance is."""
    P = np.diag(prior)
    # (X'X / σ² + P⁻¹)⁻¹ = P (X'X P / σ² + I)⁻¹, which also holds where P is singular
    covariance = P @ np.linalg.inv(X.T @ X @ P / variance + np.eye(2))
    return covariance @ (X.T @ y) / variance, covariance
