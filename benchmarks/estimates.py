"""Estimated next to true errors: of several methods on public sets, and of ``auto`` on simulated independent crowds.

``field`` has the estimates of ``auto`` on public sets.  Those of other methods rest on what ``auto`` thinks of their
labels, with its constants as released; shown are means over the sets, in percent.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any, NamedTuple

import numpy as np

import consilience as cs
from benchmarks.breaking import print_table
from benchmarks.figures import Figure
from benchmarks.public import FAMILIES, crowd, skipped
from consilience import metrics
from consilience.data.annotations import Annotations
from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Codes

METHODS = ("majority", "one-coin", "ds-em")
#: Labels of a set, at most: beyond, every n-th item.
MOST_LABELS = 50_000
#: Items, annotators, classes, labels of an item, and what else is simulated.
SIMULATED: tuple[tuple[int, int, int, int, dict[str, Any]], ...] = (
    (100, 10, 3, 5, {}),
    (200, 6, 2, 6, {}),
    (300, 20, 2, 5, {}),
    (600, 25, 3, 5, {"spammers": 0.2}),
    (1000, 30, 3, 5, {"experts": 0.1, "spammers": 0.3, "adversaries": 0.1}),
    (1000, 10, 5, 3, {}),
    (1000, 500, 3, 5, {}),
    (2000, 50, 4, 5, {"spammers": 0.3}),
    (5000, 50, 4, 5, {"spammers": 0.2}),
    (20_000, 30, 2, 10, {}),
)
SEEDS = range(10, 14)


class Row(NamedTuple):
    """Errors in percent."""

    true: float
    estimated: float
    apart: float  #: between the two
    covered: float  #: 100 if the interval holds the true error


def judged(annotations: Annotations, truth: Codes, method: str) -> Row:
    """Run a method, and compare its estimate with the truth."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        run = cs.aggregate(annotations, method, answers="nominal")
        estimate = run.estimated_error
    true = metrics.error_rate(run.choice.best, truth)
    value, low, high = (100.0 * share for share in estimate[:3])
    return Row(true, value, abs(value - true), 100.0 * (low <= true <= high))


def cell(rows: list[Row]) -> str:
    return "{:.1f}, {:.1f}, {:.1f}, {:.0f}%".format(*np.mean(rows, axis=0))


def run() -> list[Figure]:
    figures = [] if skipped() else of_methods()
    lines = []
    for N, M, K, n, more in SIMULATED:
        rows = []
        for seed in SEEDS:
            drawn = cs.simulate(N, M, K, labels_per_item=n, seed=seed, **more)
            rows.append(judged(drawn.annotations, np.asarray(drawn.truth), "auto"))
        lines.append(([f"{N} items, {M} annotators, {K} classes, {n} labels an item", cell(rows)], rows))
    print_table(
        "Simulated crowds, auto: true error, estimate, difference, held by the interval",
        ["", ""],
        [x for x, _ in lines],
    )
    every = list(itertools.chain.from_iterable(rows for _, rows in lines))
    apart = float(np.mean([row.apart for row in every]))
    return [*figures, Figure("simulated independent crowds: estimated next to true error", apart, unit="%")]


def of_methods() -> list[Figure]:
    """Return how far the estimates of other methods are off on public sets."""
    found: dict[str, dict[str, Row]] = {method: {} for method in METHODS}
    for name in (name for names in FAMILIES.values() for name in names):
        on = crowd(name)
        every = slice(None, None, -(-on.annotations.n_labels // MOST_LABELS))
        some = on.annotations.select_items(np.arange(on.annotations.n_items)[every])
        for method in METHODS:
            found[method][name] = judged(some, on.truth[every], method)
    print_table(
        "True error, estimate, difference, held by the interval; means over sets",
        ["", *FAMILIES],
        [
            [method, *(cell([rows[name] for name in names]) for names in FAMILIES.values())]
            for method, rows in found.items()
        ],
    )
    return [
        Figure(
            f"{method}: estimated next to true error, mean over sets",
            float(np.mean([r.apart for r in rows.values()])),
            unit="%",
        )
        for method, rows in found.items()
    ]
