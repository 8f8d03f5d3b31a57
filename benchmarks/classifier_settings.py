"""Which settings of the classifiers give the published errors of Credit and Car, Tables 2 and 3 of Ibrahim & Fu (2022).

The paper names ten kinds of classifiers, and the number of items that they label, but neither the codes of the columns
nor, for Car, how the test items are counted.  Majority voting, which has no parameters, shows what fits.

* Credit: codes by the alphabet, or those of the numeric edition of the set (Statlog), where the values of two columns
  are in the order of their share of accepted applications; a quarter of N rows for training, or all that are left.
* Car: codes by the alphabet, in the natural order (low to high), or one column for each value; training rows at random,
  as many of each class, or those that come first in the file; all items labelled, or 40 % of them without labels.

``python -m benchmarks classifier_settings`` prints one row for each setting; no setting is a target.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from benchmarks.breaking import print_table, score, trials
from benchmarks.ensembles import (
    _COLUMNS,
    _MISSING,
    CAR,
    CREDIT,
    Hide,
    Opinions,
    Rows,
    annotations_of,
    table,
    ten,
    trained_together,
)
from benchmarks.figures import Figure
from consilience.datasets import load
from consilience.kernels._arrays import Bools, Floats, Ints

TRIALS = 5
METHOD = "rob-symnmf"
#: Car: the values of each column from low to high.
NATURAL = {"low": 0, "small": 0, "med": 1, "high": 2, "big": 2, "vhigh": 3, "more": 5, "5more": 5}
CAR_ITEMS, CAR_ROWS = 1352, 376


def run() -> list[Figure]:
    if not os.environ.get("CONSILIENCE_DATA"):
        print("CONSILIENCE_DATA is not set: skipped")
        return []
    settings: dict[str, list[Opinions]] = {}
    for coding, rows in product(("alphabet", "statlog"), (135, 150)):
        made = [trained_together("uci_credit_crx", 540, rows, trial, coding) for trial in range(trials(TRIALS))]
        settings[f"codes by {coding}, {rows} training rows"] = made
    show("Table 2 (Credit)", settings, _COLUMNS, CREDIT)
    codes = {"alphabet": by_alphabet, "low to high": from_low_to_high, "one-hot": one_hot}
    chosen = {"random": at_random, "as many of each class": balanced, "the first": first}
    settings = {
        f"{coding}, {which} training rows": [car(make(), pick, trial) for trial in range(trials(TRIALS))]
        for (coding, make), (which, pick) in product(codes.items(), chosen.items())
    }
    labelled = {name: everyone_of(hide) for name, hide in _MISSING.items()}
    show("Table 3 (Car), every item labelled", settings, labelled, CAR)
    show("Table 3 (Car), 40 % of the items without labels", settings, _MISSING, CAR)
    return []


def show(title: str, settings: Mapping[str, list[Opinions]], columns: Mapping[str, Hide], paper: Rows) -> None:
    """Print the errors of votes (ties to the first class) and of one method, for every setting."""
    lines = [
        ["the paper", "", *(f"{v:.1f}, {m:.1f}" for v, m in zip(paper["majority"][:3], paper[METHOD], strict=False))]
    ]
    for setting, opinions in settings.items():
        cells = []
        for hide in columns.values():
            kept = [hide(o.truth.size, np.random.default_rng([trial, 1])) for trial, o in enumerate(opinions)]
            votes = np.mean([first_of_votes(o, k) for o, k in zip(opinions, kept, strict=True)])
            found = [
                score(METHOD, annotations_of(o, k), o.truth, trial, every_item=True)
                for trial, (o, k) in enumerate(zip(opinions, kept, strict=True))
            ]
            cells.append(f"{votes:.1f}, {np.mean([s.error for s in found if s]):.1f}")
        lines.append([setting, f"{np.mean([o.best for o in opinions]):.1f}", *cells])
    print_table(f"{title}: error of votes and of {METHOD}, percent", ["", "best classifier", *columns], lines)


def first_of_votes(opinions: Opinions, kept: Bools) -> float:
    """Return the error of an argmax over counts of labels, in percent; without labels that is the first class."""
    counts = np.stack([((opinions.said == k) & kept).sum(axis=1) for k in range(opinions.K)], axis=1)
    return 100.0 * float(np.mean(counts.argmax(axis=1) != opinions.truth))


# ---- Car ------------------------------------------------------------------------------------------------


def by_alphabet() -> Floats:
    return table("uci_car").X


def _columns() -> list[list[str]]:
    parts: Any = load("uci_car")
    columns = parts["table"]
    return [[str(value) for value in columns[name].to_pylist()] for name in columns.column_names[:-1]]


def from_low_to_high() -> Floats:
    return np.array([[NATURAL.get(word, word) for word in column] for column in _columns()], np.float64).T


def one_hot() -> Floats:
    return np.column_stack([np.array(column) == value for column in _columns() for value in sorted(set(column))]) * 1.0


def at_random(y: Ints, rng: np.random.Generator) -> Ints:
    return rng.permutation(y.size)[:CAR_ROWS]


def balanced(y: Ints, rng: np.random.Generator) -> Ints:
    """Draw as many rows of each class, or half of a class that has fewer."""
    return np.concatenate(
        [rng.permutation(np.flatnonzero(y == k))[: min(CAR_ROWS // 4, int((y == k).sum()) // 2)] for k in range(4)]
    )


def first(y: Ints, rng: np.random.Generator) -> Ints:
    return np.arange(CAR_ROWS)


def car(X: Floats, pick: Callable[[Ints, np.random.Generator], Ints], trial: int) -> Opinions:
    """Train the ten classifiers on rows of Car, and label others."""
    y, rng = table("uci_car").y, np.random.default_rng([trial, CAR_ITEMS])
    train = pick(y, rng)
    test = rng.permutation(np.setdiff1d(np.arange(y.size), train))[:CAR_ITEMS]
    said = [c.fit(X[train], y[train]).predict(X[test]) for c in ten(X.shape[1])]
    return Opinions(np.stack(said, axis=1).astype(np.int8), y[test], 4)


def everyone_of(hide: Hide) -> Hide:
    """Return the same design with every item labelled."""

    def keep(N: int, rng: np.random.Generator) -> Bools:
        seen = hide(N, rng)
        # an item without labels gets a part at random, by the sizes of the parts
        empty = np.flatnonzero(~seen.any(axis=1))
        seen[empty] = seen[rng.choice(np.flatnonzero(seen.any(axis=1)), empty.size)]
        return seen

    return keep
