"""Rankings: held-out judgements and pairs of public data, coverage on simulations, time next to crowd-kit.

A fifth of the pairs of ``ukpconvarg1`` is held out with all its judgements; who wins each decided one is predicted from
the rest.  crowd-kit's methods take no ties, so they are given the decided comparisons.  For the consensus of pairs, one
judgement of each pair with three or more is held out.  Only the orientation of pairs, by score, was chosen by looking
at these figures.

``BENCH_COMPARISONS`` sets the number of comparisons of the timing (10⁶).
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import consilience as cs
from benchmarks.figures import Figure
from consilience.datasets import simulate_comparisons
from consilience.ranking.comparisons import from_frame
from consilience.ranking.fit import fit
from consilience.ranking.information import centred
from consilience.ranking.uncertainty import uncertainty

COMPARISONS = int(float(os.environ.get("BENCH_COMPARISONS", "1e6")))
#: Iterations of crowd-kit: its noisy model computes each in a Python loop over comparisons.
ITERATIONS = 10


def public(name: str) -> pd.DataFrame | None:
    path = Path(os.environ.get("CONSILIENCE_DATA", "")) / name / "comparisons.csv.gz"
    return pd.read_csv(path) if path.exists() else None


def decided(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons without ties, as crowd-kit expects them."""
    rows = frame[frame["winner"] != "tie"]
    label = np.where(rows["winner"] == "left", rows["left"], rows["right"])
    return rows.assign(label=label)[["left", "right", "worker", "label"]]


def accuracy(margin: Any, winner: Any) -> float:
    """Return the percentage of decided judgements whose winner has the larger part, ties as halves."""
    won = np.asarray(winner) == "left"
    known = np.asarray(winner) != "tie"
    right = np.where(np.asarray(margin) == 0, 0.5, (np.asarray(margin) > 0) == won)
    return 100.0 * float(np.mean(right[known]))


def held_out() -> list[Figure]:
    frame = public("ukpconvarg1")
    if frame is None:
        return []
    from crowdkit.aggregation import BradleyTerry, NoisyBradleyTerry

    pair = frame["left"].astype(str) + "|" + frame["right"].astype(str)
    names = np.sort(pair.unique())
    held = pair.isin(names[np.random.default_rng(0).random(names.size) < 0.2])
    train, test = frame[~held], frame[held]
    made = []
    for title, peer in (
        ("crowd-kit BradleyTerry", BradleyTerry(n_iter=100)),
        ("crowd-kit NoisyBradleyTerry", NoisyBradleyTerry(n_iter=ITERATIONS)),
    ):
        scores = peer.fit(decided(train)).scores_
        margin = test["left"].map(scores).fillna(0.0) - test["right"].map(scores).fillna(0.0)
        made.append(Figure(f"ukpconvarg1, held-out judgements: {title}", accuracy(margin, test["winner"]), unit="%"))
    floor = max(figure.value for figure in made)
    for title, options in (
        ("plain Bradley-Terry with ties", {"judges": False, "position": False, "length": False}),
        ("without lengths", {"length": False}),
        ("cs.rank", {}),
    ):
        begun = time.perf_counter()
        p = cs.rank(train, **options).predict(test)  # type: ignore[arg-type]
        seconds = time.perf_counter() - begun
        value = accuracy(p["left"] - p["right"], test["winner"])
        target = floor if title == "cs.rank" else None
        made.append(Figure(f"ukpconvarg1, held-out judgements: {title} ({seconds:.1f} s)", value, target, True, "%"))
    return made


def pairs() -> list[Figure]:
    """Predict one judgement of each pair from the others: votes next to the consensus."""
    figures = []
    for name in ("ukpconvarg1", "pandalm"):
        frame = public(name)
        if frame is None:
            continue
        key = ["left", "right", "task"]
        mixed = frame.sample(frac=1.0, random_state=0)
        last = ~mixed.duplicated(key) & (mixed.groupby(key)["winner"].transform("size") >= 3)
        train, test = mixed[~last], mixed[last]
        # the consensus orients pairs by score: turn it back
        found = cs.rank(train).pairs
        turned = found.assign(
            left=found["right"],
            right=found["left"],
            winner=found["winner"].map({"left": "right", "right": "left", "tie": "tie"}),
        )
        consensus = pd.concat([found, turned]).astype({"task": str}).set_index(key)["winner"]
        votes = train.astype({"task": str}).groupby(key)["winner"].agg(lambda said: sorted(said.mode()))
        index = pd.MultiIndex.from_frame(test.astype({"task": str})[key])
        said = test["winner"].to_numpy()
        by_vote = np.mean([(one in most) / len(most) for one, most in zip(said, votes.reindex(index), strict=True)])
        by_consensus = np.mean(consensus.reindex(index).to_numpy() == said)
        figures.append(Figure(f"{name}, held-out judgement of a pair: votes", 100 * float(by_vote), unit="%"))
        title = f"{name}, held-out judgement of a pair: consensus"
        figures.append(Figure(title, 100 * float(by_consensus), 100 * float(by_vote), True, "%"))
    return figures


def coverage(sets: int = 20) -> list[Figure]:
    figures = []
    for title, options in (
        ("plain", {}),
        ("ties and position", {"ties": 1.0, "position": 0.3, "position_spread": 0.3}),
        ("guessers and adversaries", {"guessers": 0.2, "adversaries": 0.1}),
        ("lengths", {"length": 0.5}),
    ):
        covered = []
        for seed in range(sets):
            drawn = simulate_comparisons(50, 20, 2500, seed=100 + seed, **options)  # type: ignore[arg-type]
            data = from_frame(drawn.comparisons)
            found = fit(data)
            items, judges = ([int(name[1:]) for name in ids] for ids in (data.item_ids, data.judge_ids))
            truth = drawn.scores[items] * (data.judge_shares @ drawn.reliability[judges])
            truth = centred(truth[:, None], data.groups[1], 1)[:, 0]
            covered.append(np.abs(found.model.scores - truth) < 1.96 * uncertainty(data, found).deviation)
        distance = abs(100 * float(np.mean(covered)) - 95)
        print(f"coverage, {title}: {100 * np.mean(covered):.1f} %", flush=True)
        figures.append(
            Figure(f"95 % intervals, {title}: distance of their coverage from 95 %", distance, 2.0, unit="%")
        )
    return figures


def orders(sets: int = 30) -> list[Figure]:
    """Coverage for orders of several items, drawn from Plackett and Luce's model; judges differ in reliability."""
    figures = []
    for size, number in ((3, 150), (5, 60), (10, 30)):
        covered = []
        for seed in range(sets):
            rng = np.random.default_rng(seed)
            scores, reliability = rng.standard_normal(20), 1.0 + 0.3 * rng.standard_normal(8)
            judges = rng.integers(8, size=number)
            records = []
            for task, judge in enumerate(judges):
                shown = rng.choice(20, size, replace=False)
                order = shown[np.argsort(-(reliability[judge] * scores[shown] + rng.gumbel(size=size)))]
                said = {"ranker": [f"i{k}" for k in order]}
                result = {"from_name": "order", "to_name": "list", "type": "ranker", "value": said}
                data = {"items": [{"id": f"i{k}"} for k in shown]}
                records.append({"id": task, "data": data, "annotations": [_annotation(int(judge), result)]})
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "orders.json"
                file.write_text(json.dumps(records))
                found = cs.rank(file).columns("scores")
            truth = scores * reliability[judges].mean()
            truth -= truth.mean()
            at = truth[[int(name[1:]) for name in found["item"].to_pylist()]]
            covered.append((found["low"] <= at) & (at <= found["high"]))
        value = 100 * float(np.mean(covered))
        print(f"coverage, orders of {size}: {value:.1f} %", flush=True)
        title = f"95 % intervals, orders of {size} items: distance of their coverage from 95 %"
        figures.append(Figure(title, abs(value - 95), 3.0, unit="%"))
    return figures


def _annotation(judge: int, result: dict[str, Any]) -> dict[str, Any]:
    return {"completed_by": judge, "result": [result]}


def plans(sets: int = 40) -> list[Figure]:
    """Share of pairs in the wrong order after further comparisons, of which pairs by which policy."""
    figures = []
    for n, start, budget, rounds, spread in ((20, 60, 60, 3, 1.0), (30, 150, 150, 3, 2.0), (50, 400, 200, 2, 1.0)):
        wrong: dict[str, list[float]] = {"before": [], "random pairs": [], "random neighbours": [], "plan": []}
        for seed in range(sets):
            rng = np.random.default_rng(seed)
            world = _World(spread * rng.standard_normal(n), 1.0 + 0.3 * rng.standard_normal(10))
            first = world.answers(rng, *world.pairs(rng, start))
            before = cs.rank(first)
            wrong["before"].append(world.wrong(before))
            for policy in list(wrong)[1:]:
                known, found = first, before
                for _ in range(rounds):
                    if policy == "plan":
                        table = cs.plan(found, budget // rounds).table
                        sides = table["left"].to_numpy(), table["right"].to_numpy()
                    elif policy == "random pairs":
                        sides = world.pairs(rng, budget // rounds)
                    else:
                        order = found.scores["item"].to_numpy()
                        at = rng.integers(0, order.size - 1, budget // rounds)
                        sides = order[at], order[at + 1]
                    known = pd.concat([known, world.answers(rng, *sides)])
                    found = cs.rank(known)
                wrong[policy].append(world.wrong(found))
        means = {policy: float(np.mean(values)) for policy, values in wrong.items()}
        what = (
            f"{n} items, {start} comparisons and {budget} more, scores of spread {spread:g}: pairs in the wrong order"
        )
        for policy, mean in means.items():
            target = means["random pairs"] if policy == "plan" else None
            figures.append(Figure(f"{what}, {policy}", mean, target, unit="%"))
    return figures


class _World(NamedTuple):
    scores: Any
    reliability: Any

    def pairs(self, rng: Any, size: int) -> tuple[Any, Any]:
        n = self.scores.size
        left = rng.integers(0, n, size)
        return left, (left + rng.integers(1, n, size)) % n

    def answers(self, rng: Any, left: Any, right: Any) -> pd.DataFrame:
        judge = rng.integers(self.reliability.size, size=len(left))
        eta = self.reliability[judge] * (self.scores[left] - self.scores[right])
        winner = np.where(rng.random(len(left)) < 1 / (1 + np.exp(-eta)), "left", "right")
        return pd.DataFrame({"left": left, "right": right, "worker": judge, "winner": winner})

    def wrong(self, found: cs.Ranking) -> float:
        """Return the percentage of pairs in the wrong order; items without a comparison are average."""
        score = np.zeros(self.scores.size)
        score[found.scores["item"].to_numpy()] = found.scores["score"].to_numpy()
        i, j = np.triu_indices(score.size, 1)
        same = np.sign(score[i] - score[j]) == np.sign(self.scores[i] - self.scores[j])
        return 100 * (1 - float(np.mean(same)))


def speed() -> list[Figure]:
    from crowdkit.aggregation import BradleyTerry, NoisyBradleyTerry

    frame = simulate_comparisons(1000, 1000, COMPARISONS, seed=0).comparisons.to_pandas()
    given = decided(frame)
    few = given[: max(len(given) // 100, 1000)]
    cs.rank(frame[:1000])  # loads compiled code
    ours = _seconds(lambda: cs.rank(frame))
    plain = _seconds(lambda: BradleyTerry(n_iter=100).fit(given))
    noisy = _seconds(lambda: NoisyBradleyTerry().fit(few)) * len(given) / len(few)
    size = f"{COMPARISONS:.0e} comparisons"
    return [
        Figure(f"cs.rank, {size}, intervals included", ours, unit="s"),
        Figure("crowd-kit BradleyTerry (no judges, no ties, no intervals), over cs.rank", plain / ours, unit="x"),
        Figure("crowd-kit NoisyBradleyTerry on a hundredth, times 100, over cs.rank", noisy / ours, 20, True, "x"),
    ]


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def run() -> list[Figure]:
    figures: list[Figure] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in (held_out, pairs, coverage, orders, plans, speed):
            made = part()
            print(*made, sep="\n", flush=True)
            figures += made
    return figures
