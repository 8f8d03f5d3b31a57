"""How easy an item is for all annotators: a random effect on the odds of one label.

    Pr(i | h, x)  =  A(i, h) · exp(σ x [i = c_h]) / Z(h, x),        x ~ N(0, 1),

    Z(h, x)  =  1 + A(c_h, h) (exp(σ x) - 1),

where h is the class (or a state of it), and c_h is the label that ease makes more likely, usually the right one.
The integral over x is a sum over the three nodes of the Gauss-Hermite rule, x ∈ {-√3, 0, √3} with shares 1/6, 2/3, 1/6.

Given expected counts c, generalised iterative scaling raises the likelihood of A (J. N. Darroch and D. Ratcliff, Annals
of Mathematical Statistics 43, 1972): A is multiplied by the ratio of counted to expected labels.  With β pseudo-labels
at x = 0,

    A(i, h)  ∝  [Σ_x c(i, h, x) + β(i, h)] / [Σ_x c(·, h, x) exp(σ x [i = c_h]) / Z(h, x) + β(·, h)].

A is that of one annotator; more axes may precede its two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from consilience.kernels._arrays import Floats, Ints

__all__ = ["Ease"]


@dataclass(frozen=True, eq=False)
class Ease:
    """How much items differ in ease, and which label it makes more likely."""

    spread: float  #: σ
    cell: Ints  #: c_h, (H,)

    @cached_property
    def nodes(self) -> Floats:
        """Nodes x, (X,); one if items do not differ."""
        return np.array([-1.0, 0.0, 1.0]) * np.sqrt(3.0) if self.spread > 0 else np.zeros(1)

    @cached_property
    def shares(self) -> Floats:
        """Probability of each node, (X,)."""
        return np.array([1.0, 4.0, 1.0]) / 6.0 if self.spread > 0 else np.ones(1)

    @cached_property
    def growth(self) -> Floats:
        """exp(σ x), (X,)."""
        return np.exp(self.spread * self.nodes)

    @cached_property
    def _own(self) -> tuple[Ints, Ints]:
        return self.cell, np.arange(self.cell.size)

    def tables(self, confusions: Floats, logarithmic: Floats | None = None) -> Floats:
        """Return Pr(i | h, x), (…, K, H, X), for confusions (…, K, H).

        ``logarithmic`` is exp E log A, which replaces A except in Z.
        """
        used = confusions if logarithmic is None else logarithmic
        tables: Floats = used[..., None] / self._z(confusions)[..., None, :, :]
        label, column = self._own
        tables[..., label, column, :] *= self.growth
        return tables

    def scaled(self, counts: Floats, at: Floats, pseudo: Floats) -> Floats:
        """Return confusions (…, K, H) one step of iterative scaling from those ``at``, for counts (…, K, H, X)."""
        given = _sum([counts[..., i, :, :] for i in range(counts.shape[-3])]) / self._z(at)
        confusions = _sum([counts[..., x] for x in range(counts.shape[-1])]) + pseudo
        of_pseudo, own = pseudo.sum(axis=-2), (..., *self._own)
        # counted labels over those expected for A = 1
        likelier = confusions[own] / ((given * self.growth).sum(axis=-1) + of_pseudo)
        confusions /= (given.sum(axis=-1) + of_pseudo)[..., None, :]
        confusions[own] = likelier
        confusions /= confusions.sum(axis=-2, keepdims=True)
        return confusions

    def _z(self, confusions: Floats) -> Floats:
        """Return Z(h, x), (…, H, X)."""
        own: Floats = confusions[(..., *self._own)]
        return 1.0 + own[..., None] * (self.growth - 1.0)


def _sum(arrays: list[Floats]) -> Floats:
    """Return the sum of arrays: numpy is slow at summing along short axes."""
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total
