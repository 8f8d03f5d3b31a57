"""Answers on a scale: the default, its parts and votes on four public scales, and on simulated ones.

``error`` is the percentage of wrong labels, ``mae`` the mean absolute error in levels, ``kappa`` the quadratic weighted
kappa, ``rmse`` the root mean square error of the means, and ``covered`` and ``width`` describe 90 % intervals (percent,
levels).  The form of the model and its number of places for each level (``SCALE_PLACES``) were decided with these sets
in view.  So the number of places, the weight of the ordinal pool beside a nominal one, and how doubt is spread are also
chosen by the log-loss on the other families of sets ("left out"); ties, where no other set needs several places, go to
fewer places.  Numbers cut into five levels (seven scales of emotions, which are one family, and ratings of films) are
further scales there.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import consilience as cs
from benchmarks.breaking import print_table
from benchmarks.figures import Figure
from benchmarks.numeric import sets as numbers
from benchmarks.public import skipped
from consilience.auto.auto import auto
from consilience.auto.ordinal import ordinal_auto
from consilience.auto.pool import Pool
from consilience.datasets import load, simulate_scale
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Codes, Floats
from consilience.methods import ordinal as ordinal_module
from consilience.runs.ordinal_run import medians, quantiles

#: Public scales with a truth, and the order of the levels where names do not say it.
SCALES: dict[str, list[str] | None] = {
    "llmjudge_trecdl23": None,
    "metaphor_novelty": None,
    "adult2": ["G", "P", "R", "X"],
    "coal_subsidy": None,
}
#: Known answers, and how often they are drawn.
KNOWN, DRAWS = (30, 100), 3


class Row(NamedTuple):
    """Scores of one way to aggregate."""

    error: float
    mae_of_labels: float
    mae_of_medians: float
    mae_of_means: float
    kappa_of_labels: float
    kappa_of_medians: float
    log_loss: float
    rmse: float
    covered: float
    width: float


def weighted_kappa(one: Codes, other: Codes, n_levels: int) -> float:
    """Return Cohen's kappa with squared distances as weights."""
    level = np.arange(n_levels)
    distance = np.subtract.outer(level, level).astype(float) ** 2
    table = np.zeros((n_levels, n_levels))
    np.add.at(table, (one, other), 1.0)
    chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return 1.0 - float((distance * table).sum() / (distance * chance).sum())


def off(values: Any, truth: Codes) -> float:
    """Return the mean absolute error in levels."""
    return float(np.abs(values - truth)[truth >= 0].mean())


def scored(posterior: Floats, best: Codes, truth: Codes) -> Row:
    judged = truth >= 0
    p, best, truth = posterior[judged], best[judged], truth[judged]
    middle, K = medians(p, best), p.shape[1]
    low, high = quantiles(p, 0.05), quantiles(p, 0.95)
    return Row(
        100.0 * float((best != truth).mean()),
        off(best, truth),
        off(middle, truth),
        off(p @ np.arange(K), truth),
        weighted_kappa(truth, best, K),
        weighted_kappa(truth, middle, K),
        -float(np.log(np.maximum(p[np.arange(truth.size), truth], 1e-9)).mean()),
        float(np.sqrt(((p @ np.arange(K) - truth) ** 2).mean())),
        100.0 * float(((low <= truth) & (truth <= high)).mean()),
        float((high - low).mean()),
    )


class Scale(NamedTuple):
    """A public scale, its levels in order."""

    annotations: cs.Annotations
    truth: Codes  #: level of every item, -1 where it is not known
    order: list[Any]


def scale(name: str) -> Scale:
    crowd: Any = load(name)
    a = crowd.annotations
    order = SCALES[name] or sorted(a.classes.tolist())
    a = a.recode(a.annotator_ids, a.class_ids.take(a.class_ids.codes_of(order)))
    truth = a.codes_of_truth(crowd.truth, strict=False)
    return Scale(a, np.where(truth < a.n_classes, truth, -1), order)


def ways(on: Scale) -> Iterator[tuple[str, Row]]:
    """Yield the scores of votes, single models and defaults."""
    votes = vote_posterior(on.annotations)
    row = scored(votes, votes.argmax(axis=1), on.truth)
    lower = off(quantiles(votes, 0.5), on.truth)  # of two medians, the lower one
    yield "votes", row._replace(mae_of_medians=min(row.mae_of_medians, lower))
    for name, how in (
        ("hierarchical", {"method": "hierarchical"}),
        ("auto, nominal", {"answers": "nominal"}),
        ("ordinal", {"method": "ordinal"}),
        ("auto, ordinal", {"answers": "ordinal"}),
    ):
        options: dict[str, Any] = how if name in ("hierarchical", "auto, nominal") else {**how, "order": on.order}
        run = cs.aggregate(on.annotations, **options)
        yield name, scored(run.posterior, run.choice.best, on.truth)


def with_known(on: Scale, known: int, answers: str) -> Row:
    """Return the scores on the other items with known answers, the mean of several draws."""
    rows = []
    there = np.flatnonzero((on.truth >= 0) & (on.annotations.labels_per_item > 0))
    for draw in range(DRAWS):
        chosen = np.random.default_rng(draw).choice(there, known, replace=False)
        gold = {on.annotations.items[n]: on.order[on.truth[n]] for n in chosen}
        options: dict[str, Any] = {"order": on.order} if answers == "ordinal" else {}
        run = cs.aggregate(on.annotations, answers=answers, gold=gold, **options)
        truth = on.truth.copy()
        truth[chosen] = -1
        rows.append(scored(run.posterior, run.choice.best, truth))
    return Row(*np.mean(rows, axis=0).tolist())


def simulated() -> Iterator[tuple[str, Row]]:
    """Yield mean scores on simulated scales."""
    rows: dict[str, list[Row]] = {}
    for seed in range(10):
        crowd = simulate_scale(500, 60, 5, severity=1.0, seed=seed)
        for name, row in ways(Scale(crowd.annotations, crowd.truth, list(range(5)))):
            rows.setdefault(name, []).append(row)
    for name, found in rows.items():
        yield name, Row(*np.mean(found, axis=0).tolist())


def cut_numbers(n_levels: int = 5) -> Iterator[tuple[str, str, Scale]]:
    """Yield family, name and scale of numbers that are cut into levels of equal width."""
    for family, name, labels, known in numbers():
        if name in SCALES or name == "emotion_full":  # whose answers the single emotions have
            continue
        said = labels["label"].to_numpy(float)
        edges = np.linspace(said.min(), said.max(), n_levels + 1)[1:-1]
        levels = list(range(n_levels))
        a = cs.Annotations.from_frame(labels.assign(label=np.digitize(said, edges)), classes=levels)
        true = known.reindex(a.items).to_numpy(float)
        yield family, name, Scale(a, np.where(np.isfinite(true), np.digitize(true, edges), -1), levels)


def left_out() -> dict[str, Row]:
    """Return the scores of every set with places, weight and doubt chosen on the other families."""
    options = [(n, weight, even) for n in (1, 3) for weight in (0.0, 0.5, 1.0) for even in (False, True)]
    rows: dict[str, dict[tuple[int, float, bool], Row]] = {}
    size, family = {}, {}
    sets = [*((name, name, scale(name)) for name in SCALES), *cut_numbers()]
    for kind, name, on in sets:
        rows[name], family[name] = {}, kind
        size[name] = float(np.log(on.annotations.n_classes))
        nominal = auto(on.annotations, silence="random").posterior
        for places in (1, 3):
            with patch.object(ordinal_module, "SCALE_PLACES", places):
                pool = ordinal_auto(on.annotations, order=on.order).predictor
            assert isinstance(pool, Pool)
            for even in (False, True):
                ordinal = (replace(pool, rest=None) if even else pool)(on.annotations)[0]
                for weight in (0.0, 0.5, 1.0):
                    p = (1.0 - weight) * nominal + weight * ordinal
                    rows[name][places, weight, even] = scored(p, p.argmax(axis=1), on.truth)
    made = {}
    members = Counter(family.values())
    for name in rows:
        others = [other for other in rows if family[other] != family[name]]
        share = {other: 1.0 / (size[other] * members[family[other]]) for other in others}
        losses = [sum(rows[other][each].log_loss * share[other] for other in others) for each in options]
        best = options[int(np.argmin(np.round(losses, 9)))]
        spread = "even" if best[2] else "as levels"
        made[f"{name} ({best[0]} places at most, weight {best[1]:g}, doubt {spread})"] = rows[name][best]
    return made


def with_truth(on: Scale) -> tuple[float, float]:
    """Return errors that only the truth makes possible: of the best single annotator, and of the best map of votes.

    The map is a logistic regression of the truth on vote shares, fitted to four fifths of the items.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    a, known = on.annotations, on.truth >= 0
    item = a.item_of_label()
    judged = known[item]
    wrong = np.bincount(a.annotator[judged], (a.label != on.truth[item])[judged], a.n_annotators)
    best = wrong / np.maximum(np.bincount(a.annotator[judged], minlength=a.n_annotators), 1)
    truth = on.truth[known]
    mapped = cross_val_predict(LogisticRegression(C=10.0, max_iter=500), vote_posterior(a)[known], truth, cv=5)
    return 100.0 * float(best.min()), 100.0 * float((mapped != truth).mean())


def show(title: str, rows: dict[str, Row]) -> None:
    print_table(title, ("", *Row._fields), [(name, *(f"{value:.4g}" for value in row)) for name, row in rows.items()])


def run() -> list[Figure]:
    if skipped():
        return []
    figures = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        show("simulated scales", dict(simulated()))
        show("left out", left_out())
        for name in SCALES:
            on = scale(name)
            rows = dict(ways(on))
            for known in KNOWN:
                for answers in ("nominal", "ordinal"):
                    rows[f"auto, {answers}, {known} known answers"] = with_known(on, known, answers)
            show(name, rows)
            votes, ours = rows["votes"], rows["auto, ordinal"]
            if name == "llmjudge_trecdl23":
                figures.append(Figure(f"{name}: weighted kappa of labels", ours.kappa_of_labels, 0.5, up=True))
                figures.append(Figure(f"{name}: error", ours.error, 46.0, unit="%"))
                for way, error in zip(("the best judge", "the best map of votes"), with_truth(on), strict=True):
                    figures.append(Figure(f"{name}: error of {way}, which the truth shows", error, unit="%"))
                for places in (1, 5, 8):
                    with patch.object(ordinal_module, "SCALE_PLACES", places):
                        made = dict(ways(on))["auto, ordinal"]
                    figures.append(Figure(f"{name}: kappa with {places} places for a level", made.kappa_of_labels))
            elif name != "coal_subsidy":  # whose truths are test questions that nearly all get right
                least = min(votes.mae_of_medians, votes.mae_of_means)
                figures.append(Figure(f"{name}: MAE of medians, next to votes", ours.mae_of_medians, least))
                figures.append(Figure(f"{name}: MAE of labels, next to votes", ours.mae_of_labels, least))
        crowd = simulate_scale(20_000, 1000, 5, seed=0)
        begun = time.perf_counter()
        cs.aggregate(crowd.annotations, "ordinal")
        figures.append(Figure("ordinal, 10^5 labels by 1000 annotators", time.perf_counter() - begun, unit="s"))
    return figures
