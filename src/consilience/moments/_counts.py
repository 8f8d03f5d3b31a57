"""Label counts of pairs or triples of annotators: storage, addition and comparison."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from consilience.data.ids import Ids
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Codes, Floats, Ints

__all__ = ["LabelCounts"]


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """A block of counts for each observed pair (or triple) of annotators, in the order of their codes."""

    _name: ClassVar[str]

    who: Codes
    counts: Codes
    annotators: Ids
    classes: Ids

    def _freeze(self, who: Codes, counts: Codes) -> None:
        """Set the arrays read-only; raise ParameterError unless their rows are in order."""
        if np.any(np.diff(self._keys(who)) <= 0):
            raise ParameterError("pairs must be in increasing order, each once")
        for name, values in (("who", who), ("counts", counts)):
            values = values.view()
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    def _keys(self, who: Codes) -> Ints:
        """Return sort keys of pairs (or triples)."""
        keys = who[:, 0].astype(np.int64)
        for column in who.T[1:]:
            keys = keys * len(self.annotators) + column
        return keys

    @cached_property
    def _all_keys(self) -> Ints:
        return self._keys(self.who)

    def __len__(self) -> int:
        return len(self.who)

    @property
    def n_annotators(self) -> int:
        """M."""
        return len(self.annotators)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @property
    def order(self) -> int:
        """2 for pairs, 3 for triples."""
        return int(self.who.shape[1])

    @cached_property
    def totals(self) -> Floats:
        """Number of label pairs (triples) in each block, (P,)."""
        totals: Floats = self.counts.sum(axis=tuple(range(1, self.counts.ndim)), dtype=np.float64)
        return totals

    @property
    def frequencies(self) -> Floats:
        """The blocks, each summing to one, (P, K, K)."""
        shape = -1, *[1] * self.order
        frequencies: Floats = self.counts / np.where(self.totals > 0, self.totals, 1.0).reshape(shape)
        return frequencies

    def block(self, *who: int) -> Floats | None:
        """Return the block of these annotators, (K, K), summing to one; None when it was not observed."""
        at = self.find(*who)
        if at < 0:
            return None
        block: Floats = self.counts[at] / self.totals[at]
        return block

    def find(self, *who: int) -> int:
        """Return the row of these annotators' block, in the order of ``who``; -1 when it was not observed."""
        keys = self._all_keys
        key = self._keys(np.asarray([who], np.int64))[0]
        at = int(np.searchsorted(keys, key))
        return at if at < keys.size and tuple(self.who[at]) == who else -1

    def __add__(self, other: Self) -> Self:
        """Add the counts of two disjoint parts of the data."""
        if not isinstance(other, type(self)):
            return NotImplemented
        if (
            self.who.shape[1] != other.who.shape[1]
            or self.annotators != other.annotators
            or self.classes != other.classes
        ):
            raise ParameterError(f"only {self._name} of the same annotators and classes add up; recode one first")
        keys, place = np.unique(np.concatenate([self._all_keys, other._all_keys]), return_inverse=True)
        kind = np.result_type(self.counts.dtype, other.counts.dtype)
        counts = np.zeros((keys.size, *self.counts.shape[1:]), kind if kind.kind == "f" else np.uint64)
        who = np.empty((keys.size, self.who.shape[1]), np.int32)
        for part, at in (self, place[: len(self)]), (other, place[len(self) :]):
            counts[at] += part.counts
            who[at] = part.who
        if kind.kind != "f":
            counts = counts.astype(np.min_scalar_type(int(counts.max(initial=0))))
        return type(self)(who, counts, self.annotators, self.classes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return bool(
            self.annotators == other.annotators
            and self.classes == other.classes
            and np.array_equal(self.who, other.who)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]
