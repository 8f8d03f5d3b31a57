"""The consensus of numbers: slips are left out, members averaged, known values taken into account."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from consilience.answers.kinds import KERNEL_METHOD, NUMERIC_METHOD, Taken
from consilience.answers.numeric.constants import ABSOLUTE, SPREAD, SYSTEMATIC
from consilience.answers.numeric.fit import Table
from consilience.answers.numeric.kernel import fit_kernels, require_answers
from consilience.answers.numeric.kind import numbers_of
from consilience.answers.numeric.known import Correction, learn_correction
from consilience.answers.numeric.members import Average, average_members
from consilience.answers.numeric.slips import Slips, find_slips
from consilience.data.annotations import Annotations
from consilience.data.names import counted
from consilience.data.spelling import without_spelling_notes
from consilience.diagnose.numeric import diagnose_numeric
from consilience.diagnose.open_answers import without_answers
from consilience.exceptions import DataWarning, ParameterError
from consilience.fitting.em import Callback
from consilience.fitting.fit import Caution, unconverged
from consilience.kernels._arrays import Floats
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.methods.base.running import run_summary
from consilience.models.numeric import NumericModel
from consilience.runs.label_table import Choice
from consilience.runs.numeric_run import NumericError, NumericRun, values_by_item
from consilience.validation import check_names, check_parameters

__all__ = ["aggregate_numeric"]

#: Quantile of a 90 % interval.
_Z = 1.645
#: Answers of the pooled noise that are added to those of an annotator.
_PSEUDO = 5.0
#: Share of answers from which the least or the largest is the end of a scale.
#: origin: by design; emotion_full has 0.8 % at -100 and 3.4 % at 100; movie_reviews less than 0.1 % at its ends.
_OFTEN = 0.005
#: origin: with a tolerance of 1e-3, hyperparameters have not settled, and errors differ by up to 0.4 %; with 1e-5, by
#: less than 0.1 %.
_PARAMETERS = {"max_iter": 2000, "tol": 1e-4}


@dataclass(frozen=True, eq=False)
class _Fit:
    """What the summary of a run reports."""

    log_likelihood: float
    converged: bool
    history: list[float]
    cautions: tuple[Caution, ...]
    details: dict[str, Any]


def aggregate_numeric(
    annotations: Annotations,
    taken: Taken,
    method: str = "auto",
    *,
    gold: Any = None,
    seed: int | None = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    **parameters: Any,
) -> NumericRun:
    """Aggregate numbers; ``taken`` says why labels are numbers, if that was decided from them.

    ``method`` is "auto" or "numeric" for the models of :mod:`.fit`, averaged with mean and median, or "kernel-density"
    (:mod:`.kernel`).  Parameters are ``max_iter`` (passes over the answers for each model) and ``tol`` (the largest
    change of a value, in standard deviations of all answers, that ends them).
    """
    begun = time.perf_counter()
    if parameters.pop("silence", "auto") not in ("auto", "random"):
        raise ParameterError("with numbers, silence can only be 'random': it says nothing about the truth")
    check_names(f"{NUMERIC_METHOD}, for numbers,", parameters, tuple(_PARAMETERS))
    check_parameters(parameters)
    if checkpoint is not None:
        raise ParameterError("numbers need seconds at most, and keep no checkpoint")
    a = annotations._with(
        origin=replace(annotations.origin, notes=without_spelling_notes(annotations.origin.notes))
    )  # "0" and "00" are the same number
    of_class = numbers_of(a.class_ids, "labels")
    known = _known_values(a, of_class, gold)
    table = Table(a.indptr, a.annotator.astype(np.uint32), of_class[a.label], a.n_annotators)
    slips = find_slips(table)
    kept = table.select(~slips.slip)
    options: dict[str, Any] = {**_PARAMETERS, **parameters, "callback": callback}
    kernels = method == KERNEL_METHOD
    if kernels:
        require_answers(kept, a.annotator_ids)
    average, correction = _with_known(kept, known, options, kernels=kernels)
    fit = _reported(kept, average, slips, correction, taken, options)
    bare = without_answers(a)
    warn_of([*cautions_of(bare), *fit.cautions])
    more: dict[str, Any] = {"K": a.n_classes, "answers": "numeric"}
    if method == "auto":
        more |= {"chosen": NUMERIC_METHOD, "why": "the labels are numbers"}
    told: dict[str, Any] = {"method": method, "by_user": method != "auto", "parameters": parameters, "seed": seed}
    run = run_summary(bare, fit, begun=begun, **told, **more)
    run["gold_items"] = int(np.isfinite(known).sum())
    value, deviation = _values(kept, average, correction, known)
    half = _Z * deviation
    least, most = _limits(kept.y)
    M, N = a.n_annotators, a.n_items
    none = np.zeros(N, np.int64)
    return NumericRun(
        _model(a, kept, average, correction),
        np.empty((N, 0)),
        Choice(none, none, np.zeros(N)),
        a.item_ids,
        a.labels_per_item,
        _annotator_counts(table, slips, M),
        run,
        a.origin,
        partial(diagnose_numeric, a),
        annotations=a,
        estimate=partial(_expected_error, deviation, correction, known),  # type: ignore[arg-type]
        value=value,
        low=np.minimum(np.maximum(value - half, least), value),
        high=np.maximum(np.minimum(value + half, most), value),
        weight=_spread_over(~slips.slip, average.answer_weight),
        factor=np.where(slips.slip & (slips.factor == 0.0), 1.0, slips.factor),
    )


def _known_values(a: Annotations, of_class: Floats, gold: Any) -> Floats:
    """Return the known values by item, NaN where unknown."""
    if gold is not None:
        return values_by_item(gold, a.item_ids, a.origin.item, "gold")
    if a.gold is None:
        return np.full(a.n_items, np.nan)
    return np.append(of_class, np.nan)[a.gold]


def _with_known(table: Table, known: Floats, options: dict[str, Any], *, kernels: bool) -> tuple[Average, Correction]:
    """Average the members; then learn from known values how the crowd errs, and hold them fixed in a second fit."""
    average = _fitted(table, None, options, kernels)
    if not np.isfinite(known).any():
        return average, Correction()
    deviation = _deviation(table, average)
    correction = learn_correction(average.value, deviation, known, float(np.sqrt(table.noise())))
    return _fitted(table, correction.back(known), options, kernels), correction


def _fitted(table: Table, known: Floats | None, options: dict[str, Any], kernels: bool) -> Average:
    """Return the average of the members; with ``kernels``, the values that kernel densities make of it."""
    average = average_members(table, known=known, **options)
    if not kernels:
        return average
    deviation = np.sqrt(average.additive.variance)
    value, variance, converged = fit_kernels(table, average.value, deviation, known, tol=options["tol"])
    fit = replace(
        average.additive,
        variance=variance,
        ease=np.ones(value.size),
        converged=average.additive.converged and converged,
    )
    return average._replace(value=value, additive=fit)


def _deviation(table: Table, average: Average) -> Floats:
    """Return the standard deviation of each value: that of the model, and what the whole crowd gets wrong."""
    deviation: Floats = np.sqrt(average.additive.variance + SYSTEMATIC**2 * table.noise() / average.additive.ease)
    return deviation


def _values(table: Table, average: Average, correction: Correction, known: Floats) -> tuple[Floats, Floats]:
    """Return the values and their standard deviations, NaN without answers; known values are exact."""
    value, deviation = average.value, _deviation(table, average)
    if correction.known:
        value, deviation = correction(value), correction.deviation(value, deviation)
    there = np.isfinite(known)
    return np.where(there, known, value), np.where(there, 0.0, np.where(np.isfinite(value), deviation, np.nan))


def _limits(y: Floats) -> tuple[float, float]:
    """Return the ends of the scale, if there are any: the least and the largest answer, if they are given often."""
    if not y.size:
        return -np.inf, np.inf
    low, high = float(y.min()), float(y.max())
    often = max(_OFTEN * y.size, 3.0)
    return (low if (y == low).sum() >= often else -np.inf), (high if (y == high).sum() >= often else np.inf)


def _expected_error(deviation: Floats, correction: Correction, known: Floats, _: Any) -> NumericError:
    """Return the expected mean absolute error over items whose value is not known."""
    judged = np.isfinite(deviation) & ~np.isfinite(known)
    value = ABSOLUTE * float(deviation[judged].mean()) if judged.any() else 0.0
    # k known values tell the size of errors up to a factor of about 1 / sqrt(2k), errors being heavy-tailed 1 / sqrt(k)
    spread = 1.0 / np.sqrt(1.0 / SPREAD**2 + correction.known)
    low, high = (value * float(np.exp(sign * _Z * spread)) for sign in (-1.0, 1.0))
    return NumericError(value, low, high, "known answers" if correction.known else "labels")


def _model(a: Annotations, table: Table, average: Average, correction: Correction) -> NumericModel:
    """Return bias, scale and noise of every annotator, in terms of true values."""
    fit, who, item = average.scaled, table.annotator, table.item
    centre = float(table.y.mean())
    residual = table.y - centre - fit.bias[who] - fit.scale[who] * (fit.value[item] - centre)
    n = np.bincount(who, minlength=a.n_annotators)
    squares = np.bincount(who, residual**2, a.n_annotators)
    pooled = float(squares.sum()) / max(table.y.size, 1)
    noise = np.sqrt((squares + _PSEUDO * pooled) / (n + _PSEUDO))
    true = float(correction(np.array([centre]))[0]) if correction.known else centre
    return NumericModel(
        fit.bias + centre - true, fit.scale / correction.scale, noise, true, a.class_ids, a.annotator_ids
    )


def _annotator_counts(table: Table, slips: Slips, M: int) -> Floats:
    """Return, for each annotator, answers, slips, the most frequent factor of a wrong unit, and how often, (M, 4)."""
    who = table.annotator
    found = np.zeros((M, 4))
    found[:, 0] = np.bincount(who, minlength=M)
    found[:, 1] = np.bincount(who[slips.slip], minlength=M)
    for factor in np.unique(slips.factor[slips.factor > 0.0]):
        times = np.bincount(who[slips.factor == factor], minlength=M)
        better = times > found[:, 3]
        found[better, 2], found[better, 3] = factor, times[better]
    return found


def _spread_over(kept: Any, values: Floats) -> Floats:
    """Return values of the answers that were kept among all answers, 0 elsewhere."""
    found = np.zeros(kept.size)
    found[kept] = values
    return found


def _reported(
    table: Table, average: Average, slips: Slips, correction: Correction, taken: Taken, options: dict[str, Any]
) -> _Fit:
    fits = average.scaled, average.additive
    converged = all(fit.converged for fit in fits)
    history = fits[1].history
    cautions = list(unconverged(converged, "the fit", f"{max(len(f.history) for f in fits)} passes", options["tol"]))
    if taken.reason:
        cautions.insert(0, (taken.reason, DataWarning))
    if slips.slip.any():
        units = int((slips.factor > 0.0).sum())
        wrong = f", {units} of them by a factor of 10, 100 or 1000 (wrong unit?)" if units else ""
        far = counted(int(slips.slip.sum()), "answer")
        cautions.append((f"left out: {far} far from all others to the same item{wrong} (run.slips)", DataWarning))
    n, z = table.per_item, table.y - (table.y.mean() if table.y.size else 0.0)
    pairs = max(float((n * (n - 1.0)).sum()), 1.0)
    between = float((table.total(z) ** 2 - table.total(z * z)).sum()) / pairs
    noise = table.noise()
    details: dict[str, Any] = {
        "weights": {name: round(weight, 6) for name, weight in average.weights.items()},
        "noise": float(np.sqrt(noise)),
        "correlation": max(between, 0.0) / max(max(between, 0.0) + noise, 1e-300),
        "slips": int(slips.slip.sum()),
    }
    if correction.known:
        details["crowd_bias"], details["crowd_scale"] = correction.bias, correction.scale
    return _Fit(fits[1].log_density, converged, history, tuple(cautions), details)
