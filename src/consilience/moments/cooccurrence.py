"""Label counts of pairs or triples of annotators on the items that all of them labelled.

For annotators m and j with ``S[m, j]`` items in common (Ibrahim & Fu 2022, eq. (3); with missing labels Traganitis
2019, eq. (3.29)):

    R[m, j](a, b) = #{items of which m said a and j said b} / S[m, j].

Only pairs that share an item are stored: memory grows with the observed pairs, not with M².  Counts of disjoint sets
of items add up.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.exceptions import MethodError, ParameterError
from consilience.files import load_arrays, save_arrays
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.cooccurrence import MOST_LABELS, count_pairs, count_triples, triples_fit
from consilience.moments._counts import LabelCounts

__all__ = ["CoOccurrences", "SharedItems", "check_triples", "pair_moments", "triple_moments"]

_FORMAT = {"format": "consilience.CoOccurrences", "version": 1}


def pair_moments(annotations: Annotations, most: int = MOST_LABELS) -> CoOccurrences:
    """Count the label pairs of all pairs of annotators in one pass over the items.

    Where there are too many annotators for a table, at most ``most`` labels of an item are used.
    """
    a = annotations
    who, counts = count_pairs(a.indptr, a.annotator, a.label, a.n_annotators, a.n_classes, most=most)
    return CoOccurrences(who, counts, a.annotator_ids, a.class_ids)


def triple_moments(annotations: Annotations) -> CoOccurrences:
    """Count the label triples of all triples of annotators in one pass; for a few dozen annotators."""
    a = annotations
    check_triples(a.n_annotators, a.n_classes)
    who, counts = count_triples(a.indptr, a.annotator, a.label, a.n_annotators, a.n_classes)
    return CoOccurrences(who, counts, a.annotator_ids, a.class_ids)


def check_triples(n_annotators: int, n_classes: int) -> None:
    """Raise MethodError if the triples of so many annotators are too many to count."""
    if not triples_fit(n_annotators, n_classes):
        raise MethodError(
            f"triples of {n_annotators} annotators and {n_classes} classes are too many to count; "
            "select fewer annotators with select_annotators"
        )


class SharedItems(NamedTuple):
    """Annotators who share items, as compressed rows: m shares items with ``neighbour[indptr[m]:indptr[m + 1]]``."""

    indptr: Ints
    neighbour: Ints
    pair: Ints  #: row of the pair's block


@dataclass(frozen=True, eq=False)
class CoOccurrences(LabelCounts):
    """Label counts of the pairs (or triples) of annotators that share an item.

    Parameters
    ----------
    who
        Annotators of each pair, (P, 2) with m < j, rows in lexicographic order; (P, 3) for triples.
    counts
        ``counts[p, a, b]``: number of items of which the first of pair p said a and the second b.  Integers from data;
        any nonnegative numbers where blocks are known otherwise (``counts = R``: every pair counts the same).
    annotators, classes
        Their names.
    """

    _name = "co-occurrences"

    def __post_init__(self) -> None:
        who = np.ascontiguousarray(self.who, np.int32)
        counts = np.ascontiguousarray(self.counts)
        K, order = len(self.classes), who.shape[1] if who.ndim == 2 else 0
        if order not in (2, 3) or counts.shape != (len(who), *[K] * order):
            raise ParameterError(
                f"co-occurrences need who of shape (P, 2) or (P, 3) and counts of one axis of length {K} for each, "
                f"not {who.shape} and {counts.shape}"
            )
        if who.size and not (who[:, 0].min() >= 0 and who.max() < len(self.annotators) and np.all(np.diff(who) > 0)):
            raise ParameterError("the annotators of a pair must be different, known and in increasing order")
        self._freeze(who, counts)

    @classmethod
    def from_blocks(
        cls, blocks: Mapping[tuple[Any, Any], Any], *, annotators: Any = None, classes: Any = None
    ) -> CoOccurrences:
        """Return co-occurrences of blocks that were counted or computed elsewhere.

        Parameters
        ----------
        blocks
            ``blocks[m, j][a, b]``: how often annotator m said class a and j class b, in counts or as frequencies, by
            the names of both.  A block that sums to S counts as S common items; a pair that is missing was not
            observed.
        annotators, classes
            Their names, in the order of the model; by default all names of the blocks, sorted, and 0 … K - 1.
        """
        named = [name for pair in blocks for name in pair]
        people = Ids(sorted(set(named)) if annotators is None else list(annotators))
        tables = [np.asarray(block, np.float64) for block in blocks.values()]
        K = len(tables[0]) if tables else 0
        if not tables or not all(
            t.shape == (K, K) and np.isfinite(t).all() and t.min() >= 0 and t.sum() for t in tables
        ):
            raise ParameterError(
                "blocks must map pairs of annotators to square matrices of one size, with no negative entry and a "
                f"positive sum; the shapes are {sorted({t.shape for t in tables})}"
            )
        who = np.asarray(people.codes_of(named), np.int64).reshape(-1, 2)
        if (who < 0).any():
            unknown = named[int(np.argmax(who.ravel() < 0))]
            raise ParameterError(f"the blocks name {unknown!r}, who is not among the annotators")
        turned = who[:, 0] > who[:, 1]
        counts = np.where(turned[:, None, None], np.stack(tables).transpose(0, 2, 1), np.stack(tables))
        who = np.sort(who, axis=1)
        order = np.lexsort((who[:, 1], who[:, 0]))
        return cls(who[order], counts[order], people, Ids.range(K) if classes is None else Ids(list(classes)))

    @property
    def missing(self) -> float:
        """Share of the pairs (triples) of annotators that have no item in common."""
        possible = 1.0
        for i in range(self.order):
            possible *= (self.n_annotators - i) / (i + 1)
        return 1.0 - len(self) / possible if possible else 0.0

    @cached_property
    def neighbours(self) -> SharedItems:
        """Annotators who share items."""
        P = len(self)
        here = np.concatenate([self.who[:, 0], self.who[:, 1]])
        there = np.concatenate([self.who[:, 1], self.who[:, 0]])
        # pairs come sorted by (m, j): a stable sort by m alone leaves j in order, smaller neighbours first
        order = np.concatenate([np.arange(P, 2 * P), np.arange(P)])
        order = order[np.argsort(here[order], kind="stable")]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(here, minlength=self.n_annotators))])
        return SharedItems(indptr, there[order].astype(np.int64), (order % P if P else order).astype(np.int64))

    def block(self, *who: int) -> Floats | None:
        """Return ``R[m, j]``, (K, K), or None when the annotators share no item."""
        block = super().block(*sorted(who))
        return block if block is None else block.transpose(np.argsort(np.argsort(who)))

    def __repr__(self) -> str:
        what = "pairs" if self.order == 2 else "triples"
        return f"<CoOccurrences: {len(self)} {what} of {self.n_annotators} annotators, {self.n_classes} classes>"

    # ---- files ------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.npz`` file; names are stored as JSON inside it, without pickles."""
        names = {"classes": self.classes.to_json(), "annotators": self.annotators.to_json()}
        save_arrays(path, {**_FORMAT, **names}, who=self.who, counts=self.counts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CoOccurrences:
        """Read a file written by :meth:`save`."""
        names, arrays = load_arrays(path, _FORMAT, ("who", "counts"), "co-occurrences written by CoOccurrences.save")
        return cls(arrays["who"], arrays["counts"], Ids.from_json(names["annotators"]), Ids.from_json(names["classes"]))
