"""Passes over the data with and without acceleration, to the same likelihood (relative 1e-6).

That likelihood is where plain EM ends (a pass changes it by 1e-10 at most).  Plain EM's passes are counted until it is
as near itself; those until it has converged are printed beside.  A pass over open items alone counts by the labels that
it passes over: labels that were passed over, by all labels.
"""

from __future__ import annotations

import os

from benchmarks.crowds import crowd
from benchmarks.figures import Figure
from consilience.aggregation.em import ConfusionStep, Progress, run_em
from consilience.aggregation.fit import vote_start
from consilience.annotations import Annotations
from consilience.datasets import load


def passes(a: Annotations) -> tuple[int, int, float]:
    """Plain EM until it has converged; plain and accelerated EM to within 1e-6 (relative) of where it ends."""
    step = ConfusionStep()
    start = vote_start(a, step)
    plain = run_em(a, start, step, max_iter=3000, tol=1e-10, accelerate=False)
    goal = plain.history[-1] - 1e-6 * abs(plain.history[-1])
    passed = 0

    def enough(state: Progress) -> bool:
        nonlocal passed
        passed += state.labels
        return state.objective >= goal

    fast = run_em(a, start, step, max_iter=3000, tol=1e-12, callback=enough)
    assert fast.log_likelihood >= goal, "where it is near is told by a bound, but it is so"
    return plain.iterations, next(i for i, value in enumerate(plain.history, 1) if value >= goal), passed / a.n_labels


def run() -> list[Figure]:
    figures = []
    sets = [("1e6 labels simulated", crowd(10**6, 1000, 4))]
    if os.environ.get("CONSILIENCE_DATA"):
        sets += [(name, load(name).annotations) for name in ("rte", "trec")]
    for name, a in sets:
        whole, plain, fast = passes(a)
        figures += [
            Figure(f"passes to the likelihood of converged EM (rel. 1e-6) / all its passes, {name}", fast / whole),
            Figure(f"the same / plain EM's own passes to rel. 1e-6, {name} ({fast:.3g} / {plain})", fast / plain, 0.5),
        ]
    return figures
