"""``cs.audit``: planted effects in simulated panels, and the judges that it keeps on llmbar.

A simulated panel has eight judges who choose the better of two answers, A and B, to each of 1,000 questions, and are
right with probability 0.75 to 0.92.  An effect moves the probability of a choice by up to 5 points in all, or by none.
Order and authors are drawn for each judge and question, and question.  An effect of length that all judges share needs
known answers: here to all questions.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import consilience as cs
from benchmarks.breaking import print_table, trials
from benchmarks.figures import Figure
from benchmarks.public import crowd, skipped
from consilience.exceptions import ConsilienceWarning

EFFECTS = ("position", "length", "self-preference")
PANELS, DRAWS, KNOWN = 200, 50, 100
POWER, FALSE, ERROR = 90.0, 5.0, 13.5


class Panel(NamedTuple):
    """A simulated panel and what is known about its tasks."""

    annotations: cs.Annotations
    truth: dict[int, str]
    order: pd.DataFrame  #: item, annotator, first
    length: pd.DataFrame  #: item, A, B
    author: pd.DataFrame


def panel(seed: int, effect: str, size: float, n: int = 1000) -> Panel:
    """Simulate a panel in which one effect has this size."""
    rng = np.random.default_rng(seed)
    skill = np.linspace(0.75, 0.92, 8)
    M = skill.size
    judges = np.array([f"judge {m}" for m in range(M)])
    better = rng.integers(0, 2, n)  # 0 for A
    a_first = rng.integers(0, 2, (n, M)).astype(bool)
    length = rng.integers(50, 500, (n, 2))
    author = np.array([rng.choice(M, 2, replace=False) for _ in range(n)])
    own = (author[:, :1] == np.arange(M)).astype(float) - (author[:, 1:] == np.arange(M))
    longer = np.sign(length[:, :1] - length[:, 1:]) * np.ones((1, M))
    moved = {"position": np.where(a_first, 0.5, -0.5), "length": 0.5 * longer, "self-preference": own}
    a_chosen = rng.random((n, M)) < np.where(better[:, None] == 0, skill, 1 - skill) + size * moved[effect]
    item = np.arange(n)
    return Panel(
        cs.Annotations.from_matrix(np.where(a_chosen, "A", "B"), annotators=list(judges)),
        {int(i): "AB"[better[i]] for i in item},
        pd.DataFrame(
            {
                "item": np.repeat(item, M),
                "annotator": np.tile(judges, n),
                "first": np.where(a_first, "A", "B").ravel(),
            }
        ),
        pd.DataFrame({"item": item, "A": length[:, 0], "B": length[:, 1]}),
        pd.DataFrame({"item": item, "A": judges[author[:, 0]], "B": judges[author[:, 1]]}),
    )


def detected(seed: int, effect: str, size: float) -> tuple[bool, bool]:
    """Return whether the audit calls the effect on all judges clear, and whether it calls any effect of the kind so."""
    made = panel(seed, effect, size)
    given: dict[str, Any] = {
        "position": {"order": made.order},
        "length": {"length": made.length, "gold": made.truth},
        "self-preference": {"author": made.author},
    }[effect]
    found = cs.audit(cs.aggregate(made.annotations, "majority"), without=False, **given).effects
    clear = found[(found["effect"] == effect) & (found["p"] < 0.05)]
    return bool((clear["judge"] == "all judges").any()), len(clear) > 0


def kept(draw: int) -> tuple[int, float, float]:
    """Return the number of judges that 100 known answers of llmbar keep, and the errors of their vote and of all."""
    on = crowd("llmbar")
    a, truth = on.annotations, on.truth
    known = np.random.default_rng(draw).choice(a.n_items, KNOWN, replace=False)
    rest = np.setdiff1d(np.arange(a.n_items), known)
    gold = {a.items[i]: a.classes[truth[i]] for i in known}
    blind = cs.aggregate(a, "majority")
    keep = cs.audit(blind, gold=gold, without=False).panel
    chosen = a.select_annotators(np.isin(a.annotators, keep))
    vote = cs.aggregate(chosen, "majority")
    errors = [100 * float(np.mean(run.choice.best[rest] != truth[rest])) for run in (vote, blind)]
    return len(keep), errors[0], errors[1]


def run() -> list[Figure]:
    figures, rows = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        for effect in EFFECTS:
            n = trials(PANELS)
            power = 100 * float(np.mean([detected(seed, effect, 0.05)[0] for seed in range(n)]))
            # 5 % of 200 panels has a standard error of 1.5 points, of ten times as many 0.5
            false = 100 * float(np.mean([detected(seed, effect, 0.0)[1] for seed in range(10 * n)]))
            rows.append([effect, f"{power:.1f}", f"{false:.1f}"])
            figures.append(Figure(f"{effect}: panels in which 5 points are found", power, POWER, up=True, unit="%"))
            figures.append(Figure(f"{effect}: panels with a false positive", false, FALSE, unit="%"))
        print_table("Planted effects, percent of panels", ["effect", "found", "false positives"], rows)
        if not skipped():
            size, vote, everyone = np.mean([kept(draw) for draw in range(trials(DRAWS))], axis=0)
            errors = f"error {vote:.2f} %, all judges {everyone:.2f} %"
            print(f"llmbar, {KNOWN} known answers: {size:.1f} judges kept; {errors}")
            figures.append(Figure("llmbar: error of the vote of the judges that are kept", vote, ERROR, unit="%"))
    return figures
