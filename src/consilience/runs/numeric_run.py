"""The result of a run over numbers: values with intervals instead of labels with probabilities."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.ids import encode
from consilience.data.truth import truth_columns
from consilience.exceptions import DataError, DataWarning, FormatError, IdError, warn
from consilience.kernels._arrays import Bools, Floats
from consilience.models.numeric import NumericModel
from consilience.runs.annotator_table import FEW
from consilience.runs.consensus import Consensus
from consilience.runs.label_table import free_names

__all__ = ["NumericError", "NumericErrors", "NumericRun", "unit_name", "values_by_item"]

_VALUES, _WEIGHTS = "values.parquet", "weights.parquet"
#: Correlation of an annotator's answers with the values of others below which they are unrelated, if the upper limit of
#: a 90 % interval (so many standard errors above) is below the second figure too; and the bias, in standard deviations
#: of answers to an item, from which an annotator is called high or low.
#: origin: by design; alternatives: the scale of the model, which does not show 80 answers at random, because they count
#: in the values; sensitivity: not measured.
_UNRELATED, _RELATED, _LIMIT, _BIASED = 0.22, 0.5, 1.28, 0.5
#: Answers in a wrong unit from which an annotator is flagged.
_OFTEN = 3


class NumericError(NamedTuple):
    """The expected mean absolute error of the values, with a 90 % interval, in the unit of the answers."""

    value: float
    low: float
    high: float
    basis: Literal["labels", "known answers"]

    def __str__(self) -> str:
        return f"about {self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


class NumericErrors(NamedTuple):
    """How far values are from the truth."""

    mean_absolute: float
    root_mean_square: float
    covered: float  #: share of the truths within the 90 % intervals
    items: int  #: with both a truth and a value


def unit_name(factor: float) -> str:
    """Return a factor such as 10 or 0.01 as ``×10`` or ``÷100``."""
    return f"×{factor:g}" if factor > 1 else f"÷{1 / factor:g}"


def values_by_item(truth: Any, run_items: Any, column: str, what: str) -> Floats:
    """Return numbers by item from any form in which truths are given, NaN where unknown, (N,)."""
    names, given = truth_columns(truth, run_items, column, what)
    code, ids = encode(given)
    try:
        numbers = np.append(np.asarray(ids.to_arrow().cast(pa.float64(), safe=False), float), np.nan)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{what} must be numbers where answers are: {error}") from error
    value, item = numbers[code], run_items.codes_of(names)
    known = np.isfinite(value)
    strange = int((known & (item < 0)).sum())
    if strange and strange == int(known.sum()):
        raise IdError(f"none of the {strange} items in {what} is among the labelled items; are the ids the same?")
    if strange:
        warn(f"{what}: {strange} items are not among the labelled items", DataWarning)
    there = known & (item >= 0)
    found = np.full(len(run_items), np.nan)
    found[item[there]] = value[there]
    if (found[item[there]] != value[there]).any():
        wrong = int(item[there][found[item[there]] != value[there]][0])
        raise DataError(f"{what} gives item {run_items[wrong]!r} two different values")
    return found


@dataclass(frozen=True, eq=False, repr=False)
class NumericRun(Consensus):
    """A consensus of numbers.

    ``labels`` has item, value, low, high (90 %) and n_labels; ``annotators`` has bias, scale and noise.  ``posterior``
    is empty, and ``counts`` holds, for each annotator, answers, slips, the factor of most wrong units and how many
    answers have it, (M, 4).
    """

    model: NumericModel  # type: ignore[assignment]
    value: Floats = field(kw_only=True, repr=False)  #: NaN without answers, (N,)
    low: Floats = field(kw_only=True, repr=False)  #: of the 90 % interval, (N,)
    high: Floats = field(kw_only=True, repr=False)
    weight: Floats = field(kw_only=True, repr=False)  #: share of each answer in the value of its item, (labels,)
    factor: Floats = field(kw_only=True, repr=False)  #: of a wrong unit; 1 for another slip, 0 for none, (labels,)

    @cached_property
    def estimated_error(self) -> NumericError:  # type: ignore[override]
        """The expected mean absolute error over items whose value is not known: value, low, high (90 %), and basis."""
        assert self.estimate is not None
        return NumericError(*self.estimate(self))

    @cached_property
    def slips(self) -> Any:
        """Frame of the answers that were left out: item, annotator, label, value, flag.

        The flag names a wrong unit, such as ``×10``; other slips are ``outlier``.
        """
        columns = self.answer_columns
        at = pa.array(np.flatnonzero(self.factor > 0))
        item = np.repeat(np.arange(len(self.item_ids)), self.n_labels)[self.factor > 0]
        names = [name for name in columns if name not in ("weight", "flag")]
        shown = {name: columns[name].take(at) for name in names}
        shown |= {"value": pa.array(self.value[item]), "flag": columns["flag"].take(at)}
        return _frames.make(shown, self.origin.frame)

    @cached_property
    def label_quality(self) -> Any:
        """Frame with a row for each answer: item, annotator, label, weight (its share in the value), flag."""
        return _frames.make(self.answer_columns, self.origin.frame)

    @cached_property
    def answer_columns(self) -> dict[str, pa.Array]:
        """The columns of ``label_quality``."""
        a = self.annotations
        if a is None:
            raise DataError("the run does not hold its labels")
        columns = [a.item_ids.to_arrow().take(pa.array(a.item_of_label()))]
        columns += [a.annotator_ids.to_arrow().take(pa.array(a.annotator))]
        columns += [a.class_ids.to_arrow().take(pa.array(a.label)), pa.array(self.weight)]
        kinds = {0.0: "", 1.0: "outlier"}
        known, code = np.unique(self.factor, return_inverse=True)
        names = [kinds[float(f)] if float(f) in kinds else unit_name(float(f)) for f in known]
        columns += [pa.array(names, pa.string()).take(pa.array(code.ravel()))]
        own = (self.origin.item, self.origin.annotator, self.origin.label)
        return dict(zip((*own, "weight", "flag"), columns, strict=True))

    @cached_property
    def annotator_columns(self) -> Mapping[str, pa.Array]:
        """The columns of ``annotators``: n_labels, bias, scale, noise, slips, flags."""
        model, (n, slips, _, _) = self.model, self.counts.T
        columns = {
            "n_labels": pa.array(n.astype(np.int64)),
            "bias": pa.array(model.bias),
            "scale": pa.array(model.scale),
            "noise": pa.array(model.noise),
            "slips": pa.array(slips.astype(np.int64)),
            "flags": pa.array(self._flags(), pa.string()),
        }
        names = free_names(self.origin.annotator, tuple(columns), "annotator")
        return MappingProxyType(dict(zip(names, (model.annotators.to_arrow(), *columns.values()), strict=True)))

    def _flags(self) -> list[str]:
        """Return what is striking about each annotator, joined by semicolons."""
        model, (n, slips, factor, times) = self.model, self.counts.T
        r = self._correlations()
        margin = 1.0 / np.sqrt(np.maximum(n - slips - 3.0, 1.0))
        at_most = np.tanh(np.arctanh(np.clip(r, -0.999, 0.999)) + _LIMIT * margin)
        within = float(self.run.get("noise", 0.0)) or 1.0
        often = (times >= _OFTEN) | (2 * times > n)
        found: list[str] = []
        for m in range(n.size):
            words = []
            if times[m] and often[m]:
                words.append(f"unit {unit_name(float(factor[m]))} ({int(times[m])} of {int(n[m])} answers)")
            elif slips[m] > max(1.0, 0.05 * n[m]):
                words.append(f"{int(slips[m])} slips")
            if n[m] - slips[m] < FEW:
                words += [] if often[m] and times[m] else ["few labels"]
            elif r[m] < -2.0 * margin[m]:
                words.append("adversary")
            elif r[m] < _UNRELATED and at_most[m] < _RELATED:
                words.append("spammer")
            elif abs(model.bias[m]) > _BIASED * within:
                words.append("high" if model.bias[m] > 0 else "low")
            found.append("; ".join(words))
        return found

    def _correlations(self) -> Floats:
        """Return the correlation of each annotator's answers with the values without them; 1 if it is not known."""
        a, M = self.annotations, self.model.noise.size
        if a is None:
            return np.ones(M)
        y = np.array([float(name) for name in a.class_ids])[a.label]
        value = np.repeat(self.value, self.n_labels)
        kept = (self.factor == 0.0) & (self.weight < 0.999)
        others = ((value - self.weight * y) / np.maximum(1.0 - self.weight, 1e-3))[kept]
        y, who = y[kept], a.annotator[kept]
        n = np.maximum(np.bincount(who, minlength=M), 1)
        y, others = (each - (np.bincount(who, each, M) / n)[who] for each in (y, others))
        both, one, two = (np.bincount(who, each, M) for each in (y * others, y * y, others * others))
        return np.where(one * two > 0.0, both / np.sqrt(np.maximum(one * two, 1e-300)), 1.0)

    def _label_columns(self) -> dict[str, pa.Array]:
        missing = ~np.isfinite(self.value)
        numbers = [pa.array(column, mask=missing) for column in (self.value, self.low, self.high)]
        columns = dict(zip(("value", "low", "high", "n_labels"), (*numbers, pa.array(self.n_labels)), strict=True))
        names = free_names(self.origin.item, tuple(columns), "item")
        return dict(zip(names, (self.item_ids.to_arrow(), *columns.values()), strict=True))

    def errors(self, truth: Any) -> NumericErrors:
        """Return mean absolute error, root mean square error and coverage of the intervals.

        ``truth`` has any form that :meth:`consilience.Annotations.with_gold` takes.
        """
        known = values_by_item(truth, self.item_ids, self.origin.item, "truth")
        judged: Bools = np.isfinite(known) & np.isfinite(self.value)
        if not judged.any():
            raise DataError("no item has both a truth and a value")
        away, t = (self.value - known)[judged], known[judged]
        covered = (self.low[judged] <= t) & (t <= self.high[judged])
        return NumericErrors(
            float(np.abs(away).mean()), float(np.sqrt((away**2).mean())), float(covered.mean()), int(judged.sum())
        )

    def error_rate(self, truth: Any) -> float:
        """Raise an error: numbers are near the truth or far from it, and ``errors`` says how far."""
        raise DataError("numbers are not right or wrong; run.errors(truth) has the mean absolute error")

    def doubtful(self, most: int = 12) -> Any:
        """Return the rows of ``labels`` with the widest intervals: what to look at first."""
        there = np.flatnonzero(np.isfinite(self.value))
        width = (self.high - self.low)[there]
        rows = pa.array(there[np.argsort(-width, kind="stable")[:most]])
        return _frames.make({name: column.take(rows) for name, column in self.label_columns.items()}, self.origin.frame)

    def _no_classes(self, what: str) -> NoReturn:
        raise DataError(f"{what} is for classes; this run has numbers, and labels has their values and intervals")

    @property
    def probabilities(self) -> Any:
        """Raise an error: there are no classes."""
        self._no_classes("probabilities")

    def to_training(self, threshold: float = 0.5) -> Any:
        """Raise an error: there are no classes."""
        self._no_classes("to_training")

    def codes_of_truth(self, truth: Any) -> Any:
        """Raise an error: there are no classes."""
        self._no_classes("codes_of_truth")

    def _repr_html_(self) -> str:
        """Show the items to look at first and the annotators in a notebook."""
        from consilience.data.names import lines, table

        made = lines(repr(self).strip("<>"))
        people = pa.table(dict(self.annotator_columns)).slice(0, 5)
        import narwhals as nw

        first = nw.from_native(self.doubtful(5), eager_only=True).to_arrow()
        for caption, rows in (("Items to look at first", first), ("Annotators", people)):
            made += table(caption, rows.column_names, zip(*rows.to_pydict().values(), strict=True))
        return str(made)

    def __repr__(self) -> str:
        run = self.run
        return f"<NumericRun: {run['N']} items, {run['M']} annotators, numbers by {run['method']}>"

    # ---- files ------------------------------------------------------------------------------------------

    def _posterior_table(self) -> Floats:
        return np.empty((len(self.item_ids), 0))

    def _save_more(self, folder: Path) -> None:
        from pyarrow.parquet import write_table

        items = {name: pa.array(getattr(self, name)) for name in ("value", "low", "high")}
        write_table(pa.table(items), folder / _VALUES)
        labels = {"weight": pa.array(self.weight), "factor": pa.array(self.factor)}
        write_table(pa.table(labels), folder / _WEIGHTS, compression="zstd")

    @classmethod
    def _load_more(cls, folder: Path, columns: Mapping[str, Any]) -> tuple[Any, Floats, dict[str, Any]]:
        from pyarrow.parquet import read_table

        try:
            found: dict[str, Any] = {}
            for file, names in ((_VALUES, ("value", "low", "high")), (_WEIGHTS, ("weight", "factor"))):
                table = read_table(folder / file)
                found |= {name: np.asarray(table[name].combine_chunks(), float) for name in names}
        except (OSError, pa.ArrowException, KeyError) as error:
            raise FormatError(f"{folder} is damaged: {error}") from error
        N = len(columns["item"])
        if found["value"].size != N:
            raise FormatError(f"{folder} is damaged: its {_VALUES} belongs to another run")
        return NumericModel.load(folder / "model.npz"), np.empty((N, 0)), found

    @classmethod
    def is_saved_in(cls, folder: str | os.PathLike[str]) -> bool:
        """Return whether a folder holds a run over numbers."""
        return (Path(folder) / _VALUES).is_file()
