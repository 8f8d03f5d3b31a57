"""Accepting many labels at once, after a look at a random sample.

If x of n sampled labels are wrong, the share of wrong labels among all of them lies, with 95 % confidence, in the
interval of Clopper & Pearson: its bounds are quantiles of Beta(x, n - x + 1) and Beta(x + 1, n - x).

Accepted labels are settled, but they are not known answers: what the labels themselves say must not teach the model.

C. Clopper & E. Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial" (1934).
"""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np

from consilience.exceptions import ParameterError
from consilience.web.session import Review
from consilience.web.store import Event

__all__ = ["Sample", "accept_sampled", "clopper_pearson", "draw_sample", "sample_of"]

#: Labels of a sample.
SIZE = 20


class Sample(NamedTuple):
    """A random sample of labels that may be accepted."""

    threshold: float
    items: list[str]
    labels: list[str]
    population: int  #: labels that it was drawn from

    def judged(self, review: Review) -> list[str | None]:
        """Return what reviewers say of each item, None where nobody has decided."""
        return [review.ledger.of(item).answer for item in self.items]

    def result(self, review: Review) -> tuple[int, int, float, float]:
        """Return wrong and judged labels, and the interval of the share of wrong ones."""
        answers = self.judged(review)
        judged = [(answer, label) for answer, label in zip(answers, self.labels, strict=True) if answer is not None]
        wrong = sum(answer != label for answer, label in judged)
        return (wrong, len(judged), *clopper_pearson(wrong, len(judged)))


def clopper_pearson(wrong: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of a share, of which ``wrong`` of ``n`` were seen."""
    from scipy.stats import beta

    tail = 0.5 * (1.0 - level)
    low = 0.0 if wrong == 0 else float(beta.ppf(tail, wrong, n - wrong + 1))
    high = 1.0 if wrong == n else float(beta.ppf(1.0 - tail, wrong + 1, n - wrong))
    return low, high


def draw_sample(review: Review, reviewer: str, threshold: float, rng: np.random.Generator | None = None) -> Sample:
    """Draw a sample of the open items with at least this confidence, and keep it for this reviewer."""
    if review.now.run is None or review.now.posterior is None:
        raise ParameterError("labels can be accepted in bulk once the first fit is done, where items share classes")
    items = review.eligible(threshold)
    if not items.size:
        raise ParameterError(f"no open item has a confidence of {threshold:.0%} or more")
    drawn = (rng or np.random.default_rng()).choice(items, min(SIZE, items.size), replace=False).tolist()
    now, classes = review.now, review.material.classes
    made = Sample(
        threshold, [review.material.key(n) for n in drawn], [now.label_of(n, classes) for n in drawn], int(items.size)
    )
    review.store.set(f"sample:{reviewer}", json.dumps(made))
    return made


def sample_of(review: Review, reviewer: str) -> Sample | None:
    """Return the sample that a reviewer is looking at."""
    kept = review.store.setting(f"sample:{reviewer}")
    return Sample(*json.loads(kept)) if kept else None


def accept_sampled(review: Review, reviewer: str) -> Event:
    """Accept all labels that the sample stands for, as one step; every label of the sample must have been judged."""
    sample = sample_of(review, reviewer)
    if sample is None:
        raise ParameterError("look at a random sample first")
    wrong, judged, low, high = sample.result(review)
    if judged < len(sample.items):
        raise ParameterError(f"{len(sample.items) - judged} labels of the sample have not been judged yet")
    seen = {"threshold": sample.threshold, "sample": judged, "wrong": wrong, "low": low, "high": high}
    event = review.accept(reviewer, sample.threshold, seen)
    review.store.set(f"sample:{reviewer}", "")
    return event
