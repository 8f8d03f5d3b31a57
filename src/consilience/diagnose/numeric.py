"""Whether numbers show who is near the truth: enough annotators with common items, whose answers go together.

Two answers to an item have the correlation ρ = τ² / (τ² + σ²), where τ² is the variance of values between items and σ²
that of answers to an item; the mean of n answers has the reliability n ρ / (1 + (n - 1) ρ) (Spearman and Brown 1910).

==============  ======================================================================================================
verdict         when
==============  ======================================================================================================
``not``         one annotator; no item with two answers; reliability of the mean below ``HARDLY``; more than
                ``OUTSIDE_NOT`` of the answers outside the largest group of linked annotators
``weakly``      two annotators; reliability below ``FAIR``; more than ``OUTSIDE_NOTE`` of the answers outside that
                group; more than ``FEW_SHARE`` of the answers from annotators with fewer than ten
``identified``  otherwise
==============  ======================================================================================================

With enough known values, few annotators and little agreement make the verdict ``weakly`` at worst.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from consilience.data.annotations import Annotations
from consilience.diagnose.by_overlap import OverlapDiagnosis, judge, outside_largest_group
from consilience.diagnose.constants import FEW_SHARE, LEAST_COMMON
from consilience.diagnose.evidence import count, percent
from consilience.diagnose.graph import CoLabelGraph, co_label_graph, observed_pairs, single_answers
from consilience.diagnose.open_answers import without_answers
from consilience.diagnose.rules import Finding
from consilience.runs.annotator_table import FEW
from consilience.runs.numeric_run import NumericRun

__all__ = ["NumericDiagnosis", "diagnose_numeric"]

#: Reliabilities of the mean below which nothing, and only part, shows who is near the truth.
#: origin: by design (0.7 is a common threshold for scales); alternatives: none; sensitivity: surprise, the least
#: reliable scale of snow_affect_numeric, has 0.37, all other public sets 0.42 to 0.97.
HARDLY, FAIR = 0.2, 0.6


@dataclass(frozen=True, eq=False)
class NumericDiagnosis(OverlapDiagnosis):
    """Whether numbers show who is near the truth, why, and what to collect."""

    correlation: float | None  #: of two answers to an item; None without such pairs
    reliability: float | None  #: of the mean of the answers to an item

    _headlines: ClassVar[Mapping[str, str]] = {
        "identified": "Identified: answers to an item are near enough to each other to show who is near the truth.",
        "weakly": "Weakly identified: the answers go together, but parts of it rest on thin evidence.",
        "not": "Not identified: these answers do not show who is near the truth, whatever the method.",
    }

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values, as in JSON."""
        return {**super().to_dict(), "correlation": self.correlation, "reliability": self.reliability}


def diagnose_numeric(annotations: Annotations, consensus: NumericRun) -> NumericDiagnosis:
    """Diagnose the answers that a run over numbers came from."""
    a = annotations
    bare = single_answers(without_answers(a), gold=False)
    graph = co_label_graph(observed_pairs(bare), a.labels_per_annotator)
    n = a.labels_per_item
    paired = n > 1
    correlation = reliability = None
    if paired.any():
        correlation = float(consensus.run["correlation"])
        mean = float(n[paired].mean())
        reliability = mean * correlation / (1.0 + (mean - 1.0) * correlation)
    praise = None if correlation is None else f"Two answers to an item have a correlation of {correlation:.2f}."
    judged = judge(_findings(a, graph, reliability, consensus), praise)
    return NumericDiagnosis(*judged, graph, correlation, reliability)


def _findings(
    a: Annotations, graph: CoLabelGraph, reliability: float | None, consensus: NumericRun
) -> Iterator[Finding]:
    labels, total = a.labels_per_annotator, max(a.n_labels, 1)
    people = int((labels > 0).sum())
    gold = int(consensus.run.get("gold_items", 0)) >= LEAST_COMMON
    more = f"Give at least {LEAST_COMMON} items to three annotators each."
    if people < 2:
        yield Finding(1 if gold else 2, "There is only one annotator: nothing checks the answers.", more)
    elif people == 2:
        yield Finding(1, "There are only two annotators: where they differ, little shows who is nearer.", more)
    if reliability is None:
        yield Finding(1 if gold else 2, "No item has two answers: nobody's answers are checked.", more)
        return
    if reliability < FAIR:
        weight = 2 if reliability < HARDLY and not gold else 1
        yield Finding(
            weight,
            f"Answers to an item differ nearly as much as answers to different items: means have a reliability of "
            f"{max(reliability, 0.0):.2f}.",
            "Collect more answers for each item, or explain the scale to the annotators with examples.",
        )
    yield from outside_largest_group(graph, labels)
    rare = labels[(labels > 0) & (labels < FEW)]
    if rare.size and rare.sum() > FEW_SHARE * total:
        yield Finding(
            1,
            f"{rare.size} of {count(people, 'annotator')} gave fewer than {FEW} answers ({percent(rare.sum() / total)} "
            "of all): little can be said of them.",
            f"Give more items to fewer annotators, at least {LEAST_COMMON} each.",
        )
