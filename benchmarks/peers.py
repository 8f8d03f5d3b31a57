"""One iteration of each method next to crowd-kit's, in one process; a whole run of ``auto`` next to one of ``ds-em``.

The seconds of an iteration are the difference between a longer and a shorter run, without reading the data and the
start; of several runs the fastest counts, in wall-clock and in processor time (all threads).

Iterations are alike except for GLAD, whose M-step takes up to 25 conjugate-gradient steps in crowd-kit, and two
Newton steps per parameter here.  crowd-kit's GLAD would take half an hour for one iteration over 10⁶ labels, so
it is measured on a hundredth of them, and both are compared per label.

``BENCH_LABELS`` sets the number of labels (10⁶).
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from benchmarks.crowds import crowd
from benchmarks.figures import Figure
from benchmarks.public import ELEVEN, skipped
from benchmarks.public import crowd as public
from consilience.data.annotations import Annotations
from consilience.methods.base import registry

LABELS = int(float(os.environ.get("BENCH_LABELS", "1e6")))
ANNOTATORS = 1000
#: Minimum speed-up over crowd-kit; maximum time relative to ds-em.
FASTER, LONGER = 20, 10
#: Iterations between the shorter run and the longer one: ours, theirs.
OURS, THEIRS = 20, 4
#: Repetitions, of which the fastest counts.
REPEATS = 3


class Peer(NamedTuple):
    """A method of crowd-kit, and how to run both."""

    name: str  #: in crowd-kit
    K: int
    ours: Mapping[str, Any]  #: options that make our fit run a given number of unaccelerated iterations
    theirs: Mapping[str, Any]
    part: int = 1  #: crowd-kit gets one label in this many


#: crowd-kit stops when its objective gains less than ``tol``
ALL: Mapping[str, Any] = {"tol": float("-inf")}
PEERS = {
    "ds-em": Peer("DawidSkene", 4, {"tol": 0, "accelerate": False}, ALL),
    "one-coin": Peer("OneCoinDawidSkene", 4, {"tol": 0, "accelerate": False}, ALL),
    "kos": Peer("KOS", 2, {"tol": 0}, {}),
    "glad": Peer("GLAD", 4, {"tol": 0}, ALL, part=100),
}


class Cost(NamedTuple):
    """Seconds."""

    wall: float
    processor: float

    def per(self, n: float) -> Cost:
        """Divide the seconds by n."""
        return Cost(self.wall / n, self.processor / n)


def cost(work: Callable[[], Any], repeats: int = REPEATS) -> Cost:
    """Return the smallest cost of several runs."""
    runs = []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        runs.append((time.perf_counter() - wall, time.process_time() - processor))
    return Cost(*map(min, zip(*runs, strict=True)))


def cost_of_iteration(work: Callable[[int], Any], few: int, more: int, repeats: int) -> Cost:
    """Return the cost of an iteration: the difference between a longer and a shorter run."""
    short, long = (cost(partial(work, n), repeats) for n in (few, few + more))
    return Cost(long.wall - short.wall, long.processor - short.processor).per(more)


def ours(method: str, peer: Peer) -> Cost:
    """Return the seconds per iteration and label."""
    a = crowd(LABELS, ANNOTATORS, peer.K)

    def work(n: int) -> None:
        registry.fit(method, a, max_iter=n, **peer.ours)

    work(1)  # load and compile everything
    return cost_of_iteration(work, 2, OURS, REPEATS).per(a.n_labels)


def theirs(peer: Peer) -> Cost:
    """Return the seconds per iteration and label of crowd-kit."""
    import crowdkit.aggregation

    a = crowd(LABELS // peer.part, ANNOTATORS, peer.K)
    frame = frame_of(a)

    def work(n: int) -> None:
        getattr(crowdkit.aggregation, peer.name)(n_iter=n, **peer.theirs).fit(frame)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if peer.part > 1:  # an iteration takes long enough to be measured once
            return cost_of_iteration(work, 1, 1, 1).per(a.n_labels)
        work(1)
        return cost_of_iteration(work, 1, THEIRS, REPEATS).per(a.n_labels)


def frame_of(annotations: Annotations) -> Any:
    return annotations.to_frame("pandas").rename(columns={"item": "task", "annotator": "worker"})


def iterations() -> list[Figure]:
    figures = []
    for method, peer in PEERS.items():
        here, there = ours(method, peer), theirs(peer)
        size = f"{LABELS:.0e} labels, K = {peer.K}" + (f"; theirs {LABELS // peer.part:.0e}" if peer.part > 1 else "")
        made = [
            Figure(f"{method}: an iteration, {size}", 1e9 * here.wall, unit="ns/label"),
            Figure(f"    {peer.name} / {method}, wall clock", there.wall / here.wall, FASTER, up=True, unit="x"),
            Figure("    the same, processor time", there.processor / here.processor, unit="x"),
        ]
        print(*made, sep="\n", flush=True)
        figures += made
    return figures


def votes() -> list[Figure]:
    from crowdkit.aggregation import MajorityVote

    a = crowd(LABELS, ANNOTATORS, 4)
    frame = frame_of(a)
    here, there = cost(lambda: registry.fit("majority", a)), cost(lambda: MajorityVote().fit(frame), 1)
    made = [
        Figure(f"majority: a whole run, {LABELS:.0e} labels, K = 4", 1e9 * here.wall / LABELS, unit="ns/label"),
        Figure("    MajorityVote / majority, wall clock", there.wall / here.wall, unit="x"),
    ]
    print(*made, sep="\n", flush=True)
    return made


def auto_and_em() -> list[Figure]:
    """Measure whole runs with the defaults."""
    crowds = {} if skipped() else {name: public(name).annotations for name in ELEVEN}
    for n in (LABELS // 10, LABELS):
        crowds[f"{n:.0e} labels, K = 4"] = crowd(n, ANNOTATORS, 4)
    figures = []
    for name, a in crowds.items():
        registry.fit("auto", a)  # load and compile everything
        auto, em = (cost(partial(registry.fit, method, a)) for method in ("auto", "ds-em"))
        figures += [
            Figure(f"auto / ds-em, {name} ({1e3 * auto.wall:.0f} ms)", auto.wall / em.wall, LONGER, unit="x"),
            Figure("    the same, processor time", auto.processor / max(em.processor, 1e-9), unit="x"),
        ]
        print(*figures[-2:], sep="\n", flush=True)
    return figures


def run() -> list[Figure]:
    return [*votes(), *iterations(), *auto_and_em()]
