"""Known answers: how much to trust the models, and how much the annotators who were right about them.

Beside the models stands a vote in which every annotator counts by their record on the known answers,

    s_n(k) = Σ over labels k of item n of  max(0, log a_m / (1 - a_m)),      a_m = (hits + 1) / (known + 2).

The two are averaged, p = (1 - λ) q + λ softmax(c s).  λ and c are those under which the known answers are most
probable.  No known answer predicts itself: q comes from a fit without any, and the record of an annotator leaves out
the item that is predicted.  A small charge on λ keeps a handful of answers from deciding anything.

======= ================================ =============
symbol  name                             shape
======= ================================ =============
q       ``blind``                        (N, K)
λ, c    ``share``, ``scale``             numbers
======= ================================ =============
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from consilience.auto import constants
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.exceptions import DataWarning
from consilience.fitting.fit import Caution, Fit
from consilience.kernels._arrays import Codes, Floats, Ints

__all__ = ["RecordVote", "known_items", "weigh_by_known_answers"]


def known_items(annotations: Annotations) -> Ints:
    """Return the items with a known answer and a label."""
    if annotations.gold is None:
        return np.empty(0, np.int64)
    return np.flatnonzero((annotations.gold >= 0) & (annotations.labels_per_item > 0))


def weigh_by_known_answers(annotations: Annotations, fit: Fit, blind: Fit) -> Fit:
    """Return the fit averaged with the vote by record, as far as the known answers speak for it.

    ``blind`` saw no known answer, ``fit`` held them all.  A few of them can lead a fit astray, so the blind one is
    taken, unless it is clearly wrong more often than a guess, or is so and the records are too short to tell.
    """
    a, items = annotations, known_items(annotations)
    assert a.gold is not None
    truth, q = a.gold[items], blind.posterior[items]
    expected, found = float(1.0 - q.max(axis=1).mean()), float((q.argmax(axis=1) != truth).mean())
    cautions = _contradiction(items.size, found, expected)
    report = {"items": int(items.size), "error": found, "expected": expected, "share": 0.0}
    hits, known = _records(a, items)
    left_out = _scores_without_own(a, items, hits, known)
    _, share, scale = max(
        (_evidence(q, left_out, truth, share, scale), share, scale)
        for share in constants.RECORD_SHARES
        for scale in constants.RECORD_SCALES
    )
    above, short = found - (1.0 - 1.0 / a.n_classes), known[known > 0].mean() < constants.SHORT_RECORD
    if above > constants.BELOW_GUESSING * np.sqrt(0.25 / items.size) or (above > 0 and short):
        return replace(fit, details={**fit.details, "known_answers": report}, cautions=(*cautions, *fit.cautions))
    assert blind.predictor is not None
    why = blind.details["why"]
    if share:
        why += f"; by {share:.0%}, annotators count by their record on the known answers"
    predictor = RecordVote(blind.predictor, np.maximum(_log_odds(hits, known), 0.0), a.annotator_ids, share, scale)
    return replace(
        blind,
        posterior=predictor.mixed(a, blind.posterior),
        hint=fit.hint,
        predictor=predictor,
        details={**blind.details, "why": why, "known_answers": {**report, "share": share}},
        cautions=(*cautions, *blind.cautions),
    )


@dataclass(frozen=True)
class RecordVote:
    """A model averaged with the vote in which annotators count by their record."""

    model: Callable[[Annotations], tuple[Floats, Floats]]
    weights: Floats  #: of the annotators, (M,)
    annotators: Ids
    share: float
    scale: float

    def __call__(self, annotations: Annotations) -> tuple[Floats, Floats]:
        """Return probabilities and vote shares of any items, both (N, K)."""
        posterior, votes = self.model(annotations)
        return self.mixed(annotations, posterior), votes

    def mixed(self, annotations: Annotations, posterior: Floats) -> Floats:
        """Return the average; unlabelled items stay as they are, and those with a known answer are at it."""
        codes = self.annotators.codes_of(annotations.annotator_ids.to_arrow())
        weights = np.where(codes >= 0, self.weights[codes], 0.0)  # an unknown annotator has no record
        scores = _scores(annotations, weights[annotations.annotator])
        judged = annotations.labels_per_item > 0
        if annotations.gold is not None:
            judged &= annotations.gold < 0
        mixed = posterior.copy()
        if annotations.gold is not None:
            held = annotations.gold >= 0
            mixed[held] = np.arange(mixed.shape[1]) == annotations.gold[held, None]
        mixed[judged] = (1.0 - self.share) * posterior[judged] + self.share * _softmax(self.scale * scores[judged])
        return mixed


def _records(annotations: Annotations, items: Ints) -> tuple[Floats, Floats]:
    """Return the number of right answers and of all answers about these items, by annotator, (M,) both."""
    who, right, _ = _answers(annotations, items)
    M = annotations.n_annotators
    return np.bincount(who, right, M).astype(np.float64), np.bincount(who, minlength=M).astype(np.float64)


def _answers(annotations: Annotations, items: Ints) -> tuple[Codes, Floats, Annotations]:
    """Return annotator and correctness of each label of these items, and the items."""
    some = annotations.select_items(items)
    assert some.gold is not None
    return some.annotator, (some.label == some.gold[some.item_of_label()]).astype(float), some


def _scores_without_own(annotations: Annotations, items: Ints, hits: Floats, known: Floats) -> Floats:
    """Return the scores of these items by records that leave out the item itself, (items, K)."""
    who, right, some = _answers(annotations, items)
    return _scores(some, np.maximum(_log_odds(hits[who] - right, known[who] - 1.0), 0.0))


def _log_odds(hits: Floats, known: Floats) -> Floats:
    made: Floats = np.log((hits + 1.0) / (known - hits + 1.0))
    return made


def _scores(annotations: Annotations, weights: Floats) -> Floats:
    """Return the sum of the ``weights`` of the labels for each class, (N, K)."""
    N, K = annotations.n_items, annotations.n_classes
    cell = annotations.item_of_label() * K + annotations.label
    scores: Floats = np.bincount(cell, weights, N * K).astype(np.float64).reshape(N, K)
    return scores


def _softmax(x: Floats) -> Floats:
    p = np.exp(x - x.max(axis=1, keepdims=True))
    made: Floats = p / p.sum(axis=1, keepdims=True)
    return made


def _evidence(blind: Floats, scores: Floats, truth: Codes, share: float, scale: float) -> float:
    """Return the log-probability of the known answers, with a little doubt, less the charge for the share."""
    p = (1.0 - share) * blind + share * _softmax(scale * scores)
    right = p[np.arange(truth.size), truth]
    doubt = constants.RECORD_DOUBT
    return float(np.log((1.0 - doubt) * right + doubt / p.shape[1]).sum()) - constants.RECORD_CHARGE * share


def _contradiction(n: int, found: float, expected: float) -> tuple[Caution, ...]:
    """Return the caution where known answers contradict the labels' own estimate, by more than chance."""
    error = np.sqrt(max(expected * (1.0 - expected), 0.25 / n) / n)
    if found - expected < constants.CONTRADICTED * error:
        return ()
    sentence = (
        f"on your {n} known answers, the consensus of the labels alone is {found:.0%} wrong; it expected "
        f"{expected:.0%}. Known answers are used as far as they help; collect more, or find out what the annotators "
        "misunderstand"
    )
    return ((sentence, DataWarning),)
