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

from collections.abc import Iterable

import numpy as np

from consilience.data.annotations import Annotations
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.web.learning import Beliefs, LabelsByAnnotator, shifted

__all__ = ["direct", "needed", "order_of", "reordered", "teaching"]

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


def reordered(order: Ints, value: Floats, moved: Ints, open_: Bools) -> Ints:
    """Return the open items of an order in which some have a new value; the same as :func:`order_of`, but faster.

    Items that are not among the moved ones must be in their place.
    """
    stays = open_.copy()
    stays[moved] = False
    kept = order[stays[order]]
    new = order_of(value, open_ & ~stays)
    # an item stands before all of smaller value; of equal ones, numbers ascend among the kept and among the new
    return np.insert(kept, np.searchsorted(-value[kept], -value[new], side="right"), new)


def needed(wrong: Iterable[Floats], total: float, target: float) -> int:
    """Return how many decisions leave at most ``target`` of ``total`` expected wrong labels.

    ``wrong`` are the probabilities of the open items to be wrong, part by part in the order of the queue.  What
    decisions teach is not counted.
    """
    done = 0
    for part in wrong:
        if total <= target + 1e-9:
            break
        left = total - np.cumsum(part)
        reached = int(np.searchsorted(-left, -target - 1e-9))
        if reached < part.size:
            return done + reached + 1
        done += part.size
        total = float(left[-1]) if part.size else total
    return done
