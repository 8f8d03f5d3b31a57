"""One EM pass next to one iteration of crowd-kit's DawidSkene, and to a sum over the codes."""

from __future__ import annotations

import time
import warnings
from functools import partial

from benchmarks.crowds import crowd
from benchmarks.figures import Figure, best_of
from consilience.data.annotations import Annotations
from consilience.fitting.em import ConfusionStep, run_em
from consilience.fitting.fit import vote_start


def seconds_per_pass(a: Annotations, passes: int = 20) -> float:
    """Return the seconds of our pass with its M-step: the difference between long and short runs, without the start."""
    step = ConfusionStep()
    start = vote_start(a, step)

    def run(n: int) -> None:
        run_em(a, start, step, max_iter=n, tol=0, accelerate=False)

    run(2)
    return (best_of(3, lambda: run(2 + passes)) - best_of(3, lambda: run(2))) / passes


def crowd_kit_seconds_per_pass(a: Annotations, passes: int = 2) -> float:
    from crowdkit.aggregation import DawidSkene

    frame = a.to_frame("pandas").rename(columns={"item": "task", "annotator": "worker"})

    def run(n: int) -> float:
        begun = time.perf_counter()
        DawidSkene(n_iter=n, tol=0).fit(frame)
        return time.perf_counter() - begun

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (run(1 + passes) - run(1)) / passes


def _read_codes(a: Annotations) -> None:
    a.annotator.sum()
    a.label.sum()


def run() -> list[Figure]:
    figures = []
    for n_labels, M, K, ratio in (
        (10**6, 1000, 4, 100),
        (10**6, 1000, 2, None),
        (10**6, 1000, 10, None),
        (10**7, 1000, 4, 120),
        (10**7, 50_000, 4, 50),
    ):
        a = crowd(n_labels, M, K)
        ours = seconds_per_pass(a)
        read = best_of(7, partial(_read_codes, a))
        theirs = crowd_kit_seconds_per_pass(a)
        shape = f"{n_labels:.0e} labels, M = {M}, K = {K}"
        figures += [
            Figure(f"EM pass, {shape}", ours / n_labels * 1e9, unit="ns/label"),
            Figure(f"crowd-kit iteration / our pass, {shape}", theirs / ours, ratio, up=True, unit="x"),
            Figure(
                f"our pass / numpy.sum of the codes, {shape}", ours / read, 5 if (M, K) == (1000, 4) else None, unit="x"
            ),
        ]
        print(*figures[-3:], sep="\n", flush=True)
    return figures
