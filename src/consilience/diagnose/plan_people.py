"""Whom a plan asks: annotators without serious flags, and nobody too much.

An adversary's answers are informative, because they can be inverted, but nobody would buy them.  So these are not
asked: spammers, annotators who are right less often than chance (adversaries, and those who may be one), annotators who
copy each other, and those who got worse over time.  Bias is no reason: the model allows for it.

The labels of an annotator are limited while others can be asked, to the smaller of

* ``TRUST`` n_m, n_m the labels that they gave before, as their quality is known from these only;
* ``SPREAD`` B n_m / Σ n, B the labels that the budget buys and the sum over all who can be asked, so that the work is
  spread;

but not to less than ten.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.diagnose.constants import SPREAD, TRUST
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.runs.annotator_table import FEW
from consilience.runs.consensus import Consensus

__all__ = ["affordable", "flagged", "limits", "note_of"]

#: Why an annotator is not asked.
_SPAMMER, _ADVERSARY = "answers at random", "wrong more often than chance"
_COPIES, _WORSE = "same answers as others", "got worse over time"


def flagged(run: Consensus) -> dict[int, str]:
    """Return the codes of the annotators who should not be asked, and why."""
    found = {change.annotator: _WORSE for change in run.health.changes if change.after < change.before}
    found |= {m: _COPIES for group in run.health.copies for m in group}
    n_labels, accuracy, flags = (run.annotator_columns[name].to_pylist() for name in ("n_labels", "accuracy", "flags"))
    for m, (n, right, said) in enumerate(zip(n_labels, accuracy, flags, strict=True)):
        if said.split(";")[0] == "spammer":  # it is the first flag, before any names of classes
            found[m] = _SPAMMER
        elif n >= FEW and right < 1.0 / len(run.model.classes):
            found[m] = _ADVERSARY
    return dict(sorted(found.items()))


def affordable(annotations: Annotations, price: Floats, able: Bools, budget: float) -> float:
    """Return the number of labels that the budget buys if everybody gives as large a share as before."""
    given = np.where(able, annotations.labels_per_annotator, 0.0)
    if not given.any():
        given = able.astype(np.float64)
    return budget * float(given.sum()) / max(float(given @ price), 1e-300)


def limits(annotations: Annotations, left: Ints, labels: float) -> tuple[Ints, Ints, Ints]:
    """Return the most labels of each annotator: if the work is spread, if it only has to be trusted, and at all."""
    given = annotations.labels_per_annotator
    share = given / max(float(given[left > 0].sum()), 1.0)
    trusted = np.minimum(left, np.maximum((TRUST * given).astype(np.int64), FEW))
    spread = np.minimum(trusted, np.maximum(np.ceil(SPREAD * labels * share).astype(np.int64), FEW))
    return spread, trusted, left


def note_of(names: Ids, not_asked: Mapping[int, str]) -> list[str]:
    """Return a sentence about annotators who are not asked, if there are any."""
    if not not_asked:
        return []
    parts = []
    for reason in dict.fromkeys(not_asked.values()):
        those = [str(names[m]) for m, why in not_asked.items() if why == reason]
        shown = ", ".join(those[:3]) + (f" and {len(those) - 3} more" if len(those) > 3 else "")
        parts.append(f"{shown} ({reason})")
    whom = "everybody is flagged; find other annotators" if len(not_asked) == len(names) else "flagged, so not asked"
    return [f"{whom}: {'; '.join(parts)}. To ask them too: allow_flagged=True (--allow-flagged)"]
