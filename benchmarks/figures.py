"""A measured figure with the one that was promised, and a table of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Figure", "best_of", "print_all"]


@dataclass(frozen=True)
class Figure:
    """``value`` must be at least (``up``) or at most the ``target``; None promises nothing."""

    name: str
    value: float
    target: float | None = None
    up: bool = False
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the promise is kept."""
        if self.target is None:
            return True
        return self.value >= self.target if self.up else self.value <= self.target

    def __str__(self) -> str:
        promise = "" if self.target is None else f"   ({'≥' if self.up else '≤'} {self.target:g})"
        return f"{'ok  ' if self.met else 'MISS'} {self.name:72s} {self.value:10.4g} {self.unit}{promise}"


def best_of(repeats: int, work: Callable[[], Any]) -> float:
    """Seconds of the fastest of several runs: the machine is shared, the fastest run is the least disturbed."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def print_all(figures: list[Figure]) -> None:
    print("\n== figures")
    for figure in figures:
        print(figure)
    missed = sum(not figure.met for figure in figures)
    print(f"{len(figures) - missed} of {len(figures)} figures reached")
