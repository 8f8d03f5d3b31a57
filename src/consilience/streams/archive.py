"""Settled labels that are kept besides their sums, to be found by item or visited in turn.

An item is kept with all its labels, one after the other, or not at all.
"""

from __future__ import annotations

import numpy as np

from consilience.kernels._arrays import Bools, Codes, Ints
from consilience.streams.names import Rows

__all__ = ["Archive"]


class Archive:
    """Labels by item, (4, labels): item, annotator, label and number of the update.

    Parameters
    ----------
    most
        How many labels are kept; beyond that the oldest are dropped.
    held
        Labels to begin with, item by item.
    """

    def __init__(self, most: int, held: Codes | None = None) -> None:
        self.most = most
        self.turn = 0  #: where :meth:`next` continues
        self._labels = Rows(columns=np.zeros((0, 4), np.int32))
        #: first label and number of labels of each item; 0 labels if it is not here
        self._items = Rows(first=np.zeros(0, np.int64), n=np.zeros(0, np.int32))
        self._size = 0
        if held is not None and held.shape[1]:
            self._append(held)

    def __len__(self) -> int:
        return self._size

    def has(self, items: Ints) -> Bools:
        """Return a mask of the items that are here."""
        found = np.zeros(items.size, np.bool_)
        near = items < self._items.size
        found[near] = self._items["n"][items[near]] > 0
        return found

    @property
    def items(self) -> Ints:
        """The items that are here."""
        return np.flatnonzero(self._items["n"] > 0)

    def add(self, held: Codes, lots: Codes) -> None:
        """Add labels, (4, labels), of items that are not here yet, in the order of their items' lots."""
        if held.shape[1] and self.most:
            self._append(held[:, np.lexsort((held[0], lots))])
            if self._size > self.most or self._labels.size > 2 * self._size + 1024:
                self.tidy()

    def _append(self, held: Codes) -> None:
        start, n = self._labels.size, held.shape[1]
        first = np.flatnonzero(np.diff(held[0], prepend=-1))
        self._labels.grow(start + n)
        self._labels["columns"][start:] = held.T
        self._items.grow(max(self._items.size, int(held[0].max(initial=-1)) + 1))
        self._items["first"][held[0, first]] = start + first
        self._items["n"][held[0, first]] = np.diff(first, append=n)
        self._size += n

    def take(self, items: Ints) -> Codes:
        """Remove items that are here and return their labels, (4, labels), item by item."""
        places = self._places(items)
        self._items["n"][items] = 0
        self._size -= places.size
        return np.ascontiguousarray(self._labels["columns"][places].T)

    def _places(self, items: Ints) -> Ints:
        """Return where the labels of these items are, ascending."""
        first, n = self._items["first"][items], self._items["n"][items]
        order = np.argsort(first)
        first, n = first[order], n[order]
        places: Ints = np.repeat(first - (np.cumsum(n) - n), n) + np.arange(n.sum())
        return places

    def next(self, n: int) -> Ints:
        """Return the items of about the next ``n`` labels in turn, those that were settled longest ago first."""
        item, size = self._labels["columns"][:, 0], self._labels.size
        start = self.turn if self.turn < size else 0
        stop = min(start + n, size)
        while 0 < stop < size and item[stop] == item[stop - 1]:
            stop += 1
        self.turn = stop
        lasts = start + np.flatnonzero(np.diff(item[start:stop], append=-1))
        items = item[lasts].astype(np.int64)
        first, count = self._items["first"][items], self._items["n"][items]
        # items that were taken since are elsewhere, or not here
        return np.unique(items[(count > 0) & (first + count - 1 == lasts)])

    def recode(self, place: Ints) -> None:
        """Replace every label k by ``place[k]``."""
        if self._labels.size:
            self._labels["columns"][:, 2] = place[self._labels["columns"][:, 2]]

    def tidy(self) -> Codes:
        """Drop what was taken, and the oldest half if there is too much; return what is left, (4, labels)."""
        places = self._places(self.items)
        labels = np.ascontiguousarray(self._labels["columns"][places].T)
        turn, cut = int(np.searchsorted(places, self.turn)), 0
        if labels.shape[1] > self.most:
            first = np.flatnonzero(np.diff(labels[0], prepend=-1))  # the cut is between two items
            after = np.searchsorted(first, labels.shape[1] - self.most // 2)
            cut = int(first[after]) if after < first.size else labels.shape[1]
        kept = Archive(self.most, labels[:, cut:])
        self._labels, self._items, self._size = kept._labels, kept._items, kept._size
        self.turn = max(turn - cut, 0)
        return labels[:, cut:]
