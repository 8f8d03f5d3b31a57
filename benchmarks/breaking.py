"""Two kinds of crowds on which aggregators fail, for every method.

(a) A long tail: 2000 annotators with five labels each.  Votes are right for 91.5 % of the items, Dawid-Skene EM
    for 78 % at a mean confidence of 0.99.
(b) Clones: five good judges and six copies of a weak one, exact or differing on 5 or 10 % of the items.
    Dawid-Skene EM follows the copies: 60 % right at a confidence of 1.00; from the five alone it is 93 %.

``BENCH_TRIALS`` sets the number of crowds per mean.  Targets are for ``hierarchical`` and ``auto``; a method that takes
more than ``BENCH_SECONDS`` of processor time is stopped and marked by ``*``.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import consilience as cs
from benchmarks.figures import Figure
from consilience import metrics
from consilience.data.annotations import Annotations
from consilience.datasets.hard_cases import clones, long_tail
from consilience.datasets.simulation import Simulation
from consilience.exceptions import ConsilienceWarning, MethodError
from consilience.fitting.em import Progress
from consilience.kernels._arrays import Codes, Floats, Ints

__all__ = ["Score", "candidates", "mean_scores", "print_table", "score", "trials"]

SECONDS = float(os.environ.get("BENCH_SECONDS", "60"))
TRIALS = 5
#: Refinements with a row of their own.
REFINED = "rob-symnmf+em", "des-symnmf+em", "spectral-ds+em", "tensor-admm+em"
#: Minimum accuracy and maximum calibration error of the long tail; maximum loss of accuracy through clones.
TAIL_ACCURACY, TAIL_CALIBRATION, CLONE_LOSS = 0.915, 0.04, 0.02
FLIPS = 0.0, 0.05, 0.1


# ---- any method on any crowd ----------------------------------------------------------------------------


class Score(NamedTuple):
    """Scores of a method on one crowd, or means over several."""

    error: float  #: percent wrong, of the labelled items
    confidence: float  #: mean probability of the chosen labels
    calibration: float  #: expected calibration error, 15 bins
    seconds: float
    stopped: bool  #: stopped at the time limit


def trials(usual: int) -> int:
    """Return the number of crowds to draw: ``BENCH_TRIALS`` or the default."""
    return int(os.environ.get("BENCH_TRIALS", usual))


def candidates(more: Iterable[str] = ()) -> list[str]:
    """Return the names of all methods, refinements and variants."""
    names = dict.fromkeys([*cs.METHODS, *REFINED, *more, "auto"])
    return [name for name in names if name == "auto" or plain(name) in cs.METHODS]


def plain(name: str) -> str:
    """Strip ``+em`` or a variant after a comma from the name of a method."""
    return name.partition(",")[0].removesuffix("+em")


def score(
    name: str, annotations: Annotations, truth: Ints, seed: int, *, every_item: bool = False, **settings: Any
) -> Score | None:
    """Run one method; return None if it refuses.

    A name may end in ", w = 1" (no weights for pairs) or in ", ML" (labels by likelihood, with equal classes).  With
    ``every_item``, items without labels count too: votes give them the first class, models the most frequent one.
    """
    base, _, variant = name.partition(", ")
    options: dict[str, Any] = {**settings, **({"reweigh": False} if variant == "w = 1" else {})}
    deadline = time.process_time() + SECONDS  # the clock would stop methods earlier on a busy machine
    late: list[int] = []

    def watch(progress: Progress) -> bool:
        if time.process_time() > deadline:
            late.append(progress.iteration)
        return bool(late)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        try:
            run = cs.aggregate(annotations, base, seed=seed, callback=watch, **options)
        except MethodError:
            return None
    best, posterior = run.choice.best, run.posterior
    if variant == "ML":
        K = annotations.n_classes
        uniform = cs.DawidSkene(np.full(K, 1 / K), run.model.confusions, run.model.classes, run.model.annotators)
        posterior = uniform.posterior(annotations)
        best = posterior.argmax(axis=1)
    if every_item and base == "majority":
        best = np.where(annotations.labels_per_item > 0, best, 0)
    found = judge(best, posterior, annotations, truth, every_item=every_item)
    return found._replace(seconds=run.run["seconds"], stopped=bool(late))


def judge(best: Codes, posterior: Floats, annotations: Annotations, truth: Ints, *, every_item: bool = False) -> Score:
    """Compare labels with the truth, over the labelled items or over all."""
    known = np.where((annotations.labels_per_item > 0) | every_item, truth, -1)
    return Score(
        metrics.error_rate(best, known),
        metrics.mean_confidence(posterior, known, labels=best),
        metrics.expected_calibration_error(posterior, known, labels=best),
        0.0,
        False,
    )


def mean_scores(scores: Sequence[Score | None]) -> Score | None:
    """Average over crowds; return None if the method refused any of them."""
    known = [s for s in scores if s is not None]
    if len(known) < len(scores) or not known:
        return None
    error, confidence, calibration, seconds, stopped = np.mean(known, axis=0).tolist()
    return Score(error, confidence, calibration, seconds, stopped > 0)


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table."""
    print(f"\n{title}\n", "| " + " | ".join(header) + " |", "|" + "---|" * len(header), sep="\n")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


# ---- the two cases --------------------------------------------------------------------------------------


def run() -> list[Figure]:
    score("auto", long_tail().annotations, long_tail().truth, 0)  # load and compile everything
    return [*the_long_tail(), *the_clones()]


def everybody(draw: Callable[[int], Simulation]) -> dict[str, Score | None]:
    """Return mean scores of every method over crowds."""
    crowds = [draw(seed) for seed in range(trials(TRIALS))]
    return {
        name: mean_scores([score(name, c.annotations, c.truth, seed) for seed, c in enumerate(crowds)])
        for name in candidates()
    }


def row(name: str, s: Score | None) -> tuple[str, ...]:
    if s is None:
        return name, "refuses", "", "", ""
    late = "*" if s.stopped else ""
    return name, f"{1 - s.error / 100:.3f}", f"{s.confidence:.3f}", f"{s.calibration:.3f}", f"{s.seconds:.2f}{late}"


def oracle(draw: Callable[[int], Simulation]) -> Score | None:
    """Return the scores of the model that the labels were drawn from."""
    crowds = [draw(seed) for seed in range(trials(TRIALS))]
    posteriors = [c.model.posterior(c.annotations) for c in crowds]
    return mean_scores(
        [judge(p.argmax(axis=1), p, c.annotations, c.truth) for p, c in zip(posteriors, crowds, strict=True)]
    )


HEADER = "", "accuracy", "mean confidence", "calibration error", "seconds"


def the_long_tail() -> list[Figure]:
    found = everybody(long_tail)
    print_table(
        "Long tail: 2000 annotators with five labels each",
        HEADER,
        [row("the model that drew it", oracle(long_tail)), *(row(*item) for item in found.items())],
    )
    figures = []
    for name in ("hierarchical", "auto"):
        if s := found.get(name):
            figures += [
                Figure(f"long tail: accuracy of {name}", 1 - s.error / 100, TAIL_ACCURACY, up=True),
                Figure(f"long tail: calibration error of {name}", s.calibration, TAIL_CALIBRATION),
            ]
    return figures


def the_clones() -> list[Figure]:
    figures = []
    for flip in FLIPS:
        draw = partial(clones, flip=flip)
        alone = mean_scores([five_alone(draw(seed), seed) for seed in range(trials(TRIALS))])
        found = everybody(draw)
        kind = f"copies that differ on {100 * flip:g} %" if flip else "exact copies"
        print_table(
            f"Clones: five judges and six {kind}",
            HEADER,
            [row("ds-em from the five alone", alone), *(row(*item) for item in found.items())],
        )
        if alone and (s := found["auto"]):
            figures.append(Figure(f"clones, {kind}: what they cost auto", (s.error - alone.error) / 100, CLONE_LOSS))
    return figures


def five_alone(crowd: Simulation, seed: int) -> Score | None:
    judges = np.array(crowd.roles) == "judge"
    return score("ds-em", crowd.annotations.select_annotators(judges), crowd.truth, seed)
