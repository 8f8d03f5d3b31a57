"""Answers that name several options: F1 and log-loss next to votes, ``auto`` for each option, and crowd-kit.

====================================== =================================================================================
set                                    judged by
====================================== =================================================================================
``time_expressions_multilabel``        the truth of TempEval-3, over candidates that somebody ticked
``opendomain_relations_multilabel``    no truth: the majority of held-out workers.  Workers are split at random, the
                                       model sees the labels of one part, and an option of a sentence counts as true
                                       if more than half of at least five held-out workers ticked it
simulations                            the truth they were drawn from
====================================== =================================================================================

The model was developed with the seeds 0 and 1 of the splits in sight, and with other simulations; the seeds here are
others.  ``time_expressions_multilabel`` is small, and was looked at when the rule for options of single items was
chosen.

Votes are shares of ticks, with one further label that ticks as the crowd does.  All probabilities are clipped to 0.001.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import consilience as cs
from benchmarks.figures import Figure
from consilience.datasets.multi import simulate_multi

#: Parts of the workers that are seen, and seeds of the splits.
PARTS, SEEDS = (0.5, 0.25), (10, 11)
LEAST_HELD_OUT = 5
SIMULATIONS: dict[str, dict[str, Any]] = {
    "simulated, 5 labels": {},
    "simulated, 3 labels": {"labels_per_item": 3},
    "simulated, low sensitivity": {"sensitivity": 0.6, "specificity": 0.97},
    "simulated, 40 % spammers": {"spammers": 0.4},
    "simulated, hard items": {"hard": 0.8},
    "simulated, options that go together": {"together": 0.6},
}


class Case(NamedTuple):
    """Answers (item, worker, label), and the truth of pairs of item and option that are judged."""

    name: str
    labels: pd.DataFrame
    truth: dict[tuple[Any, str], bool]
    own: bool = False  #: whether options belong to single items


def cases() -> Iterator[Case]:
    for name, options in SIMULATIONS.items():
        for seed in SEEDS:
            drawn = simulate_multi(seed=seed, **options)
            frame = with_blanks(drawn.annotations)
            truth = {(n, o): bool(drawn.true[n, k]) for n in drawn.truth for k, o in enumerate(drawn.options)}
            yield Case(name, frame, truth)
    if not os.environ.get("CONSILIENCE_DATA"):
        return
    parts: Any = cs.datasets.load("time_expressions_multilabel")
    labels, known = (parts[part].to_pandas() for part in ("labels", "truth"))
    for frame in (labels, known):
        frame["label"] = frame["label"].fillna("").str.lower()
    true = {(task, o) for task, text in zip(known["task"], known["label"], strict=True) for o in options_of(text)}
    ticked = {(task, o) for task, text in zip(labels["task"], labels["label"], strict=True) for o in options_of(text)}
    columns = ["task", "worker", "label"]
    yield Case("time expressions", labels[columns], {pair: pair in true for pair in ticked}, own=True)
    parts = cs.datasets.load("opendomain_relations_multilabel")
    labels = parts["labels"].to_pandas()[columns]
    labels["label"] = labels["label"].fillna("")
    for part in PARTS:
        for seed in SEEDS:
            yield held_out(labels, part, seed)


def with_blanks(annotations: cs.Annotations) -> pd.DataFrame:
    """Return all answers as a frame, with empty text where nothing was ticked."""
    item, who = annotations.blank or (np.empty(0, int), np.empty(0, int))
    blank = pd.DataFrame({"item": annotations.items[item], "annotator": annotations.annotators[who], "label": ""})
    frame = pd.concat([annotations.to_frame("pandas"), blank])
    return frame.rename(columns={"item": "task", "annotator": "worker"}).reset_index(drop=True)


def held_out(labels: pd.DataFrame, part: float, seed: int) -> Case:
    workers = np.sort(labels["worker"].unique())
    seen = set(workers[np.random.default_rng(seed).random(workers.size) < part])
    mine = labels["worker"].isin(seen)
    rest = labels[~mine]
    n = rest.groupby("task").size()
    judged = n.index[n >= LEAST_HELD_OUT].intersection(labels.loc[mine, "task"].unique())
    given = rest.assign(option=rest["label"].str.split("|")).explode("option")
    share = (given[given["option"] != ""].groupby(["task", "option"]).size() / n).dropna()
    names = sorted(set(share.index.get_level_values(1)))
    found = share.to_dict()
    truth = {(task, o): s for task in judged for o in names if (s := found.get((task, o), 0.0)) != 0.5}
    return Case(
        f"relations, {part:.0%} of the workers",
        labels[mine & labels["task"].isin(judged)].reset_index(drop=True),
        {pair: s > 0.5 for pair, s in truth.items()},
    )


def options_of(text: str) -> list[str]:
    return [part for part in text.split("|") if part]


# ---- methods: the probability of each pair of item and option -------------------------------------------------------

Probabilities = dict[tuple[Any, str], float]


def ours(case: Case) -> Probabilities:
    run = cs.aggregate(case.labels, answers="multi", item="task", annotator="worker", label="label")
    table = run.options  # type: ignore[attr-defined]
    return dict(zip(zip(table["task"], table["option"], strict=True), table["probability"], strict=True))


def shares(case: Case) -> tuple[dict[tuple[Any, str], float], dict[Any, int], dict[str, float]]:
    """Return ticks of each pair, labels of each item, and the share of ticks of each option (of all, if own)."""
    n = case.labels.groupby("task").size().to_dict()
    given = case.labels.assign(option=case.labels["label"].str.split("|")).explode("option")
    given = given[given["option"] != ""]
    ticks = given.groupby(["task", "option"]).size().to_dict()
    names = sorted({o for _, o in case.truth} | {o for _, o in ticks})
    if case.own:
        every = sum(ticks.values()) / sum(n[task] for task, _ in ticks)
        return ticks, n, dict.fromkeys(names, every)
    total = given.groupby("option").size().to_dict()
    return ticks, n, {o: total.get(o, 0) / len(case.labels) for o in names}


def votes(case: Case) -> Probabilities:
    ticks, n, usual = shares(case)
    return {(i, o): (ticks.get((i, o), 0) + usual[o]) / (n[i] + 1.0) for i, o in case.truth}


def by_option(case: Case, judge: Callable[[pd.DataFrame], dict[Any, float]]) -> Probabilities:
    """Judge each option by itself, over the items that can have it."""
    found: Probabilities = {}
    sets = case.labels["label"].map(lambda text: set(options_of(text)))
    for option in sorted({o for _, o in case.truth}):
        rows = case.labels.assign(label=[int(option in s) for s in sets])
        if case.own:
            rows = rows[rows["task"].isin([i for i, o in case.truth if o == option])]
        found |= {(item, option): p for item, p in judge(rows).items()}
    return found


def auto_alone(rows: pd.DataFrame) -> dict[Any, float]:
    if rows["label"].nunique() == 1:
        return dict.fromkeys(rows["task"], float(rows["label"].iloc[0]))
    table = cs.aggregate(rows, answers="nominal", item="task", annotator="worker", label="label").probabilities
    return dict(zip(table["task"], table["1"], strict=True))


def crowd_kit(name: str) -> Callable[[Case], Probabilities]:
    """Return ``BinaryRelevance`` over an aggregator of crowd-kit; probabilities are those of its parts."""

    def judge(case: Case) -> Probabilities:
        import crowdkit.aggregation as peer

        frame = case.labels.assign(label=[options_of(text) for text in case.labels["label"]])
        fitted = peer.BinaryRelevance(getattr(peer, name)()).fit(frame)
        found: Probabilities = {}
        for option, part in fitted.aggregators_.items():
            found |= {(item, option): float(row.get(1, 0.0)) for item, row in part.probas_.to_dict("index").items()}
        return found

    return judge


METHODS: dict[str, Callable[[Case], Probabilities]] = {
    "multi": ours,
    "votes": votes,
    "auto, each option alone": lambda case: by_option(case, auto_alone),
    "crowd-kit BinaryRelevance": crowd_kit("MajorityVote"),
    "crowd-kit BinaryRelevance, DawidSkene": crowd_kit("DawidSkene"),
}


def score(found: Probabilities, case: Case) -> tuple[float, float]:
    """Return F1 and log-loss; a pair that a method does not know has probability 0."""
    y = np.array(list(case.truth.values()))
    p = np.array([found.get(pair, 0.0) for pair in case.truth])
    said = p > 0.5
    p = np.clip(np.where(y, p, 1.0 - p), 1e-3, 1.0 - 1e-3)
    return 2.0 * float((said & y).sum()) / float(said.sum() + y.sum()), float(-np.log(p).mean())


def run() -> list[Figure]:
    scores: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases():
            for name, method in METHODS.items():
                scores.setdefault((case.name, name), []).append(score(method(case), case))
            print(case.name, *(f"{name} {scores[case.name, name][-1]}" for name in METHODS), sep="; ", flush=True)
    figures = []
    for case_name in dict.fromkeys(case for case, _ in scores):
        means = {name: np.mean(scores[case_name, name], axis=0) for name in METHODS}
        others = [mean for name, mean in means.items() if name != "multi"]
        best = max(mean[0] for mean in others), min(mean[1] for mean in others)
        for name, (f1, loss) in means.items():
            of = (best[0], best[1]) if name == "multi" else (None, None)
            figures.append(Figure(f"{case_name}, {name}: F1", float(f1), of[0], up=True))
            figures.append(Figure(f"{case_name}, {name}: log-loss", float(loss), of[1]))
    return figures
