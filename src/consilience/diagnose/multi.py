"""Whether answers that name several options show who is right: enough annotators, linked by items, who agree.

The rules are those of open answers (:mod:`consilience.diagnose.open_answers`) for overlap; agreement is Krippendorff's
α with the distance of Jaccard between sets.

==============  ======================================================================================================
verdict         when
==============  ======================================================================================================
``not``         fewer than three annotators; no item with two answers; more than ``OUTSIDE_NOT`` of the answers outside
                the largest group of linked annotators; α at most ``HARDLY``
``weakly``      more than ``OUTSIDE_NOTE`` of the answers outside that group; fewer than half of the items with three
                answers; α below ``LITTLE``; more than ``FEW_SHARE`` of the answers from annotators with fewer than ten
``identified``  otherwise
==============  ======================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from consilience.data.annotations import Annotations
from consilience.diagnose.agreement import Agreement
from consilience.diagnose.by_overlap import OverlapDiagnosis, judge
from consilience.diagnose.graph import CoLabelGraph, co_label_graph, observed_pairs, single_answers
from consilience.diagnose.open_answers import overlap_findings, without_answers
from consilience.diagnose.rules import Finding
from consilience.diagnose.set_agreement import set_agreement
from consilience.runs.multi_run import MultiRun

__all__ = ["MultiDiagnosis", "diagnose_multi"]

#: α up to which nothing shows that anybody is right, and below which little does.
#: origin: simulated crowds have 0.00 where nobody knows anything, 0.04 where F1 is 0.68, 0.07 where it is 0.84, 0.2
#: where it is 0.91; alternatives: none; sensitivity: none on public sets (0.76 on time_expressions_multilabel, 0.46 on
#: opendomain_relations_multilabel).
HARDLY, LITTLE = 0.02, 0.1


@dataclass(frozen=True, eq=False)
class MultiDiagnosis(OverlapDiagnosis):
    """Whether answers that name several options show who is right, why, and what to collect."""

    _headlines: ClassVar[Mapping[str, str]] = {
        "identified": "Identified: annotators agree on options often enough to show who is right.",
        "weakly": "Weakly identified: agreement shows who is right, but parts of it rest on thin evidence.",
        "not": "Not identified: these answers do not show who is right, whatever the method.",
    }

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values, as in JSON."""
        return {**super().to_dict(), "agreement": None if self.agreement is None else self.agreement.to_dict()}


def diagnose_multi(annotations: Annotations, consensus: MultiRun) -> MultiDiagnosis:
    """Diagnose the answers that a run came from; the classes are sets."""
    a = annotations
    graph = co_label_graph(observed_pairs(single_answers(without_answers(a), gold=False)), a.labels_per_annotator)
    agreed = set_agreement(a, "jaccard", bootstrap=0) if (a.labels_per_item > 1).any() else None
    praise = None
    if agreed is not None and agreed.alpha.value is not None:
        praise = f"Krippendorff's α of the sets is {agreed.alpha.value:.2f} (1 is perfect, 0 is chance)."
    return MultiDiagnosis(*judge(_findings(a, graph, agreed, consensus), praise), graph, agreement=agreed)


def _findings(a: Annotations, graph: CoLabelGraph, agreed: Agreement | None, consensus: MultiRun) -> Iterator[Finding]:
    gold = bool(consensus.run.get("known_answers"))
    yield from overlap_findings(a, graph, gold=gold)
    alpha = None if agreed is None else agreed.alpha.value
    if alpha is not None and alpha < LITTLE:
        hardly = alpha <= HARDLY
        yield Finding(
            (0 if gold else 2) if hardly else (0 if gold else 1),
            f"Annotators {'hardly agree' if hardly else 'agree little'} beyond chance (α {alpha:.2f}).",
            "Check that the options are clear, and that equal options are written in the same way.",
        )
