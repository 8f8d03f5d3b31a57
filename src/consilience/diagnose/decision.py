"""What to do with a run, in words for the person who decides: accept, review, whom to talk to, what to collect.

The command line and the report say the same, from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.runs.consensus import Consensus

__all__ = ["REVIEW", "Attention", "Decision", "Part", "attention", "decide", "not_estimated"]

#: Labels with less confidence should be reviewed.
REVIEW = 0.7

#: Probability of as many wrong labels, or more, below which a truth contradicts the estimated error.
_CHANCE = 0.025

_HEADLINES = {
    "identified": "The labels show who is right.",
    "weakly": "The labels show who is right only in part.",
    "not": "The labels do not show who is right.",
}

_USE_TRUTH = "Give the truth as known answers (--gold, gold=…): until then, the annotators are judged wrongly, too."

#: What a flag means, in words, and whether one should talk to the annotator; the first words of the flag decide.
_FLAGS = (
    ("spammer", "Answer as if at random", True),
    ("adversary", "Mostly wrong, perhaps by another rule", True),
    ("copies", "Answer almost exactly like others", True),
    ("changes over time", "Changed over time", True),
    ("biased towards", "Prefer one class where another is right", True),
    ("few labels", "Gave too few labels to be judged", False),
)


@dataclass(frozen=True)
class Part:
    """Some of the items, and what to do with them."""

    verb: str  #: "accept", "review", "check all" or "label"
    items: int
    wrong: float | None  #: expected share of wrong labels, if it can be estimated

    def __str__(self) -> str:
        if self.verb == "label":
            return f"label {self.items:,} that {'has' if self.items == 1 else 'have'} no label"
        what = f"{self.verb} {self.items:,}"
        if self.verb == "check all":
            what = "check the only label" if self.items == 1 else f"{what} labels"
        return what + ("" if self.wrong is None else f" (about {self.wrong:.0%} wrong)")


@dataclass(frozen=True)
class Attention:
    """Annotators with the same problem."""

    what: str
    annotators: tuple[int, ...]
    names: tuple[str, ...]
    talk: bool  #: whether to talk to them


@dataclass(frozen=True)
class Decision:
    """What a run says, and what to do."""

    tone: str  #: "identified", "weakly", "not" (also if the labels are contradicted), or "none"
    headline: str  #: how known answers or the truth contradict the labels; or else the verdict in words; or ""
    second: str  #: the verdict in words if the labels are contradicted, else ""
    reason: str  #: the most important reason against the labels, or ""
    error: str  #: the estimated error
    measured: tuple[str, ...]  #: errors against the truth that was given
    parts: tuple[Part, ...]
    attention: tuple[Attention, ...]
    collect: tuple[str, ...]  #: what to collect

    @property
    def to_talk_to(self) -> int:
        """Number of annotators to talk to."""
        return sum(len(each.names) for each in self.attention if each.talk)

    @property
    def to_do(self) -> str:
        """What to accept and to review, and to how many annotators to talk, in one sentence."""
        parts = [str(part) for part in self.parts]
        if people := self.to_talk_to:
            parts.append(f"talk to {people} annotator{'s' * (people > 1)}")
        sentence = ", ".join(parts) + "."
        return sentence[:1].upper() + sentence[1:]


def decide(consensus: Consensus, diagnosis: Any = None) -> Decision:
    """Return what to do with a run; ``diagnosis`` is that of its labels, if there is one."""
    run = consensus.run
    verdict = consensus.verdict if diagnosis is None else str(diagnosis.verdict)
    known, measured = _by_known_answers(consensus), _by_truth(consensus)
    words = _HEADLINES.get(verdict or "", "")
    trusted = verdict != "not" and not known and not measured
    error = run["error_rate"] / 100.0 if measured else consensus.estimated_error.value if run["K"] > 1 else None
    parts = tuple(_parts(consensus, trusted, error))
    reason, advice = "", tuple[str, ...]()
    if diagnosis is not None:
        reason = str(diagnosis.reasons[0]) if verdict != "identified" and diagnosis.reasons else ""
        advice = tuple(diagnosis.advice)
    if measured:
        advice = (_USE_TRUTH, *advice)
    figures = []
    if "error_rate" in run:
        figures.append(f"Error against the truth given: {run['error_rate']:.2f}%.")
    if "option_scores" in run:
        scores = run["option_scores"]
        found = ", ".join(f"{name} {100 * scores[name]:.2f}%" for name in ("precision", "recall", "f1"))
        wrong = f"{scores['error_rate']:.2f}% of the decisions wrong"
        figures.append(f"Options against the truth given: {found}, {wrong}.")
    if "spans" in run:
        found = ", ".join(f"{name} {100 * value:.2f}%" for name, value in run["spans"].items())
        figures.append(f"Spans against the truth given: {found}.")
    return Decision(
        "not" if known or measured else verdict or "none",
        known or measured or words,
        f"Judged by the labels alone: {words}" if words and (known or measured) else "",
        reason,
        _error(consensus),
        tuple(figures),
        parts,
        tuple(attention(consensus)),
        advice or _more_labels(parts),
    )


def _by_known_answers(consensus: Consensus) -> str:
    """Return how known answers show that the labels are worse than they seem, or ""."""
    known = consensus.run.get("known_answers")
    if not known or known["error"] <= known["expected"] or not any("known answers" in w for w in consensus.warnings):
        return ""
    return (
        f"On your {known['items']} known answers the labels alone are {known['error']:.0%} wrong; "
        f"they led to expect {known['expected']:.0%}. With what the known answers teach it is "
        f"{known['error_with']:.0%}."
    )


def _by_truth(consensus: Consensus) -> str:
    """Return how a truth shows that: more wrong labels than chance makes of the highest estimated error, or ""."""
    from scipy.special import bdtrc

    judged, error = consensus.run.get("error_items"), consensus.estimated_error
    if not judged or consensus.run.get("answers") == "multi":  # the estimate is of options, the measured error of sets
        return ""
    share = consensus.run["error_rate"] / 100.0
    if bdtrc(round(share * judged) - 1, judged, error.high) > _CHANCE:
        return ""
    return (
        f"On the {judged:,} items whose truth you gave, {share:.0%} of the labels are wrong; "
        f"the labels led to expect {error.value:.0%} ({error.low:.0%} to {error.high:.0%})."
    )


def not_estimated(run: Mapping[str, Any]) -> str:
    """Return why the error of a run cannot be estimated, or ""."""
    if run.get("gold_items", 0) >= run["N"] > 0:
        return "every item has a known answer"
    return "all labels are the same" if run["K"] < 2 else ""


def _error(consensus: Consensus) -> str:
    run, error, known = consensus.run, consensus.estimated_error, consensus.run.get("known_answers")
    if reason := not_estimated(run):
        return f"There is no estimated error: {reason}."
    basis = "from the labels alone" if error.basis == "labels" or not known else f"from {known['items']} known answers"
    what = "decisions on options" if run.get("answers") == "multi" else "labels"
    return f"Estimated error: {error.value:.0%} of the {what} ({error.low:.0%} to {error.high:.0%}), {basis}."


def _parts(consensus: Consensus, trusted: bool, error: float | None) -> Iterator[Part]:
    """Yield what to do with the items; ``error`` is the share of wrong labels if confidence is not ``trusted``."""
    columns = consensus.label_columns
    labelled = np.asarray(columns["label"].is_valid())
    confidence = np.asarray(columns["confidence"])[labelled]
    sure = confidence >= REVIEW
    kinds = (("accept", sure), ("review", ~sure)) if trusted else (("check all", np.ones_like(sure)),)
    for verb, which in kinds:
        if which.any():
            wrong = float(1.0 - confidence[which].mean()) if trusted else error
            yield Part(verb, int(which.sum()), wrong)
    if not labelled.all():
        yield Part("label", int((~labelled).sum()), None)


def _more_labels(parts: tuple[Part, ...]) -> tuple[str, ...]:
    """Return what to collect where the diagnosis asks for nothing."""
    few = [part for part in parts if part.verb in ("review", "label")]
    if not few:
        return ()
    n = sum(part.items for part in few)
    which = "the item" if n == 1 else f"the {n:,} items"
    return (f"More labels for {which} to review, if nobody has time to: consilience plan says which, and by whom.",)


def attention(consensus: Consensus) -> Iterator[Attention]:
    """Yield annotators who need attention, by problem; everybody once."""
    names, *columns = consensus.annotator_columns.items()
    flags = dict(columns)["flags"].to_pylist()
    ids = names[1].to_pylist()
    left = set(range(len(ids)))
    for flag, what, talk in _FLAGS:
        which = [m for m in sorted(left) if any(word.startswith(flag) for word in flags[m].split("; "))]
        left -= set(which)
        if which:
            yield Attention(what, tuple(which), tuple(str(ids[m]) for m in which), talk)
