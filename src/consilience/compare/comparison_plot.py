"""Plot of a comparison: errors with intervals, calibration errors, and accuracy over confidence."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from consilience.exceptions import ParameterError
from consilience.files import atomic_file

__all__ = ["check_picture", "draw", "write_picture"]

_SUFFIXES = (".png", ".svg", ".pdf")
_STYLES = (("#1d4ed8", "o"), ("#c2410c", "s"), ("#15803d", "^"), ("#a21caf", "D"))
_BASELINE = ("#111827", "v")
_PALE, _GREY = "#d1d5db", "#6b7280"
_SMALL: Mapping[str, Any] = {"fontsize": 8.5, "color": _GREY}
#: Least items of a bin that is drawn.
_FEW = 10

Row = Mapping[str, Any]


def check_picture(path: str | os.PathLike[str] | None = None) -> None:
    """Raise an error unless a picture can be drawn and written under this name."""
    if path is not None and Path(path).suffix.lower() not in _SUFFIXES:
        raise ParameterError(f"the name of a picture ends in {', '.join(_SUFFIXES)}, not {Path(path).name!r}")
    if find_spec("matplotlib") is None:
        raise ImportError("pictures need matplotlib, which is not installed: pip install 'consilience[plot]' brings it")


def draw(rows: Sequence[Row], bins: Mapping[str, Sequence[Row]], facts: Row, where: Any = None) -> Any:
    """Draw the whole picture, into a file if ``where`` is a path, or the errors alone into matplotlib axes."""
    if where is not None and not isinstance(where, str | os.PathLike):
        check_picture()
        _errors(where, rows, _styles(rows))
        return where
    check_picture(where)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = Figure(figsize=(12, max(4.4, 1.6 + 0.26 * len(rows))), layout="constrained")
    FigureCanvasAgg(picture)
    left, middle, right = picture.subplots(1, 3, width_ratios=(1.5, 0.6, 1.2))
    styles = _styles(rows)
    _errors(left, rows, styles)
    _calibration_errors(middle, rows, styles)
    _reliability(right, rows, bins, styles, facts)
    picture.suptitle(
        f"{facts['labels']:,} labels of {facts['N']:,} items by {facts['M']:,} annotators, {facts['K']} classes; "
        f"{facts['judged']:,} items judged",
        fontsize=10,
        color=_GREY,
    )
    if where is not None:
        write_picture(picture, where)
    return picture


def write_picture(picture: Any, path: str | os.PathLike[str]) -> None:
    """Write a matplotlib figure to a file, atomically; the suffix selects the format."""
    from matplotlib import rc_context

    kind = Path(path).suffix.lower().removeprefix(".")
    # without date and random ids, the same picture gives the same bytes
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    with atomic_file(path) as temporary, rc_context({"svg.hashsalt": "consilience"}):
        picture.savefig(temporary, format=kind, dpi=150, metadata=undated)


def _styles(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    """Choose the methods drawn in colour: the best four that differ visibly, and majority voting."""
    chosen: dict[str, tuple[str, str]] = {}
    taken: list[Row] = []
    for row in rows:
        if row["error"] is None:
            continue
        if row["method"] == "majority":
            chosen["majority"] = _BASELINE
        elif len(taken) < len(_STYLES) and not any(
            abs(row["error"] - other["error"]) < 0.25 and abs((row["ece"] or 0.0) - (other["ece"] or 0.0)) < 0.005
            for other in taken
        ):
            chosen[row["method"]] = _STYLES[len(taken)]
            taken.append(row)
    return chosen


def _errors(ax: Any, rows: Sequence[Row], styles: Mapping[str, tuple[str, str]]) -> None:
    """Draw a dot and its intervals for each method, the best on top."""
    done = [row for row in rows if row["error"] is not None]
    most = max((row["high"] for row in done), default=1.0)
    baseline = next((row["error"] for row in done if row["method"] == "majority"), None)
    if baseline is not None:
        ax.axvline(baseline, color=_PALE, linewidth=1.2, linestyle=(0, (4, 3)), zorder=0)
    for y, row in enumerate(rows):
        if row["error"] is None:
            ax.text(0.01 * most, y, row["status"], style="italic", va="center", **_SMALL)
            continue
        colour, marker = styles.get(row["method"], (_GREY, "o"))
        ax.plot([row["low"], row["high"]], [y, y], color=colour, linewidth=1.4, alpha=0.45, solid_capstyle="butt")
        if row["error_sd"]:
            spread = [max(row["error"] - row["error_sd"], 0.0), row["error"] + row["error_sd"]]
            ax.plot(spread, [y, y], color=colour, linewidth=5, alpha=0.45, solid_capstyle="butt")
        ax.plot(row["error"], y, marker, color=colour, markersize=6)
        aside = "" if row["status"] == "done" else f"  ({row['status']})"
        place = row["high"] + 0.015 * most, y
        # a white background, over the line of majority voting
        ground = {"facecolor": "white", "linewidth": 0, "pad": 0.8}
        ax.text(*place, f"{row['error']:.2f}{aside}", va="center_baseline", **_SMALL, bbox=ground, zorder=2)
    ax.set_yticks(range(len(rows)), [row["method"] for row in rows])
    for row, text in zip(rows, ax.get_yticklabels(), strict=True):
        text.set_color(styles[row["method"]][0] if row["method"] in styles else "#374151")
    ax.set_xlim(0.0, 1.14 * most)
    _clear(ax, len(rows))
    _explain(ax, "wrong labels, percent", "thin: 95 % interval over items; thick: ± one standard deviation over seeds")


def _calibration_errors(ax: Any, rows: Sequence[Row], styles: Mapping[str, tuple[str, str]]) -> None:
    """Draw a dot for each method, in the rows of the errors."""
    most = max((row["ece"] for row in rows if row["ece"] is not None), default=0.1)
    for y, row in enumerate(rows):
        if row["ece"] is not None:
            colour, marker = styles.get(row["method"], (_GREY, "o"))
            ax.plot([0, row["ece"]], [y, y], color=colour, linewidth=1.4, alpha=0.45, solid_capstyle="butt")
            ax.plot(row["ece"], y, marker, color=colour, markersize=6)
            ax.text(row["ece"] + 0.06 * most, y, f"{row['ece']:.3f}", va="center_baseline", **_SMALL)
    ax.set_yticks([])
    ax.set_xlim(0.0, 1.35 * max(most, 0.01))
    _clear(ax, len(rows))
    _explain(ax, "expected calibration error", "0: confidence is accuracy")


def _clear(ax: Any, n: int) -> None:
    ax.set_ylim(n - 0.4, -0.6)
    ax.grid(axis="x", color="0.93", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=9)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _explain(ax: Any, label: str, small: str) -> None:
    ax.set_xlabel(label, fontsize=9.5)
    ax.annotate(
        small,
        (0.5, 0),
        (0, -35),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=7.5,
        color=_GREY,
    )


def _reliability(
    ax: Any,
    rows: Sequence[Row],
    bins: Mapping[str, Sequence[Row]],
    styles: Mapping[str, tuple[str, str]],
    facts: Row,
) -> None:
    """Draw accuracy over confidence; methods without a style are grey."""
    ax.plot([0, 1], [0, 1], color=_GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    lowest = 1.0
    # grey lines first, below the coloured ones
    for row in sorted(rows, key=lambda r: r["method"] in styles):
        runs = max(row["runs"], 1)
        shown = [b for b in bins.get(row["method"], ()) if b["count"] >= _FEW * runs]
        shown = shown or [b for b in bins.get(row["method"], ()) if b["count"]]
        if not shown:
            continue
        x, y = [b["confidence"] for b in shown], [b["accuracy"] for b in shown]
        lowest = min(lowest, *x, *y)
        if row["method"] not in styles:
            ax.plot(x, y, color=_PALE, linewidth=1, zorder=1.5)
            continue
        colour, marker = styles[row["method"]]
        share = [b["count"] / (runs * facts["judged"]) for b in shown]
        ax.plot(x, y, color=colour, linewidth=1.3, alpha=0.8, zorder=3)
        ax.scatter(x, y, [14 + 150 * s for s in share], color=colour, marker=marker, alpha=0.8, linewidth=0, zorder=3)
        ax.plot([], [], marker=marker, color=colour, linewidth=1.3, markersize=5, label=row["method"])
    start = max(0.0, min(0.9, 0.1 * int(10 * lowest)))
    ax.set_xlim(start, 1.0 + 0.03 * (1 - start))
    ax.set_ylim(start, 1.0 + 0.03 * (1 - start))
    ax.set_aspect("equal", adjustable="box", anchor="N")
    _explain(ax, "confidence of the label", "bins of ten items and more; large: many items")
    ax.set_ylabel("share of right labels", fontsize=9.5)
    ax.text(0.97, 0.04, "below the diagonal: overconfident", transform=ax.transAxes, ha="right", **_SMALL)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=8.5, loc="upper left")
    ax.tick_params(labelsize=9)
    ax.grid(color="0.93", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
