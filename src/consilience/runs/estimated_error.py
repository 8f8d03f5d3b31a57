"""The share of wrong labels, estimated without truth, and an interval that allows for what labels cannot show.

The mean of 1 - confidence is an estimate that rests on the labels alone: an error that the whole crowd makes does not
show in it.  How far such estimates were off on public sets with known truth is known, on the scale of log-odds, and is
the prior of the share e of wrong labels.  Known answers, of which w of G are wrong without their own help, update it.
With c and c' the means of 1 - confidence over the other items and over the known ones, they show how far such means are
off.  If the known items were picked, say because they are doubtful, that says little about the others:

    logit e  =  logit c + δ,      δ  ~  Normal(0,  SPREAD² + 1 / (N c (1 - c))),
    w  ~  Binomial(G, e'),        logit e'  =  logit c' + δ + η,      η  ~  Normal(0, PICKED² (logit c' - logit c)²).

If annotators err together, which has some probability, more labels are wrong: SPREAD is larger upwards, so that a
twentieth of all cases are above the interval.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from consilience.kernels._arrays import Floats

__all__ = ["SPREAD", "EstimatedError", "estimate"]

#: Standard deviation, in log-odds, of the error of estimates from labels alone.
#: origin: 31 public sets, the set in question left out: the root mean square is 0.54; alternatives: a larger one for
#: labelling functions; sensitivity: ``benchmarks field`` prints the coverage.
SPREAD = 0.55

#: Standard deviation of η for known items whose log-odds are 1 away from those of the others.
#: origin: 21 public crowds with 5, 10 and 20 % of the items known, the most doubtful or random ones; alternatives: 1 to
#: 6, and a deviation by the root of the difference; sensitivity: the error of the other items is inside its interval in
#: 45 of 63 cases of doubtful items with 1, in 52 with 2, in 54 with 4, and below it in the others; in 57, 58 and 59 of
#: 63 of random ones.
PICKED = 2.0

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
    doubt: float,
    n_items: int,
    *,
    wrong: int = 0,
    known: int = 0,
    known_doubt: float | None = None,
    together: tuple[float, float] = (0.0, 0.0),
) -> EstimatedError:
    """Return the estimate from the mean of 1 - confidence, and from known answers if there are any.

    ``known_doubt`` is that mean over the known items; by default as over the others.  ``together`` has the
    probability that annotators err together, and by how much the log-odds of ``doubt`` are larger if they do.
    """
    doubt = min(max(doubt, 1e-4), 1.0 - 1e-4)
    centre = _log_odds(doubt)
    deviation = float(np.sqrt(SPREAD**2 + 1.0 / (max(n_items, 1) * doubt * (1.0 - doubt))))
    upwards = max(deviation, _deviation_above(deviation, *together))
    if not known:
        value, low, high = (_share(centre + step) for step in (0.0, -_Z * deviation, _Z * upwards))
        return EstimatedError(value, low, high, "labels")
    gap = 0.0 if known_doubt is None else _log_odds(min(max(known_doubt, 1e-4), 1.0 - 1e-4)) - centre
    grid = np.linspace(-12.0, 8.0, 4001)
    of_known = grid + gap
    evidence = wrong * -np.logaddexp(0.0, -of_known) + (known - wrong) * -np.logaddexp(0.0, of_known)
    # beyond 4, the known answers say nothing in any case
    likelihood = _blurred(np.exp(evidence - evidence.max()), min(PICKED * abs(gap), 4.0) / (grid[1] - grid[0]))
    density = likelihood * np.exp(-0.5 * ((grid - centre) / np.where(grid > centre, upwards, deviation)) ** 2)
    below = (np.cumsum(density) - 0.5 * density) / density.sum()
    low, value, high = (_share(float(np.interp(level, below, grid))) for level in _LEVELS)
    return EstimatedError(value, low, high, "known answers")


def _deviation_above(deviation: float, probability: float, more: float) -> float:
    """Return the standard deviation upwards with which a twentieth is above, where some cases are ``more`` off."""
    from scipy.special import ndtri

    tail = _LEVELS[0] / max(probability, _LEVELS[0])
    return float((more - deviation * ndtri(tail)) / _Z) if tail < 1 else 0.0


def _blurred(values: Floats, deviation: float) -> Floats:
    """Return the convolution with a normal density of this standard deviation, in steps; beyond the ends as there."""
    if deviation < 0.5:
        return values
    reach = int(np.ceil(4.0 * deviation))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
    made: Floats = np.convolve(np.pad(values, reach, "edge"), kernel / kernel.sum(), "valid")
    return made


def _log_odds(share: float) -> float:
    return float(np.log(share / (1.0 - share)))


def _share(log_odds: float) -> float:
    return float(1.0 / (1.0 + np.exp(-log_odds)))
