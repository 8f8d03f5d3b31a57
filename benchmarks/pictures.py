"""Plots of benchmarks, if matplotlib is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["blank", "curves", "dots", "save"]

FOLDER = Path(__file__).parent / "out"


def blank(width: float, height: float) -> Any:
    """Return an empty figure, or None with a message if matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed, so there are no plots; pip install 'consilience[plot]'")
        return None
    picture = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(picture)
    return picture


def save(picture: Any, name: str) -> None:
    """Save a plot, and print its path."""
    FOLDER.mkdir(exist_ok=True)
    picture.savefig(FOLDER / name, dpi=150)
    print(f"picture: {FOLDER.name}/{name}")


def curves(
    name: str,
    xlabel: str,
    x: Sequence[float],
    panels: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    log_x: bool,
    ylabel: str = "mean squared error (19)",
) -> None:
    """Plot errors over ``x``: a panel for each table, a line for each method; the paper's is dashed."""
    picture = blank(4.6 * len(panels), 3.6)
    if picture is None:
        return
    colours = "#1d4ed8", "#c2410c", "#15803d", "#6b21a8", "#0e7490", "#111827", "#ca8a04", "#db2777", "#9ca3af"
    for ax, (title, lines) in zip(
        picture.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items(), strict=True
    ):
        methods = list(dict.fromkeys(label.removesuffix(", paper") for label in lines))
        for label, values in lines.items():
            paper = label.endswith(", paper")
            colour = colours[methods.index(label.removesuffix(", paper"))]
            ax.plot(
                x, values, "D--" if paper else "o-", color=colour, fillstyle="none" if paper else "full", label=label
            )
        ax.set(title=title, xlabel=xlabel, yscale="log", xscale="log" if log_x else "linear", xticks=x)
        ax.set_xticklabels([f"{value:g}" for value in x])
        ax.minorticks_off()
        ax.grid(color="0.9", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=9)
    picture.supylabel(ylabel)
    save(picture, name)


def dots(name: str, panels: Mapping[str, Mapping[str, tuple[float, float | None]]]) -> None:
    """Plot a panel for each measure, a row for each method: our figure next to the paper's."""
    picture = blank(5.4 * len(panels), 0.6 + 0.28 * max(map(len, panels.values())))
    if picture is None:
        return
    for ax, (title, rows) in zip(picture.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        height = range(len(rows))
        ours, paper = zip(*rows.values(), strict=True)
        ax.plot(ours, height, "o", color="#1d4ed8", label="here")
        there = [(value, y) for value, y in zip(paper, height, strict=True) if value is not None]
        if there:
            ax.plot(*zip(*there, strict=True), "D", color="#c2410c", fillstyle="none", label="paper")
        ax.set(title=title, yticks=height, ylim=(len(rows) - 0.5, -0.5))
        ax.set_yticklabels(list(rows), fontsize=8)
        ax.grid(color="0.9", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=9)
    save(picture, name)
