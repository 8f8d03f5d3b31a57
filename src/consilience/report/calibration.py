"""Confidence compared with a known truth: a reliability diagram, its figures, and labels against truths."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from markupsafe import Markup

from consilience import metrics
from consilience.data.names import count, marked, percent
from consilience.report.svg import Frame, element, picture, ticks
from consilience.report.view import View

__all__ = ["calibration", "wilson_interval"]

#: The accuracy of a bin with fewer items is uncertain.
_FEW = 10
#: Limit on the classes of the table of labels against truths.
_MOST_CLASSES = 12


def calibration(view: View) -> dict[str, Any]:
    """Return the section."""
    consensus = view.consensus
    posterior, best, truth = consensus.judged_by(np.where(view.judged, np.asarray(view.truth), -1))
    found = metrics.reliability(posterior, truth, labels=best)
    n, wrong = int(view.judged.sum()), int((best[view.judged] != truth[view.judged]).sum())
    low, high = wilson_interval(wrong, n)
    figures = [
        ("wrong labels", f"{count(wrong)} of {count(n)}"),
        ("error", f"{percent(wrong / n)} (95%: {100 * low:.1f} to {100 * high:.1f}%)"),
        ("error expected by the model", percent(float(np.mean(1.0 - view.confidence[view.judged])))),
        ("expected calibration error", f"{found.calibration_error:.3f}"),
        ("log-loss", f"{metrics.log_loss(posterior, truth):.3f}"),
        ("Brier score", f"{metrics.brier_score(posterior, truth):.3f}"),
    ]
    spans = consensus.run.get("spans")
    if spans:
        figures.append(("spans", ", ".join(f"{name} {percent(value)}" for name, value in spans.items())))
    return {"picture": _diagram(found), "figures": figures, "table": _table(view)}


def _diagram(found: metrics.Reliability) -> Markup:
    some = found.count > 0
    lowest = float(min(found.confidence[some].min(), found.accuracy[some].min()))
    start = max(0.0, min(0.9, np.floor(10 * lowest) / 10))
    frame = Frame(420, 330, (start, 1.0), (start, 1.0), margins=(28, 16, 36, 44))
    marks = ticks(start, 1.0)
    drawn = frame.axes(marks, marks, "confidence", "share of right labels")
    ends = {"x1": frame.x(start), "y1": frame.y(start), "x2": frame.x(1.0), "y2": frame.y(1.0)}
    drawn.append(element("line", **ends, class_="ideal"))
    total = float(found.count.sum())
    points = []
    for n, x, y in zip(found.count[some], found.confidence[some], found.accuracy[some], strict=True):
        points.append(f"{frame.x(x):.1f},{frame.y(y):.1f}")
        title = element("title", f"{n:,} labels: confidence {x:.3f}, right {y:.3f}")
        kind = "dot" if n >= _FEW else "dot few"
        r = 3.0 + 9.0 * float(np.sqrt(n / total))
        drawn.append(element("circle", title, cx=frame.x(x), cy=frame.y(y), r=r, class_=kind))
    drawn.insert(-len(points), element("polyline", points=" ".join(points), class_="line thin"))
    return picture(420, 330, *drawn, label="Reliability diagram: share of right labels by confidence")


def _table(view: View) -> dict[str, Any] | None:
    """Count labels (rows) against truths (columns)."""
    classes = view.consensus.model.classes
    K = len(classes)
    if K > _MOST_CLASSES or view.is_open:
        return None
    truth = np.asarray(view.truth)[view.judged]
    cells = np.zeros((K, K + 1), np.int64)
    np.add.at(cells, (view.consensus.choice.best[view.judged], np.minimum(truth, K)), 1)
    other = bool(cells[:, K].any())
    names = [marked(name, 20) for name in classes]
    rows = [[count(n) if n else "" for n in row[: K + other]] for row in cells.tolist()]
    return {"names": names, "columns": names + (["none of these"] if other else []), "rows": rows}


def wilson_interval(wrong: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share."""
    z = 1.959963984540054
    middle = (wrong + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * sqrt(wrong * (n - wrong) / n + z * z / 4)
    return max(middle - half, 0.0), min(middle + half, 1.0)
