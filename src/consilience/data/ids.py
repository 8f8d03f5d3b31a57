"""Names of items, annotators and classes, with the values and the type that the user gave them.

Columns arrive as pyarrow arrays, whatever frame or file they came from.  :func:`encode` turns one into codes
0 … n - 1 and an :class:`Ids`, the vocabulary that turns codes back into names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.exceptions import FormatError, IdError
from consilience.kernels._arrays import Bools, Codes, Ints

__all__ = [
    "Ids",
    "blanks",
    "encode",
    "encode_all",
    "is_text",
    "joined",
    "name_rows",
    "numbers_where_all_are",
    "text_buffers",
    "to_column",
    "valid_text",
    "without",
    "without_blanks",
    "without_code",
]

_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
_DECIMAL = r"^-?(0|[1-9][0-9]*)\.[0-9]+$"
#: Bytes of text that 32-bit offsets cannot address.
_LONG = 1 << 31


class Ids(Sequence[Any]):
    """An immutable vocabulary: code k means ``ids[k]``."""

    __slots__ = ("_held", "_load", "_numpy", "_size")

    def __init__(self, values: Any) -> None:
        self._held: pa.Array | None = values if isinstance(values, pa.Array) else pa.array(values)
        self._load: Callable[[], pa.Array] | None = None
        self._size = len(self._held)
        self._numpy: np.ndarray[Any, Any] | None = None

    @classmethod
    def lazily(cls, size: int, load: Callable[[], pa.Array]) -> Ids:
        """Return a vocabulary of this size whose names are loaded when first needed."""
        made = cls.__new__(cls)
        made._held, made._load, made._size, made._numpy = None, load, size, None
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Ids, (self._arrow,)

    @property
    def _arrow(self) -> pa.Array:
        if self._held is None:
            assert self._load is not None
            self._held = self._load()
        return self._held

    @classmethod
    def range(cls, n: int) -> Ids:
        """Return the vocabulary 0 … n - 1, for items without names."""
        return cls(np.arange(n))

    def to_arrow(self) -> pa.Array:
        """Return the names as a pyarrow array."""
        return self._arrow

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return the names as a numpy array: numbers as numbers, everything else as objects."""
        if self._numpy is None:
            kind = self._arrow.type
            if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
                values = self._arrow.to_numpy(zero_copy_only=False)
            else:
                values = np.empty(len(self._arrow), object)
                values[:] = self._arrow.to_pylist()
            values.flags.writeable = False
            self._numpy = values
        return self._numpy

    def take(self, codes: Any) -> Ids:
        """Return the vocabulary of these codes, in their order."""
        return Ids(self._arrow.take(pa.array(codes)))

    def codes_of(self, values: Any) -> Ints:
        """Return the code of each name, -1 for an unknown one.

        Numbers and strings are compared as text, so that a truth file whose ids all happen to be numbers
        matches a label file where some are not.
        """
        wanted = to_column(values, "values")
        known = self._arrow
        if wanted.type != known.type:
            # text is exact for integers of all sizes; 7 and 7.0 are only equal as numbers
            kinds = (wanted.type, known.type)
            number = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds]
            if all(number) and any(map(pa.types.is_floating, kinds)):
                wanted, known = (column.cast(pa.float64(), safe=False) for column in (wanted, known))
            else:
                wanted, known = _as_text(wanted), _as_text(known)
        codes = pc.index_in(wanted, value_set=known).fill_null(-1)
        return np.asarray(codes, np.int64)

    def sorted(self) -> tuple[Ids, Ints]:
        """Return the vocabulary in ascending order and, for each old code, its new one."""
        order = np.asarray(pc.sort_indices(self._arrow), np.int64)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        return self.take(order), rank

    def to_json(self) -> dict[str, Any]:
        """Return the names and their type as plain values, so that 7 and "7" stay different."""
        names = self._arrow
        kind = str(names.type)
        if pa.types.is_temporal(names.type):
            names = names.cast(pa.string())
        return {"type": kind, "names": names.to_pylist()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Ids:
        """Return the vocabulary that :meth:`to_json` described."""
        kind = pa.type_for_alias(content["type"])
        if pa.types.is_temporal(kind):
            return cls(pa.array(content["names"], pa.string()).cast(kind))
        return cls(pa.array(content["names"], kind))

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Ids: ...
    def __getitem__(self, index: int | slice) -> Any:
        return Ids(self._arrow[index]) if isinstance(index, slice) else self._arrow[int(index)].as_py()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._arrow.to_pylist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ids) and (self is other or self._arrow.equals(other._arrow))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        head = ", ".join(repr(name) for name in self[:5])
        return f"Ids([{head}{', …' if len(self) > 5 else ''}], n={len(self)})"


def to_column(values: Any, column: str) -> pa.Array:
    """Return values as one pyarrow array of a plain type; mixed types are an error that names the rows."""
    if hasattr(values, "to_arrow"):
        values = values.to_arrow()
    try:
        array = values if isinstance(values, pa.ChunkedArray | pa.Array) else _array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise _mixed_types(values, column) from error
    except UnicodeError as error:
        row = next(row for row, value in enumerate(values) if _is_broken(value)) + 1
        raise IdError(f"column {column!r} holds text that is not valid Unicode, first in row {row}") from error
    return _one_chunk(_plain(array, column))


def _array(values: Any) -> Any:
    if isinstance(values, np.ndarray) and not values.dtype.isnative:  # pyarrow has no swapped bytes
        values = values.astype(values.dtype.newbyteorder("="))
    try:
        return pa.array(values, from_pandas=True)
    except OverflowError:  # unsigned 64-bit integers
        try:
            return pa.array(values, pa.uint64(), from_pandas=True)
        except OverflowError as error:
            raise pa.ArrowInvalid(str(error)) from error


def _plain(array: Any, column: str) -> Any:
    """Convert to int64, uint64, float64, bool, string or a temporal type."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        whole = _one_chunk(array.unify_dictionaries() if isinstance(array, pa.ChunkedArray) else array)
        return pa.DictionaryArray.from_arrays(whole.indices, _plain(whole.dictionary, column))
    if pa.types.is_null(kind):
        return array.cast(pa.string())
    if pa.types.is_integer(kind):
        return array if kind == pa.uint64() else array.cast(pa.int64())
    if pa.types.is_floating(kind):
        return array.cast(pa.float64())
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return array if array.nbytes >= _LONG else array.cast(pa.string())
    if pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        return array
    raise IdError(
        f"column {column!r} holds values of type {kind}, which cannot serve as ids; "
        "convert it to strings or integers first"
    )


def _one_chunk(array: Any) -> pa.Array:
    if not isinstance(array, pa.ChunkedArray):
        return array
    if pa.types.is_string(array.type) and array.nbytes >= _LONG:
        array = array.cast(pa.large_string())
    if array.num_chunks == 1:
        return array.chunk(0)
    whole = array.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def _is_broken(text: Any) -> bool:
    """Return whether this is text with half of a surrogate pair, which no file can hold."""
    return isinstance(text, str) and any("\ud800" <= letter <= "\udfff" for letter in text)


def _mixed_types(values: Any, column: str) -> IdError:
    kinds: dict[str, int] = {}
    for row, value in enumerate(values):
        if value is not None and value == value:
            kinds.setdefault(type(value).__name__, row)
    if len(kinds) < 2:
        kind = next(iter(kinds), "nothing")
        return IdError(f"column {column!r} holds {kind} values, which cannot serve as ids; convert it to strings")
    found = ", ".join(f"{kind} (first in row {row + 1})" for kind, row in kinds.items())
    return IdError(
        f"column {column!r} mixes types: {found}; 7 and '7' would be two different ids. "
        f"Make it one type, for example with frame[{column!r}] = frame[{column!r}].astype(str)"
    )


def encode(column: pa.Array) -> tuple[Codes, Ids]:
    """Return the code of every row (int32, in order of first appearance) and the vocabulary.

    A row without a value (null, NaN or a blank string) has code -1.
    """
    if pa.types.is_dictionary(column.type):
        inner, seen = encode(column.indices)
        names = column.dictionary.take(seen.to_arrow())
        codes, ids = encode(names)
        return np.append(codes, np.int32(-1))[inner], ids
    if column.null_count or pa.types.is_floating(column.type):
        present = np.flatnonzero(~np.asarray(pc.is_null(column, nan_is_null=True)))
        codes = np.full(len(column), -1, np.int32)
        codes[present], names = _first_seen(column.take(pa.array(present)))
    else:
        codes, names = _first_seen(column)
    return without(codes, names)


def encode_all(*columns: pa.Array) -> list[tuple[Codes, Ids]]:
    """Encode columns in parallel: the loops release the interpreter lock."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(columns)) as pool:
        return list(pool.map(encode, columns))


def without(codes: Codes, names: pa.Array, tokens: Sequence[str] = ()) -> tuple[Codes, Ids]:
    """Remove names that mean "no value" (blank, or one of ``tokens``) from a vocabulary; their rows get -1."""
    if not is_text(names) or not len(names):
        return codes, Ids(names)
    return without_blanks(codes, valid_text(names), tokens)


def valid_text(names: pa.Array) -> pa.Array:
    """Return these strings, or raise if they hold invalid UTF-8."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid as error:
        raise FormatError(f"a value is not UTF-8 text ({error})") from error
    return names


def without_blanks(codes: Codes, names: pa.Array, tokens: Sequence[str] = ()) -> tuple[Codes, Ids]:
    """Do the same as :func:`without` for names that are known to be valid text."""
    gone = blanks(names, tokens)
    if not gone.any():
        return codes, Ids(names)
    return _renumbered(codes, names, gone)


def blanks(names: pa.Array, tokens: Sequence[str] = ()) -> Bools:
    """Return which names mean "no value": blank, or one of ``tokens``."""
    gone = np.zeros(len(names), np.bool_)
    if not len(names):
        return gone
    # Only names that are short, or may begin with white space, need a check.
    offsets, characters = text_buffers(names)
    first = np.take(characters, offsets[:-1], mode="clip") if characters.size else np.zeros(1, np.uint8)
    suspects = np.flatnonzero((np.diff(offsets) <= max(map(len, tokens), default=0)) | (first <= 32) | (first >= 0xC2))
    if suspects.size:
        few = names.take(pa.array(suspects))
        blank = pc.equal(pc.utf8_trim_whitespace(few), "")
        token = pc.is_in(few, value_set=pa.array(tokens, names.type))
        gone[suspects] = np.asarray(pc.or_(blank, token).fill_null(False))
    return gone


def without_code(codes: Codes, ids: Ids, code: int) -> tuple[Codes, Ids]:
    """Remove one name from a vocabulary; its rows get -1."""
    return _renumbered(codes, ids.to_arrow(), np.arange(len(ids)) == code)


def _renumbered(codes: Codes, names: pa.Array, gone: Bools) -> tuple[Codes, Ids]:
    new = np.where(gone, -1, np.cumsum(~gone) - 1).astype(np.int32)
    return np.append(new, np.int32(-1))[codes], Ids(names.filter(pa.array(~gone)))


def is_text(column: pa.Array) -> bool:
    """Return whether a column holds strings."""
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _first_seen(column: pa.Array) -> tuple[Codes, pa.Array]:
    if is_text(column):
        from consilience.kernels.strings import encode_bytes

        codes, first = encode_bytes(*text_buffers(column))
        return codes, column.take(pa.array(first))
    dictionary = pc.dictionary_encode(column)
    return np.asarray(dictionary.indices, np.int32), dictionary.dictionary


def text_buffers(column: pa.Array) -> tuple[Codes, Codes]:
    """Return the offsets and the bytes of a column of strings."""
    width = np.int64 if pa.types.is_large_string(column.type) else np.int32
    if not len(column):  # it may have no buffers
        return np.zeros(1, width), np.empty(0, np.uint8)
    _, offsets, data = column.buffers()
    window = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
    return window, np.frombuffer(data or b"", np.uint8)


def numbers_where_all_are(ids: Ids) -> Ids:
    """Convert text ids to numbers if all are written as numbers are: ``7`` but not ``007``.

    Text files have no types.  Nothing is lost: the numbers, written again, are the same text.
    """
    names = ids.to_arrow()
    if not len(ids) or not pa.types.is_string(names.type):
        return ids
    for pattern, kind in ((_INTEGER, pa.int64()), (_DECIMAL, pa.float64())):
        # the first few decide in most cases
        if all(pc.all(pc.match_substring_regex(part, pattern)).as_py() for part in (names[:100], names)):
            numbers = names.cast(kind)
            return Ids(numbers) if _as_text(numbers).equals(names) else ids
    return ids


def _as_text(column: pa.Array) -> pa.Array:
    """Return numbers as Python writes them: 1.0 and not 1."""
    if pa.types.is_floating(column.type):
        return pa.array([None if x is None else repr(x) for x in column.to_pylist()], pa.string())
    return column.cast(pa.string())


def joined(first: pa.Array, second: pa.Array) -> pa.Array:
    """Return two columns of ids one after the other; as text if their types differ."""
    if first.type != second.type:
        first, second = _as_text(first), _as_text(second)
    return pa.concat_arrays([first, second])


def name_rows(rows: Ints, most: int = 5) -> str:
    """Return rows as text, counted from 1: ``rows 3, 7 and 9``."""
    numbers = [str(int(row) + 1) for row in rows[:most]]
    if len(rows) > most:
        return f"rows {', '.join(numbers)} and {len(rows) - most} more"
    return f"row {numbers[0]}" if len(numbers) == 1 else f"rows {', '.join(numbers[:-1])} and {numbers[-1]}"
