"""Tables 4, 5 and 9 of Ibrahim & Fu (2022): errors on real crowds, in percent.

A cell is kept if our error is at most one item above the paper's, which cuts or rounds to two digits, and that is at
most a twentieth of it; on bluebird one item of 108 is more, which is then given as the reason.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import consilience as cs
from benchmarks.breaking import trials
from benchmarks.every_method import PAPER as TABLES_4_5
from benchmarks.figures import Figure, with_settings
from benchmarks.pictures import blank, save
from benchmarks.public import crowd as judged_crowd
from consilience.datasets import load
from consilience.exceptions import ConsilienceWarning, MethodError

SEEDS = 10

CROWDS = "bluebird", "dog52", "rte", "trec", "labelme"
#: method: the paper's errors in percent, in the order of the crowds.
PAPER: Mapping[str, tuple[float | None, ...]] = {
    **{method: (*errors, None) for method, errors in TABLES_4_5.items()},
    "rob-symnmf, w = 1": (11.11, 16.10, 7.37, 33.23, None),
    "des-symnmf": (10.18, 16.35, 13.87, 36.75, 29.10),
    "des-symnmf+em": (10.18, 15.86, 7.25, 29.36, 22.20),
    "rob-symnmf": (11.11, 16.10, 7.25, 30.68, 32.10),
    "rob-symnmf+em": (11.11, 15.86, 7.12, 29.62, 22.10),
}
#: crowd, method: settings to try if the defaults miss the cell; a reason only if they match it.
OTHER: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("dog52", "minimax-entropy"): {"annotator_penalty": 8.0, "item_penalty": 8.0},
}
#: The paper's seconds for the robust method.
PAPER_SECONDS = {"rob-symnmf": (0.72, 0.41, 2.31, 64.99, 1.25), "rob-symnmf+em": (0.79, 0.48, 2.4, 67.39, 1.29)}
#: Maximum standard deviation of ``rob-symnmf+em`` over seeds, and seconds on trec.
STEADY, SOON = 0.3, 1.0


class Score(NamedTuple):
    """Return errors in percent, one for each seed, and the seconds of the fastest run."""

    errors: list[float]
    seconds: float

    @property
    def mean(self) -> float:
        """Return the mean error, cut to two decimals as in the tables: 57 of 800 items are 7.12."""
        return round(float(np.mean(self.errors)), 2)

    @property
    def deviation(self) -> float:
        """Return the standard deviation of the error over seeds."""
        return round(float(np.std(self.errors)), 3)


def score(crowd: str, method: str, settings: Mapping[str, float] | None = None) -> Score | None:
    """Run a method, with other settings if given; return None if it refuses."""
    a, truth = load(crowd)
    name, *plain = method.split(", w = 1")
    options: dict[str, Any] = {**(settings or {}), **({"reweigh": False} if plain else {})}
    seeds = range(trials(SEEDS) if "symnmf" in name else 1)  # the others are deterministic
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        try:
            runs = [cs.aggregate(a, name, seed=seed, **options) for seed in seeds]
        except MethodError:
            return None
    return Score([run.error_rate(truth) for run in runs], min(run.run["seconds"] for run in runs))


def run() -> list[Figure]:
    if not os.environ.get("CONSILIENCE_DATA"):
        print("CONSILIENCE_DATA is not set: skipped")
        return []
    cs.aggregate(load("bluebird").annotations, "des-symnmf+em")  # load and compile everything
    figures, scores = [], {}
    for i, crowd in enumerate(CROWDS):
        for method, paper in PAPER.items():
            here = None if paper[i] is None and crowd == "labelme" else score(crowd, method)
            if here is None:
                continue
            scores[crowd, method] = here
            made = [cell(crowd, method, here, paper[i])]
            if method in PAPER_SECONDS:
                seconds = SOON if (crowd, method) == ("trec", "rob-symnmf") else None
                steady = STEADY if method == "rob-symnmf+em" else None
                published = f"(paper {PAPER_SECONDS[method][i]:g})"
                made += [
                    Figure(f"    its standard deviation over {trials(SEEDS)} seeds", here.deviation, steady, unit="%"),
                    Figure(f"    its seconds {published}", here.seconds, seconds, unit="s"),
                ]
            print(*made, sep="\n", flush=True)
            figures += made
    draw(scores)
    return figures


def cell(crowd: str, method: str, here: Score, paper: float | None) -> Figure:
    """Return the figure of a method on a crowd."""
    item = 100.0 / judged_crowd(crowd).judged
    options: Any = {"cell": True, "slack": item + 0.01} if paper else {}
    figure = Figure(f"Tables 4, 5, 9, {crowd}: {method}", here.mean, paper, unit="%", **options)
    if not figure.met and paper is not None and here.mean - paper <= item + 0.01:
        return replace(figure, reason=f"one item of {judged_crowd(crowd).judged}")
    settings = OTHER.get((crowd, method))
    if figure.met or settings is None or (other := score(crowd, method, settings)) is None:
        return figure
    return with_settings(figure, settings, other.mean)


def draw(scores: Mapping[tuple[str, str], Score]) -> None:
    """Plot our errors next to the paper's."""
    canvas = blank(14, 3.6)
    if canvas is None:
        return
    methods = [method for method in PAPER if all((crowd, method) in scores for crowd in CROWDS[:4])]
    places = np.arange(len(methods))[::-1]
    for i, (crowd, axes) in enumerate(zip(CROWDS, canvas.subplots(1, len(CROWDS), sharey=True), strict=True)):
        ours = [(scores[crowd, m], place) for m, place in zip(methods, places, strict=True) if (crowd, m) in scores]
        axes.errorbar(
            [s.mean for s, _ in ours],
            [place for _, place in ours],
            xerr=[s.deviation for s, _ in ours],
            fmt="o",
            capsize=3,
            label="consilience",
        )
        known = [(PAPER[m][i], place) for m, place in zip(methods, places, strict=True) if PAPER[m][i] is not None]
        axes.plot(*zip(*known, strict=True), "D", fillstyle="none", color="tab:orange", label="Ibrahim & Fu 2022")
        axes.set(title=crowd, xlabel="error, %", yticks=places, yticklabels=methods)
        axes.grid(axis="x", alpha=0.3)
    canvas.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    save(canvas, "crowds_by_pairs.png")
