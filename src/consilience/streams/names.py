"""Names and rows to which more are added, at a cost that does not depend on how many there are.

A :class:`Vocabulary` finds its names by a dictionary of hashes that stays in memory.  :class:`Rows` double their
capacity when it is used up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.ids import Ids, _as_text, is_text, text_buffers
from consilience.kernels._arrays import Codes, Ints

__all__ = ["Lookup", "Rows", "Vocabulary", "joined", "lots"]


class Lookup(NamedTuple):
    """Codes of names, some of which may be new to a vocabulary."""

    codes: Ints  #: of every name; new names continue after the last code of the vocabulary
    new: Ids  #: the new names, in order
    vocabulary: Vocabulary  #: to append them to; of a wider type if the types of ids differ

    def accept(self) -> Vocabulary:
        """Append the new names."""
        self.vocabulary.append(self.new)
        return self.vocabulary


class Vocabulary:
    """Names with codes in order of first appearance."""

    def __init__(self, ids: Ids | None = None) -> None:
        from consilience.kernels.names import Names

        self._names = Names()
        self._parts: list[pa.Array] = []
        self._size = 0
        if ids is not None:
            self.append(ids)

    def __len__(self) -> int:
        return self._size

    @property
    def ids(self) -> Ids:
        """All names, in the order of their codes."""
        if len(self._parts) != 1:
            self._parts = [pa.concat_arrays(self._parts) if self._parts else pa.array([], pa.string())]
        return Ids(self._parts[0])

    def look_up(self, ids: Ids) -> Lookup:
        """Find unique names, without adding any."""
        old, wanted = self, ids.to_arrow()
        if self._size and len(wanted):
            kind = _common_type(self._parts[0].type, wanted)
            wanted = _cast(wanted, kind)
            if kind != self._parts[0].type:
                old = Vocabulary(Ids(_cast(self.ids.to_arrow(), kind)))
        codes = old._names.find(_keys(wanted)).astype(np.int64)
        new = np.flatnonzero(codes < 0)
        codes[new] = old._size + np.arange(new.size)
        return Lookup(codes, Ids(wanted.take(pa.array(new))), old)

    def append(self, ids: Ids) -> None:
        """Add names that are not here yet."""
        if not len(ids):
            return
        names = ids.to_arrow()
        self._names.rows = 0  # the codes of earlier rows are not needed any more
        self._names.add(_keys(names), np.arange(self._size, self._size + len(names)))
        self._parts.append(names)
        self._size += len(names)


def joined(known: Ids, more: Ids) -> Ids:
    """Return the union of two sets of names, ascending; numbers become text if the other set is text."""
    if not len(known):
        return more.sorted()[0]
    kind = _common_type(known.to_arrow().type, more.to_arrow())
    both = [_cast(ids.to_arrow(), kind) for ids in (known, more)]
    return Ids(pc.unique(pa.concat_arrays(both))).sorted()[0]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _common_type(known: pa.DataType, new: pa.Array) -> pa.DataType:
    """Return the type for names of two types: the known one if it holds the new names exactly, otherwise text."""
    if known == new.type or (pa.types.is_floating(known) and _is_number(new.type)):
        return known
    if {known, new.type} == {pa.string(), pa.large_string()}:
        return pa.large_string()
    if _is_number(known) and _is_number(new.type):
        try:
            new.cast(known)  # 7.0 is 7
            return known
        except pa.ArrowInvalid:
            return pa.float64()
    return pa.string()


def _cast(names: pa.Array, kind: pa.DataType) -> pa.Array:
    if names.type == kind:
        return names
    return _as_text(names) if kind == pa.string() else names.cast(kind)


def lots(ids: Ids) -> Codes:
    """Return a random sort key for every name, which depends on the name alone."""
    return _keys(ids.to_arrow(), np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93], np.uint64))[:, 0]


def _keys(names: pa.Array, seeds: Codes | None = None) -> Codes:
    """Return the hashes of names: of the bytes of text and numbers, of other types as text."""
    from consilience.kernels.names import SEEDS
    from consilience.kernels.strings import hashes

    seeds = SEEDS if seeds is None else seeds
    if _is_number(names.type):
        values = np.ascontiguousarray(names.to_numpy())
        return hashes(np.arange(values.size + 1) * values.itemsize, values.view(np.uint8), seeds)
    return hashes(*text_buffers(names if is_text(names) else names.cast(pa.string())), seeds)


class Rows:
    """Columns of the same length to which rows are added; a column may have further axes."""

    def __init__(self, size: int = 0, **columns: Any) -> None:
        self.size = size
        self._columns: dict[str, Any] = columns

    def __getitem__(self, name: str) -> Any:
        """Return a view of a column."""
        return self._columns[name][: self.size]

    def __setitem__(self, name: str, values: Any) -> None:
        self._columns[name] = values

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def grow(self, size: int, **fill: Any) -> None:
        """Add rows up to ``size`` in all, filled with these values, or 0."""
        for name, column in self._columns.items():
            if size > len(column):
                wide = np.empty((max(size, 2 * len(column)), *column.shape[1:]), column.dtype)
                wide[: self.size] = column[: self.size]
                self._columns[name] = column = wide
            column[self.size : size] = fill.get(name, 0)
        self.size = size
