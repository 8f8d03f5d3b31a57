"""Labels that were summed up and are remembered all the same, to be found by their item, and to be looked at in turn.

Nothing passes over them.  The labels of an item stand together, and each knows where the one before it stands; the item
knows the last.  Items are remembered with all their labels, or not at all.
"""

from __future__ import annotations

import numpy as np

from consilience.kernels._arrays import Bools, Codes, Ints
from consilience.streams.names import Rows

__all__ = ["Archive"]


class Archive:
    """Labels by item: columns of item, annotator, label and number of the update, as a stream has them.

    Parameters
    ----------
    most
        How many labels are remembered; of more, the oldest go.
    held
        Labels to begin with, (4, labels), item by item.
    """

    def __init__(self, most: int, held: Codes | None = None) -> None:
        self.most = most
        self.turn = 0  #: where the next look begins
        self._labels = Rows(columns=np.zeros((0, 4), np.int32), before=np.zeros(0, np.int32))
        self._last = Rows(label=np.zeros(0, np.int32))
        self._live = 0
        if held is not None and held.shape[1]:
            self._append(held)

    def __len__(self) -> int:
        return self._live

    def has(self, items: Ints) -> Bools:
        """Tell which of these items are remembered."""
        found = np.zeros(items.size, np.bool_)
        near = items < self._last.size
        found[near] = self._last["label"][items[near]] >= 0
        return found

    @property
    def items(self) -> Ints:
        """The items that are remembered."""
        return np.flatnonzero(self._last["label"] >= 0)

    def add(self, held: Codes, lots: Codes) -> None:
        """Remember labels, (4, labels), of items that are not here yet, in the order of their items' lots."""
        if held.shape[1] and self.most:
            self._append(held[:, np.lexsort((held[0], lots))])
            if self._live > self.most or self._labels.size > 2 * self._live + 1024:
                self.tidy()

    def _append(self, held: Codes) -> None:
        start, n = self._labels.size, held.shape[1]
        place = np.arange(start, start + n, dtype=np.int32)
        first = np.diff(held[0], prepend=-1) != 0
        self._labels.grow(start + n)
        self._labels["columns"][start:] = held.T
        self._labels["before"][start:] = np.where(first, -1, place - 1)
        self._last.grow(max(self._last.size, int(held[0].max(initial=-1)) + 1), label=-1)
        self._last["label"][held[0]] = place  # of several the last one stays
        self._live += n

    def take(self, items: Ints) -> Codes:
        """Give the labels of items that are remembered, (4, labels), item by item, and forget them."""
        places = self._chains(self._last["label"][items])
        self._last["label"][items] = -1
        self._live -= places.size
        return np.ascontiguousarray(self._labels["columns"][places].T)

    def _chains(self, last: Codes) -> Ints:
        """Give the places of all labels of the items whose last labels stand here, in order."""
        found = [np.empty(0, np.int32)]
        while last.size:
            found.append(last)
            last = self._labels["before"][last]
            last = last[last >= 0]
        places: Ints = np.sort(np.concatenate(found))
        return places

    def next(self, n: int) -> Ints:
        """Give the items of about the next ``n`` labels, those that settled longest ago first, round and round."""
        item, size = self._labels["columns"][:, 0], self._labels.size
        start = self.turn if self.turn < size else 0
        stop = min(start + n, size)
        while 0 < stop < size and item[stop] == item[stop - 1]:
            stop += 1
        self.turn = stop
        ends = start + np.flatnonzero(np.diff(item[start:stop], append=-1))
        items = item[ends].astype(np.int64)
        # what was taken since stands elsewhere, or nowhere
        return np.unique(items[self._last["label"][items] == ends])

    def recode(self, place: Ints) -> None:
        """Give labels their new codes."""
        if self._labels.size:
            self._labels["columns"][:, 2] = place[self._labels["columns"][:, 2]]

    def tidy(self) -> Codes:
        """Leave out what was taken, and the oldest half where there is too much; give what is left, (4, labels)."""
        places = self._chains(self._last["label"][self.items])
        labels = np.ascontiguousarray(self._labels["columns"][places].T)
        turn, cut = int(np.searchsorted(places, self.turn)), 0
        if labels.shape[1] > self.most:
            first = np.flatnonzero(np.diff(labels[0], prepend=-1))  # the cut goes between two items
            after = np.searchsorted(first, labels.shape[1] - self.most // 2)
            cut = int(first[after]) if after < first.size else labels.shape[1]
        fresh = Archive(self.most, labels[:, cut:])
        self._labels, self._last, self._live = fresh._labels, fresh._last, fresh._live
        self.turn = max(turn - cut, 0)
        return labels[:, cut:]
