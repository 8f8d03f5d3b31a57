"""Variational Bayes for chains of tokens that differ in ease: a name that one annotator overlooks, others overlook too.

Every state of the chain has three degrees of ease (:mod:`consilience.models.ease`), so it becomes three states:

    Pr(label i | context c, state h, ease x)  ∝  Γ_m(c, i, h) · exp(σ x [i = c_h]),

with transitions T(h', h) · w(x'), w being the shares of the degrees: every token has its own ease.  Within a span, such
as a name, ease stays the same: x' = x.

Without ease, Γ has the Dirichlet posterior of :mod:`consilience.structured.chain_beliefs`; with ease, none is
conjugate.  A Dirichlet distribution takes its place: its mean comes from one step of iterative scaling, its precision
from the number of labels counted.  With σ = 0 it is exact, and the objective is the lower bound.  Otherwise it is close
to it and may fall: by 4e-4 in a pass and 1e-3 in all (relative) on simulated names, not on the CoNLL crowd.
"""

from __future__ import annotations

import numpy as np

from consilience.kernels._arrays import Bools, Floats
from consilience.kernels.chains import ChainStatistics
from consilience.models.chain_mixture import Never
from consilience.models.ease import Ease
from consilience.structured.baum_welch import ChainParameters
from consilience.structured.chain_beliefs import ChainBeliefs

__all__ = ["EasedBeliefs"]


class EasedBeliefs:
    """The approximate posterior of chain and annotators, for tokens that differ in ease.

    Parameters
    ----------
    pseudo
        Pseudo-labels of every annotator, (C, K, H).
    never
        Impossible starts and transitions, by state.
    ease
        How tokens differ.
    lasting
        ``[i, h]``: whether i after h keeps the ease of h, (H, H).
    """

    def __init__(self, pseudo: Floats, never: Never | None, ease: Ease, lasting: Bools) -> None:
        self.beliefs, self.ease = ChainBeliefs(pseudo, never), ease
        # [i, x', h, x]: probability of the next degree of ease: its share, or one for the same degree
        X = ease.shares.size
        own, again = np.repeat(ease.shares[:, None], X, axis=1), np.eye(X)
        self._follows = np.where(lasting[:, None, :, None], again[:, None, :], own[:, None, :])
        self._mean: Floats | None = None

    def __call__(self, statistics: ChainStatistics) -> tuple[ChainParameters, float]:
        """Return exp E log of the parameters given these counts, and about minus the divergence from the prior."""
        plain = self._without_ease(statistics)
        tables, extra = self.beliefs(plain)
        return self._with_ease(tables), extra

    def means(self, statistics: ChainStatistics) -> ChainParameters:
        """Return the expected parameters given the last counts."""
        assert self._mean is not None
        return self._with_ease(self.beliefs.means(self._as_plain(self._mean, statistics)))

    def _without_ease(self, statistics: ChainStatistics) -> ChainStatistics:
        """Return the counts of a chain without ease that has the same posterior."""
        pseudo = self.beliefs.labels.pseudo
        counts = statistics.counts.reshape(-1, *pseudo.shape, self.ease.shares.size)
        if self._mean is None:  # the first step has no estimate to scale
            mean = counts.sum(axis=-1) + pseudo
            mean /= mean.sum(axis=-2, keepdims=True)
        else:
            mean = self.ease.scaled(counts, self._mean, pseudo)
        self._mean = mean
        return self._as_plain(mean, statistics)

    def _as_plain(self, mean: Floats, statistics: ChainStatistics) -> ChainStatistics:
        """Return as many labels as were counted, spread so that the posterior has this mean."""
        M, R, _ = statistics.counts.shape
        pseudo, X = self.beliefs.labels.pseudo, self.ease.shares.size
        given = statistics.counts.reshape(M, *pseudo.shape, X).sum(axis=(-3, -1))[..., None, :]
        labels = (given + pseudo.sum(axis=-2, keepdims=True)) * mean - pseudo
        H = pseudo.shape[-1]
        return ChainStatistics(
            labels.reshape(M, R, H),
            statistics.class_counts.reshape(H, X).sum(axis=1),
            statistics.starts.reshape(H, X).sum(axis=1),
            statistics.pairs.reshape(H, X, H, X).sum(axis=(1, 3)),
            statistics.log_likelihood,
        )

    def _with_ease(self, plain: ChainParameters) -> ChainParameters:
        start, transitions, emissions = plain
        assert self._mean is not None
        M, C, K, H = self._mean.shape
        X = self.ease.shares.size
        eased = self.ease.tables(self._mean, emissions.reshape(M, C, K, H))
        return ChainParameters(
            np.outer(start, self.ease.shares).ravel(),
            (transitions[:, None, :, None] * self._follows).reshape(H * X, H * X),
            eased.reshape(M, C * K, H * X),
        )
