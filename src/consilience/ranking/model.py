"""The Bradley-Terry model with ties, and with judges of different reliability.

Judge m finds the left item i better than the right item j with weight exp(η / 2), worse with exp(-η / 2), and as good
with exp(θ_m), where

    η  =  β_m (s_i - s_j)  +  α_m  +  γ_m tanh(log-length of i - log-length of j).

======= ================================================ ==============================
symbol  name                                             prior
======= ================================================ ==============================
s       ``scores``, (N,)                                 normal: mean κ × mean log-length,
                                                         standard deviation ``spread``
β       ``judges[:, 0]``, reliability                    normal around 1
α       ``judges[:, 1]``, position: log-odds of left     normal around ``average[1]``
γ       ``judges[:, 2]``, length                         normal around ``average[2]``
θ       ``judges[:, 3]``, ties                           normal around ``average[3]``
======= ================================================ ==============================

The standard deviations of scores and judges are learned.  Scores are scaled so that the reliability of judges is 1 on
average over comparisons, and centred within each group of items that comparisons connect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from consilience.kernels._arrays import Bools, Codes, Floats

__all__ = ["BradleyTerry", "Effects", "outcome_probabilities"]


class Effects(NamedTuple):
    """Which parameters are free: (4,) for the average judge, and (4,) for the deviations of judges from it."""

    common: Bools
    own: Bools

    @property
    def ties(self) -> bool:
        """Whether ties have a parameter."""
        return bool(self.common[3])


@dataclass(frozen=True, eq=False)
class BradleyTerry:
    """Fitted parameters; the module describes them."""

    scores: Floats  #: (N,)
    judges: Floats  #: (M, 4)
    average: Floats  #: (4,)
    spread: float
    judge_spreads: Floats  #: (4,)
    slope: float  #: κ
    effects: Effects

    def probabilities(
        self, first: Codes, second: Codes, judge: Codes | None = None, side: Any = 0.0, length: Any = 0.0
    ) -> Floats:
        """Return the probabilities that ``first`` wins, that they tie, and that ``second`` wins, (C, 3).

        ``judge`` is a code for each comparison, -1 for the average judge; ``side`` is 1 if ``first`` is on the left,
        -1 if it is on the right, 0 for the mean of both; ``length`` is the advantage of ``first`` by its length.
        """
        u = np.vstack([self.judges, self.average])[-1 if judge is None else judge]
        eta = u[..., 0] * (self.scores[first] - self.scores[second]) + length * u[..., 2]
        at_left, at_right = (
            outcome_probabilities(eta + d * u[..., 1], u[..., 3], self.effects.ties)
            for d in ((1.0, -1.0) if np.ndim(side) == 0 and side == 0 else (side, side))
        )
        return np.asarray(0.5 * (at_left + at_right))


def outcome_probabilities(eta: Any, theta: Any, ties: bool) -> Floats:
    """Return the probabilities of a win, a tie and a loss, (…, 3)."""
    half = np.abs(eta) / 2.0
    small = np.exp(-half)
    tie = np.exp(theta) * small * ties
    Z = 1.0 + small * small + tie
    win, lose = np.where(eta >= 0, 1.0, small * small) / Z, np.where(eta >= 0, small * small, 1.0) / Z
    return np.stack([win, np.broadcast_to(tie / Z, np.shape(win)), lose], axis=-1)
