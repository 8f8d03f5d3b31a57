"""Sections on the run as a whole: the verdict, headline numbers, classes, convergence, and how it was computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from consilience.data.names import count, marked, percent, shown
from consilience.diagnose import Diagnosis
from consilience.diagnose.decision import Attention, Decision, Part, not_estimated, too_vague
from consilience.report.svg import Frame, bar, confusion, element, picture, ticks
from consilience.report.view import View

__all__ = ["class_rows", "computed", "convergence", "sentence", "tiles", "transitions", "verdict"]

#: Confidence from which a label counts as sure.
_SURE = 0.95
_MOST_CLASSES = 20
#: Annotators whose errors are worth at least this share of them are not said to err together.
_SHARED = 0.9
#: Limits on reasons and pieces of advice, and on the points of a curve.
_MOST_SENTENCES, _MOST_POINTS = 40, 200
#: Limits on the advice and on the names in sight.
_MOST_ADVICE, _MOST_NAMES = 3, 8
#: Entries of the summary that the page shows elsewhere.
_ELSEWHERE = frozenset(
    (
        *("N", "M", "K", "labels", "history", "warnings", "why", "parameters", "error_rate", "error_items", "spans"),
        *("method", "chosen", "question", "source"),
    )
)
_WORDS: Mapping[str, str] = {
    "chosen_by": "method chosen by",
    "gold_items": "known answers (gold)",
    "iterations": "passes over the data",
    "log_likelihood": "log-likelihood",
    "seconds": "seconds of the fit",
}


def verdict(view: View, decision: Decision) -> dict[str, Any]:
    """Return what to do, the verdict, and its reasons, or why there is none."""
    found = view.diagnosis
    reasons = [] if found is None else [shown(reason, 400) for reason in found.reasons[:_MOST_SENTENCES]]
    # the heading of the row says "Collect"
    advice = (sentence.removeprefix("Collect ") for sentence in decision.collect[:_MOST_SENTENCES])
    collect = [shown(sentence[:1].upper() + sentence[1:], 400) for sentence in advice]
    note = view.no_diagnosis
    if isinstance(found, Diagnosis) and not found.stability.draws:
        note = "The bootstrap over items was left out, to save time."
    return {
        "kind": decision.tone,
        "headline": decision.headline or "No verdict on these labels.",
        "second": decision.second,
        "reason": shown(decision.reason, 400) if decision.reason else "",
        "sentences": [decision.error, *decision.measured],
        "parts": [_part(part) for part in decision.parts],
        "people": [_people(each) for each in decision.attention if each.talk],
        "collect": collect[:_MOST_ADVICE],
        "reasons": reasons,
        "more": collect[_MOST_ADVICE:],
        "note": note,
    }


def _part(part: Part) -> tuple[str, str, str]:
    """Return what to do with some items, how many they are, and what is known of them."""
    if part.verb == "label":
        return "Label", count(part.items), "item that has no label" if part.items == 1 else "items that have no label"
    labels = f"label{'s' * (part.items != 1)}"
    wrong = "" if part.wrong is None else f", about {percent(part.wrong, 0)} wrong"
    return part.verb.capitalize(), count(part.items), labels + wrong


def _people(each: Attention) -> dict[str, Any]:
    names = [marked(name, 32) for name in each.names[:_MOST_NAMES]]
    return {"what": each.what, "names": names, "more": len(each.names) - len(names)}


def tiles(view: View, flagged: int) -> list[dict[str, str]]:
    """Return the headline numbers, each with its name and a remark."""
    run, labelled = view.consensus.run, int(view.labelled.sum())
    what = "Items" if view.sequences is None else "Tokens"
    missing = run["N"] - labelled
    each = run["labels"] / max(run["N"], 1)
    sure = int((view.confidence[view.labelled] >= _SURE).sum())
    error = view.consensus.estimated_error
    between = f"{percent(error.low, 0)} to {percent(error.high, 0)}, from {error.basis}"
    value = "?" if too_vague(error) else percent(error.value, 0)
    if reason := not_estimated(run):
        value, between = "–", reason
    found = [
        _tile(what, count(run["N"]), f"{count(missing)} without a label" if missing else ""),
        _tile("Labels", count(run["labels"]), f"{each:.1f} for each {what.lower()[:-1]}"),
        _tile("Annotators", count(run["M"]), _of_annotators(view, flagged)),
        _tile("Estimated error", value, between),
        _tile(f"Sure {what.lower()}", percent(sure / labelled if labelled else None), f"{count(sure)} at 95% or more"),
    ]
    agreed = None if view.diagnosis is None else view.diagnosis.agreement
    if agreed is not None and agreed.alpha.value is not None and agreed.alpha.value == agreed.alpha.value:
        note = "Krippendorff's α: 1 is perfect, 0 is chance"
        found.append(_tile("Agreement", f"{agreed.alpha.value:.2f}".replace("-", "−"), note))
    if view.sequences is not None:
        sequences = view.sequences.n_sequences
        found[0]["note"] = f"in {count(sequences)} sequence{'' if sequences == 1 else 's'}"
    if view.truth is not None:
        judged = int(view.judged.sum())
        found.insert(3, _tile("Error", percent(view.error), f"of {count(judged)} with known truth"))
    return found


def _tile(what: str, value: str, note: str) -> dict[str, str]:
    return {"what": what, "value": value, "note": note}


def _of_annotators(view: View, flagged: int) -> str:
    worth = view.consensus.effective_annotators
    notes = [f"{count(flagged)} flagged"] if flagged else []
    if worth is not None and worth < _SHARED * view.consensus.run["M"]:
        notes.append(f"err together, like {worth:.1f} independent ones")
    return ", ".join(notes)


def sentence(text: str) -> str:
    """Return a warning as a sentence."""
    text = shown(text, 600)
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def class_rows(view: View) -> tuple[list[dict[str, Any]], str]:
    """Return a row for each class (if there are many, for the most frequent) and what was left out."""
    consensus = view.consensus
    if view.is_open:
        return [], ""
    K = len(consensus.model.classes)
    items = np.bincount(consensus.choice.best[view.labelled], minlength=K)
    expected = consensus.posterior.sum(axis=0, where=view.labelled[:, None])
    order = np.argsort(-items, kind="stable")[:_MOST_CLASSES] if K > _MOST_CLASSES else np.arange(K)
    total = max(int(items.sum()), 1)
    most = max(float(items.max()), 1.0)
    rows = [
        {
            "name": marked(consensus.model.classes[k]),
            "items": count(items[k]),
            "share": percent(items[k] / total),
            "expected": f"{expected[k]:,.1f}",
            "bar": bar(items[k] / most),
        }
        for k in order.tolist()
    ]
    rest = f"{count(K - order.size)} more classes with {count(items.sum() - items[order].sum())} items"
    return rows, rest if order.size < K else ""


def transitions(view: View) -> dict[str, Any] | None:
    """Return the transition matrix of sequences."""
    run: Any = view.consensus
    if view.sequences is None or len(run.model.classes) > _MOST_CLASSES:
        return None
    label = "Probability of each class (rows) after each class (columns)"
    names = [marked(name, 24) for name in run.model.classes]
    values = [[f"{p:.2f}".removeprefix("0") if p >= 0.005 else "" for p in row] for row in run.transitions]
    return {"picture": confusion(run.transitions, label), "names": names, "rows": values}


def convergence(view: View) -> dict[str, Any]:
    """Draw the objective after every pass, and say whether the fit converged."""
    run = view.consensus.run
    values = np.asarray(run.get("history") or [], float)
    passes = np.arange(1, values.size + 1)
    passes, values = passes[np.isfinite(values)], values[np.isfinite(values)]
    if not run.get("iterations"):
        sentence = "This method needs no passes over the data."
    elif run["converged"]:
        sentence = f"Converged after {count(run['iterations'])} passes: the tolerance was met."
    else:
        sentence = f"Not converged: the limit of {count(run['iterations'])} passes was reached before the tolerance."
    drawn = _curve(passes, values) if values.size > 1 else None
    return {"picture": drawn, "sentence": sentence, "converged": bool(run["converged"])}


def _curve(passes: Any, values: Any) -> Markup:
    if passes.size > _MOST_POINTS:
        some = np.unique(np.linspace(0, passes.size - 1, _MOST_POINTS).astype(int))
        passes, values = passes[some], values[some]
    low, high = float(values.min()), float(values.max())
    room = 0.04 * (high - low) or max(abs(high), 1.0) * 0.01
    frame = Frame(420, 200, (float(passes[0]), float(passes[-1])), (low - room, high + room), margins=(28, 14, 36, 78))
    marks = [v for v in ticks(float(passes[0]), float(passes[-1]), 6) if v == int(v)]
    digits = max(0, int(np.ceil(-np.log10(max(high - low, 1e-9) / 4))))
    drawn = frame.axes(
        marks, ticks(low, high, 4), "pass over the data", "objective", y_form=lambda v: f"{v:,.{digits}f}"
    )
    points = [(frame.x(float(x)), frame.y(float(y))) for x, y in zip(passes, values, strict=True)]
    drawn.append(element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_="line"))
    if len(points) <= 40:
        drawn += [element("circle", cx=x, cy=y, r=2.4, class_="dot") for x, y in points]
    return picture(420, 200, *drawn, label="Objective after every pass over the data")


def computed(view: View) -> list[tuple[str, str]]:
    """Return how the run was computed: method, parameters, seed and the figures of the method."""
    run = view.consensus.run
    method = str(run["method"]) + (f" ({run['chosen']})" if run.get("chosen") not in (None, run["method"]) else "")
    rows = [("method", method)]
    if run.get("why"):
        rows.append(("why", shown(run["why"], 600)))
    parameters = ", ".join(f"{name} = {_value(value)}" for name, value in run.get("parameters", {}).items())
    rows.append(("parameters", shown(parameters, 600) if parameters else "defaults"))
    for name, value in run.items():
        if name not in _ELSEWHERE and isinstance(value, str | int | float | bool):
            rows.append((_WORDS.get(name, name.replace("_", " ")), shown(_value(value), 200)))
    return rows


def _value(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float) and math.isfinite(value):
        text = f"{value:,.4f}".rstrip("0").rstrip(".") if abs(value) >= 1e-3 or value == 0 else f"{value:.3g}"
        return text.replace("-", "−")
    return str(value)
