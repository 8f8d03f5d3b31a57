"""Passes over the data with and without acceleration.

Plain EM is run until it has converged: a pass changes the likelihood by 1e-10 (relative) at most.  It creeps: where a
pass changes it by 1e-7, plain EM on trec is still 2e-5 short of where it ends.  Accelerated EM is to reach the same
likelihood (relative 1e-6) in half of the passes.  Printed beside: after how many passes plain EM itself was as near.
"""

from __future__ import annotations

import os

from benchmarks.crowds import crowd
from benchmarks.figures import Figure
from consilience.aggregation.em import ConfusionStep, run_em
from consilience.aggregation.fit import vote_start
from consilience.annotations import Annotations
from consilience.datasets import load


def passes(a: Annotations) -> tuple[int, int, int]:
    """Plain EM until it has converged; plain and accelerated EM to within 1e-6 (relative) of where it ends."""
    step = ConfusionStep()
    start = vote_start(a, step)
    plain = run_em(a, start, step, max_iter=3000, tol=1e-10, accelerate=False)
    fast = run_em(a, start, step, max_iter=3000, tol=1e-12)
    goal = plain.history[-1] - 1e-6 * abs(plain.history[-1])
    reached = [next(i for i, value in enumerate(h, 1) if value >= goal) for h in (plain.history, fast.history)]
    return plain.iterations, reached[0], reached[1]


def run() -> list[Figure]:
    figures = []
    sets = [("1e6 labels simulated", crowd(10**6, 1000, 4))]
    if os.environ.get("CONSILIENCE_DATA"):
        sets += [(name, load(name).annotations) for name in ("rte", "trec")]
    for name, a in sets:
        whole, plain, fast = passes(a)
        figures += [
            Figure(
                f"accelerated: passes to the likelihood of EM / its passes, {name} ({fast} / {whole})",
                fast / whole,
                0.5,
            ),
            Figure(f"the same / passes after which EM itself was within 1e-6, {name} ({fast} / {plain})", fast / plain),
        ]
    return figures
