"""The past of a stream: labels that are settled, kept as sums.

=================== ======================================================= ==========
name                content, for settled labels                             shape
=================== ======================================================= ==========
``counts``          expected number of times that annotator m said i of k   (M, K, K)
``class_counts``    expected number of items of each class                  (K,)
``belief``          posterior of each item                                  (N, K)
``votes``           votes on each item, for majority voting only            (N, K)
``n``               number of labels of each item                           (N,)
``gold``            known class of each item, -1 if unknown                 (N,)
``since``           ``log_keep`` when the item was settled                  (N,)
``mask``            who labelled the item: two bits of 64 per annotator     (N,)
``likelihood``      log-probability of the item's labels                    (N,)
``lot``             sort key of items within one update                     (N,)
=================== ======================================================= ==========

``latest`` and ``latest_classes`` are the counts including the labels held at the last fit; the next fit starts there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.em import Statistics
from consilience.kernels.votes import vote_counts, vote_statistics
from consilience.moments.cooccurrence import CoOccurrences, pair_moments
from consilience.streams.em import StreamFit
from consilience.streams.names import Rows

__all__ = ["Past", "sums_of"]


class Past:
    """Sums of settled labels; the arrays of items and annotators grow."""

    def __init__(self, method: str) -> None:
        self.items = Rows(
            belief=np.zeros((0, 0)),
            n=np.zeros(0, np.int64),
            gold=np.zeros(0, np.int32),
            since=np.zeros(0),
            mask=np.zeros(0, np.uint64),
            likelihood=np.zeros(0),
            lot=np.zeros(0, np.uint64),
        )
        if method == "majority":
            self.items["votes"] = np.zeros((0, 0))
        self.annotators = Rows(counts=np.zeros((0, 0, 0)), latest=np.zeros((0, 0, 0)))
        self.counts_pairs = method.startswith("rob-symnmf")
        self.classes = Ids([])
        self.class_counts, self.latest_classes = np.zeros(0), np.zeros(0)
        self.pairs: CoOccurrences | None = None
        self.n_labels = 0
        self.log_likelihood = 0.0  #: of settled labels, each under the parameters at that time
        self.log_keep = 0.0  #: logarithm of the weight that forgetting has left to the first class counts

    # ---- reading ----------------------------------------------------------------------------------------

    @property
    def sums(self) -> Statistics:
        """The counts of all annotators and classes."""
        return Statistics(self.annotators["counts"], self.class_counts, float("nan"))

    def is_settled(self, items: Ints) -> Any:
        """Return a mask of the items that have settled labels."""
        return self.items["n"][items] > 0

    def posterior(self, items: Any) -> Floats:
        """Return the posterior of items from settled labels (for majority voting, shares of votes) and from gold."""
        belief: Floats = self.items["belief"][items]
        if "votes" not in self.items:
            return belief
        votes, gold = self.items["votes"][items], self.items["gold"][items]
        total = votes.sum(axis=1, keepdims=True)
        shares: Floats = np.where(total > 0, votes / np.maximum(total, 1.0), belief)
        shares[gold >= 0] = np.eye(len(self.classes))[gold[gold >= 0]]
        return shares

    def classes_without(self, items: Ints) -> Floats:
        """Return the class counts without these items."""
        old = items[self.is_settled(items)]
        left: Floats = self.class_counts - self._weight(old) @ self.posterior(old)
        return np.maximum(left, 0.0)

    def _weight(self, items: Ints) -> Floats:
        """Return the weight that forgetting has left to these items in the class counts."""
        weight: Floats = np.exp(self.log_keep - self.items["since"][items])
        return weight

    def pairs_with(self, labels: Annotations, active: Ints, annotators: Ids) -> CoOccurrences | None:
        """Return the pair counts of the past and of these labels together; None for methods that do not use pairs."""
        if not self.counts_pairs:
            return None
        here = pair_moments(labels)
        new = CoOccurrences(active[here.who], here.counts, annotators, self.classes)
        return (
            new
            if self.pairs is None
            else CoOccurrences(self.pairs.who, self.pairs.counts, annotators, self.classes) + new
        )

    def repeats(self, item: Ints, annotator: Ints) -> tuple[int, bool]:
        """Estimate how many labels repeat a settled one; also return whether the estimate is practically exact.

        For an annotator who is new to an item, both bits are already set with probability (bits set / 64)².
        """
        mask = self.items["mask"][item]
        asked = mask != 0
        mask, bits = mask[asked], _bits(annotator[asked])
        hits = int(((mask & bits) == bits).sum())
        by_chance = float(((np.bitwise_count(mask) / 64.0) ** 2).sum())
        # hits = repeats + (labels - repeats) · chance
        found = round((hits - by_chance) / (1.0 - by_chance / max(mask.size, 1))) if by_chance < mask.size else 0
        return (found if found > 3.0 * by_chance**0.5 else 0), by_chance < 0.1

    # ---- changing ---------------------------------------------------------------------------------------

    def grow(self, n_items: int, n_annotators: int) -> None:
        """Add room for new items and annotators."""
        self.items.grow(n_items, gold=-1)
        self.annotators.grow(n_annotators)

    def fix(self, items: Ints, gold: Any) -> None:
        """Fix items at their gold labels from now on."""
        old, before = self.is_settled(items), self.posterior(items)
        sure = np.eye(len(self.classes))[gold]
        self.items["gold"][items] = gold
        self.class_counts += self._weight(items[old]) @ (sure[old] - before[old])
        self.items["belief"][items] = sure

    def forget(self, annotators: Ints, share: float) -> None:
        """Reduce the counts of these annotators, of their pairs and of the classes by a share."""
        keep = 1.0 - share
        for name in ("counts", "latest"):
            self.annotators[name][annotators] *= keep
        self.class_counts *= keep
        self.latest_classes *= keep
        self.log_keep += float(np.log(keep))
        if self.pairs is not None:
            here = np.zeros(self.annotators.size, np.bool_)
            here[annotators] = True
            met = here[self.pairs.who].any(axis=1)
            counts = self.pairs.counts * np.where(met, keep, 1.0)[:, None, None]
            self.pairs = CoOccurrences(self.pairs.who, counts, self.pairs.annotators, self.pairs.classes)

    def add(
        self, items: Ints, active: Ints, labels: Annotations, found: StreamFit, likelihood: Floats, annotators: Ids
    ) -> None:
        """Add labels to the sums; their codes refer to ``items`` and ``active``."""
        new, rows = sums_of(labels, found.posterior), self.items
        self.pairs = self.pairs_with(labels, active, annotators)
        self.annotators["counts"][active] += new.counts
        self.class_counts = self.classes_without(items) + new.class_counts
        rows["belief"][items] = found.posterior if found.hint is None else found.hint
        if "votes" in rows:
            rows["votes"][items] += vote_counts(labels.indptr, labels.label, labels.n_classes)
        rows["n"][items] += labels.labels_per_item
        rows["since"][items] = self.log_keep
        rows["mask"][items] |= np.bitwise_or.reduceat(_bits(active[labels.annotator]), labels.indptr[:-1])
        self.n_labels += labels.n_labels
        rows["likelihood"][items] += likelihood
        self.log_likelihood += float(likelihood.sum())

    def remove(self, items: Ints, active: Ints, labels: Annotations, annotators: Ids) -> None:
        """Remove all labels of these items from the sums."""
        old, rows = sums_of(labels, self.posterior(items)), self.items
        counts = self.annotators["counts"]
        counts[active] = np.maximum(counts[active] - old.counts, 0.0)
        self.class_counts = self.classes_without(items)
        if self.pairs is not None:
            here = pair_moments(labels)
            gone = CoOccurrences(active[here.who], -here.counts.astype(np.float64), annotators, self.classes)
            left = CoOccurrences(self.pairs.who, self.pairs.counts, annotators, self.classes) + gone
            met = left.totals > 1e-9
            self.pairs = CoOccurrences(left.who[met], left.counts[met], annotators, self.classes)
        if "votes" in rows:
            rows["votes"][items] = 0.0
        self.n_labels -= labels.n_labels
        self.log_likelihood -= float(rows["likelihood"][items].sum())
        for name in ("n", "mask", "likelihood"):
            rows[name][items] = 0

    def revise(self, items: Ints, active: Ints, labels: Annotations, posterior: Floats) -> None:
        """Replace the contribution of items to the sums, given all their labels and a new posterior."""
        if "votes" in self.items:
            self.items["belief"][items] = posterior
            return
        old, new = sums_of(labels, self.posterior(items)), sums_of(labels, posterior)
        counts = self.annotators["counts"]
        counts[active] = np.maximum(counts[active] + new.counts - old.counts, 0.0)
        self.class_counts = self.classes_without(items) + self._weight(items) @ posterior
        self.items["belief"][items] = posterior

    def widen(self, classes: Ids) -> Ints:
        """Add new classes, keeping ascending order; return the new code of every old one."""
        K = len(classes)
        place = classes.codes_of(self.classes.to_arrow()) if len(self.classes) else np.empty(0, np.int64)
        belief = _widened(self.items["belief"], place, K, 1)
        if self.n_labels:
            fresh = ~np.isin(np.arange(K), place)
            belief += np.where(self.items["gold"] >= 0, 0.0, self._odds_of_a_new_class())[:, None] * fresh
            belief /= np.maximum(belief.sum(axis=1, keepdims=True), 1e-300)
        self.items["belief"] = belief
        if "votes" in self.items:
            self.items["votes"] = _widened(self.items["votes"], place, K, 1)
        self.items["gold"] = np.append(place, -1)[self.items["gold"]].astype(np.int32)
        for name in ("counts", "latest"):
            self.annotators[name] = _widened(self.annotators[name], place, K, 1, 2)
        self.class_counts, self.latest_classes = (
            _widened(x, place, K, 0) for x in (self.class_counts, self.latest_classes)
        )
        if self.pairs is not None:
            wide = _widened(self.pairs.counts, place, K, 1, 2)
            self.pairs = CoOccurrences(self.pairs.who, wide, self.pairs.annotators, classes)
        self.classes = classes
        return place

    def _odds_of_a_new_class(self) -> Floats:
        """Return the unnormalised probability that an item is of a class unknown when it was labelled, (N,).

        Each of its labels would then be an error: belief in the best class, times the ratio of errors to right answers
        of the crowd for each label, times half an item out of all.
        """
        crowd = self.annotators["counts"].sum(axis=0) + 0.5
        right, total, K = np.trace(crowd), crowd.sum(), len(crowd)
        rarer = min((total - right) / ((K - 1) * right), 1.0) if K > 1 else 0.5 / total
        n = self.items["n"]
        odds = self.items["belief"].max(axis=1, initial=0.0) * rarer**n * 0.5 / (self.class_counts.sum() + 0.5)
        return np.where(n > 0, odds, 0.0)


def sums_of(labels: Annotations, posterior: Floats) -> Statistics:
    """Return the sums of an E-step with this posterior."""
    return vote_statistics(labels.indptr, labels.annotator, labels.label, posterior, labels.n_annotators)


def _widened(values: Any, place: Ints, K: int, *axes: int) -> Any:
    """Move the old classes to their new places along these axes, with zeros for the new ones."""
    for axis in axes:
        at: list[Any] = [slice(None)] * values.ndim
        at[axis] = place
        wide = np.zeros((*values.shape[:axis], K, *values.shape[axis + 1 :]), values.dtype)
        wide[tuple(at)] = values
        values = wide
    return values


def _bits(annotator: Ints) -> Any:
    """Return two bits of 64 for each annotator code."""
    mixed = (annotator.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    one = np.uint64(1)
    return (one << (mixed >> np.uint64(58))) | (one << ((mixed >> np.uint64(52)) & np.uint64(63)))
