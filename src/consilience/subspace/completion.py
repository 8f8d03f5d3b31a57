r"""A dictionary from samples with missing entries: the dictionary fills the gaps, and is then sketched again.

The thesis sketches :math:`P_\Omega(X)`, zeros for gaps (2.22).  Where features have means far from zero, as pixels do,
these zeros are noise as large as the samples.  Here the first dictionary is sketched with the mean of each feature in
the gaps; then

.. math:: \hat X = P_\Omega(X) + P_{\bar\Omega}(Z B), \qquad B = R^\top \hat X

is repeated, Z being the least-squares codes of the observed entries (2.21).  Before each round, one in ten observed
entries of some samples is hidden, and λ is the value that predicts them best; if the means of features predict them
better, they stay in the gaps.

======= ============== =============================================================================
symbol  name           shape
======= ============== =============================================================================
X       ``X``          (N, D), NaN where missing
B       ``B``          (n, D)
λ       ``lam``        weight of the fit in the codes that fill gaps
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

__all__ = ["dictionary_of", "error_of_hidden", "filled", "totals"]

#: Rounds of filling the gaps from the dictionary.
_ROUNDS = 2
#: Samples with hidden entries, and the share of hidden entries.
_ASKED, _HIDDEN = 512, 0.1


def totals(X: Any) -> Floats:
    """Return the sum and the number of the observed entries of each feature, (2, D)."""
    there = ~np.isnan(X)
    return np.stack([X.sum(axis=0, dtype=np.float64, where=there), there.sum(axis=0)])


def filled(X: Any, means: Floats, B: Floats | None = None, lam: float = 1.0) -> Any:
    """Fill the gaps with the means of features or, given a dictionary, from the codes of the observed entries."""
    gaps = np.isnan(X)
    if not gaps.any():
        return X
    if B is None:
        return np.where(gaps, means.astype(X.dtype), X)
    whole, partial_rows = X.copy(), gaps.any(axis=1)
    guess = lsr_missing(X[partial_rows], B, lam) @ B.astype(X.dtype)
    whole[partial_rows] = np.where(gaps[partial_rows], guess, X[partial_rows])
    return whole


def dictionary_of(sketched: Callable[[Callable[[Any], Any]], Any], totals: Floats, some: Any, n_samples: int) -> Floats:
    """Return B.

    Parameters
    ----------
    sketched
        Function that sketches all samples after filling their gaps with the function passed to it.
    totals
        Sums and counts over all samples.
    some
        The samples by which λ is chosen.
    n_samples
        N.
    """
    sums, counts = totals
    if not counts.any():
        raise DataError("no entry of the samples is observed: all are NaN")
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    B = np.asarray(sketched(partial(filled, means=means)), np.float64)
    for _ in range(_ROUNDS if (counts < n_samples).any() else 0):
        lam = _best_lam(some, means, B)
        if lam is None:
            break
        B = np.asarray(sketched(partial(filled, means=means, B=B, lam=lam)), np.float64)
    return B


def _best_lam(some: Any, means: Floats, B: Floats) -> float | None:
    """Return the λ that predicts hidden entries best, or None if the means of features predict them better."""

    def with_lam(lam: float) -> Callable[[Floats], Floats]:
        return lambda asked: lsr_missing(asked, B, lam) @ B

    errors = {lam: error_of_hidden(some, with_lam(lam)) for lam in ridge_lams(B)}
    best = min(errors, key=lambda lam: errors[lam])
    by_means = error_of_hidden(some, lambda asked: np.broadcast_to(means, asked.shape))
    return best if errors[best] < by_means else None


def error_of_hidden(some: Any, predict: Callable[[Floats], Any]) -> float:
    """Return Σ (x̂ - x)² over observed entries that are hidden from ``predict``, the same at every call."""
    rng = np.random.default_rng(0)
    X = np.asarray(some[np.sort(rng.permutation(len(some))[:_ASKED])], np.float64)
    hidden = ~np.isnan(X) & (rng.random(X.shape) < _HIDDEN)
    return float(((predict(np.where(hidden, np.nan, X)) - X)[hidden] ** 2).sum())
