"""What is told of a long run while it runs: after every pass, and in the middle of passes that take long."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["LONG", "Callback", "Progress", "passes_left", "steps"]

#: Passes over fewer labels than this are over before anybody could look.
LONG = 10_000_000


class Progress(NamedTuple):
    """What a callback is told after every pass; it stops the fit by returning True."""

    iteration: int
    max_iter: int
    objective: float
    change: float  #: relative change of the objective in the last EM step; NaN before the first
    step: str = ""  #: what is being done, where it is not the passes of a fit
    labels: int = 0  #: labels that the pass was over, or one iteration of a step; 0 where nobody counts
    left: float = float("nan")  #: iterations that are left, as far as can be seen


Callback = Callable[[Progress], Any]


def steps(callback: Callback | None, step: str, n_labels: int) -> Callable[[int], None] | None:
    """Give a function to be told how many labels more were passed over in one long step; None if nobody listens."""
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
    """Foretell the passes to go: changes ``(pass, change)`` fall by about the same factor each, down to ``tol``."""
    seen = [(at, math.log(change)) for at, change in changes if change > 0]
    if tol <= 0 or len(seen) < 3:
        return float(most) if tol <= 0 else float("nan")
    (first, high), (last, low) = seen[len(seen) // 2 - 1], seen[-1]
    fall = (high - low) / max(last - first, 1)
    return float(min(most, max(0.0, (low - math.log(tol)) / fall))) if fall > 0 else float("nan")
