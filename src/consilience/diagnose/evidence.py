"""What the rules of a diagnosis examine, and how they name it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.blocks import BlockStrength
from consilience.diagnose.constants import OUTSIDE_NOT, OUTSIDE_NOTE
from consilience.diagnose.graph import CoLabelGraph, needed_items
from consilience.diagnose.scatter import Scatter
from consilience.diagnose.stability import Stability
from consilience.kernels._arrays import Floats, Ints
from consilience.moments.cooccurrence import CoOccurrences

__all__ = ["Evidence", "count", "percent", "round_up", "weigh"]


class Evidence(NamedTuple):
    """Input of the rules.  In ``answers``, ``pairs``, ``graph`` and ``blocks`` gold is the last annotator."""

    annotations: Annotations
    answers: Annotations
    pairs: CoOccurrences
    graph: CoLabelGraph
    blocks: BlockStrength
    scatter: Scatter
    stability: Stability
    items_of_class: Floats
    run: Mapping[str, Any]  #: what the run of the model reports, such as ``gain_of_subtypes`` and ``known_answers``

    @property
    def active(self) -> Ints:
        """Annotators with labels, most first."""
        counts = self.annotations.labels_per_annotator
        return np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]

    @property
    def labelled_items(self) -> int:
        """Number of items with labels."""
        return int((self.annotations.labels_per_item > 0).sum())

    @property
    def gold(self) -> bool:
        """Whether there are enough known truths to link the largest group."""
        M = self.annotations.n_annotators
        has = self.answers.n_annotators > M and bool(self.graph.component[M] == 0)
        return has and int(self.blocks.common[M]) >= self.needed

    @property
    def comparable(self) -> bool:
        """Whether there are enough annotators and common items to ask how annotators are linked."""
        return len(self.active) + self.gold >= 3 and len(self.pairs) > 0

    @property
    def needed(self) -> int:
        """Common items to ask for."""
        return needed_items(self.annotations.n_classes)

    def more_of(self, k: int, items: int) -> str:
        """Return the advice to add items of a class, until there are so many."""
        return f"Add items of class {self.annotations.class_ids[k]}: there should be at least {items}."

    def weigh(self, outside: int) -> int:
        """Return the weight of a finding about this many labels that cannot be compared with the rest."""
        return weigh(outside, self.annotations.n_labels)

    def people(self, which: Any) -> Ints:
        """Return these annotators without gold."""
        who: Ints = np.asarray(which)
        return who[who < self.annotations.n_annotators]

    def names(self, which: Any, most: int = 3) -> str:
        """Name annotators: ``a, b, c and 7 more``; gold is "the known answers"."""
        who = np.asarray(which, np.int64)
        most += who.size == most + 1
        ids, M = self.annotations.annotator_ids, self.annotations.n_annotators
        names = [str(ids[m]) if m < M else "the known answers" for m in who[:most].tolist()]
        if who.size > most:
            return f"{', '.join(names)} and {who.size - most} more"
        return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def weigh(outside: int, total: int) -> int:
    """Return the weight of a finding about labels that cannot be compared with the rest, of so many in all."""
    return 2 if outside > OUTSIDE_NOT * total else 1 if outside > OUTSIDE_NOTE * total else 0


def count(n: int, what: str) -> str:
    """Return the number with its noun: ``1 item``, ``2 items``."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def round_up(n: float) -> int:
    """Return a number of two digits and zeros that is not smaller, for advice: 199 is 200."""
    step: int = 10 ** max(len(str(int(n))) - 2, 0)
    return int(np.ceil(n / step)) * step


def percent(share: float) -> str:
    """Return a share as a percentage with one decimal."""
    return f"{100 * share:.1f}%" if share == 0 or share >= 0.0005 else "less than 0.1%"
