"""The top of the report: the verdict, headline numbers, the balance of the classes, and how it was computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from consilience.data.names import count, marked, percent, shown
from consilience.report.svg import bar, confusion
from consilience.report.view import View
from consilience.runs.sequence_run import SequenceRun

__all__ = ["class_rows", "computed", "sentence", "tiles", "transitions", "verdict"]

#: A label this sure can mostly be used as it is.
SURE = 0.95
_MOST_CLASSES = 20
_MOST_TRANSITIONS = 20
#: Reasons and pieces of advice, at most.
_MOST_SENTENCES = 40
#: What the page shows elsewhere.
_ELSEWHERE = frozenset(
    ("N", "M", "K", "labels", "history", "warnings", "why", "parameters", "error_rate", "spans", "method", "chosen")
)
_WORDS: Mapping[str, str] = {
    "chosen_by": "method chosen by",
    "gold_items": "known answers (gold)",
    "iterations": "passes over the data",
    "log_likelihood": "log-likelihood",
    "seconds": "seconds of the fit",
}


def verdict(view: View) -> dict[str, Any]:
    """Give the verdict of the diagnosis in words, or why there is none."""
    found = view.diagnosis
    if found is None:
        said: dict[str, Any] = {"kind": "none", "headline": "No verdict on these labels", "note": view.no_diagnosis}
        return {**said, "reasons": [], "advice": []}
    left_out = "" if found.stability.draws else "The bootstrap over items was left out, to save time."
    return {
        "kind": found.verdict,
        "headline": found.headline,
        "reasons": [shown(reason, 400) for reason in found.reasons[:_MOST_SENTENCES]],
        "advice": [shown(advice, 400) for advice in found.advice[:_MOST_SENTENCES]],
        "note": left_out,
    }


def tiles(view: View, flagged: int) -> list[dict[str, str]]:
    """Give the headline numbers, each with what it is and a remark."""
    run, labelled = view.consensus.run, int(view.labelled.sum())
    what = "Tokens" if isinstance(view.consensus, SequenceRun) else "Items"
    missing = run["N"] - labelled
    each = run["labels"] / max(run["N"], 1)
    sure = int((view.confidence[view.labelled] >= SURE).sum())
    found = [
        {"what": what, "value": count(run["N"]), "note": f"{count(missing)} without a label" if missing else ""},
        {"what": "Labels", "value": count(run["labels"]), "note": f"{each:.1f} for each {what.lower()[:-1]}"},
        {"what": "Annotators", "value": count(run["M"]), "note": _of_annotators(view, flagged)},
        {
            "what": "Estimated error",
            "value": percent(view.estimated_error),
            "note": "of the labels, by their confidence",
        },
        {
            "what": f"Sure {what.lower()}",
            "value": percent(sure / labelled if labelled else None),
            "note": f"{count(sure)} at 95 % or more",
        },
    ]
    agreed = None if view.diagnosis is None else view.diagnosis.agreement
    if agreed is not None and agreed.alpha.value is not None and agreed.alpha.value == agreed.alpha.value:
        note = "Krippendorff's α: 1 is perfect, 0 is chance"
        found.append({"what": "Agreement", "value": f"{agreed.alpha.value:.2f}".replace("-", "−"), "note": note})
    if isinstance(view.consensus, SequenceRun):
        sequences = view.consensus.sequences.n_sequences
        found[0]["note"] = f"in {count(sequences)} sequence{'' if sequences == 1 else 's'}"
    if view.truth is not None:
        judged = int(view.judged.sum())
        found.insert(3, {"what": "Error", "value": percent(view.error), "note": f"of {count(judged)} with known truth"})
    return found


def _of_annotators(view: View, flagged: int) -> str:
    worth = view.consensus.effective_annotators
    said = [f"{count(flagged)} flagged"] if flagged else []
    if worth is not None and worth == worth and view.consensus.run["M"] > 1:
        said.append(f"worth {worth:.1f} independent ones")
    return ", ".join(said)


def sentence(text: str) -> str:
    """Give a caution as a sentence that stands alone."""
    said = shown(text, 600)
    return said[0].upper() + said[1:] + ("" if said[-1] in ".!?" else ".")


def class_rows(view: View) -> tuple[list[dict[str, Any]], str]:
    """Give a row for each class, the most frequent first where there are many; and what was left out."""
    consensus = view.consensus
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
    """Give what follows what in sequences, as a matrix and its legend."""
    run = view.consensus
    if not isinstance(run, SequenceRun) or len(run.model.classes) > _MOST_TRANSITIONS:
        return None
    label = "Probability of each class (rows) after each class (columns)"
    names = [marked(name, 24) for name in run.model.classes]
    values = [[f"{p:.2f}".removeprefix("0") if p >= 0.005 else "" for p in row] for row in run.transitions]
    return {"picture": confusion(run.transitions, label), "names": names, "rows": values}


def computed(view: View) -> list[tuple[str, str]]:
    """Say how it was computed: method, parameters, seed and whatever figures the method adds."""
    run = view.consensus.run
    method = str(run["method"]) + (f" ({run['chosen']})" if run.get("chosen") not in (None, run["method"]) else "")
    rows = [("method", method)]
    if run.get("why"):
        rows.append(("why", shown(run["why"], 600)))
    parameters = ", ".join(f"{name} = {_value(value)}" for name, value in run.get("parameters", {}).items())
    rows.append(("parameters", shown(parameters, 600) if parameters else "as they come"))
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
