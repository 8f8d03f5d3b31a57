"""Labels by item, in codes: the data of :class:`consilience.data.annotations.Annotations`, its sizes and its names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from consilience.data.ids import Ids
from consilience.data.times import Times
from consilience.exceptions import DataError
from consilience.kernels._arrays import Bools, Codes, Ints, code_dtype

__all__ = ["FIELDS", "CodedLabels", "Origin"]


@dataclass(frozen=True, slots=True)
class Origin:
    """How the data looked where it came from, so that tables can look the same on the way out."""

    item: str = "item"
    annotator: str = "annotator"
    label: str = "label"
    frame: str | None = None  #: "pandas", "polars" or "pyarrow"; None for data from a file
    notes: tuple[str, ...] = ()  #: what was dropped or merged on the way in, in sentences
    read_as: str = ""  #: what a file was taken for, and why


class CodedLabels:
    """Arrays of codes that never change, and the names behind them; :mod:`consilience.data.annotations` has their table."""

    __slots__ = ("_annotators", "_classes", "_items", "annotator", "gold", "indptr", "label", "origin", "time")

    indptr: Ints
    annotator: Codes
    label: Codes
    gold: Codes | None
    origin: Origin
    time: Times | None
    _items: Ids
    _annotators: Ids
    _classes: Ids

    def __init__(
        self,
        indptr: Ints,
        annotator: Codes,
        label: Codes,
        *,
        items: Ids,
        annotators: Ids,
        classes: Ids,
        gold: Codes | None = None,
        origin: Origin | None = None,
        time: Times | None = None,
    ) -> None:
        if indptr.size != len(items) + 1 or indptr[-1] != annotator.size or annotator.size != label.size:
            raise DataError("indptr, annotator, label and items do not belong together")
        if time is not None and time.size != label.size:
            raise DataError(f"there are {label.size} labels, but {time.size} times")
        values: dict[str, Any] = {
            "indptr": _frozen(indptr, np.dtype(np.int64)),
            "annotator": _frozen(annotator, code_dtype(len(annotators))),
            "label": _frozen(label, code_dtype(len(classes))),
            "gold": None if gold is None or not (gold >= 0).any() else _frozen(gold, np.dtype(np.int32)),
            "origin": origin or Origin(),
            "time": None if time is None else _frozen(time, time.dtype),
            "_items": items,
            "_annotators": annotators,
            "_classes": classes,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("Annotations are immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("Annotations are immutable")

    def _with(self, **changes: Any) -> Self:
        values = {name.lstrip("_"): getattr(self, name) for name in FIELDS}
        return type(self)(**{**values, **changes})

    @property
    def n_items(self) -> int:
        """N."""
        return len(self._items)

    @property
    def n_annotators(self) -> int:
        """M."""
        return len(self._annotators)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self._classes)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.label.size)

    @property
    def items(self) -> np.ndarray[Any, Any]:
        """Names of the items."""
        return self._items.to_numpy()

    @property
    def annotators(self) -> np.ndarray[Any, Any]:
        """Names of the annotators."""
        return self._annotators.to_numpy()

    @property
    def classes(self) -> np.ndarray[Any, Any]:
        """Names of the classes, ascending."""
        return self._classes.to_numpy()

    @property
    def item_ids(self) -> Ids:
        """The vocabulary of items."""
        return self._items

    @property
    def annotator_ids(self) -> Ids:
        """The vocabulary of annotators."""
        return self._annotators

    @property
    def class_ids(self) -> Ids:
        """The vocabulary of classes."""
        return self._classes

    @property
    def labels_per_item(self) -> Ints:
        """Number of labels of each item, (N,)."""
        return np.diff(self.indptr)

    @property
    def labels_per_annotator(self) -> Ints:
        """Number of labels of each annotator, (M,)."""
        return np.bincount(self.annotator, minlength=self.n_annotators)

    @property
    def used_classes(self) -> Bools:
        """Which classes somebody used, or are the gold of an item, (K,)."""
        used = np.bincount(self.label, minlength=self.n_classes) > 0
        if self.gold is not None:
            used[self.gold[self.gold >= 0]] = True
        return used

    def item_of_label(self) -> Ints:
        """Item of every label, (labels,): eight bytes for each, so not for large data."""
        return np.repeat(np.arange(self.n_items), self.labels_per_item)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CodedLabels):
            return NotImplemented
        same_gold = (
            self.gold is other.gold
            if self.gold is None or other.gold is None
            else np.array_equal(self.gold, other.gold)
        )
        return bool(
            same_gold
            and self._classes == other._classes
            and self._annotators == other._annotators
            and self._items == other._items
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.annotator, other.annotator)
            and np.array_equal(self.label, other.label)
        )

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return self.n_labels

    def __repr__(self) -> str:
        gold = "" if self.gold is None else f", gold for {int((self.gold >= 0).sum())}"
        return (
            f"<Annotations: {self.n_labels} labels, {self.n_items} items, {self.n_annotators} annotators, "
            f"{self.n_classes} classes{gold}>"
        )


#: The attributes in the order in which they are pickled; without their underscores, the arguments of __init__.
FIELDS = ("indptr", "annotator", "label", "_items", "_annotators", "_classes", "gold", "origin", "time")


def _frozen(values: Any, dtype: np.dtype[Any]) -> Any:
    array = np.ascontiguousarray(values, dtype)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array
