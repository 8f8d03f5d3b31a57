"""A measured figure with its target, and a table of figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Figure", "best_of", "print_all"]


@dataclass(frozen=True)
class Figure:
    """``value`` must be at least (``up``) or at most the ``target``; None means no target."""

    name: str
    value: float
    target: float | None = None
    up: bool = False
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        if self.target is None:
            return True
        return self.value >= self.target if self.up else self.value <= self.target

    def __str__(self) -> str:
        target = "" if self.target is None else f"   ({'≥' if self.up else '≤'} {self.target:g})"
        verdict = "    " if self.target is None else "ok  " if self.met else "MISS"
        return f"{verdict} {self.name:72s} {self.value:10.4g} {self.unit}{target}"


def best_of(repeats: int, work: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of several runs, the one least disturbed on a shared machine."""
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
    aimed = [figure for figure in figures if figure.target is not None]
    print(f"{sum(figure.met for figure in aimed)} of {len(aimed)} targets met")
