"""The result of a run over answers on a scale: mean and median of every item, severity and spread of every annotator.

With v the values of the levels, π the prior and A the confusion of an annotator,

    severity  =  Σ π_k A(i, k) (v_i - v_k),      spread²  =  Σ π_k A(i, k) (v_i - v_k)²  -  severity²:

how far above the truth the annotator answers on average, and how far answers scatter around that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.kernels._arrays import Codes, Floats
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.consensus import SUMMARY, Consensus
from consilience.runs.label_table import TIE, free_names
from consilience.validation import number

__all__ = ["OrdinalRun", "medians", "quantiles", "severity_and_spread"]


def quantiles(posterior: Floats, share: float) -> Codes:
    """Return the first level of every item up to which there is at least this ``share`` of the probability."""
    reached = np.cumsum(posterior, axis=1) >= share - TIE
    reached[:, -1] = True
    found: Codes = reached.argmax(axis=1)
    return found


def medians(posterior: Floats, best: Codes) -> Codes:
    """Return the median level of every item; between two medians, the label ``best``, or else the lower one."""
    low = quantiles(posterior, 0.5)
    high = quantiles(posterior, 0.5 + 2.0 * TIE)
    return np.where((low < best) & (best <= high), best, low)


def severity_and_spread(model: DawidSkene, values: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of an annotator's answers minus the truth, (M,) both."""
    off = np.subtract.outer(values, values)
    joint = model.confusions * model.prior
    severity = np.einsum("mik,ik->m", joint, off)
    squares = np.einsum("mik,ik->m", joint, off**2)
    return severity, np.sqrt(np.maximum(squares - severity**2, 0.0))


@dataclass(frozen=True, eq=False, repr=False)
class OrdinalRun(Consensus):
    """A consensus of answers on a scale; the classes of its model are the levels from low to high.

    ``labels`` has mean and median beside the usual columns, ``annotators`` has severity and spread.  The mean is that
    of the levels' numbers, or of their ranks from 1 if they are words.
    """

    @property
    def values(self) -> Floats:
        """The number of every level, (K,)."""
        return np.asarray(self.run["scale"], float)

    def intervals(self, coverage: float = 0.9) -> Any:
        """Return a frame with item, low and high: levels between which the truth is with at least this probability."""
        number("coverage", coverage)
        tail = (1.0 - min(coverage, 1.0)) / 2.0
        names = free_names(self.origin.item, ("low", "high"), "item")
        ends = (quantiles(self.posterior, tail), quantiles(self.posterior, 1.0 - tail))
        columns = (self.item_ids.to_arrow(), *(self._levels(codes) for codes in ends))
        return _frames.make(dict(zip(names, columns, strict=True)), self.origin.frame)

    @cached_property
    def annotator_columns(self) -> Mapping[str, pa.Array]:
        """The columns of ``annotators``, computed once for all tables, files and reports."""
        columns = dict(super().annotator_columns)
        more = dict(zip(("severity", "spread"), severity_and_spread(self.model, self.values), strict=True))
        first, *others = columns
        names = free_names(first, (*others, *more), "annotator")
        arrays = (*columns.values(), *(pa.array(each) for each in more.values()))
        return MappingProxyType(dict(zip(names, arrays, strict=True)))

    def _label_columns(self) -> dict[str, pa.Array]:
        return self.with_mean_and_median(super()._label_columns(), self.posterior, self.choice.best)

    def with_mean_and_median(
        self, columns: Mapping[str, pa.Array], posterior: Floats, best: Codes
    ) -> dict[str, pa.Array]:
        """Return the columns of ``labels`` of some items with two more."""
        without = ~np.asarray(columns["label"].is_valid())
        first, *others = columns
        names = free_names(first, (*others, "mean", "median"), "item")
        mean = pa.array(posterior @ self.values, mask=without)
        median = self.model.classes.to_arrow().take(pa.array(medians(posterior, best), mask=without))
        return dict(zip(names, (*columns.values(), mean, median), strict=True))

    def _levels(self, codes: Codes) -> pa.Array:
        """Return the names of levels."""
        unlabelled = (self.n_labels == 0) & (self.posterior.max(axis=1) < 1.0)
        return self.model.classes.to_arrow().take(pa.array(codes, mask=unlabelled))

    def __repr__(self) -> str:
        return super().__repr__().replace("<Consensus", "<OrdinalRun").replace(" classes ", " levels ")

    @classmethod
    def is_saved_in(cls, folder: str | os.PathLike[str]) -> bool:
        """Return whether a folder holds a run over answers on a scale."""
        try:
            summary = json.loads((Path(folder) / SUMMARY).read_text("utf-8"))
        except (OSError, ValueError):  # loading says what is wrong
            return False
        return isinstance(summary, dict) and summary.get("answers") == "ordinal"
