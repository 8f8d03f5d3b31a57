"""Passes over some blocks of items: what every engine runs, in one process or in each of many.

A part has a share of the blocks (:class:`consilience.kernels.blocks.Share`), its arrays in memory or in memory maps.
Whatever a pass leaves behind adds up with what it leaves on other parts, to the same bits whoever has which blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.store import Store
from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.cooccurrence import count_pairs, pairs_fit
from consilience.kernels.em import SMALL, Statistics, Sweep
from consilience.kernels.grouping import components
from consilience.kernels.open_items import Look, OpenItems
from consilience.kernels.votes import said_counts, share_parts, vote_shares, vote_statistics

__all__ = ["Part", "Survey", "join"]

#: Bytes of keys that counting pairs may sort at a time, where it cannot use a table.
_KEYS = 1 << 28
#: Labels that a survey looks at at a time.
_LOOK = 1 << 22


class Survey(NamedTuple):
    """What a look at the labels tells without any model."""

    said: Ints  #: how often each annotator gave each label, (M, K)
    component: Ints  #: two annotators who share an item, or a third who shares one with both, have the same mark, (M,)
    longest: int  #: the most labels that an item has
    unlabelled: int  #: items without a label
    known: Ints  #: items of known truth, by class, (K,)


class Part:
    """Arrays of some items, and the passes over them.

    Parameters
    ----------
    indptr, annotator, label, gold
        As in :class:`consilience.Annotations`, of these items alone or of all.
    n_annotators, n_classes
        M and K.
    share
        The blocks of this part; None: all.
    release
        Told of every block ``(first, stop)`` that a pass is done with; where arrays are mapped, it lets the pages go.
    threads
        How many to use, where it is not all.
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
        self.data = indptr, annotator, label
        self.gold, self.shape = gold, (n_annotators, n_classes)
        self.share = share or blocks.Share.all_of(blocks.cut(indptr, n_annotators * n_classes**2))
        self.release, self.threads = release, threads
        self.tell: Callable[[int], None] | None = None
        self._sweeps: dict[bool, Sweep] = {}
        self._looked: tuple[Floats, Floats] | None = None  # the parameters of the last look

    @classmethod
    def of_annotations(cls, annotations: Annotations) -> Part:
        """Take all items of labels in memory."""
        a = annotations
        return cls(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes)

    @classmethod
    def of_store(
        cls, store: Store, share: blocks.Share | None = None, *, keep: bool = False, threads: int | None = None
    ) -> Part:
        """Take items of labels on disk; unless told to ``keep`` pages, let each block's go when it is done."""
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
        """Give the arguments that make a part of some of these blocks, with the arrays of its own items alone."""
        indptr, annotator, label = self.data
        cut = self.share.blocks[first:stop]
        low, high = cut[0][0], cut[-1][1]
        ends = indptr[low : high + 1]
        names = dict(zip(("n_annotators", "n_classes"), self.shape, strict=True))
        return {
            "indptr": ends - ends[0],
            "annotator": annotator[ends[0] : ends[-1]],
            "label": label[ends[0] : ends[-1]],
            "gold": None if self.gold is None else self.gold[low:high],
            "share": blocks.Share([(a - low, b - low) for a, b in cut], self.share.first + first, self.share.n),
            **names,
        }

    @property
    def n_labels(self) -> int:
        """Labels of this part."""
        indptr, *_ = self.data
        return int(indptr[self.share.blocks[-1][1]] - indptr[self.share.blocks[0][0]]) if self.share.blocks else 0

    def sweep(self, prior: Floats, confusions: Floats, gold: bool = True) -> dict[blocks.Node, Statistics]:
        """Run the E-step; without ``gold``, known truths are not looked at."""
        return self._sweep(gold).parts(prior, confusions)

    def look(self, prior: Floats, confusions: Floats) -> dict[blocks.Node, Look]:
        """Run the E-step, and list the items that are open."""
        self._looked = prior, confusions
        return self._open.look(prior, confusions)

    def sweep_open(
        self, looked: tuple[Floats, Floats], prior: Floats, confusions: Floats
    ) -> dict[blocks.Node, Statistics]:
        """Run the E-step over the items that were open at the look under the parameters ``looked``.

        Where it was another part that looked, as with a worker that takes over from a dead one, it is done again.
        """
        if self._looked is None or not all(map(np.array_equal, self._looked, looked)):
            self.look(*looked)
        return self._open.parts(prior, confusions)

    def votes(self) -> dict[blocks.Node, Statistics]:
        """Count what everybody said, the votes' shares being the truth."""
        indptr, annotator, label = self.data
        M, K = self.shape
        if self.share.n == 1 and label.size < SMALL:
            made = vote_statistics(*self.data, vote_shares(indptr, label, self.gold, K), M)
            self._done(0, indptr.size - 1)
            return {(0, 1): made}
        return share_parts(
            indptr, annotator, label, self.gold, M, K, share=self.share, done=self._done, threads=self.threads
        )

    def pairs(self) -> tuple[Codes, Codes]:
        """Count the label pairs of all pairs of annotators, as :func:`consilience.kernels.cooccurrence.count_pairs`."""
        whole = self.release is None and len(self.share.blocks) == self.share.n
        if pairs_fit(*self.shape):
            cut = None if whole else self.share.blocks
            return count_pairs(*self.data, *self.shape, passed=cut, done=self._done, threads=self.threads)
        pieces = [(0, self.data[0].size - 1)] if whole else self._pieces(_KEYS / 8, _pairs_before)
        return count_pairs(*self.data, *self.shape, passed=pieces, done=self._done, threads=self.threads)

    def survey(self) -> Survey:
        """Look at the labels."""
        indptr, annotator, label = self.data
        M, K = self.shape
        together = np.zeros(M, np.int64)
        known_together: list[bool] = []  # once a piece shows that all belong together, no other needs to

        def look(first: int, stop: int) -> Survey:
            ends = indptr[first : stop + 1]
            lengths, (low, high) = np.diff(ends), (ends[0], ends[-1])
            by = annotator[low:high]
            known = np.empty(0, np.int32) if self.gold is None else self.gold[first:stop]
            component = together if known_together else components(ends - low, by, M)
            if not component.any():
                known_together.append(True)
            made = Survey(
                said_counts(by, label[low:high], M, K),
                component,
                int(lengths.max(initial=0)),
                int((lengths == 0).sum()),
                np.bincount(known[known >= 0], minlength=K),
            )
            self._done(first, stop)
            return made

        return reduce(join, blocks.run(look, self._pieces(_LOOK), self.threads))

    # ---- inside --------------------------------------------------------------------------------------------

    @cached_property
    def _open(self) -> OpenItems:
        return OpenItems(self._sweep(True))

    def _sweep(self, gold: bool) -> Sweep:
        gold = gold and self.gold is not None
        if gold not in self._sweeps:
            self._sweeps[gold] = Sweep(
                *self.data,
                self.gold if gold else None,
                *self.shape,
                share=self.share,
                done=self._done if self.release else None,
                threads=self.threads,
            )
        return self._sweeps[gold]

    def _done(self, first: int, stop: int) -> None:
        if self.tell:
            self.tell(int(self.data[0][stop] - self.data[0][first]))
        if self.release:
            self.release(first, stop)

    def _pieces(self, most: float, of_labels: Callable[[Ints], Ints] = lambda ends: ends) -> list[tuple[int, int]]:
        """Cut every block into pieces of at most about ``most`` labels, or of what else adds up over items."""
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
        one.known + other.known,
    )


def _plain(mapped: Codes) -> Codes:
    """Give a mapped array as kernels take it."""
    return np.asarray(mapped).view(np.ndarray)


def _joined(one: Ints, other: Ints) -> Ints:
    """Give the finest components in which those who are together in either of two are together."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = int(one.max(initial=-1)) + 1, int(other.max(initial=-1)) + 1
    edges = coo_array((np.ones(one.size, np.int8), (one, other + n[0])), shape=(sum(n), sum(n)))
    made: Ints = connected_components(edges, directed=False)[1][one].astype(np.int64)
    return made


def _pairs_before(ends: Ints) -> Ints:
    """Give the number of label pairs before each item."""
    lengths = np.diff(ends)
    return np.concatenate([[0], np.cumsum(lengths * (lengths - 1) // 2)])
