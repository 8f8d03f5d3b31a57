"""Numbers as answers: error on public sets next to mean and median, coverage, known values, time.

Settings (weight of the mean, ridge, rounding of the model with scales) are also chosen without each family of sets: the
figures "chosen without it" are of sets left out.  The seven scales of ``snow_affect_numeric`` and
``emotion_full`` are the same answers, and so one family.  Three scales of four levels are taken as numbers, to have
more families.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import consilience as cs
from benchmarks.figures import Figure
from consilience.answers.numeric.constants import ADDITIVE, SCALED
from consilience.answers.numeric.fit import Table, fit_numeric
from consilience.answers.numeric.members import combine
from consilience.answers.numeric.slips import find_slips
from consilience.datasets import simulate_numeric

LEVELS = {"adult2": dict(zip("GPRX", range(4), strict=True)), "metaphor_novelty": None, "llmjudge_trecdl23": None}
EMOTION = "emotion"
#: Numbers of known values.
KNOWN = (10, 30, 100)
#: Weight of the mean, ridge, rounding of the model with scales.
GRID = tuple(product((0.3, 0.5, 0.7), (0.03, 0.1, 0.3), (0.3, 1.0)))


def sets() -> Iterator[tuple[str, str, pd.DataFrame, pd.Series]]:
    """Yield the family, the name, the answers and the truth of every set that is there."""
    root = Path(os.environ.get("CONSILIENCE_DATA", ""))
    for name in ("emotion_full", "snow_affect_numeric", "movie_reviews", *LEVELS):
        if not (root / name / "labels.csv.gz").is_file():
            continue
        labels, truth = (pd.read_csv(root / name / f"{kind}.csv.gz") for kind in ("labels", "truth"))
        known = truth.set_index("task")["label"]
        if LEVELS.get(name):
            labels, known = labels.assign(label=labels["label"].map(LEVELS[name])), known.map(LEVELS[name])
        if name != "snow_affect_numeric":
            yield (EMOTION if name == "emotion_full" else name), name, labels, known
            continue
        scale = labels["task"].str.partition("/")[0]
        for each in sorted(scale.unique()):
            yield EMOTION, f"snow_affect_numeric/{each}", labels[scale == each], known


def errors(value: Any, truth: Any) -> tuple[float, float]:
    """Return mean absolute and root mean square error."""
    away = (np.asarray(value) - np.asarray(truth))[np.isfinite(truth)]
    return float(np.abs(away).mean()), float(np.sqrt((away**2).mean()))


def candidates(labels: pd.DataFrame, known: pd.Series) -> tuple[dict[Any, tuple[float, float]], tuple[float, float]]:
    """Return the errors under every setting of the grid and the default, and those of the mean."""
    a = cs.Annotations.from_frame(labels)
    whole = Table(a.indptr, a.annotator.astype(np.uint32), a.classes[a.label].astype(float), a.n_annotators)
    table = whole.select(~find_slips(whole).slip)
    truth = known.reindex(a.items).to_numpy(float)
    additive = fit_numeric(table, ADDITIVE, max_iter=2000, tol=1e-4)
    found: dict[Any, tuple[float, float]] = {}
    for rounding in sorted({setting[2] for setting in GRID}):
        scaled = fit_numeric(table, SCALED._replace(rounding=rounding), max_iter=2000, tol=1e-4)
        for mean, ridge, of in GRID:
            if of == rounding:
                rest = 0.5 * (1.0 - mean)
                prior = {"mean": mean, "median": 0.0, "scaled": rest, "additive": rest}
                found[mean, ridge, of] = errors(combine(table, scaled, additive, prior=prior, ridge=ridge).value, truth)
    return found, errors(whole.mean(), truth)


def measured(labels: pd.DataFrame, known: pd.Series) -> dict[str, tuple[float, float]]:
    """Return errors of the default, the mean and the median, and coverage and expected error of the default."""
    run: Any = cs.aggregate(labels, answers="numeric")
    answers = labels.groupby("task")["label"]
    truth = known.reindex(run.labels["task"])
    judged = run.errors(known)
    return {
        "ours": (judged.mean_absolute, judged.root_mean_square),
        "mean": errors(answers.mean().reindex(truth.index), truth),
        "median": errors(answers.median().reindex(truth.index), truth),
        "covered": (judged.covered, run.estimated_error.value),
    }


def known_values(labels: pd.DataFrame, known: pd.Series, number: int, draws: int = 5) -> float:
    """Return the mean absolute error on other items with so many known values, relative to that without."""
    alone: Any = cs.aggregate(labels, answers="numeric")
    ratios = []
    for draw in range(draws):
        gold = known.sample(number, random_state=draw)
        taught: Any = cs.aggregate(labels, answers="numeric", gold=gold)
        rest = known.drop(gold.index)
        ratios.append(taught.errors(rest).mean_absolute / alone.errors(rest).mean_absolute)
    return float(np.mean(ratios))


def ensemble(kind: str, seed: int, N: int = 1000, M: int = 6) -> tuple[Any, Any]:
    """Return true values, and the answers of annotators who score every item, (N, M)."""
    rng = np.random.default_rng(seed)
    t = rng.normal(0.0, 1.0, N)
    kinds: dict[str, Callable[[], Any]] = {
        "normal noise": lambda: t + rng.normal(0.0, 0.7, N),
        "two modes": lambda: t + 1.5 * rng.choice([-1.0, 1.0], N) + rng.normal(0.0, 0.15, N),
        "skewed": lambda: t + rng.exponential(1.2, N) - 1.2,
        "half the same": lambda: np.where(rng.random(N) < 0.5, 0.0, t + rng.normal(0.0, 0.3, N)),
        "saturating": lambda: np.tanh(2.0 * (t - rng.normal(0.0, 0.7))) + rng.normal(0.0, 0.1, N),
    }
    if kind in kinds:
        return t, np.stack([kinds[kind]() for _ in range(M)], axis=1)
    return t, np.stack([[*kinds.values()][m % len(kinds)]() for m in range(M)], axis=1)  # one of each


def ensembles() -> list[Figure]:
    """Kernel densities next to the mean, the median and the parametric models, up to a linear map of the values."""
    figures = []
    for kind in ("normal noise", "two modes", "skewed", "half the same", "saturating", "one of each"):
        rows = []
        for seed in range(4):
            t, Y = ensemble(kind, seed)
            made: list[Any] = [cs.aggregate(Y, name) for name in ("numeric", "kernel-density")]
            values = [Y.mean(axis=1), np.median(Y, axis=1), *(each.value for each in made)]
            rows.append([np.abs((v - v.mean()) / v.std() * t.std() + t.mean() - t).mean() for v in values])
        mean, median, usual, kernels = np.mean(rows, axis=0).tolist()
        print(f"ensemble, {kind}: mean {mean:.3f}, median {median:.3f}, numeric {usual:.3f}, kernels {kernels:.3f}")
        target = None if kind in ("normal noise", "saturating") else 1.0
        figures.append(Figure(f"ensemble, {kind}: kernel densities, of numeric", kernels / usual, target))
    return figures


def run() -> list[Figure]:
    """Print and return the figures."""
    warnings.simplefilter("ignore")
    figures = ensembles()
    won: list[bool] = []
    every = list(sets())
    tried = {name: candidates(labels, known) for _, name, labels, known in every}
    for family, name, labels, known in every:
        found = measured(labels, known)
        others = [(other, each) for other, each, _, _ in every if other != family]
        best = min(GRID, key=lambda setting: _score(setting, others, tried))
        left_out = tried[name][0][best]
        text = ", ".join(f"{who} {mae:.4g} / {rmse:.4g}" for who, (mae, rmse) in found.items() if who != "covered")
        covered, expected = found["covered"]
        print(
            f"{name}: MAE / RMSE {text}; chosen without it {left_out[0]:.4g} / {left_out[1]:.4g} {best}; "
            f"90 % intervals cover {covered:.0%}; expected MAE {expected:.3g}",
            flush=True,
        )
        target = 1.0 if family == EMOTION else None
        for at, what in ((0, "MAE"), (1, "RMSE")):
            share = left_out[at] / found["mean"][at]
            figures.append(Figure(f"{name}: {what}, of the mean's, chosen without it", share, target))
        figures.append(Figure(f"{name}: covered by 90 % intervals", covered, 0.85, up=True))
        if "/" in name:
            won += [found["ours"][at] < found["mean"][at] for at in (0, 1)]
    print(f"better than the mean on {sum(won[::2])} (MAE) and {sum(won[1::2])} (RMSE) of {len(won) // 2} scales")
    for _, name, labels, known in every:
        own = known[known.index.isin(labels["task"])]
        shares = [known_values(labels, own, number) for number in KNOWN if number < 0.5 * own.size]
        print(f"{name}: with {KNOWN} known values " + ", ".join(f"{share:.3f}" for share in shares) + " of the MAE")
        figures.append(Figure(f"{name}: MAE with known values, of that without, at most", max(shares), 1.02))
    crowd = simulate_numeric(200_000, 1000, labels_per_item=5)
    begun = time.perf_counter()
    cs.aggregate(crowd.annotations, answers="numeric")
    seconds = time.perf_counter() - begun
    print(f"10^6 answers: {seconds:.1f} s")
    figures.append(Figure("10^6 answers of 1,000 annotators", seconds, 120.0, unit="s"))
    return figures


def _score(setting: Any, names: list[tuple[str, str]], tried: dict[str, Any]) -> float:
    """Return the mean log ratio of errors to those of the mean, every family counting once."""
    by_family: dict[str, list[float]] = {}
    for family, name in names:
        found, mean = tried[name]
        by_family.setdefault(family, []).append(float(np.mean(np.log(np.array(found[setting]) / mean))))
    return float(np.mean([np.mean(values) for values in by_family.values()]))
