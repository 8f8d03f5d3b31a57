"""Progress of long runs: reported after every pass, and during long passes."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["LONG", "Callback", "Progress", "passes_left", "steps"]

#: Progress within a step is reported for at least this many labels.
LONG = 10_000_000


class Progress(NamedTuple):
    """The argument of a progress callback, which stops the fit by returning True."""

    iteration: int
    max_iter: int
    objective: float
    change: float  #: relative change of the objective in the last EM step; NaN before the first
    step: str = ""  #: name of the step, if it is not a pass of a fit
    labels: int = 0  #: labels per pass or iteration; 0 if not counted
    left: float = float("nan")  #: estimated number of iterations left


Callback = Callable[[Progress], Any]


def steps(callback: Callback | None, step: str, n_labels: int) -> Callable[[int], None] | None:
    """Return a function that reports labels done in one long step; None without a callback or for a short step."""
    if callback is None or n_labels < LONG:
        return None
    lock, unit = threading.Lock(), 100_000
    done, total, nan = 0, -(-n_labels // unit), float("nan")

    def tell(labels: int) -> None:
        nonlocal done
        with lock:
            done += labels
            at = min(total, done // unit if done < n_labels else total)
            callback(Progress(at, total, nan, nan, step, unit, total - at))

    tell(0)
    return tell


def passes_left(changes: list[tuple[int, float]], tol: float, most: int) -> float:
    """Estimate the passes left: changes ``(pass, change)`` fall geometrically down to ``tol``."""
    seen = [(at, math.log(change)) for at, change in changes if change > 0]
    if tol <= 0 or len(seen) < 3:
        return float(most) if tol <= 0 else float("nan")
    (first, high), (last, low) = seen[len(seen) // 2 - 1], seen[-1]
    fall = (high - low) / max(last - first, 1)
    return float(min(most, max(0.0, (low - math.log(tol)) / fall))) if fall > 0 else float("nan")
