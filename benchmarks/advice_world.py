"""A world in which the advice of a diagnosis can be followed: who would answer what, and what has been shown so far.

Simulated annotators answer every item.  Of a public set, only recorded labels are available: advice that asks for
others cannot be followed there.  :func:`follow` reads the sentences of the advice, and does exactly what they say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

import consilience as cs
from benchmarks.public import Crowd
from consilience.data.annotations import Annotations
from consilience.diagnose import Diagnosis
from consilience.kernels._arrays import Bools, Ints
from consilience.runs.annotator_table import FEW

__all__ = ["NotRecordedError", "World", "follow", "recorded", "simulated"]


class NotRecordedError(Exception):
    """The advice asks for labels that nobody recorded."""


@dataclass(frozen=True, eq=False)
class World:
    """What everybody would answer, and which of it is known.  Annotators are named w0, w1, …."""

    answers: Ints  #: class that annotator m gives to item n, -1 if no such label can be had, (N, M)
    truth: Ints  #: (N,), -1 if it is not known
    shown: Bools  #: labels that were collected, (N, M)
    known: Bools  #: items with a known answer (gold), (N,)
    classes: list[int]
    declared: bool = True  #: whether classes that nobody used count
    merged: dict[int, int] = field(default_factory=dict)  #: classes that became part of another

    @property
    def items(self) -> Ints:
        """Items with labels."""
        return np.flatnonzero(self.shown.any(axis=1))

    @property
    def crowd(self) -> Ints:
        """Annotators with labels."""
        return np.flatnonzero(self.shown.any(axis=0))

    @property
    def per_item(self) -> int:
        """Labels of an item, rounded."""
        return max(1, round(float(self.shown.sum()) / max(self.items.size, 1)))

    def coded(self, values: Ints) -> Ints:
        """Return the values after classes were merged."""
        for old, new in self.merged.items():
            values = np.where(values == old, new, values)
        return values

    def annotations(self) -> Annotations:
        """Return the collected labels and known answers."""
        rows, people = self.items, self.crowd
        matrix = np.where(self.shown, self.coded(self.answers), -1)[np.ix_(rows, people)]
        gold = np.where(self.known, self.coded(self.truth), -1)[rows]
        names = [f"w{m}" for m in people]
        kept = [k for k in self.classes if k not in self.merged]
        return Annotations.from_matrix(
            matrix,
            items=rows.tolist(),
            annotators=names,
            classes=kept if self.declared else None,
            gold=gold if (gold >= 0).any() else None,
        )

    def copy(self) -> World:
        """Return a world in which more can be collected without changing this one."""
        return replace(self, shown=self.shown.copy(), known=self.known.copy(), merged=dict(self.merged))

    # ---- collecting -------------------------------------------------------------------------------------------------

    def ask(self, m: int, n: int, among: Ints, rng: np.random.Generator) -> None:
        """Let m label n more of these items, or all if there are fewer."""
        open_to = among[~self.shown[among, m]]
        if not open_to.size:
            return
        able = open_to[self.answers[open_to, m] >= 0]
        if able.size < min(n, open_to.size):
            raise NotRecordedError
        self.shown[rng.permutation(able)[:n], m] = True

    def fill(self, items: Ints, per_item: int, people: Ints, rng: np.random.Generator) -> None:
        """Let these people, in random order, label the items until each has so many labels."""
        for n in items.tolist():
            able = people[(self.answers[n, people] >= 0) & ~self.shown[n, people]]
            wanted = per_item - int(self.shown[n].sum())
            if able.size < min(wanted, people.size - int(self.shown[n, people].sum())):
                raise NotRecordedError
            self.shown[n, rng.permutation(able)[: max(wanted, 0)]] = True

    def add(self, n: int, rng: np.random.Generator, k: int | None = None) -> None:
        """Add n items, of class k or any, with as many labels as the others have."""
        people = self.crowd
        fresh = ~self.shown.any(axis=1) & ((self.answers[:, people] >= 0).sum(axis=1) >= self.per_item)
        if k is not None:
            fresh &= self.truth == k
        rows = np.flatnonzero(fresh)
        if rows.size < n:
            raise NotRecordedError
        self.fill(rng.permutation(rows)[:n], self.per_item, people, rng)

    def hire(self, n: int, rng: np.random.Generator) -> Ints:
        """Return n annotators without labels so far."""
        free = np.setdiff1d(np.arange(self.shown.shape[1]), self.crowd)
        if free.size < n:
            raise NotRecordedError
        return rng.permutation(free)[:n]

    def learn(self, n: int, rng: np.random.Generator) -> None:
        """Get n more known answers, for items drawn at random."""
        rows = self.items[(self.truth[self.items] >= 0) & ~self.known[self.items]]
        self.known[rng.permutation(rows)[:n]] = True


def simulated(items: int, annotators: int, classes: int, *, seed: int, **options: object) -> World:
    """Draw a world in which everybody would label everything; nothing is shown yet."""
    made = cs.simulate(items, annotators, classes, labels_per_item=annotators, seed=seed, **options)  # type: ignore[arg-type]
    answers = np.empty((items, annotators), np.int64)
    a = made.annotations
    answers[a.item_of_label(), a.annotator] = a.label
    return World(
        answers, np.asarray(made.truth), np.zeros(answers.shape, bool), np.zeros(items, bool), list(range(classes))
    )


def recorded(on: Crowd) -> World:
    """Return a public set with its labels held back."""
    a = on.annotations
    answers = np.full((a.n_items, a.n_annotators), -1)
    answers[a.item_of_label(), a.annotator] = a.label
    truth = np.where(on.truth < a.n_classes, on.truth, -1).astype(np.int64)
    return World(answers, truth, np.zeros(answers.shape, bool), np.zeros(truth.size, bool), list(range(a.n_classes)))


# ---- following ------------------------------------------------------------------------------------------------------

_Act = Callable[[World, "re.Match[str]", Diagnosis, np.random.Generator], None]


def _named(text: str) -> list[int]:
    return [int(name) for name in re.findall(r"\bw(\d+)", text)]


def _labelled_by(world: World, people: list[int]) -> Ints:
    return np.flatnonzero(world.shown[:, people].any(axis=1))


def _newcomers(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    hired, n, whose = int(said[1]), int(said[2] or world.items.size), said[3]
    among = _labelled_by(world, _named(whose)) if _named(whose) else world.items
    some = rng.permutation(among)[:n]
    for m in world.hire(hired, rng).tolist():
        world.ask(m, n, some, rng)


def _more_of_both(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    rows = np.flatnonzero(~world.shown.any(axis=1))
    if world.items.size + rows.size < int(said[1]):
        raise NotRecordedError
    both = np.union1d(world.items, rng.permutation(rows)[: int(said[1]) - world.items.size])
    for m in [*_named(said[3]), *world.hire(int(said[2]), rng).tolist()]:
        world.ask(m, both.size, both, rng)


def _hired(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    items = world.items
    for m in world.hire(int(said[1]), rng).tolist():
        world.ask(m, items.size, items, rng)


def _other_classes(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    for k in np.setdiff1d(world.classes, np.unique(world.truth[world.items])).tolist():
        world.add(int(said[1]), rng, k)


def _triples(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    """Give items to three annotators each; those who share nothing yet come first."""
    people = world.crowd
    given = np.zeros(world.shown.shape[1])
    for n in rng.permutation(world.items)[: int(said[1] or world.items.size)].tolist():
        able = people[(world.answers[n, people] >= 0) & ~world.shown[n, people]]
        chosen = able[np.lexsort((rng.random(able.size), given[able]))][: 3 - int(world.shown[n].sum())]
        world.shown[n, chosen] = True
        given[np.flatnonzero(world.shown[n])] += 1


def _two_share(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    """Let one of two label items of the other, whichever of them can."""
    (one, other), n = _named(said[1]), int(said[2])
    for m, whose in ((one, other), (other, one)) if rng.random() < 0.5 else ((other, one), (one, other)):
        try:
            return world.ask(m, n, _labelled_by(world, [whose]), rng)
        except NotRecordedError:
            continue
    raise NotRecordedError


def _overlap(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    people = _named(said[1])
    if "more" in said[1]:  # the sentence names some of them
        people = sorted({*people, *_named(" ".join(found.to_dict()["graph"]["without_common_items"]))})
    for m in people:
        others = np.setdiff1d(world.crowd, [m])
        world.ask(m, int(said[2]), _labelled_by(world, others.tolist()), rng)


def _everybody_three(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    world.fill(world.items, 3, world.crowd, rng)


def _gold(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    world.learn(int(said[1]), rng)


def _more_gold(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    world.learn(int(world.known.sum()), rng)  # "more" without a number: as many again


def _more_of_class(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    k, wanted = int(said[1]), int(said[2])
    has = 0.0 if "at least" in said[0].split(":")[0] else float(found.items_of_class[list(found.class_ids).index(k)])
    world.add(max(0, int(np.ceil(wanted - has))), rng, k)


def _more_items(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    world.add(max(0, int(said[1]) - world.items.size), rng)


def _more_labels(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    world.fill(world.items, int(said[1]), world.crowd, rng)


def _specialist(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    """Find a new annotator who is right about the class 95 times in a hundred, and let them label random items."""
    k, n = int(said[1]), int(said[2] or world.items.size)
    m = int(world.hire(1, rng)[0])
    about = rng.random(len(world.truth)) < 0.95
    others = rng.choice([c for c in world.classes if c != k], len(world.truth))
    same = world.truth == k
    world.answers[:, m] = np.where(same == about, k, np.where(same, others, world.answers[:, m]))
    wrong = ~same & about & (world.answers[:, m] == k)
    world.answers[wrong, m] = others[wrong]
    world.ask(m, n, world.items, rng)


def _fewer_people(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    """Let some of those with few labels, the most first, label further items."""
    asked, wanted = int(said[1]), int(said[2])
    given = world.shown.sum(axis=0)
    few = world.crowd[given[world.crowd] < FEW]
    for m in few[np.argsort(-given[few], kind="stable")][:asked].tolist():
        rows = np.flatnonzero((world.answers[:, m] >= 0) & ~world.shown[:, m])
        old = np.isin(rows, world.items)  # items that have labels come first
        world.ask(m, wanted - int(given[m]), np.concatenate([rows[old], rows[~old]])[: wanted - int(given[m])], rng)


def _merge(world: World, said: re.Match[str], found: Diagnosis, rng: np.random.Generator) -> None:
    world.merged[int(said[1])] = int(said[2])


_SOME = r"(?:all items|at least (\d+) of the items)"
_WHO = r"((?:w\d+(?:, | and )?)+(?:\d+ more)?)"
#: What sentences of the advice ask for.
_SENTENCES: dict[str, _Act] = {
    rf"Let (\d+) more annotators? label {_SOME} that (.+) labelled": _newcomers,
    rf"Find (\d+) more annotators? .* let each label {_SOME} that (.+) labelled": _newcomers,
    r"Let (\d+) more annotators? label all items": _hired,
    r"add at least (\d+) items of each other class": _other_classes,
    rf"Give {_SOME} to three annotators each": _triples,
    rf"Let {_WHO} label at least (\d+) common items": _two_share,
    rf"Let {_WHO}(?: each)? label at least (\d+) items that others have labelled": _overlap,
    r"Give every item to three annotators": _everybody_three,
    r"label at least (\d+) of these items yourself": _gold,
    r"[Cc]ollect known answers for (\d+)": _gold,
    r"Add items of class (\d+)\b.* at least (\d+)": _more_of_class,
    r"[Cc]ollect more labels.* (\d+) (?:should settle|for each item)": _more_labels,
    r"more known answers help only if": _more_gold,
    r"more items, (\d+) in all, and let (\d+) more annotators?.* label all of them besides (.+)\.": _more_of_both,
    r"[Cc]ollect more items.*, (\d+) in all": _more_items,
    rf"Find a specialist for class (\d+).* label {_SOME}": _specialist,
    r"Give more items to (\d+) of them, at least (\d+) labels each": _fewer_people,
    r"difference between (\d+) and (\d+) .* make them one class": _merge,
}


def follow(world: World, found: Diagnosis, rng: np.random.Generator, only: str = "") -> World:
    """Return the world after all advice was followed, or the sentences that match ``only``."""
    after = world.copy()
    chosen = [sentence for sentence in found.advice if re.search(only, sentence)]
    if not chosen:
        raise ValueError(f"no advice is about {only!r}: {found.advice}")
    for sentence in chosen:
        for pattern, act in _SENTENCES.items():
            said = re.search(pattern, sentence)
            if said:
                act(after, said, found, rng)
                break
        else:
            raise ValueError(f"it is not known how to follow: {sentence}")
    return after
