"""Methods of your own in a comparison: functions and estimators, which run in this process.

A function gets the annotations; with a parameter ``random_state`` it also gets the seed.  An estimator of this library
is fitted to the annotations.  Any other estimator gets a pandas frame with ``task``, ``worker`` and ``label``, as those
of crowd-kit do, in ``fit_predict_proba`` or else ``fit_predict``.  What comes back is one of

=============================================================== ==========================
a ``Fit``, or a ``Consensus`` of the same items                 judged by its probabilities
an array (N, K), or a pandas frame by item with classes on top  judged by its probabilities
labels: one for each item, a mapping, a series or a frame       judged by its labels alone
=============================================================== ==========================
"""

from __future__ import annotations

import copy
import inspect
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from consilience.compare.supervise import Event, Task
from consilience.compare.trial import judge, judge_labels, measured, peak, release
from consilience.data.annotations import Annotations
from consilience.data.ids import to_column
from consilience.exceptions import DataError, ParameterError
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Codes, Floats
from consilience.methods.base import registry
from consilience.methods.base.estimator import CrowdEstimator
from consilience.runs.consensus import Consensus, choose

__all__ = ["Candidate", "candidate_of", "judge_any", "run"]

#: Largest distance from one of a sum of probabilities.
_SUM = 1e-6


class Candidate(NamedTuple):
    """A method that is not in the registry."""

    name: str
    run: Callable[[Annotations, int | None], Any]
    random: bool  #: whether it takes a seed


def candidate_of(given: Any, name: str | None = None) -> Candidate:
    """Return a function or an estimator as a method; its name is that of the function, or how the estimator prints."""
    if isinstance(given, type):
        raise ParameterError(f"give an instance of {given.__name__}, not the class: {given.__name__}()")
    fit: Callable[..., Any]
    if isinstance(given, CrowdEstimator):
        called, fit = repr(given), _fit_own
        random = "random_state" in registry.METHODS[given._method].parameters
    elif hasattr(given, "fit_predict"):
        called, fit, random = " ".join(repr(given).split()), _fit_other, hasattr(given, "random_state")
    elif callable(given):
        called, fit = getattr(given, "__name__", type(given).__name__), _call
        random = "random_state" in inspect.signature(given).parameters
    else:
        raise ParameterError(
            f"a method to compare is a name, a function of annotations or an estimator, not {type(given).__name__}"
        )
    return Candidate(name or called, partial(fit, given), random)


def _call(function: Callable[..., Any], annotations: Annotations, seed: int | None) -> Any:
    return function(annotations, **({} if seed is None else {"random_state": seed}))


def _fit_own(estimator: CrowdEstimator, annotations: Annotations, seed: int | None) -> Fit:
    options = estimator._options() | ({} if seed is None else {"random_state": seed})
    return registry.fit(estimator._name(), annotations, **options)


def _fit_other(estimator: Any, annotations: Annotations, seed: int | None) -> Any:
    fresh = copy.deepcopy(estimator)
    if seed is not None:
        fresh.random_state = seed
    frame = annotations.to_frame("pandas").set_axis(["task", "worker", "label"], axis=1)
    return getattr(fresh, "fit_predict_proba", fresh.fit_predict)(frame)


def run(
    candidates: Mapping[Task, Candidate], annotations: Annotations, truth: Codes, timeout: float | None
) -> Generator[Event]:
    """Run candidates one after the other; the time limit is checked between seeds."""
    for task, candidate in candidates.items():
        yield Event(task, "begun")
        begun = time.monotonic()
        release()
        held = peak()
        for n, seed in enumerate(task.seeds):
            if n and timeout is not None and time.monotonic() - begun > timeout:
                row: dict[str, Any] = {"seed": seed, "status": "out of time", "note": f"not done in {timeout:g} s"}
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fit, judged = partial(candidate.run, annotations, seed), partial(judge_any, annotations, truth)
                    row = measured(fit, judged, seed, held)
            yield Event(task, "run", row)
        yield Event(task, "ended")


def judge_any(annotations: Annotations, truth: Codes, found: Any) -> dict[str, Any]:
    """Compare what a candidate returned with the truth (-1: not judged)."""
    if isinstance(found, Fit):
        return judge(found, truth)
    if isinstance(found, Consensus):
        if not np.array_equal(found.item_ids.codes_of(annotations.item_ids.to_arrow()), np.arange(annotations.n_items)):
            raise DataError("the consensus is of other items, or of the same in another order")
        if found.model.classes != annotations.class_ids:
            raise DataError("the consensus has other classes, or the same in another order")
        table, labels, known = found.judged_by(truth)
        return judge_labels(labels, table, known)
    posterior = _probabilities(annotations, found)
    if posterior is not None:
        return judge_labels(choose(posterior, posterior.mean(axis=0)).best, posterior, truth)
    return judge_labels(annotations.codes_of_truth(found, "its result", strict=False), None, truth)


def _probabilities(annotations: Annotations, found: Any) -> Floats | None:
    """Return probabilities in the order of items and classes; None for labels."""
    a = annotations
    values = found
    if hasattr(found, "columns") and hasattr(found, "index"):  # a pandas frame
        columns = a.class_ids.codes_of(to_column(list(found.columns), "its columns"))
        if (columns < 0).all():
            return None
        rows = a.item_ids.codes_of(to_column(np.asarray(found.index), "its index"))
        values = np.zeros((a.n_items, a.n_classes))
        known = np.flatnonzero(rows >= 0)
        given = found.to_numpy(float)[known]
        for column in np.flatnonzero(columns >= 0):
            values[rows[known], columns[column]] = given[:, column]
    elif np.ndim(found) != 2 or hasattr(found, "columns"):
        return None
    values = np.asarray(values, float)
    if values.shape != (a.n_items, a.n_classes):
        raise DataError(
            f"expected probabilities of {a.n_items} items and {a.n_classes} classes, got an array of {values.shape}"
        )
    labelled = a.labels_per_item > 0
    sums = values[labelled].sum(axis=1)
    if (values < 0).any() or (np.abs(sums - 1) > _SUM).any():
        raise DataError("the probabilities of some items are negative or do not sum to one")
    values[~labelled] = 1.0 / a.n_classes  # never judged
    return values
