"""Errors against the number of labels per item."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data import frames
from consilience.exceptions import ColumnError
from consilience.plot.canvas import ACCENT, GREY, axes_of, finish, plain

__all__ = ["label_curves"]

#: Colour, line and legend of every curve.
_CURVES = {
    "consensus": (GREY, "-", "consensus of labels"),
    "consensus_with_features": (ACCENT, "-", "consensus with features"),
    "model": (GREY, "--", "model trained on the first"),
    "model_with_features": (ACCENT, "--", "model trained on the second"),
}


def label_curves(table: Any, where: Any = None) -> Any:
    """Draw the errors of consensus and trained model against the number of labels per item.

    Parameters
    ----------
    table
        The result of :func:`consilience.label_curves`.
    where
        A path, or axes of matplotlib.
    """
    import narwhals as nw

    if not frames.is_frame(table) or "labels_per_item" not in frames.columns_of(table):
        raise ColumnError("expected the table of cs.label_curves, with labels_per_item and the errors")
    columns = nw.from_native(table, eager_only=True)
    ax, made = axes_of(5.6, 3.8, where)
    n = np.asarray(columns["labels_per_item"].to_numpy(), float)
    for name, (colour, line, legend) in _CURVES.items():
        if name in columns.columns:
            ax.plot(n, columns[name].to_numpy(), line, marker="o", markersize=4, color=colour, label=legend)
    plain(ax, "labels per item", "wrong labels, %")
    ax.set_xticks(n, [f"{x:g}" for x in n])
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, fontsize=9)
    return finish(made, where)
