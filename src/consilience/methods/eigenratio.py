"""Dalvi, Dasgupta, Kumar and Rastogi's ratio of eigenvectors: agreement relative to the number of common items.

With labels ±1 and w(m) = 2 Pr(m is right) - 1, the agreements less the disagreements of two annotators with g(m, j)
items in common are

    E A(m, j) = g(m, j) w(m) w(j),      m ≠ j.

So where A = g ∘ (w wᵀ) and u is the leading eigenvector of g, that of A is about w ∘ u, and the ratio of the two is w
(Dalvi et al. 2013).  With ``count_weights=False`` the ratios A / g stand for the counts, and 0 or 1 for g: annotators
with many labels then dominate less.  On RTE this makes 9.0 % errors where counts make half.

====== ======================================== ======================
symbol meaning                                  shape
====== ======================================== ======================
A      agreements less disagreements, ``agree`` (M, M), observed pairs
g      common items, ``met``                    (M, M), observed pairs
w      ``weights``                              (M,)
====== ======================================== ======================

The diagonals are left out.  The labels are the votes weighted by w.

N. Dalvi, A. Dasgupta, R. Kumar and V. Rastogi, "Aggregating crowdsourced binary ratings", WWW 2013.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.fitting.em import Callback, Progress
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Floats
from consilience.methods.base.estimator import RefinableEstimator
from consilience.methods.base.method import TWO_CLASSES, Method
from consilience.methods.base.weighted_votes import leading_eigenvector, oriented, weighted_vote
from consilience.moments.cooccurrence import pair_moments
from consilience.moments.graph import groups

__all__ = ["METHOD", "EigenRatio", "eigenratio"]

#: Below this share of the largest entry of the eigenvector of g, the ratio is damped: both entries are nearly zero
#: there.
_FAINT = 1e-3


class EigenRatio(RefinableEstimator):
    """Votes weighted by agreement relative to the number of common items (Dalvi et al. 2013); two classes.

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    count_weights
        Weight pairs of annotators by their number of common items.
    random_state
        Not used: the fit is deterministic.
    callback
        Called once with the leading eigenvalue, and after every pass of the refinement.
    """

    _method = "eigenratio"

    count_weights: bool = False


def eigenratio(annotations: Annotations, *, count_weights: bool = False, callback: Callback | None = None) -> Fit:
    """Fit by the ratio of two eigenvectors, for each connected group of annotators; see :class:`EigenRatio`."""
    from scipy.sparse import csr_array

    a = annotations
    M = a.n_annotators
    pairs = pair_moments(a)
    counts = pairs.counts.astype(np.float64)
    agree = np.einsum("pii->p", counts) * 2.0 - pairs.totals
    met = pairs.totals
    if not count_weights:
        agree, met = agree / np.maximum(met, 1.0), np.ones_like(met)
    here, there = np.concatenate([pairs.who.T, pairs.who.T[::-1]], axis=1)
    A, G = (csr_array((np.tile(values, 2), (here, there)), shape=(M, M)) for values in (agree, met))
    weights = np.full(M, np.nan)
    largest = 0.0
    for group in groups(pairs):
        if group.members.size < 2:
            continue
        whose, whole = group.members, group.members.size == M
        value, top = leading_eigenvector(_product(A if whole else A[whose][:, whose]), whose.size)
        often, usual = leading_eigenvector(_product(G if whole else G[whose][:, whose]), whose.size)
        usual = np.abs(usual)
        # w = sqrt(λ_A / λ_g) · v_A / v_g: with the eigenvalues, groups are on one scale
        ratio = top * usual / (usual**2 + (_FAINT * usual.max()) ** 2)
        weights[whose] = np.sqrt(max(value, 0.0) / often) * ratio
        largest = max(largest, value)
    if callback:
        callback(Progress(1, 1, largest, float("nan")))
    return weighted_vote(a, oriented(a, weights), history=[largest])


METHOD = Method(
    "eigenratio", eigenratio, "EigenRatio", "agreement relative to the number of common items", needs=(TWO_CLASSES,)
)


def _product(matrix: Any) -> Any:
    def product(x: Floats) -> Floats:
        return np.asarray(matrix @ x)

    return product
