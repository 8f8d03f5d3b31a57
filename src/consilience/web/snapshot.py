"""The consensus at one moment, and what changed between two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from consilience.data.names import percent
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.runs.consensus import Consensus
from consilience.runs.numeric_run import NumericRun

__all__ = ["Changes", "Error", "Snapshot"]


class Error(NamedTuple):
    """The estimated share of wrong labels among all items, decided ones included, with a 90 % interval.

    Of numbers, their mean absolute error.
    """

    value: float
    low: float
    high: float


class Changes(NamedTuple):
    """What an exact fit changed since the one before."""

    decisions: int
    flips: list[tuple[int, str, str]]  #: item, label before and after
    n_flips: int
    moved: list[tuple[int, float, float]]  #: annotator, accuracy before and after
    before: Error
    after: Error


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All that pages show of the consensus, at one moment."""

    number: int
    stage: str  #: "votes", "updating" or "exact"
    run: Consensus | None
    posterior: Floats | None  #: (N, K); None where items do not share classes
    label: list[str] | Codes  #: code of the class, (N,), or text where items do not share classes
    confidence: Floats  #: (N,)
    wrong: Floats  #: probability that the label is wrong, (N,); of numbers the expected absolute error
    value: Floats  #: of a decision, (N,)
    order: Ints  #: items without a known answer, most valuable first
    total: float  #: sum of ``wrong`` over these
    accuracy: Floats  #: of the annotators, (M,), NaN where unknown
    error: Error
    upto: int  #: newest event that the exact fit knows

    def label_of(self, n: int, classes: list[str]) -> str:
        """Return the label of item n as text."""
        return self.label[n] if isinstance(self.label, list) else classes[int(self.label[n])]

    @property
    def numbers(self) -> NumericRun | None:
        """The run, if answers are numbers: these are off by an amount, not right or wrong."""
        return self.run if isinstance(self.run, NumericRun) else None

    def sure(self, n: int) -> str:
        """Return how sure the label of item n is: its probability, or the 90 % interval of a number."""
        if self.numbers is None:
            return percent(float(self.confidence[n]), 0)
        low, high = (self.numbers.label_columns[name][n].as_py() for name in ("low", "high"))
        return "–" if low is None else f"{low:.4g} to {high:.4g}"

    def worth(self, n: int) -> str:
        """Return the value of a decision on item n."""
        return f"{self.value[n]:.2f}" if self.numbers is None else f"{self.value[n]:.3g}"

    def amount(self, error: float) -> str:
        """Return an error as text: a share of the labels, or how far numbers are off."""
        return percent(error) if self.numbers is None else f"{error:.3g}"
