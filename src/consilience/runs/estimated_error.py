"""The share of wrong labels, estimated without truth, and an interval that allows for what labels cannot show.

The mean of 1 - confidence is an estimate that rests on the labels alone: an error that the whole crowd makes does not
show in it.  How far such estimates were off on public sets with known truth is known, on the scale of log-odds, and is
the prior of the share e of wrong labels.  Known answers, of which w of G are wrong without their own help, update it.
They need not be a random sample: with c and c' the means of 1 - confidence over the other items and over the known
ones, what the known answers show is how far such means are off,

    logit e  =  logit c + δ,      δ  ~  Normal(0,  SPREAD² + 1 / (N c (1 - c))),
    w  ~  Binomial(G, e'),        logit e'  =  logit c' + δ.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

__all__ = ["SPREAD", "EstimatedError", "estimate"]

#: Standard deviation, in log-odds, of the error of estimates from labels alone.
#: origin: 31 public sets, the set in question left out: the root mean square is 0.54; alternatives: a larger one for
#: labelling functions; sensitivity: ``benchmarks field`` prints the coverage.
SPREAD = 0.55

#: Quantiles of a 90 % interval.
_LEVELS = 0.05, 0.5, 0.95
_Z = 1.645


class EstimatedError(NamedTuple):
    """The estimated share of wrong labels, with a 90 % interval."""

    value: float
    low: float
    high: float
    basis: Literal["labels", "known answers"]

    def __str__(self) -> str:
        return f"about {self.value:.0%} ({self.low:.0%} to {self.high:.0%})"


def estimate(
    doubt: float, n_items: int, *, wrong: int = 0, known: int = 0, known_doubt: float | None = None
) -> EstimatedError:
    """Return the estimate from the mean of 1 - confidence, and from known answers if there are any.

    ``known_doubt`` is that mean over the known items; by default as over the others.
    """
    doubt = min(max(doubt, 1e-4), 1.0 - 1e-4)
    centre = _log_odds(doubt)
    deviation = float(np.sqrt(SPREAD**2 + 1.0 / (max(n_items, 1) * doubt * (1.0 - doubt))))
    if not known:
        value, low, high = (_share(centre + step * deviation) for step in (0.0, -_Z, _Z))
        return EstimatedError(value, low, high, "labels")
    grid = np.linspace(-12.0, 8.0, 20_001)
    log_density = -0.5 * ((grid - centre) / deviation) ** 2
    of_known = grid if known_doubt is None else grid + _log_odds(min(max(known_doubt, 1e-4), 1.0 - 1e-4)) - centre
    log_density += wrong * -np.logaddexp(0.0, -of_known) + (known - wrong) * -np.logaddexp(0.0, of_known)
    below = np.cumsum(np.exp(log_density - log_density.max()))
    low, value, high = (_share(float(grid[np.searchsorted(below, level * below[-1])])) for level in _LEVELS)
    return EstimatedError(value, low, high, "known answers")


def _log_odds(share: float) -> float:
    return float(np.log(share / (1.0 - share)))


def _share(log_odds: float) -> float:
    return float(1.0 / (1.0 + np.exp(-log_odds)))
