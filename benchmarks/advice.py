"""Whether following the advice of a diagnosis achieves what it promises.

Each situation has one problem.  The advice is followed to the letter (:mod:`benchmarks.advice_world`), with labels that
simulated annotators give or that a public set holds back, and the labels are aggregated and diagnosed again:

kept      share of the draws in which the problem is no longer reported, and a verdict "not" has become better; in
          brackets, when the advice is followed once more where it was not
better    share in which the verdict is better, and in which it is worse
error     of ``auto`` on the items that were there before, percent, before and after
harm      share in which that error rises by more than three points

``BENCH_TRIALS`` sets the number of draws.
"""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import consilience as cs
from benchmarks.advice_world import NotRecordedError, World, follow, recorded, simulated
from benchmarks.breaking import print_table, trials
from benchmarks.figures import Figure
from benchmarks.public import Crowd, crowd
from consilience import metrics
from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Ints

DRAWS = 20
#: Share of the draws in which the promise must be kept, percent.
KEPT = 90.0
#: Rise of the error, in points, that counts as harm.
HARM = 3.0
VERDICTS = ("not", "weakly", "identified")


class Situation(NamedTuple):
    """A problem, words of its reason or advice, and how to draw a world that has it."""

    name: str
    words: str
    draw: Callable[[int], World]
    only: str = ""  #: words of the advice that is followed; the rest asks for labels that were never recorded
    rounds: int = 1  #: times that the advice is followed, at most
    hopeless: bool = False  #: whether nothing that is collected can help


class Outcome(NamedTuple):
    """One draw."""

    rounds: int | None  #: times that the advice was followed until it was kept; None if it was not
    change: int  #: of the verdict: positive if it is better
    before: float  #: error in percent
    after: float
    verdict: str


# ---- simulated worlds -----------------------------------------------------------------------------------------------


def shown(world: World, per_item: int, items: int, people: Ints | int, seed: int) -> World:
    """Give the first items to so many of these people each, drawn at random."""
    who = np.arange(people) if isinstance(people, int) else people
    world.fill(np.arange(items), per_item, who, np.random.default_rng([seed, 1]))
    return world


def few_people(n: int, classes: int = 2, items: int = 200) -> Callable[[int], World]:
    def draw(seed: int) -> World:
        world = simulated(max(items, 500), 8, classes, seed=seed, accuracy=(0.65, 0.9))
        return shown(world, n, items, n, seed)

    return draw


def no_overlap(seed: int) -> World:
    return shown(simulated(300, 6, 2, seed=seed, accuracy=(0.65, 0.9)), 1, 300, 6, seed)


def apart(classes: int, spammers: float = 0.0) -> Callable[[int], World]:
    """Two groups of five who label 150 items each."""

    def draw(seed: int) -> World:
        world = simulated(300, 10, classes, seed=seed, accuracy=(0.6, 0.9), spammers=spammers)
        rng = np.random.default_rng([seed, 1])
        world.fill(np.arange(150), 4, np.arange(5), rng)
        world.fill(np.arange(150, 300), 4, np.arange(5, 10), rng)
        return world

    return draw


def loner(common: int) -> Callable[[int], World]:
    """One annotator labels 60 items that hardly anybody else labels."""

    def draw(seed: int) -> World:
        world = shown(simulated(360, 9, 3, seed=seed), 3, 300, 8, seed)
        world.shown[300 - common : 360, 8] = True
        return world

    return draw


def camps(seed: int) -> World:
    world = simulated(400, 6, 2, seed=seed, accuracy=(0.65, 0.9))
    who = np.random.default_rng([seed, 1]).integers([0, 3], [3, 6], (400, 2))
    world.shown[np.arange(400)[:, None], who] = True
    return world


def ring(seed: int) -> World:
    world = simulated(500, 5, 2, seed=seed, accuracy=(0.65, 0.9))
    at = np.arange(500)
    world.shown[at, at % 5] = world.shown[at, (at + 1) % 5] = True
    return world


def guessers(items: int) -> Callable[[int], World]:
    """Everybody answers at random."""

    def draw(seed: int) -> World:
        return shown(simulated(items, 12, 3, seed=seed, spammers=1.0), 5, items, 12, seed)

    return draw


def weak(items: int, accuracy: tuple[float, float], people: int = 5, per_item: int = 3) -> Callable[[int], World]:
    """So few items that agreement looks like chance, though annotators know something."""

    def draw(seed: int) -> World:
        return shown(simulated(6000, people, 2, seed=seed, accuracy=accuracy), per_item, items, people, seed)

    return draw


def one_class(seed: int) -> World:
    world = simulated(2000, 8, 2, seed=seed, prior=[0.9, 0.1], accuracy=(0.8, 0.95))
    rows = np.flatnonzero(world.truth == 0)[:200]
    world.answers[rows] = 0
    world = replace(world, declared=False)
    world.fill(rows, 5, np.arange(8), np.random.default_rng([seed, 1]))
    return world


def among_spammers(seed: int) -> World:
    """Two good annotators and eight spammers; others who could be found are good."""
    world = simulated(300, 10, 2, seed=seed, accuracy=(0.75, 0.9))
    spam = np.random.default_rng([seed, 1]).integers(0, 2, (300, 6))
    world.answers[:, 4:] = spam
    world.shown[:, [0, 1, *range(4, 10)]] = True
    return world


def two_names(all_items: int, items: int) -> Callable[[int], World]:
    """Of one class everybody says 1 or 2 by the toss of a coin."""

    def draw(seed: int) -> World:
        world = simulated(all_items, 8, 2, seed=seed, accuracy=(0.8, 0.95))
        coin = np.random.default_rng([seed, 1]).integers(0, 2, world.answers.shape)
        answers, truth = world.answers + (world.answers == 1) * coin, -world.truth  # nobody knows which it is
        return shown(replace(world, answers=answers, truth=truth, classes=[0, 1, 2]), 6, items, 8, seed)

    return draw


def rare(share: float, items: int, per_item: int, **options: float) -> Callable[[int], World]:
    """A class with this share of the items."""

    def draw(seed: int) -> World:
        prior = [(1 - share) / 2, (1 - share) / 2, share]
        world = simulated(8000, 8, 3, seed=seed, prior=prior, **options)
        if share * items < 1:
            world.shown[:items] = False
            order = np.argsort(world.truth == 2, kind="stable")  # items of the class come last
            world = replace(world, answers=world.answers[order], truth=world.truth[order])
        return shown(world, per_item, items, 8, seed)

    return draw


def unused(seed: int) -> World:
    """A class of which no item is among the first 300; where somebody says so by mistake, they do not."""
    world = rare(1 / 300, 299, 5, experts=0.3)(seed)
    world.answers[:299][world.answers[:299] == 2] = 0
    return world


def confused(seed: int) -> World:
    """Everybody says 1 of half of the items of class 2, and 2 of some of class 1."""
    world = simulated(1000, 10, 3, seed=seed, prior=[0.5, 0.4, 0.1], accuracy=(0.9, 0.95))
    toss = np.random.default_rng([seed, 1]).random(world.answers.shape)
    says_two = 1 + (toss < np.where(world.truth == 2, 0.5, 0.2)[:, None])
    answers = np.where(world.truth[:, None] > 0, says_two, world.answers)
    return shown(replace(world, answers=answers), 7, 1000, 8, seed)


def thin(classes: int, people: int, items: int = 300) -> Callable[[int], World]:
    """Two labels for every item."""

    def draw(seed: int) -> World:
        return shown(simulated(6000, people, classes, seed=seed), 2, items, people, seed)

    return draw


def saturated(seed: int) -> World:
    """Poor annotators who label everything."""
    return shown(simulated(300, 40, 4, seed=seed, accuracy=(0.4, 0.8)), 4, 300, 4, seed)


def few_items(seed: int) -> World:
    return shown(simulated(6000, 8, 5, seed=seed, prior=[0.5, 0.3, 0.1, 0.05, 0.05]), 4, 60, 8, seed)


def long_tail(seed: int) -> World:
    return shown(simulated(400, 250, 2, seed=seed, accuracy=(0.6, 0.9)), 5, 400, 250, seed)


def together(classes: int) -> Callable[[int], World]:
    """Three kinds of items in each class, of which every annotator has habits of their own."""

    def draw(seed: int) -> World:
        rng, N, M = np.random.default_rng(seed), 1200, 15
        habits = np.stack([rng.dirichlet(1.0 + 2.0 * np.eye(classes)[k], (M, 3)) for k in range(classes)])
        truth, kind = rng.integers(0, classes, N), rng.choice(3, N, p=[0.5, 0.3, 0.2])
        answers = (rng.random((N, M, 1)) > habits[truth, :, kind].cumsum(axis=-1)).sum(axis=-1)
        return World(answers, truth, np.ones((N, M), bool), np.zeros(N, bool), list(range(classes)))

    return draw


def copied(classes: int) -> Callable[[int], World]:
    """Five good annotators, and six copies of a weak one."""

    def draw(seed: int) -> World:
        world = simulated(500, 11, classes, seed=seed, accuracy=(0.7, 0.8))
        rng = np.random.default_rng([seed, 1])
        weak = np.where(rng.random(500) < 0.6, world.truth, (world.truth + rng.integers(1, classes, 500)) % classes)
        slips = rng.random((500, 6)) < 0.05
        world.answers[:, 5:] = np.where(slips, rng.integers(0, classes, (500, 6)), weak[:, None])
        return shown(world, 11, 500, 11, seed)

    return draw


def functions(classes: int) -> Callable[[int], World]:
    """Labelling functions: three for each class, silent where they do not apply."""

    def draw(seed: int) -> World:
        rng = np.random.default_rng(seed)
        truth, F = rng.integers(0, classes, 600), 3 * classes
        when_true, otherwise = rng.uniform(0.2, 0.6, F), rng.uniform(0.02, 0.1, F)
        says = np.arange(F) % classes
        speaks = rng.random((600, F)) < np.where(says == truth[:, None], when_true, otherwise)
        return World(np.where(speaks, says, -1), truth, speaks, np.zeros(600, bool), list(range(classes)))

    return draw


def misunderstood(seed: int) -> World:
    """Everybody takes a third of the items for another class, and 60 answers are known."""
    world = simulated(500, 8, 3, seed=seed, accuracy=(0.75, 0.9))
    trap = np.random.default_rng([seed, 1]).random(500) < 0.33
    world = shown(replace(world, truth=np.where(trap, (world.truth + 1) % 3, world.truth)), 8, 500, 8, seed)
    world.learn(60, np.random.default_rng([seed, 2]))
    return world


# ---- thinned public sets --------------------------------------------------------------------------------------------


def some_of(name: str, people: int, per_item: int, items: int | None = None) -> Callable[[int], World]:
    """Some annotators of a public set, and some labels of each item; the rest is held back."""

    def draw(seed: int) -> World:
        world, rng = recorded(crowd(name)), np.random.default_rng([seed, 3])
        given = (world.answers >= 0).sum(axis=0)
        who = rng.choice(given.size, min(people, given.size), replace=False, p=given / given.sum())
        held = (world.answers[:, who] >= 0).sum(axis=1)
        enough = held >= max(per_item, min(3 * per_item, round(float(np.quantile(held, 0.5)))))
        rows = rng.permutation(np.flatnonzero(enough))[:items]
        world.fill(rows, per_item, who, rng)
        return world

    return draw


def halves_of(name: str, people: int) -> Callable[[int], World]:
    """Two groups of annotators of a public set, and half of the items for each."""

    def draw(seed: int) -> World:
        world, rng = recorded(crowd(name)), np.random.default_rng([seed, 3])
        who, rows = rng.permutation(world.shown.shape[1])[: 2 * people], rng.permutation(len(world.truth))
        for group, part in ((who[:people], rows[::2]), (who[people:], rows[1::2])):
            world.shown[np.ix_(part, group)] = world.answers[np.ix_(part, group)] >= 0
        return world

    return draw


def whole(name: str, step: int = 1) -> Callable[[int], World]:
    def draw(seed: int) -> World:
        labels, truth = crowd(name)
        world = recorded(Crowd(labels.select_items(slice(seed % step, None, step)), truth[seed % step :: step]))
        return replace(world, shown=world.answers >= 0)

    return draw


_FEW = "gave fewer than .* of all"
_TOGETHER, _COPIES, _CHOOSE = "err together", "answer as one", "choose when to speak"
_UNSTABLE = "should settle"
_LIKE_CHANCE = "hardly more than|too few to tell"
_TWO, _CLASS = "only two annotators", "How annotators treat class"

SIMULATED = (
    Situation("one annotator", "one annotator", few_people(1)),
    Situation("one annotator, three items", "one annotator", few_people(1, items=3)),
    Situation("two annotators", _TWO, few_people(2)),
    Situation("two annotators, 30 items", _TWO, few_people(2, items=30)),
    Situation("two annotators, 4 classes", _TWO, few_people(2, 4)),
    Situation("no item with two labels", "No item was labelled by two", no_overlap),
    Situation("two groups", "groups that never", apart(2)),
    Situation("two groups, 4 classes, spammers", "groups that never", apart(4, 0.2)),
    Situation("one who shares no item", "no item with anybody", loner(0)),
    Situation("one who shares few items", "hardly anything checks", loner(2)),
    Situation("two camps", "two camps", camps),
    Situation("a ring", "No three annotators", ring),
    Situation("everybody guesses", "by guessing", guessers(300), hopeless=True),
    Situation("one class", "Every label is", one_class),
    Situation("agreement like chance", _LIKE_CHANCE, weak(25, (0.65, 0.9))),
    Situation("agreement like chance, poor crowd", _LIKE_CHANCE, weak(60, (0.6, 0.75)), rounds=2),
    Situation("agreement like chance, two labels", _LIKE_CHANCE, weak(150, (0.6, 0.8), 10, 2), rounds=2),
    Situation("slight agreement", "only slightly", weak(90, (0.65, 0.8))),
    Situation("two among spammers", "Only .* agree", among_spammers),
    Situation("two names for one class", "do not tell class", two_names(6000, 4000)),
    Situation("two names, few items", "too few items", two_names(6000, 500)),
    Situation("a class that nobody used", "Nobody used", unused),
    Situation("a rare class", _CLASS, rare(0.02, 300, 5, experts=0.4)),
    Situation("a rare class, poor crowd", _CLASS, rare(0.04, 300, 4)),
    Situation("nobody knows a class", "Nobody tells class", confused, "specialist"),
    Situation("too few items for two classes", "too few items", few_items),
    Situation("two labels an item", _UNSTABLE, thin(3, 20), rounds=2),
    Situation("two labels an item, 2 classes", _UNSTABLE, thin(2, 30, 500), rounds=2),
    Situation("everybody labels everything", _UNSTABLE, saturated, "should settle", rounds=2),
    Situation("two labels an item only", "Hardly any item has three", thin(3, 20)),
    Situation("many with few labels", _FEW, long_tail),
    Situation("annotators who err together", _TOGETHER, together(3)),
    Situation("err together, 4 classes", _TOGETHER, together(4)),
    Situation("copies", _COPIES, copied(3)),
    Situation("copies, 5 classes", _COPIES, copied(5)),
    Situation("labelling functions", _CHOOSE, functions(2)),
    Situation("labelling functions, 5 classes", _CHOOSE, functions(5)),
    Situation("known answers contradict", "On .* known answers", misunderstood, hopeless=True),
)
PUBLIC = (
    Situation("bluebird, one annotator", "one annotator", some_of("bluebird", 1, 1), rounds=2),
    Situation("bluebird, two annotators", _TWO, some_of("bluebird", 2, 2), rounds=2),
    Situation("dices350, two annotators", _TWO, some_of("dices350", 2, 2), rounds=2),
    Situation("llmbar, two annotators", _TWO, some_of("llmbar", 2, 2), rounds=2),
    Situation("bluebird, halves", "groups that never", halves_of("bluebird", 6)),
    Situation("dices350, halves", "groups that never", halves_of("dices350", 8), "common items"),
    Situation("bluebird, two labels an item", _LIKE_CHANCE, some_of("bluebird", 39, 2), rounds=2),
    Situation("rte, two labels an item", _UNSTABLE, some_of("rte", 164, 2), _UNSTABLE, 2),
    Situation("dog52, two labels an item", _UNSTABLE, some_of("dog52", 52, 2), _UNSTABLE, 2),
    Situation("weather_amt, three labels an item", _UNSTABLE, some_of("weather_amt", 110, 3), _UNSTABLE, 2),
    Situation("dog52, 60 items", _CLASS, some_of("dog52", 52, 5, 60), "Add items", 2),
    Situation("weather_amt, 80 items", _CLASS, some_of("weather_amt", 110, 6, 80), "Add items", 2),
    Situation("labelme, 100 items", _CLASS, some_of("labelme", 59, 2, 100), "Add items", 2),
    Situation("rte, 60 items", _FEW, some_of("rte", 164, 10, 60), "Give more items"),
    Situation("duck", _TOGETHER, whole("duck"), "known answers"),
    Situation("llmbar", _TOGETHER, whole("llmbar"), "known answers"),
    Situation("ws_youtube", _CHOOSE, whole("ws_youtube"), "known answers"),
    Situation("ws_yoruba", _CHOOSE, whole("ws_yoruba"), "known answers"),
    Situation("ws_trec, every tenth item", _CHOOSE, whole("ws_trec", 10), "known answers"),
)


# ---- measuring ------------------------------------------------------------------------------------------------------


def outcome(situation: Situation, seed: int) -> Outcome | None:
    """Draw a world and follow the advice; return None if the problem is not reported, or nobody can follow."""
    world = situation.draw(seed)
    before = after = cs.aggregate(world.annotations())
    if not reported(situation, before):
        return None
    then, rng, taken = world, np.random.default_rng([seed, 9]), 0
    while taken < max(situation.rounds, 1) and (taken == 0 or not kept(situation, before, after)):
        try:
            then = follow(then, after.diagnosis, rng, situation.only)
        except NotRecordedError:
            if taken == 0:
                return None
            break
        after, taken = cs.aggregate(then.annotations()), taken + 1
    # items whose answer became known are not judged
    judged = np.where(then.known, -1, then.coded(world.truth))[world.items]
    place = np.searchsorted(then.items, world.items)
    first, last = (error(run, rows, judged, then) for run, rows in ((before, slice(None)), (after, place)))
    change = VERDICTS.index(str(after.verdict)) - VERDICTS.index(str(before.verdict))
    return Outcome(taken if kept(situation, before, after) else None, change, first, last, str(after.verdict))


def error(run: cs.Consensus, rows: Any, truth: Ints, world: World) -> float:
    """Return the percentage of wrong labels of these items, NaN if no truth is left to judge by."""
    if (truth < 0).all():
        return np.nan
    return metrics.error_rate(world.coded(np.asarray(run.model.classes)[run.choice.best[rows]]), truth)


def kept(situation: Situation, before: cs.Consensus, after: cs.Consensus) -> bool:
    """Whether the problem is no longer reported, and a verdict "not" is better (where all advice was followed)."""
    better = before.verdict != "not" or after.verdict != "not" or bool(situation.only)
    return better and not reported(situation, after)


def reported(situation: Situation, run: cs.Consensus) -> bool:
    found = run.diagnosis
    return any(re.search(situation.words, sentence) for sentence in (*found.reasons, *found.advice))


def situations() -> Iterator[Situation]:
    yield from SIMULATED
    if os.environ.get("CONSILIENCE_DATA"):
        yield from PUBLIC


def percent(flags: list[bool]) -> float:
    return 100.0 * float(np.mean(flags))


def rise(found: list[Outcome]) -> float:
    """Return the mean rise of the error less two standard errors."""
    change = np.array([o.after - o.before for o in found])
    return float(np.nanmean(change) - 2.0 * np.nanstd(change) / np.sqrt(change.size))


def run() -> list[Figure]:
    figures, rows = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        for situation in situations():
            begun = time.perf_counter()
            found = [made for seed in range(trials(DRAWS)) if (made := outcome(situation, seed))]
            if not found:
                print(f"{situation.name}: not reported, or labels that were never recorded are asked for", flush=True)
                continue
            worse, once = percent([o.change < 0 for o in found]), percent([o.rounds == 1 for o in found])
            held = percent([o.rounds is not None for o in found])
            harm = percent([o.after > o.before + HARM for o in found])
            better = percent([o.change > 0 for o in found])
            before, after = (float(np.nanmean([getattr(o, when) for o in found])) for when in ("before", "after"))
            shares = " ".join(f"{v} {percent([o.verdict == v for o in found]):.0f}" for v in VERDICTS)
            rows.append(
                [
                    situation.name,
                    f"{len(found)}",
                    f"{once:.0f}" + (f" ({held:.0f})" if situation.rounds > 1 else ""),
                    f"{better:.0f} / {worse:.0f}",
                    f"{before:.1f} → {after:.1f}",
                    f"{harm:.0f}",
                    shares,
                ]
            )
            print(" | ".join(rows[-1]), f"({time.perf_counter() - begun:.0f} s)", flush=True)
            if situation.hopeless:
                surer = percent([o.change > 0 for o in found])
                figures.append(
                    Figure(f"{situation.name}: verdict better though nothing helps", surer, 100 - KEPT, unit="%")
                )
            else:
                figures.append(Figure(f"{situation.name}: promise kept", held, KEPT, True, "%"))
            figures.append(Figure(f"{situation.name}: rise of the error, surely", rise(found), 0.5, unit="points"))
    print_table(
        "After the advice was followed, percent of the draws",
        ["situation", "draws", "kept", "verdict better / worse", "error before → after", "harm", "verdict after"],
        rows,
    )
    return figures
