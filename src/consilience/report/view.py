"""What all sections of a report use: a run, which items have a label, how sure it is, the truth, and the diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose import Diagnosis
from consilience.diagnose.by_overlap import OverlapDiagnosis
from consilience.diagnose.multi import diagnose_multi
from consilience.diagnose.numeric import diagnose_numeric
from consilience.diagnose.open_answers import diagnose_open
from consilience.diagnose.runs import diagnose_run
from consilience.kernels._arrays import Bools, Codes, Floats
from consilience.runs.consensus import Consensus
from consilience.runs.multi_run import MultiRun
from consilience.runs.numeric_run import NumericRun
from consilience.runs.open_run import OpenRun

__all__ = ["View", "quick_diagnosis"]

#: Beyond so many labels, pairs of annotators with common items, or cells of their tables, there is no diagnosis.
_MOST_LABELS, _MOST_PAIRS, _MOST_CELLS = 3_000_000, 1_500_000, 40_000_000


@dataclass(frozen=True, eq=False)
class View:
    """A run and what is derived from it."""

    consensus: Consensus
    truth: Codes | None  #: class codes, -1 if unknown, (N,)
    diagnosis: Diagnosis | OverlapDiagnosis | None
    no_diagnosis: str  #: why there is none, or ""

    @cached_property
    def labelled(self) -> Bools:
        """Mask of items with a label, (N,)."""
        return np.asarray(self.consensus.label_columns["label"].is_valid())

    @cached_property
    def confidence(self) -> Floats:
        """Probability of each label, (N,)."""
        return np.asarray(self.consensus.label_columns["confidence"])

    @cached_property
    def margin(self) -> Floats:
        """Difference between the label and the runner-up, (N,)."""
        return np.asarray(self.consensus.label_columns["margin"])

    @cached_property
    def annotators(self) -> dict[str, list[Any]]:
        """The table of annotators by column, without their names."""
        _, *columns = self.consensus.annotator_columns.items()
        return {name: column.to_pylist() for name, column in columns}

    @property
    def is_open(self) -> bool:
        """Whether there are no classes: options differ from item to item, or answers name several."""
        return isinstance(self.consensus, OpenRun | MultiRun)

    @property
    def sequences(self) -> Any:
        """The sequences of a run over tokens in order, else None."""
        return getattr(self.consensus, "sequences", None)

    @property
    def judged(self) -> Bools:
        """Mask of items that have both a truth and a label."""
        return self.labelled & (np.asarray(self.truth) >= 0)

    @property
    def error(self) -> float:
        """Share of wrong labels by the given truth."""
        return float(np.mean(self.consensus.choice.best[self.judged] != np.asarray(self.truth)[self.judged]))


def quick_diagnosis(
    consensus: Consensus,
) -> tuple[Diagnosis | OverlapDiagnosis | None, str]:
    """Diagnose as thoroughly as a second or two allow, or return the reason why not."""
    done = consensus.__dict__.get("diagnosis")
    if isinstance(done, Diagnosis | OverlapDiagnosis):
        return done, ""
    a = consensus.annotations
    if a is None:
        return None, "The labels are not kept with this run. Run consilience diagnose on them for a verdict."
    if a.n_labels == 0:
        return None, "There are no labels."
    if isinstance(consensus, OpenRun):
        return diagnose_open(a, consensus), ""
    if isinstance(consensus, MultiRun):
        return diagnose_multi(a, consensus), ""
    if isinstance(consensus, NumericRun):
        return diagnose_numeric(a, consensus), ""
    if _is_large(a):
        return None, f"With {a.n_labels:,} labels a verdict takes a while: run consilience diagnose for it."
    return diagnose_run(a, consensus), ""


def _is_large(a: Annotations) -> bool:
    lengths = a.labels_per_item
    pairs = min(a.n_annotators * (a.n_annotators - 1) // 2, int((lengths * (lengths - 1) // 2).sum()))
    return a.n_labels > _MOST_LABELS or pairs > _MOST_PAIRS or pairs * a.n_classes**2 > _MOST_CELLS
