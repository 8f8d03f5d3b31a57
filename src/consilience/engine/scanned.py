"""Labels on disk, as returned by :func:`consilience.scan`."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import numpy as np

from consilience.data.annotations import Annotations, Origin
from consilience.engine.store import Store
from consilience.engine.workplace import WorkFolder
from consilience.exceptions import DataError

__all__ = ["Scanned"]

#: Labels of a block.
_BLOCK = 1 << 22


class Scanned:
    """Labels by item, on disk.

    :func:`consilience.scan` opens them.  What :func:`consilience.read` loads into memory, this reads as needed.  A
    temporary folder is removed when this object is closed or no longer used.

    Attributes
    ----------
    store
        The labels.
    memory
        Memory of the process, in bytes.
    """

    def __init__(self, store: Store, memory: int, temporary: WorkFolder | None = None) -> None:
        self._store: Store | None = store
        self.memory = memory
        self._remove = weakref.finalize(self, temporary.remove) if temporary else lambda: None

    @property
    def store(self) -> Store:
        """The labels."""
        if self._store is None:
            raise DataError("these labels were closed; scan them again")
        return self._store

    @property
    def n_items(self) -> int:
        """N."""
        return self.store.n_items

    @property
    def n_annotators(self) -> int:
        """M."""
        return self.store.n_annotators

    @property
    def n_classes(self) -> int:
        """K."""
        return self.store.n_classes

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.store.n_labels

    @property
    def items(self) -> np.ndarray[Any, Any]:
        """Names of the items: all of them, in memory."""
        return self.store.item_ids().to_numpy()

    @property
    def annotators(self) -> np.ndarray[Any, Any]:
        """Names of the annotators."""
        return self.store.annotator_ids.to_numpy()

    @property
    def classes(self) -> np.ndarray[Any, Any]:
        """Names of the classes, ascending."""
        return self.store.class_ids.to_numpy()

    @property
    def origin(self) -> Origin:
        """Names of the columns, and notes on what was left out."""
        return self.store.origin

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits, equal for equal labels."""
        return self.store.fingerprint

    def annotations(self, first: int = 0, stop: int | None = None) -> Annotations:
        """Return the items from ``first`` to before ``stop`` as Annotations, with all annotators and classes.

        Their arrays are memory maps, which take memory as they are read.
        """
        return self.store.annotations(first, stop)

    def blocks(self, labels: int = _BLOCK) -> Iterator[Annotations]:
        """Yield all items in blocks of about this many labels, and drop the pages of each block after use."""
        for first, stop in self.store.cut(labels):
            yield self.store.annotations(first, stop)
            self.store.release(first, stop)

    def describe(self) -> dict[str, Any]:
        """Summarise the data in plain numbers, like :meth:`consilience.Annotations.describe`."""
        per_item: Counter[int] = Counter()
        per_annotator, per_class = np.zeros(self.n_annotators, np.int64), np.zeros(self.n_classes, np.int64)
        gold_items = 0
        for block in self.blocks():
            lengths, times = np.unique(block.labels_per_item, return_counts=True)
            per_item.update(dict(zip(lengths.tolist(), times.tolist(), strict=True)))
            per_annotator += block.labels_per_annotator
            per_class += np.bincount(block.label, minlength=self.n_classes)
            gold_items += 0 if block.gold is None else int((block.gold >= 0).sum())
        shares = per_class / max(self.n_labels, 1)
        return {
            "items": self.n_items,
            "annotators": self.n_annotators,
            "classes": self.n_classes,
            "labels": self.n_labels,
            "labels_per_item": _order_statistics(per_item),
            "labels_per_annotator": _order_statistics(Counter(per_annotator.tolist())),
            "label_shares": dict(zip(map(str, self.store.class_ids), shares.tolist(), strict=True)),
            "unlabelled_items": per_item[0],
            "gold_items": gold_items,
            "notes": list(self.origin.notes),
        }

    def close(self) -> None:
        """Close the labels and remove a temporary folder."""
        self._store = None
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self.n_labels

    def __repr__(self) -> str:
        return (
            f"<Scanned: {self.n_labels} labels, {self.n_items} items, {self.n_annotators} annotators, "
            f"{self.n_classes} classes on disk>"
        )


def _order_statistics(times: Counter[int]) -> dict[str, float]:
    """Return minimum, median and maximum of numbers of which ``times[x]`` are x."""
    values = np.array(sorted(times))
    before = np.cumsum([times[value] for value in values.tolist()])
    middle = values[np.searchsorted(before, [(before[-1] - 1) // 2, before[-1] // 2], "right")]
    return {"min": int(values[0]), "median": float(middle.mean()), "max": int(values[-1])}
