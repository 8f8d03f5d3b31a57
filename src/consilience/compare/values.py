"""Numbers and several options against their truth: simple averages and votes next to the models."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.answers.kinds import KERNEL_METHOD, MULTI_METHOD, NUMERIC_METHOD, Kind, Taken
from consilience.answers.multi_consensus import aggregate_multi
from consilience.answers.numeric.consensus import aggregate_numeric
from consilience.answers.numeric.fit import Table
from consilience.answers.numeric.kind import numbers_of
from consilience.answers.numeric.slips import item_medians
from consilience.data import frames as _frames
from consilience.data.annotations import Annotations, Origin
from consilience.data.set_labels import as_sets
from consilience.exceptions import ConsilienceError, ConsilienceWarning, DataWarning, ParameterError, warn
from consilience.files import atomic_file
from consilience.runs.numeric_run import values_by_item

__all__ = ["ValueComparison", "compare_values"]

_FORMAT = {"format": "consilience.ValueComparison", "version": 1}
_VOTES, _MEAN, _MEDIAN = "votes", "mean", "median"
#: What can be compared, and what is measured; the first figure decides the order, smaller is better.
_METHODS: dict[Kind, tuple[str, ...]] = {
    "numeric": (_MEAN, _MEDIAN, NUMERIC_METHOD, KERNEL_METHOD),
    "multi": (_VOTES, MULTI_METHOD),
}
_FIGURES: dict[Kind, tuple[str, ...]] = {
    "numeric": ("mean_absolute", "root_mean_square", "covered"),
    "multi": ("error", "f1", "precision", "recall", "log_loss"),
}


@dataclass(frozen=True, eq=False)
class ValueComparison:
    """Errors of several ways to aggregate numbers or several options."""

    kind: Kind
    rows: tuple[dict[str, Any], ...]  #: the smallest error first; those without a result last
    notes: tuple[str, ...]
    origin: Origin

    @cached_property
    def table(self) -> Any:
        """Frame with a row for each method, the smallest error first.

        For numbers: mean_absolute, root_mean_square, and covered (share of the truths within 90 % intervals).  For
        several options: error (percent of decisions), f1, precision, recall, log_loss.  Then seconds, and note.
        """
        return _frames.make(self.columns(), self.origin.frame)

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns of the table."""
        numbers = (*_FIGURES[self.kind], "seconds")
        kinds = {"method": pa.string(), **dict.fromkeys(numbers, pa.float64()), "note": pa.string()}
        return {name: pa.array([row.get(name) for row in self.rows], kind) for name, kind in kinds.items()}

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a CSV file, atomically."""
        import pyarrow.csv

        with atomic_file(path) as temporary:
            pyarrow.csv.write_csv(pa.table(self.columns()), temporary)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values, as in JSON."""
        return {
            **_FORMAT,
            "answers": self.kind,
            "notes": list(self.notes),
            "methods": pa.table(self.columns()).to_pylist(),
        }

    def __repr__(self) -> str:
        first, what = self.rows[0], _FIGURES[self.kind][0]
        figure = first.get(what, float("nan"))
        return f"<ValueComparison: {len(self.rows)} methods, best {first['method']} ({what} {figure:.4g})>"


def compare_values(annotations: Annotations, truth: Any, taken: Taken, methods: Any = None) -> ValueComparison:
    """Measure every method for numbers or several options against a truth."""
    kind = taken.kind
    known = _METHODS[kind]
    names = known if methods in (None, "all") else tuple(methods.split(",") if isinstance(methods, str) else methods)
    if strange := [name for name in names if name not in known]:
        raise ParameterError(
            f"for answers={kind!r}, the methods are {', '.join(known)}, not {strange[0]!r}; others are for classes "
            "(answers='nominal')"
        )
    measure: Callable[..., dict[str, float]] = _numbers if kind == "numeric" else _options
    rows = []
    for name in names:
        begun = time.perf_counter()
        row: dict[str, Any] = {"method": name, "note": ""}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConsilienceWarning)
                row |= measure(annotations, truth, name)
            row["seconds"] = time.perf_counter() - begun
        except ConsilienceError as error:
            if name != KERNEL_METHOD:
                raise
            row["note"] = str(error)
        rows.append(row)
    first = _FIGURES[kind][0]
    rows.sort(key=lambda row: row.get(first, np.inf))
    origin = annotations.origin if kind == "numeric" else as_sets(annotations).origin  # blank answers are answers
    if taken.reason:
        warn(taken.reason, DataWarning)
    return ValueComparison(kind, tuple(rows), (*origin.notes, *filter(None, [taken.reason])), origin)


def _numbers(a: Annotations, truth: Any, name: str) -> dict[str, float]:
    if name in (NUMERIC_METHOD, KERNEL_METHOD):
        judged = aggregate_numeric(a, Taken("numeric"), name).errors(truth)
        return dict(zip(_FIGURES["numeric"], judged[:3], strict=True))
    table = Table(a.indptr, a.annotator.astype(np.uint32), numbers_of(a.class_ids, "labels")[a.label], a.n_annotators)
    value = table.mean() if name == _MEAN else item_medians(table, table.y)
    away = value - values_by_item(truth, a.item_ids, a.origin.item, "truth")
    away = away[np.isfinite(away)]
    return {"mean_absolute": float(np.abs(away).mean()), "root_mean_square": float(np.sqrt((away**2).mean()))}


def _options(a: Annotations, truth: Any, name: str) -> dict[str, float]:
    run = aggregate_multi(a, Taken("multi"))
    if name == _VOTES:
        ticked = np.repeat(run.n_labels, np.diff(run.first))
        run = replace(run, posterior=run.n_ticks / np.maximum(ticked, 1))
    scores = run.option_scores(truth)
    return {
        "error": scores.error_rate,
        **{each: getattr(scores, each) for each in ("f1", "precision", "recall", "log_loss")},
    }
