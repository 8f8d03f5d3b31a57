r"""A dictionary from samples with missing entries: gaps are filled from the dictionary, which is then sketched again.

The thesis sketches :math:`P_\Omega(X)`, zeros for gaps (2.22).  Where features have means far from zero, as pixels do,
these zeros are noise as large as the samples.  Here the first dictionary is sketched with the mean of each feature in
the gaps; then

.. math:: \hat X = P_\Omega(X) + P_{\bar\Omega}(Z B), \qquad B = R^\top \hat X

a few times, Z being the least-squares codes of the observed entries (2.21).  Before each time, one in ten observed
entries of some samples is hidden, to see which λ foretells them best; when the means of features do, gaps keep those.

======= ============== =============================================================================
symbol  name           shape
======= ============== =============================================================================
X       ``X``          (N, D), NaN where missing
B       ``B``          (n, D)
λ       ``lam``        of the codes that fill gaps
..      ``totals``     (2, D), sums and counts of observed entries; adds up over blocks of samples
======= ============== =============================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from consilience.exceptions import DataError
from consilience.kernels._arrays import Floats
from consilience.subspace.encoding import ridge_lams
from consilience.subspace.missing import lsr_missing

__all__ = ["dictionary_of", "filled", "totals"]

#: Times that the gaps are filled from the dictionary.
_ROUNDS = 2
#: Samples with hidden entries, and the share of their entries.
_ASKED, _HIDDEN = 512, 0.1


def totals(X: Any) -> Floats:
    """Give the sum and the number of the observed entries of each feature, (2, D)."""
    there = ~np.isnan(X)
    return np.stack([X.sum(axis=0, dtype=np.float64, where=there), there.sum(axis=0)])


def filled(X: Any, means: Floats, B: Floats | None = None, lam: float = 1.0) -> Any:
    """Fill the gaps by the means of features or, with a dictionary, by what the observed entries say."""
    gaps = np.isnan(X)
    if not gaps.any():
        return X
    if B is None:
        return np.where(gaps, means.astype(X.dtype), X)
    whole, told = X.copy(), gaps.any(axis=1)
    guess = lsr_missing(X[told], B, lam) @ B.astype(X.dtype)
    whole[told] = np.where(gaps[told], guess, X[told])
    return whole


def dictionary_of(sketched: Callable[[Callable[[Any], Any]], Any], totals: Floats, some: Any, n_samples: int) -> Floats:
    """Give B.

    Parameters
    ----------
    sketched
        Sketches all samples after filling them with the function that it is given.
    totals
        Of all samples.
    some
        Some of the samples, by which λ is chosen.
    n_samples
        N.
    """
    sums, counts = totals
    if not counts.any():
        raise DataError("no entry of the samples is observed: all are NaN")
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    B = np.asarray(sketched(partial(filled, means=means)), np.float64)
    for _ in range(_ROUNDS if (counts < n_samples).any() else 0):
        lam = _foretelling(some, means, B)
        if lam is None:
            break
        B = np.asarray(sketched(partial(filled, means=means, B=B, lam=lam)), np.float64)
    return B


def _foretelling(some: Any, means: Floats, B: Floats) -> float | None:
    """Give the λ under which hidden entries are foretold best, or None where the means of features do it better."""
    rng = np.random.default_rng(0)
    X = np.asarray(some[np.sort(rng.permutation(len(some))[:_ASKED])], np.float64)
    hidden = ~np.isnan(X) & (rng.random(X.shape) < _HIDDEN)
    asked = np.where(hidden, np.nan, X)

    def error(guess: Floats) -> float:
        return float(((guess - X)[hidden] ** 2).sum())

    errors = {lam: error(lsr_missing(asked, B, lam) @ B) for lam in ridge_lams(B)}
    best = min(errors, key=lambda lam: errors[lam])
    return best if errors[best] < error(np.broadcast_to(means, X.shape)) else None
