"""Random checks: if a reviewer asks for them, one decision in ten is on an item drawn at random.

Doubtful items are wrong more often than others, so decisions on these are no sample of the labels.  The labels and
confidences that were on screen when random items were decided show how far confidences are off
(:mod:`consilience.runs.estimated_error`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.web.ledger import Ledger

__all__ = ["EVERY", "NO_CHECKS", "SHOWN", "Checks", "checked", "due"]

#: One decision in so many is a check.
#: origin: by design; sensitivity: in ``benchmarks review``, halving the error takes about a tenth more decisions with
#: checks, and after decisions on a fifth of the items the interval of the estimated error is a sixth narrower.
EVERY = 10
#: Characters of a label that are kept of what was on screen.
SHOWN = 100


class Checks(NamedTuple):
    """What random checks found."""

    items: int
    wrong: int  #: labels that reviewers changed
    doubt: float | None  #: mean of 1 - confidence when they were shown


NO_CHECKS = Checks(0, 0, None)


def due(decided: int, checks: int) -> bool:
    """Return whether the next item is to be drawn at random."""
    return checks < (decided + 1) // EVERY


def checked(ledger: Ledger) -> Checks:
    """Return the checks whose answer reviewers agree on."""
    answers = ledger.answers()
    made = [(seen, answers[item]) for item, seen in ledger.checks().items() if item in answers]
    wrong = sum(seen["label"] != answer[:SHOWN] for seen, answer in made)
    return Checks(len(made), wrong, 1.0 - float(np.mean([seen["confidence"] for seen, _ in made])) if made else None)
