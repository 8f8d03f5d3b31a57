"""Errors of the main methods on real crowds, in percent; ``benchmarks field`` has all methods."""

from __future__ import annotations

import os

import consilience as cs
from benchmarks.figures import Figure
from consilience.datasets import CATALOGUE, load

METHODS = "majority", "one-coin", "ds-em", "auto"
TARGETS = {"bluebird": 10.2, "dog52": 15.9, "rte": 7.3, "trec": 29.9, "labelme": 21.0}


def run() -> list[Figure]:
    if not os.environ.get("CONSILIENCE_DATA"):
        print("CONSILIENCE_DATA is not set: skipped")
        return []
    figures = []
    for name, info in CATALOGUE.items():
        if info.kind != "crowd" or not info.counts.get("truth"):
            continue
        a, truth = load(name)
        for method in METHODS:
            error = cs.aggregate(a, method).error_rate(truth)
            figures.append(
                Figure(
                    f"error of {method} on {name}", error, TARGETS.get(name) if method == "ds-em" else None, unit="%"
                )
            )
    return figures
