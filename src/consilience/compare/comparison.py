"""What a comparison of methods gives back: tables, a picture, files."""

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


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods side by side: how often they are right, how honest their probabilities are, what they cost.

    ``table``, ``runs`` and ``reliability`` are frames of the kind that the data came in.
    """

    methods: tuple[str, ...]  #: names, in the order given
    results: tuple[Mapping[str, Any], ...]  #: what was measured, by method and seed
    facts: Mapping[str, Any]  #: N, M, K, labels, judged, jobs, timeout
    notes: tuple[str, ...] = ()  #: what the user should know, in sentences
    origin: Origin = field(default_factory=Origin)

    @cached_property
    def table(self) -> Any:
        """Frame with a row for each method, the one with the smallest error first.

        Means over its runs: error (percent), with error_sd (standard deviation over seeds) and low, high (95 %
        interval over items, Jeffreys); log_loss, brier, ece (expected calibration error), confidence; seconds;
        memory_mb (peak beyond the labels, the largest of the runs).  Then runs (that gave a result), status (done,
        refused, failed, out of time, stopped) and note (why, or what to know).
        """
        return _frames.make(self._table_columns(), self.origin.frame)

    @cached_property
    def runs(self) -> Any:
        """Frame with a row for each method and seed; a method that is not random runs once and has no seed."""
        return _frames.make(self._run_columns(), self.origin.frame)

    @cached_property
    def reliability(self) -> Any:
        """Frame with a row for each method and bin of confidence (low, high]: all its runs together.

        count (items, over all runs), confidence (mean), accuracy (share of right labels).
        """
        return _frames.make(self._reliability_columns(), self.origin.frame)

    def plot(self, where: Any = None) -> Any:
        """Draw the error of every method with its interval, and how far confidence can be believed.

        ``where`` is the path of a picture (.png, .svg or .pdf), or axes of matplotlib, which get the errors alone.
        Gives the matplotlib figure, or the axes.  matplotlib comes with ``pip install 'consilience[plot]'``.
        """
        from consilience.compare import comparison_plot

        return comparison_plot.draw(self.summaries, self.bins, self.facts, where)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a CSV file, which appears whole or not at all."""
        with atomic_file(path) as temporary:
            _write_csv(self._table_columns(), temporary)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write comparison.csv, runs.csv, reliability.csv and summary.json to a folder, whole or not at all."""
        with atomic_folder(folder, _SUMMARY) as fresh:
            _write_csv(self._table_columns(), fresh / "comparison.csv")
            _write_csv(self._run_columns(), fresh / "runs.csv")
            _write_csv(self._reliability_columns(), fresh / "reliability.csv")
            text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
            (fresh / _SUMMARY).write_text(text + "\n", "utf-8")

    def to_dict(self) -> dict[str, Any]:
        """Give everything in plain values, as JSON holds them."""
        return {
            **_FORMAT,
            **self.facts,
            "notes": list(self.notes),
            "methods": _rows(self._table_columns()),
            "runs": _rows(self._run_columns()),
            "reliability": _rows(self._reliability_columns()),
        }

    @cached_property
    def summaries(self) -> list[dict[str, Any]]:
        """A row for each method in plain values, in the order of the table; None where nothing was measured."""
        rows = [self._summary(name) for name in self.methods]
        return sorted(rows, key=lambda r: (r["error"] is None, r["error"] or 0.0, r["log_loss"] or 0.0))

    @cached_property
    def bins(self) -> dict[str, list[dict[str, Any]]]:
        """The bins of confidence of each method that gave a result."""
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
        # a method that is not random gives the same again and again; one run of one that is tells nothing
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

    def _table_columns(self) -> dict[str, pa.Array]:
        names = ("error", "error_sd", "low", "high", *_FIGURES[1:])
        columns = {"method": pa.array([r["method"] for r in self.summaries], pa.string())}
        columns |= {name: pa.array([r[name] for r in self.summaries], pa.float64()) for name in names}
        columns["runs"] = pa.array([r["runs"] for r in self.summaries], pa.int64())
        columns |= {name: pa.array([r[name] for r in self.summaries], pa.string()) for name in ("status", "note")}
        return columns

    def _run_columns(self) -> dict[str, pa.Array]:
        rows = self.results
        columns = {"method": pa.array([r["method"] for r in rows], pa.string())}
        columns["seed"] = pa.array([r["seed"] for r in rows], pa.int64())
        columns |= {name: pa.array([r.get(name) for r in rows], pa.float64()) for name in _FIGURES}
        columns |= {name: pa.array([r[name] for r in rows], pa.string()) for name in ("status", "note")}
        return columns

    def _reliability_columns(self) -> dict[str, pa.Array]:
        rows = [{"method": name, **each} for name, bins in self.bins.items() for each in bins]
        kinds = {"method": pa.string(), "low": pa.float64(), "high": pa.float64(), "count": pa.int64()}
        kinds |= {"confidence": pa.float64(), "accuracy": pa.float64()}
        return {name: pa.array([r[name] for r in rows], kind) for name, kind in kinds.items()}

    def __repr__(self) -> str:
        best = self.summaries[0]
        how = "none gave a result" if best["error"] is None else f"best {best['method']} ({best['error']:.2f} % wrong)"
        return f"<Comparison: {len(self.methods)} methods on {self.facts['judged']} items, {how}>"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _interval(percent: float | None, n: int) -> tuple[float | None, float | None]:
    """Give Jeffreys' 95 % interval of a percentage of n items; what was observed belongs to it."""
    from scipy.special import betaincinv

    if percent is None:
        return None, None
    wrong = percent / 100.0 * n
    low, high = (100.0 * float(betaincinv(wrong + 0.5, n - wrong + 0.5, tail)) for tail in (0.025, 0.975))
    return min(low, percent), max(high, percent)


def _pooled(b: int, bins: int, runs: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """Put the same bin of several runs together."""
    count = sum(run["count"] for run in runs)
    sums = {"confidence": sum(run["confidence"] for run in runs), "accuracy": sum(run["right"] for run in runs)}
    means = {name: total / count if count else None for name, total in sums.items()}
    return {"low": b / bins, "high": (b + 1) / bins, "count": count, **means}


def _write_csv(columns: dict[str, pa.Array], path: Path) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(pa.table(columns), path)


def _rows(columns: dict[str, pa.Array]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(columns).to_pylist()
    return rows
