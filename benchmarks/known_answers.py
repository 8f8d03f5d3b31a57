"""What 10, 30 and 100 known answers are worth to ``auto``, on every public set with at least 200 truths.

Known items are drawn at random, five times; the error is that on the other items with a truth and a label.  Next to it
stand ``auto`` without known answers, and the vote in which every annotator counts by the log-odds of
(hits + 1) / (n + 2) on the known answers, negative ones by zero, ties split.  Sets with more than 50,000 labels are cut
to every n-th item, for time.

The three constants of what is learned are chosen among ``CHOICES``, by the mean error over all numbers of known
answers: without the set that is judged, and without its whole family.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks.breaking import print_table, trials
from benchmarks.figures import Figure
from benchmarks.public import FAMILIES, Crowd, crowd, expected_error, skipped
from consilience import metrics
from consilience.auto import constants, known_answers
from consilience.auto.pool import Pool
from consilience.data.annotations import Annotations
from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Codes, Floats
from consilience.methods.base import registry

NUMBERS = (10, 30, 100)
DRAWS, LEAST = 5, 200
#: Labels of a set, at most; truths that are too few to be thinned.
MOST_LABELS, FEW = 50_000, 3000
#: The targets: points above the better of the other two with 30 and 100 answers; single sets.
ABOVE = 1.0
#: Constants of what is learned, and the values that are compared.
NAMES = ("SHARE_PRECISION", "OFFSET_PRECISION", "WEIGHT_PRECISION")
CHOICES = tuple(itertools.product((1.0, 3.0, 10.0), (5.0, 10.0, 20.0), (3.0, 6.0, 12.0)))
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


Table = dict[str, dict[int, Errors]]
Choice = tuple[float, ...]


def run() -> list[Figure]:
    if skipped():
        return []
    begun, measures = time.perf_counter(), {}
    for name in (name for names in FAMILIES.values() for name in names):
        on = smaller(crowd(name))
        if on.judged >= LEAST:
            measures[name] = measured(on)
            print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)
    family = {name: each for each, names in FAMILIES.items() for name in names}
    without_set = chosen(measures, lambda name, other: name != other)
    show(without_set)
    means = {
        "as released": chosen(measures, lambda _name, _other: False),
        "chosen without the set": without_set,
        "chosen without the family": chosen(measures, lambda name, other: family[name] != family[other]),
    }
    print_table(
        "Mean error with constants",
        ["", *(f"{n} known" for n in NUMBERS)],
        [[way, *(cell(mean(table, n)) for n in NUMBERS)] for way, table in means.items()],
    )
    return targets(without_set)


Measures = dict[str, dict[Choice, dict[int, Errors]]]


def released() -> Choice:
    return tuple(getattr(constants, name) for name in NAMES)


def chosen(measures: Measures, others: Callable[[str, str], bool]) -> Table:
    """Return the errors of every set with constants chosen on its ``others``; as released if there are none."""
    error = {
        choice: {name: np.mean([errors.auto for errors in row[choice].values()]) for name, row in measures.items()}
        for choice in CHOICES
    }
    table = {}
    for name, row in measures.items():
        names = [other for other in measures if others(name, other)]
        sums = {choice: sum(error[choice][other] for other in names) for choice in CHOICES}
        table[name] = row[min(sums, key=lambda choice, sums=sums: sums[choice]) if names else released()]  # type: ignore[misc]
    return table


def smaller(on: Crowd) -> Crowd:
    """Take every n-th item of a large set, but all truths if they are few; score only classes that somebody names."""
    a, truth = on.annotations, np.where(on.truth < on.annotations.n_classes, on.truth, -1)
    step = -(-a.n_labels // MOST_LABELS)
    kept = np.arange(0, a.n_items, step)
    if on.judged < FEW:
        kept = np.union1d(kept, np.flatnonzero(truth >= 0))
    return Crowd(a.select_items(kept), truth[kept])


def measured(on: Crowd) -> dict[Choice, dict[int, Errors]]:
    """Return the errors with all constants, for every number of known answers."""
    a, truth = on.annotations, on.truth
    candidates, blind = np.flatnonzero(truth >= 0), registry.fit("auto", a).choice.best
    choices = dict.fromkeys([released(), *CHOICES])
    made: dict[Choice, dict[int, Errors]] = {choice: {} for choice in choices}
    for n in NUMBERS:
        drawn = []
        for draw in range(trials(DRAWS)):
            known = np.random.default_rng([draw, n]).choice(candidates, n, replace=False)
            gold = np.full(truth.size, -1)
            gold[known] = truth[known]
            rest = np.where(gold < 0, truth, -1)
            two = metrics.error_rate(blind, rest), expected_error(vote_by_record(on, gold), rest)
            best = labels_with(a.with_gold({a.items[item]: a.classes[truth[item]] for item in known}), choices)
            drawn.append([(*two, metrics.error_rate(best[choice], rest)) for choice in choices])
        for choice, errors in zip(choices, np.mean(drawn, axis=0).tolist(), strict=True):
            made[choice][n] = Errors(*errors)
    return made


def labels_with(annotations: Annotations, choices: Mapping[Choice, Any]) -> dict[Choice, Codes]:
    """Return the labels of ``auto`` for every choice of the constants; the models are fitted once."""
    learned_from, noted = known_answers.learned_from, []

    def note(lessons: known_answers.Lessons, pool: Pool) -> tuple[Pool, Floats]:
        noted.append((lessons, pool))
        return learned_from(lessons, pool)

    with warnings.catch_warnings(), patch.object(known_answers, "learned_from", note):
        warnings.simplefilter("ignore", ConsilienceWarning)
        registry.fit("auto", annotations)
    ((lessons, pool),) = noted
    posterior = pool.model(annotations)
    pool, best = replace(pool, model=lambda _: posterior), {}
    for choice in choices:
        values: dict[str, Any] = dict(zip(NAMES, choice, strict=True))
        with patch.multiple(constants, **values):
            learned, _ = learned_from(lessons, pool)
        best[choice] = learned(annotations)[0].argmax(axis=1)
    return best


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


def show(table: Table) -> None:
    """Print every set, and the mean, with constants chosen without the set."""
    rows = [[name, *(cell(errors) for errors in row.values())] for name, row in table.items()]
    print_table(
        "Error on the other items, percent: auto without known answers, vote by record, **auto with known answers**",
        ["", *(f"{n} known" for n in NUMBERS)],
        [*rows, ["mean", *(cell(mean(table, n)) for n in NUMBERS)]],
    )


def mean(table: Table, n: int) -> Errors:
    return Errors(*np.mean([row[n] for row in table.values()], axis=0).tolist())


def cell(errors: Errors) -> str:
    return f"{errors.without:.1f}, {errors.by_record:.1f}, **{errors.auto:.1f}**"


def targets(table: Table) -> list[Figure]:
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
