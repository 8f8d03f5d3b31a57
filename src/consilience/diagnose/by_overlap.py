"""A diagnosis of answers that have no classes: who labelled what, how far annotators agree, and what follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from consilience.diagnose.agreement import Agreement
from consilience.diagnose.constants import LEAST_COMMON
from consilience.diagnose.diagnosis import Verdict
from consilience.diagnose.evidence import count, weigh
from consilience.diagnose.graph import CoLabelGraph
from consilience.diagnose.rules import Finding
from consilience.kernels._arrays import Ints

__all__ = ["Judged", "OverlapDiagnosis", "judge", "outside_largest_group"]


@dataclass(frozen=True, eq=False)
class OverlapDiagnosis:
    """Whether the answers show who is right, why, and what to collect."""

    verdict: Verdict  #: "identified", "weakly" or "not"
    reasons: list[str]  #: reasons for the verdict, the most important first
    advice: list[str]  #: what to collect
    graph: CoLabelGraph  #: annotators who share items
    agreement: Agreement | None = field(default=None, kw_only=True)  #: if there are coefficients for such answers

    _headlines: ClassVar[Mapping[str, str]]

    @property
    def headline(self) -> str:
        """The verdict as a sentence."""
        return self._headlines[self.verdict]

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values, as in JSON."""
        return {
            "format": f"consilience.{type(self).__name__}",
            "version": 1,
            "verdict": self.verdict,
            "headline": self.headline,
            "reasons": list(self.reasons),
            "advice": list(self.advice),
            "groups": self.graph.n_components,
        }

    def __str__(self) -> str:
        lines = [self.headline, *(f"- {reason}" for reason in self.reasons)]
        if self.advice:
            lines += ["What to do:", *(f"- {advice}" for advice in self.advice)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.verdict}, {self.graph.n_labels.size} annotators>"


def outside_largest_group(graph: CoLabelGraph, labels: Ints) -> Iterator[Finding]:
    """Yield a finding about annotators who share no item with the largest group, if there are any."""
    total = int(labels.sum())
    outside = total - int(labels[graph.members(0)].sum())
    if outside > 0:
        weight = weigh(outside, total)
        yield Finding(
            weight,
            f"{count(outside, 'label')} of {total} are by annotators who share no item with the largest group.",
            f"Let annotators of different groups label at least {LEAST_COMMON} common items." if weight else "",
        )


class Judged(NamedTuple):
    """What findings add up to."""

    verdict: Verdict
    reasons: list[str]
    advice: list[str]


def judge(findings: Iterable[Finding], praise: str | None) -> Judged:
    """Return the verdict of the gravest finding, reasons and advice; ``praise`` comes first if nothing is wrong."""
    found = sorted(findings, key=lambda finding: -finding.weight)
    verdict: Verdict = ("identified", "weakly", "not")[max((finding.weight for finding in found), default=0)]
    reasons = [finding.reason for finding in found]
    if verdict == "identified" and praise is not None:
        reasons.insert(0, praise)
    return Judged(verdict, reasons, list(dict.fromkeys(finding.advice for finding in found if finding.advice)))
