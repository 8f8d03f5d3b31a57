"""From frames, coded columns and matrices to the arrays of :class:`consilience.data.annotations.Annotations`.

Every source ends in :class:`Parts`: the labels in order of their items, and the names of the codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.frames import Origin
from consilience.data.ids import Ids, encode, name_rows, numbers_where_all_are, to_column, without_code
from consilience.data.option_sets import joined_lists
from consilience.data.spelling import notes_on_spelling
from consilience.data.truth import arrow_or_values
from consilience.data.variants import variant_columns
from consilience.exceptions import DataError, DataWarning, IdError, ParameterError, warn
from consilience.kernels._arrays import Codes, Ints
from consilience.kernels.grouping import drop_repeats, group_by_item

if TYPE_CHECKING:
    from consilience.data.times import Times

__all__ = [
    "KEPT",
    "NO_LABEL",
    "Duplicates",
    "Parts",
    "RowOptions",
    "check_duplicates",
    "check_rows",
    "checked_times",
    "code_classes",
    "columns_of_frame",
    "no_id",
    "notes_on_repeats",
    "notes_on_rows",
    "parts_of_codes",
    "parts_of_matrix",
    "times_of_frame",
    "variant_values",
]

Duplicates = Literal["last", "first", "keep", "error"]

#: Which of repeated answers to keep while they are counted, under each rule.
KEPT = {"last": "last", "first": "first", "keep": "all", "error": "all"}


#: How the note on rows without a label ends.
NO_LABEL = "rows have no label and were left out"
#: Labels that are recoded at a time.
_AT_ONCE = 1 << 20


class Parts(TypedDict):
    """The arguments of Annotations; :mod:`consilience.data.annotations` has their shapes and types."""

    indptr: Ints
    annotator: Codes
    label: Codes
    items: Ids
    annotators: Ids
    classes: Ids
    origin: Origin
    time: Times | None
    blank: tuple[Codes, Codes] | None


class RowOptions(TypedDict, total=False):
    """Options of :func:`parts_of_codes`."""

    classes: Sequence[Any] | None  #: in order; by default those that occur, ascending
    duplicates: Duplicates  #: which of repeated answers to keep
    origin: Origin | None  #: column names of the source
    where: str  #: what to call the data in messages
    untyped: bool  #: whether names that are all numbers become numbers
    time: Times | None  #: when each label was given


def columns_of_frame(frame: Any, **given: str | None) -> tuple[dict[str, pa.Array], dict[str, str]]:
    """Return the columns of a long frame by role, and their names: those given, or the usual ones."""
    table = _frames.opened(frame)
    names = _frames.find_columns(table.columns, given, "the frame")
    columns = {role: arrow_or_values(table[name]) for role, name in names.items()}
    columns["label"] = joined_lists(columns["label"])
    return {role: to_column(columns[role], name) for role, name in names.items()}, names


def check_rows(item: pa.Array, where: str) -> None:
    """Raise if there are no rows."""
    if len(item) == 0:
        raise DataError(f"{where} has no rows: there is nothing to aggregate")


def variant_values(frame: Any, names: dict[str, str]) -> list[pa.Array]:
    """Return the columns of a long frame that may tell variants of a judge apart."""
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    return [
        to_column(arrow_or_values(table[name]), name) for name in variant_columns(table.columns, names["annotator"])
    ]


def times_of_frame(frame: Any, name: str | None, origin: Origin) -> Times | None:
    """Return the times of a long frame's rows, from the column named or recognised; None if there is none."""
    import narwhals as nw

    from consilience.data.times import find_time_column

    table = nw.from_native(frame, eager_only=True)
    found = name or find_time_column(table.columns, (origin.item, origin.annotator, origin.label))
    if found is None:
        return None
    if found not in table.columns:
        raise _frames.no_column(found, table.columns, "the frame")
    return checked_times(arrow_or_values(table[found]), found, "the frame", asked=name is not None)


def checked_times(column: Any, name: str, where: str, *, asked: bool) -> Times | None:
    """Return the times in a column; if it was ``asked`` for, it must hold some."""
    from consilience.data.times import parse_times

    try:
        times = parse_times(column)
    except (pa.ArrowException, TypeError, ValueError):
        times = None
    if times is None and asked:
        raise DataError(
            f"{where}: the column {name!r} holds no times: expected dates, text such as 2026-11-17T08:30:00, or numbers"
        )
    return times


def parts_of_codes(
    item: tuple[Codes, Ids],
    annotator: tuple[Codes, Ids],
    label: tuple[Codes, Ids],
    *,
    classes: Sequence[Any] | None = None,
    duplicates: Duplicates = "last",
    origin: Origin | None = None,
    where: str = "the data",
    untyped: bool = False,
    time: Times | None = None,
) -> Parts:
    """Group coded rows by item; rows without a label and repeated answers are left out with a warning.

    The items of such rows stay, so a row with neither annotator nor label declares an item.
    """
    check_duplicates(duplicates)
    origin = origin or Origin()
    (item_code, items), (annotator_code, annotators), (label_code, label_ids) = item, annotator, label
    unlabelled = np.flatnonzero((label_code < 0) & (annotator_code >= 0))
    blank = (item_code[unlabelled], annotator_code[unlabelled]) if unlabelled.size else None
    if item_code.size and item_code.min() < 0:
        raise no_id(where, "item", origin.item, np.flatnonzero(item_code < 0))
    if annotator_code.size and annotator_code.min() < 0:
        nobody = annotator_code < 0
        if (wrong := nobody & (label_code >= 0)).any():
            raise no_id(where, "annotator", origin.annotator, np.flatnonzero(wrong))
        annotator_code = np.where(nobody, 0, annotator_code)  # without a label too: the row declares its item
    if untyped:
        items, annotators, label_ids = map(numbers_where_all_are, (items, annotators, label_ids))
    class_ids, label_code = code_classes(label_ids, label_code, classes, where)
    notes = notes_on_rows(int(np.count_nonzero(label_code < 0)), label_code.size, where, origin.label)
    notes += notes_on_spelling(class_ids, label_code, where) if classes is None else []
    shape = len(items), len(annotators), len(class_ids)
    indptr, by, said = group_by_item(item_code, annotator_code, label_code, *shape)
    if time is not None:
        time = _in_order(time, item_code, label_code, indptr, by, shape[1], KEPT[duplicates])
    indptr, by, said, repeats = drop_repeats(indptr, by, said, shape[1], KEPT[duplicates], overwrite=True)
    if repeats and duplicates == "error":
        raise DataError(_repeats_error(item_code, annotator_code, label_code, items, annotators, repeats, where))
    notes += notes_on_repeats(repeats, duplicates)
    for note in notes:
        warn(f"{where}: {note}", DataWarning)
    return Parts(
        indptr=indptr,
        annotator=by,
        label=said,
        items=items,
        annotators=annotators,
        classes=class_ids,
        origin=replace(origin, notes=(*origin.notes, *notes)),
        time=time,
        blank=blank,
    )


def _in_order(
    time: Times, item: Codes, label: Codes, indptr: Ints, annotator: Codes, n_annotators: int, keep: str
) -> Times:
    """Return the times in the order of the labels, without those of repeated answers."""
    kept = np.flatnonzero(label >= 0)
    ordered = time[kept[np.argsort(item[kept], kind="stable")]]
    # the places of the labels that are kept
    places = drop_repeats(indptr, annotator, np.arange(ordered.size), n_annotators, keep)[2]
    in_order: Times = ordered[places]
    return in_order


def check_duplicates(duplicates: str) -> None:
    """Raise unless this is a rule for repeated answers."""
    if duplicates not in KEPT:
        raise ParameterError(f"duplicates must be 'last', 'first', 'keep' or 'error', not {duplicates!r}")


def no_id(where: str, role: str, column: str, rows: Ints) -> IdError:
    """Return the error for rows without an item or an annotator."""
    return IdError(
        f"{where} has no {role} in {name_rows(rows)} (column {column!r}); "
        "fill the id in or remove the row: a label without it cannot be used"
    )


def notes_on_rows(unlabelled: int, n_rows: int, where: str, column: str) -> list[str]:
    """Return a note on rows without a label; raise if no row has one."""
    if unlabelled == n_rows:
        raise DataError(f"{where} has no label in any of its {n_rows} rows (column {column!r})")
    return [f"{unlabelled} of {n_rows} {NO_LABEL}"] if unlabelled else []


def notes_on_repeats(repeats: int, duplicates: str) -> list[str]:
    """Return a note on repeated answers, and which of them was kept."""
    if not repeats or duplicates == "keep":
        return []
    return [
        f"{repeats} labels repeat an answer of the same annotator to the same item; "
        f"the {duplicates} was kept (duplicates={duplicates!r})"
    ]


def parts_of_matrix(
    matrix: Any, items: Sequence[Any] | None, annotators: Sequence[Any] | None, classes: Sequence[Any] | None
) -> Parts:
    """Return the entries of an (items × annotators) matrix, or of a frame of that shape, that are not missing."""
    origin = Origin()
    if not isinstance(matrix, np.ndarray) and _frames.is_frame(matrix):
        import narwhals as nw

        frame = nw.from_native(matrix, eager_only=True)
        index, item, annotator = _frames.names_of_wide(matrix)
        items = index if items is None else items
        annotators = frame.columns if annotators is None else annotators
        origin = Origin(item, annotator, frame=_frames.kind_of(matrix))
        matrix = frame.to_numpy()
    matrix = _rectangular(matrix)
    if matrix.size == 0:
        raise DataError(f"the matrix has shape {matrix.shape}: there is nothing to aggregate")
    codes, ids = encode(to_column(matrix.ravel(), "the matrix"))
    if classes is None and matrix.dtype.kind == "f" and (codes < 0).any():
        ids = _whole(ids)
    if (absent := ids.codes_of([-1])[0]) >= 0 and ids[int(absent)] == -1:
        codes, ids = without_code(codes, ids, int(absent))
    said = (codes >= 0).reshape(matrix.shape)
    if not said.any():
        raise DataError("every entry of the matrix is missing (NaN, None or -1)")
    class_ids, label_code = code_classes(ids, codes[codes >= 0], classes, "the matrix")
    notes = notes_on_spelling(class_ids, label_code, "the matrix") if classes is None else []
    for note in notes:
        warn(f"the matrix: {note}", DataWarning)
    return Parts(
        indptr=np.concatenate([[0], np.cumsum(said.sum(axis=1))]),
        annotator=np.nonzero(said)[1],
        label=label_code,
        items=_named(items, matrix.shape[0], "items"),
        annotators=_named(annotators, matrix.shape[1], "annotators"),
        classes=class_ids,
        origin=replace(origin, notes=tuple(notes)),
        time=None,
        blank=None,
    )


def _whole(ids: Ids) -> Ids:
    """Return labels that are all whole numbers as integers: only NaN, for missing ones, made them floats."""
    values = ids.to_arrow().to_numpy()
    exact = (values == np.round(values)) & (np.abs(values) < 2.0**53)
    return Ids(pa.array(values.astype(np.int64))) if exact.all() else ids


def _rectangular(matrix: Any) -> np.ndarray[Any, Any]:
    """Return the matrix as an array; sparse matrices, ragged lists and other shapes are errors."""
    if hasattr(matrix, "tocoo"):
        raise DataError(
            "a sparse matrix does not say whether 0 is a label or missing; pass its entries as a long frame: "
            "c = matrix.tocoo(); cs.aggregate(pandas.DataFrame({'item': c.row, 'annotator': c.col, 'label': c.data}))"
        )
    if isinstance(matrix, list | tuple) and all(isinstance(row, list | tuple | np.ndarray) for row in matrix):
        lengths = [len(row) for row in matrix]
        if other := [n for n, length in enumerate(lengths) if length != lengths[0]]:
            raise DataError(
                f"the rows of the matrix have different lengths: row 1 has {lengths[0]} entries, row {other[0] + 1} "
                f"has {lengths[other[0]]}. Every row needs an entry for each annotator: NaN, None or -1 if missing"
            )
    array = np.asarray(matrix)
    if np.ma.is_masked(matrix):
        array = array.astype(object)
        array[np.ma.getmaskarray(matrix)] = None
    if array.ndim != 2:
        what = f"an array of shape {array.shape}" if array.ndim else type(matrix).__name__
        raise DataError(f"expected a file, a long frame, or a matrix of items × annotators, got {what}")
    return array


def code_classes(ids: Ids, codes: Codes, classes: Sequence[Any] | None, where: str) -> tuple[Ids, Codes]:
    """Return the classes in order, and the label codes in that order."""
    if classes is None:
        ordered, rank = ids.sorted()
    else:
        ordered = Ids(to_column(list(classes), "classes"))
        rank = ordered.codes_of(ids.to_arrow())
        if len(set(ordered)) != len(ordered):
            raise ParameterError("classes=… names a class twice")
        if (rank < 0).any():
            strange = [repr(name) for name, code in zip(ids, rank, strict=True) if code < 0]
            raise IdError(f"{where} has labels that classes=… does not name: {', '.join(strange[:5])}")
        used = set(rank.tolist())
        if unused := [name for code, name in enumerate(ordered) if code not in used]:
            warn(f"nobody used {', '.join(map(repr, unused[:5]))} as a label", DataWarning)
    table = np.append(rank, -1).astype(np.int32)  # -1 finds the -1 at the end
    if not codes.flags.writeable or len(ordered) > np.iinfo(codes.dtype).max:
        return ordered, table[codes]
    # The codes are taken over: recoded in place, in parts, because indices take eight bytes each.
    for start in range(0, codes.size, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        codes[part] = table[codes[part]]
    return ordered, codes


def _repeats_error(
    item: Codes, annotator: Codes, label: Codes, items: Ids, annotators: Ids, repeats: int, where: str
) -> str:
    pair = np.where(label >= 0, item.astype(np.int64) * len(annotators) + annotator, -1 - np.arange(item.size))
    _, first, times = np.unique(pair, return_index=True, return_counts=True)
    row = int(first[np.argmax(times > 1)])
    again = np.flatnonzero(pair == pair[row])
    return (
        f"{where} has {repeats} repeated answers; for example annotator {annotators[int(annotator[row])]!r} "
        f"answers item {items[int(item[row])]!r} in {name_rows(again)}. "
        "Remove them, or choose duplicates='last', 'first' or 'keep'"
    )


def _named(names: Sequence[Any] | None, n: int, what: str) -> Ids:
    if names is None:
        return Ids.range(n)
    ids = Ids(to_column(list(names), what))
    if len(ids) != n:
        raise DataError(f"the matrix has {n} {what}, but {len(ids)} names were given")
    if len(set(ids)) != n:
        raise IdError(f"{what} must have different names")
    return ids
