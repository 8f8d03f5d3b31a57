"""A measured figure with its target, and a table of figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["Figure", "best_of", "print_all", "two_errors", "with_settings"]

#: Most slack, as a share of the target: figures that vary more from trial to trial do not match for that.
_MOST_SLACK = 0.05


@dataclass(frozen=True)
class Figure:
    """``value`` must be at least (``up``) or at most the ``target``, within ``slack``; None means no target.

    A ``cell`` is a figure of a published table, which is its target; the slack is then two standard errors over the
    trials, ours and theirs, or one item, and at most a twentieth of the target.  ``reason`` says why a cell that is not
    met differs, in a form that can be checked.
    """

    name: str
    value: float
    target: float | None = None
    up: bool = False
    unit: str = ""
    cell: bool = False
    slack: float = 0.0
    reason: str = ""

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        if self.target is None:
            return True
        beyond = self.target - self.value if self.up else self.value - self.target
        return beyond <= self._allowed

    @property
    def _allowed(self) -> float:
        return min(self.slack, _MOST_SLACK * abs(self.target or 0.0))

    def __str__(self) -> str:
        slack = f" ± {self._allowed:.2g}" if self.slack else ""
        target = "" if self.target is None else f"   ({'≥' if self.up else '≤'} {self.target:g}{slack})"
        verdict = "    " if self.target is None else "ok  " if self.met else "MISS"
        why = f"   {self.reason}" if self.reason and not self.met else ""
        return f"{verdict} {self.name:72s} {self.value:10.4g} {self.unit}{target}{why}"


def with_settings(figure: Figure, settings: Mapping[str, float], value: float) -> Figure:
    """Add these settings as the reason why a figure is missed, if the value under them meets the target."""
    if figure.met or not replace(figure, value=value).met:
        return figure
    named = ", ".join(f"{name}={setting:g}" for name, setting in settings.items())
    return replace(figure, reason=f"{named} gives {value:.2f}")


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
    cells = [figure for figure in aimed if figure.cell]
    if cells:
        lost = [figure for figure in cells if not figure.met]
        missed = [figure for figure in lost if not figure.reason]
        print(
            f"{len(cells)} cells of published tables: {len(cells) - len(lost)} match or beat the published figure, "
            f"{len(lost) - len(missed)} differ for the reason given, {len(missed)} are missed; without these "
            f"{1 - len(missed) / len(cells):.1%}"
        )
        print(*(f"    {figure}" for figure in lost), sep="\n")


def two_errors(values: Sequence[float], published: int = 20) -> float:
    """Return two standard errors of the difference of our mean from a ``published`` one of so many trials."""
    return 2.0 * float(np.std(values, ddof=1) * (1 / len(values) + 1 / published) ** 0.5) if len(values) > 1 else 0.0
