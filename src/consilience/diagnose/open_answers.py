"""Whether open answers show who is right: enough annotators, linked by common items, who agree on answers.

With options that differ from item to item there are no classes to be told apart and no pair blocks.  What remains of
the rules (:mod:`consilience.diagnose.rules`) is about overlap: agreement on an answer is evidence because wrong answers
seldom agree.

==============  ======================================================================================================
verdict         when
==============  ======================================================================================================
``not``         fewer than three annotators; no item with two labels; more than ``OUTSIDE_NOT`` of the labels outside
                the largest group of linked annotators; fewer than ``HARDLY`` of the pairs of labels agree; known
                answers contradict the consensus
``weakly``      more than ``OUTSIDE_NOTE`` of the labels outside that group; fewer than half of the items with three
                labels; less than half of all labels right by estimate; more than ``FEW_SHARE`` of the labels from
                annotators with fewer than ten
``identified``  otherwise
==============  ======================================================================================================

With enough known answers, fewer than three annotators are enough, and so is little agreement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.diagnose.amounts import annotators_to_ask
from consilience.diagnose.by_overlap import OverlapDiagnosis, judge, outside_largest_group
from consilience.diagnose.constants import FEW_SHARE, LEAST_COMMON
from consilience.diagnose.evidence import count, percent
from consilience.diagnose.graph import CoLabelGraph, co_label_graph, observed_pairs, single_answers
from consilience.diagnose.rules import Finding, contradicted
from consilience.kernels.open_answers import candidates_of
from consilience.runs.annotator_table import FEW
from consilience.runs.open_run import OpenRun

__all__ = ["OpenDiagnosis", "agreement_of_pairs", "diagnose_open", "overlap_findings", "without_answers"]

#: Share of agreeing pairs below which nothing shows that anybody is right.
#: origin: by design; alternatives: none; sensitivity: not measured.
HARDLY = 0.05


@dataclass(frozen=True, eq=False)
class OpenDiagnosis(OverlapDiagnosis):
    """Whether open answers show who is right, why, and what to collect."""

    agreeing: float | None  #: share of pairs of labels of an item that agree; None without such pairs

    _headlines: ClassVar[Mapping[str, str]] = {
        "identified": "Identified: annotators agree on answers often enough to show who is right.",
        "weakly": "Weakly identified: agreement shows who is right, but parts of it rest on thin evidence.",
        "not": "Not identified: these answers do not show who is right, whatever the method.",
    }

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values, as in JSON."""
        return {**super().to_dict(), "agreeing_pairs": self.agreeing}


def without_answers(annotations: Annotations) -> Annotations:
    """Return who labelled what, with one of two classes for all labels: for what does not depend on the answers."""
    a = annotations
    known = None if a.gold is None else np.minimum(a.gold, 0)
    bare: Any = {"annotators": a.annotator_ids, "classes": Ids.range(2), "items": a.item_ids, "origin": a.origin}
    return Annotations(a.indptr, a.annotator, np.zeros(a.n_labels, np.uint8), gold=known, **bare)


def agreement_of_pairs(annotations: Annotations) -> float | None:
    """Return the share of pairs of labels of the same item that agree."""
    a = annotations
    size = candidates_of(a.indptr, a.label, None, a.n_classes).size.astype(float)
    all_pairs = float((a.labels_per_item * (a.labels_per_item - 1.0)).sum())
    return float((size * (size - 1.0)).sum()) / all_pairs if all_pairs else None


def diagnose_open(annotations: Annotations, consensus: OpenRun) -> OpenDiagnosis:
    """Diagnose the labels that a run over open answers came from."""
    a = annotations
    bare = single_answers(without_answers(a), gold=False)
    graph = co_label_graph(observed_pairs(bare), a.labels_per_annotator)
    agreeing = agreement_of_pairs(a)
    praise = None
    if agreeing is not None:
        same = percent(consensus.model.same_error)
        praise = f"{percent(agreeing)} of the pairs of labels of an item agree; of wrong ones, {same}."
    judged = judge(_findings(a, graph, agreeing, consensus), praise)
    return OpenDiagnosis(*judged, graph, agreeing)


def overlap_findings(a: Annotations, graph: CoLabelGraph, *, gold: bool) -> Iterator[Finding]:
    """Yield what is wrong with who labelled what, whatever the answers."""
    labels, total = a.labels_per_annotator, max(a.n_labels, 1)
    people = int((labels > 0).sum())
    more = f"Give at least {LEAST_COMMON} items to three annotators each."
    if people < 3 and not gold:
        few = "one annotator" if people == 1 else "two annotators"
        yield Finding(2, f"There {'is' if people == 1 else 'are'} only {few}: nothing shows who is right.", more)
    if not (a.labels_per_item > 1).any():
        yield Finding(0 if gold else 2, "No item was labelled by two annotators: nobody's labels are checked.", more)
        return
    yield from outside_largest_group(graph, labels)
    triples = float(np.mean(a.labels_per_item[a.labels_per_item > 0] >= 3))
    if triples < 0.5:
        reason = f"Only {percent(triples)} of the items have three labels: where two differ, little shows who is right."
        yield Finding(0 if gold else 1, reason, "Give every item to three annotators.")
    rare = labels[(labels > 0) & (labels < FEW)]
    if rare.size and rare.sum() > FEW_SHARE * total:
        reason = (
            f"{rare.size} of {count(people, 'annotator')} gave fewer than {FEW} labels: little can be said of them."
        )
        asked = annotators_to_ask(labels)
        yield Finding(1, reason, f"Give more items to {asked} of them, at least {LEAST_COMMON} labels each.")


def _findings(a: Annotations, graph: CoLabelGraph, agreeing: float | None, consensus: OpenRun) -> Iterator[Finding]:
    yield from contradicted(consensus.run)
    gold = a.gold is not None and int((a.gold >= 0).sum()) >= LEAST_COMMON
    yield from overlap_findings(a, graph, gold=gold)
    if agreeing is None:
        return
    if agreeing < HARDLY:
        yield Finding(
            1 if gold else 2,
            f"Only {percent(agreeing)} of the pairs of labels of an item agree: nothing shows that anybody is right.",
            "Check that equal answers are written in the same way: numbers, units, capitals.",
        )
    right = float(consensus.counts[:, 0].sum()) / max(a.n_labels, 1)
    if right < 0.5:
        yield Finding(
            0 if gold else 1,
            f"Only {percent(right)} of the labels are right by estimate: a popular wrong answer can win.",
            "" if gold else f"Label at least {LEAST_COMMON} items yourself and give them as known answers (gold).",
        )
