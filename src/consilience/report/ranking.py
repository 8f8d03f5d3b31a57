"""The report of a ranking: whether the order can be trusted, scores, win rates, judges, and what to compare next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data.names import count, marked, percent, shown
from consilience.ranking.result import Ranking
from consilience.report.svg import Frame, element, picture, ticks

__all__ = ["ranking_content"]

#: Limits on items and judges that are listed, on items in the picture and in the table of win rates, and on pairs.
_MOST, _BARS, _COLUMNS, _PAIRS = 500, 40, 12, 30
#: Share of differences between scores that is not chance, from which an order is clear, and below which it is open.
_CLEAR, _OPEN = 0.9, 0.5


def ranking_content(ranking: Ranking, items: int) -> dict[str, Any]:
    """Return what the template of rankings shows; at most ``items`` pairs to compare next."""
    scores = _rows(ranking, "scores")
    return {
        "at": "",
        "verdict": _verdict(ranking),
        "tiles": _tiles(ranking),
        "picture": _picture(scores),
        "scores": _scores(scores),
        "grouped": ranking.n_groups > 1,
        "rates": _rates(ranking, scores),
        "judges": _judges(ranking),
        "close": _close(ranking),
        "n_close": int(ranking.close[0].size),
        "next": [
            (marked(row["item"]), marked(row["other"]), shown(row["reason"], 200))
            for row in _rows(ranking, "next_comparisons")[:items]
        ],
        "computed": _computed(ranking),
        "warnings": [shown(note, 400) for note in ranking.notes[:50]],
    }


def _rows(ranking: Ranking, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(ranking.columns(name)).slice(0, _MOST).to_pylist()
    return rows


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _verdict(ranking: Ranking) -> dict[str, Any]:
    sure = ranking.reliability
    kind = "not" if ranking.n_groups > 1 or sure < _OPEN else "identified" if sure >= _CLEAR else "weakly"
    sentences = [ranking.best, *ranking.advice]
    return {"kind": kind, "headline": shown(ranking.headline, 400), "sentences": [shown(s, 400) for s in sentences]}


def _tiles(ranking: Ranking) -> list[dict[str, str]]:
    data = ranking.comparisons
    flagged = sum(bool(flags) for flags in ranking.columns("judges")["flags"])
    ties = int((data.outcome == 0).sum())
    found = [
        ("Items", count(data.n_items), f"in {ranking.n_groups} groups" if ranking.n_groups > 1 else ""),
        ("Comparisons", count(data.n_comparisons), f"{2 * data.n_comparisons / data.n_items:.1f} for each item"),
        ("Judges", count(data.n_judges), f"{count(flagged)} flagged" if flagged else ""),
        ("Ties", percent(ties / data.n_comparisons), "of the comparisons"),
        ("Not chance", percent(ranking.reliability), "of the differences between scores"),
        ("Open pairs", count(ranking.close[0].size), "whose order is not clear"),
    ]
    return [dict(zip(("what", "value", "note"), tile, strict=True)) for tile in found]


def _picture(scores: list[dict[str, Any]]) -> Any:
    """Draw the scores of the first items with their intervals, the best first."""
    some = scores[:_BARS]
    if len(some) < 2:
        return None
    low, high = min(row["low"] for row in some), max(row["high"] for row in some)
    room = 0.04 * (high - low) or 1.0
    names = [shown(row["item"], 24) for row in some]
    width, height = 420.0, 46.0 + 18.0 * len(some)
    margins = 8.0, 14.0, 36.0, 20.0 + 6.4 * max(map(len, names))
    frame = Frame(width, height, (low - room, high + room), (0.0, float(len(some))), margins=margins)
    drawn = []
    for value in ticks(low, high, 5):
        at = frame.x(value)
        drawn.append(element("line", x1=at, x2=at, y1=frame.top, y2=frame.bottom, class_="grid"))
        text = f"{value:g}".replace("-", "−")
        drawn.append(element("text", text, x=at, y=frame.bottom + 15, class_="tick", text_anchor="middle"))
    for n, row in enumerate(some):
        y = frame.y(len(some) - n - 0.5)
        ends = f"{frame.x(row['low']):.1f},{y:.1f} {frame.x(row['high']):.1f},{y:.1f}"
        drawn.append(element("text", names[n], x=frame.left - 8, y=y + 4, class_="tick", text_anchor="end"))
        drawn.append(element("polyline", points=ends, class_="line"))
        drawn.append(element("circle", cx=frame.x(row["score"]), cy=y, r=3.0, class_="dot"))
    middle = (frame.left + frame.right) / 2
    drawn.append(element("text", "score", x=middle, y=frame.bottom + 31, class_="axis", text_anchor="middle"))
    return picture(width, height, *drawn, label="Scores of the items with 95% intervals, the best first")


def _scores(scores: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "name": marked(row["item"]),
            "score": _number(row["score"]),
            "range": f"{_number(row['low'])} to {_number(row['high'])}",
            "rank": f"{row['rank']} ({row['rank_low']} to {row['rank_high']})",
            "order": row["rank"],
            "win_rate": percent(row["win_rate"]),
            "record": f"{count(row['wins'])} / {count(row['ties'])} / {count(row['losses'])}",
            "group": row.get("group", ""),
        }
        for row in scores
    ]


def _rates(ranking: Ranking, scores: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the expected win rates of every item against every other, if they are few enough."""
    if ranking.n_groups > 1 or len(scores) > _COLUMNS:
        return None
    code = {item: n for n, item in enumerate(ranking.comparisons.item_ids)}
    order = np.array([code[row["item"]] for row in scores])
    table = ranking.expected_win_rates()[np.ix_(order, order)]
    names = [marked(row["item"]) for row in scores]
    rows = [["" if i == j else percent(table[i, j]) for j in range(order.size)] for i in range(order.size)]
    return {"names": names, "rows": list(zip(names, rows, strict=True))}


def _judges(ranking: Ranking) -> list[dict[str, Any]]:
    columns = ranking.columns("judges")
    name = next(iter(columns))
    rows = sorted(pa.table(columns).to_pylist(), key=lambda row: -row["n_comparisons"])[:_MOST]
    return [
        {
            "name": marked(row[name]),
            "comparisons": count(row["n_comparisons"]),
            "reliability": f"{_number(row['reliability'])} ({_number(row['low'])} to {_number(row['high'])})",
            "order": row["reliability"],
            "agreement": "" if row["agreement"] is None else percent(row["agreement"]),
            "left": "" if row.get("left_share") is None else percent(row["left_share"]),
            "longer": "" if row.get("longer_share") is None else percent(row["longer_share"]),
            "flags": [part for part in row["flags"].split(", ") if part],
        }
        for row in rows
    ]


def _close(ranking: Ranking) -> list[tuple[Any, Any, str]]:
    return [
        (marked(row["item"]), marked(row["other"]), percent(row["probability"]))
        for row in _rows(ranking, "indistinguishable")[:_PAIRS]
    ]


def _computed(ranking: Ranking) -> list[tuple[str, str]]:
    run, model = ranking.run, ranking.model
    given = ", ".join(f"{name} = {value}" for name, value in run["parameters"].items())
    rows = [
        ("method", "Bradley-Terry with ties (Davidson), and judges of different reliability"),
        ("parameters", shown(given, 600) if given else "defaults"),
        ("spread of the scores", f"{model.spread:.3g}"),
        ("rounds", str(run["iterations"])),
        ("converged", "yes" if run["converged"] else "no"),
        ("seed", str(run["seed"])),
    ]
    if model.effects.common[1]:
        rows.insert(2, ("preference of the average judge for the left side", f"{model.average[1]:+.3f} in log-odds"))
    if model.effects.common[2]:
        rows.insert(2, ("preference of the average judge for long texts", f"{model.average[2]:+.3f} per log-length"))
    return rows
