"""Variational Bayes for chains: annotators and transitions are integrated out, not fitted.

    Γ_m(c, :, h) ~ Dirichlet(a(c, :, h)),    T(:, h) ~ Dirichlet(1),    Pr(y_1) ~ Dirichlet(1)

A pass runs with exp E log of the parameters under their posterior given the expected counts c.  The objective is a
lower bound F of log Pr(labels), by which models with and without context are compared.

======= ======================= ===============
symbol  name                    shape
======= ======================= ===============
a       ``labels.pseudo``       (C, K, H)
c       ``counts``              (M, C, K, H)
======= ======================= ===============
"""

from __future__ import annotations

import numpy as np

from consilience.fitting.variational import Dirichlet
from consilience.kernels._arrays import Bools, Floats
from consilience.kernels.chains import ChainStatistics
from consilience.models.chain_mixture import Never
from consilience.structured.baum_welch import ChainParameters

__all__ = ["ChainBeliefs"]


class ChainBeliefs:
    """The posterior of chain and annotators given expected counts."""

    def __init__(self, pseudo: Floats, never: Never | None = None) -> None:
        H = pseudo.shape[-1]
        self.labels = Dirichlet(pseudo, axis=-2)
        self.never = never or Never(np.zeros(H, np.bool_), np.zeros((H, H), np.bool_))

    def __call__(self, statistics: ChainStatistics) -> tuple[ChainParameters, float]:
        """Return exp E log of the parameters given these counts, and minus the divergence from the prior."""
        emissions, divergence = self.labels.expected_log(self._by_context(statistics))
        start, a = _expected(statistics.starts, self.never.start)
        transitions, b = _expected(statistics.pairs, self.never.pair)
        tables = ChainParameters(start, transitions, np.exp(emissions).reshape(statistics.counts.shape))
        return tables, -(divergence + a + b)

    def means(self, statistics: ChainStatistics) -> ChainParameters:
        """Return the expected parameters."""

        def mean(counts: Floats, never: Bools) -> Floats:
            a = np.where(never, 0.0, 1.0 + counts)
            return np.asarray(a / a.sum(axis=0))

        start, transitions = mean(statistics.starts, self.never.start), mean(statistics.pairs, self.never.pair)
        emissions = self.labels.mean(self._by_context(statistics)).reshape(statistics.counts.shape)
        return ChainParameters(start, transitions, emissions)

    def _by_context(self, statistics: ChainStatistics) -> Floats:
        return statistics.counts.reshape(statistics.counts.shape[0], *self.labels.pseudo.shape)


def _expected(counts: Floats, never: Bools) -> tuple[Floats, float]:
    """Return exp E log p under Dirichlet(1 + counts) over possible entries, and its divergence from Dirichlet(1)."""
    from scipy.special import gammaln, psi

    counts = np.where(never, 0.0, counts)
    total, ways = (counts + ~never).sum(axis=0), (~never).sum(axis=0)
    expected = psi(1.0 + counts) - psi(total)
    # KL = log Γ(Σ a) - Σ log Γ(a_i) - log Γ(ways) + Σ c_i E log p_i, with a = 1 + c
    divergence = (gammaln(total) - gammaln(ways)).sum() - gammaln(1.0 + counts).sum() + (counts * expected).sum()
    return np.where(never, 0.0, np.exp(expected)), float(divergence)
