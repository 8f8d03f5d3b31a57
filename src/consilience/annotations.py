"""What annotators said about items: the one data object that every method works on.

The labels of item n are the slices ``annotator[indptr[n]:indptr[n + 1]]`` and ``label[indptr[n]:indptr[n + 1]]``.

============= ============================================== ==========================
name          meaning                                        shape, type
============= ============================================== ==========================
``indptr``    where the labels of each item begin            (N + 1,) int64
``annotator`` who said it                                    (labels,) smallest unsigned
``label``     what they said                                 (labels,) smallest unsigned
``gold``      the class of items whose truth is known, or -1 (N,) int32, or None
============= ============================================== ==========================

Items and annotators are numbered by first appearance, classes in ascending order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np
import pyarrow as pa

from consilience import _frames
from consilience._ids import Ids, encode, encode_all, name_rows, numbers_where_all_are, to_column, without_code
from consilience._truth import arrow_or_values, truth_codes
from consilience.exceptions import DataError, DataWarning, IdError, ParameterError, warn
from consilience.kernels._arrays import Bools, Codes, Ints, code_dtype
from consilience.kernels.grouping import drop_repeats, group_by_item

__all__ = ["Annotations", "Duplicates", "Origin"]

Duplicates = Literal["last", "first", "keep", "error"]


@dataclass(frozen=True, slots=True)
class Origin:
    """How the data looked where it came from, so that tables can look the same on the way out."""

    item: str = "item"
    annotator: str = "annotator"
    label: str = "label"
    frame: str | None = None  #: "pandas", "polars" or "pyarrow"; None for data from a file
    notes: tuple[str, ...] = ()  #: what was dropped or merged on the way in, in sentences


@final
class Annotations:
    """Labels by item, immutable and integer-coded.

    Make one with :func:`consilience.read`, :meth:`from_frame` or :meth:`from_matrix`.
    """

    __slots__ = ("_annotators", "_classes", "_items", "annotator", "gold", "indptr", "label", "origin")

    indptr: Ints
    annotator: Codes
    label: Codes
    gold: Codes | None
    origin: Origin
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
    ) -> None:
        if indptr.size != len(items) + 1 or indptr[-1] != annotator.size or annotator.size != label.size:
            raise DataError("indptr, annotator, label and items do not belong together")
        values: dict[str, Any] = {
            "indptr": _frozen(indptr, np.dtype(np.int64)),
            "annotator": _frozen(annotator, code_dtype(len(annotators))),
            "label": _frozen(label, code_dtype(len(classes))),
            "gold": None if gold is None or not (gold >= 0).any() else _frozen(gold, np.dtype(np.int32)),
            "origin": origin or Origin(),
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

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, tuple(getattr(self, name) for name in _FIELDS)

    # ---- making one -------------------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        item: str | None = None,
        annotator: str | None = None,
        label: str | None = None,
        classes: Sequence[Any] | None = None,
        duplicates: Duplicates = "last",
        gold: Any = None,
    ) -> Annotations:
        """Read a long frame: one row for each label.

        Parameters
        ----------
        frame
            A pandas, polars or pyarrow frame (anything that narwhals knows).
        item, annotator, label
            Names of the columns, where they are not recognised by themselves.
        classes
            All classes, in the order wanted; it may name classes that nobody used.
        duplicates
            What to do when an annotator answers the same item again: keep the "last" or the "first" answer,
            "keep" all of them as if they were independent, or raise an "error".
        gold
            Known truths; see :meth:`with_gold`.
        """
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        given = {"item": item, "annotator": annotator, "label": label}
        names = {role: _frames.find_column(table.columns, role, name, "the frame") for role, name in given.items()}
        columns = {role: to_column(arrow_or_values(table[name]), name) for role, name in names.items()}
        origin = Origin(names["item"], names["annotator"], names["label"], _frames.kind_of(frame))
        return cls.from_columns(
            **columns, classes=classes, duplicates=duplicates, gold=gold, origin=origin, where="the frame"
        )

    @classmethod
    def from_columns(
        cls,
        item: pa.Array,
        annotator: pa.Array,
        label: pa.Array,
        *,
        classes: Sequence[Any] | None = None,
        duplicates: Duplicates = "last",
        gold: Any = None,
        origin: Origin | None = None,
        where: str = "the data",
        untyped: bool = False,
    ) -> Annotations:
        """Build from three pyarrow columns; ``untyped`` text (from a CSV file) becomes numbers where all are."""
        if len(item) == 0:
            raise DataError(f"{where} has no rows: there is nothing to aggregate")
        return cls.from_codes(
            *encode_all(item, annotator, label),
            classes=classes,
            duplicates=duplicates,
            gold=gold,
            origin=origin,
            where=where,
            untyped=untyped,
        )

    @classmethod
    def from_codes(
        cls,
        item: tuple[Codes, Ids],
        annotator: tuple[Codes, Ids],
        label: tuple[Codes, Ids],
        *,
        classes: Sequence[Any] | None = None,
        duplicates: Duplicates = "last",
        gold: Any = None,
        origin: Origin | None = None,
        where: str = "the data",
        untyped: bool = False,
    ) -> Annotations:
        """Build from three coded columns, each an int32 for every row (-1 where missing) and the names behind them.

        The codes of the labels are taken over: do not use that array again.
        """
        if duplicates not in ("last", "first", "keep", "error"):
            raise ParameterError(f"duplicates must be 'last', 'first', 'keep' or 'error', not {duplicates!r}")
        origin = origin or Origin()
        (item_code, items), (annotator_code, annotators), (label_code, label_ids) = item, annotator, label
        for role, codes, name in (
            ("item", item_code, origin.item),
            ("annotator", annotator_code, origin.annotator),
        ):
            if (codes < 0).any():
                rows = np.flatnonzero(codes < 0)
                raise IdError(
                    f"{where} has no {role} in {name_rows(rows)} (column {name!r}); "
                    "fill the id in or remove the row: a label without it cannot be used"
                )
        if untyped:
            items, annotators, label_ids = map(numbers_where_all_are, (items, annotators, label_ids))
        class_ids, label_code = _code_classes(label_ids, label_code, classes, where)
        notes = list(origin.notes)
        unlabelled_rows = int((label_code < 0).sum())
        if unlabelled_rows == label_code.size:
            raise DataError(f"{where} has no label in any of its {label_code.size} rows (column {origin.label!r})")
        if unlabelled_rows:
            notes.append(f"{unlabelled_rows} of {label_code.size} rows have no label and were left out")
        shape = len(items), len(annotators), len(class_ids)
        indptr, by, said = group_by_item(item_code, annotator_code, label_code, *shape)
        keep = {"keep": "all", "error": "all"}.get(duplicates, duplicates)
        indptr, by, said, repeats = drop_repeats(indptr, by, said, shape[1], keep)
        if repeats and duplicates == "error":
            raise DataError(_repeats_error(item_code, annotator_code, label_code, items, annotators, repeats, where))
        if repeats and duplicates != "keep":
            notes.append(
                f"{repeats} labels repeat an answer of the same annotator to the same item; "
                f"the {duplicates} was kept (duplicates={duplicates!r})"
            )
        for note in notes[len(origin.notes) :]:
            warn(f"{where}: {note}", DataWarning)
        made = cls(
            indptr,
            by,
            said,
            items=items,
            annotators=annotators,
            classes=class_ids,
            origin=replace(origin, notes=tuple(notes)),
        )
        return made if gold is None else made.with_gold(gold)

    @classmethod
    def from_matrix(
        cls,
        matrix: Any,
        *,
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
        gold: Any = None,
    ) -> Annotations:
        """Read an (items × annotators) matrix with NaN, None or -1 where an annotator said nothing.

        A frame is taken as such a matrix, its columns as the annotators.
        """
        origin = Origin()
        if not isinstance(matrix, np.ndarray) and _frames.is_frame(matrix):
            import narwhals as nw

            frame = nw.from_native(matrix, eager_only=True)
            annotators = frame.columns if annotators is None else annotators
            origin = Origin(frame=_frames.kind_of(matrix))
            matrix = frame.to_numpy()
        matrix = np.asarray(matrix)
        if matrix.ndim != 2:
            raise DataError(f"expected a matrix of items × annotators, got an array of shape {matrix.shape}")
        if matrix.size == 0:
            raise DataError(f"the matrix has shape {matrix.shape}: there is nothing to aggregate")
        codes, ids = encode(to_column(matrix.ravel(), "the matrix"))
        if (absent := ids.codes_of([-1])[0]) >= 0 and ids[int(absent)] == -1:
            codes, ids = without_code(codes, ids, int(absent))
        said = (codes >= 0).reshape(matrix.shape)
        if not said.any():
            raise DataError("every entry of the matrix is missing (NaN, None or -1)")
        column = np.nonzero(said)[1]
        class_ids, label_code = _code_classes(ids, codes[codes >= 0], classes, "the matrix")
        return cls(
            np.concatenate([[0], np.cumsum(said.sum(axis=1))]),
            column,
            label_code,
            items=_named(items, matrix.shape[0], "items"),
            annotators=_named(annotators, matrix.shape[1], "annotators"),
            classes=class_ids,
            origin=origin,
        ).with_gold(gold)

    def with_gold(self, gold: Any) -> Annotations:
        """Give the same labels with known truths: their items are held at their truth by every method.

        Parameters
        ----------
        gold
            A mapping or a pandas series from item to class, a frame with an item and a label column, or an array
            with one class for each item (NaN, None or -1 where unknown).  None removes it.
        """
        codes = None if gold is None else self.codes_of_truth(gold, "gold")
        return self._with(gold=codes)

    def codes_of_truth(self, truth: Any, what: str = "truth", *, strict: bool = True) -> Codes:
        """Give the class code of every item under these truths, -1 where there is none.

        Truths of unknown items are left out with a warning.  A truth that is no class is an error, or gets the code K
        if not ``strict``.
        """
        return truth_codes(truth, self._items, self._classes, column=self.origin.item, what=what, strict=strict)

    def with_items(self, items: Ids) -> Annotations:
        """Give the same labels with other names for the items."""
        return self._with(items=items)

    def _with(self, **changes: Any) -> Annotations:
        values: dict[str, Any] = {
            "indptr": self.indptr,
            "annotator": self.annotator,
            "label": self.label,
            "items": self._items,
            "annotators": self._annotators,
            "classes": self._classes,
            "gold": self.gold,
            "origin": self.origin,
            **changes,
        }
        return Annotations(**values)

    # ---- looking at it ----------------------------------------------------------------------------------

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

    def describe(self) -> dict[str, Any]:
        """Sum the data up in plain numbers."""
        per_item, per_annotator = self.labels_per_item, self.labels_per_annotator
        shares = np.bincount(self.label, minlength=self.n_classes) / max(self.n_labels, 1)
        return {
            "items": self.n_items,
            "annotators": self.n_annotators,
            "classes": self.n_classes,
            "labels": self.n_labels,
            "labels_per_item": _spread(per_item),
            "labels_per_annotator": _spread(per_annotator),
            "label_shares": dict(zip(map(str, self._classes), shares.tolist(), strict=True)),
            "unlabelled_items": int((per_item == 0).sum()),
            "gold_items": 0 if self.gold is None else int((self.gold >= 0).sum()),
            "notes": list(self.origin.notes),
        }

    def to_frame(self, kind: str | None = None) -> Any:
        """Give the labels as a long frame, of the kind that they came from unless another is named."""
        item = np.repeat(np.arange(self.n_items), self.labels_per_item)
        columns = {
            self.origin.item: self._items.to_arrow().take(pa.array(item)),
            self.origin.annotator: self._annotators.to_arrow().take(pa.array(self.annotator)),
            self.origin.label: self._classes.to_arrow().take(pa.array(self.label)),
        }
        return _frames.make(columns, kind or self.origin.frame)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
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

    # ---- taking parts of it -----------------------------------------------------------------------------

    def select_items(self, which: Any) -> Annotations:
        """Keep these items (positions, a slice or a mask), in the order given, with all annotators and classes."""
        chosen = np.arange(self.n_items)[which]
        lengths = self.labels_per_item[chosen]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        # position of each kept label: the start of its item, plus its place within the item
        at = np.repeat(self.indptr[chosen] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return self._with(
            indptr=indptr,
            annotator=self.annotator[at],
            label=self.label[at],
            items=self._items.take(chosen),
            gold=None if self.gold is None else self.gold[chosen],
        )

    def select_annotators(self, which: Any) -> Annotations:
        """Keep the labels of these annotators (positions, a slice or a mask); all items stay."""
        chosen = np.arange(self.n_annotators)[which]
        new_code = np.full(self.n_annotators, -1)
        new_code[chosen] = np.arange(chosen.size)
        kept = new_code[self.annotator] >= 0
        before = np.concatenate([[0], np.cumsum(kept)])
        return self._with(
            indptr=before[self.indptr],
            annotator=new_code[self.annotator[kept]],
            label=self.label[kept],
            annotators=self._annotators.take(chosen),
        )

    def recode(self, annotators: Ids, classes: Ids) -> Annotations:
        """Give the same labels in the codes of other vocabularies.

        Annotators that ``annotators`` lacks are appended to it; a label that ``classes`` lacks is an error, a class
        that nobody used is dropped.
        """
        class_code = classes.codes_of(self._classes.to_arrow())
        class_code[(class_code < 0) & ~self.used_classes] = 0
        if (class_code < 0).any():
            strange = [repr(name) for name, code in zip(self._classes, class_code, strict=True) if code < 0]
            raise IdError(f"labels {', '.join(strange[:5])} are not among the classes {list(classes[:10])}")
        code = annotators.codes_of(self._annotators.to_arrow())
        strangers = np.flatnonzero(code < 0)
        if strangers.size:
            code[strangers] = len(annotators) + np.arange(strangers.size)
            known, new = annotators.to_arrow(), self._annotators.take(strangers).to_arrow()
            if known.type != new.type:
                known, new = known.cast(pa.string()), new.cast(pa.string())
            annotators = Ids(pa.concat_arrays([known, new]))
        return self._with(
            annotator=code.astype(code_dtype(len(annotators)))[self.annotator],
            label=class_code.astype(code_dtype(len(classes)))[self.label],
            gold=None if self.gold is None else np.append(class_code, -1)[self.gold],
            annotators=annotators,
            classes=classes,
        )


_FIELDS = ("indptr", "annotator", "label", "_items", "_annotators", "_classes", "gold", "origin")


def _rebuilt(
    indptr: Ints, annotator: Codes, label: Codes, items: Ids, annotators: Ids, classes: Ids, gold: Any, origin: Origin
) -> Annotations:
    return Annotations(
        indptr, annotator, label, items=items, annotators=annotators, classes=classes, gold=gold, origin=origin
    )


def _frozen(values: Any, dtype: np.dtype[Any]) -> Any:
    array = np.ascontiguousarray(values, dtype)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _code_classes(ids: Ids, codes: Codes, classes: Sequence[Any] | None, where: str) -> tuple[Ids, Codes]:
    """Order the classes and give labels their codes in that order."""
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
    # The codes are ours: they are changed where they lie.  "wrap" lets -1 find the -1 at the end.
    new_code = np.append(rank, -1).astype(np.int32)
    return ordered, np.take(new_code, codes, out=codes if codes.flags.writeable else None, mode="wrap")


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


def _spread(counts: Ints) -> dict[str, float]:
    return {
        "min": int(counts.min()) if counts.size else 0,
        "median": float(np.median(counts)) if counts.size else 0.0,
        "max": int(counts.max()) if counts.size else 0,
    }
