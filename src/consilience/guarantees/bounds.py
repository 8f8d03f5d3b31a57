"""A bound, its conditions, and what it says in a sentence."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Bound", "Condition"]


@dataclass(frozen=True)
class Condition:
    """A condition of a theorem: what must be at most a limit."""

    what: str
    value: float
    limit: float

    @property
    def met(self) -> bool:
        """Whether it holds."""
        return bool(self.value <= self.limit)

    def __str__(self) -> str:
        return f"{self.what}: {self.value:.3g}, at most {self.limit:.3g} allowed" + ("" if self.met else " (not met)")


@dataclass(frozen=True)
class Bound:
    """An upper bound of an error.

    ``trivial`` is what the error can never exceed: a bound that is not below it says nothing.
    """

    what: str  #: the error that is bounded
    value: float
    trivial: float
    probability: float  #: with which it holds
    source: str  #: theorem and document
    conditions: tuple[Condition, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether all conditions of the theorem are met."""
        return all(condition.met for condition in self.conditions)

    @property
    def vacuous(self) -> bool:
        """Whether it says nothing: a condition fails, or the bound is not below the trivial one."""
        return not self.holds or not self.value < self.trivial or not self.probability > 0

    def __str__(self) -> str:
        if not self.holds:
            failed = "; ".join(str(condition) for condition in self.conditions if not condition.met)
            return f"{self.source} does not apply: {failed}."
        if self.vacuous:
            least = f"{self.what} is at most {self.value:.3g}, and never exceeds {self.trivial:.3g}"
            return f"{self.source} says nothing here: {least}."
        sure = "" if self.probability >= 1 else f" with probability {self.probability:.3g}"
        return f"{self.what} is at most {self.value:.3g}{sure} ({self.source})."
