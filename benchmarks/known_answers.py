"""What 10, 30 and 100 known answers are worth to ``auto``, on every public set with at least 200 truths.

Known items are drawn at random, five times; the error is that on the other items with a truth and a label.  Next to it
stand ``auto`` without known answers, and the vote in which every annotator counts by the log-odds of
(hits + 1) / (n + 2) on the known answers, negative ones by zero, ties split.  Sets with more than 50,000 labels are cut
to every n-th item, for time.
"""

from __future__ import annotations

import time
import warnings
from typing import NamedTuple

import numpy as np

from benchmarks.breaking import print_table, trials
from benchmarks.figures import Figure
from benchmarks.public import FAMILIES, Crowd, crowd, expected_error, skipped
from consilience import metrics
from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Codes, Floats
from consilience.methods.base import registry

NUMBERS = (10, 30, 100)
DRAWS, LEAST = 5, 200
#: Labels of a set, at most; truths that are too few to be thinned.
MOST_LABELS, FEW = 50_000, 3000
#: The targets: points above the better of the other two with 30 and 100 answers; single sets.
ABOVE = 1.0
SINGLE = {
    "llmbar": {30: 16.0, 100: 13.5},
    "duck": {30: 8.0, 100: 6.0},
    "zencrowd_all": {30: 11.0, 100: 11.0},
    "ws_youtube": {30: 9.0, 100: 9.0},
    "llmjudge_trecdl23": {30: 46.5, 100: 46.5},
}


class Errors(NamedTuple):
    """Mean errors over the draws, percent."""

    without: float
    by_record: float
    auto: float

    @property
    def above(self) -> float:
        """Error of auto above the better of the other two."""
        return self.auto - min(self.without, self.by_record)


def run() -> list[Figure]:
    if skipped():
        return []
    begun, table = time.perf_counter(), {}
    for name in (name for names in FAMILIES.values() for name in names):
        on = smaller(crowd(name))
        if on.judged >= LEAST:
            table[name] = dict(zip(NUMBERS, measured(on), strict=True))
            print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)
    show(table)
    return targets(table)


def smaller(on: Crowd) -> Crowd:
    """Take every n-th item of a large set, but all truths if they are few; score only classes that somebody names."""
    a, truth = on.annotations, np.where(on.truth < on.annotations.n_classes, on.truth, -1)
    step = -(-a.n_labels // MOST_LABELS)
    kept = np.arange(0, a.n_items, step)
    if on.judged < FEW:
        kept = np.union1d(kept, np.flatnonzero(truth >= 0))
    return Crowd(a.select_items(kept), truth[kept])


def measured(on: Crowd) -> list[Errors]:
    """Return the errors for every number of known answers."""
    a, truth = on.annotations, on.truth
    candidates, blind = np.flatnonzero(truth >= 0), registry.fit("auto", a).choice.best
    made = []
    for n in NUMBERS:
        drawn = []
        for draw in range(trials(DRAWS)):
            known = np.random.default_rng([draw, n]).choice(candidates, n, replace=False)
            gold = np.full(truth.size, -1)
            gold[known] = truth[known]
            rest = np.where(gold < 0, truth, -1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConsilienceWarning)
                answers = {a.items[item]: a.classes[truth[item]] for item in known}
                best = registry.fit("auto", a.with_gold(answers)).choice.best
            votes = vote_by_record(on, gold)
            drawn.append([metrics.error_rate(blind, rest), expected_error(votes, rest), metrics.error_rate(best, rest)])
        made.append(Errors(*np.mean(drawn, axis=0).tolist()))
    return made


def vote_by_record(on: Crowd, gold: Codes) -> Floats:
    """Return the votes with every annotator counted by the record, (N, K)."""
    a = on.annotations
    item = a.item_of_label()
    known = gold[item] >= 0
    hits = np.bincount(a.annotator[known], a.label[known] == gold[item[known]], a.n_annotators)
    share = (hits + 1) / (np.bincount(a.annotator[known], minlength=a.n_annotators) + 2)
    weights = np.maximum(np.log(share / (1 - share)), 0.0)
    cells = np.bincount(item * a.n_classes + a.label, weights[a.annotator], a.n_items * a.n_classes)
    return np.asarray(cells, np.float64).reshape(a.n_items, a.n_classes)


def show(table: dict[str, dict[int, Errors]]) -> None:
    """Print every set, and the mean."""
    rows = [[name, *(cell(errors) for errors in row.values())] for name, row in table.items()]
    means = [Errors(*np.mean([row[n] for row in table.values()], axis=0).tolist()) for n in NUMBERS]
    print_table(
        "Error on the other items, percent: auto without known answers, vote by record, **auto with known answers**",
        ["", *(f"{n} known" for n in NUMBERS)],
        [*rows, ["mean", *(cell(errors) for errors in means)]],
    )


def cell(errors: Errors) -> str:
    return f"{errors.without:.1f}, {errors.by_record:.1f}, **{errors.auto:.1f}**"


def targets(table: dict[str, dict[int, Errors]]) -> list[Figure]:
    """Compare with the better of the other two, and with the targets of single sets."""
    figures = []
    for n in NUMBERS:
        above = {name: row[n].above for name, row in table.items()}
        gain = float(np.mean([row[n].without - row[n].auto for row in table.values()]))
        harm = {name: row[n].auto - row[n].without for name, row in table.items()}
        missed = sorted((name for name in above if above[name] > ABOVE), key=lambda name: -above[name])
        where = f" ({', '.join(f'{name} {above[name]:+.1f}' for name in missed)})" if missed else ""
        target = None if n < 30 else ABOVE
        worst = max(harm, key=lambda name: harm[name])
        figures += [
            Figure(f"{n} known answers: mean gain", gain, unit="%"),
            Figure(f"{n} known answers: most harm ({worst})", harm[worst], unit="%"),
            Figure(f"{n} known answers: above the better of the two{where}", max(above.values()), target, unit="%"),
        ]
    for name, most in SINGLE.items():
        for n, target in most.items():
            if name in table:
                figures.append(Figure(f"{name}, {n} known answers: error", table[name][n].auto, target, unit="%"))
    return figures
