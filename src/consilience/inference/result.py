"""A figure of the population with its interval, and what more known answers would add."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from consilience.data import frames as _frames
from consilience.data.ids import Ids
from consilience.exceptions import DataError, ParameterError
from consilience.inference.constants import FEWEST
from consilience.inference.regression_estimate import MeanEstimate

__all__ = ["Estimate", "Source"]


@dataclass(frozen=True)
class Source:
    """What an estimate rests on, for plans."""

    ids: Ids
    fixed: float  #: variance of the estimate that more known answers do not lower
    each: float  #: n known answers, drawn at random, add this variance divided by n
    frame: str | None


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval."""

    value: float | None  #: None if nothing but labels is known: then low and high are a range, not an interval
    low: float
    high: float
    level: float
    basis: Literal["known answers", "error rates", "labels"]
    what: str  #: the figure in words
    items: int
    known: int = 0
    humans: MeanEstimate | None = None  #: the same from the known answers alone
    groups: Any = None  #: frame with a row for each group: group, value, low, high, known, items
    source: Source | None = field(default=None, repr=False)
    wrong: float | None = None  #: share of the consensus that is wrong at most, for the range

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return 0.5 * (self.high - self.low)

    @property
    def saved(self) -> int:
        """How many more known answers would give the same interval without the labels."""
        if self.humans is None or self.half_width <= 0:
            return 0
        wide = 0.5 * (self.humans.high - self.humans.low)
        return max(round(self.known * ((wide / self.half_width) ** 2 - 1.0)), 0)

    def needed(self, half_width: float) -> int:
        """Return about how many known answers, drawn at random, give an interval of this half-width."""
        from scipy.stats import norm

        if not half_width > 0:
            raise ParameterError(f"half_width must be a number > 0, not {half_width!r}")
        source = self._source()
        z = float(norm.ppf(0.5 + self.level / 2.0))
        room = (half_width / z) ** 2 - source.fixed
        if room <= 0 or source.each / room > self.items:
            least = z * float(np.sqrt(source.fixed + source.each / self.items))
            raise DataError(
                f"no number of known answers reaches a half-width of {half_width:g}: with answers to all {self.items} "
                f"items it would be {least:.2g}, as these stand for a population; label more items, or ask for more"
            )
        return max(int(np.ceil(source.each / room)), FEWEST)

    def which(self, n: int, seed: int = 0) -> Any:
        """Return a frame of ``n`` items to get known answers for, drawn at random.

        Strata of what the panel says do not help: with more items where it is unsure, half-widths on five panels of
        language models are 0.1 % wider, because the estimate uses what the panel says in any case.
        """
        source = self._source()
        if not FEWEST <= n <= self.items:
            raise ParameterError(f"n must be from {FEWEST} to {self.items}, the number of items, not {n!r}")
        chosen = np.sort(np.random.default_rng(seed).choice(self.items, n, replace=False))
        return _frames.make({"item": source.ids.take(chosen).to_arrow()}, source.frame)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        names = ("what", "value", "low", "high", "level", "basis", "items", "known")
        made: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.humans is not None:
            alone = dict(zip(("value", "low", "high"), self.humans[:3], strict=True))
            made |= {"humans_alone": alone, "saved": self.saved}
        if self.groups is not None:
            import narwhals as nw

            made["groups"] = nw.from_native(self.groups, eager_only=True).rows(named=True)
        return made

    def __str__(self) -> str:
        interval = f"{self.low:.3f} to {self.high:.3f}"
        if self.value is None:
            wrong = f"at most {self.wrong:.0%} of the consensus is wrong"
            return f"{self.what}: {interval}, if {wrong}, as the labels alone suggest"
        return f"{self.what}: {self.value:.3f} ({interval}, {self.level:.0%} interval from {self.basis})"

    def _source(self) -> Source:
        if self.source is None:
            raise DataError("known answers can only be planned from labels; this estimate rests on error rates")
        return self.source
