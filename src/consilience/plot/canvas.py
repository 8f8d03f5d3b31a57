"""Figures, axes and colours of all pictures."""

from __future__ import annotations

import os
from typing import Any

from consilience.compare.comparison_plot import check_picture, write_picture
from consilience.data.names import shown
from consilience.exceptions import ParameterError

__all__ = ["ACCENT", "BAD", "GREY", "PALE", "axes_of", "figure", "finish", "name_ticks", "plain", "shades"]

ACCENT, BAD, GREY, PALE = "#0f6b6b", "#b4432f", "#5f6670", "#e3e1dc"


def figure(width: float, height: float, where: Any) -> Any:
    """Return an empty figure, without the state of pyplot; raise first if it could not be written."""
    check_picture(where if isinstance(where, str | os.PathLike) else None)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def axes_of(width: float, height: float, where: Any) -> tuple[Any, Any]:
    """Return the axes to draw into and their figure: new ones, unless ``where`` is axes."""
    if where is not None and not isinstance(where, str | os.PathLike):
        if not hasattr(where, "plot"):
            raise ParameterError(f"where must be a path or axes of matplotlib, not {type(where).__name__}")
        return where, where.figure
    made = figure(width, height, where)
    return made.subplots(), made


def finish(made: Any, where: Any) -> Any:
    """Write the figure if ``where`` is a path, and return it."""
    if isinstance(where, str | os.PathLike):
        write_picture(made, where)
    return made


def plain(ax: Any, x: str = "", y: str = "") -> None:
    """Remove what is not needed, and name the axes."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.93", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=9, color=GREY)
    ax.set_xlabel(x, fontsize=9.5)
    ax.set_ylabel(y, fontsize=9.5)


def name_ticks(ax: Any, names: list[Any], *, x: bool = True, y: bool = True, most: int = 14) -> None:
    """Label the ticks 0, 1 and so on with names from data."""
    texts = [shown(name, most) for name in names]
    for axis, wanted in ((ax.xaxis, x), (ax.yaxis, y)):
        axis.set_ticks(range(len(texts)), texts if wanted else [""] * len(texts))
        for label in axis.get_ticklabels():
            label.set_parse_math(False)
    ax.tick_params(axis="both", length=0, labelsize=8)
    long = max((len(text) for text in texts), default=0) > 4
    ax.tick_params(axis="x", rotation=90 if long and x else 0)


def shades(colour: str = ACCENT) -> Any:
    """Return a colour map from white to a colour."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("consilience", ["#ffffff", colour])
