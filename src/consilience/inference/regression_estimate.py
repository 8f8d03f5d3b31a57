"""The mean of y over all items, from y on a sample and predictors on all items: a regression estimate.

With x_n the predictors of item n (with a constant for every stratum), b the least-squares coefficients on the n_s
sampled items, and e = y - x b the residuals,

    θ  =  (1/N) Σ_all x_n b  +  Σ_h (N_h / N) (1/n_h) Σ_{sampled in h} e_n,

where h are the strata, if the sample was drawn from strata.  This is prediction-powered inference with the power tuned
(Angelopoulos, Duchi & Zrnic 2023: b is their λ for several predictors at once), and in survey sampling the generalised
regression estimate (Särndal, Swensson & Wretman 1992): its interval is valid however bad the predictors are, and is
never much wider than that of the sample alone.  The variance is

    Σ_h (N_h / N)² s²_h / n_h  +  s²(x b) / N,

with residuals e_n / √(1 - leverage), which are as large as those of new items (MacKinnon & White 1985): leverage counts
the constants, so the mean of their squares is s² without a further n / (n - 1), except in groups, whose means the fit
does not know.  If items come in clusters (several answers to one prompt), sums over clusters take the place of
items.  Student's t has n_s - 1 degrees of freedom, less one for each predictor; with several strata as many as the sum
of their variances V_h = (N_h / N)² s²_h / n_h has by Satterthwaite (1946),  (Σ V_h)² / Σ V_h² / (n_h - 1).

Without predictors, the same is the estimate from the sample alone.

The interval of a share is Wilson's (1927), for as many items as would have this variance, n' = θ (1 - θ) / variance:
all shares p with  |p - θ| ≤ t √(p (1 - p) / n').  Near 0 and 1 it covers where θ ± t · error does not.  If fewer than
``RARER[0]`` of the n' items are of the rarer kind, it is Clopper and Pearson's (1934) for  n' (t_(n_s - 1) / t)²  items
(Korn & Graubard 1998): Wilson's covers as little as 85 % there.  A single known answer that labels do not explain is
possible even if there is none, so s²_h / n_h is at least 1 / n_h², or the variance of a share of n_h items (or
clusters) if it is smaller.  A difference of two shares has θ ± t · error; where fewer than 2 ``RARER[0]`` answers
differ, one more that differs each way adds 2 / n_h² to s²_h / n_h (Bonett & Price 2012).

A. N. Angelopoulos, J. C. Duchi and T. Zrnic, "PPI++: efficient prediction-powered inference" (2023).
D. G. Bonett and R. M. Price, "Adjusted Wald confidence interval for a difference of binomial proportions based on
paired data" (2012).
C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial"
(1934).
J. G. MacKinnon and H. White, "Some heteroskedasticity-consistent covariance matrix estimators" (1985).
F. E. Satterthwaite, "An approximate distribution of estimates of variance components" (1946).
E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected number of positive counts
estimated from survey data" (1998).
C.-E. Särndal, B. Swensson and J. Wretman, "Model assisted survey sampling" (1992), chapter 6.
E. B. Wilson, "Probable inference, the law of succession, and statistical inference" (1927).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.inference.constants import RARER
from consilience.kernels._arrays import Floats, Ints

__all__ = ["Bounds", "Fitted", "MeanEstimate", "fit_predictors", "mean_estimate", "parts_of_variance"]


class Bounds(NamedTuple):
    """Smallest and largest value of an item."""

    low: float
    high: float
    difference: bool = False  #: of two systems: no share, so not Wilson's interval


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
    residual: Floats  #: (n_s,)
    scaled: Floats  #: residuals as large as those of new items, (n_s,)
    slopes: int


def fit_predictors(y: Floats, sample: Ints, predictors: Floats, strata: Ints | None = None) -> Fitted:
    """Fit y of the sampled items by least squares; ``predictors`` are (N, d), those of the sample did not see y.

    Every stratum has a constant of its own: predictors and y are less their means over the sample of the stratum.
    """
    stratum = np.zeros(len(predictors), np.int64) if strata is None else strata
    mine = stratum[sample]
    drawn = np.maximum(np.bincount(mine, minlength=int(stratum.max()) + 1), 1)

    def means(values: Floats) -> Floats:
        return np.asarray(np.bincount(mine, values, drawn.size) / drawn)

    X = np.empty_like(predictors, dtype=np.float64)
    for d, x in enumerate(predictors.T):
        X[:, d] = x - means(x[sample])[stratum]
    level = means(y)[stratum]
    some = X[sample]
    inverse = np.linalg.pinv(some.T @ some, hermitian=True)
    b = inverse @ (some.T @ (y - level[sample]))
    leverage = 1.0 / drawn[mine] + np.einsum("ij,jk,ik->i", some, inverse, some)
    residual = y - level[sample] - some @ b
    scaled = residual / np.sqrt(1.0 - np.minimum(leverage, _MOST_LEVERAGE))
    return Fitted(level + X @ b, residual, scaled, int(np.linalg.matrix_rank(some)) if some.size else 0)


def mean_estimate(
    fitted: Fitted,
    sample: Ints,
    within: Ints,
    level: float,
    *,
    strata: Ints | None = None,
    clusters: Ints | None = None,
    bounds: Bounds | None = None,
) -> MeanEstimate | None:
    """Return the mean over the items ``within``, or None if too few of these are in the sample.

    Strata, those of the fit, and clusters are codes of all items, (N,).  Without ``bounds``, the interval is
    θ ± t · error.
    """
    inside = np.zeros(fitted.predicted.size, bool)
    inside[within] = True
    mine = np.flatnonzero(inside[sample])
    predicted, residual, scaled = fitted.predicted[within], fitted.residual[mine], fitted.scaled[mine]
    whole = within.size == inside.size
    stratum = np.zeros(inside.size, np.int64) if strata is None else strata
    units = np.arange(inside.size) if clusters is None else clusters
    parts = []
    of_sample = stratum[sample[mine]]
    for h in np.unique(stratum[within]):
        here, items = of_sample == h, stratum[within] == h
        spread, n_units = _variance_of_mean(
            scaled[here], units[sample[mine[here]]], 0 if whole and clusters is None else 1
        )
        if n_units < 2:
            return None
        mean = float(predicted[items].mean() + residual[here].mean())
        parts.append((float(items.mean()), mean, spread, n_units))
    shares, means, spreads, numbers = np.array(parts, np.float64).T
    freedoms = numbers - 1
    variances = shares**2 * spreads
    freedom = float(freedoms.sum())
    if len(parts) > 1 and variances.sum() > 0:
        freedom = float(variances.sum() ** 2 / (variances**2 / freedoms).sum())
    freedom = max(freedom - (fitted.slopes if whole else 0), 1.0)
    if bounds is not None and bounds.high > bounds.low:
        variances = shares**2 * _not_too_small(spreads, means, numbers, bounds)
    variance = float(variances.sum()) + _variance_of_mean(predicted, units[within])[0]
    return _interval(float(shares @ means), variance, freedom, level, mine.size, bounds)


def _not_too_small(variances: Floats, means: Floats, numbers: Floats, bounds: Bounds) -> Floats:
    """Return the variances of the means of the strata, with what few known answers of a kind do not show."""
    width = bounds.high - bounds.low
    if bounds.difference:  # an answer that differs moves the mean by half of the range, divided by n
        one = (0.5 * width / numbers) ** 2
        return np.asarray(np.where(variances < 2 * RARER[0] * one, variances + 2.0 * one, variances))
    share = np.clip((means - bounds.low) / width, 0.5 / numbers, 1.0 - 0.5 / numbers)
    return np.maximum(variances, width**2 * np.minimum(1.0 / numbers**2, share * (1.0 - share) / numbers))


def parts_of_variance(
    fitted: Fitted, sample: Ints, *, strata: Ints | None = None, clusters: Ints | None = None
) -> tuple[float, float]:
    """Return the variance c that more known answers do not lower, and v: n answers drawn at random have c + v / n.

    Residuals of items of one cluster share a part with variance ν², which does not get smaller than ν² Σ (N_c / N)²,
    with N_c the items of the clusters: n answers share clusters as often as all items do.
    """
    N, e = fitted.predicted.size, fitted.scaled
    weights = np.ones(sample.size)
    if strata is not None:  # how many items each known answer stands for
        weights = (np.bincount(strata) / np.maximum(np.bincount(strata[sample], minlength=strata.max() + 1), 1))[
            strata[sample]
        ]
    total = float(weights @ e**2 / weights.sum())
    if clusters is None:
        return _variance_of_mean(fitted.predicted, np.arange(N))[0], total
    sums, sizes = np.bincount(clusters[sample], e), np.bincount(clusters[sample])
    pairs = float((sizes.astype(np.float64) ** 2).sum() - e.size)
    shared = float((sums**2).sum() - (e**2).sum()) / pairs if pairs > 0 else 0.0
    least = max(shared, 0.0) * float(((np.bincount(clusters) / N) ** 2).sum())
    return _variance_of_mean(fitted.predicted, clusters)[0] + least, max(total - least, 0.0)


def _variance_of_mean(values: Floats, units: Ints, lost: int = 1) -> tuple[float, int]:
    """Return the variance of the mean of values that come in units, and the number of units.

    Of as many degrees of freedom as units, so many are ``lost`` to the mean.
    """
    codes = np.unique(units, return_inverse=True)[1]
    if values.size == 0:
        return np.inf, 0
    sums = np.bincount(codes, values - values.mean())
    n = sums.size
    return float((sums**2).sum()) / values.size**2 * n / max(n - lost, 1), n


def _interval(
    value: float, variance: float, freedom: float, level: float, known: int, bounds: Bounds | None
) -> MeanEstimate:
    from scipy.stats import t

    quantile = float(t.ppf(0.5 + level / 2.0, freedom))
    if bounds is None or bounds.high <= bounds.low:
        error = float(np.sqrt(variance))
        return MeanEstimate(value, value - quantile * error, value + quantile * error, error, known)
    error = float(np.sqrt(variance))
    least, width = bounds.low, bounds.high - bounds.low
    if bounds.difference:
        low, high = max(value - quantile * error, bounds.low), min(value + quantile * error, bounds.high)
        return MeanEstimate(value, low, high, error, known)
    share = float(np.clip((value - least) / width, 0.0, 1.0))
    near = float(np.clip(share, 0.5 / known, 1.0 - 0.5 / known))
    per_item = variance / width**2 / (near * (1.0 - near))
    if min(share, 1.0 - share) < RARER[0] * per_item:
        few = (float(t.ppf(0.5 + level / 2.0, known - 1)) / quantile) ** 2
        low, high = _clopper_pearson(share, few / per_item, level)
    else:
        low, high = _wilson(share, per_item, quantile)
    return MeanEstimate(least + width * share, least + width * low, least + width * high, error, known)


def _clopper_pearson(share: float, items: float, level: float) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of a share of so many items, which need be no whole number."""
    from scipy.stats import beta

    one, other = share * items, (1.0 - share) * items
    tail = 0.5 - level / 2.0
    low = float(beta.ppf(tail, one, other + 1.0)) if one > 0 else 0.0
    return low, float(beta.ppf(1.0 - tail, one + 1.0, other)) if other > 0 else 1.0


def _wilson(share: float, per_item: float, quantile: float) -> tuple[float, float]:
    """Return Wilson's interval of a share, where ``per_item`` is 1 / n'."""
    # with u = t² / n', the ends are (p + u/2 ± √(u p (1 - p) + u²/4)) / (1 + u)
    u = quantile**2 * per_item
    step = float(np.sqrt(u * share * (1.0 - share) + u**2 / 4.0))
    return max((share + u / 2.0 - step) / (1.0 + u), 0.0), min((share + u / 2.0 + step) / (1.0 + u), 1.0)
