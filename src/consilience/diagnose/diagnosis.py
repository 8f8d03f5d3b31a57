"""Identifiability of the model from the labels: a verdict, reasons in words, and what to collect.

The rules are in :mod:`consilience.diagnose.rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.diagnose import stability as _stability
from consilience.diagnose.agreement import Agreement, agreement
from consilience.diagnose.blocks import BlockStrength
from consilience.diagnose.constants import DRAW_LABELS, DRAWS, MOST_CLASSES, MOST_SEARCHED, MOST_STEPS
from consilience.diagnose.evidence import Evidence
from consilience.diagnose.graph import CoLabelGraph
from consilience.diagnose.guaranteed import Guarantees
from consilience.diagnose.health import effective_annotators
from consilience.diagnose.plain import plain, plain_rows
from consilience.diagnose.rare import merge_rare
from consilience.diagnose.rules import findings, obstacles, what_holds
from consilience.diagnose.scatter import Scatter
from consilience.exceptions import DataError, ParameterError
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Floats
from consilience.methods.base import registry
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.consensus import Consensus
from consilience.runs.label_table import free_names
from consilience.runs.multi_run import MultiRun
from consilience.runs.numeric_run import NumericRun
from consilience.runs.open_run import OpenRun
from consilience.validation import check_seed

__all__ = ["Diagnosis", "Verdict", "diagnose", "first_look"]

Verdict = Literal["identified", "weakly", "not"]

_FORMAT = {"format": "consilience.Diagnosis", "version": 1}

_HEADLINE: dict[Verdict, str] = {
    "identified": "Identified: the labels show how good the annotators are, and so who is right.",
    "weakly": "Weakly identified: the labels show how good the annotators are, but parts of it rest on thin evidence.",
    "not": "Not identified: these labels do not show how good the annotators are, whatever the method.",
}


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Whether the labels determine the model, why, and what to collect.

    ``annotators`` and ``classes`` are frames of the same kind as the data.
    """

    verdict: Verdict  #: "identified", "weakly" or "not"
    reasons: list[str]  #: reasons for the verdict, the most important first
    advice: list[str]  #: what to collect, and from which annotators
    graph: CoLabelGraph  #: annotators who share items
    blocks: BlockStrength  #: strength of the pair blocks
    scatter: Scatter  #: class specialists, and the sufficiently scattered condition
    stability: _stability.Stability  #: standard errors under a bootstrap over items
    method: str  #: method of the model
    n_items: int
    n_labels: int
    items_of_class: Floats  #: expected items of each class, (K,)
    annotator_ids: Ids
    class_ids: Ids
    origin: Origin = field(default_factory=Origin)
    agreement: Agreement | None = None  #: coefficients of agreement; None where no item has two labels
    #: Effective number of independent annotators; without known answers, an upper bound.
    effective_annotators: float | None = None
    guarantees: Guarantees | None = None  #: what theorems guarantee with these labels

    @property
    def headline(self) -> str:
        """The verdict as a sentence."""
        return _HEADLINE[self.verdict]

    @cached_property
    def annotators(self) -> Any:
        """Frame with a row for each annotator.

        n_labels, common_items (shared with somebody), partners (number of annotators who share items), group (0: the
        largest; null without labels), singular_value (the smallest of their block with the majority of the others),
        sampling_error (of it), condition (its condition number, null when infinite), chance (p-value of independence
        from the others), standard_error (of their confusions).
        """
        return _frames.make(self._annotator_columns(), self.origin.frame)

    @cached_property
    def classes(self) -> Any:
        """Frame with a row for each class.

        items (expected), share, specialist (the annotator nearest to a class specialist), says (their label), distance
        (of that row of H from the unit vector), angle (in degrees), standard_error (of the crowd's mean column).
        """
        return _frames.make(self._class_columns(), self.origin.frame)

    def _annotator_columns(self) -> dict[str, Any]:
        M = len(self.annotator_ids)
        g, b = self.graph, self.blocks
        silent = g.n_labels[:M] == 0
        alone = b.common[:M] == 0
        columns = {
            "n_labels": pa.array(g.n_labels[:M]),
            "common_items": pa.array(b.common[:M]),
            "partners": pa.array(g.partners[:M]),
            "group": pa.array(g.component[:M], mask=silent),
            "singular_value": pa.array(b.smallest[:M], mask=alone),
            "sampling_error": pa.array(b.error[:M], mask=alone),
            "condition": pa.array(b.condition[:M], mask=alone | ~np.isfinite(b.condition[:M])),
            "chance": pa.array(b.chance[:M], mask=alone),
            "standard_error": pa.array(self.stability.annotators, mask=silent),
        }
        names = free_names(self.origin.annotator, tuple(columns), "annotator")
        return dict(zip(names, (self.annotator_ids.to_arrow(), *columns.values()), strict=True))

    def _class_columns(self) -> dict[str, Any]:
        K, s = len(self.class_ids), self.scatter
        nobody = s.row < 0
        return {
            "class": self.class_ids.to_arrow(),
            "items": pa.array(self.items_of_class),
            "share": pa.array(self.items_of_class / max(float(self.items_of_class.sum()), 1e-300)),
            "specialist": self.annotator_ids.to_arrow().take(pa.array(s.row // K, mask=nobody)),
            "says": self.class_ids.to_arrow().take(pa.array(s.row % K, mask=nobody)),
            "distance": pa.array(s.distance),
            "angle": pa.array(s.angle),
            "standard_error": pa.array(self.stability.classes),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values, as in JSON."""
        g, b, s, t = self.graph, self.blocks, self.scatter, self.stability
        M = len(self.annotator_ids)
        largest = [g.members(c) for c in range(min(g.n_components, 20))]
        finite = b.pair_condition[np.isfinite(b.pair_condition)]
        return {
            **_FORMAT,
            "verdict": self.verdict,
            "headline": self.headline,
            "reasons": list(self.reasons),
            "advice": list(self.advice),
            "method": self.method,
            "N": self.n_items,
            "M": M,
            "K": len(self.class_ids),
            "labels": self.n_labels,
            "graph": {
                "groups": g.n_components,
                "largest_groups": [
                    {
                        "annotators": int(m.size),
                        "labels": int(g.n_labels[m].sum()),
                        "bipartite": g.bipartite(c),
                    }
                    for c, m in enumerate(largest)
                ],
                "without_common_items": plain(self.annotator_ids.take(g.isolated[g.isolated < M])),
                "missing_blocks": g.missing,
                "imputable_share": g.imputable,
                "annotators_in_a_triangle": g.triangles,
                "exact": g.exact,
            },
            "blocks": {
                "observed": b.n_blocks,
                "examined": int(b.pair.size),
                "smallest_singular_value": _range(b.pair_smallest),
                "condition_number": _range(finite),
                "singular_blocks": int(b.pair.size - finite.size),
                "sampling_error": _range(b.pair_error),
                "above_sampling_error": float(np.mean(b.pair_smallest > b.pair_error)) if b.pair.size else None,
                "chance": b.crowd_chance,
                "weakest_contrast": None
                if b.contrast is None
                else {
                    "classes": plain(self.class_ids.take(list(b.contrast.classes))),
                    "correlation": b.contrast.correlation,
                    "chance": b.contrast.chance,
                },
            },
            "scatter": {"shortfall": s.shortfall, "exact": s.exact},
            "stability": {
                "labels_changed": t.changed,
                "prior_errors": t.prior.tolist(),
                "draws": t.draws,
                "items_per_draw": t.items,
            },
            "effective_annotators": self.effective_annotators,
            "agreement": None if self.agreement is None else self.agreement.to_dict(),
            "guarantees": None if self.guarantees is None else self.guarantees.to_dict(),
            "classes": plain_rows(self._class_columns()),
            "annotators": plain_rows(self._annotator_columns()),
        }

    def __str__(self) -> str:
        lines = [self.headline, *(f"- {reason}" for reason in self.reasons)]
        if self.advice:
            lines += ["What to do:", *(f"- {advice}" for advice in self.advice)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Show the verdict with its reasons and advice, in notebooks."""
        from consilience.data.names import lines, shown

        made = lines(self.headline, *(shown(reason, 400) for reason in self.reasons), kind="li")
        if self.advice:
            made += lines("What to do", *(shown(advice, 400) for advice in self.advice), kind="li")
        return str(made)

    def __repr__(self) -> str:
        verdict = {"identified": "identified", "weakly": "weakly identified", "not": "not identified"}[self.verdict]
        return f"<Diagnosis: {verdict}, {len(self.annotator_ids)} annotators, {len(self.class_ids)} classes>"


def diagnose(
    data: Any,
    *,
    consensus: Consensus | DawidSkene | None = None,
    method: str = "auto",
    bootstrap: int | None = None,
    search: bool | None = None,
    intervals: bool = True,
    seed: int = 0,
) -> Diagnosis:
    """Diagnose labels with classes, or a consensus of any answers; :func:`consilience.diagnose` has the parameters."""
    check_seed(seed)
    annotations = as_annotations(data)
    if annotations.n_labels == 0:
        raise DataError("there are no labels: there is nothing to diagnose")
    if isinstance(consensus, OpenRun):
        from consilience.diagnose.open_answers import diagnose_open

        return diagnose_open(annotations, consensus)  # type: ignore[return-value]
    if isinstance(consensus, NumericRun):
        from consilience.diagnose.numeric import diagnose_numeric

        return diagnose_numeric(annotations, consensus)  # type: ignore[return-value]
    if isinstance(consensus, MultiRun):
        from consilience.diagnose.multi import diagnose_multi
        from consilience.io.sets import read_sets

        return diagnose_multi(read_sets(annotations), consensus)  # type: ignore[return-value]
    model, used, run = _model_of(annotations, consensus, method)
    annotations = model.recoded(annotations)
    if annotations.n_annotators != len(model.annotators):
        raise ParameterError("the consensus is of other annotators than the data; give that of these labels")
    a, K = annotations, annotations.n_classes
    if bootstrap is None:
        steps = min(a.n_labels, DRAW_LABELS) * K + 10 * a.n_annotators * K * K
        bootstrap = DRAWS if steps <= MOST_STEPS else 0
    if isinstance(consensus, Consensus) and consensus.annotations is data and consensus.examine is not None:
        independent = consensus.effective_annotators  # which its tables need too
    else:
        independent = effective_annotators(a, model)[0]
    whole = model
    a, model = merge_rare(a, model, MOST_CLASSES)
    search = K <= MOST_SEARCHED if search is None else search
    evidence = Evidence(a, model, run, draws=bootstrap, search=search, seed=seed)
    found = findings(evidence)
    verdict: Verdict = ("identified", "weakly", "not")[max((finding.weight for finding in found), default=0)]
    reasons = [finding.reason for finding in found if finding.reason]
    if K > MOST_CLASSES:
        reasons.append(f"The {K - MOST_CLASSES + 1} rarest of the {K} classes were taken as one class.")
    return Diagnosis(
        verdict=verdict,
        reasons=[*what_holds(evidence), *reasons] if verdict == "identified" else reasons,
        advice=list(dict.fromkeys(finding.advice for finding in found if finding.advice)),
        graph=evidence.graph,
        blocks=evidence.blocks,
        scatter=evidence.scatter,
        stability=evidence.stability,
        method=used,
        n_items=a.n_items,
        n_labels=a.n_labels,
        items_of_class=evidence.items_of_class,
        annotator_ids=a.annotator_ids,
        class_ids=a.class_ids,
        origin=a.origin,
        agreement=_agreement(annotations, seed, intervals),
        effective_annotators=independent,
        guarantees=Guarantees.of(whole, a.n_labels / max(evidence.labelled_items, 1), evidence.pairs.totals),
    )


def first_look(annotations: Annotations, consensus: Consensus) -> str | None:
    """Return the verdict and its first reason if a look at pair blocks, without a bootstrap, shows reason for alarm."""
    a, model = merge_rare(consensus.model.recoded(annotations), consensus.model, MOST_CLASSES)
    found = obstacles(Evidence(a, model, consensus.run))
    if not found:
        return None
    return f"{_HEADLINE['not' if found[0].weight == 2 else 'weakly']} {found[0].reason}"


def _agreement(annotations: Annotations, seed: int, intervals: bool) -> Agreement | None:
    try:
        return agreement(annotations, bootstrap=1000 if intervals else 0, seed=seed)
    except DataError:  # no item has labels of two annotators
        return None


def _model_of(
    annotations: Annotations, consensus: Consensus | DawidSkene | None, method: str
) -> tuple[DawidSkene, str, Mapping[str, Any]]:
    """Return a model of the labels, how it was found, and what its run reports."""
    if consensus is None:
        fit = registry.fit(method, annotations)
        return fit.model, registry.resolve(method)[2], fit.details
    if isinstance(consensus, DawidSkene):
        return consensus, "given", {}
    return consensus.model, str(consensus.run["method"]), consensus.run


def _range(values: Floats) -> dict[str, float] | None:
    if not values.size:
        return None
    return {"min": float(values.min()), "median": float(np.median(values)), "max": float(values.max())}
