"""Error over the number of acquired labels: ``plan`` next to random labels, and to random labels of uncertain items.

Labels are revealed on request.  Simulated annotators answer any item, up to a quarter of the items each; for public
crowds only recorded labels are available.  Every policy starts from the same few random labels per item, acquires the
same number in each round, and is scored by the error of ``auto`` on all labels so far; means over several starts.

The saving is the share of labels that a policy saves over random acquisition, to reach the error of random labels
after the whole budget (or half of it).
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import consilience as cs
from benchmarks.figures import Figure, best_of
from benchmarks.pictures import blank, save
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.datasets import Crowd
from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Bools, Floats, Ints

#: Simulated crowds, and public ones with the budget per item.
SIMULATED = {
    "mixed crowd, 3 classes": {"n_classes": 3, "spammers": 0.2, "experts": 0.1},
    "poor crowd, 2 classes": {"n_classes": 2, "accuracy": (0.5, 0.8)},
    "adversaries, 4 classes": {"n_classes": 4, "spammers": 0.2, "adversaries": 0.1},
}
_ITEMS, _ANNOTATORS = 400, 32
REAL = {
    "bluebird": 10.0,
    "dog52": 5.0,
    "rte": 6.0,
    "sentence_polarity": 2.5,
    "zencrowd_us": 2.5,
    "music": 1.5,
}
#: Labels per item at the start.
START = 2
ROUNDS, STARTS = 10, 5
POLICIES = ("random", "least confident", "plan")
_COLOURS = {"random": "#6b7280", "least confident": "#c2410c", "plan": "#1d4ed8"}


@dataclass(frozen=True, eq=False)
class World:
    """All available labels, and the truth."""

    labels: Annotations
    truth: Ints
    to_buy: float  #: budget per item
    capacity: int | None  #: total labels per annotator

    def shown(self, known: Bools) -> Annotations:
        """Return the revealed labels."""
        a = self.labels
        before = np.concatenate([[0], np.cumsum(known)])
        return Annotations(
            before[a.indptr],
            a.annotator[known],
            a.label[known],
            items=a.item_ids,
            annotators=a.annotator_ids,
            classes=a.class_ids,
        )

    def left(self, known: Bools) -> Ints | None:
        """Return the remaining capacity of each annotator."""
        if self.capacity is None:
            return None
        given = np.bincount(self.labels.annotator[known], minlength=self.labels.n_annotators)
        return np.maximum(self.capacity - given, 0)


def simulated(name: str, seed: int) -> World:
    """Draw a crowd in which every annotator can label every item."""
    crowd = cs.simulate(_ITEMS, _ANNOTATORS, labels_per_item=_ANNOTATORS, seed=seed, **SIMULATED[name])  # type: ignore[arg-type]
    return World(crowd.annotations, crowd.truth, 4.0, _ITEMS // 4)


def recorded(name: str) -> World:
    """Load a public crowd."""
    crowd = cs.datasets.load(name)
    assert isinstance(crowd, Crowd)
    labels = Annotations(
        crowd.annotations.indptr,
        crowd.annotations.annotator,
        crowd.annotations.label,
        items=Ids.range(crowd.annotations.n_items),
        annotators=Ids.range(crowd.annotations.n_annotators),
        classes=crowd.annotations.class_ids,
    )
    return World(labels, crowd.annotations.codes_of_truth(crowd.truth).astype(np.int64), REAL[name], None)


# ---- policies -------------------------------------------------------------------------------------------------------


def random_labels(world: World, run: cs.Consensus, known: Bools, n: int, rng: np.random.Generator) -> Ints:
    return rng.permutation(_open(world, known))[:n]


def least_confident(world: World, run: cs.Consensus, known: Bools, n: int, rng: np.random.Generator) -> Ints:
    """Choose random labels of the least certain items in turn, then start again from the first."""
    places = rng.permutation(_open(world, known))
    item = np.searchsorted(world.labels.indptr, places, side="right") - 1
    order = np.argsort(item, kind="stable")
    places, item = places[order], item[order]
    turn = np.arange(item.size) - np.searchsorted(item, item)
    certain = run.posterior.max(axis=1)
    return places[np.lexsort((certain[item], turn))][:n]


def planned(world: World, run: cs.Consensus, known: Bools, n: int, rng: np.random.Generator) -> Ints:
    a = world.labels
    places = np.flatnonzero(~known)
    item = np.searchsorted(a.indptr, places, side="right") - 1
    pairs = pa.table({"item": item, "annotator": a.annotator[places].astype(np.int64)})
    if world.capacity is not None:
        pairs = None
    found = cs.plan(world.shown(known), n, consensus=run, capacity=world.left(known), candidates=pairs, gold=0)
    # position of the label of each pair
    key = np.repeat(np.arange(a.n_items), a.labels_per_item) * a.n_annotators + a.annotator
    order = np.argsort(key)
    chosen = order[np.searchsorted(key[order], found.item * a.n_annotators + found.annotator)]
    if chosen.size < n:  # no label is informative: choose any
        rest = known.copy()
        rest[chosen] = True
        chosen = np.concatenate([chosen, rng.permutation(_open(world, rest))[: n - chosen.size]])
    return chosen


def _open(world: World, known: Bools) -> Ints:
    left = world.left(known)
    return np.flatnonzero(~known if left is None else ~known & (left > 0)[world.labels.annotator])


Policy = Callable[[World, cs.Consensus, Bools, int, np.random.Generator], Ints]
_BUYS: dict[str, Policy] = {"random": random_labels, "least confident": least_confident, "plan": planned}


def first_labels(world: World, rng: np.random.Generator) -> Bools:
    """Reveal a few random labels of every item."""
    a = world.labels
    order = np.lexsort((rng.random(a.n_labels), a.item_of_label()))
    rank = np.empty(a.n_labels, np.int64)
    rank[order] = np.arange(a.n_labels) - np.repeat(a.indptr[:-1], a.labels_per_item)
    known: Bools = rank < START
    return known


def curve(world: World, policy: str, seed: int) -> tuple[Ints, Floats]:
    """Return acquired labels and error in percent, after every round."""
    rng = np.random.default_rng(seed)
    known = first_labels(world, rng)
    rng = np.random.default_rng([seed, POLICIES.index(policy)])
    n = int(min(world.to_buy * world.labels.n_items, int((~known).sum())) / ROUNDS)
    bought, errors = [], []
    for at in range(ROUNDS + 1):
        run = cs.aggregate(world.shown(known))
        bought.append(at * n)
        errors.append(cs.metrics.error_rate(run.choice.best, world.truth))
        if at < ROUNDS:
            known = known.copy()
            known[_BUYS[policy](world, run, known, n, rng)] = True
    return np.array(bought), np.array(errors)


def needed(bought: Ints, errors: Floats, aim: float) -> float:
    """Return the number of labels at which the error first reaches the target, interpolated between rounds."""
    down = np.flatnonzero(errors <= aim + 1e-9)
    if not down.size:
        return float("inf")
    at = int(down[0])
    if at == 0:
        return 0.0
    share = (errors[at - 1] - aim) / max(errors[at - 1] - errors[at], 1e-9)
    return float(bought[at - 1] + share * (bought[at] - bought[at - 1]))


def worlds() -> Iterator[tuple[str, Callable[[int], World]]]:
    for name in SIMULATED:
        yield name, lambda seed, name=name: simulated(name, seed)  # type: ignore[misc]
    if os.environ.get("CONSILIENCE_DATA"):
        for name in REAL:
            yield name, lambda _, name=name: recorded(name)  # type: ignore[misc]


def run(only: Sequence[str] = ()) -> list[Figure]:
    figures, curves = [], {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        for name, draw in worlds():
            if only and name not in only:
                continue
            begun = time.perf_counter()
            lines = {}
            for policy in POLICIES:
                drawn = [curve(draw(seed), policy, seed) for seed in range(STARTS)]
                lines[policy] = drawn[0][0], np.mean([errors for _, errors in drawn], axis=0)
            curves[name] = lines
            figures += judged(name, lines)
            print(f"  {time.perf_counter() - begun:.0f} s", flush=True)
    savings = [f.value for f in figures if "plan, all" in f.name]
    figures.append(Figure("labels saved by plan, mean over crowds, all", float(np.mean(savings)), 30, True, "%"))
    picture(curves)
    return figures if only else [*figures, *speed()]


def speed() -> list[Figure]:
    """Plan a hundred thousand labels for as many items, with a hundred annotators of limited capacity."""
    labels = cs.simulate(100_000, 100, 4, labels_per_item=3, seed=1).annotations
    fitted = cs.aggregate(labels)
    cs.plan(labels, 10, consensus=fitted)  # load everything
    seconds = best_of(3, lambda: cs.plan(labels, 100_000, consensus=fitted, capacity=1500).table)
    return [Figure("plan, 10^5 labels for 10^5 items and 100 annotators", seconds, 5, unit="s")]


def judged(name: str, lines: dict[str, tuple[Ints, Floats]]) -> list[Figure]:
    """Print the errors of every policy, and return the savings."""
    bought = lines["random"][0]
    print(f"\n{name}: error, %, by number of acquired labels")
    print(f"{'':18s}" + "".join(f"{b:8d}" for b in bought))
    for policy, (_, errors) in lines.items():
        print(f"{policy:18s}" + "".join(f"{e:8.2f}" for e in errors))
    figures = []
    for policy in ("least confident", "plan"):
        for what, at in (("half", ROUNDS // 2), ("all", ROUNDS)):
            aim = float(lines["random"][1][: at + 1].min())
            first = needed(*lines["random"], aim)
            saved = 100.0 * (1.0 - needed(*lines[policy], aim) / max(first, 1.0))
            promise = 30.0 if policy == "plan" and what == "all" else None
            figures.append(Figure(f"labels saved, {name}: {policy}, {what}", max(saved, -100.0), promise, True, "%"))
    return figures


def picture(curves: dict[str, dict[str, tuple[Ints, Floats]]]) -> None:
    """Plot a panel for each crowd."""
    columns = 3
    rows = -(-len(curves) // columns)
    drawn = blank(4.2 * columns, 3.0 * rows)
    if drawn is None:
        return
    axes = drawn.subplots(rows, columns, squeeze=False).ravel()
    for ax, (name, lines) in zip(axes, curves.items(), strict=False):
        for policy, (bought, errors) in lines.items():
            ax.plot(bought, errors, "o-", markersize=3, color=_COLOURS[policy], label=policy)
        ax.set(title=name)
        ax.grid(color="0.9", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[len(curves) :]:
        ax.set_visible(False)
    axes[0].legend(frameon=False, fontsize=9)
    drawn.supxlabel("labels bought")
    drawn.supylabel("error, %")
    save(drawn, "plan.png")
