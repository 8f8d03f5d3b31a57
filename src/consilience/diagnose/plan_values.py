"""A plan for numbers, several options and open answers: whom to ask about what, with reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data.annotations import Annotations
from consilience.diagnose.plan_greedy import Chooser
from consilience.diagnose.plan_input import Asking
from consilience.diagnose.plan_people import affordable, limits, note_of
from consilience.diagnose.plan_prospects import NumberProspects, OpenProspects, OptionProspects, Prospects
from consilience.diagnose.plan_result import Plan
from consilience.kernels._arrays import Floats, Ints
from consilience.runs.annotator_table import FEW
from consilience.runs.multi_run import MultiRun
from consilience.runs.numeric_run import NumericRun
from consilience.runs.open_run import OpenRun

__all__ = ["flagged_values", "plan_values"]

#: Flags of annotators who are not asked.
_SERIOUS = {"spammer": "answers at random", "adversary": "answers go the other way", "unit": "uses another unit"}


def flagged_values(run: Any) -> dict[int, str]:
    """Return the codes of the annotators who should not be asked, and why."""
    found = {}
    for m, said in enumerate(run.annotator_columns["flags"].to_pylist()):
        words = [flag.split()[0] for flag in said.split("; ") if flag]
        if serious := next((word for word in words if word in _SERIOUS), None):
            found[m] = _SERIOUS[serious]
    return found


def plan_values(run: NumericRun | MultiRun | OpenRun, a: Annotations, asking: Asking, gold: int) -> Plan:
    """Plan labels for a run that has no confusion matrices."""
    prospects, measure = _prospects(run)
    labels = affordable(a, asking.price, asking.left > 0, asking.budget)
    chooser = Chooser(prospects, a, asking.open_to, asking.price, asking.budget, labels)
    for limit in limits(a, asking.left, labels):
        chooser.spend(limit)
    item, annotator = np.array([each[:2] for each in chooser.chosen], np.int64).reshape(-1, 2).T
    now, then = _errors(run, prospects, chooser.asked)
    accuracy = _accuracy(run, a)
    values, chosen = _gold_questions(a, prospects.doubt, gold)
    rest = chooser.rest
    notes = [] if rest < float(asking.price.min()) - 1e-9 else [f"{rest:g} of the budget is left: nothing more helps"]
    if run.verdict != "identified" and run.diagnosis.advice:
        notes.insert(0, run.diagnosis.advice[0])
    return Plan(
        item=item,
        annotator=annotator,
        gain=np.array([each[2] for each in chooser.chosen]),
        cost=asking.price[annotator],
        reasons=pa.array([_reason(run, n, m, accuracy) for n, m, _ in chooser.chosen], pa.string()),
        gold_items=chosen,
        gold_gains=values,
        gold_reasons=pa.array(
            [f"its {n} labels leave it open" for n in a.labels_per_item[chosen].tolist()], pa.string()
        ),
        budget=asking.budget,
        joining=0,
        wrong_now=now,
        wrong_then=then,
        notes=[*notes, *note_of(a.annotator_ids, asking.not_asked)],
        not_asked=asking.not_asked,
        accuracy=accuracy,
        item_ids=a.item_ids,
        annotator_ids=a.annotator_ids,
        origin=a.origin,
        measure=measure,
    )


def _prospects(run: NumericRun | MultiRun | OpenRun) -> tuple[Prospects, str]:
    """Return what labels would tell, and what the error of a plan is called."""
    if isinstance(run, NumericRun):
        return NumberProspects(run), "mean absolute error"
    if isinstance(run, MultiRun):
        return OptionProspects(run), "wrong decisions on options"
    return OpenProspects(run), "wrong labels"


def _errors(run: Any, prospects: Prospects, asked: dict[int, list[int]]) -> tuple[float, float]:
    """Return the expected error now and after the plan: a mean for numbers, otherwise a number of wrong decisions."""
    now = np.array([prospects.error(n, []) for n in range(len(run.item_ids))])
    saved = sum(now[n] - prospects.error(n, planned) for n, planned in asked.items())
    if isinstance(run, NumericRun):
        total = float(now.sum())
        value = run.estimated_error.value
        return value, value * (1.0 - float(saved) / total) if total > 0.0 else value
    return float(now.sum()), float(now.sum() - saved)


def _accuracy(run: Any, a: Annotations) -> Floats:
    """Return the share of right decisions of each annotator, NaN if they gave few labels, or numbers."""
    if isinstance(run, NumericRun):
        return np.full(a.n_annotators, np.nan)
    found = np.array(run.annotator_columns["accuracy"].fill_null(np.nan))
    found[a.labels_per_annotator < FEW] = np.nan
    return found


def _gold_questions(a: Annotations, doubt: Floats, n: int) -> tuple[Floats, Ints]:
    """Return the items whose truth tells most about annotators, by doubt · Σ 1 / n_m over their labels."""
    share = 1.0 / np.maximum(a.labels_per_annotator, 1)
    value = doubt * np.bincount(a.item_of_label(), share[a.annotator], a.n_items)
    order = np.lexsort((np.arange(a.n_items), -value))[: max(n, 0)]
    order = order[value[order] > 1e-9]
    return value[order], order


def _reason(run: Any, n: int, m: int, accuracy: Floats) -> str:
    """Return what is open about an item, and how good the annotator is, in words."""
    who = str(run.model.annotators[m])
    if isinstance(run, NumericRun):
        few = run.counts[m, 0] < FEW
        about = f"{who} has answered little so far" if few else f"{who} is off by about {run.model.noise[m]:.3g}"
        if not np.isfinite(run.value[n]):
            return f"nobody has answered; {about}"
        return f"{run.value[n]:.4g} ({run.low[n]:.4g} to {run.high[n]:.4g})? {about}"
    what = "options" if isinstance(run, MultiRun) else "items"
    about = f"{who} has labelled little so far"
    if np.isfinite(accuracy[m]):
        about = f"{who} is right about {100 * accuracy[m]:.0f}% of {what}"
    here = slice(int(run.first[n]), int(run.first[n + 1]))
    p = run.posterior[here]
    if run.n_labels[n] == 0 or not p.size:
        return f"nobody has labelled it; {about}"
    if isinstance(run, MultiRun):
        least = int(np.argmin(np.abs(p - 0.5)))
        return f"{run.model.options[int(run.option[here][least])]} ({100 * p[least]:.0f}%)? {about}"
    names = [f"{run.model.classes[int(run.answer[here][c])]} ({100 * p[c]:.0f}%)" for c in np.argsort(-p)[:2]]
    return f"{' or '.join(names)}? {about}"
