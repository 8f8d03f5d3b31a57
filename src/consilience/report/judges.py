"""The page of an audit: whom to keep, what cannot be known, errors, families, what moves verdicts."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.audit.result import CLEAR, Audit, rows_of
from consilience.data.names import count, marked, percent, shown
from consilience.report.svg import Frame, element, picture, ticks

__all__ = ["audit_content"]

#: Limits on judges, families and their members, and effects that are listed.
_MOST, _FAMILIES, _NAMES, _EFFECTS = 500, 30, 12, 300


def audit_content(audit: Audit) -> dict[str, Any]:
    """Return what the template of audits shows."""
    judges = rows_of(audit.judges)
    panels = [] if audit.panels is None else rows_of(audit.panels)
    effects = sorted(rows_of(audit.effects), key=lambda row: (row["p"], -abs(row["points"])))
    n_clear = sum(row["p"] < CLEAR for row in effects)
    limits = " ".join(audit.limits)
    worth = None if audit.effective is None else f"{audit.effective:.1f}"
    return {
        "at": "",
        "verdict": {
            "kind": "identified" if panels else "weakly",
            "headline": _headline(audit, panels, worth),
            "sentences": [limits, *_sentences(audit, panels)],
        },
        "warnings": [],
        "tiles": _tiles(audit, len(judges), panels, n_clear, len(effects), worth),
        "picture": _picture(judges, panels) if panels else None,
        "by_cost": bool(panels) and "cost" in panels[0],
        "columns": {name: name in judges[0] for name in ("error", "cost", "refused", "changed_without")},
        "judges": [_judge(row) for row in sorted(judges, key=_best_first)[:_MOST]],
        "families": [_family(row) for row in rows_of(audit.families)[:_FAMILIES]],
        "clear": [_effect(row) for row in effects[: min(n_clear, _EFFECTS)]],
        "unclear": [_effect(row) for row in effects[n_clear : n_clear + _EFFECTS]],
        "by_class": any(row["class"] for row in effects),
        "n_effects": len(effects),
        "n_clear": n_clear,
        "level": f"{audit.level:.0%}".replace("%", "\u00a0%"),
    }


def _headline(audit: Audit, panels: list[dict[str, Any]], worth: str | None) -> str:
    n = len(rows_of(audit.judges))
    first = f"{n} judges" if worth is None else f"{n} judges are worth {audit.at_most}{worth} independent ones"
    if not panels:
        return f"{first}. Which of them to keep is unknown without known answers."
    keep = len(audit.panel)
    return f"{first}. Keep {'all' if keep == n else keep}."


def _sentences(audit: Audit, panels: list[dict[str, Any]]) -> list[str]:
    if not panels:
        return []
    chosen, everyone = next(row for row in panels if row["smallest"]), panels[-1]
    names = ", ".join(shown(name, 40) for name in audit.panel[:20])
    more = f" and {len(audit.panel) - 20} more" if len(audit.panel) > 20 else ""
    cost = ""
    if "cost" in chosen:
        all_cost = "" if chosen is everyone else f", with all judges {everyone['cost']:.3g}"
        cost = f" An item costs {chosen['cost']:.3g}{all_cost}."
    if chosen is everyone:
        return [
            f"Their vote is wrong on {percent(chosen['error'])} ({percent(chosen['low'])} to "
            f"{percent(chosen['high'])}); no smaller panel is within half a point of it.{cost}"
        ]
    return [
        f"The vote of the smallest panel within half a point of the best is wrong on {percent(chosen['error'])} "
        f"({percent(chosen['low'])} to {percent(chosen['high'])}, cross-validated), that of all judges on "
        f"{percent(everyone['error'])}.{cost}",
        f"Keep: {names}{more}.",
    ]


def _tiles(
    audit: Audit, n: int, panels: list[dict[str, Any]], n_clear: int, n_effects: int, worth: str | None
) -> list[dict[str, str]]:
    kept = next((row for row in panels if row["smallest"]), None)
    found = [
        ("Judges", count(n), "" if kept is None else f"{kept['size']} to keep"),
        ("Worth", "–" if worth is None else f"{'≤ ' if audit.at_most else ''}{worth}", "independent judges"),
        ("Items", count(audit.items), ""),
        ("Known answers", count(audit.known), "" if audit.known else "50 to 100 would help"),
        ("Error", percent(None if kept is None else kept["error"]), "of the panel to keep"),
        ("Clear effects", count(n_clear), f"of {count(n_effects)} tested"),
    ]
    return [dict(zip(("what", "value", "note"), tile, strict=True)) for tile in found]


def _best_first(row: dict[str, Any]) -> tuple[float, str]:
    error = row.get("error")
    worst = 1.0 - row["accuracy"] if error is None or error != error else error
    return (worst if worst == worst else 2.0, str(row["judge"]))


def _judge(row: dict[str, Any]) -> dict[str, Any]:
    error, accuracy = row.get("error"), row["accuracy"]
    known = error is not None and error == error
    more = row.get("more_errors_without")
    change = "" if more is None or more != more else f" ({100 * more:+.1f} points of error)".replace("-", "−")
    return {
        "name": marked(row["judge"]),
        "error": f"{percent(error)} ({percent(row['error_low'])} to {percent(row['error_high'])})" if known else "–",
        "order": error if known else 2,
        "accuracy": percent(accuracy),
        "labels": count(row["n_labels"]),
        "family": row["family"] or "",
        "cost": f"{row['cost']:g}" if "cost" in row else "",
        "refused": percent(row["refused"]) if "refused" in row else "",
        "changed": f"{percent(row['changed_without'])}{change}" if "changed_without" in row else "",
        "keep": bool(row.get("keep")),
        "bias": shown(row["bias"], 80) if row["bias"] else "",
    }


def _family(row: dict[str, Any]) -> tuple[str, str, str, str]:
    names = row["judges"].split(", ")
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    listed = ", ".join(shown(name, 40) for name in names[:_NAMES])
    return str(row["family"]), count(row["size"]), f"{row['correlation']:.2f}", listed + more


def _effect(row: dict[str, Any]) -> dict[str, Any]:
    def points(value: float) -> str:
        return f"{value:+.1f}".replace("-", "−")

    return {
        "effect": row["effect"],
        "judge": marked(row["judge"]),
        "class": shown(row["class"], 40) if row["class"] else "",
        "against": row["against"],
        "points": points(row["points"]),
        "range": f"{points(row['low'])} to {points(row['high'])}",
        "p": "< 0.001" if row["p"] < 0.001 else f"{row['p']:.3f}",
        "order": row["p"],
    }


def _picture(judges: list[dict[str, Any]], panels: list[dict[str, Any]]) -> Any:
    """Draw the error of each judge and of each panel against the cost of an item, or the labels of an item."""
    cost = "cost" if "cost" in panels[0] else "size"
    own = [(row.get("cost", 1.0), row["error"]) for row in judges if row["error"] == row["error"]]
    places = np.array([at for at, _ in own] + [row[cost] for row in panels], np.float64)
    least, most = float(places[places > 0].min(initial=1.0)), float(places.max())
    logs = most > 20 * least

    def at(value: float) -> float:
        return float(np.log10(max(value, least))) if logs else float(value)

    top = max(row["high"] for row in panels)
    top = 100 * max(top, *(error for _, error in own))
    room = 0.05 * (at(most) - at(least)) or 0.5
    low = at(least) - room if logs else 0.0
    frame = Frame(440.0, 260.0, (low, at(most) + room), (0.0, 1.05 * top), margins=(26.0, 14.0, 40.0, 34.0))
    powers = [10.0**k for k in range(int(np.ceil(at(least))), int(np.floor(at(most))) + 1)] if logs else []
    marks = powers or ticks(least, most, 5)
    what = "cost of an item" if cost == "cost" else "labels of an item"
    drawn = frame.axes([], ticks(0.0, top, 5), what, "wrong, %")
    for value in marks:
        place = {"x": frame.x(at(value)), "y": frame.bottom + 15, "class_": "tick", "text_anchor": "middle"}
        drawn.append(element("text", f"{value:g}", **place))
    for price, error in own:
        drawn.append(element("circle", cx=frame.x(at(price)), cy=frame.y(100 * error), r=2.5, class_="dot few"))
    for row in panels:
        x = frame.x(at(row[cost]))
        ends = f"{x:.1f},{frame.y(100 * row['low']):.1f} {x:.1f},{frame.y(100 * row['high']):.1f}"
        drawn.append(element("polyline", points=ends, class_="grid"))
    for row in panels:
        radius = 5.0 if row["smallest"] else 2.5
        drawn.append(
            element("circle", cx=frame.x(at(row[cost])), cy=frame.y(100 * row["error"]), r=radius, class_="dot")
        )
    return picture(frame.width, frame.height, *drawn, label=f"Error of judges and panels against the {what}")
