"""Passes over the data with and without acceleration, to the same likelihood (relative 1e-6).

That likelihood is where plain EM ends (a pass changes it by 1e-10 at most).  Plain EM's passes are counted until it is
as near itself; those until it has converged are printed beside.  A pass over open items alone counts by the labels that
it passes over: labels that were passed over, by all labels.  Beside it the time of whole fits with the library's
tolerance, and of the same with SQUAREM's leaps, in turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from benchmarks.crowds import crowd
from benchmarks.figures import Figure, best_of
from consilience.data.annotations import Annotations
from consilience.datasets import load
from consilience.engine.passes import InMemory
from consilience.fitting.em import ConfusionStep, Progress, _Model, run_em
from consilience.fitting.fit import vote_start
from consilience.fitting.squarem import run_squarem


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


def seconds(a: Annotations) -> float:
    """A whole fit beside one with SQUAREM."""
    data, step = InMemory(a), ConfusionStep()
    start = vote_start(data, step)

    def ours() -> None:
        run_em(data, start, step)

    def leaps() -> None:
        run_squarem(_Model(data, step), start, max_iter=1000, tol=1e-7, labels=a.n_labels)

    times: dict[Callable[[], None], list[float]] = {ours: [], leaps: []}
    for _ in range(15 if a.n_labels <= 10**6 else 5):
        for fit, taken in times.items():
            taken.append(best_of(1, fit))
    return min(times[ours]) / min(times[leaps])


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
    clocks = [(f"{n:.0e} labels simulated, M = {M}", crowd(n, M, 4)) for n, M in ((10**5, 200), (10**7, 1000))]
    for name, a in sets + clocks:
        figures.append(Figure(f"whole fit / the same with SQUAREM, time, {name}", seconds(a)))
    return figures
