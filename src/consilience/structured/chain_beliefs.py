"""Variational Bayes for chains: annotators and transitions integrated out, not fitted.

    Γ_m(c, :, h) ~ Dirichlet(a(c, :, h)),    T(:, h) ~ Dirichlet(1),    Pr(y_1) ~ Dirichlet(1)

The pass runs with exp E log of the parameters under their distribution after the expected counts c.  What rises is a
lower bound F of log Pr(labels), the parameters integrated out: models with and without context are compared by it.

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
    """What expected counts say of chain and annotators."""

    def __init__(self, pseudo: Floats, never: Never | None = None) -> None:
        self.labels = Dirichlet(pseudo, axis=-2)
        self.never = never

    def __call__(self, statistics: ChainStatistics) -> tuple[ChainParameters, float]:
        """Give exp E log of the parameters after these counts, and minus the divergence from the prior."""
        emissions, divergence = self.labels.expected_log(self._by_context(statistics))
        start, a = _expected(statistics.starts, None if self.never is None else self.never.start)
        transitions, b = _expected(statistics.pairs, None if self.never is None else self.never.pair)
        tables = ChainParameters(start, transitions, np.exp(emissions).reshape(statistics.counts.shape))
        return tables, -(divergence + a + b)

    def means(self, statistics: ChainStatistics) -> ChainParameters:
        """Give the expected parameters."""

        def mean(counts: Floats, never: Bools | None) -> Floats:
            a = 1.0 + counts if never is None else np.where(never, 0.0, 1.0 + counts)
            return np.asarray(a / a.sum(axis=0))

        emissions = self.labels.mean(self._by_context(statistics))
        return ChainParameters(
            mean(statistics.starts, None if self.never is None else self.never.start),
            mean(statistics.pairs, None if self.never is None else self.never.pair),
            emissions.reshape(statistics.counts.shape),
        )

    def _by_context(self, statistics: ChainStatistics) -> Floats:
        return statistics.counts.reshape(statistics.counts.shape[0], *self.labels.pseudo.shape)


def _expected(counts: Floats, never: Bools | None) -> tuple[Floats, float]:
    """Give exp E log p under Dirichlet(1 + counts) among what is possible, and its divergence from Dirichlet(1)."""
    from scipy.special import gammaln, psi

    possible = np.ones(counts.shape, np.bool_) if never is None else ~never
    counts = np.where(possible, counts, 0.0)
    total, ways = (counts + possible).sum(axis=0), possible.sum(axis=0)
    expected = psi(1.0 + counts) - psi(total)
    # KL = log Γ(Σ a) - Σ log Γ(a_i) - log Γ(ways) + Σ c_i E log p_i, with a = 1 + c
    divergence = (gammaln(total) - gammaln(ways)).sum() - gammaln(1.0 + counts).sum() + (counts * expected).sum()
    return np.where(possible, np.exp(expected), 0.0), float(divergence)
