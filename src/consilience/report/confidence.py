"""How sure the labels are: a histogram with expected errors, and the effect of a confidence threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from consilience.data.names import count, percent
from consilience.report.svg import Frame, element, picture, ticks
from consilience.report.view import View

__all__ = ["histogram", "thresholds"]

_WIDTH = 0.05
_THRESHOLDS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)


def bins_of(confidence: Any) -> tuple[Any, Any, Any]:
    """Count confidences in bins of 0.05; return left edges, items and expected wrong labels of each."""
    # rounded first, so that 3 votes of 5 are in the bin that starts at 0.6
    at = np.minimum(np.floor(np.round(confidence / _WIDTH, 9)).astype(int), 19)
    first = int(at.min())
    n = 20 - first
    return (
        _WIDTH * np.arange(first, 20),
        np.bincount(at - first, minlength=n),
        np.bincount(at - first, 1.0 - confidence, n),
    )


def histogram(view: View) -> Markup | None:
    """Draw the number of labels by confidence and, in front of each bar, how many are expected to be wrong.

    Heights are square roots: most labels are sure, and the others are the ones of interest.
    """
    if not view.labelled.any():
        return None
    left, items, wrong = bins_of(view.confidence[view.labelled])
    most = float(items.max())
    frame = Frame(420, 250, (float(left[0]), 1.0), (0.0, 1.03 * float(np.sqrt(most))), margins=(28, 12, 36, 52))
    roots = [float(np.sqrt(value)) for value in _marks(most)]
    drawn = frame.axes(ticks(float(left[0]), 1.0), roots, "confidence", "items", y_form=lambda v: f"{v * v:,.0f}")
    for a, n, bad in zip(left.tolist(), items.tolist(), wrong.tolist(), strict=True):
        if n:
            x, width = frame.x(a) + 1, frame.x(a + _WIDTH) - frame.x(a) - 2
            top, low = frame.y(float(np.sqrt(n))), frame.y(float(np.sqrt(bad)))
            title = element("title", f"{a:.2f} to {a + _WIDTH:.2f}: {n:,} items, about {bad:,.1f} of them wrong")
            whole = element("rect", title, x=x, y=top, width=width, height=frame.bottom - top, class_="fill")
            part = element("rect", x=x, y=low, width=width, height=frame.bottom - low, class_="bad")
            drawn += [whole, part]
    total = f"{count(items.sum())} labels, about {wrong.sum():,.0f} of them wrong"
    return picture(420, 250, *drawn, label=f"Histogram of confidence: {total}")


def _marks(most: float) -> list[float]:
    """Return round numbers whose square roots are well apart: 0, 10, 50, 200 and so on."""
    chosen = [0.0]
    for value in (m * 10.0**e for e in range(9) for m in (1, 2, 5)):
        if value <= most and np.sqrt(value) - np.sqrt(chosen[-1]) >= 0.17 * np.sqrt(most):
            chosen.append(value)
    return chosen


def thresholds(view: View) -> list[dict[str, str]]:
    """Return, for several confidences, how many labels have at least that, and how many of these are wrong."""
    confidence = view.confidence[view.labelled]
    wrong = None
    if view.truth is not None:
        judged = view.judged[view.labelled]
        wrong = (view.consensus.choice.best != view.truth)[view.labelled]
    rows = []
    for least in _THRESHOLDS:
        taken = confidence >= least - 1e-12
        n = int(taken.sum())
        row = {
            "least": "all" if least == 0 else f"{least:.2f}",
            "items": count(n),
            "share": percent(n / confidence.size if confidence.size else None, 0),
            "expected": percent(float(np.mean(1.0 - confidence[taken])) if n else None, 2),
        }
        if wrong is not None:
            known = taken & judged
            row["measured"] = percent(float(np.mean(wrong[known])) if known.any() else None, 2)
        rows.append(row)
    return rows
