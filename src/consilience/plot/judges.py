"""A picture of a panel of judges: what it costs, and how often its vote is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.audit.result import Audit
from consilience.data.names import shown
from consilience.exceptions import DataError
from consilience.plot.canvas import ACCENT, GREY, PALE, axes_of, finish, plain

__all__ = ["cost_against_error"]

#: Names of more judges than this would cover each other.
_MOST_NAMES = 12


def cost_against_error(audit: Audit, where: Any = None) -> Any:
    """Draw the error of every judge by itself, and of panels of the best 1, 2, … of them, against the cost of an item.

    Parameters
    ----------
    audit
        An audit with known answers.  Without costs, a label costs 1.
    where
        A path to write the picture to.
    """
    import narwhals as nw

    if audit.panels is None:
        raise DataError("errors of judges need known answers: audit with gold=…")
    panels = nw.from_native(audit.panels, eager_only=True)
    judges = nw.from_native(audit.judges, eager_only=True)
    judges = judges.filter(nw.col("known") > 0)
    cost, own = ("cost", judges["cost"].to_numpy()) if "cost" in judges.columns else ("size", np.ones(len(judges)))
    error, low, high = (100 * panels[name].to_numpy() for name in ("error", "low", "high"))
    x = panels[cost].to_numpy()
    ax, made = axes_of(6.4, 3.8, where)
    # a bar for each panel, not a band: panels that differ by a cheap judge have nearly the same cost
    ax.vlines(x, low, high, color=PALE, linewidth=3, zorder=1, label=f"{audit.level:.0%} interval")
    ax.plot(x, error, color=ACCENT, linewidth=0.8, marker="o", markersize=3, label="vote of the best 1, 2, … judges")
    ax.scatter(own, 100 * judges["error"].to_numpy(), color=GREY, s=14, zorder=2, label="one judge")
    named = judges if len(judges) <= _MOST_NAMES else judges.head(0)
    for name, at, error_of in zip(named["judge"].to_list(), own, named["error"].to_list(), strict=False):
        ax.annotate(
            shown(name, 24),
            (at, 100 * error_of),
            xytext=(4, 2),
            textcoords="offset points",
            fontsize=7.5,
            parse_math=False,
        )
    chosen = int(np.flatnonzero(panels["smallest"].to_numpy())[0])
    ax.scatter(
        [x[chosen]], [error[chosen]], s=70, facecolors="none", edgecolors=ACCENT, label="smallest panel near the best"
    )
    if x.max() > 20 * max(min(x.min(), own.min()), 1e-12):
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
    ax.set_ylim(bottom=0)
    plain(ax, "cost of an item" if cost == "cost" else "labels of an item", "wrong, %")
    ax.legend(fontsize=8, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return finish(made, where)
