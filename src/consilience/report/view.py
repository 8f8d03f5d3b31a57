"""What all sections of a report look at: a run, which of its items have a label, how sure, and what is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.truth import truth_codes
from consilience.diagnose import Diagnosis, diagnose
from consilience.exceptions import DataError
from consilience.kernels._arrays import Bools, Codes, Floats
from consilience.runs.consensus import Consensus
from consilience.runs.sequence_run import SequenceRun

__all__ = ["View", "look_at"]

#: Beyond so many labels, pairs of annotators with common items, or cells of their tables, a diagnosis takes too long.
_MOST_LABELS, _MOST_PAIRS, _MOST_CELLS = 3_000_000, 1_500_000, 40_000_000
#: Steps of one pass beyond which the bootstrap is left out.
_MOST_STEPS = 1_000_000
#: Beyond so many classes the search for the shortfall is left out.
_MOST_CLASSES = 6
_DRAWS = 20
#: Labels in one draw of the bootstrap, about.
_LABELS_IN_DRAW = 200_000


@dataclass(frozen=True, eq=False)
class View:
    """A run and what follows from it at once."""

    consensus: Consensus
    labelled: Bools  #: which items have a label, (N,)
    confidence: Floats  #: of the label, (N,)
    margin: Floats  #: between the label and the runner-up, (N,)
    truth: Codes | None  #: class codes, -1 where unknown, (N,)
    annotators: dict[str, list[Any]]  #: the table of annotators without their names, by column
    diagnosis: Diagnosis | None
    no_diagnosis: str  #: why there is none, else nothing

    @property
    def judged(self) -> Bools:
        """Items that have both a truth and a label."""
        return self.labelled & (np.asarray(self.truth) >= 0)

    @property
    def estimated_error(self) -> float:
        """Share of the labels that are wrong, as the model itself expects: the mean of 1 - confidence."""
        return float(np.mean(1.0 - self.confidence[self.labelled])) if self.labelled.any() else float("nan")

    @property
    def error(self) -> float:
        """Share of the labels that are wrong by the truth given."""
        return float(np.mean(self.consensus.choice.best[self.judged] != np.asarray(self.truth)[self.judged]))


def look_at(consensus: Consensus, truth: Any = None) -> View:
    """Look at a run, and at a truth in any form that :meth:`consilience.Consensus.error_rate` takes."""
    columns = consensus._label_columns()
    labelled = np.asarray(columns["label"].is_valid())
    codes = None if truth is None else _codes_of(consensus, truth)
    if codes is not None and not (labelled & (codes >= 0)).any():
        raise DataError("no item has both a truth and a label: leave the truth out, or check its ids")
    people = consensus._annotator_columns()
    del people[next(iter(people))]
    found, why_not = _diagnosis_of(consensus)
    return View(
        consensus=consensus,
        labelled=labelled,
        confidence=np.asarray(columns["confidence"]),
        margin=np.asarray(columns["margin"]),
        truth=codes,
        annotators={name: column.to_pylist() for name, column in people.items()},
        diagnosis=found,
        no_diagnosis=why_not,
    )


def _codes_of(consensus: Consensus, truth: Any) -> Codes:
    if isinstance(consensus, SequenceRun):
        return consensus.sequences.codes_of_truth(truth, strict=False)
    classes, column = consensus.model.classes, consensus.origin.item
    return truth_codes(truth, consensus.item_ids, classes, column=column, what="truth", strict=False)


def _diagnosis_of(consensus: Consensus) -> tuple[Diagnosis | None, str]:
    """Diagnose, as thoroughly as a second or two allow; or say why not."""
    made = consensus.__dict__.get("diagnosis")
    if isinstance(made, Diagnosis):
        return made, ""
    a = consensus.annotations
    if a is None:
        return None, "The labels are not kept with this run. The verb consilience diagnose makes the verdict from them."
    if a.n_labels == 0:
        return None, "There are no labels."
    if _is_large(a):
        return None, f"With {a.n_labels:,} labels it takes a while: the verb consilience diagnose makes it."
    K, M = a.n_classes, a.n_annotators
    steps = min(a.n_labels, _LABELS_IN_DRAW) * K + 10 * M * K * K
    draws = _DRAWS if steps <= _MOST_STEPS else 0
    found = diagnose(
        a,
        consensus=consensus,
        bootstrap=draws,
        search=K <= _MOST_CLASSES,
        intervals=False,  # none is shown
        seed=consensus.run.get("seed") or 0,
    )
    return found, ""


def _is_large(a: Annotations) -> bool:
    lengths = a.labels_per_item
    pairs = min(a.n_annotators * (a.n_annotators - 1) // 2, int((lengths * (lengths - 1) // 2).sum()))
    return a.n_labels > _MOST_LABELS or pairs > _MOST_PAIRS or pairs * a.n_classes**2 > _MOST_CELLS
