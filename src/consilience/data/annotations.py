"""Labels of items by annotators: the one data object that every method works on.

The labels of item n are the slices ``annotator[indptr[n]:indptr[n + 1]]`` and ``label[indptr[n]:indptr[n + 1]]``.

============= ============================================== ==========================
name          meaning                                        shape, type
============= ============================================== ==========================
``indptr``    where the labels of each item begin            (N + 1,) int64
``annotator`` code of the annotator of each label            (labels,) smallest unsigned
``label``     code of the class of each label                (labels,) smallest unsigned
``gold``      the class of items whose truth is known, or -1 (N,) int32, or None
``time``      when the label was given, if known             (labels,) datetime64 or float64, or None
``blank``     who answered what without naming a label       item and annotator codes, or None
============= ============================================== ==========================

Items and annotators are numbered by first appearance, classes in ascending order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, final

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.building import (
    Duplicates,
    RowOptions,
    check_rows,
    columns_of_frame,
    parts_of_codes,
    parts_of_matrix,
    times_of_frame,
    variant_values,
)
from consilience.data.frames import Origin
from consilience.data.ids import Ids, encode, encode_all, joined, numbers_where_all_are, to_column
from consilience.data.option_sets import looks_like_sets
from consilience.data.spelling import notes_on_spelling, without_spelling_notes
from consilience.data.truth import item_column, truth_codes
from consilience.data.variants import pooled, with_variants
from consilience.exceptions import DataError, DataWarning, IdError, warn
from consilience.kernels._arrays import Bools, Codes, Ints, code_counts, code_dtype

if TYPE_CHECKING:
    from consilience.data.times import Times

__all__ = ["Annotations", "Duplicates", "Origin", "entries_of", "min_median_max"]

#: The attributes; without their underscores, the arguments of __init__.
_FIELDS = ("indptr", "annotator", "label", "_items", "_annotators", "_classes", "gold", "origin", "time", "blank")


@final
class Annotations:
    """Labels by item, immutable and integer-coded.

    Make one with :func:`consilience.read`, :meth:`from_frame` or :meth:`from_matrix`.
    """

    __slots__ = _FIELDS

    indptr: Ints
    annotator: Codes
    label: Codes
    gold: Codes | None
    origin: Origin
    time: Times | None
    blank: tuple[Codes, Codes] | None
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
        blank: tuple[Codes, Codes] | None = None,
    ) -> None:
        if indptr.size != len(items) + 1 or indptr[-1] != annotator.size or annotator.size != label.size:
            raise DataError("indptr, annotator, label and items have sizes that do not match")
        if time is not None and time.size != label.size:
            raise DataError(f"there are {label.size} labels, but {time.size} times")
        values: dict[str, Any] = {
            "indptr": _frozen(indptr, np.dtype(np.int64)),
            "annotator": _frozen(annotator, code_dtype(len(annotators))),
            "label": _frozen(label, code_dtype(len(classes))),
            "gold": None if gold is None or not (gold >= 0).any() else _frozen(gold, np.dtype(np.int32)),
            "origin": origin or Origin(),
            "time": None if time is None else _frozen(time, time.dtype),
            "blank": blank,
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

    def _with(self, **changes: Any) -> Annotations:
        if {"items", "annotators"} & changes.keys():
            changes.setdefault("blank", None)  # its codes are of other names
        return Annotations(**{**self._fields(), **changes})

    def _fields(self) -> dict[str, Any]:
        return {name.lstrip("_"): getattr(self, name) for name in _FIELDS}

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Annotations, **self._fields()), ()

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
        items: Any = None,
        time: str | None = None,
        variants: Literal["pool", "separate"] = "pool",
    ) -> Annotations:
        """Build from a long frame: one row for each label.

        Parameters
        ----------
        frame
            A pandas, polars or pyarrow frame (anything that narwhals reads), or a data set of Hugging Face.
        item, annotator, label
            Names of the columns, unless they have their usual names.
        classes
            All classes, in the desired order; it may include classes that nobody used.
        duplicates
            If an annotator answers the same item again: keep the "last" or the "first" answer, "keep" all of them as
            if they were independent, or raise an "error".
        gold
            Known truths; see :meth:`with_gold`.
        items
            Items that belong to the data although nobody may have labelled them; see :meth:`including`.
        time
            Name of the column with the time of each label: dates, text such as 2026-11-17T08:30:00, or increasing
            numbers.  A column called timestamp, created_at, submitted_at, completed_at or time needs no naming.
        variants
            If the column of annotators is called judge (or model), and a judge has several labels of an item that
            differ in a column prompt, variant or order: "pool" them as labels of the judge, or make each an annotator
            of its own ("separate").
        """
        frame = _frames.from_dataset(frame)
        given = {"item": item, "annotator": annotator, "label": label}
        columns, names = columns_of_frame(frame, **given)
        notes = _frames.notes_on_columns(_frames.columns_of(frame), given, names)
        for note in notes:
            warn(f"the frame: {note}", DataWarning)
        origin = Origin(names["item"], names["annotator"], names["label"], _frames.kind_of(frame), tuple(notes))
        check_rows(columns["item"], "the frame")
        rows, who, said, *more = encode_all(*columns.values(), *variant_values(frame, names))
        who, judges = with_variants(rows[0], who, more)
        made = cls.from_codes(
            rows,
            who,
            said,
            classes=classes,
            duplicates=duplicates,
            origin=origin,
            where="the frame",
            time=times_of_frame(frame, time, origin),
        )
        if judges and variants == "pool":
            made = pooled(made, judges)
        made = made if items is None else made.including(items)
        return made if gold is None else made.with_gold(gold)

    @classmethod
    def from_columns(
        cls, item: pa.Array, annotator: pa.Array, label: pa.Array, *, gold: Any = None, **options: Unpack[RowOptions]
    ) -> Annotations:
        """Build from three pyarrow columns; ``untyped`` text (from a CSV file) becomes numbers if all of it is."""
        check_rows(item, options.get("where", "the data"))
        return cls.from_codes(*encode_all(item, annotator, label), gold=gold, **options)

    @classmethod
    def from_codes(
        cls,
        item: tuple[Codes, Ids],
        annotator: tuple[Codes, Ids],
        label: tuple[Codes, Ids],
        *,
        gold: Any = None,
        **options: Unpack[RowOptions],
    ) -> Annotations:
        """Build from three coded columns, each a code for every row (signed, -1 where missing) and their names.

        The array of label codes is overwritten.  ``time`` has an entry for every row.
        """
        made = cls(**parts_of_codes(item, annotator, label, **options))
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
        """Build from an (items × annotators) matrix with NaN, None or -1 for missing labels.

        A frame is read as such a matrix; its columns are the annotators, and the index of a pandas frame, unless it
        just counts the rows, holds the items.
        """
        return cls(**parts_of_matrix(matrix, items, annotators, classes)).with_gold(gold)

    def with_gold(self, gold: Any) -> Annotations:
        """Return the same labels with known truths, at which every method keeps their items.

        Parameters
        ----------
        gold
            A mapping or a pandas series from item to class, a frame with an item and a label column, or an array
            with one class for each item (NaN, None or -1 where unknown).  None removes them.
        """
        codes = None if gold is None else self.codes_of_truth(gold, "gold")
        return self._with(gold=codes)

    def forgetting(self, items: Ints) -> Annotations:
        """Return the same labels with the truth of these items unknown."""
        if self.gold is None:
            return self
        gold = self.gold.copy()
        gold[items] = -1
        return self._with(gold=gold)

    def codes_of_truth(self, truth: Any, what: str = "truth", *, strict: bool = True) -> Codes:
        """Return the class code of every item under these truths, -1 where unknown.

        Truths of unknown items are left out with a warning.  A truth that is not a class is an error, or gets the code
        K if not ``strict``.
        """
        return truth_codes(truth, self._items, self._classes, column=self.origin.item, what=what, strict=strict)

    def with_items(self, items: Ids) -> Annotations:
        """Return the same labels with other names for the items."""
        return self._with(items=items, blank=self.blank)

    def among_items(self, at: Ints, items: Ids) -> Annotations:
        """Return the same labels among more items: item n becomes number ``at[n]``, ascending, of these."""
        lengths = np.zeros(len(items), np.int64)
        lengths[at] = self.labels_per_item
        gold = None
        if self.gold is not None:
            gold = np.full(len(items), -1, np.int32)
            gold[at] = self.gold
        blank = None if self.blank is None else (at[self.blank[0]], self.blank[1])
        return self._with(indptr=np.concatenate([[0], np.cumsum(lengths)]), items=items, gold=gold, blank=blank)

    def including(self, items: Any) -> Annotations:
        """Return the same labels with these items too, whether anybody labelled them or not.

        Parameters
        ----------
        items
            A frame with an item column, a series, or ids.
        """
        names = self._items.to_arrow()
        wanted = item_column(items, self.origin.item)
        new = encode(wanted.filter(pa.array(self._items.codes_of(wanted) < 0)))[1]
        if not len(new):
            return self
        return self.among_items(np.arange(self.n_items), Ids(joined(names, new.to_arrow())))

    def with_class(self, label: Any) -> Annotations:
        """Return the same labels with this class among the classes."""
        if self._classes.codes_of([label])[0] >= 0:
            return self
        wider = numbers_where_all_are(Ids(joined(self._classes.to_arrow(), to_column([label], "the label"))))
        if wider.to_arrow().type != self._classes.to_arrow().type:
            raise IdError(f"{label!r} cannot be a class beside {', '.join(map(repr, self._classes[:5]))}: types differ")
        if self._classes == self._classes.sorted()[0]:
            wider = wider.sorted()[0]
        return self.recode(self._annotators, wider)

    def relabel(self, names: Mapping[Any, Any]) -> Annotations:
        """Return the same labels with other names for some classes; classes that get the same name are merged.

        Parameters
        ----------
        names
            From class to new name, such as ``{"Yes": "yes", "yes ": "yes"}``; the other classes keep their names.
        """
        if (strange := self._classes.codes_of(list(names)) < 0).any():
            unknown = list(names)[int(np.argmax(strange))]
            raise IdError(f"there is no class {unknown!r}; the classes are {', '.join(map(repr, self._classes[:10]))}")
        code, classes = encode(to_column([names.get(name, name) for name in self._classes], "classes"))
        if self._classes == self._classes.sorted()[0]:
            classes, rank = classes.sorted()
            code = rank[code]
        label = code[self.label]
        notes = without_spelling_notes(self.origin.notes)
        return self._with(
            label=label,
            gold=None if self.gold is None else np.append(code, -1)[self.gold],
            classes=classes,
            origin=replace(self.origin, notes=(*notes, *notes_on_spelling(classes, label, "the data"))),
        )

    # ---- sizes and names --------------------------------------------------------------------------------

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
        return code_counts(self.annotator, self.n_annotators)

    @property
    def used_classes(self) -> Bools:
        """Classes that are a label or the gold of some item, (K,)."""
        used = code_counts(self.label, self.n_classes) > 0
        if self.gold is not None:
            used[self.gold[self.gold >= 0]] = True
        return used

    def item_of_label(self) -> Ints:
        """Return the item of every label, (labels,): eight bytes each, so not for large data."""
        return np.repeat(np.arange(self.n_items), self.labels_per_item)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
            return NotImplemented
        same_names = all(getattr(self, of) == getattr(other, of) for of in ("_classes", "_annotators", "_items"))
        arrays = ("gold", "indptr", "annotator", "label")
        return same_names and all(np.array_equal(getattr(self, of), getattr(other, of)) for of in arrays)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return self.n_labels

    def __repr__(self) -> str:
        gold = "" if self.gold is None else f", gold for {int((self.gold >= 0).sum())}"
        return (
            f"<Annotations: {self.n_labels} labels, {self.n_items} items, {self.n_annotators} annotators, "
            f"{self.n_classes} classes{gold}>"
        )

    def _repr_html_(self) -> str:
        """Show the first labels in a notebook."""
        from consilience.data.names import lines, table

        first = self.select_items(slice(0, 5))
        rows = first.to_frame("pyarrow").slice(0, 5)
        shown = table("The first labels", rows.column_names, zip(*rows.to_pydict().values(), strict=True))
        return str(lines(repr(self).strip("<>")) + shown)

    # ---- looking at it ----------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Return the sizes of the data in plain numbers."""
        per_item, per_annotator = self.labels_per_item, self.labels_per_annotator
        shares = code_counts(self.label, self.n_classes) / max(self.n_labels, 1)
        return {
            "items": self.n_items,
            "annotators": self.n_annotators,
            "classes": self.n_classes,
            "labels": self.n_labels,
            "labels_per_item": min_median_max(per_item),
            "labels_per_annotator": min_median_max(per_annotator),
            "label_shares": dict(zip(map(str, self._classes), shares.tolist(), strict=True)),
            "unlabelled_items": int((per_item == 0).sum()),
            "gold_items": 0 if self.gold is None else int((self.gold >= 0).sum()),
            "notes": list(self.origin.notes),
        }

    def to_frame(self, kind: str | None = None) -> Any:
        """Return the labels as a long frame, of the kind that they came from unless another is named.

        If labels are sets of options, answers that name none are rows with an empty label.
        """
        if self.blank is not None and looks_like_sets(self):
            from consilience.data.set_labels import with_blanks

            return with_blanks(self).to_frame(kind)
        item = np.repeat(np.arange(self.n_items), self.labels_per_item)
        columns = {
            self.origin.item: self._items.to_arrow().take(pa.array(item)),
            self.origin.annotator: self._annotators.to_arrow().take(pa.array(self.annotator)),
            self.origin.label: self._classes.to_arrow().take(pa.array(self.label)),
        }
        return _frames.make(columns, kind or self.origin.frame)

    # ---- taking parts of it -----------------------------------------------------------------------------

    def select_items(self, which: Any) -> Annotations:
        """Return these items (positions, a slice or a mask), in the order given, with all annotators and classes."""
        chosen = np.arange(self.n_items)[which]
        indptr, at = entries_of(self.indptr, chosen)
        return self._with(
            indptr=indptr,
            annotator=self.annotator[at],
            label=self.label[at],
            time=None if self.time is None else self.time[at],
            items=self._items.take(chosen),
            gold=None if self.gold is None else self.gold[chosen],
            blank=_selected(self.blank, 0, chosen, self.n_items),
        )

    def select_annotators(self, which: Any) -> Annotations:
        """Return the labels of these annotators (positions, a slice or a mask), with all items."""
        chosen = np.arange(self.n_annotators)[which]
        new_code, there = np.zeros(self.n_annotators, code_dtype(chosen.size)), np.zeros(self.n_annotators, bool)
        new_code[chosen], there[chosen] = np.arange(chosen.size), True
        kept = there[self.annotator]
        before = np.zeros(self.n_labels + 1, np.min_scalar_type(self.n_labels))
        np.cumsum(kept, out=before[1:])
        return self._with(
            indptr=before[self.indptr].astype(np.int64),
            annotator=new_code[self.annotator[kept]],
            label=self.label[kept],
            time=None if self.time is None else self.time[kept],
            annotators=self._annotators.take(chosen),
            blank=_selected(self.blank, 1, chosen, self.n_annotators),
        )

    def recode(self, annotators: Ids, classes: Ids) -> Annotations:
        """Return the same labels in the codes of other vocabularies.

        Annotators that ``annotators`` lacks are appended to it.  A label that ``classes`` lacks is an error; a class
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
            blank=None if self.blank is None else (self.blank[0], code[self.blank[1]]),
        )


def _selected(blank: tuple[Codes, Codes] | None, role: int, chosen: Ints, n: int) -> tuple[Codes, Codes] | None:
    """Return the blank answers of these items (role 0) or annotators (role 1) in their new codes."""
    if blank is None:
        return None
    new_code = np.full(n, -1)
    new_code[chosen] = np.arange(chosen.size)
    codes = [*blank]
    codes[role] = new_code[codes[role]]
    kept = codes[role] >= 0
    return codes[0][kept], codes[1][kept]


def entries_of(indptr: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """Return where each of the chosen rows of a compressed table begins, and the positions of their entries."""
    lengths = indptr[chosen + 1] - indptr[chosen]
    new = np.concatenate([[0], np.cumsum(lengths)])
    # position of an entry: the start of its row, plus its place within the row
    return new, np.repeat(indptr[chosen] - new[:-1], lengths) + np.arange(new[-1])


def min_median_max(counts: Ints) -> dict[str, float]:
    """Return the smallest, the median and the largest count; zeros if there are none."""
    if not counts.size:
        return {"min": 0, "median": 0.0, "max": 0}
    return {"min": int(counts.min()), "median": float(np.median(counts)), "max": int(counts.max())}


def _frozen(values: Any, dtype: np.dtype[Any]) -> Any:
    array = np.ascontiguousarray(values, dtype)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array
