"""Pictures of a fit: its objective by pass, and its confidence compared with a known truth."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience import metrics
from consilience.exceptions import DataError
from consilience.plot.canvas import ACCENT, GREY, PALE, axes_of, finish, plain
from consilience.runs.consensus import Consensus

__all__ = ["learning_curve", "reliability"]

#: The accuracy of a bin with fewer items is uncertain.
_FEW = 10


def learning_curve(fitted: Any, where: Any = None) -> Any:
    """Draw the objective after every pass over the data.

    Parameters
    ----------
    fitted
        A consensus, a fitted estimator (its ``history_``), or the numbers themselves.
    where
        A path, or axes of matplotlib.
    """
    values = fitted.run["history"] if isinstance(fitted, Consensus) else getattr(fitted, "history_", fitted)
    history = np.asarray(values, float)
    history = history[np.isfinite(history)]
    if history.size == 0:
        raise DataError("there is no history to draw: the method needs no passes over the data")
    ax, made = axes_of(5.6, 3.6, where)
    passes = np.arange(1, history.size + 1)
    ax.plot(passes, history, "o-" if history.size <= 60 else "-", color=ACCENT, markersize=4, linewidth=1.6)
    plain(ax, "pass over the data", "objective")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.ticklabel_format(axis="y", useOffset=False)
    return finish(made, where)


def reliability(consensus: Consensus, truth: Any, where: Any = None, *, bins: int = 15) -> Any:
    """Draw the share of right labels by confidence: on the diagonal, confidence is accuracy.

    Parameters
    ----------
    consensus
        A run.
    truth
        True labels in any form that :meth:`consilience.Consensus.error_rate` takes.
    where
        A path, or axes of matplotlib.
    bins
        Number of bins, of equal width; pale dots have fewer than ten labels.
    """
    codes = np.where(consensus.n_labels > 0, consensus.codes_of_truth(truth), -1)
    if not (codes >= 0).any():
        raise DataError("no item has both a truth and a label")
    found = metrics.reliability(consensus.posterior, codes, bins, labels=consensus.choice.best)
    ax, made = axes_of(4.8, 4.8, where)
    some = found.count > 0
    x, y, n = found.confidence[some], found.accuracy[some], found.count[some]
    start = max(0.0, min(0.9, np.floor(10 * min(x.min(), y.min())) / 10))
    ax.plot([start, 1], [start, 1], color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    ax.vlines(x, x, y, color=PALE, linewidth=4, zorder=1)
    ax.plot(x, y, color=ACCENT, linewidth=1.2, alpha=0.6, zorder=2)
    colours = np.where(n >= _FEW, 0.9, 0.35)
    ax.scatter(x, y, 20 + 260 * n / n.sum(), color=ACCENT, alpha=colours, linewidth=0, zorder=3)
    plain(ax, "confidence of the label", "share of right labels")
    room = 0.04 * (1 - start)
    ax.set_xlim(start - room / 2, 1 + room)
    ax.set_ylim(start - room / 2, 1 + room)
    ax.set_aspect("equal", adjustable="box")
    note = f"{int(n.sum()):,} labels, calibration error {found.calibration_error:.3f}"
    ax.set_title(note, fontsize=9.5, color=GREY, loc="left")
    return finish(made, where)
