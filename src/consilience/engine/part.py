"""Passes over some blocks of items: what every engine runs, in one process or in each of many.

A part has a share of the blocks (:class:`consilience.kernels.blocks.Share`), with arrays in memory or memory-mapped.
The results of parts add up to the same bits, whichever process has which blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.cooccurrence import MOST_LABELS, count_pairs, count_triples, pairs_fit
from consilience.kernels.em import Statistics, Sweep
from consilience.kernels.grouping import components
from consilience.kernels.subtypes import SubtypeSweep
from consilience.kernels.votes import said_counts, share_parts, vote_shares

if TYPE_CHECKING:  # only for labels on disk
    from consilience.engine.store import Store

__all__ = ["Part", "Survey", "join"]

#: Bytes of keys that counting pairs sorts at a time, where it cannot use a table.
_KEYS = 1 << 28
#: Labels per piece of a survey.
_LOOK = 1 << 22


class Survey(NamedTuple):
    """What the labels show without any model."""

    said: Ints  #: how often each annotator gave each label, (M, K)
    component: Ints  #: connected component of each annotator, linked by shared items, (M,)
    longest: int  #: the largest number of labels of one item
    unlabelled: int  #: items without a label
    blank: int  #: items with neither a label nor a known truth
    known: Ints  #: items of known truth, by class, (K,)


class Part(Sweep):
    """Arrays of some items, and all passes over them: the E-step (:class:`Sweep`), votes, pairs and a survey.

    ``release`` is called with every block that a pass has finished; where arrays are mapped, it releases the pages.
    """

    def __init__(
        self,
        indptr: Ints,
        annotator: Codes,
        label: Codes,
        gold: Codes | None,
        n_annotators: int,
        n_classes: int,
        *,
        share: blocks.Share | None = None,
        release: Callable[[int, int], None] | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__(
            indptr, annotator, label, gold, n_annotators, n_classes, share=share, done=release, threads=threads
        )
        self.data, self.sizes = (indptr, annotator, label), (n_annotators, n_classes)
        self.known = gold
        self.release = release
        self.tell: Callable[[int], None] | None = None  #: called with the number of labels that a pass has finished

    @classmethod
    def of_annotations(cls, annotations: Annotations) -> Part:
        """Return all items of labels in memory."""
        a = annotations
        return cls(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes)

    @classmethod
    def of_store(
        cls, store: Store, share: blocks.Share | None = None, *, keep: bool = False, threads: int | None = None
    ) -> Part:
        """Return items of labels on disk; unless told to ``keep`` pages, release those of each finished block."""
        return cls(
            _plain(store.indptr),
            _plain(store.annotator),
            _plain(store.label),
            None if store.gold is None else _plain(store.gold),
            store.n_annotators,
            store.n_classes,
            share=share,
            release=None if keep else store.release,
            threads=threads,
        )

    def portion(self, first: int, stop: int) -> dict[str, Any]:
        """Return the arguments of a part with some of these blocks and the arrays of their items only."""
        indptr, annotator, label = self.data
        cut = self.share.blocks[first:stop]
        low, high = cut[0][0], cut[-1][1]
        ends = indptr[low : high + 1]
        names = dict(zip(("n_annotators", "n_classes"), self.sizes, strict=True))
        return {
            "indptr": ends - ends[0],
            "annotator": annotator[ends[0] : ends[-1]],
            "label": label[ends[0] : ends[-1]],
            "gold": None if self.known is None else self.known[low:high],
            "share": blocks.Share([(a - low, b - low) for a, b in cut], self.share.first + first, self.share.n),
            **names,
        }

    @property
    def n_labels(self) -> int:
        """Labels of this part."""
        indptr, *_ = self.data
        return int(indptr[self.share.blocks[-1][1]] - indptr[self.share.blocks[0][0]]) if self.share.blocks else 0

    def parts_without_gold(self, prior: Floats, confusions: Floats) -> dict[blocks.Node, Statistics]:
        """Run the E-step, known truths ignored."""
        return (self if self.known is None else self._without_gold).parts(prior, confusions)

    @cached_property
    def _without_gold(self) -> Part:
        return Part(*self.data, None, *self.sizes, share=self.share, release=self.release, threads=self.threads)

    def subtypes(self, weights: Floats, tables: Floats) -> dict[blocks.Node, Statistics]:
        """Run the E-step of a model with subtypes: weights (K L,) and tables (M, K, K L)."""
        L = weights.size // self.sizes[1]
        options: Any = {"share": self.share, "done": self.release, "threads": self.threads}
        return SubtypeSweep(*self.data, self.known, *self.sizes, L, **options).parts(weights, tables)

    def votes(self) -> dict[blocks.Node, Statistics]:
        """Return the M-step sums of taking vote shares for the posterior."""
        options: Any = {"share": self.share, "done": self._finished, "threads": self.threads}
        return share_parts(*self.data, self.known, *self.sizes, **options)

    def gold_counts(self) -> tuple[Ints, Ints]:
        """Count the labels i of annotator m on items of known class k, (M, K, K), and those items by class, (K,)."""
        M, K = self.sizes
        counts, items = np.zeros(M * K * K, np.int64), np.zeros(K, np.int64)
        for indptr, annotator, label, truth in self._known_items():
            of_label = np.repeat(truth, np.diff(indptr))
            np.add.at(counts, (annotator.astype(np.int64) * K + label) * K + of_label, 1)
            items += np.bincount(truth, minlength=K)
        return counts.reshape(M, K, K), items

    def gold_taken_for(self, prior: Floats, confusions: Floats, typical: float) -> Floats:
        """Return how many items of known class k are taken for c by their labels alone, (K, K): expected numbers.

        Items whose labels agree less than is ``typical``, Σ share² - 1 / K, count less.
        """
        K = self.sizes[1]
        taken = np.zeros((K, K))
        for indptr, annotator, label, truth in self._known_items():
            q, _ = Sweep(indptr, annotator, label, None, *self.sizes).posterior(prior, confusions)
            agreement = np.square(vote_shares(indptr, label, None, K)).sum(axis=1) - 1.0 / K
            np.add.at(taken.T, truth, q * np.minimum(agreement / typical, 1.0)[:, None])
        return taken

    def _known_items(self) -> Iterator[tuple[Ints, Codes, Codes, Ints]]:
        """Yield the labels of the items that have gold, in pieces, and their gold."""
        indptr, annotator, label = self.data
        for first, stop in self._pieces(_LOOK) if self.known is not None else ():
            known = np.asarray(self.known[first:stop])  # type: ignore[index]
            lengths = np.diff(indptr[first : stop + 1])
            asked = np.flatnonzero((known >= 0) & (lengths > 0))
            if asked.size:
                ends = np.concatenate([[0], np.cumsum(lengths[asked])])
                at = np.repeat(indptr[first + asked] - ends[:-1], lengths[asked]) + np.arange(ends[-1])
                yield ends, annotator[at], label[at], known[asked].astype(np.int64)

    def pairs(self, most: int = MOST_LABELS) -> tuple[Codes, Codes]:
        """Count the label pairs of all pairs of annotators, as :func:`consilience.kernels.cooccurrence.count_pairs`."""
        options: Any = {"done": self._finished, "threads": self.threads, "most": most}
        if pairs_fit(*self.sizes):
            return count_pairs(*self.data, *self.sizes, passed=None if self._whole else self.share.blocks, **options)
        pieces = [(0, self.data[0].size - 1)] if self._whole else self._pieces(_KEYS / 8, _pairs_before)
        return count_pairs(*self.data, *self.sizes, passed=pieces, **options)

    def triples(self, among: Ints) -> tuple[Codes, Codes]:
        """Count the label triples of some annotators, as :func:`consilience.kernels.cooccurrence.count_triples`."""
        options: Any = {"done": self._finished, "threads": self.threads, "among": among}
        return count_triples(*self.data, *self.sizes, passed=None if self._whole else self.share.blocks, **options)

    def survey(self) -> Survey:
        """Count labels, components, unlabelled items and known truths."""
        indptr, annotator, label = self.data
        M, K = self.sizes
        together = np.zeros(M, np.int64)
        known_together: list[bool] = []  # once one piece links all annotators, the others need not

        def look(first: int, stop: int) -> Survey:
            ends = indptr[first : stop + 1]
            lengths, (low, high) = np.diff(ends), (ends[0], ends[-1])
            by = annotator[low:high]
            known = np.empty(0, np.int32) if self.known is None else self.known[first:stop]
            component = together if known_together else components(ends - low, by, M)
            if not component.any():
                known_together.append(True)
            made = Survey(
                said_counts(by, label[low:high], M, K),
                component,
                int(lengths.max(initial=0)),
                int((lengths == 0).sum()),
                int((lengths == 0).sum() if self.known is None else ((lengths == 0) & (known < 0)).sum()),
                np.bincount(known[known >= 0], minlength=K),
            )
            self._finished(first, stop)
            return made

        return reduce(join, blocks.run(look, self._pieces(_LOOK), self.threads))

    # ---- inside --------------------------------------------------------------------------------------------

    @property
    def _whole(self) -> bool:
        """Whether all labels are here and in memory, so that counts need not follow the blocks."""
        return self.release is None and len(self.share.blocks) == self.share.n

    def _finished(self, first: int, stop: int) -> None:
        if self.tell:
            self.tell(int(self.data[0][stop] - self.data[0][first]))
        if self.release:
            self.release(first, stop)

    def _pieces(self, most: float, of_labels: Callable[[Ints], Ints] = lambda ends: ends) -> list[tuple[int, int]]:
        """Cut every block into pieces of about ``most`` labels, or of another quantity that adds up over items."""
        made = []
        for first, stop in self.share.blocks:
            sums = of_labels(self.data[0][first : stop + 1])
            n = max(1, -(-int(sums[-1] - sums[0]) // int(most)))
            edges = np.searchsorted(sums, sums[0] + np.arange(1, n) * ((sums[-1] - sums[0]) / n)) + first
            made += [(a, b) for a, b in pairwise([first, *edges.tolist(), stop]) if b > a]
        return made or [(0, 0)]


def join(one: Survey, other: Survey) -> Survey:
    """Join the surveys of two sets of items."""
    return Survey(
        one.said + other.said,
        _joined(one.component, other.component),
        max(one.longest, other.longest),
        one.unlabelled + other.unlabelled,
        one.blank + other.blank,
        one.known + other.known,
    )


def _plain(mapped: Codes) -> Codes:
    """Return a mapped array as kernels expect it."""
    return np.asarray(mapped).view(np.ndarray)


def _joined(one: Ints, other: Ints) -> Ints:
    """Return the connected components of the union of two partitions."""
    shift, end = int(one.max(initial=-1)) + 1, int(other.max(initial=-1)) + 1
    edges = np.stack([one, other + shift], axis=1)
    return components(2 * np.arange(one.size + 1), edges.ravel(), shift + end)[one]


def _pairs_before(ends: Ints) -> Ints:
    """Return the number of label pairs before each item."""
    lengths = np.diff(ends)
    return np.concatenate([[0], np.cumsum(lengths * (lengths - 1) // 2)])
