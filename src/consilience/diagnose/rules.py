"""What can be missing for the labels to determine the model: one rule for each, with its reason and advice.

The Dawid-Skene model is identified when enough annotators, linked by common items, tell all classes apart.  Each rule
below looks at one thing that can be missing, and gives findings: a reason, advice, and how much it weighs.

==============  ======================================================================================================
verdict         when
==============  ======================================================================================================
``not``         fewer than three annotators; one class only; no item with two labels; more than ``OUTSIDE_NOT`` of the
                labels outside the largest group of linked annotators; two camps that share items only with each
                other; agreement that chance explains (``CHANCE``), or fewer than three annotators whose agreement it
                does not explain; a class of more than ``OUTSIDE_NOT`` of the labels that is not told from another
                (``BLURRED``); a class without labels or items, or with an error above ``CLASS_NOT``
``weakly``      more than ``OUTSIDE_NOTE`` of the labels outside the largest group; no three annotators who all share
                items; agreement that chance may explain (``SLIGHT``); a class that may not be told from another; more
                than ``CHANGED`` of the labels change under a bootstrap; a class with fewer than ten items, with an
                error above ``CLASS_WEAK``, or farther than ``APART`` from a specialist; more than ``FEW_SHARE`` of the
                labels from annotators with fewer than ten; more than ``OUTSIDE_NOT`` from annotators with hardly a
                common item; pairs of labels only, and rows not scattered (``SHORT``)
``identified``  otherwise
==============  ======================================================================================================

The sampling error of eq. (20) is shown, but decides nothing: it bounds the worst case, and healthy crowds exceed it.
Known truths (gold), if there are enough, count as an annotator who is always right: whom they link needs no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.blocks import BlockStrength, chance_of_pairs
from consilience.diagnose.graph import CoLabelGraph
from consilience.diagnose.scatter import Scatter
from consilience.diagnose.stability import Stability
from consilience.kernels._arrays import Floats, Ints
from consilience.moments.cooccurrence import CoOccurrences
from consilience.runs.annotator_table import FEW

__all__ = ["Evidence", "Finding", "findings", "what_holds"]

#: Share of the labels outside the largest group of linked annotators: up to here it is only mentioned …
OUTSIDE_NOTE = 0.01
#: … and beyond here too much of the crowd cannot be compared.
OUTSIDE_NOT = 0.10
#: Agreement that independent annotators would reach with this probability is no evidence …
CHANCE = 1e-3
#: … and with this one it is slight.
SLIGHT = 1e-6
#: An annotator has a relation to the others when chance makes one for less than this share of a crowd.
CLEAR = 0.01
#: Two classes are not told apart when the correlation of what annotators say of them is surely below this.
BLURRED = 0.1
#: Share of the labels that change under a bootstrap over items.  Healthy crowds have one or two percent.
CHANGED = 0.05
#: Standard error of a class's mean column, as a length; a column that jumps between two corners has 0.7.
CLASS_WEAK, CLASS_NOT = 0.1, 0.5
#: Distance of a class from its nearest specialist; 0.71 is a label that two classes share evenly.
APART = 0.6
#: Share of the labels that come from annotators with fewer than ten.
FEW_SHARE = 0.25
#: Shortfall of the sufficiently scattered condition that matters when items have two labels at most.
SHORT = 0.1
#: Share of the items with three labels, below which there are pairs only.
_TRIPLES = 0.05
#: Common items to ask for: ten for each class pin a confusion down to ±0.16.
_COMMON_PER_CLASS, _LEAST_COMMON, _MOST_COMMON = 10, 20, 200


class Evidence(NamedTuple):
    """All that the rules look at.  In ``answers``, ``pairs``, ``graph`` and ``blocks`` gold is the last annotator."""

    annotations: Annotations
    answers: Annotations
    pairs: CoOccurrences
    graph: CoLabelGraph
    blocks: BlockStrength
    scatter: Scatter
    stability: Stability
    items_of_class: Floats

    @property
    def active(self) -> Ints:
        """Annotators with labels, most first."""
        counts = self.annotations.labels_per_annotator
        return np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]

    @property
    def gold(self) -> bool:
        """Whether known truths, enough of them, link the largest group."""
        M = self.annotations.n_annotators
        has = self.answers.n_annotators > M and bool(self.graph.component[M] == 0)
        return has and int(self.blocks.common[M]) >= self.needed

    @property
    def comparable(self) -> bool:
        """Whether it makes sense to ask how the annotators are linked."""
        return len(self.active) + self.gold >= 3 and len(self.pairs) > 0

    @property
    def needed(self) -> int:
        """Common items to ask for."""
        return int(np.clip(_COMMON_PER_CLASS * self.annotations.n_classes, _LEAST_COMMON, _MOST_COMMON))

    def more_of(self, k: int) -> str:
        """Advise to add items of a class."""
        return f"Add items of class {self.annotations.class_ids[k]}: there should be at least {self.needed}."

    def weigh(self, outside: int) -> int:
        """Weigh so many labels that cannot be compared with the rest."""
        total = self.annotations.n_labels
        return 2 if outside > OUTSIDE_NOT * total else 1 if outside > OUTSIDE_NOTE * total else 0

    def people(self, which: Any) -> Ints:
        """Leave gold out."""
        who: Ints = np.asarray(which)
        return who[who < self.annotations.n_annotators]

    def names(self, which: Any, most: int = 3) -> str:
        """Name annotators: ``a, b, c and 7 more``; gold is the known answers."""
        who = np.asarray(which, np.int64)
        most += who.size == most + 1
        ids, M = self.annotations.annotator_ids, self.annotations.n_annotators
        names = [str(ids[m]) if m < M else "the known answers" for m in who[:most].tolist()]
        if who.size > most:
            return f"{', '.join(names)} and {who.size - most} more"
        return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


class Finding(NamedTuple):
    """What a rule found: 2 makes the verdict "not", 1 "weakly", and 0 is worth knowing."""

    weight: int
    reason: str
    advice: str = ""


def _count(n: int, what: str) -> str:
    """Give the number with its noun: ``1 item``, ``2 items``."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share == 0 or share >= 0.0005 else "less than 0.1 %"


def _too_few(e: Evidence) -> Iterator[Finding]:
    n, who = len(e.active), e.names(e.active)
    if e.annotations.n_classes == 1:
        yield Finding(
            2,
            f"Every label is {e.annotations.class_ids[0]}: there is nothing to tell apart.",
            "Check that the label column is the right one, and add items of other classes.",
        )
    if n == 1 and not e.gold:
        yield Finding(
            2,
            f"All labels come from one annotator, {who}: nothing checks them.",
            f"Let two more annotators label at least {e.needed} of the items that {who} labelled.",
        )
    if n == 2 and not e.gold:
        yield Finding(
            2,
            f"There are only two annotators, {who}: where they differ, nothing shows who is right.",
            f"Let a third annotator label at least {e.needed} of the items that {who} labelled.",
        )
    if n > 1 and not len(e.pairs):
        yield Finding(
            2,
            "No item was labelled by two annotators: nobody's labels are checked by anybody else's.",
            f"Give at least {e.needed} items to three annotators each, so that every annotator shares some.",
        )


def _groups(e: Evidence) -> Iterator[Finding]:
    g = e.graph
    if not e.comparable or g.n_components < 2:
        return
    # those who share no item with anybody come after the groups
    alone = e.people(g.isolated)
    alone = alone[np.argsort(-g.n_labels[alone], kind="stable")]
    n_groups = g.n_components - g.isolated.size
    inside, *others = (e.people(g.members(c)) for c in range(min(n_groups, 4)))
    total = e.annotations.n_labels
    weight = e.weigh(total - int(g.n_labels[inside].sum()))
    if others:
        shown = [f"{_count(inside.size, 'annotator')} ({e.names(inside)})"]
        shown += [f"{m.size} ({e.names(m)})" for m in others]
        shown += [f"and {n_groups - 4} more"] if n_groups > 4 else []
        yield Finding(
            weight,
            f"The annotators fall into {n_groups} groups that never labelled the same item: {'; '.join(shown)}. "
            "How the groups compare is not in the data.",
        )
    for m in others:
        link = f"Let {e.names(inside[:1])} and {e.names(m[:1])} label at least {e.needed} common items"
        yield Finding(weight, "", f"{link}: that links their groups.")
    if alone.size:
        labels = f"{int(g.n_labels[alone].sum())} of {_count(total, 'label')}"
        share, each = ("share", " each") if alone.size > 1 else ("shares", "")
        yield Finding(
            weight,
            f"{_count(alone.size, 'annotator')} ({e.names(alone)}) with {labels} {share} no item with anybody: nothing "
            "checks what they say.",
            f"Let {e.names(alone)}{each} label at least {e.needed} items that others have labelled.",
        )


def _unchecked(e: Evidence) -> Iterator[Finding]:
    labels, common = e.graph.n_labels, e.blocks.common
    who = e.people(np.flatnonzero((labels >= 2 * FEW) & (common < FEW) & (e.graph.partners > 0)))
    who = who[np.argsort(-labels[who], kind="stable")]
    if e.comparable and who.size:
        each = " each" if who.size > 1 else ""
        yield Finding(
            e.weigh(int(labels[who].sum())) // 2,
            f"Of {int(labels[who].sum())} labels by {e.names(who)}, only {int(common[who].sum())} are on items that "
            "somebody else labelled too: hardly anything checks them.",
            f"Let {e.names(who)}{each} label at least {e.needed} items that others have labelled.",
        )


def _camps(e: Evidence) -> Iterator[Finding]:
    if not e.comparable or e.gold:
        return
    if e.graph.bipartite(0):
        main = e.graph.members(0)
        camps = [main[e.graph.side[main] == side] for side in (0, 1)]
        pair = max((e.people(camp)[:2] for camp in camps), key=len)
        link = f"Let {e.names(pair)} label at least {e.needed} common items, or give" if pair.size == 2 else "Give"
        yield Finding(
            2,
            f"The annotators form two camps, {e.names(camps[0])} on one side and {e.names(camps[1])} on the other, and "
            "no two of the same camp share an item: such labels fit many models equally well.",
            f"{link} every item to three annotators.",
        )
    elif e.graph.exact and e.graph.triangles == 0:
        yield Finding(
            1,
            "No three annotators all share items with each other: who is right follows only in a roundabout way.",
            "Give every item to three annotators.",
        )


def _signal(e: Evidence) -> Iterator[Finding]:
    if not e.comparable or e.annotations.n_classes == 1:
        return
    common = _count(int((e.answers.labels_per_item > 1).sum()), "item")
    if e.blocks.crowd_chance > CHANCE:
        yield Finding(
            2,
            f"On the {common} that two or more annotators labelled, they agree hardly more than they would by "
            "guessing: nothing shows that anybody looked at the items.",
            f"Check the task, the instructions and the classes; then label at least {e.needed} items yourself and give "
            "them as known answers (gold).",
        )
        return
    # Two annotators who agree, among guessers, are no better than two annotators.
    clear = e.blocks.chance < CLEAR / len(e.active)
    if not e.gold and clear.sum() < 3 and chance_of_pairs(e.pairs, ~clear[e.pairs.who].all(axis=1)) > CLEAR:
        who = e.names(np.flatnonzero(clear))
        yield Finding(
            2,
            f"{f'Only {who} agree' if who else 'Hardly anybody agrees'} with anybody more than guesses would: it takes "
            "three such annotators to see who is right.",
            f"Find more annotators who know the classes, and let them label at least {e.needed} items that "
            f"{who or 'others'} labelled.",
        )
    elif e.blocks.crowd_chance > SLIGHT:
        yield Finding(
            1,
            f"On the {common} that two or more annotators labelled, they agree only slightly more than they would by "
            "guessing.",
            "Collect more items, or find annotators who know the classes better.",
        )


def _blurred(e: Evidence) -> Iterator[Finding]:
    contrast = e.blocks.contrast
    if not e.comparable or contrast is None or contrast.chance < CLEAR or e.blocks.crowd_chance > CHANCE:
        return
    a = e.annotations
    one, other = (a.class_ids[k] for k in contrast.classes)
    share = np.mean(a.label == contrast.classes[0])
    if contrast.at_most < BLURRED:
        yield Finding(
            2 if share > OUTSIDE_NOT else 1,
            f"Annotators do not tell class {one} from class {other}: where one of them says {one}, the others choose "
            f"between {one} and {other} as if by guessing.",
            f"Explain the difference between {one} and {other} to the annotators, or make them one class.",
        )
    else:
        yield Finding(
            1,
            f"There are too few items to be sure that annotators tell class {one} from class {other}.",
            e.more_of(contrast.classes[0])
            if e.items_of_class[contrast.classes[0]] < e.needed
            else f"Collect more items, or explain the difference between {one} and {other} to the annotators.",
        )


def _empty_classes(e: Evidence) -> Iterator[Finding]:
    a = e.annotations
    used = np.bincount(a.label, minlength=a.n_classes)
    known = np.zeros(a.n_classes, int) if a.gold is None else np.bincount(a.gold[a.gold >= 0], minlength=a.n_classes)
    empty = (used + known == 0) | (e.items_of_class < 0.5)
    for k in np.flatnonzero(empty).tolist() if a.n_classes > 1 else ():
        name, said = a.class_ids[k], int(used[k])
        reason = f"No item seems to be of class {name}, though {_count(said, 'label')} said so"
        yield Finding(
            2,
            f"{reason if said else f'Nobody used {name} as a label'}: nothing can be learned about that class.",
            f"Add items of class {name}, at least {e.needed}, or leave the class out.",
        )


def _uncertain_classes(e: Evidence) -> Iterator[Finding]:
    a = e.annotations
    for k in range(a.n_classes):
        name, items, error = a.class_ids[k], float(e.items_of_class[k]), float(e.stability.classes[k])
        if error > CLASS_WEAK or items < FEW:
            few = "one item" if items < 1.5 else f"{items:.0f} items"
            yield Finding(
                2 if error > CLASS_NOT else 1,
                f"How annotators treat class {name} is uncertain (±{error:.2f}): it has about {few}.",
                e.more_of(k),
            )
        if e.scatter.distance[k] > APART:
            nearest = e.names([int(e.scatter.row[k]) // a.n_classes])
            yield Finding(
                1,
                f"Nobody tells class {name} from the others: whatever is said of it is as often said of them.",
                f"Find a specialist for class {name}, somebody who almost never confuses it with another ({nearest} "
                f"comes nearest), and let them label at least {e.needed} items.",
            )


def _unstable(e: Evidence) -> Iterator[Finding]:
    if e.stability.changed > CHANGED:
        per_item = e.annotations.n_labels / max(int((e.annotations.labels_per_item > 0).sum()), 1)
        aim = max(5, int(np.ceil(2 * per_item)))
        advice = f"Collect more labels: an item has {per_item:.1f} on average; {aim} would settle more of them."
        yield Finding(1, _change(e), advice)


def _change(e: Evidence) -> str:
    t, N = e.stability, int((e.annotations.labels_per_item > 0).sum())
    how = f" (estimated from draws of {t.items} of {N} items)" if t.items < N else ""
    return f"A model learned from other items of the same kind would change {_percent(t.changed)} of the labels{how}."


def _few_labels(e: Evidence) -> Iterator[Finding]:
    counts = e.annotations.labels_per_annotator
    few = np.flatnonzero((counts > 0) & (counts < FEW))
    if not few.size:
        return
    share = float(counts[few].sum() / counts.sum())
    gave = f"{few.size} of {_count(len(e.active), 'annotator')} gave fewer than {FEW} labels"
    if share > FEW_SHARE:
        advice = f"Give more items to fewer annotators, at least {e.needed} each."
        yield Finding(1, f"{gave}, {_percent(share)} of all: little can be said of any of them.", advice)
    else:
        yield Finding(0, f"{gave}: little can be said of {'them' if few.size > 1 else 'that one'}.")


def _pairs_only(e: Evidence) -> Iterator[Finding]:
    triples = float(np.mean(e.answers.labels_per_item >= 3))
    if e.comparable and not e.gold and triples < _TRIPLES and e.scatter.shortfall > SHORT:
        farthest = e.annotations.class_ids[int(e.scatter.distance.argmax())]
        yield Finding(
            1,
            "Hardly any item has three labels, so annotators can be compared two by two only, and that needs a "
            "specialist for every class: an annotator who almost never confuses it with another. "
            f"Class {farthest} has none.",
            "Give every item to three annotators.",
        )


#: Without what these ask for, the model is out of reach, and the other rules have nothing to add.
_FIRST: Sequence[Callable[[Evidence], Iterator[Finding]]] = (
    _too_few,
    _groups,
    _camps,
    _signal,
    _blurred,
    _empty_classes,
)
_SECOND: Sequence[Callable[[Evidence], Iterator[Finding]]] = (
    _unstable,
    _uncertain_classes,
    _unchecked,
    _pairs_only,
    _few_labels,
)


def findings(e: Evidence) -> list[Finding]:
    """Apply the rules; the weightiest findings first."""
    found = [finding for rule in _FIRST for finding in rule(e)]
    if all(finding.weight < 2 for finding in found):
        found += [finding for rule in _SECOND for finding in rule(e)]
    return sorted(found, key=lambda finding: -finding.weight)


def what_holds(e: Evidence) -> Iterator[str]:
    """Say what speaks for the model being identified."""
    g = e.graph
    main = g.members(0)
    linked = _count(e.people(main).size, "annotator")
    possible = main.size * (main.size - 1) // 2
    gaps = possible - int(g.partners[main].sum()) // 2
    if e.gold:
        known = int(np.sum(np.asarray(e.annotations.gold) >= 0))
        yield f"{_count(known, 'known answer')} (gold) and common items link {linked}."
    elif gaps == 0:
        yield f"{linked} are linked by common items: every pair shares some."
    else:
        # blocks between components are missing too, and none of them can be imputed
        n = int((g.n_labels > 0).sum())
        over_two = min(1.0, g.imputable * g.missing * (n * (n - 1) // 2) / gaps)
        yield (
            f"{linked} are linked by common items: {_percent(1 - gaps / possible)} of the pairs directly, "
            f"{'' if g.exact else 'about '}{_percent(over_two)} of the others over two annotators in between."
        )
    yield "They agree far more than guesses would, and each class has an annotator who tells it from the others."
    if e.stability.draws:
        yield _change(e)
