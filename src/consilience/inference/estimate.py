"""``cs.estimate``: a figure of the whole population, from a consensus and some known answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations
from consilience.data.ids import encode
from consilience.data.truth import truth_columns
from consilience.exceptions import DataError, DataWarning, ParameterError, warn
from consilience.inference.constants import FEWEST, RARER
from consilience.inference.error_rates import rogan_gladen
from consilience.inference.known import blind_consensus, known_answers
from consilience.inference.predictors import panel_predictors
from consilience.inference.regression_estimate import (
    Bounds,
    MeanEstimate,
    fit_predictors,
    mean_estimate,
    parts_of_variance,
)
from consilience.inference.result import Estimate, Source
from consilience.inference.targets import class_values, describe
from consilience.kernels._arrays import Floats, Ints
from consilience.runs.consensus import Consensus

__all__ = ["Estimate", "estimate"]


def estimate(
    data: Any,
    gold: Any = None,
    of: Any = None,
    by: Any = None,
    *,
    versus: Any = None,
    versus_gold: Any = None,
    strata: Any = None,
    clusters: Any = None,
    sensitivity: Any = None,
    specificity: Any = None,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """Estimate a share, a mean or a win rate over all items, with a valid interval.

    The known answers must be a random sample of the items (within ``strata``, if given).  The labels of the panel make
    the interval narrower, by as much as they predict the known answers, and cannot make it invalid: prediction-powered
    inference with a consensus that has seen no known answers, the votes, and votes weighted by each annotator's record
    on the other known answers as predictors, as far as known answers of the rarer kind are enough for these.

    Parameters
    ----------
    data
        A consensus, or labels in any form that :func:`consilience.aggregate` takes.
    gold
        Known answers, in any form that :meth:`consilience.Annotations.with_gold` takes; by default those of the
        consensus.  Without any, the result is a range, and has no value.
    of
        What is estimated: a class (its share), several, "mean" (the default if classes are numbers), or a mapping from
        class to value: ``{"A": 1, "tie": 0.5, "B": 0}`` for the win rate of A.
    by
        Group of every item (a mapping, or a frame with an item column and one other): one estimate for each.
    versus, versus_gold
        A second consensus (or labels) of the same items, and its known answers: the difference is estimated.
    strata, clusters
        Stratum that every item was drawn from, if they were drawn at different rates, and cluster
        (such as the prompt) that it belongs to.
    sensitivity, specificity
        If these are known instead of answers: shares, or pairs (right, tested).
    level
        Level of the interval.
    seed
        Seed of the consensus, if labels are given, and of the folds of the known answers.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(2000, 8, 2, labels_per_item=3, seed=1)
    >>> known = {item: int(crowd.truth[item]) for item in range(0, 2000, 20)}
    >>> found = cs.estimate(cs.aggregate(crowd.annotations), gold=known, of=1)
    >>> bool(found.low < (crowd.truth == 1).mean() < found.high)
    True
    """
    if not 0.5 <= level < 1:
        raise ParameterError(f"level must be a number from 0.5 up to 1, such as 0.95, not {level!r}")
    panel = _Panel.of(data, gold, of, seed)
    a, what = panel.annotations, describe(of)
    if sensitivity is not None or specificity is not None:
        positive = panel.values[panel.consensus.choice.best]
        if not np.isin(panel.values, (0.0, 1.0)).all():
            raise ParameterError("sensitivity and specificity correct a share: of must name a class")
        found = rogan_gladen(float(positive.mean()), a.n_items, sensitivity, specificity, level)
        return Estimate(*found[:3], level, "error rates", what, a.n_items)
    y, predictors = panel.y, panel.predictors
    if versus is not None:
        other = _Panel.of(versus, versus_gold, of, seed)
        at = other.annotations.item_ids.codes_of(a.item_ids.to_arrow())
        if (at < 0).any():
            raise DataError(
                f"versus has no item {a.items[int(np.flatnonzero(at < 0)[0])]!r} ({int((at < 0).sum())} of {a.n_items} "
                "items are missing): a difference needs the same items; estimate systems with other items one by one"
            )
        y, predictors = y - other.y[at], _by_turns(predictors, other.predictors[at])
        what = f"difference of the {what}"
    sample = np.flatnonzero(~np.isnan(y))
    if sample.size == 0:
        if versus is not None:
            raise DataError(
                "a difference needs items whose answers are known for both systems: give gold=… and versus_gold=… for "
                "the same items"
            )
        if by is not None:
            raise DataError("groups need known answers: give gold=…")
        return _range(panel, what, level)
    if sample.size < FEWEST:
        raise DataError(f"{sample.size} known answers are too few for an interval: at least {FEWEST} are needed")
    stratum = _codes(strata, a, "strata")[0]
    cluster = _codes(clusters, a, "clusters")[0]
    for codes, name in ((stratum, "strata"), (cluster, "clusters")):
        if codes is not None and (codes < 0).any():
            raise DataError(f"{name} has nothing for the item {a.items[int(np.flatnonzero(codes < 0)[0])]!r}")
    extremes = np.append(panel.values, y[sample])
    bounds = Bounds(float(extremes.min()), float(extremes.max()))
    if versus is not None:
        most = max(float(np.ptp(panel.values)), float(np.abs(y[sample]).max()))
        bounds = Bounds(-most, most, difference=True)
    systems = 1 if versus is None else 2
    needed = [enough * systems for enough in RARER]
    affordable = systems * sum(_rarer(y[sample], bounds) >= enough for enough in needed)
    fitted = fit_predictors(y[sample], sample, predictors[:, :affordable], stratum)
    design: dict[str, Any] = {"strata": stratum, "clusters": cluster, "bounds": bounds}
    whole = mean_estimate(fitted, sample, np.arange(a.n_items), level, **design)
    if whole is None:
        raise DataError("every stratum needs at least two known answers (in two clusters, if there are clusters)")
    alone = fit_predictors(y[sample], sample, predictors[:, :0], stratum)
    humans = mean_estimate(alone, sample, np.arange(a.n_items), level, **design)

    def of_group(within: Ints) -> MeanEstimate | None:
        # answers of one kind do not show what the panel explains, and its spread among few known answers is too small
        told = _rarer(y[within][~np.isnan(y[within])], bounds) >= needed[0]
        return mean_estimate(fitted if told else alone, sample, within, level, **design)

    groups = None if by is None else _groups(by, a, y, of_group)
    source = Source(a.item_ids, *parts_of_variance(fitted, sample, strata=stratum, clusters=cluster), a.origin.frame)
    return Estimate(*whole[:3], level, "known answers", what, a.n_items, whole.known, humans, groups, source)


@dataclass(frozen=True)
class _Panel:
    """The labels, a consensus that has seen no known answers, and the known values."""

    annotations: Annotations
    consensus: Consensus
    values: Floats  #: of the classes, (K,)
    y: Floats  #: known values, NaN where unknown, (N,)
    predictors: Floats

    @classmethod
    def of(cls, data: Any, gold: Any, of: Any, seed: int) -> _Panel:
        consensus = blind_consensus(data, seed, "estimate")
        a = consensus.annotations
        assert a is not None
        truth, classes = known_answers(data, gold, a)
        values = class_values(of, classes)
        y = np.append(values, np.nan)[truth]
        K = a.n_classes
        return cls(a, consensus, values[:K], y, panel_predictors(a, consensus.posterior, values[:K], truth, seed))


def _by_turns(first: Floats, second: Floats) -> Floats:
    """Return the predictors of two systems by turns, so that the first columns are the best of both."""
    return np.stack([first, second], axis=2).reshape(len(first), -1)


def _rarer(y: Floats, bounds: Bounds) -> float:
    """Return how many known answers are of the rarer kind; of differences, how many differ."""
    low, high, difference = bounds
    if high <= low:
        return 0.0
    share = np.abs(y).sum() / high if difference else ((y - low) / (high - low)).sum()
    return float(share if difference else min(share, y.size - share))


def _codes(given: Any, annotations: Annotations, what: str) -> tuple[Ints | None, list[Any]]:
    """Return the code of every item in a division of the items, -1 where it has none, and the names."""
    if given is None:
        return None, []
    names, values = truth_columns(given, annotations.item_ids, annotations.origin.item, what)
    codes, ids = encode(values)
    item = annotations.item_ids.codes_of(names)
    made = np.full(annotations.n_items, -1, np.int64)
    made[item[item >= 0]] = codes[item >= 0]
    if (made < 0).all():
        raise DataError(f"none of the items in {what} is among the labelled items; are the ids the same?")
    return made, list(ids)


def _groups(by: Any, annotations: Annotations, y: Floats, estimated: Callable[[Ints], MeanEstimate | None]) -> Any:
    codes, names = _codes(by, annotations, "by")
    assert codes is not None
    if (without := int((codes < 0).sum())) > 0:
        warn(f"{without} items have no group and are left out of the groups", DataWarning)
    rows: dict[str, list[Any]] = {name: [] for name in ("group", "value", "low", "high", "known", "items")}
    for g, name in enumerate(names):
        within = np.flatnonzero(codes == g)
        found = estimated(within) if within.size else None
        known = int((~np.isnan(y[within])).sum())
        three = (np.nan,) * 3 if found is None else found[:3]
        for column, value in zip(rows.values(), (name, *three, known, within.size), strict=True):
            column.append(value)
    few = [str(name) for name, value in zip(rows["group"], rows["value"], strict=True) if np.isnan(value)]
    if few:
        more = f" and {len(few) - 5} more groups" if len(few) > 5 else ""
        warn(f"too few known answers in {', '.join(few[:5])}{more} for an interval: two are needed", DataWarning)
    return _frames.make(rows, annotations.origin.frame)


def _range(panel: _Panel, what: str, level: float) -> Estimate:
    """Return the range of the figure if no more labels are wrong than the upper end of the estimated error."""
    a, p, values = panel.annotations, panel.consensus.posterior, panel.values
    said = p @ values
    wrong = panel.consensus.estimated_error.high
    reach = wrong * float(values.max() - values.min())
    low, high = max(said.mean() - reach, values.min()), min(said.mean() + reach, values.max())
    source = Source(a.item_ids, float(said.var()) / a.n_items, float((p @ values**2 - said**2).mean()), a.origin.frame)
    return Estimate(None, float(low), float(high), level, "labels", what, a.n_items, source=source, wrong=wrong)
