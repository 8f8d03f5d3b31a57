"""The value of a decision: how many wrong labels it is expected to remove, on the item itself and on others.

With p_n the posterior of item n, and p_j^(n, k) that of item j after a decision for class k on item n
(:mod:`consilience.web.learning`),

    value(n) = 1 - max p_n  +  Σ_k p_n(k) Σ_j ( max p_j^(n, k) - max p_j ).

The first term is the probability that the label is wrong.  The second is what the decision teaches: annotators are
trusted more or less, and other labels change or become surer.  It is computed for the items with the largest first
term only, since it is small: an annotator's other items share what one answer of theirs shows.

N. Roy & A. McCallum, "Toward optimal active learning through sampling estimation of error reduction" (2001).
"""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.web.learning import Beliefs, LabelsByAnnotator, shifted

__all__ = ["direct", "needed", "order_of", "teaching"]

#: Items whose teaching is computed, and the classes of each that are considered.
CANDIDATES, CLASSES = 200, 3


def direct(posterior: Floats) -> Floats:
    """Return the probability that each label is wrong, (N,)."""
    wrong: Floats = 1.0 - posterior.max(axis=1)
    return wrong


def teaching(annotations: Annotations, by: LabelsByAnnotator, now: Beliefs, items: Ints) -> Floats:
    """Return the expected number of wrong labels that a decision on each of these items removes elsewhere."""
    top = now.posterior.max(axis=1)
    found = np.zeros(items.size)
    for at, n in enumerate(items.tolist()):
        p = now.posterior[n]
        for k in np.argsort(-p, kind="stable")[:CLASSES].tolist():
            others, moved, _, _ = shifted(annotations, by, now, n, k)
            found[at] += p[k] * float((moved.max(axis=1) - top[others]).sum())
    return found


def order_of(value: Floats, open_: Bools) -> Ints:
    """Return the open items, most valuable first; of equal ones the first."""
    at = np.flatnonzero(open_)
    return at[np.argsort(-value[at], kind="stable")]


def needed(wrong: Floats, target: float) -> int:
    """Return how many decisions leave at most ``target`` expected wrong labels, the most doubtful first.

    ``wrong`` are the probabilities of the open items to be wrong.  What decisions teach is not counted.
    """
    left = wrong.sum() - np.cumsum(np.sort(wrong)[::-1])
    return 0 if wrong.sum() <= target else int(np.searchsorted(-left, -target) + 1)
