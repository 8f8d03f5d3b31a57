"""Small SVG drawings: elements with escaped attributes and text, and axes for charts.

The view box of a chart is narrow, so that its text stays legible on a phone.  Colours come from the style sheet of the
page, by class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from markupsafe import Markup, escape

__all__ = ["Frame", "bar", "confusion", "element", "interval", "picture", "ticks"]

#: Number of shades of a cell, beside white.
_SHADES = 10


def element(tag: str, *children: Any, **attributes: Any) -> Markup:
    """Return an element; ``class_`` is the attribute class, ``fill_opacity`` is fill-opacity."""
    made = "".join(
        f' {name.rstrip("_").replace("_", "-") if name != "viewBox" else name}="{escape(_text(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inner = "".join(str(escape(child)) for child in children)
    return Markup(f"<{tag}{made}>{inner}</{tag}>" if inner else f"<{tag}{made}/>")


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{round(float(value), 2) + 0.0:g}"
    return str(value)


def picture(width: float, height: float, *children: Any, label: str, class_: str = "chart") -> Markup:
    """Return a whole drawing, with a text alternative."""
    return element("svg", *children, viewBox=f"0 0 {width:g} {height:g}", class_=class_, role="img", aria_label=label)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers that divide a range into at most so many parts."""
    if not high > low:
        return [low]
    step = 10.0 ** np.floor(np.log10((high - low) / most))
    step = next(step * f for f in (1, 2, 5, 10, 20) if (high - low) / (step * f) <= most)
    first = np.ceil(low / step - 1e-9)
    return [round(float(k * step), 10) + 0.0 for k in np.arange(first, np.floor(high / step + 1e-9) + 1)]


class Frame:
    """The area of a chart within its drawing: converts values to coordinates."""

    def __init__(
        self,
        width: float,
        height: float,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        margins: tuple[float, float, float, float],
    ) -> None:
        top, right, bottom, left = margins
        self.width, self.height, self._x, self._y = width, height, x, y
        self.left, self.right, self.top, self.bottom = left, width - right, top, height - bottom

    def x(self, value: float) -> float:
        """Return the x coordinate of a value."""
        low, high = self._x
        return self.left + (self.right - self.left) * (value - low) / (high - low if high > low else 1.0)

    def y(self, value: float) -> float:
        """Return the y coordinate of a value."""
        low, high = self._y
        return self.bottom - (self.bottom - self.top) * (value - low) / (high - low if high > low else 1.0)

    def axes(
        self,
        x_ticks: Iterable[float],
        y_ticks: Iterable[float],
        x_label: str,
        y_label: str,
        y_form: Callable[[float], str] = "{:g}".format,
    ) -> list[Markup]:
        """Return grid lines, tick labels and the names of both axes."""
        drawn = []
        for value in y_ticks:
            at = self.y(value)
            drawn.append(element("line", x1=self.left, x2=self.right, y1=at, y2=at, class_="grid"))
            drawn.append(element("text", y_form(value), x=self.left - 6, y=at + 4, class_="tick", text_anchor="end"))
        for value in x_ticks:
            place = {"x": self.x(value), "y": self.bottom + 15, "class_": "tick", "text_anchor": "middle"}
            drawn.append(element("text", f"{value:g}", **place))
        middle = (self.left + self.right) / 2
        drawn.append(element("text", x_label, x=middle, y=self.bottom + 31, class_="axis", text_anchor="middle"))
        drawn.append(element("text", y_label, x=2, y=self.top - 12, class_="axis"))
        drawn.append(element("line", x1=self.left, x2=self.right, y1=self.bottom, y2=self.bottom, class_="base"))
        return drawn


def bar(share: float) -> Markup:
    """Draw a share of one as a bar."""
    parts = element("rect", width=100, height=8, class_="track"), element("rect", width=100 * share, height=8)
    return element("svg", *parts, viewBox="0 0 100 8", preserveAspectRatio="none", class_="bar", aria_hidden="true")


def interval(value: float, low: float, high: float) -> Markup:
    """Draw a value between 0 and 1 as a dot on its interval."""
    x, a, b = 4 + 72 * value, 4 + 72 * low, 4 + 72 * high
    d = f"M{_text(a)} 6H{_text(b)}"
    return element(
        "svg",
        element("path", d="M4 6H76", class_="track"),
        element("path", d=d),
        element("circle", cx=x, cy=6, r=3),
        viewBox="0 0 80 12",
        class_="interval",
        aria_hidden="true",
    )


def confusion(matrix: Any, label: str) -> Markup:
    """Draw probabilities (K, K) as shaded cells, with the diagonal (right answers) in another colour.

    Cells of one shade are one path, so that a page with a thousand matrices stays small.
    """
    K = len(matrix)
    shade = np.clip(np.rint(np.asarray(matrix, float) * _SHADES), 0, _SHADES).astype(int)
    paths: dict[tuple[str, int], list[str]] = {}
    for i, k in zip(*(axis.tolist() for axis in np.nonzero(shade)), strict=True):
        paths.setdefault(("r" if i == k else "w", int(shade[i, k])), []).append(f"M{k} {i}h1v1h-1z")
    drawn = [element("path", class_=f"{kind}{s}", d="".join(d)) for (kind, s), d in sorted(paths.items())]
    ground = element("path", class_="ground", d=f"M0 0h{K}v{K}h-{K}z")
    return element("svg", ground, *drawn, viewBox=f"0 0 {K} {K}", class_="matrix", role="img", aria_label=label)
