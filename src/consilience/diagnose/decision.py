"""What to do with a run, in words for the person who decides: accept, review, whom to talk to, what to collect.

The command line and the report say the same, from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.diagnose.rules import contradicted
from consilience.kernels._arrays import Floats, Ints
from consilience.runs.consensus import Consensus
from consilience.runs.estimated_error import EstimatedError

__all__ = [
    "REVIEW",
    "Attention",
    "Decision",
    "Part",
    "attention",
    "decide",
    "not_estimated",
    "notes_beside",
    "too_vague",
]

#: Labels with less confidence should be reviewed.
REVIEW = 0.7

#: Probability of as many wrong labels, or more, below which a truth contradicts the estimated error.
_CHANCE = 0.025

_HEADLINES = {
    "identified": "The labels show who is right.",
    "weakly": "The labels show who is right only in part.",
    "not": "The labels do not show who is right.",
}

#: What the verdict seems to be where known answers or the truth contradict the labels.
_SEEMING = {
    "identified": "From the labels alone it would seem that they show who is right.",
    "weakly": "The labels alone show who is right only in part.",
    "not": "The labels alone do not show who is right.",
}

#: How notes begin that a decision repeats in its own words.
_REPEATED = ("every label is ", "there is only one annotator", "there are only two annotators", "on your ")

#: An estimated error whose interval is wider says nothing.
_WIDEST = 0.6

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
            return f"label {'the item' if self.items == 1 else f'the {self.items:,} items'} without a label"
        if self.verb == "check all" and self.items == 1:
            return "check the only label"
        what = f"{self.verb} {self.items:,}{' labels' if self.verb == 'check all' else ''}"
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
    second: str  #: what the verdict seems to be if the headline contradicts it, or ""
    contradicted: bool  #: whether known answers or the truth contradict the labels
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
    vague = not_estimated(run) or too_vague(consensus.estimated_error)
    error = run["error_rate"] / 100.0 if measured else None if vague else consensus.estimated_error.value
    parts = tuple(_parts(consensus, trusted, error))
    reason, advice = "", tuple[str, ...]()
    if diagnosis is not None:
        reason = str(diagnosis.reasons[0]) if verdict != "identified" and diagnosis.reasons else ""
        advice = tuple(diagnosis.advice)
    second = _SEEMING.get(verdict or "", "") if known or measured else ""
    if known and any(contradicted(run)):  # the known answers are the reason for the verdict
        second = reason = ""
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
        second,
        bool(known or measured),
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
    helps = known["error_with"] < known["error"]
    taught = f"With what they teach it is {known['error_with']:.0%}." if helps else "Learning from them does not help."
    return (
        f"On your {known['items']} known answers the labels alone are {known['error']:.0%} wrong; "
        f"they led to expect {known['expected']:.0%}. {taught}"
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


def notes_beside(notes: Sequence[str]) -> list[str]:
    """Return the notes of a run that its decision does not repeat."""
    return [note for note in notes if not note.startswith(_REPEATED)]


def too_vague(error: EstimatedError) -> bool:
    """Return whether an estimated error says nothing, because labels are too few."""
    return error.high - error.low > _WIDEST


def not_estimated(run: Mapping[str, Any]) -> str:
    """Return why the error of a run cannot be estimated, or ""."""
    if run.get("gold_items", 0) >= run["N"] > 0:
        return "every item has a known answer"
    return "all labels are the same" if run["K"] < 2 else ""


def _error(consensus: Consensus) -> str:
    run, error, known = consensus.run, consensus.estimated_error, consensus.run.get("known_answers")
    if reason := not_estimated(run):
        return f"There is no estimated error: {reason}."
    if too_vague(error):
        return f"The error cannot be estimated: anything from {error.low:.0%} to {error.high:.0%} is possible."
    basis = "from the labels alone" if error.basis == "labels" or not known else f"from {known['items']} known answers"
    what = "decisions on options" if run.get("answers") == "multi" else "labels"
    return f"Estimated error: {error.value:.0%} of the {what} ({error.low:.0%} to {error.high:.0%}), {basis}."


def _parts(consensus: Consensus, trusted: bool, error: float | None) -> Iterator[Part]:
    """Yield what to do with the items; ``error`` is the share of wrong labels if confidence is not ``trusted``."""
    columns = consensus.label_columns
    labelled = np.asarray(columns["label"].is_valid())
    confidence = np.asarray(columns["confidence"])[labelled]
    sure = confidence >= REVIEW
    if not trusted:
        if labelled.any():
            yield Part("check all", confidence.size, error)
    else:
        parts = [(verb, which) for verb, which in (("accept", sure), ("review", ~sure)) if which.any()]
        sizes = np.array([int(which.sum()) for _, which in parts])
        doubts = np.array([float(1.0 - confidence[which].mean()) for _, which in parts])
        if parts and error is not None and consensus.estimated_error.basis != "labels":
            unknown = 1.0 - consensus.run.get("gold_items", 0) / confidence.size  # known items are not wrong
            doubts = _shifted(doubts, sizes, error * max(unknown, 0.0))
        for (verb, _), size, wrong in zip(parts, sizes.tolist(), doubts.tolist(), strict=True):
            yield Part(verb, size, wrong)
    if not labelled.all():
        yield Part("label", int((~labelled).sum()), None)


def _shifted(doubts: Floats, sizes: Ints, error: float) -> Floats:
    """Return the shares of wrong labels in parts of these sizes, shifted in log-odds to the mean ``error``."""
    from scipy.special import expit, logit

    made: Floats = doubts
    low, high = -20.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2.0
        made = expit(logit(np.clip(doubts, 1e-9, 1.0 - 1e-9)) + middle)
        low, high = (low, middle) if made @ sizes > error * sizes.sum() else (middle, high)
    return made


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
