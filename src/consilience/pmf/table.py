"""A table of discrete variables as codes: one column per variable, -1 for missing entries.

====== ================== ==========================================
symbol name               shape
====== ================== ==========================================
S, N   ``codes.shape``    rows and variables
I_n    ``sizes[n]``       number of categories of variable n
..     ``codes``          (S, N), small signed integers, -1 missing
..     ``categories[n]``  (I_n,), the value of each code
====== ================== ==========================================

Codes follow the order of a categorical column's categories (including unused ones), and otherwise the sorted values, so
they do not depend on the order of the rows.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.exceptions import ColumnError, DataError, DataWarning, ParameterError, warn
from consilience.kernels._arrays import Codes
from consilience.pmf.columns import MISSING, STRANGE, decode, encode_column

__all__ = ["DiscreteTable", "as_matrix", "encode_rows", "frame_column", "frame_columns", "index_of", "signed_dtype"]


@dataclass(frozen=True, eq=False)
class DiscreteTable:
    """Codes (S, N) with -1 for missing entries, and their meaning; build one with :meth:`from_data`."""

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
                f"a table needs codes (rows, variables) with categories and a name per variable, not codes "
                f"{self.codes.shape}, {len(self.categories)} categories and {len(self.names)} names"
            )
        _check_names(self.names)
        codes = np.ascontiguousarray(self.codes, signed_dtype(max(self.sizes, default=1)))
        if codes.size:
            highest = codes.max(axis=0)
            if codes.min() < -1 or np.any(highest >= np.array(self.sizes)):
                raise ParameterError("codes must be -1 (missing) or the index of a category of their variable")
        object.__setattr__(self, "codes", codes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each variable."""
        return tuple(len(values) for values in self.categories)

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def index(self, variable: int | str) -> int:
        """Return the column of a variable, given by name or number."""
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
        """Encode a table.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow) with one column per variable, a matrix of numbers, an array of objects, or
            a table.  Null, None, NaN and blank strings are missing entries; so is -1 in a matrix of whole numbers.
        categories
            The values of each variable; by default those of the data.  Other values become missing entries, with a
            warning, except for -1 in a matrix, which means missing unless it is among them.
        names
            Names of the variables.  A frame's columns are then found by name, in any order.
        optional
            Index of a variable whose column may be left out; its entries are then missing.
        """
        if isinstance(X, DiscreteTable):
            if categories is None:
                return X
            if _same(X.categories, categories):
                return X if names is None else cls(X.codes, X.categories, tuple(names))
        codes, values, found = encode_rows(X, categories, names, optional)
        return cls(np.maximum(codes, MISSING, out=codes), values, found)


def encode_rows(
    X: Any, categories: Sequence[Any] | None, names: Sequence[str] | None, optional: int | None = None
) -> tuple[Codes, tuple[Codes, ...], tuple[str, ...]]:
    """Return codes, categories and names as :meth:`DiscreteTable.from_data`, but ``STRANGE`` for unknown values."""
    columns, found, coded = _columns(X, names, optional, categories is None)
    known: list[Any] = [None] * len(columns) if categories is None else list(categories)
    if len(known) != len(columns):
        raise DataError(f"the table has {len(columns)} columns; {len(known)} were expected")
    if not columns:
        raise DataError("the table has no columns; a joint distribution needs at least one variable")
    done = [
        (None, np.asarray(wanted)) if column is None else encode_column(column, wanted, name, coded)
        for column, wanted, name in zip(columns, known, found, strict=True)
    ]
    rows = max((len(codes) for codes, _ in done if codes is not None), default=0)
    table = np.full((rows, len(done)), MISSING, signed_dtype(max(len(values) for _, values in done)))
    unseen = []
    for n, (codes, _) in enumerate(done):
        if codes is not None:
            table[:, n] = codes
            strange = int(np.count_nonzero(codes == STRANGE))
            unseen += [f"{found[n]} ({strange})"] if strange else []
    if unseen:
        warn(
            f"values that are no category of their variable count as missing; entries by variable: "
            f"{', '.join(unseen[:8])}{', …' if len(unseen) > 8 else ''}",
            DataWarning,
        )
    return table, tuple(values for _, values in done), tuple(found)


def signed_dtype(size: int) -> np.dtype[Any]:
    """Return the smallest signed type that holds -1 … size - 1."""
    return np.dtype(np.int8 if size <= 127 else np.int16 if size <= 32767 else np.int32)


def index_of(variable: int | str, names: Sequence[str]) -> int:
    """Return the index of a variable; raise with the list of variables if it is unknown."""
    if isinstance(variable, str):
        if names.count(variable) != 1:
            listed = ", ".join(map(repr, names[:12]))
            raise ParameterError(f"there is no variable {variable!r} (or more than one); the variables are {listed}")
        return list(names).index(variable)
    try:
        place = operator.index(variable)
    except TypeError as error:
        raise ParameterError(f"a variable is given by its name or its number, not by {variable!r}") from error
    if not -len(names) <= place < len(names):
        raise ParameterError(f"there are {len(names)} variables, numbered from 0; {variable!r} is not among them")
    return place % len(names)


def _same(one: Sequence[Codes], other: Sequence[Any]) -> bool:
    if len(one) != len(other):
        return False
    pairs = zip(one, other, strict=True)
    return all(a is b or (len(a) == len(b) and a.dtype == b.dtype and bool(np.all(a == b))) for a, b in pairs)


def frame_columns(X: Any) -> list[Any] | None:
    """Return the names of a frame's columns, or None if X is not a frame; names must differ, also as text."""
    if isinstance(X, np.ndarray | list | tuple | DiscreteTable):
        return None
    from narwhals.exceptions import DuplicateError

    from consilience.data.frames import columns_of, is_frame

    try:
        if not is_frame(X):
            return None
        names: list[Any] = columns_of(X)
    except DuplicateError:
        names = list(X.column_names if hasattr(X, "column_names") else X.columns)
    _check_names([str(name) for name in names])
    return names


def frame_column(X: Any, name: Any) -> Any:
    """Return a column of a frame as a pyarrow array; mixed types raise an error that names the rows."""
    import narwhals as nw
    import pyarrow as pa

    from consilience.data.ids import to_column

    column = nw.from_native(X, eager_only=True).get_column(name)
    try:
        return column.to_arrow()
    except pa.ArrowException:
        return to_column(column.to_numpy(), str(name))


def _check_names(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = [name for name, times in Counter(names).items() if times > 1]
        raise ColumnError(f"more than one column is named {', '.join(map(repr, twice[:8]))}; rename all but one")


def _columns(X: Any, names: Sequence[str] | None, optional: int | None, new: bool) -> tuple[list[Any], list[str], bool]:
    """Return the columns (None for one that is left out), their names, and whether -1 may mean missing."""
    there = frame_columns(X)
    if there is not None:
        by_name = {str(name): frame_column(X, name) for name in there}
    elif isinstance(X, DiscreteTable):
        by_name = {name: X.values(X.codes[:, n], n) for n, name in enumerate(X.names)}
    else:
        return _matrix_columns(X, names, optional, new)
    if names is None:
        return list(by_name.values()), list(by_name), False
    lacking = [name for n, name in enumerate(names) if name not in by_name and n != optional]
    if lacking:
        raise ColumnError(f"the table has no column {', '.join(map(repr, lacking[:8]))}; the fit had it")
    return [by_name.get(name) for name in names], list(names), False


def _matrix_columns(
    X: Any, names: Sequence[str] | None, optional: int | None, new: bool
) -> tuple[list[Any], list[str], bool]:
    matrix = as_matrix(X)
    columns: list[Any] = [matrix[:, n] for n in range(matrix.shape[1])]
    coded = matrix.dtype.kind == "i"
    if matrix.dtype.kind == "f":
        if np.isinf(matrix).any():
            raise DataError("the table has infinite entries; a missing entry is NaN or -1")
        # -1 means missing among codes but may be a measured value.  The fit decides by all its rows; afterwards the
        # categories decide.
        coded = not new or bool(np.all((matrix == np.floor(matrix)) | np.isnan(matrix)))
    if names is not None and optional is not None and len(columns) == len(names) - 1:
        columns.insert(optional, None)
    if names is not None and len(columns) != len(names):
        raise DataError(f"the table has {len(columns)} columns; {len(names)} were expected, as in the fit")
    return columns, list(names) if names is not None else [f"x{n}" for n in range(len(columns))], coded


def as_matrix(X: Any) -> Codes:
    """Return rows and variables as one array, of numbers if all are numbers, else of objects."""
    if hasattr(X, "tocsr"):
        raise TypeError("sparse matrices have no categories; pass a dense table (X.toarray())")
    matrix = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=None if _plain_numbers(X) else object)
    if matrix.ndim == 0:
        kind = type(X).__name__
        raise DataError(f"expected a table: a frame in memory, or an array or list of rows, not a {kind}")
    if matrix.ndim != 2:
        hint = "Reshape your data: X.reshape(-1, 1) for one variable, X.reshape(1, -1) for one row"
        raise DataError(f"expected a table of rows and variables, got an array of shape {matrix.shape}. {hint}")
    if matrix.shape[1] == 0:
        raise DataError(
            f"0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required: the table has no columns"
        )
    if matrix.dtype.kind not in "iufbOUS":
        strange = "Complex data not supported: " * (matrix.dtype.kind == "c")
        raise DataError(
            f"{strange}entries of type {matrix.dtype} are not categories; make them whole numbers or strings"
        )
    return matrix


def _plain_numbers(X: Any) -> bool:
    try:
        return np.asarray(X).dtype.kind in "iufb"
    except ValueError as error:
        raise DataError("the rows of the table differ in length") from error
