"""One pass of EM over a network of a million items and five million edges, five classes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.figures import Figure
from consilience.datasets.networks import simulate_network
from consilience.fitting.em import Progress
from consilience.structured.graph import as_graph
from consilience.structured.network_em import network_em

ITEMS, DEGREE = 1_000_000, 10.0


def run() -> list[Figure]:
    network = simulate_network(ITEMS, 50, 5, degree=DEGREE, agreement=0.6, labels_per_item=3, accuracy=(0.4, 0.7))
    begun = time.perf_counter()
    graph = as_graph(network.edges, network.annotations)
    figures = [Figure("10^6 items, 5·10^6 edges: building the graph", time.perf_counter() - begun, unit="s")]
    choices: tuple[tuple[str, Any], ...] = (("delta given", 1.5), ("delta chosen", "auto"))
    for name, delta in choices:
        ends: list[float] = []

        def note(_: Progress, ends: list[float] = ends) -> None:
            ends.append(time.perf_counter())

        network_em(network.annotations, graph, delta=delta, max_iter=6, tol=0, callback=note)
        seconds = float(np.median(np.diff(ends)))
        figures.append(Figure(f"10^6 items, 5·10^6 edges: one pass of EM, {name}", seconds, unit="s"))
    return figures
