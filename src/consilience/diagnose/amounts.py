"""How much to collect: the numbers in the advice, from the conditions of the rules.

Agreement beyond chance is r √S standard errors over S pairs of labels, r that of a single pair.  A rule that asks for a
p-value below α, of the better one of two two-sided tests, is satisfied with probability ``POWER`` once

    r √S  ≥  z  =  Φ⁻¹(1 - α/4) + Φ⁻¹(POWER).

If newcomers label n items, with g such pairs of labels and h that show nothing on each, next to S₀ others that show
nothing, they need

    g n r  ≥  z √(S₀ + (g + h) n).

====== ============= =====================================================
symbol name          meaning
====== ============= =====================================================
r      ``r``         standard errors of agreement in one pair of labels
z      ``reach``     standard errors that the rule asks for
S₀     ``noise``     pairs of labels that show nothing
====== ============= =====================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.diagnose.blocks import agreement_in_pairs
from consilience.diagnose.constants import (
    BLOCK_ERRORS,
    BLURRED,
    CLASS_WEAK,
    ENOUGH_GOLD,
    FEW_SHARE,
    GUESSING,
    LABELS_CHANGED,
    LEAST_COMMON,
    MOST_ITEMS,
    MOST_NEWCOMERS,
    NO_SPECIALIST,
    POWER,
    RELATED,
    SLIGHT,
    SMOOTHING,
    TYPICAL_AGREEMENT,
)
from consilience.kernels._arrays import Ints
from consilience.runs.annotator_table import FEW

if TYPE_CHECKING:
    from consilience.diagnose.evidence import Evidence

__all__ = [
    "annotators_to_ask",
    "common_to_three",
    "items_for_specialist",
    "items_in_all",
    "items_of_class",
    "items_to_settle",
    "known_answers",
    "labels_to_settle",
    "labels_to_show",
    "newcomers",
    "pairs_to_show",
    "reach",
    "truths_to_show",
]


def _normal(share: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(share))


def reach(level: float) -> float:
    """Return the standard errors of agreement that satisfy a rule with this p-value with probability ``POWER``."""
    return _normal(1.0 - level / 4.0) + _normal(POWER)


def _typical(e: Evidence) -> float:
    # of two annotators with agreement κ beyond chance on K equally frequent classes, r = κ √(K - 1)
    return TYPICAL_AGREEMENT * float(np.sqrt(max(e.annotations.n_classes - 1, 1)))


def _measured(e: Evidence, which: Any) -> tuple[float, float]:
    """Return r of these pairs of annotators, or a typical one if agreement may be chance, and their pairs of labels."""
    r, S = agreement_in_pairs(e.pairs, which)
    return (r if r * np.sqrt(S) > reach(GUESSING) else _typical(e)), S


def common_to_three(e: Evidence) -> int:
    """Return the items that three annotators each should label, so that all share some."""
    n = max(int(np.ceil((reach(SLIGHT) / _typical(e)) ** 2 / 3.0)), -(-FEW * len(e.active) // 3), e.needed)
    return min(n, e.labelled_items)


def newcomers(e: Evidence, good: Ints, *, able: bool = False) -> tuple[int, int]:
    """Return how many more annotators it takes next to these good ones, and the items that each should label.

    They are as few as possible, and like most annotators, or as ``able`` as these.  If ``MOST_NEWCOMERS`` are too few
    for the items there are, more items are better.
    """
    both = np.isin(e.pairs.who, good).all(axis=1)
    r, S = _measured(e, both)
    fresh = r if able else float(np.sqrt(r * _typical(e)))
    noise, N = float(e.pairs.totals[~both].sum()), e.labelled_items
    others = max(e.annotations.n_labels / max(N, 1) - good.size, 0.0)
    n = np.arange(1, MOST_ITEMS + 1, dtype=np.float64)

    def items(hired: int) -> int:
        g, h = hired * good.size + hired * (hired - 1) / 2, hired * others
        # of the new pairs with the noise, and of all pairs
        new = g * n * fresh >= reach(RELATED) * np.sqrt(noise + (g + h) * n)
        whole = S * r + g * n * fresh >= reach(SLIGHT) * np.sqrt(S + noise + (g + h) * n)
        enough = np.flatnonzero(new & whole)
        return int(enough[0]) + 1 if enough.size else MOST_ITEMS

    least = max(2, 3 - good.size)  # a single one may be poor
    for hired in range(least, MOST_NEWCOMERS + 1):
        if items(hired) <= N:
            return hired, min(max(items(hired), e.needed), N)
    return least, max(items(least), e.needed)


def pairs_to_show(e: Evidence) -> float:
    """Return the pairs of labels that show that annotators know the classes, as a multiple of those there are."""
    return (reach(GUESSING) / _typical(e)) ** 2 / max(float(e.pairs.totals.sum()), 1.0)


def too_few_to_show(e: Evidence) -> bool:
    """Return whether annotators seem to agree, but have too few labels to show that it is not chance."""
    return pairs_to_show(e) > 1.0 and agreement_in_pairs(e.pairs)[0] > _typical(e) / 2.0


def labels_to_show(e: Evidence) -> int:
    """Return the labels of an item with which there are that many pairs."""
    pairs = pairs_to_show(e) * float(e.pairs.totals.sum()) / max(e.labelled_items, 1)
    return int(np.ceil(0.5 + np.sqrt(0.25 + 2.0 * pairs)))  # L (L - 1) / 2 pairs


def truths_to_show(e: Evidence) -> int:
    """Return the known answers that show that annotators as good as most know the classes."""
    # E + d x ≥ z √(S + x): agreement so far is E, and that of a label with the truth is d, d² = r of two labels
    S, z, d = float(e.pairs.totals.sum()), reach(GUESSING), float(np.sqrt(_typical(e)))
    E = _normal(1.0 - e.blocks.crowd_chance / 4.0) * np.sqrt(S) if e.blocks.crowd_chance < 1.0 else 0.0
    b, c = 2.0 * E * d - z * z, E * E - z * z * S
    x = (-b + np.sqrt(max(b * b - 4.0 * d * d * c, 0.0))) / (2.0 * d * d)
    per_item = e.annotations.n_labels / max(e.labelled_items, 1)
    return min(max(int(np.ceil(x / per_item)), e.needed), e.labelled_items)


def items_in_all(e: Evidence) -> int:
    """Return the items with which agreement like that so far is no longer slight."""
    now = _normal(1.0 - e.blocks.crowd_chance / 4.0)
    return int(np.ceil(e.labelled_items * (reach(SLIGHT) / now) ** 2))


def known_answers(e: Evidence) -> int:
    """Return the known answers that count as one more annotator."""
    return max(ENOUGH_GOLD, e.needed)


def _contrast_factor(e: Evidence) -> float:
    """Return how many times the items show whether annotators tell two classes apart."""
    contrast = e.blocks.contrast
    assert contrast is not None
    # √S ρ ≥ Φ⁻¹(1 - RELATED / 2) + Φ⁻¹(POWER) shows that they do; if ρ is 0, √S BLURRED ≥ BLOCK_ERRORS + a quantile of
    # √S times its estimate shows that they do not
    by_chance = (BLOCK_ERRORS + _normal((1.0 + POWER) / 2.0)) / BLURRED
    apart = (_normal(1.0 - RELATED / 2.0) + _normal(POWER)) / max(contrast.correlation, 1e-9)
    return float(min(apart, by_chance) ** 2 / max(contrast.items, 1.0))


def items_of_class(e: Evidence, k: int) -> int:
    """Return the items of class k with which its standard error, and any doubt about a contrast, is small enough."""
    items, contrast = float(e.items_of_class[k]), e.blocks.contrast
    # the standard error falls with √items; it is known to 1 / √(2 draws) of itself
    error = float(e.stability.classes[k]) * (1.0 + _normal(POWER) / np.sqrt(2.0 * max(e.stability.draws, 1)))
    factor = (error / CLASS_WEAK) ** 2
    if contrast is not None and contrast.classes[0] == k and contrast.chance >= RELATED:
        factor = max(factor, _contrast_factor(e))
    return max(e.needed, int(np.ceil(items * factor)))


def items_for_specialist(e: Evidence, k: int) -> int:
    """Return the items that show a specialist for class k, who is right nine times in ten, to be one."""
    prior = e.items_of_class / max(float(e.items_of_class.sum()), 1e-300)
    says = np.where(np.arange(prior.size) == k, POWER, 1.0 - POWER)
    n = e.needed
    while n < e.labelled_items:
        # few items of the class, by chance; then the row of H as in smoothed_factor, and its distance from e_k
        items = n * prior
        items[k] = max(items[k] - _normal(POWER) * np.sqrt(items[k]), 0.0)
        row = (items * says + SMOOTHING) / (items + prior.size * SMOOTHING) * np.sqrt(prior)
        row /= row.sum()
        if np.sqrt((row**2).sum() - 2.0 * row[k] + 1.0) <= NO_SPECIALIST:
            break
        n += e.needed
    return min(n, e.labelled_items)


def items_to_settle(e: Evidence) -> int:
    """Return the items in all that show whether annotators tell two classes apart."""
    return int(np.ceil(e.labelled_items * max(_contrast_factor(e), 1.0)))


def labels_to_settle(e: Evidence) -> int:
    """Return the labels of an item with which few labels change under a bootstrap."""
    # in simulated crowds the share that changes falls with a power of the labels, from 0.6 (poor crowds) to 1.5
    per_item = e.annotations.n_labels / max(e.labelled_items, 1)
    return max(3, int(np.ceil(per_item * e.stability.changed / LABELS_CHANGED)))


def annotators_to_ask(counts: Ints) -> int:
    """Return how many annotators with few labels should give ``LEAST_COMMON``, so that few labels are by such people.

    ``counts`` are the labels of each annotator, (M,); those who gave most of the few are asked first.
    """
    few = np.sort(counts[(counts > 0) & (counts < FEW)])[::-1].astype(np.float64)
    left, total = few.sum() - np.cumsum(few), counts.sum() + np.cumsum(LEAST_COMMON - few)
    return int(np.argmax(left <= FEW_SHARE * total)) + 1
