"""What the rules of a diagnosis examine, and how they name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.blocks import BlockStrength, block_strength
from consilience.diagnose.constants import OUTSIDE_NOT, OUTSIDE_NOTE, SMOOTHING
from consilience.diagnose.graph import CoLabelGraph, co_label_graph, needed_items, observed_pairs, single_answers
from consilience.diagnose.scatter import Scatter, scatter
from consilience.diagnose.stability import Stability, bootstrap
from consilience.engine.passes import passes_of
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.em import Statistics
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences

__all__ = ["Evidence", "count", "percent", "round_up", "smoothed_factor", "weigh"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Input of the rules; each part is computed when a rule first asks for it.

    In ``answers``, ``pairs``, ``graph`` and ``blocks`` gold is the last annotator.
    """

    annotations: Annotations
    model: DawidSkene
    run: Mapping[str, Any]  #: what the run of the model reports, such as ``gain_of_subtypes`` and ``known_answers``
    draws: int = 0  #: of the bootstrap
    search: bool = False  #: whether the shortfall is searched for with more than three classes
    seed: int = 0

    @cached_property
    def answers(self) -> Annotations:
        """One answer of each annotator to an item, with gold as the last annotator."""
        return single_answers(self.annotations)

    @cached_property
    def pairs(self) -> CoOccurrences:
        """The observed pair blocks."""
        return observed_pairs(self.answers)

    @cached_property
    def graph(self) -> CoLabelGraph:
        """Annotators who share items."""
        n_labels = self.answers.labels_per_annotator
        n_labels[: self.annotations.n_annotators] = self.annotations.labels_per_annotator  # repeated answers too
        return co_label_graph(self.pairs, n_labels, seed=self.seed)

    @cached_property
    def blocks(self) -> BlockStrength:
        """Strength of the pair blocks."""
        return block_strength(self.answers, self.pairs)

    @cached_property
    def counts(self) -> Statistics:
        """Expected labels of each annotator, and items of each class, under the model."""
        return passes_of(self.annotations).sweep(self.model.prior, self.model.confusions)

    @property
    def items_of_class(self) -> Floats:
        """Expected items of each class, (K,)."""
        return self.counts.class_counts

    @cached_property
    def scatter(self) -> Scatter:
        """Class specialists, and the sufficiently scattered condition."""
        factor = smoothed_factor(self.counts.counts, self.items_of_class)
        return scatter(factor, seed=self.seed, search=self.search)

    @cached_property
    def stability(self) -> Stability:
        """Standard errors under a bootstrap over items."""
        return bootstrap(self.annotations, self.model, draws=self.draws, seed=self.seed)

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


def smoothed_factor(counts: Floats, class_counts: Floats) -> Floats:
    """Return H, (M K, K), from smoothed counts; annotators without labels have rows of zeros."""
    # H stacks A_m D^(1/2)                                              (Ibrahim & Fu 2022, eq. (6))
    K = class_counts.size
    confusions = (counts + SMOOTHING) / (counts.sum(axis=1, keepdims=True) + K * SMOOTHING)
    confusions[counts.sum(axis=(1, 2)) <= 0] = 0.0
    factor: Floats = (confusions * np.sqrt(class_counts / max(float(class_counts.sum()), 1e-300))).reshape(-1, K)
    return factor


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
