"""The report of a run over numbers: verdict, expected error, items with their intervals, annotators, slips."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data.names import count, marked, percent, shown
from consilience.exceptions import DataError
from consilience.report.overview import computed, sentence
from consilience.report.svg import Frame, element, picture, ticks
from consilience.report.view import View
from consilience.runs.numeric_run import NumericRun, values_by_item

__all__ = ["numeric_content"]

#: Limits on annotators and slips that are listed, on the bars of the picture, and on the sentences of the verdict.
_MOST, _BARS, _SENTENCES = 500, 120, 8


def numeric_content(view: View, truth: Any, items: int) -> dict[str, Any]:
    """Return what the template of numbers shows."""
    run: Any = view.consensus
    assert isinstance(run, NumericRun)
    known = None
    if truth is not None:
        known = values_by_item(truth, run.item_ids, run.origin.item, "truth")
        if not (np.isfinite(known) & np.isfinite(run.value)).any():
            raise DataError("no item has both a truth and a value: leave the truth out, or check its ids")
    return {
        "at": "",
        "verdict": _verdict(view),
        "tiles": _tiles(run, truth),
        "items": _items(run, known, items),
        "measured": known is not None,
        "picture": _picture(run),
        "annotators": _annotators(run),
        "slips": _slips(run),
        "computed": computed(view),
        "warnings": [sentence(text) for text in run.warnings[:50]],
    }


def _verdict(view: View) -> dict[str, Any]:
    """Return the verdict with its reasons and advice, or why there is none."""
    found = view.diagnosis
    if found is None:
        return {"kind": "none", "headline": "No verdict on these labels.", "sentences": [view.no_diagnosis]}
    sentences = [shown(text, 400) for text in (*found.reasons, *found.advice)[:_SENTENCES]]
    return {"kind": found.verdict, "headline": found.headline, "sentences": sentences}


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−") if np.isfinite(value) else ""


def _tiles(run: NumericRun, truth: Any) -> list[dict[str, str]]:
    record, error = run.run, run.estimated_error
    missing = int((~np.isfinite(run.value)).sum())
    flagged = sum(flag not in ("", "few labels") for flag in run.annotator_columns["flags"].to_pylist())
    each = record["labels"] / max(record["N"], 1)
    found = [
        ("Items", count(record["N"]), f"{count(missing)} without answers" if missing else ""),
        ("Labels", count(record["labels"]), f"{each:.1f} for each item"),
        ("Annotators", count(record["M"]), f"{count(flagged)} flagged" if flagged else ""),
        ("Expected error", _number(error.value), f"{_number(error.low)} to {_number(error.high)}, from {error.basis}"),
        ("Correlation", f"{record['correlation']:.2f}", "of two answers to an item"),
        ("Slips", count(record["slips"]), "answers that were left out"),
    ]
    if truth is not None:
        judged = run.errors(truth)
        note = f"root mean square {_number(judged.root_mean_square)}; {percent(judged.covered)} within the intervals"
        found.insert(3, ("Mean absolute error", _number(judged.mean_absolute), note))
    return [dict(zip(("what", "value", "note"), tile, strict=True)) for tile in found]


def _items(run: NumericRun, known: Any, most: int) -> list[dict[str, Any]]:
    width = np.where(np.isfinite(run.value), run.high - run.low, -1.0)
    order = np.argsort(-width, kind="stable")[: min(most, int((width >= 0).sum()))]
    return [
        {
            "name": marked(run.item_ids[n]),
            "value": _number(run.value[n]),
            "range": f"{_number(run.low[n])} to {_number(run.high[n])}",
            "labels": count(run.n_labels[n]),
            "truth": "" if known is None else _number(known[n]),
            "outside": known is not None and not run.low[n] <= known[n] <= run.high[n] and np.isfinite(known[n]),
        }
        for n in order.tolist()
    ]


def _annotators(run: NumericRun) -> list[dict[str, Any]]:
    model, flags = run.model, run.annotator_columns["flags"].to_pylist()
    order = np.argsort(-run.counts[:, 0], kind="stable")[:_MOST]
    return [
        {
            "name": marked(model.annotators[m]),
            "labels": count(run.counts[m, 0]),
            "bias": _number(model.bias[m]),
            "scale": f"{model.scale[m]:.2f}".replace("-", "−"),
            "noise": _number(model.noise[m]),
            "flags": [part for part in flags[m].split("; ") if part],
        }
        for m in order.tolist()
    ]


def _slips(run: NumericRun) -> list[list[Any]]:
    if run.annotations is None:
        return []
    columns = run.answer_columns
    at = np.flatnonzero(run.factor > 0)[:_MOST]
    item = np.repeat(np.arange(len(run.item_ids)), run.n_labels)[at]
    names = [columns[name].take(at).to_pylist() for name in list(columns)[:3]]
    flags = columns["flag"].take(at).to_pylist()
    rows = zip(*names, run.value[item].tolist(), flags, strict=True)
    return [[marked(i), marked(m), shown(y), _number(v), flag] for i, m, y, v, flag in rows]


def _picture(run: NumericRun) -> Any:
    """Draw the values in ascending order with their intervals, at most ``_BARS`` of them."""
    there = np.flatnonzero(np.isfinite(run.value))
    if there.size < 2:
        return None
    order = there[np.argsort(run.value[there], kind="stable")]
    some = order[np.unique(np.linspace(0, order.size - 1, min(_BARS, order.size)).astype(int))]
    low, high = float(run.low[some].min()), float(run.high[some].max())
    room = 0.04 * (high - low) or 1.0
    frame = Frame(760, 240, (0.0, float(some.size - 1)), (low - room, high + room), margins=(30, 14, 36, 64))
    drawn = frame.axes([], ticks(low, high, 5), "items, in order of their values", "value")
    for x, n in enumerate(some.tolist()):
        at = frame.x(float(x))
        ends = (at, frame.y(float(run.low[n]))), (at, frame.y(float(run.high[n])))
        drawn.append(element("polyline", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in ends), class_="line"))
        drawn.append(element("circle", cx=at, cy=frame.y(float(run.value[n])), r=2.0, class_="dot"))
    return picture(760, 240, *drawn, label="Values of items with 90% intervals")
