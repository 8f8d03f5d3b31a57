"""``cs.estimate`` on panels of language models: coverage and width of intervals with 50, 100 and 200 known answers.

Known answers are drawn at random, 500 times, the same for all ways; the figure is the share of a class (llmjudge:
relevant, that is grades 2 and 3; alpaca_eval: wins over the reference, by the evaluator of the leaderboard).  Next to
it: known answers alone, PPI++ (ppi-python) with the judge that predicts best, chosen by the truth, and that judge's own
share with a binomial interval.  The half-width is compared with that of PPI++ whatever that covers.  Where it covers
less than 94 % of the draws, its half-width is also given as it would have to be to cover these, and the last column
names the narrowest of the intervals that depend on the draw (the first three) and cover 94 %.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import consilience as cs
from benchmarks.breaking import print_table, trials
from benchmarks.figures import Figure
from benchmarks.judge_panels import PANELS, panel
from benchmarks.public import skipped
from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Floats

NUMBERS = (50, 100, 200)
DRAWS = 500
COVERED, WIDE = 94.0, 0.0545
#: Intervals that depend on the known answers.
WAYS = "cs.estimate", "known answers alone", "PPI++, best judge"
#: Evaluator of AlpacaEval 2, whose leaderboard has length-controlled win rates.
LEADERBOARD = "weighted_alpaca_eval_gpt4_turbo"


def run() -> list[Figure]:
    if skipped():
        return []
    rows, figures = [], []
    for name in PANELS:
        for n in NUMBERS:
            found = measured(name, n)
            _, widened = found.pop("PPI++, widened")
            (covered, wide), (they_cover, theirs) = found["cs.estimate"], found["PPI++, best judge"]
            shown = [f"{100 * covered:.1f}, {wide:.4f}" for covered, wide in found.values()]
            rows.append([name, str(n), *shown, narrowest(found)])
            title, peer = f"{name}, {n} known answers", f"PPI++ with the best judge {theirs:.4f}"
            figures.append(Figure(f"{title}: coverage of the 95 % interval", 100 * covered, COVERED, up=True, unit="%"))
            figures.append(Figure(f"{title}: half-width ({peer}, covers {100 * they_cover:.1f} %)", wide, theirs))
            if they_cover < COVERED / 100:
                figures.append(Figure(f"{title}: half-width (PPI++, widened until it covers 94 %)", wide, widened))
            if name == "llmjudge_trecdl23" and n == 200:
                figures.append(Figure(f"{title}: half-width", wide, WIDE))
    figures.append(
        Figure("alpaca_eval: Spearman correlation of scores and win rates", length_controlled(), 0.97, up=True)
    )
    header = ["panel", "known", *WAYS, "best judge alone", f"narrowest that covers {COVERED:.0f} %"]
    print_table("Coverage of 95 % intervals in percent, mean half-width", header, rows)
    return figures


def narrowest(found: dict[str, tuple[float, float]]) -> str:
    """Return which of the intervals that cover 94 % of the draws is the narrowest on average."""
    valid = [way for way in WAYS if found[way][0] >= COVERED / 100]
    return min(valid, key=lambda way: found[way][1], default="none")


def measured(name: str, n: int) -> dict[str, tuple[float, float]]:
    """Return coverage and mean half-width of every way."""
    a, truth, of = panel(name)
    y = np.isin(truth, of).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        consensus = cs.aggregate(a)
    judge = best_judge(a, of, y)
    classes = [a.classes[k] for k in of]
    intervals: dict[str, list[tuple[float, float]]] = {}
    for draw in range(trials(DRAWS)):
        known = np.random.default_rng([draw, n]).choice(y.size, n, replace=False)
        answers = {a.items[i]: a.classes[truth[i]] for i in known}
        found = cs.estimate(consensus, gold=answers, of=classes)
        assert found.humans is not None
        ways = {
            "cs.estimate": (found.low, found.high),
            "known answers alone": (found.humans.low, found.humans.high),
            "PPI++, best judge": ppi(y[known], judge[known], np.delete(judge, known)),
            "best judge alone": binomial(judge),
        }
        for way, interval in ways.items():
            intervals.setdefault(way, []).append(interval)
    made = {}
    for way, found_all in intervals.items():
        low, high = np.array(found_all).T
        made[way] = float(((low <= y.mean()) & (y.mean() <= high)).mean()), float((high - low).mean() / 2)
        if way == "PPI++, best judge":
            middle, half = (high + low) / 2, (high - low) / 2
            factor = float(np.quantile(np.abs(middle - y.mean()) / half, COVERED / 100))
            made["PPI++, widened"] = COVERED / 100, factor * made[way][1]
    return made


def length_controlled() -> float:
    """Return the correlation of scores by ``cs.rank`` with the length-controlled win rates of the leaderboard."""
    import pandas as pd
    from scipy.stats import spearmanr

    from consilience.datasets import path

    rows = pd.read_csv(path("alpaca_eval") / "comparisons.csv.gz")
    listed = pd.read_csv(path("alpaca_eval") / "truth.csv.gz")
    listed = listed[listed["leaderboard"] == LEADERBOARD].set_index("task")["length_controlled_winrate"].dropna()
    scores = cs.rank(rows[rows["worker"] == LEADERBOARD]).scores.set_index("item")["score"]
    both = scores.index.intersection(listed.index)
    return float(spearmanr(scores[both], listed[both])[0])


def best_judge(a: Any, of: tuple[int, ...], y: Floats) -> Floats:
    """Return what the judge says who predicts best; its mean where it is silent."""
    said = np.full((a.n_annotators, a.n_items), np.nan)
    said[a.annotator, a.item_of_label()] = np.isin(a.label, of)
    said = np.where(np.isnan(said), np.nanmean(said, axis=1, keepdims=True), said)
    varied = np.flatnonzero(said.std(axis=1) > 0)
    return np.asarray(said[max(varied, key=lambda m: abs(np.corrcoef(said[m], y)[0, 1]))])


def ppi(y: Floats, judge: Floats, others: Floats) -> tuple[float, float]:
    from ppi_py import ppi_mean_ci

    low, high = ppi_mean_ci(y, judge, others, alpha=0.05)
    return float(low[0]), float(high[0])


def binomial(judge: Floats) -> tuple[float, float]:
    share = float(judge.mean())
    step = 1.96 * float(np.sqrt(share * (1 - share) / judge.size))
    return share - step, share + step
