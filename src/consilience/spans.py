"""Spans of tags, such as names of people and places in a sentence, from one tag for each token.

============ ==================================================================================================
tag          meaning
============ ==================================================================================================
``O``        outside of every span
``B-x``      begins a span of type x
``I-x``      inside a span of type x; begins one if there is none to continue
``E-x``      ends a span of type x (also ``L-x``)
``S-x``      is a span of type x by itself (also ``U-x``)
============ ==================================================================================================

Tags may come without a type (``B``, ``I``, ``O``).  Spans are defined as in the CoNLL evaluation script (``conlleval``,
Tjong Kim Sang & Buchholz 2000; E and S as in ``seqeval``), which reads every scheme: a token that is not O begins a
span if it is B or S, if the token before is O, E, S or of another type, or at the start of a sequence; otherwise it
continues the span.  So an ``I-x`` after ``O`` begins a span.

Which tags may follow each other depends on the scheme: in IOB2 a span begins with B; in IOB1 with I, or with B right
after another span of its type; in IOBES the tags of a span are S or B I … I E.  The names of the tags are the same in
IOB1 and IOB2; IOB2 is assumed.

A code of -1 is a token without a tag; it counts as O.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.kernels.lagged import has_predecessor

__all__ = [
    "SpanScores",
    "Spans",
    "Tags",
    "are_tags",
    "find_spans",
    "forbidden_starts",
    "forbidden_transitions",
    "read_tags",
    "span_scores",
    "word_scores",
]

Scheme = Literal["iob1", "iob2", "iobes"]

_ROLES = {"O": "O", "B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}


class Tags(NamedTuple):
    """Roles and types of the classes as tags."""

    role: np.ndarray[Any, np.dtype[np.str_]]  #: "O", "B", "I", "E" or "S", (K,)
    type: Ints  #: code of the type, -1 for O, (K,)
    types: tuple[str, ...]  #: names of the types, ascending
    scheme: Scheme


class Spans(NamedTuple):
    """Spans in the order of the tokens: ``start`` up to, not including, ``stop``."""

    start: Ints
    stop: Ints
    type: Ints  #: codes of ``types``
    types: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class SpanScores:
    """Counts of spans; a span is correct if its start, stop and type are all right.

    Shares with a denominator of 0 are 0, as in ``conlleval``.
    """

    types: tuple[str, ...]
    true: Ints  #: spans of the truth, by type
    predicted: Ints  #: predicted spans, by type
    correct: Ints  #: those that are both, by type

    @property
    def precision(self) -> float:
        """Share of the predicted spans that are right, over all types."""
        return float(_share(self.correct.sum(), self.predicted.sum()))

    @property
    def recall(self) -> float:
        """Share of the true spans that were predicted, over all types."""
        return float(_share(self.correct.sum(), self.true.sum()))

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall (micro average)."""
        return float(_share(2 * self.correct.sum(), self.predicted.sum() + self.true.sum()))

    def by_type(self) -> dict[str, Any]:
        """Return columns with a row for each type: type, precision, recall, f1, true, predicted, correct."""
        return {
            "type": np.array(self.types, object),
            "precision": _share(self.correct, self.predicted),
            "recall": _share(self.correct, self.true),
            "f1": _share(2 * self.correct, self.predicted + self.true),
            "true": self.true,
            "predicted": self.predicted,
            "correct": self.correct,
        }

    def __repr__(self) -> str:
        return f"<SpanScores: precision {self.precision:.4f}, recall {self.recall:.4f}, f1 {self.f1:.4f}>"


def are_tags(classes: Iterable[Any]) -> bool:
    """Return whether these names are tags: all in the table of the module, and not all of them O."""
    roles = [_split(name) for name in classes]
    return all(roles) and any(role and role[0] != "O" for role in roles)


def read_tags(classes: Iterable[Any], scheme: Scheme | None = None) -> Tags:
    """Split the names of classes into role and type.

    By default the scheme is IOBES if an E or S (L or U) occurs, otherwise IOB2.
    """
    names = list(classes)
    if not are_tags(names):
        odd = [repr(name) for name in names if not _split(name)]
        raise ParameterError(
            f"spans need classes named O, B-x and I-x (or E-x, S-x); {', '.join(odd[:5]) or 'only O'} came"
        )
    if scheme not in (None, "iob1", "iob2", "iobes"):
        raise ParameterError(f"scheme must be 'iob1', 'iob2' or 'iobes', not {scheme!r}")
    parts = [part for name in names if (part := _split(name))]
    types = sorted({kind for role, kind in parts if role != "O"})
    role = np.array([role for role, _ in parts])
    return Tags(
        role,
        np.array([types.index(kind) if r != "O" else -1 for r, kind in parts], np.int64),
        tuple(types),
        scheme or ("iobes" if np.isin(role, ["E", "S"]).any() else "iob2"),
    )


def _split(name: Any) -> tuple[str, str] | None:
    """Return role and type of a tag, or None if the name is not a tag."""
    role, dash, kind = str(name).partition("-")
    if role not in _ROLES or (role == "O" and dash):
        return None
    return _ROLES[role], kind


def find_spans(labels: Codes, bounds: Ints, classes: Iterable[Any]) -> Spans:
    """Find the spans in the tags of sequences.

    Parameters
    ----------
    labels
        Code of every token's tag, (N,); -1 for no tag.
    bounds
        Where each sequence begins, (S + 1,).
    classes
        The tags' names, (K,).

    Examples
    --------
    >>> found = find_spans(np.array([0, 1, 2, 0, 1]), np.array([0, 5]), ["B-x", "I-x", "O"])
    >>> found.start.tolist(), found.stop.tolist()
    ([0, 3], [2, 5])
    """
    tags = read_tags(classes)
    labels, bounds = _checked(labels, bounds, tags)
    inside, opens, kind = _openings(labels, bounds, tags)
    start = np.flatnonzero(opens)
    # a span ends before the next token that is outside or begins a span
    stops = inside & np.append(~inside[1:] | opens[1:], True)
    return Spans(start, np.flatnonzero(stops) + 1, kind[start], tags.types)


def _openings(labels: Codes, bounds: Ints, tags: Tags) -> tuple[Bools, Bools, Ints]:
    """Return which tokens are inside a span, which begin one, and their types."""
    # a code of -1 finds the O that is appended
    inside = np.append(tags.role != "O", False)[labels]
    kind = np.append(tags.type, -1)[labels]
    begins = np.append(np.isin(tags.role, ["B", "S"]), False)[labels]
    ends = np.append(np.isin(tags.role, ["E", "S"]), False)[labels]
    goes_on = has_predecessor(bounds)
    # O has a type of its own, -1
    goes_on[1:] &= (kind[1:] == kind[:-1]) & ~ends[:-1] & ~begins[1:]
    return inside, inside & ~goes_on, kind


def _checked(labels: Codes, bounds: Ints, tags: Tags) -> tuple[Codes, Ints]:
    labels, bounds = np.asarray(labels), np.asarray(bounds)
    K = tags.role.size
    if bounds.ndim != 1 or not bounds.size or labels.shape != (int(bounds[-1]),):
        raise ParameterError(f"expected one tag for each token, not an array of shape {labels.shape}")
    if labels.size and not (labels.min() >= -1 and labels.max() < K):
        raise ParameterError(f"tags must be codes of the {K} classes, or -1; got {labels.min()} to {labels.max()}")
    return labels, bounds


def forbidden_transitions(classes: Iterable[Any], scheme: Scheme | None = None) -> Bools:
    """Return the mask ``[next, now]`` of tags that may not follow each other, (K, K).

    In IOB2: I-x after anything but B-x and I-x.  In IOB1: B-x after anything but B-x and I-x.  In IOBES: I-x and E-x
    after anything but B-x and I-x, and anything else after B-x and I-x.
    """
    tags = read_tags(classes, scheme)
    unfinished = np.isin(tags.role, ["B", "I"])
    goes_on = unfinished & (tags.type[:, None] == tags.type)
    mask: Bools = np.isin(tags.role, _GO_ON[tags.scheme])[:, None] & ~goes_on
    if tags.scheme == "iobes":
        mask |= ~np.isin(tags.role, _GO_ON["iobes"])[:, None] & unfinished
    return mask


def forbidden_starts(classes: Iterable[Any], scheme: Scheme | None = None) -> Bools:
    """Return the mask of tags that may not come first, (K,): those that continue a span."""
    tags = read_tags(classes, scheme)
    return np.isin(tags.role, _GO_ON[tags.scheme])


#: Roles that continue an unfinished span of their type.
_GO_ON: dict[Scheme, list[str]] = {"iob1": ["B"], "iob2": ["I"], "iobes": ["I", "E"]}


def span_scores(predicted: Codes, truth: Codes, bounds: Ints, classes: Iterable[Any]) -> SpanScores:
    """Compare predicted spans with true ones by start, stop and type (``conlleval``).

    A predicted span with a token of unknown truth (-1) is left out.

    Parameters
    ----------
    predicted, truth
        Code of every token's tag, (N,); -1 for no tag.
    bounds
        Where each sequence begins, (S + 1,).
    classes
        The tags' names, (K,).
    """
    names = list(classes)
    found, known = find_spans(predicted, bounds, names), find_spans(truth, bounds, names)
    unknown = np.concatenate([[0], np.cumsum(np.asarray(truth) < 0)])
    judged = unknown[found.stop] == unknown[found.start]
    kinds = len(known.types)
    n = int(bounds[-1]) + 1

    def key(spans: Spans) -> Ints:
        return (spans.start * n + spans.stop) * kinds + spans.type

    right = np.isin(key(found), key(known)) & judged
    return SpanScores(
        known.types,
        np.bincount(known.type, minlength=kinds),
        np.bincount(found.type[judged], minlength=kinds),
        np.bincount(found.type[right], minlength=kinds),
    )


def word_scores(
    predicted: Codes, truth: Codes, classes: Iterable[Any], bounds: Ints | None = None
) -> tuple[float, float, float]:
    """Return precision, recall and F-score of words in spans (Traganitis 2019, section 4.4.1).

        precision = true-positive words / words in predicted spans
        recall    = true-positive words / words in true spans

    (the thesis has the words in predicted spans in the numerator of the recall).  A word is a true positive if it is in
    a predicted and in a true span of the same type.  Words of unknown truth (-1) are left out.  With ``bounds``, both
    are means over the sequences where they are defined, and the F-score is their harmonic mean.
    """
    tags = read_tags(classes)
    truth = np.asarray(truth)
    whole = np.array([0, truth.size])
    said, true = (np.append(tags.type, -1)[_checked(codes, whole, tags)[0]] for codes in (predicted, truth))
    judged = truth >= 0
    edges = whole if bounds is None else np.asarray(bounds)
    hits, in_predicted, in_true = (
        np.diff(np.concatenate([[0], np.cumsum(which & judged)])[edges])
        for which in ((said >= 0) & (said == true), said >= 0, true >= 0)
    )
    precision, recall = (
        float(np.mean(hits[of > 0] / of[of > 0])) if (of > 0).any() else 0.0 for of in (in_predicted, in_true)
    )
    return precision, recall, float(_share(2 * precision * recall, precision + recall))


def _share(part: Any, whole: Any) -> Floats:
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    share: Floats = np.divide(part, whole, out=np.zeros(whole.shape), where=whole > 0)
    return share
