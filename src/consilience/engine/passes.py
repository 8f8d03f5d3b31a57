"""Passes over all labels, wherever they are stored: one protocol, three engines.

================== =============================== ==================================================================
engine             class                           where the labels are
================== =============================== ==================================================================
``local``          :class:`InMemory`               Annotations
``stream``         :class:`OnDisk`                 a Store; the pages of each finished block are released
``dask``           :class:`~.dask.OnCluster`       workers' maps of a Store, or arrays that they were sent
================== =============================== ==================================================================

Every pass consists of passes over parts (:mod:`consilience.engine.part`) and a sum along a tree that depends on the
data alone.  So the three agree bit for bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from consilience.data.annotations import Annotations, Origin, entries_of
from consilience.data.ids import Ids
from consilience.engine.checkpoint import Checkpoint
from consilience.engine.fingerprint import fingerprint
from consilience.engine.part import Part, Survey, join
from consilience.engine.progress import Callback, steps
from consilience.kernels import blocks
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.kernels.cooccurrence import MOST_LABELS
from consilience.kernels.em import Statistics
from consilience.kernels.votes import vote_shares
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences, check_triples

if TYPE_CHECKING:  # only for labels on disk
    from consilience.engine.store import Store

__all__ = ["InMemory", "Labels", "OnDisk", "Passes", "passes_of"]

T = TypeVar("T")


class Passes(ABC):
    """Passes over all labels; their results do not depend on where the labels are stored."""

    n_items: int
    n_labels: int
    annotator_ids: Ids
    class_ids: Ids
    origin: Origin
    checkpoint: Checkpoint | None = None
    callback: Callback | None = None
    _last: tuple[tuple[Any, ...], Statistics] | None = None

    @property
    def n_annotators(self) -> int:
        """M."""
        return len(self.annotator_ids)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.class_ids)

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """The same for the same labels."""

    @property
    @abstractmethod
    def has_gold(self) -> bool:
        """Whether some truths are known."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:  # noqa: B027 - optional
        """Release what the passes hold."""

    # ---- passes --------------------------------------------------------------------------------------------

    @abstractmethod
    def _each(self, what: str, *arguments: Any, tell: Callable[[int], None] | None = None) -> Iterable[Any]:
        """Run one pass of :class:`~consilience.engine.part.Part` over every part and return the results."""

    def sweep(self, prior: Floats, confusions: Floats, *, gold: bool = True) -> Statistics:
        """Run the E-step under these parameters; without ``gold``, known truths are ignored."""
        asked: tuple[Any, ...] = prior, confusions, gold
        kept = self._last
        if kept is None or not all(map(np.array_equal, asked, kept[0])):  # the same call twice in a row runs once
            parts = self._each("parts" if gold else "parts_without_gold", prior, confusions)
            kept = self._last = asked, self._total(parts)
        return kept[1]

    def subtype_sweep(self, weights: Floats, tables: Floats) -> Statistics:
        """Run the E-step of a model with subtypes: weights (K L,) and tables (M, K, K L)."""
        made: Statistics = self._total(self._each("subtypes", weights, tables))
        return made

    @cached_property
    def votes(self) -> Statistics:
        """The M-step sums of taking vote shares for the posterior."""

        def count() -> Statistics:
            made: Statistics = self._total(self._each("votes", tell=self._steps("votes")))
            return made

        return count() if self.checkpoint is None else self.checkpoint.remember("votes", Statistics, count)

    @cached_property
    def gold_counts(self) -> Statistics:
        """The M-step sums of the items of known truth alone."""
        counts, items = (sum(part) for part in zip(*self._each("gold_counts"), strict=True))
        return Statistics(np.asarray(counts, np.float64), np.asarray(items, np.float64), float("nan"))

    def gold_taken_for(self, prior: Floats, confusions: Floats, typical: float) -> Floats:
        """Return how many items of known class k are taken for c by their labels alone, (K, K): expected numbers.

        Items whose labels agree less than is ``typical``, Σ share² - 1 / K, count less.
        """
        made: Floats = sum(self._each("gold_taken_for", prior, confusions, typical))
        return made

    def pairs(self, most: int = MOST_LABELS) -> CoOccurrences:
        """Count the label pairs of all pairs of annotators in one pass, as :func:`consilience.moments.pair_moments`."""

        def made(who: Codes, counts: Codes) -> CoOccurrences:
            return CoOccurrences(who, counts, self.annotator_ids, self.class_ids)

        def count() -> tuple[Codes, Codes]:
            parts = self._each("pairs", most, tell=self._steps("pairs of annotators"))
            total = reduce(add, (made(*part) for part in parts))
            return total.who, total.counts

        return made(*count()) if self.checkpoint is None else self.checkpoint.remember("pairs", made, count)

    def triples(self, among: Ints) -> CoOccurrences:
        """Count the label triples of some annotators in one pass, as :func:`consilience.moments.triple_moments`."""
        check_triples(among.size, self.n_classes)
        names = self.annotator_ids.take(among), self.class_ids
        parts = self._each("triples", among, tell=self._steps("triples of annotators"))
        return reduce(add, (CoOccurrences(who, counts, *names) for who, counts in parts))

    @cached_property
    def survey(self) -> Survey:
        """What the labels show without any model."""
        made: Survey = reduce(join, self._each("survey", tell=self._steps("a first look")))
        return made

    def _total(self, parts: Iterable[dict[blocks.Node, T]]) -> T:
        made: dict[blocks.Node, T] = {}
        for part in parts:
            made |= part
        return blocks.total(made, (0, max(stop for _, stop in made)))

    def _steps(self, step: str) -> Callable[[int], None] | None:
        return steps(self.callback, step, self.n_labels)

    # ---- from the survey -----------------------------------------------------------------------------------

    @property
    def labels_per_annotator(self) -> Ints:
        """Number of labels of each annotator, (M,)."""
        made: Ints = self.survey.said.sum(axis=1)
        return made

    @property
    def used_classes(self) -> Bools:
        """Which classes occur as a label or as gold, (K,)."""
        used: Bools = (self.survey.said.sum(axis=0) > 0) | (self.survey.known > 0)
        return used

    # ---- items ---------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def known_items(self) -> Ints:
        """The labelled items of known truth, ascending."""

    @abstractmethod
    def select(self, items: Ints) -> Annotations:
        """Return some items, in memory."""

    def sample(self, step: int) -> Annotations:
        """Return every ``step``-th item."""
        return self.select(np.arange(0, self.n_items, max(step, 1)))

    def posterior(self, model: DawidSkene) -> Floats:
        """Return the posterior of every item (N, K) if labels are in memory.

        Elsewhere return an empty array (0, K): items are labelled block by block when they are needed.
        """
        return np.empty((0, self.n_classes))

    def vote_posterior(self) -> Floats:
        """Return the vote shares of every item (N, K) if labels are in memory; else (0, K)."""
        return np.empty((0, self.n_classes))


class InMemory(Passes):
    """Passes over annotations in this process."""

    def __init__(self, annotations: Annotations) -> None:
        self.annotations = annotations
        self.n_items, self.n_labels, self.origin = annotations.n_items, annotations.n_labels, annotations.origin
        self.annotator_ids, self.class_ids = annotations.annotator_ids, annotations.class_ids

    @cached_property
    def part(self) -> Part:
        """All blocks."""
        return Part.of_annotations(self.annotations)

    @property
    def fingerprint(self) -> str:
        """The same for the same labels."""
        return fingerprint(self.annotations)

    @property
    def has_gold(self) -> bool:
        """Whether some truths are known."""
        return self.annotations.gold is not None

    def _each(self, what: str, *arguments: Any, tell: Callable[[int], None] | None = None) -> Iterable[Any]:
        self.part.tell = tell
        return [getattr(self.part, what)(*arguments)]

    @property
    def known_items(self) -> Ints:
        """The labelled items of known truth, ascending."""
        return _known(self.annotations.gold, self.annotations.indptr)

    def select(self, items: Ints) -> Annotations:
        """Return some items."""
        return self.annotations if items.size == self.n_items else self.annotations.select_items(items)

    def posterior(self, model: DawidSkene) -> Floats:
        """Return the posterior of every item, (N, K)."""
        return model.posterior(self.annotations)

    def vote_posterior(self) -> Floats:
        """Return the vote shares of every item, (N, K)."""
        a = self.annotations
        return vote_shares(a.indptr, a.label, a.gold, a.n_classes)


class OnDisk(Passes):
    """Passes over a store; its pages are released after use unless told to ``keep`` them."""

    def __init__(self, store: Store, *, keep: bool = False, threads: int | None = None) -> None:
        self.store = store
        self.n_items, self.n_labels, self.origin = store.n_items, store.n_labels, store.origin
        self.annotator_ids, self.class_ids = store.annotator_ids, store.class_ids
        self.part = Part.of_store(store, keep=keep, threads=threads)

    @property
    def fingerprint(self) -> str:
        """The same for the same labels."""
        return self.store.fingerprint

    @property
    def has_gold(self) -> bool:
        """Whether some truths are known."""
        return self.store.gold is not None

    def _each(self, what: str, *arguments: Any, tell: Callable[[int], None] | None = None) -> Iterable[Any]:
        self.part.tell = tell
        return [getattr(self.part, what)(*arguments)]

    @property
    def known_items(self) -> Ints:
        """The labelled items of known truth, ascending."""
        return _known(self.store.gold, self.store.indptr)

    def select(self, items: Ints) -> Annotations:
        """Return some items, by number."""
        s = self.store
        indptr, at = entries_of(s.indptr, items)
        made = Annotations(
            indptr,
            s.annotator[at],
            s.label[at],
            items=Ids(items),
            annotators=s.annotator_ids,
            classes=s.class_ids,
            gold=None if s.gold is None else s.gold[items],
            origin=s.origin,
        )
        if self.part.release:
            s.release()
        return made


def _known(gold: Codes | None, indptr: Ints) -> Ints:
    known = np.flatnonzero(np.empty(0) if gold is None else np.asarray(gold) >= 0)
    return known[indptr[known + 1] > indptr[known]]


#: Input of methods that run on every engine.
Labels = Annotations | Passes


def passes_of(data: Labels) -> Passes:
    """Return the passes over these labels."""
    return data if isinstance(data, Passes) else InMemory(data)
