"""A table of discrete variables as codes: one column for each variable, -1 where an entry is missing.

====== ================== ==========================================
symbol name               shape
====== ================== ==========================================
S, N   ``codes.shape``    rows and variables
I_n    ``sizes[n]``       number of categories of variable n
..     ``codes``          (S, N), small signed integers, -1 missing
..     ``categories[n]``  (I_n,), the value behind each code
====== ================== ==========================================

Codes follow the categories of a categorical column where there are any (also those that no row has), and the sorted
values otherwise, so they do not depend on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.exceptions import ColumnError, DataError, DataWarning, ParameterError, warn
from consilience.kernels._arrays import Codes

__all__ = ["DiscreteTable"]

#: Whole numbers that span less than this are coded by a table, wider ones by sorting.
_NARROW = 1 << 16


@dataclass(frozen=True, eq=False)
class DiscreteTable:
    """Codes (S, N) with -1 for missing entries, and what they stand for.

    Make one with :meth:`from_data`.
    """

    codes: Codes
    categories: tuple[Codes, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if (
            self.codes.ndim != 2
            or len(self.categories) != self.codes.shape[1]
            or len(self.names) != self.codes.shape[1]
        ):
            raise ParameterError(
                f"a table needs codes (rows, variables) with categories and a name for each variable, not codes "
                f"{self.codes.shape}, {len(self.categories)} categories and {len(self.names)} names"
            )
        codes = np.ascontiguousarray(self.codes, signed_dtype(max(self.sizes, default=1)))
        if codes.size:
            highest = codes.max(axis=0)
            if codes.min() < -1 or np.any(highest >= np.array(self.sizes)):
                raise ParameterError("codes must be -1 (missing) or the place of a category of their variable")
        object.__setattr__(self, "codes", codes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each variable."""
        return tuple(len(values) for values in self.categories)

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def index(self, variable: int | str) -> int:
        """Give the column of a variable that is named by its name or its number."""
        return index_of(variable, self.names)

    def values(self, codes: Codes, variable: int) -> Codes:
        """Turn the codes of a variable into its values; -1 becomes NaN or None."""
        return decode(codes, self.categories[variable])

    @classmethod
    def from_data(
        cls,
        X: Any,
        *,
        categories: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        optional: int | None = None,
    ) -> DiscreteTable:
        """Code a table.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow) with a column for each variable, a matrix of numbers, an array of objects,
            or a table.  Null, None and NaN are missing entries; so is -1 in a matrix whose numbers are all whole.
        categories
            The values of each variable.  A value that is not among them becomes a missing entry, with a warning.
            Without ``categories`` they are taken from the data.
        names
            Names of the variables.  A frame's columns are then found by name, in whatever order they come.
        optional
            Place of a variable whose column may be left out: all its entries are missing then.
        """
        if isinstance(X, DiscreteTable):
            if categories is None:
                return X
            if _same(X.categories, categories):
                return X if names is None else cls(X.codes, X.categories, tuple(names))
        columns, found = _columns(X, names, optional)
        known: list[Any] = [None] * len(columns) if categories is None else list(categories)
        if len(known) != len(columns):
            raise DataError(f"the table has {len(columns)} columns; {len(known)} were expected")
        if not columns:
            raise DataError("the table has no columns; a joint distribution needs at least one variable")
        coded: list[Codes] = []
        values: list[Codes] = []
        unseen: list[str] = []
        for column, wanted, name in zip(columns, known, found, strict=True):
            codes, these, strange = _encode(column, wanted, name)
            coded.append(codes)
            values.append(these)
            if strange:
                unseen.append(f"{name} ({strange})")
        if unseen:
            warn(
                f"values that are no category of their variable are taken as missing; entries by variable: "
                f"{', '.join(unseen[:8])}{', …' if len(unseen) > 8 else ''}",
                DataWarning,
            )
        rows = max(len(codes) for codes in coded)
        codes = np.full((rows, len(coded)), -1, signed_dtype(max(len(v) for v in values)))
        for n, column in enumerate(coded):
            codes[:, n] = column if len(column) else -1
        return cls(codes, tuple(values), tuple(found))


def signed_dtype(size: int) -> np.dtype[Any]:
    """Give the smallest signed type that holds -1 … size - 1."""
    return np.dtype(np.int8 if size <= 127 else np.int16 if size <= 32767 else np.int32)


def index_of(variable: int | str, names: Sequence[str]) -> int:
    """Give the place of a variable, or say which there are."""
    if isinstance(variable, str):
        if names.count(variable) != 1:
            listed = ", ".join(map(repr, names[:12]))
            raise ParameterError(f"there is no one variable {variable!r}; the variables are {listed}")
        return list(names).index(variable)
    place = int(variable)
    if not -len(names) <= place < len(names):
        raise ParameterError(f"there are {len(names)} variables, numbered from 0; {variable!r} is none of them")
    return place % len(names)


def decode(codes: Codes, values: Codes) -> Codes:
    """Turn codes into values; -1 becomes NaN among numbers and None among others."""
    if not (codes < 0).any():
        found: Codes = values[codes]
        return found
    numbers = values.dtype.kind in "iuf"
    longer = np.empty(len(values) + 1, np.float64 if numbers else object)
    longer[:-1] = values
    longer[-1] = np.nan if numbers else None
    return longer[codes]


def _same(one: Sequence[Codes], other: Sequence[Any]) -> bool:
    if len(one) != len(other):
        return False
    pairs = zip(one, other, strict=True)
    return all(a is b or (len(a) == len(b) and a.dtype == b.dtype and bool(np.all(a == b))) for a, b in pairs)


def _columns(X: Any, names: Sequence[str] | None, optional: int | None) -> tuple[list[Any], list[str]]:
    """Give the columns one by one, and their names; the optional one may be empty."""
    from consilience._frames import columns_of, is_frame

    if isinstance(X, DiscreteTable):
        X = {name: X.values(X.codes[:, n], n) for n, name in enumerate(X.names)}
        there = list(X)
    elif not isinstance(X, np.ndarray | list | tuple) and is_frame(X):
        import narwhals as nw

        frame = nw.from_native(X, eager_only=True)
        there = columns_of(X)
        X = {name: frame.get_column(name).to_arrow() for name in there}
        there = [str(name) for name in there]
        X = dict(zip(there, X.values(), strict=True))
    else:
        return _matrix_columns(X, names, optional)
    if names is None:
        return list(X.values()), there
    lacking = [name for n, name in enumerate(names) if name not in X and n != optional]
    if lacking:
        raise ColumnError(f"the table has no column {', '.join(map(repr, lacking[:8]))}; it was fitted with it")
    return [X.get(name, np.empty(0)) for name in names], list(names)


def _matrix_columns(X: Any, names: Sequence[str] | None, optional: int | None) -> tuple[list[Any], list[str]]:
    matrix = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=None if _plain_numbers(X) else object)
    if matrix.ndim != 2:
        raise DataError(f"expected a table of rows and variables, got an array of shape {matrix.shape}")
    columns: list[Any] = [matrix[:, n] for n in range(matrix.shape[1])]
    if matrix.dtype.kind == "f":
        if np.isinf(matrix).any():
            raise DataError("the table has infinite entries; a missing entry is NaN or -1")
        # -1 means missing among codes, and may be a value among measurements
        whole = bool(np.all((matrix == np.floor(matrix)) | np.isnan(matrix)))
        columns = [np.where(c == -1, np.nan, c) if whole else c for c in columns]
    elif matrix.dtype.kind not in "iubOUS":
        raise DataError(f"entries of type {matrix.dtype} are no categories; convert them to whole numbers or strings")
    if names is not None and optional is not None and len(columns) == len(names) - 1:
        columns.insert(optional, np.empty(0))
    if names is not None and len(columns) != len(names):
        raise DataError(f"the table has {len(columns)} columns; {len(names)} were expected, as in the fit")
    return columns, list(names) if names is not None else [f"x{n}" for n in range(len(columns))]


def _plain_numbers(X: Any) -> bool:
    try:
        return np.asarray(X).dtype.kind in "iufb"
    except ValueError as error:
        raise DataError("the rows of the table differ in length") from error


def _encode(column: Any, known: Any, name: str) -> tuple[Codes, Codes, int]:
    """Give codes, categories, and the number of entries that are no category."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
        return _encode_numbers(column, known)
    if isinstance(column, np.ndarray) and column.size == 0 and known is not None:
        return np.empty(0, np.int64), np.asarray(known), 0
    return _encode_values(column, known, name)


def _encode_numbers(column: Codes, known: Any) -> tuple[Codes, Codes, int]:
    gone = np.isnan(column) if column.dtype.kind == "f" else column == -1 if column.dtype.kind == "i" else None
    there: Any = slice(None) if gone is None else ~gone
    seen = column[there]
    codes = np.full(column.size, -1, np.int64)
    if known is not None:
        wanted = np.asarray(known)
        if wanted.dtype.kind not in "iufb":
            values = column.astype(object)
            if gone is not None:
                values[gone] = None
            return _encode_values(values, known, "")
        order = np.argsort(wanted, kind="stable")
        at = np.minimum(np.searchsorted(wanted, seen, sorter=order), wanted.size - 1)
        hit = np.where(wanted[order[at]] == seen, order[at], -1)
        codes[there] = hit
        return codes, wanted, int((hit < 0).sum())
    if not seen.size:
        return codes, np.array([np.nan]), 0
    values, hit = _distinct(seen)
    codes[there] = hit
    return codes, values, 0


def _distinct(seen: Codes) -> tuple[Codes, Codes]:
    """Give the sorted values and the place of each entry among them."""
    low, high = seen.min(), seen.max()
    if float(high) - float(low) < _NARROW and (seen.dtype.kind != "f" or np.all(seen == np.floor(seen))):
        shifted = (seen - low).astype(np.int64)
        there = np.bincount(shifted) > 0
        values = np.flatnonzero(there) + int(low)
        return values.astype(np.int64), (np.cumsum(there) - 1)[shifted]
    values, hit = np.unique(seen, return_inverse=True)
    return values, hit


def _encode_values(column: Any, known: Any, name: str) -> tuple[Codes, Codes, int]:
    """Code strings, dates, booleans and categorical columns."""
    import pyarrow as pa

    from consilience._ids import Ids, encode, to_column

    array = to_column(column, name)
    if known is not None:
        plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        wanted = np.asarray(known)
        hit = Ids(pa.array(wanted.tolist())).codes_of(plain)
        there = np.asarray(plain.is_valid()) if not pa.types.is_floating(plain.type) else ~np.isnan(np.asarray(plain))
        blank = ~there if not pa.types.is_string(plain.type) else ~there | _blank(plain)
        hit = np.where(blank, -1, hit)
        return hit, wanted, int(((hit < 0) & ~blank).sum())
    if pa.types.is_dictionary(array.type) and len(array.dictionary):
        values = Ids(array.dictionary).to_numpy()
        return np.asarray(array.indices.cast(pa.int64()).fill_null(-1)), values, 0
    codes, ids = encode(array)
    if not len(ids):
        return codes.astype(np.int64), np.array([None], object), 0
    ordered, rank = ids.sorted()
    return np.append(rank, -1)[codes], ordered.to_numpy(), 0


def _blank(texts: Any) -> Any:
    import pyarrow.compute as pc

    return np.asarray(pc.equal(pc.utf8_trim_whitespace(texts), "").fill_null(True))
