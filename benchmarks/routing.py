"""``cs.route``: how often the error exceeds its ceiling, and what is saved, on simulated and public panels.

A simulated panel has three cheap judges (cost 1), two better ones (5) and a strong one (25) who are right with
probability 0.7 to 0.95, 1,500 items of which some fool all judges, and a person who costs 100.  On public panels GPT-4
costs 25 and other models 1 (pandalm: GPT-3.5 5); of the 123 variants on llmbar, those with the plain prompt are asked,
in both orders.  Known answers are drawn at random; the error is that on all items but those that probabilities were
learned from: the known answers that test are a sample of these.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import consilience as cs
from benchmarks.breaking import print_table, trials
from benchmarks.figures import Figure
from benchmarks.judge_panels import panel
from benchmarks.public import skipped
from consilience.exceptions import ConsilienceWarning
from consilience.inference.routing import _confidence, _decided, _split
from consilience.kernels._arrays import Codes, Floats

DRAWS, DELTA, PERSON = 100, 0.05, 100.0
SIMULATED = ((0.02, 0.05, 200), (0.02, 0.1, 100), (0.05, 0.1, 200))
PUBLIC = (
    ("llmbar", 0.1),
    ("llmbar", 0.15),
    ("judge_mtbench_faireval_llmeval2", 0.1),
    ("judge_mtbench_faireval_llmeval2", 0.15),
    ("pandalm", 0.15),
)


def simulated(seed: int, fools: float, n: int = 1500) -> tuple[cs.Annotations, Codes, Floats]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n).astype(np.int32)
    right = rng.random((n, 6)) < np.array([0.7, 0.75, 0.8, 0.85, 0.88, 0.95])
    right &= ~(rng.random(n) < fools)[:, None]
    said = np.where(right, truth[:, None], 1 - truth[:, None])
    return cs.Annotations.from_matrix(said), truth, np.array([1.0, 1.0, 1.0, 5.0, 5.0, 25.0])


def public(name: str) -> tuple[cs.Annotations, Codes, Floats]:
    a, truth, _ = panel(name)
    if name == "llmbar":
        a = a.select_annotators(np.char.find(np.array(a.annotators, str), "/Vanilla|") >= 0)
    strong = [str(who).startswith(("GPT-4", "gpt-3.5")) for who in a.annotators]
    return a, truth, np.where(strong, 5.0 if name == "pandalm" else 25.0, 1.0)


def routed(
    a: cs.Annotations, truth: Codes, costs: Floats, ceiling: float, known: int, seed: int
) -> tuple[float, float, float]:
    """Return the error on items not learned from, the cost of an item, and the share of items that people see."""
    chosen = np.random.default_rng([seed, known]).choice(a.n_items, known, replace=False)
    gold = {a.items[i]: a.classes[truth[i]] for i in chosen}
    found: Any = cs.route(a, gold, costs=costs, person=PERSON, ceiling=ceiling, delta=DELTA)
    stage = np.unique(costs, return_inverse=True)[1]
    sure, best = _confidence(a, found.predictor, stage, len(found.stages))
    at = _decided(sure, found.threshold)
    wrong = (best[np.arange(at.size), np.minimum(at, best.shape[1] - 1)] != truth) & (at < best.shape[1])
    answers = np.full(a.n_items, -1, np.int32)
    answers[chosen] = truth[chosen]
    learned, _ = _split(a, answers, ceiling, DELTA, 0)
    return float(np.delete(wrong, learned).mean()), found.cost, found.decided[-1] / a.n_items


def run() -> list[Figure]:
    rows, figures = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        cases: list[tuple[str, Any, float, int]] = [
            (f"simulated, {fools:.0%} fool all judges", fools, ceiling, known) for fools, ceiling, known in SIMULATED
        ]
        cases += [] if skipped() else [(name, None, ceiling, 200) for name, ceiling in PUBLIC]
        for title, fools, ceiling, known in cases:
            made = []
            for seed in range(trials(DRAWS)):
                a, truth, costs = public(title) if fools is None else simulated(seed, fools)
                made.append((*routed(a, truth, costs, ceiling, known, seed), float(costs.sum())))
            error, cost, people, everyone = np.array(made).T
            violated = 100 * float((error > ceiling).mean())
            shown = [f"{100 * error.mean():.1f}", f"{violated:.0f}", f"{100 * people.mean():.0f}", f"{cost.mean():.0f}"]
            rows.append([title, f"{ceiling:.0%}", str(known), *shown, f"{everyone.mean():.0f}, {PERSON:.0f}"])
            figures.append(Figure(f"{title}, ceiling {ceiling:.0%}: draws above it", violated, 100 * DELTA, unit="%"))
    header = [
        "panel",
        "ceiling",
        "known",
        "error, %",
        "above the ceiling, %",
        "to people, %",
        "cost",
        "all judges, person",
    ]
    print_table(f"Routing, {trials(DRAWS)} draws", header, rows)
    return figures
