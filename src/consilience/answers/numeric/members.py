"""The members of the consensus of numbers, and their average.

Members are the mean, the median and the two models.  Their weights w minimise how badly they predict an answer from the
others to its item, held towards the weights w⁰ that did well on public sets:

    minimise  Σ (y - Σ_k w_k ŷ_k)² / Σ (y - ȳ)²  +  ρ |w - w⁰|²      over  w ≥ 0,  Σ_k w_k = 1.

Numbers alone do not show where the crowd as a whole is, or how far it spreads: annotators who are all 10 too high agree
perfectly.  So the average gets the mean and the spread over items of the plain means, and stays within the range of
the answers to each item.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from consilience.answers.numeric.constants import ADDITIVE, PRIOR_WEIGHTS, RIDGE, SCALED
from consilience.answers.numeric.fit import NumericFit, Table, fit_numeric
from consilience.answers.numeric.slips import item_medians, medians_without
from consilience.engine.progress import Callback
from consilience.factor.simplex import project_to_simplex
from consilience.kernels._arrays import Bools, Floats

__all__ = ["Average", "average_members", "combine"]

_STEPS, _TOLERANCE = 10_000, 1e-10


class Average(NamedTuple):
    """The average of the members, and the members that were fitted."""

    value: Floats  #: (N,), NaN without answers
    weights: dict[str, float]
    scaled: NumericFit
    additive: NumericFit
    answer_weight: Floats  #: share of each answer in the value of its item, before the spread is adjusted, (labels,)


def average_members(
    table: Table,
    *,
    known: Floats | None = None,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
) -> Average:
    """Fit all members and average them; values that are ``known`` teach the models and are left out of the average."""
    options = {"known": known, "max_iter": max_iter, "tol": tol, "callback": callback}
    scaled, additive = (fit_numeric(table, shape, **options) for shape in (SCALED, ADDITIVE))  # type: ignore[arg-type]
    return combine(table, scaled, additive, known=known)


def combine(
    table: Table,
    scaled: NumericFit,
    additive: NumericFit,
    *,
    known: Floats | None = None,
    prior: Mapping[str, float] = PRIOR_WEIGHTS,
    ridge: float = RIDGE,
) -> Average:
    """Average the members, given the fitted models."""
    item, n, mean = table.item, table.per_item, table.mean()
    others = np.maximum(n[item] - 1, 1)
    members = {
        "mean": (mean, (table.total(table.y)[item] - table.y) / others),
        "median": (item_medians(table, table.y), medians_without(table)),
        "scaled": (scaled.value, scaled.left_out),
        "additive": (additive.value, additive.left_out),
    }
    there = n > 0 if known is None else (n > 0) & ~np.isfinite(known)
    judged = (n[item] > 1) & there[item]
    start = np.array([prior[name] for name in members])
    weights = _stack(np.stack([left[judged] for _, left in members.values()], axis=1), table.y[judged], start, ridge)
    whole = dict(zip(members, weights.tolist(), strict=True))
    value = sum(whole[name] * of_items for name, (of_items, _) in members.items())
    value = _within(table, _anchored(np.asarray(value), mean, there))
    share = whole["mean"] / n[item] + whole["median"] * _median_share(table)
    for name, fit in (("scaled", scaled), ("additive", additive)):
        share = share + whole[name] * fit.weight / table.total(fit.weight)[item]
    return Average(value, whole, scaled, additive, share)


def _stack(predictions: Floats, y: Floats, prior: Floats, ridge: float) -> Floats:
    """Return the weights of the members, by projected gradient steps."""
    variance = float(y.var()) if y.size else 0.0
    if variance == 0.0:
        return prior
    A, b = predictions - y.mean(), y - y.mean()
    G = A.T @ A / (y.size * variance) + ridge * np.eye(prior.size)
    c = A.T @ b / (y.size * variance) + ridge * prior
    step = 1.0 / float(np.linalg.eigvalsh(G)[-1])
    w = prior
    for _ in range(_STEPS):
        fresh = project_to_simplex(w - step * (G @ w - c))
        done = float(np.abs(fresh - w).max()) < _TOLERANCE
        w = fresh
        if done:
            break
    return w


def _anchored(value: Floats, mean: Floats, there: Bools) -> Floats:
    """Return the values with the mean and the spread over items that the plain means have."""
    if not there.any():
        return value
    centre, spread = float(value[there].mean()), float(value[there].std())
    ratio = float(mean[there].std()) / spread if spread > 0.0 else 1.0
    return float(mean[there].mean()) + ratio * (value - centre)


def _within(table: Table, value: Floats) -> Floats:
    """Return the values within the range of the answers to each item."""
    there = table.per_item > 0
    starts = table.indptr[:-1][there]
    found = np.full(value.size, np.nan)
    if starts.size:
        low, high = np.minimum.reduceat(table.y, starts), np.maximum.reduceat(table.y, starts)
        found[there] = np.clip(value[there], low, high)
    return found


def _median_share(table: Table) -> Floats:
    """Return the share of each answer in the median of its item: one for the middle, or half for each of two."""
    order = np.lexsort((table.y, table.item))
    item, n = table.item, table.per_item
    place = np.arange(order.size) - table.indptr[item]
    share = np.empty(order.size)
    share[order] = 0.5 * ((place == (n[item] - 1) // 2).astype(float) + (place == n[item] // 2))
    return share
