"""Result of a comparison of methods: tables, a picture, files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.annotations import Origin
from consilience.files import atomic_file, atomic_folder

__all__ = ["Comparison"]

_FORMAT = {"format": "consilience.Comparison", "version": 1}
_SUMMARY = "summary.json"

#: What is measured in every run.
_FIGURES = ("error", "log_loss", "brier", "ece", "confidence", "seconds", "memory_mb")
#: Columns of the tables.
_END = {"status": pa.string(), "note": pa.string()}
_NUMBERS = dict.fromkeys(("error", "error_sd", "low", "high", *_FIGURES[1:]), pa.float64())
_TABLE = {"method": pa.string(), **_NUMBERS, "runs": pa.int64(), **_END}
_RUNS = {"method": pa.string(), "seed": pa.int64(), **dict.fromkeys(_FIGURES, pa.float64()), **_END}
_BINS = {"method": pa.string(), "low": pa.float64(), "high": pa.float64(), "count": pa.int64()}
_BINS |= {"confidence": pa.float64(), "accuracy": pa.float64()}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Error, calibration and cost of several methods.

    ``table``, ``runs`` and ``reliability`` are frames of the same kind as the data.
    """

    methods: tuple[str, ...]  #: names, in the order given
    results: tuple[Mapping[str, Any], ...]  #: figures of every method and seed
    facts: Mapping[str, Any]  #: N, M, K, labels, judged, jobs, timeout
    notes: tuple[str, ...] = ()  #: remarks for the user, in sentences
    origin: Origin = field(default_factory=Origin)

    @cached_property
    def table(self) -> Any:
        """Frame with a row for each method, the one with the smallest error first.

        Means over its runs: error (percent), with error_sd (standard deviation over seeds) and low, high (95 %
        interval over items, Jeffreys); log_loss, brier, ece (expected calibration error), confidence; seconds;
        memory_mb (peak beyond the labels, the largest of the runs).  Then runs (with a result), status (done, refused,
        failed, out of time, stopped) and note (the reason, or remarks).
        """
        return _frames.make(self._columns()["comparison"], self.origin.frame)

    @cached_property
    def runs(self) -> Any:
        """Frame with a row for each method and seed; a method that is not random runs once and has no seed."""
        return _frames.make(self._columns()["runs"], self.origin.frame)

    @cached_property
    def reliability(self) -> Any:
        """Frame with a row for each method and bin of confidence (low, high]: all its runs together.

        count (items, over all runs), confidence (mean), accuracy (share of right labels).
        """
        return _frames.make(self._columns()["reliability"], self.origin.frame)

    def plot(self, where: Any = None) -> Any:
        """Draw the error of every method with its interval, and the calibration of its confidence.

        ``where`` is the path of a picture (.png, .svg or .pdf), or axes of matplotlib for the errors alone.  Returns
        the matplotlib figure, or the axes.  matplotlib comes with ``pip install 'consilience[plot]'``.
        """
        from consilience.compare import comparison_plot

        return comparison_plot.draw(self.summaries, self.bins, self.facts, where)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a CSV file, atomically."""
        with atomic_file(path) as temporary:
            _write_csv(self._columns()["comparison"], temporary)

    def to_markdown(self) -> str:
        """Return the table in Markdown: error, interval, calibration and seconds of every method."""
        from consilience.compare.comparison_text import to_markdown

        return to_markdown(self.summaries)

    def to_latex(self, caption: str | None = None, label: str | None = None) -> str:
        """Return the table in LaTeX, for the package booktabs; with a caption (in LaTeX) or a label it floats."""
        from consilience.compare.comparison_text import to_latex

        return to_latex(self.summaries, caption, label)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write comparison.csv, runs.csv, reliability.csv and summary.json to a folder, atomically."""
        with atomic_folder(folder, _SUMMARY) as fresh:
            for name, columns in self._columns().items():
                _write_csv(columns, fresh / f"{name}.csv")
            text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
            (fresh / _SUMMARY).write_text(text + "\n", "utf-8")

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values, as in JSON."""
        rows = {name: pa.table(columns).to_pylist() for name, columns in self._columns().items()}
        return {**_FORMAT, **self.facts, "notes": list(self.notes), "methods": rows.pop("comparison"), **rows}

    @cached_property
    def summaries(self) -> list[dict[str, Any]]:
        """A row for each method in plain values, in the order of the table; None where nothing was measured."""
        rows = [self._summary(name) for name in self.methods]
        return sorted(rows, key=lambda r: (r["error"] is None, r["error"] or 0.0, r["log_loss"] or 0.0))

    @cached_property
    def bins(self) -> dict[str, list[dict[str, Any]]]:
        """The bins of confidence of each method with a result."""
        found: dict[str, list[dict[str, Any]]] = {}
        for row in self.summaries:
            if done := [r["bins"] for r in self._runs_of(row["method"]) if "bins" in r]:
                same_bin = zip(*done, strict=True)
                found[row["method"]] = [_pooled(b, len(done[0]), runs) for b, runs in enumerate(same_bin)]
        return found

    def _runs_of(self, name: str) -> list[Mapping[str, Any]]:
        return [row for row in self.results if row["method"] == name]

    def _summary(self, name: str) -> dict[str, Any]:
        runs = self._runs_of(name)
        done = [row for row in runs if row["status"] == "done"]
        row: dict[str, Any] = {"method": name} | {key: _mean(r.get(key) for r in done) for key in _FIGURES}
        errors = [r["error"] for r in done]
        # a single run of a random method has no standard deviation; that of a deterministic method is 0
        surely = len(done) == 1 and done[0]["seed"] is None
        row["error_sd"] = 0.0 if surely else stdev(errors) if len(errors) > 1 else None
        row["low"], row["high"] = _interval(row["error"], self.facts["judged"])
        row["memory_mb"] = max((r["memory_mb"] for r in done if r.get("memory_mb") is not None), default=None)
        row["runs"] = len(done)
        other = next((r for r in runs if r["status"] != "done"), None)
        row["status"] = "done" if other is None else other["status"]
        said = dict.fromkeys(r["note"] for r in done if r["note"])
        if other is not None:
            missing = len(runs) - len(done)
            before = f"{missing} of {len(runs)} runs: " if len(runs) > missing else ""
            said = dict.fromkeys([before + other["note"], *said])
        row["note"] = "; ".join(said)
        return row

    def _columns(self) -> dict[str, dict[str, pa.Array]]:
        """Return the columns of the three tables."""
        bins = [{"method": name, **each} for name, bins in self.bins.items() for each in bins]
        tables = {
            "comparison": (self.summaries, _TABLE),
            "runs": (self.results, _RUNS),
            "reliability": (bins, _BINS),
        }
        return {
            name: {column: pa.array([row.get(column) for row in rows], kind) for column, kind in kinds.items()}
            for name, (rows, kinds) in tables.items()
        }

    def __repr__(self) -> str:
        best = self.summaries[0]
        how = "none gave a result" if best["error"] is None else f"best {best['method']} ({best['error']:.2f}% wrong)"
        return f"<Comparison: {len(self.methods)} methods on {self.facts['judged']} items, {how}>"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _interval(percent: float | None, n: int) -> tuple[float | None, float | None]:
    """Return Jeffreys' 95 % interval of a percentage of n items, extended to contain the percentage."""
    from scipy.special import betaincinv

    if percent is None:
        return None, None
    wrong = percent / 100.0 * n
    low, high = (100.0 * float(betaincinv(wrong + 0.5, n - wrong + 0.5, tail)) for tail in (0.025, 0.975))
    return min(low, percent), max(high, percent)


def _pooled(b: int, bins: int, runs: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """Pool the same bin of several runs."""
    count = sum(run["count"] for run in runs)
    sums = {"confidence": sum(run["confidence"] for run in runs), "accuracy": sum(run["right"] for run in runs)}
    means = {name: total / count if count else None for name, total in sums.items()}
    return {"low": b / bins, "high": (b + 1) / bins, "count": count, **means}


def _write_csv(columns: dict[str, pa.Array], path: Path) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(pa.table(columns), path)
