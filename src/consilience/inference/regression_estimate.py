"""The mean of y over all items, from y on a sample and predictors on all items: a regression estimate.

With x_n the predictors of item n (with a constant), b the least-squares coefficients on the n_s sampled items, and
e = y - x b the residuals,

    θ  =  (1/N) Σ_all x_n b  +  Σ_h (N_h / N) (1/n_h) Σ_{sampled in h} e_n,

where h are the strata, if the sample was drawn from strata.  This is prediction-powered inference with the power tuned
(Angelopoulos, Duchi & Zrnic 2023: b is their λ for several predictors at once), and in survey sampling the generalised
regression estimate (Särndal, Swensson & Wretman 1992): its interval is valid however bad the predictors are, and is
never much wider than that of the sample alone.  The variance is

    Σ_h (N_h / N)² s²_h / n_h  +  s²(x b) / N,

with residuals e_n / √(1 - leverage), which are as large as those of new items (MacKinnon & White 1985).
If items come in clusters (several answers to one prompt), sums over clusters take the place of items.

A. N. Angelopoulos, J. C. Duchi and T. Zrnic, "PPI++: efficient prediction-powered inference" (2023).
J. G. MacKinnon and H. White, "Some heteroskedasticity-consistent covariance matrix estimators" (1985).
C.-E. Särndal, B. Swensson and J. Wretman, "Model assisted survey sampling" (1992), chapter 6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.kernels._arrays import Floats, Ints

__all__ = ["Fitted", "MeanEstimate", "fit_predictors", "mean_estimate", "sample_mean"]

#: Largest leverage of one known answer: beyond it, the residual is a division by nearly nothing.
_MOST_LEVERAGE = 0.9


class MeanEstimate(NamedTuple):
    """A mean with its interval."""

    value: float
    low: float
    high: float
    error: float  #: standard error
    known: int  #: known answers


class Fitted(NamedTuple):
    """Predictions of all items, and residuals of the sampled ones."""

    predicted: Floats  #: (N,)
    residual: Floats  #: as large as those of new items, (n_s,)
    coefficients: int


def fit_predictors(y: Floats, sample: Ints, predictors: Floats) -> Fitted:
    """Fit y of the sampled items by least squares; ``predictors`` are (N, d), those of the sample did not see y."""
    X = np.column_stack([np.ones(len(predictors)), predictors])
    some = X[sample]
    inverse = np.linalg.pinv(some.T @ some, hermitian=True)
    b = inverse @ (some.T @ y)
    leverage = np.einsum("ij,jk,ik->i", some, inverse, some)
    residual = (y - some @ b) / np.sqrt(1.0 - np.minimum(leverage, _MOST_LEVERAGE))
    return Fitted(X @ b, residual, int(np.linalg.matrix_rank(some)))


def mean_estimate(
    fitted: Fitted,
    sample: Ints,
    within: Ints,
    level: float,
    *,
    strata: Ints | None = None,
    clusters: Ints | None = None,
) -> MeanEstimate | None:
    """Return the mean over the items ``within``, or None if too few of these are in the sample.

    Strata and clusters are codes of all items, (N,).
    """
    inside = np.zeros(fitted.predicted.size, bool)
    inside[within] = True
    mine = np.flatnonzero(inside[sample])
    predicted, residual = fitted.predicted[within], fitted.residual[mine]
    stratum = np.zeros(inside.size, np.int64) if strata is None else strata
    units = np.arange(inside.size) if clusters is None else clusters
    value, variance, freedom = float(predicted.mean()), _variance_of_mean(predicted, units[within])[0], 0
    of_sample = stratum[sample[mine]]
    for h in np.unique(stratum[within]):
        here = of_sample == h
        share = float((stratum[within] == h).mean())
        spread, n_units = _variance_of_mean(residual[here], units[sample[mine[here]]])
        if n_units < 2:
            return None
        value += share * float(residual[here].mean())
        variance += share**2 * spread
        freedom += n_units - 1
    freedom = max(freedom - (fitted.coefficients - 1 if within.size == inside.size else 0), 1)
    return _interval(value, variance, freedom, level, mine.size)


def sample_mean(y: Floats, weights: Floats, units: Ints | None, level: float) -> MeanEstimate:
    """Return the mean of the known answers alone, each with a weight, for comparison."""
    weights = weights / weights.sum()
    value = float(weights @ y)
    units = np.arange(y.size) if units is None else units
    sums = np.bincount(np.unique(units, return_inverse=True)[1], weights * (y - value))
    n = sums.size
    variance = float((sums**2).sum()) * n / max(n - 1, 1)
    return _interval(value, variance, max(n - 1, 1), level, y.size)


def _variance_of_mean(values: Floats, units: Ints) -> tuple[float, int]:
    """Return the variance of the mean of values that come in units, and the number of units."""
    codes = np.unique(units, return_inverse=True)[1]
    if values.size == 0:
        return np.inf, 0
    sums = np.bincount(codes, values - values.mean())
    n = sums.size
    return float((sums**2).sum()) / values.size**2 * n / max(n - 1, 1), n


def _interval(value: float, variance: float, freedom: int, level: float, known: int) -> MeanEstimate:
    from scipy.stats import t

    error = float(np.sqrt(variance))
    step = float(t.ppf(0.5 + level / 2.0, freedom)) * error
    return MeanEstimate(value, value - step, value + step, error, known)
