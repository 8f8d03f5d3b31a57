"""Krippendorff's α, Fleiss' κ, Gwet's AC1 and observed agreement, from sums over blocks of items.

The definitions are in :mod:`consilience.diagnose.agreement`, the sums in :mod:`consilience.kernels.agreement`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from consilience.kernels._arrays import Floats
from consilience.kernels.agreement import AgreementSums

__all__ = ["beyond_chance", "bootstrap_totals", "bootstrap_weights", "coefficients", "mean_ranks", "ratio", "total"]


def total(sums: AgreementSums, weights: Floats) -> AgreementSums:
    """Add blocks up with the given weights, (draws, B)."""
    B, K = sums.classes.shape
    coincidences = sums.coincidences
    if coincidences.size:
        coincidences = (weights @ coincidences.reshape(B, K * K)).reshape(len(weights), K, K)
    return AgreementSums(weights @ sums.sums, weights @ sums.classes, weights @ sums.shares, coincidences)


def bootstrap_totals(sums: AgreementSums, n: int, rng: np.random.Generator) -> Iterator[AgreementSums]:
    """Yield the totals of n bootstrap samples of the blocks, as many at a time as memory allows."""
    B, K = sums.classes.shape
    step = max(1, (1 << 22) // max(B, K * K if sums.coincidences.size else K))
    for first in range(0, n, step):
        yield total(sums, bootstrap_weights(rng, B, min(step, n - first)))


def bootstrap_weights(rng: np.random.Generator, n: int, draws: int) -> Floats:
    """Draw n of n with replacement, and return how often each was drawn, (draws, n)."""
    places = rng.integers(0, n, (draws, n)) + n * np.arange(draws)[:, None]
    return np.bincount(places.ravel(), minlength=draws * n).reshape(draws, n).astype(np.float64)


def coefficients(sums: AgreementSums, level: str, values: Floats) -> dict[str, Floats]:
    """Return the coefficients, one for each row of the sums; NaN where they are not defined."""
    items, two, n, agree, same, spread = sums.sums.T
    K = sums.classes.shape[1]
    observed = ratio(agree, two)
    share = ratio(sums.shares, items[:, None])
    even = (share * share).sum(axis=1)
    by_gwet = (1.0 - even) / (K - 1) if K > 1 else np.zeros_like(even)
    if level == "nominal":
        # Σ_(k ≠ l) c_k c_l / (n - 1) = n (1 - P), and Σ_(k ≠ l) n_k n_l = n² - Σ n_k²
        within = n - same
        between = n * n - (sums.classes**2).sum(axis=1)
    else:
        v, within = np.broadcast_to(values, sums.classes.shape), spread
        if sums.coincidences.size:
            v, S = mean_ranks(sums.classes), sums.coincidences
            within = 2.0 * ((S.sum(axis=2) * v * v).sum(axis=1) - np.einsum("dk,dkl,dl->d", v, S, v))
        between = 2.0 * (n * (sums.classes * v * v).sum(axis=1) - (sums.classes * v).sum(axis=1) ** 2)
    between = np.where(between > 1e-12 * n * n, between, 0.0)
    return {
        "observed": observed,
        "alpha": 1.0 - ratio(within * (n - 1.0), between),
        "fleiss": beyond_chance(observed, even),
        "gwet": beyond_chance(observed, by_gwet),
    }


def mean_ranks(classes: Floats) -> Floats:
    """Return the mean rank of the labels of every class, (draws, K)."""
    ranks: Floats = np.cumsum(classes, axis=1) - 0.5 * classes
    return ranks


def beyond_chance(observed: Floats, chance: Floats) -> Floats:
    """Return (observed - chance) / (1 - chance); NaN where chance is 1."""
    return ratio(observed - chance, np.where(chance < 1.0 - 1e-12, 1.0 - chance, 0.0))


def ratio(top: Floats, bottom: Floats) -> Floats:
    """Divide; NaN where the denominator is 0."""
    quotient: Floats = np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=bottom != 0)
    return quotient
