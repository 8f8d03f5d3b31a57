"""The information matrix of all parameters: products, and solutions by conjugate gradients.

A vector of parameters is a column: N scores, then four deviations of each of M judges, then four of the average judge.
The mean reliability over comparisons is 1 by definition, or scores would have no scale: only vectors whose mean
deviation of reliability is 0 are considered (``balanced``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.comparisons import Passes, Sweep
from consilience.ranking.constants import COMMON_SPREAD
from consilience.ranking.model import Effects

__all__ = ["Information", "Spreads", "centred"]


@dataclass(frozen=True)
class Spreads:
    """Standard deviations of the priors."""

    scores: float
    judges: Floats  #: (4,)


@dataclass(frozen=True, eq=False)
class Information:
    """Information of comparisons and priors at some parameters."""

    passes: Passes
    scores: Floats  #: (N,)
    judges: Floats  #: (M, 4)
    sweep: Sweep
    spreads: Spreads
    effects: Effects
    shares: Floats  #: of the comparisons, by judge, (M,)

    @cached_property
    def own_blocks(self) -> Floats:
        """Information of the deviations of each judge given everything else, prior included, (M, 4, 4)."""
        own = self.effects.own
        H = self.sweep.judge_information * np.outer(own, own)
        return np.asarray(H + np.diag(np.where(own, 1.0 / np.maximum(self.spreads.judges, 1e-6) ** 2, 1.0)))

    @cached_property
    def common_block(self) -> Floats:
        """The same for the average judge, (4, 4)."""
        common = self.effects.common
        H = self.sweep.judge_information.sum(axis=0) * np.outer(common, common)
        return np.asarray(H + np.diag(np.where(common, COMMON_SPREAD**-2.0, 1.0)))

    @cached_property
    def _inverses(self) -> tuple[Floats, Floats, Floats]:
        by_score = 1.0 / (self.sweep.information + self.spreads.scores**-2.0)
        inverses: list[Floats] = [np.asarray(np.linalg.inv(block)) for block in (self.own_blocks, self.common_block)]
        return by_score, inverses[0], inverses[1]

    @property
    def score_variances(self) -> Floats:
        """Variances of scores given everything else, (N,)."""
        return self._inverses[0]

    @property
    def own_variances(self) -> Floats:
        """Variances of the deviations of judges given the scores, (M, 4)."""
        return np.diagonal(self._inverses[1], axis1=1, axis2=2) * self.effects.own

    @property
    def judge_variances(self) -> Floats:
        """Variances of the parameters of judges given the scores, those of the average judge included, (M, 4)."""
        return self.own_variances + np.diagonal(self._inverses[2]) * self.effects.common

    def split(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the scores (N, K), the judges (M, 4, K) and the average judge (4, K) of vectors."""
        N = self.passes.N
        return x[:N], x[N:-4].reshape(self.passes.M, 4, -1), x[-4:]

    def joined(self, z: Floats, d: Floats, mean: Floats) -> Floats:
        """Return vectors from their three parts."""
        return np.concatenate([z, d.reshape(4 * self.passes.M, -1), mean])

    def balanced(self, x: Floats) -> Floats:
        """Return the nearest vectors in which the mean deviation of reliability over comparisons is 0."""
        if self.effects.own[0]:
            reliability = self.split(x)[1][:, 0]
            k = self.shares
            reliability -= np.outer(k, (k @ reliability) / (k @ k))
        return x

    def multiply(self, x: Floats) -> Floats:
        """Return the matrix times vectors."""
        z, d, mean = self.split(x)
        own, common = self.effects.own[:, None], self.effects.common[:, None]
        both = np.ascontiguousarray(d * own + mean * common)
        z_out, u_out = self.passes.multiply(self.scores, self.judges, self.sweep.weights, np.ascontiguousarray(z), both)
        own_prior = np.where(self.effects.own, np.maximum(self.spreads.judges, 1e-6) ** -2.0, 1.0)[:, None]
        common_prior = np.where(self.effects.common, COMMON_SPREAD**-2.0, 1.0)[:, None]
        z_out += z / self.spreads.scores**2
        d_out, mean_out = u_out * own + d * own_prior, u_out.sum(axis=0) * common + mean * common_prior
        return self.balanced(self.joined(z_out, d_out, mean_out))

    def precondition(self, x: Floats) -> Floats:
        """Return the inverse of the diagonal blocks times vectors."""
        z, d, mean = self.split(x)
        by_score, by_judge, by_mean = self._inverses
        return self.balanced(self.joined(by_score[:, None] * z, by_judge @ d, by_mean @ mean))

    def solve(self, b: Floats, tol: float = 1e-6, max_iter: int = 500) -> Floats:
        """Return the inverse matrix times vectors, each by its own conjugate gradients."""
        x = np.zeros_like(b)
        r = self.balanced(b.copy())
        p = h = self.precondition(r)
        rho = np.einsum("nk,nk->k", r, h)
        goal = tol * tol * rho
        for _ in range(max_iter):
            live = rho > goal
            if not live.any():
                break
            q = self.multiply(p)
            curvature = np.einsum("nk,nk->k", p, q)
            step = np.where(live, rho / np.where(curvature > 0, curvature, 1.0), 0.0)
            x += step * p
            r -= step * q
            h = self.precondition(r)
            before, rho = rho, np.where(live, np.einsum("nk,nk->k", r, h), rho)
            p = h + np.where(live, rho / np.where(before > 0, before, 1.0), 0.0) * p
        return x


def centred(z: Floats, group: Ints, n_groups: int) -> Floats:
    """Return columns (N, K) minus their means over the items of each group."""
    from scipy.sparse import csr_array

    size = np.bincount(group, minlength=n_groups)
    members = csr_array((np.ones(group.size), (group, np.arange(group.size))), shape=(n_groups, group.size))
    return np.asarray(z - ((members @ z) / size[:, None])[group])
