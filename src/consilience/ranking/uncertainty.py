"""How sure scores and ranks are: the normal approximation around the fitted parameters.

The covariance of all parameters is the inverse of their information H, with the mean reliability fixed at 1.  Scores
are centred within groups.

Small problems invert H after taking out the judges, whose block of H is block-diagonal.  In large ones, H x = b is
solved for random b with covariance H, so that x has the covariance H⁻¹.  The variance of an item is then

    Var(x_i)  =  1 / H_ii  +  Var(x_i - b_i / H_ii):

what would remain if all else were known, plus the variance of its conditional mean, the only part that is estimated.
Shifting all items of a group is an eigenvector of H, with the eigenvalue of the prior alone, and is taken out exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilience.kernels._arrays import Floats, Ints
from consilience.ranking.comparisons import Comparisons
from consilience.ranking.constants import COMMON_SPREAD, DRAWS, EXACT_COMPARISONS, EXACT_ITEMS, LEVEL, SAMPLED
from consilience.ranking.fit import RankFit
from consilience.ranking.information import Information, centred

__all__ = ["Uncertainty", "joint_covariance", "normal_quantile", "rank_intervals", "ranks_of", "uncertainty"]

#: Solutions at a time.
_BATCH = 8
#: Draws of ranks for many items, whose normals would not fit in the cache otherwise.
_FEWER_DRAWS = 200


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Standard deviations, and the covariance of scores if it is small enough to be exact."""

    deviation: Floats  #: of scores, (N,)
    covariance: Floats | None  #: of scores, (N, N)

    def of_difference(self, i: Ints, j: Ints) -> Floats:
        """Return the standard deviation of the difference of two scores; without a covariance they are independent."""
        variance = self.deviation[i] ** 2 + self.deviation[j] ** 2
        if self.covariance is not None:
            variance = variance - 2.0 * self.covariance[i, j]
        return np.sqrt(np.maximum(variance, 0.0))


def uncertainty(data: Comparisons, fit: RankFit) -> Uncertainty:
    """Return how sure the scores of a fit are."""
    if data.n_items <= EXACT_ITEMS and data.n_comparisons <= EXACT_COMPARISONS:
        n_groups, group = data.groups
        covariance = centred(joint_covariance(data, fit.information), group, n_groups)
        covariance = centred(covariance.T, group, n_groups)
        covariance = np.asarray(0.5 * (covariance + covariance.T))
        return Uncertainty(np.sqrt(np.maximum(np.diagonal(covariance), 0.0)), covariance)
    return Uncertainty(np.sqrt(_sampled(data, fit)), None)


def joint_covariance(data: Comparisons, information: Information) -> Floats:
    """Return the covariance of scores, (N, N); how far groups are from each other is as sure as the prior makes it."""
    from scipy.linalg import cho_factor, cho_solve
    from scipy.sparse import block_diag, csr_array, hstack

    H = information
    N, M, C = data.n_items, data.n_judges, data.n_comparisons
    own, common = H.effects.own, H.effects.common
    v, cov, t = H.sweep.weights.T
    b, gap = H.judges[data.judge, 0], H.scores[data.first] - H.scores[data.second]
    rows = np.arange(C)
    items = csr_array((np.concatenate([b, -b]), (np.tile(rows, 2), np.concatenate([data.first, data.second]))), (C, N))
    length = data.length if data.length.size else np.zeros(C)
    eta = np.stack([gap, data.side, length, np.zeros(C)], axis=1)
    theta = np.tile([0.0, 0.0, 0.0, 1.0], (C, 1))
    # rows of the design by (η, θ): items, then the average judge | the deviations of judges
    where = (np.repeat(rows, 4), (4 * data.judge[:, None] + np.arange(4)).ravel())
    near_eta, near_theta = hstack([items, csr_array(eta * common)]).tocsr(), csr_array(theta * common)
    near_theta = hstack([csr_array((C, N)), near_theta]).tocsr()
    far_eta, far_theta = (csr_array(((part * own).ravel(), where), (C, 4 * M)) for part in (eta, theta))

    def product(a_eta: csr_array, a_theta: csr_array, b_eta: csr_array, b_theta: csr_array) -> csr_array:
        first = b_eta.multiply(v[:, None]) + b_theta.multiply(cov[:, None])
        second = b_eta.multiply(cov[:, None]) + b_theta.multiply(t[:, None])
        return (a_eta.T @ first + a_theta.T @ second).tocsr()

    prior = np.concatenate([np.full(N, H.spreads.scores**-2.0), np.where(common, COMMON_SPREAD**-2.0, 1.0)])
    S = product(near_eta, near_theta, near_eta, near_theta).toarray() + np.diag(prior)
    if own.any():
        cross = product(near_eta, near_theta, far_eta, far_theta)
        inverse = block_diag(np.linalg.inv(H.own_blocks), format="csr")
        S -= (cross @ inverse @ cross.T).toarray()
    if own[0]:
        # the constraint k · d = 0:  S + q qᵀ / (kᵀ D⁻¹ k)  with  q = cross D⁻¹ k
        k = np.zeros(4 * M)
        k[0::4] = H.shares
        inner = inverse @ k
        q = cross @ inner
        S += np.outer(q, q) / float(k @ inner)
    return np.asarray(cho_solve(cho_factor(S), np.eye(N + 4, N))[:N])


def _sampled(data: Comparisons, fit: RankFit) -> Floats:
    """Return estimates of the variances of scores, centred within groups, (N,)."""
    H = fit.information
    n_groups, group = data.groups
    own, common, spreads = H.effects.own, H.effects.common, H.spreads
    rng = np.random.default_rng(0)
    given_rest = 1.0 / (H.sweep.information + spreads.scores**-2.0)
    total = np.zeros(data.n_items)
    judge_prior = np.where(own, 1.0 / np.maximum(spreads.judges, 1e-6), 0.0)[:, None]
    for batch in range(0, SAMPLED, _BATCH):
        z, u = data.passes.noise(H.scores, H.judges, H.sweep.weights, _BATCH, int(rng.integers(2**63)) + batch)
        z += rng.standard_normal(z.shape) / spreads.scores
        z = centred(z, group, n_groups)
        mean = u.sum(axis=0) * common[:, None] + rng.standard_normal((4, _BATCH)) * (common / COMMON_SPREAD)[:, None]
        d = u * own[:, None] + rng.standard_normal(u.shape) * judge_prior
        s = H.split(H.solve(H.joined(z, d, mean), tol=1e-3))[0]
        total += np.sum((s - z * given_rest[:, None]) ** 2, axis=1)
    shift = spreads.scores**2 / np.bincount(group, minlength=n_groups)[group]
    variance = given_rest + total / SAMPLED
    variance += shift * ((1.0 - given_rest / spreads.scores**2) ** 2 - 1.0)
    return np.asarray(np.maximum(variance, 0.0))


def normal_quantile() -> float:
    """Return how many standard deviations an interval reaches to each side."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + LEVEL / 2.0))


def ranks_of(scores: Floats, group: Ints) -> Ints:
    """Return the ranks within groups of columns of scores, (N,) or (N, K); 1 is the largest, ties share the first."""
    columns = scores.reshape(scores.shape[0], -1)
    ranks = np.empty(columns.shape, np.int64)
    begin = np.concatenate([[0], np.cumsum(np.bincount(group))])
    for k in range(columns.shape[1]):
        order = np.lexsort((-columns[:, k], group))
        same = np.zeros(order.size, np.bool_)
        same[1:] = (np.diff(columns[order, k]) == 0) & (np.diff(group[order]) == 0)
        place = np.where(same, 0, np.arange(order.size))
        ranks[order, k] = np.maximum.accumulate(place) - begin[group[order]] + 1
    return ranks.reshape(scores.shape)


def rank_intervals(scores: Floats, found: Uncertainty, group: Ints, seed: int) -> tuple[Ints, Ints]:
    """Return the limits of the ranks within groups, from draws of all scores.

    Items are drawn in the order of their scores, so that names do not matter.
    """
    rng = np.random.default_rng(seed)
    order = np.argsort(-scores, kind="stable")
    if found.covariance is not None:
        C = found.covariance[np.ix_(order, order)]
        jitter = 1e-9 * max(float(np.mean(np.diagonal(C))), 1e-12)
        L = np.linalg.cholesky(C + jitter * np.eye(scores.size))
        noise = L @ rng.standard_normal((scores.size, DRAWS))
    else:
        noise = found.deviation[order, None] * rng.standard_normal((scores.size, _FEWER_DRAWS))
    ranks = ranks_of(scores[order, None] + noise, group[order])
    low, high = np.quantile(ranks, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=1, method="inverted_cdf")
    made = np.empty((2, scores.size), np.int64)
    made[:, order] = low, high
    own = ranks_of(scores, group)
    return np.minimum(made[0], own), np.maximum(made[1], own)
