"""Codes of the names in a column that comes in batches, in order of first appearance over all batches.

One of three ways, the cheapest that a batch allows:

- names that come as a dictionary with indices: only the dictionary is looked up;
- whole numbers in a narrow range (also dates and other values of few bits): a table of codes;
- everything else: a dictionary of hashes (:mod:`consilience.kernels.names`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.ids import Ids, blanks, encode, is_text, text_buffers, valid_text
from consilience.exceptions import IdError
from consilience.kernels._arrays import Bools, Codes, Ints

__all__ = ["Coder", "item_keys", "names_at", "names_of_words", "run_starts", "words_of"]

#: Widest range of numbers that are coded by a table.
_SPAN = 1 << 22


class Coder:
    """Codes the names of a column, and keeps the names.

    Parameters
    ----------
    column
        Name of the column in messages.
    """

    def __init__(self, column: str) -> None:
        from consilience.kernels.names import Names

        self._column = column
        self._names = Names()
        self._by_table = True
        self._table, self._low = np.empty(0, np.int32), 0
        self._words: list[Codes] = []
        self._parts: list[pa.Array] = []
        self._kind: pa.DataType | None = None
        self._known = 0
        #: final codes, -1 for blank names, once there is one
        self._final: Codes | None = None
        self._dictionary: tuple[pa.Array, Codes, pa.Array] | None = None

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def ids(self) -> Ids:
        """The names so far."""
        if not self._parts:
            return Ids(pa.array([], self._kind or pa.string()))
        self._parts = [pa.concat_arrays(self._parts)]
        return Ids(self._parts[0])

    def encode(self, column: pa.Array) -> Codes:
        """Return the codes of the next rows, int32, -1 where there is no value."""
        if pa.types.is_dictionary(column.type) and not is_text(column.dictionary):
            column = _plain_values(column)
        gone = missing(column)
        if gone is not None and gone.any():
            codes = np.full(len(column), -1, np.int32)
            present = np.flatnonzero(~gone)
            if present.size:
                codes[present] = self._encode(column.take(pa.array(present)))
            return codes
        return self._encode(column)

    def _encode(self, column: pa.Array) -> Codes:
        by_dictionary = pa.types.is_dictionary(column.type)
        kind = column.type.value_type if by_dictionary else column.type
        if self._kind is None:
            self._kind = kind
        elif kind != self._kind:
            raise IdError(
                f"column {self._column!r} mixes types: {self._kind}, and later {kind}; "
                "7 and '7' would be two different ids. Make it one type"
            )
        if by_dictionary:
            codes = self._encode_dictionary(column)
        elif is_text(column):
            codes = self._by_hash(_hashes(column), column)
        else:
            codes = self._encode_numbers(column)
        return codes if self._final is None else self._final[codes]

    # ---- three ways -------------------------------------------------------------------------------------

    def _encode_dictionary(self, column: pa.Array) -> Codes:
        from consilience.kernels.rows import MISSING, UNKNOWN, code_by_table

        local, names = self._look_at(column.dictionary)
        table = np.full(len(names) + 1, UNKNOWN, np.int32)
        table[-1] = MISSING
        if len(names):
            table[:-1] = self._names.find(_hashes(names))
        indices = np.asarray(column.indices)
        if local.size:
            indices = local[indices]
        elif indices.dtype not in (np.int32, np.int64):
            indices = indices.astype(np.int32)
        coded = code_by_table(indices, 0, table, self._known)
        assert coded is not None
        codes, first = coded
        if first.size:
            new = names.take(pa.array(indices[first]))
            self._by_hash(_hashes(new), new)
        return codes

    def _look_at(self, dictionary: pa.Array) -> tuple[Codes, pa.Array]:
        """Return the distinct names of a dictionary, and the index of each entry among them (empty if trivial)."""
        if self._dictionary is None or not self._dictionary[0].equals(dictionary):
            codes, ids = encode(dictionary)
            codes = np.where(codes < 0, len(ids), codes)
            plain = bool((codes == np.arange(codes.size)).all())
            self._dictionary = dictionary, np.empty(0, np.int32) if plain else codes.astype(np.int32), ids.to_arrow()
        return self._dictionary[1:]

    def _encode_numbers(self, column: pa.Array) -> Codes:
        from consilience.kernels.rows import code_by_table, hash_words

        words = words_of(column)
        while self._by_table:
            coded = code_by_table(words, self._low, self._table, self._known)
            if coded is None:
                self._fit_table(words)
                continue
            codes, first = coded
            if first.size:
                self._words.append(words[first])
                self._grow(column.take(pa.array(first)))
            return codes
        return self._by_hash(hash_words(words.view(np.uint64)), column)

    def _fit_table(self, words: Codes) -> None:
        """Extend the table to these numbers, or replace it by the dictionary of hashes."""
        from consilience.kernels.rows import UNKNOWN, hash_words

        low, high = int(words.min()), int(words.max()) + 1
        if self._table.size:
            low, high = min(low, self._low), max(high, self._low + self._table.size)
        if high - low > _SPAN:
            self._by_table = False
            if self._words:
                known = np.concatenate(self._words)
                self._names.add(hash_words(known.view(np.uint64)), np.arange(known.size))
            self._table, self._words = np.empty(0, np.int32), []
            return
        # twice the range, so that it does not grow with every batch
        high = min(high + high - low, low + _SPAN, 1 << 63)
        table = np.full(high - low, UNKNOWN, np.int32)
        at = self._low - low
        table[at : at + self._table.size] = self._table
        self._table, self._low = table, low

    def _by_hash(self, keys: Codes, column: pa.Array) -> Codes:
        self._names.rows = 0
        before = self._names.size
        self._names.add(keys, np.arange(len(keys)))
        if self._names.size > before:
            self._grow(column.take(pa.array(self._names.place[before:])))
        return self._names.codes.copy()

    def _grow(self, names: pa.Array) -> None:
        """Append new names; blank names get no code."""
        blank = blanks(valid_text(names)) if is_text(names) else np.zeros(len(names), np.bool_)
        if blank.any() and self._final is None:
            self._final = np.arange(self._known, dtype=np.int32)
        if self._final is not None:
            new = np.where(blank, -1, len(self) + np.cumsum(~blank) - 1)
            self._final = np.append(self._final, new.astype(np.int32))
            names = names.filter(pa.array(~blank))
        self._known += len(blank)
        if len(names):
            self._parts.append(names)


def run_starts(column: pa.Array, before: pa.Array | None) -> Ints:
    """Return the rows whose name differs from that of the previous row.

    ``before`` holds the last name of the previous batch.  Every row without a name counts as different.
    """
    if pa.types.is_dictionary(column.type):
        column = _plain_values(column)
    if column.null_count:
        gone = missing(column)
        words = np.asarray(pc.dictionary_encode(column).indices.fill_null(-1))
        rows = np.flatnonzero((words[1:] != words[:-1]) | (gone[1:] if gone is not None else False)) + 1
    elif is_text(column):
        from consilience.kernels.rows import changes

        rows = changes(*text_buffers(column))
    else:
        words = words_of(column)
        rows = np.flatnonzero(words[1:] != words[:-1]) + 1
    goes_on = before is not None and names_at(column, np.zeros(1, np.int64)).equals(before)
    return rows if goes_on else np.concatenate([np.zeros(1, np.int64), rows])


def item_keys(column: pa.Array) -> tuple[Codes, Bools | None]:
    """Return words that identify the item of each row: one for numbers, two words of hash for text.

    The second array, if any, marks rows without an id.
    """
    gone = missing(column)
    if pa.types.is_dictionary(column.type):
        if not is_text(column.dictionary):
            return item_keys(_plain_values(column))
        names = column.dictionary
        # null has an entry of its own
        indices = np.asarray(column.indices.cast(pa.int64()).fill_null(len(names)))
        keys, blank = np.append(_hashes(names), np.zeros((1, 2), np.uint64), axis=0), blanks(valid_text(names))
        if blank.any():
            blank = np.append(blank, True)[indices]
            gone = blank if gone is None else gone | blank
        return keys[indices], gone
    if is_text(column):
        blank = blanks(valid_text(column))
        if blank.any():
            gone = blank if gone is None else gone | blank
        return _hashes(column), gone
    return words_of(column), gone


def names_at(column: pa.Array, rows: Ints) -> pa.Array:
    """Return the names in these rows."""
    chosen = column.take(pa.array(rows))
    return _plain_values(chosen) if pa.types.is_dictionary(chosen.type) else chosen


def words_of(column: pa.Array) -> Codes:
    """Return the bits of numbers, dates and similar values as int64."""
    if pa.types.is_boolean(column.type):
        return np.asarray(column.cast(pa.int64()))
    width = column.type.bit_width // 8
    if width not in (4, 8):
        raise IdError(f"values of type {column.type} cannot serve as ids; convert them to strings or integers first")
    word = np.dtype(f"i{width}")
    values = np.frombuffer(column.buffers()[1] or b"", word)[column.offset : column.offset + len(column)]
    return np.ascontiguousarray(values, np.int64)


def names_of_words(words: Codes, kind: pa.DataType) -> pa.Array:
    """Return the names from the bits that :func:`words_of` returned."""
    if pa.types.is_boolean(kind):
        return pa.array(words.astype(np.bool_))
    values = np.ascontiguousarray(words.view(np.int64), np.dtype(f"i{kind.bit_width // 8}"))
    return pa.Array.from_buffers(kind, values.size, [None, pa.py_buffer(values)])


def missing(column: pa.Array) -> Bools | None:
    """Return a mask of null and NaN; None if there are none."""
    if pa.types.is_dictionary(column.type):
        if not column.null_count and not column.dictionary.null_count:
            return None
        return np.asarray(pc.is_null(column.dictionary.take(column.indices)))
    if column.null_count or pa.types.is_floating(column.type):
        return np.asarray(pc.is_null(column, nan_is_null=True))
    return None


def _plain_values(column: pa.Array) -> pa.Array:
    return column.dictionary.take(column.indices)


def _hashes(names: pa.Array) -> Codes:
    from consilience.kernels.strings import hashes

    return hashes(*text_buffers(names))
