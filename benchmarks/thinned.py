"""``auto`` on thinned public crowds and on simulated ones.

``auto`` was developed with the eleven public crowds in view, so they are not evidence for others.  These three families
are better evidence, although the first has the same annotators, and the averaging of models was chosen with all of them
in view:

thinned     every public crowd with 30 % and 60 % of its labels, with half of its annotators, with at most three labels
            per item, and with 30 % of its items; two draws each
simulated   two, three and five classes, three, five and ten labels per item, with and without spammers and adversaries;
            two crowds of a thousand annotators with five labels each
unequal     the same with classes as unequal as 97 to 3

Error in percent, excess over voting where positive, number of crowds where it exceeds half a point, expected
calibration error and log-loss: means over the crowds of a family.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import consilience as cs
from benchmarks.breaking import print_table
from benchmarks.figures import Figure
from benchmarks.public import ELEVEN, Crowd, crowd, judge, skipped
from consilience.data.annotations import Annotations
from consilience.kernels._arrays import Bools
from consilience.methods.base import registry

METHODS = ("majority", "one-coin", "ds-em", "hierarchical", "ibcc", "auto")
#: Ways of thinning, and their names.
WAYS = {"labels": (0.3, 0.6), "annotators": (0.5,), "labels an item": (3,), "items": (0.3,)}
DRAWS = range(2)
ROLES: tuple[dict[str, float], ...] = (
    {},
    {"spammers": 0.3},
    {"spammers": 0.2, "adversaries": 0.1, "experts": 0.1},
)
UNEQUAL = ([0.9, 0.1], [0.97, 0.03], [0.75, 0.25], [0.6, 0.3, 0.1], [0.85, 0.05, 0.05, 0.05])
SIZES = ((400, 30, 3), (400, 30, 5), (2000, 50, 5), (300, 20, 10))


class Mean(NamedTuple):
    """Mean scores of a method on a family of crowds."""

    error: float
    above_votes: float
    times: int
    calibration: float
    log_loss: float


def kept(annotations: Annotations, way: str, much: float, seed: int) -> Bools:
    """Draw the labels to keep."""
    a, rng = annotations, np.random.default_rng(seed)
    item = a.item_of_label()
    if way == "labels":
        return np.asarray(rng.random(a.n_labels) < much)
    if way == "annotators":
        return np.asarray((rng.random(a.n_annotators) < much)[a.annotator])
    if way == "items":
        return np.asarray((rng.random(a.n_items) < much)[item])
    order = np.lexsort((rng.random(a.n_labels), item))
    rank = np.empty(a.n_labels, np.int64)
    rank[order] = np.arange(a.n_labels) - a.indptr[item[order]]
    return np.asarray(rank < much)


def thinned(on: Crowd, way: str, much: float, seed: int) -> Crowd:
    """Remove labels; items without labels are not scored."""
    a, left = on.annotations, kept(on.annotations, way, much, seed)
    before = np.concatenate([[0], np.cumsum(left)])
    ends = before[a.indptr]
    few = Annotations(
        ends,
        a.annotator[left],
        a.label[left],
        items=a.item_ids,
        annotators=a.annotator_ids,
        classes=a.class_ids,
        origin=a.origin,
    )
    return Crowd(few, np.where(np.diff(ends) > 0, on.truth, -1))


def drawn(items: int, annotators: int, classes: int, **options: Any) -> Crowd:
    made = cs.simulate(items, annotators, classes, **options)
    return Crowd(made.annotations, np.asarray(made.truth))


def families() -> dict[str, Iterator[Crowd]]:
    made: dict[str, Iterator[Crowd]] = {
        "simulated": (
            drawn(400, 30, K, labels_per_item=L, seed=9 * i + 3 * j + k, **roles)
            for i, K in enumerate((2, 3, 5))
            for j, L in enumerate((3, 5, 10))
            for k, roles in enumerate(ROLES)
        ),
        "a thousand annotators": (drawn(1000, 1000, 3, labels_per_item=5, seed=100 + seed) for seed in DRAWS),
        "unequal": (
            drawn(N, M, len(prior), labels_per_item=L, prior=prior, seed=500 + 8 * i + 2 * j + k, **roles)
            for i, prior in enumerate(UNEQUAL)
            for j, (N, M, L) in enumerate(SIZES)
            for k, roles in enumerate(ROLES[:2])
        ),
    }
    if skipped():
        return made
    public = (
        thinned(crowd(name), way, much, seed)
        for name in ELEVEN
        for way, amounts in WAYS.items()
        for much in amounts
        for seed in DRAWS
    )
    return {"thinned": public, **made}


def mean_of(crowds: Iterator[Crowd]) -> tuple[int, dict[str, Mean]]:
    """Run every method on every crowd."""
    rows: dict[str, list[list[float]]] = {method: [] for method in METHODS}
    for on in crowds:
        fits = {method: registry.fit(method, on.annotations) for method in METHODS}
        scores = {method: judge(fit.posterior, fit.choice.best, on.truth) for method, fit in fits.items()}
        votes = scores["majority"].error
        for method, score in scores.items():
            above = score.error - votes
            rows[method].append([score.error, max(above, 0.0), above > 0.5, score.calibration, score.log_loss])
    n = len(rows["auto"])
    means = {method: np.mean(values, axis=0) for method, values in rows.items()}
    return n, {method: Mean(m[0], m[1], round(n * m[2]), m[3], m[4]) for method, m in means.items()}


def run() -> list[Figure]:
    figures = []
    for name, crowds in families().items():
        n, means = mean_of(crowds)
        print_table(
            f"{name}: {n} crowds",
            ["", "error", "above votes", "crowds", "calibration error", "log-loss"],
            [
                [method, *(f"{value:.2f}" for value in m[:2]), f"{m.times}", *(f"{value:.3f}" for value in m[3:])]
                for method, m in means.items()
            ],
        )
        ours = means["auto"]
        others = [m for method, m in means.items() if method != "auto"]
        best, surest = min(m.error for m in others), min(m.log_loss for m in others)
        figures += [
            Figure(f"{name}: mean error of auto, next to the best of the others", ours.error, best),
            Figure(f"{name}: log-loss of auto, likewise", ours.log_loss, surest),
            Figure(f"{name}: calibration error of auto", ours.calibration),
        ]
    return figures
