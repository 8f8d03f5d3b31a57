"""The consensus of answers that name several options."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from consilience.answers.kinds import MULTI_METHOD, Taken
from consilience.data.annotations import Annotations
from consilience.data.option_sets import SEPARATOR, option_sets, respelt, truth_sets
from consilience.data.set_labels import as_sets, renamed, spelling_of
from consilience.diagnose.multi import diagnose_multi
from consilience.diagnose.open_answers import without_answers
from consilience.exceptions import DataWarning, ParameterError
from consilience.fitting.em import Callback
from consilience.fitting.multi import LEAST_KNOWN, MultiFit, calibrated, fit_multi
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.kernels.multi import Ticks, decision_counts
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.methods.base.running import run_summary
from consilience.runs.consensus import Consensus
from consilience.runs.estimated_error import EstimatedError, estimate
from consilience.runs.multi_run import MultiRun, chosen_sets
from consilience.validation import check_names, check_parameters, keywords

__all__ = ["aggregate_multi"]

#: Parts of the known items that are left out in turn.
_FOLDS = 5


def aggregate_multi(
    annotations: Annotations,
    taken: Taken,
    method: str = "auto",
    *,
    gold: Any = None,
    seed: int | None = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    **parameters: Any,
) -> MultiRun:
    """Aggregate answers that name several options; the parameters are ``shared``, ``max_iter`` and ``tol``.

    ``taken`` says why the answers are sets, if that was decided from the labels.
    """
    begun = time.perf_counter()
    if parameters.pop("silence", "auto") not in ("auto", "random"):
        raise ParameterError("with answers='multi', silence can only be 'random': an empty selection is an answer")
    check_names(f"{MULTI_METHOD}, for several options,", parameters, {*keywords(fit_multi)} - {"callback"})
    check_parameters(parameters)
    if checkpoint is not None:
        raise ParameterError("answers='multi' keeps no checkpoint")
    if names := respelt(annotations.class_ids):
        given, told = next((name, set_) for name, set_ in names.items() if SEPARATOR in set_ or name != set_)
        warn_of([(f"options are separated: {given!r} is taken for {told!r}", DataWarning)])
        annotations = renamed(annotations, list(names.values()))
    a = as_sets(annotations)
    known = _known(a, gold)
    fit = fit_multi(a, callback=callback, **parameters)
    found = _with_known(fit, a, known)
    reasons = ((taken.reason, DataWarning),) if taken.reason else ()
    fit = replace(fit, cautions=(*reasons, *fit.cautions))
    bare = without_answers(a._with(gold=None))
    warn_of([*cautions_of(bare), *fit.cautions])
    more: dict[str, Any] = {"K": len(fit.model.options), "answers": "multi"}
    if method == "auto":
        more |= {"chosen": MULTI_METHOD, "why": "answers name several options"}
    if found.report:
        more["known_answers"] = found.report
    summary = run_summary(
        bare, fit, method=method, by_user=method != "auto", parameters=parameters, seed=seed, begun=begun, **more
    )
    summary["gold_items"] = 0 if known is None else int(known.items.sum())
    ticks = found.ticks
    choice, _, classes = chosen_sets(ticks.first, ticks.option, found.probability, fit.model.options, spelling_of(a))
    a = a.recode(a.annotator_ids, classes)
    if known is not None:
        a = a._with(gold=np.where(known.items, choice.best, -1))
    return MultiRun(
        replace(found.model, classes=classes),
        found.probability,
        choice,
        a.item_ids,
        a.labels_per_item,
        decision_counts(ticks, found.probability, a.n_annotators),
        summary,
        a.origin,
        partial(diagnose_multi, a),
        annotations=a,
        estimate=_estimated_error,
        first=ticks.first,
        option=ticks.option,
        n_ticks=ticks.n_ticks,
    )


class _Known(NamedTuple):
    """Items whose set is known, (N,), and the pairs of item and option in these sets."""

    items: Bools
    item: Ints
    option: Ints


def _known(annotations: Annotations, gold: Any) -> _Known | None:
    """Return the known sets: those given, or those that came with the labels."""
    a = annotations
    sets = option_sets(a.class_ids)
    if gold is None:
        if a.gold is None:
            return None
        items = np.flatnonzero(a.gold >= 0)
        size = np.diff(sets.first)[a.gold[items]]
        within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        option = sets.option[np.repeat(sets.first[a.gold[items]], size) + within]
        return _Known(a.gold >= 0, np.repeat(items, size), option.astype(np.int64))
    known, item, option, missed = truth_sets(gold, a.item_ids, sets.options, column=a.origin.item, what="gold")
    if missed.size:
        warn_of([(f"gold names options that nobody ticked, of {missed.size} items; they are left out", DataWarning)])
    return _Known(known, item, option)


class _Found(NamedTuple):
    model: Any
    ticks: Ticks
    probability: Floats
    report: dict[str, Any]


def _with_known(fit: MultiFit, annotations: Annotations, known: _Known | None) -> _Found:
    """Return probabilities that are calibrated on the known items, with these at their truth."""
    model, ticks, p = fit.model, fit.posterior.ticks, fit.posterior.probability
    if known is None or not known.items.any():
        return _Found(model, ticks, p, {})
    if not model.shared:  # known options of an item that nobody ticked there become candidates too
        ticks = model.ticks(annotations, (known.item, known.option))
        p = model.weigh(ticks, model.log_odds()).probability
    O = len(model.options)  # noqa: E741 - the symbol
    item = ticks.item
    true = np.isin(item * O + ticks.option, known.item * O + known.option).astype(np.float64)
    judged = known.items[item] & (np.diff(ticks.indptr) > 0)[item]
    report: dict[str, Any] = {}
    n = np.unique(item[judged]).size
    if n >= LEAST_KNOWN:
        names = np.array([str(name) for name in annotations.item_ids.take(np.unique(item[judged]))])
        fold = np.zeros(annotations.n_items, np.int64)
        fold[np.unique(item[judged])[np.argsort(names, kind="stable")]] = np.arange(n) % _FOLDS
        after = np.empty(p.size)
        levels = model.weigh(ticks, model.log_odds()).levels
        for part in range(_FOLDS):
            here = judged & (fold[item] != part)
            after[judged & ~here] = calibrated(model, p[here], true[here]).probability(ticks, levels)[judged & ~here]
        model = calibrated(model, p[judged], true[judged])
        report = {
            "items": n,
            "decisions": int(judged.sum()),
            "error": float(np.mean((p[judged] > 0.5) != (true[judged] > 0.5))),
            "expected": float(np.minimum(p[judged], 1.0 - p[judged]).mean()),
            "error_with": float(np.mean((after[judged] > 0.5) != (true[judged] > 0.5))),
        }
        p = model.probability(ticks, levels)
    held = known.items[item]
    return _Found(model, ticks, np.where(held, true, p), report)


def _estimated_error(consensus: Consensus) -> EstimatedError:
    """Return the estimated share of wrong decisions on options, over labelled items whose truth is not known."""
    assert isinstance(consensus, MultiRun)
    judged = consensus.n_labels > 0
    if consensus.annotations is not None and consensus.annotations.gold is not None:
        judged = judged & (consensus.annotations.gold < 0)
    item = np.repeat(np.arange(judged.size), np.diff(consensus.first))
    p = consensus.posterior[judged[item]]
    doubt = float(np.minimum(p, 1.0 - p).mean()) if p.size else 0.0
    report = consensus.run.get("known_answers")
    if not report:
        return estimate(doubt, p.size)
    return estimate(doubt, p.size, wrong=round(report["error_with"] * report["decisions"]), known=report["decisions"])
