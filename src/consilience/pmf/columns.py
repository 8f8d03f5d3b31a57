"""Encode one column of a table: missing values, unknown values, and equality of values across types.

====== =========== =====================================================================
code   name        meaning
====== =========== =====================================================================
≥ 0    ..          the index of a category
-1     ``MISSING`` null, None, NaN, a blank string, or -1 in a matrix of codes
-2     ``STRANGE`` a value that is not among the given categories
====== =========== =====================================================================

Numbers of different types are equal: True is 1, and 0.1 in single precision is 0.1 in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.kernels._arrays import Bools, Codes, Ints

__all__ = ["MISSING", "STRANGE", "decode", "encode_column"]

MISSING, STRANGE = -1, -2

#: Whole numbers that span less than this are encoded by a table, wider ranges by sorting.
_NARROW = 1 << 16
#: Whole numbers up to here, and their differences, fit into 64 bits.
_FITS = 2.0**62


def encode_column(column: Any, known: Any, name: str, coded: bool = False) -> tuple[Codes, Codes]:
    """Return codes and categories.

    Parameters
    ----------
    column
        A numpy or pyarrow array.
    known
        The categories, in the order of their codes; None takes those of the column.
    coded
        Whether -1 means a missing entry; not if it is one of the known categories.
    """
    import pyarrow as pa

    from consilience.data.ids import to_column

    if isinstance(column, np.ndarray) and column.dtype.kind not in "iufb":
        column = to_column(column, name)
    if known is not None and not isinstance(column, np.ndarray) and pa.types.is_dictionary(column.type):
        column = to_column(column, name).dictionary_decode()
    numbers = _numbers(column)
    if numbers is None:
        return _encode_values(to_column(column, name), known)
    values, gone = numbers
    minus = (values == -1) if coded else np.zeros(1, np.bool_)
    if known is None:
        return _encode_numbers(values, gone | minus)
    wanted = np.asarray(known)
    if wanted.dtype.kind in "iufb":
        codes = _look_up(values, wanted)
    else:
        codes, _ = _encode_values(to_column(pa.array(values, mask=gone), name), known)
    codes[gone | (minus & (codes < 0))] = MISSING
    return codes, wanted


def decode(codes: Codes, values: Codes) -> Codes:
    """Turn codes into values; -1 becomes NaN for numbers and None otherwise."""
    if not (codes < 0).any():
        found: Codes = values[codes]
        return found
    numbers = values.dtype.kind in "iuf"
    longer = np.empty(len(values) + 1, np.float64 if numbers else object)
    longer[:-1] = values
    longer[-1] = np.nan if numbers else None
    return longer[codes]


# ---- numbers ------------------------------------------------------------------------------------------------


def _numbers(column: Any) -> tuple[Codes, Bools] | None:
    """Return numbers or booleans, and which are missing; None if the column holds something else."""
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        return column, np.isnan(column) if column.dtype.kind == "f" else np.zeros(column.size, np.bool_)
    kind = column.type
    if pa.types.is_floating(kind):
        values: Codes = np.asarray(column)
        return values, np.isnan(values)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return np.asarray(column.fill_null(0 if pa.types.is_integer(kind) else False)), np.asarray(column.is_null())
    return None


def _look_up(values: Codes, wanted: Codes) -> Ints:
    """Return the index of each number among the wanted ones, or ``STRANGE``."""
    if values.dtype.kind == wanted.dtype.kind == "f":
        narrow = min(values.dtype, wanted.dtype, key=lambda dtype: dtype.itemsize)
        with np.errstate(over="ignore"):
            values, wanted = values.astype(narrow), wanted.astype(narrow)
    order = np.argsort(wanted, kind="stable")
    ranked = wanted[order]
    at = np.minimum(np.searchsorted(ranked, values), wanted.size - 1)
    return np.where(ranked[at] == values, order[at], STRANGE)


def _encode_numbers(values: Codes, gone: Bools) -> tuple[Codes, Codes]:
    codes = np.full(values.size, MISSING, np.int64)
    there: Any = ~gone if gone.any() else slice(None)
    seen = values[there]
    if not seen.size:
        return codes, np.array([np.nan])
    categories, codes[there] = _distinct(seen)
    return codes, categories


def _distinct(seen: Codes) -> tuple[Codes, Codes]:
    """Return the sorted values and the index of each entry among them."""
    low, high = seen.min(), seen.max()
    whole = seen.dtype.kind in "iu" or (seen.dtype.kind == "f" and bool(np.all(seen == np.floor(seen))))
    if whole and float(low) >= -_FITS and float(high) <= _FITS and int(high) - int(low) < _NARROW:
        # widened first: 100 - (-100) overflows int8
        shifted = seen.astype(np.int64) - int(low)
        there = np.bincount(shifted) > 0
        return np.flatnonzero(there).astype(np.int64) + int(low), (np.cumsum(there) - 1)[shifted]
    values, places = np.unique(seen, return_inverse=True)
    return values, places


# ---- anything else ------------------------------------------------------------------------------------------


def _encode_values(array: Any, known: Any) -> tuple[Codes, Codes]:
    """Encode strings, dates and categorical columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from consilience.data.ids import Ids, encode

    if known is not None:
        wanted = np.asarray(known)
        codes = Ids(pa.array(wanted.tolist())).codes_of(array)
        gone = np.asarray(pc.is_null(array, nan_is_null=True))
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            gone = gone | np.asarray(pc.equal(pc.utf8_trim_whitespace(array), "").fill_null(True))
        return np.where(gone, MISSING, np.where(codes < 0, STRANGE, codes)), wanted
    if pa.types.is_dictionary(array.type) and len(array.dictionary):
        values = Ids(array.dictionary).to_numpy()
        return np.asarray(array.indices.cast(pa.int64()).fill_null(MISSING)), values
    codes, ids = encode(array)
    if not len(ids):
        return codes.astype(np.int64), np.array([None], object)
    ordered, rank = ids.sorted()
    return np.append(rank, MISSING)[codes], ordered.to_numpy()
