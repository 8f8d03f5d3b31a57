"""The rules behind a verdict: each checks one condition of identifiability, and gives reasons and advice.

The Dawid-Skene model is identified when enough annotators, linked by common items, distinguish all classes.

==============  ======================================================================================================
verdict         when
==============  ======================================================================================================
``not``         known answers that contradict the consensus (``CONTRADICTED``); fewer than three annotators; one class
                only; no item with two labels; more than ``OUTSIDE_NOT`` of the labels outside the largest group of
                linked annotators; two camps that share items only with each other; agreement that chance explains
                (``GUESSING``), or fewer than three annotators whose agreement it does not explain; a class of more than
                ``OUTSIDE_NOT`` of the labels that annotators confuse with another (``BLURRED``); a class without labels
                or items, or with an error above ``CLASS_NOT``
``weakly``      annotators who err together (``ERR_TOGETHER``) or answer as one; more than ``OUTSIDE_NOTE`` of the
                labels outside the largest group; no three annotators who all share items; agreement that chance may
                explain (``SLIGHT``); a class that may be confused with another; more than ``LABELS_CHANGED`` of the
                labels change under a bootstrap; a class with fewer than ten items, with an error above
                ``CLASS_WEAK``, or farther than ``NO_SPECIALIST`` from a specialist; more than ``FEW_SHARE`` of the
                labels from annotators with fewer than ten; more than ``OUTSIDE_NOT`` from annotators with hardly a
                common item; pairs of labels only, and rows not scattered (``SHORTFALL``)
``identified``  otherwise
==============  ======================================================================================================

The sampling error of eq. (20) is shown but not used: it bounds the worst case, and healthy crowds exceed it.  Known
truths (gold), if there are enough, count as an annotator who is always right.  Numbers in the advice are computed in
:mod:`consilience.diagnose.amounts`; ``python -m benchmarks advice`` checks that following it helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from consilience.data.silence import MEANINGS
from consilience.diagnose import amounts
from consilience.diagnose.blocks import chance_of_pairs, related_pairs
from consilience.diagnose.constants import (
    BLURRED,
    CLASS_NOT,
    CLASS_WEAK,
    CONTRADICTED,
    CONTRADICTED_SHARE,
    ERR_TOGETHER,
    FEW_SHARE,
    FEW_TRIPLES,
    GUESSING,
    LABELS_CHANGED,
    LEAST_COMMON,
    NO_ITEM,
    NO_SPECIALIST,
    OUTSIDE_NOT,
    RELATED,
    SHORTFALL,
    SLIGHT,
)
from consilience.diagnose.evidence import Evidence, count, percent, round_up
from consilience.kernels._arrays import Ints, code_counts
from consilience.runs.annotator_table import FEW

__all__ = ["Finding", "contradicted", "findings", "obstacles", "surprising", "what_holds"]


class Finding(NamedTuple):
    """Result of a rule: weight 2 makes the verdict "not", 1 "weakly", 0 is for information."""

    weight: int
    reason: str
    advice: str = ""


_Rule = Callable[[Evidence], Iterator[Finding]]


def _of_items(e: Evidence, n: int) -> str:
    return "all items" if n >= e.labelled_items else f"at least {n} of the items"


def _newcomers(e: Evidence, good: Ints, able: str = "") -> str:
    """Return the advice to find more annotators, who are ``able``; with more items if there are few."""
    more, items = amounts.newcomers(e, good, able=bool(able))
    who, beside = count(more, "more annotator"), e.names(good) or "others"
    if items > e.labelled_items:
        return f"Collect more items, {round_up(items)} in all, and let {who}{able} label all of them besides {beside}."
    let = f"Find {who}{able}, and let each label" if able else f"Let {who} label"
    return f"{let} {_of_items(e, items)} that {beside} labelled."


def _too_few(e: Evidence) -> Iterator[Finding]:
    n, who = len(e.active), e.names(e.active)
    if e.annotations.n_classes == 1:
        yield Finding(
            2,
            f"Every label is {e.annotations.class_ids[0]}: there is nothing to tell apart.",
            f"Check that the label column is the right one, and add at least {e.needed} items of each other class.",
        )
    if n == 1 and not e.gold:
        yield Finding(
            2,
            f"All labels come from one annotator, {who}: nothing checks them.",
            _newcomers(e, e.active),
        )
    if n == 2 and not e.gold:
        yield Finding(
            2,
            f"There are only two annotators, {who}: where they differ, nothing shows who is right.",
            _newcomers(e, e.active),
        )
    if n > 1 and not len(e.pairs):
        yield Finding(
            2,
            "No item was labelled by two annotators: nobody's labels are checked by anybody else's.",
            f"Give {_of_items(e, amounts.common_to_three(e))} to three annotators each, so that everybody shares some.",
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
        shown = [f"{count(inside.size, 'annotator')} ({e.names(inside)})"]
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
        labels = f"{int(g.n_labels[alone].sum())} of {count(total, 'label')}"
        share, each = ("share", " each") if alone.size > 1 else ("shares", "")
        yield Finding(
            weight,
            f"{count(alone.size, 'annotator')} ({e.names(alone)}) with {labels} {share} no item with anybody: nothing "
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


def _evidence(e: Evidence) -> str:
    """Return what shows whether anybody looked at the items."""
    more, labels = amounts.pairs_to_show(e), amounts.labels_to_show(e)
    if more <= 1.0:  # enough labels, were annotators like others
        return (
            f"label at least {amounts.truths_to_show(e)} of these items yourself and give them as known answers "
            "(gold): they show whether anybody knows the classes"
        )
    if labels <= len(e.active):
        return f"collect more labels, {labels} for each item"
    return f"collect more items, {round_up(more * e.labelled_items)} in all"


def _signal(e: Evidence) -> Iterator[Finding]:
    if not e.comparable or e.annotations.n_classes == 1:
        return
    common = count(int((e.answers.labels_per_item > 1).sum()), "item")
    if e.blocks.crowd_chance > GUESSING:
        if amounts.too_few_to_show(e):
            what = _evidence(e)
            yield Finding(
                2,
                f"The {common} that two or more annotators labelled are too few to tell their agreement from guessing.",
                f"{what[:1].upper()}{what[1:]}.",
            )
            return
        yield Finding(
            2,
            f"On the {common} that two or more annotators labelled, they agree hardly more than they would by "
            "guessing: nothing shows that anybody looked at the items.",
            f"Check the task, the instructions and the classes; then {_evidence(e)}.",
        )
        return
    # two annotators who agree, among guessers, are not enough: it takes three
    clear = np.flatnonzero(e.blocks.chance < RELATED / len(e.active))
    if clear.size < 3:  # guessers may drown two who agree with each other
        clear = np.union1d(clear, related_pairs(e.pairs, RELATED))
    if not e.gold and clear.size < 3 and chance_of_pairs(e.pairs, ~np.isin(e.pairs.who, clear).all(axis=1)) > RELATED:
        who = e.names(clear)
        yield Finding(
            2,
            f"{f'Only {who} agree' if who else 'Hardly anybody agrees'} with anybody more than guesses would: it takes "
            "three such annotators to see who is right.",
            _newcomers(e, clear, " who know the classes"),
        )
    elif e.blocks.crowd_chance > SLIGHT:
        yield Finding(
            1,
            f"On the {common} that two or more annotators labelled, they agree only slightly more than they would by "
            "guessing.",
            f"Collect more items, {round_up(amounts.items_in_all(e))} in all, or find annotators who know the classes "
            "better.",
        )


def _blurred(e: Evidence) -> Iterator[Finding]:
    contrast = e.blocks.contrast
    if not e.comparable or contrast is None or contrast.chance < RELATED or e.blocks.crowd_chance > GUESSING:
        return
    if e.items_of_class[contrast.classes[0]] < NO_ITEM:
        return  # _empty_classes
    a = e.annotations
    k = contrast.classes[0]
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
            e.more_of(k, amounts.items_of_class(e, k))
            if e.items_of_class[k] < e.needed
            else f"Collect more items, {round_up(amounts.items_to_settle(e))} in all, or explain the difference "
            f"between {one} and {other} to the annotators.",
        )


def _empty_classes(e: Evidence) -> Iterator[Finding]:
    a = e.annotations
    used = code_counts(a.label, a.n_classes)
    known = np.zeros(a.n_classes, int) if a.gold is None else np.bincount(a.gold[a.gold >= 0], minlength=a.n_classes)
    empty = (used + known == 0) | (e.items_of_class < NO_ITEM)
    if (silent := _unlisted_silence(e)) is not None:
        empty[silent] = False
    for k in np.flatnonzero(empty).tolist() if a.n_classes > 1 else ():
        name, said = a.class_ids[k], int(used[k])
        reason = f"No item seems to be of class {name}, though {count(said, 'label')} said so"
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
                e.more_of(k, amounts.items_of_class(e, k)),
            )
        elif e.scatter.distance[k] > NO_SPECIALIST:
            nearest = e.names([int(e.scatter.row[k]) // a.n_classes])
            yield Finding(
                1,
                f"Nobody tells class {name} from the others: whatever is said of it is as often said of them.",
                f"Find a specialist for class {name}, somebody who almost never confuses it with another ({nearest} "
                f"comes nearest), and let them label {_of_items(e, amounts.items_for_specialist(e, k))}.",
            )


def _unstable(e: Evidence) -> Iterator[Finding]:
    if e.stability.changed > LABELS_CHANGED:
        per_item, aim = e.annotations.n_labels / max(e.labelled_items, 1), amounts.labels_to_settle(e)
        how = f"an item has {per_item:.1f} labels on average; {aim} should settle many of them"
        short = aim - len(e.active)
        if _together(e):
            advice = ""  # more labels repeat the common errors
        elif short > 0:
            advice = f"Let {count(short, 'more annotator')} label all items: {how}."
        else:
            advice = f"Collect more labels: {how}."
        yield Finding(1, _change(e), advice)


def _change(e: Evidence) -> str:
    t, N = e.stability, e.labelled_items
    how = f" (estimated from draws of {t.items} of {N} items)" if t.items < N else ""
    return f"A model learned from other items of the same kind would change {percent(t.changed)} of the labels{how}."


def _few_labels(e: Evidence) -> Iterator[Finding]:
    counts = e.annotations.labels_per_annotator
    few = np.flatnonzero((counts > 0) & (counts < FEW))
    if not few.size:
        return
    share = float(counts[few].sum() / counts.sum())
    gave = f"{few.size} of {count(len(e.active), 'annotator')} gave fewer than {FEW} labels"
    if share > FEW_SHARE:
        advice = f"Give more items to {amounts.annotators_to_ask(counts)} of them, at least {LEAST_COMMON} labels each."
        yield Finding(1, f"{gave}, {percent(share)} of all: little can be said of any of them.", advice)
    else:
        yield Finding(0, f"{gave}: little can be said of {'them' if few.size > 1 else 'that one'}.")


def _pairs_only(e: Evidence) -> Iterator[Finding]:
    triples = float(np.mean(e.answers.labels_per_item >= 3))
    if e.comparable and not e.gold and triples < FEW_TRIPLES and e.scatter.shortfall > SHORTFALL:
        farthest = e.annotations.class_ids[int(e.scatter.distance.argmax())]
        yield Finding(
            1,
            "Hardly any item has three labels, so annotators can be compared two by two only, and that needs a "
            "specialist for every class: an annotator who almost never confuses it with another. "
            f"Class {farthest} has none.",
            "Give every item to three annotators.",
        )


def _contradicted(e: Evidence) -> Iterator[Finding]:
    yield from contradicted(e.run)


def contradicted(run: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding if a run is wrong about known answers more often than its labels led to expect."""
    known = run.get("known_answers")
    if known and surprising(known["items"], known["error_with"], known["expected"]):
        yield Finding(
            2,
            f"On {count(known['items'], 'known answer')} the consensus is {percent(known['error_with'])} wrong; the "
            f"labels led to expect {percent(known['expected'])}.",
            "Find out what annotators misunderstand; more known answers help only if some of them know better.",
        )


def _known(e: Evidence) -> str:
    n = amounts.known_answers(e)
    return f"Collect known answers for {n} or more items drawn at random: they show whom to believe."


def _together(e: Evidence) -> bool:
    return bool(e.run.get("gain_of_subtypes", 0.0) > ERR_TOGETHER and not e.gold)


def _err_together(e: Evidence) -> Iterator[Finding]:
    if _together(e):
        yield Finding(
            1,
            "Annotators err together: on some kinds of items many give the same answer, right or wrong. Labels alone "
            "show neither which, nor whether counting votes would be better.",
            _known(e),
        )


def _copies(e: Evidence) -> Iterator[Finding]:
    groups = e.run.get("copies") or ()
    if groups and not e.gold:
        n = sum(len(group) for group in groups)
        yield Finding(
            1,
            f"{n} annotators answer as one and share one vote{'' if len(groups) == 1 else ' for each group'}. Were "
            "they right and the others not, labels alone would not show it.",
            _known(e),
        )


def _by_choice(e: Evidence) -> Iterator[Finding]:
    if not e.gold:
        yield Finding(
            1,
            "Annotators choose when to speak, and agreement says little of those who name one class only: the labels "
            "rest on the assumption that annotators are mostly right when they speak.",
            _known(e),
        )


#: Where annotators choose when to speak, how often they agree is no evidence.
_OF_SPEAKERS: Sequence[_Rule] = (_contradicted, _too_few, _empty_classes, _by_choice)
#: Where one of these finds the model not identified, the others are skipped.
_FIRST: Sequence[_Rule] = (_contradicted, _too_few, _groups, _camps, _signal, _blurred, _empty_classes)
_SECOND: Sequence[_Rule] = (_err_together, _copies, _unstable, _uncertain_classes, _unchecked, _pairs_only, _few_labels)


def surprising(n: int, found: float, expected: float) -> bool:
    """Whether so many errors on n known answers are more than chance explains, and enough to matter."""
    error = np.sqrt(max(expected * (1.0 - expected), 0.25 / n) / n)
    return bool(found - expected >= max(CONTRADICTED * error, CONTRADICTED_SHARE))


def _unlisted_silence(e: Evidence) -> int | None:
    """Return the class that silence stands for, as in sequences; None if it stands for none, or is listed as labels."""
    a, silence = e.annotations, e.run.get("silence", "random")
    if silence in MEANINGS or a.n_labels == a.n_items * a.n_annotators:
        return None
    code = int(a.class_ids.codes_of([silence])[0])
    return code if code >= 0 else None


def _speak_by_choice(e: Evidence) -> bool:
    return e.run.get("silence") == "informative" or _unlisted_silence(e) is not None


def findings(e: Evidence) -> list[Finding]:
    """Apply the rules; findings of the largest weight first."""
    if _speak_by_choice(e):
        found = [finding for rule in _OF_SPEAKERS for finding in rule(e)]
        return sorted(found, key=lambda finding: -finding.weight)
    found = [finding for rule in _FIRST for finding in rule(e)]
    if all(finding.weight < 2 for finding in found):
        found += [finding for rule in _SECOND for finding in rule(e)]
    return sorted(found, key=lambda finding: -finding.weight)


def obstacles(e: Evidence) -> list[Finding]:
    """Return why the verdict is "not", or that annotators err together, as far as no bootstrap is needed to see it."""
    of_speakers = _speak_by_choice(e)
    rules = _OF_SPEAKERS if of_speakers else _FIRST
    found = [finding for rule in rules for finding in rule(e) if finding.weight == 2 and finding.reason]
    return found if found or of_speakers else list(_err_together(e))


def what_holds(e: Evidence) -> Iterator[str]:
    """Yield the reasons for the verdict "identified"."""
    g = e.graph
    main = g.members(0)
    linked = count(e.people(main).size, "annotator")
    possible = main.size * (main.size - 1) // 2
    gaps = possible - int(g.partners[main].sum()) // 2
    if e.gold:
        known = int(np.sum(np.asarray(e.annotations.gold) >= 0))
        yield f"{count(known, 'known answer')} (gold) and common items link {linked}."
    elif gaps == 0:
        yield f"{linked} are linked by common items: every pair shares some."
    else:
        # blocks between components are missing too, and none of them can be imputed
        n = int((g.n_labels > 0).sum())
        over_two = min(1.0, g.imputable * g.missing * (n * (n - 1) // 2) / gaps)
        yield (
            f"{linked} are linked by common items: {percent(1 - gaps / possible)} of the pairs directly, "
            f"{'' if g.exact else 'about '}{percent(over_two)} of the others over two annotators in between."
        )
    yield "They agree far more than guesses would, and each class has an annotator who tells it from the others."
    if e.stability.draws:
        yield _change(e)
