"""What annotators said about items: the one data object that every method works on.

The labels of item n are the slices ``annotator[indptr[n]:indptr[n + 1]]`` and ``label[indptr[n]:indptr[n + 1]]``.

============= ============================================== ==========================
name          meaning                                        shape, type
============= ============================================== ==========================
``indptr``    where the labels of each item begin            (N + 1,) int64
``annotator`` who said it                                    (labels,) smallest unsigned
``label``     what they said                                 (labels,) smallest unsigned
``gold``      the class of items whose truth is known, or -1 (N,) int32, or None
``time``      when they said it, if that is known            (labels,) datetime64 or float64, or None
============= ============================================== ==========================

Items and annotators are numbered by first appearance, classes in ascending order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.building import Duplicates, columns_of_frame, parts_of_codes, parts_of_matrix, times_of_frame
from consilience.data.coded import FIELDS, CodedLabels, Origin
from consilience.data.ids import Ids, encode_all
from consilience.data.times import Times
from consilience.data.truth import truth_codes
from consilience.exceptions import DataError, IdError
from consilience.kernels._arrays import Codes, Ints, code_dtype

__all__ = ["Annotations", "Duplicates", "Origin"]


@final
class Annotations(CodedLabels):
    """Labels by item, immutable and integer-coded.

    Make one with :func:`consilience.read`, :meth:`from_frame` or :meth:`from_matrix`.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, tuple(getattr(self, name) for name in FIELDS)

    def _repr_html_(self) -> str:
        """Show the first labels, in notebooks."""
        from consilience.data.notebook import lines, table

        first = self.select_items(slice(0, 5))
        rows = first.to_frame("pyarrow").slice(0, 5)
        shown = table("The first labels", rows.column_names, zip(*rows.to_pydict().values(), strict=True))
        return str(lines(repr(self).strip("<>")) + shown)

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
        time: str | None = None,
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
        time
            Name of the column that says when a label was given: dates, text such as 2026-11-17T08:30:00, or numbers
            that grow with time.  One that is called timestamp, created_at, submitted_at, completed_at or time is
            recognised by itself.
        """
        columns, origin = columns_of_frame(frame, item, annotator, label)
        return cls.from_columns(
            **columns,
            classes=classes,
            duplicates=duplicates,
            gold=gold,
            origin=origin,
            where="the frame",
            time=times_of_frame(frame, time, origin),
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
        time: Times | None = None,
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
            time=time,
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
        time: Times | None = None,
    ) -> Annotations:
        """Build from three coded columns, each a code for every row (signed, -1 where missing) and their names.

        The codes of the labels are taken over: do not use that array again.  ``time`` has one for every row.
        """
        parts = parts_of_codes(
            item,
            annotator,
            label,
            classes=classes,
            duplicates=duplicates,
            origin=origin or Origin(),
            where=where,
            untyped=untyped,
            time=time,
        )
        made = cls(**parts)
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
        return cls(**parts_of_matrix(matrix, items, annotators, classes)).with_gold(gold)

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

    # ---- looking at it ----------------------------------------------------------------------------------

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

    # ---- taking parts of it -----------------------------------------------------------------------------

    def select_items(self, which: Any) -> Annotations:
        """Keep these items (positions, a slice or a mask), in the order given, with all annotators and classes."""
        chosen = np.arange(*which.indices(self.n_items)) if isinstance(which, slice) else np.arange(self.n_items)[which]
        lengths = self.indptr[chosen + 1] - self.indptr[chosen]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        # position of each kept label: the start of its item, plus its place within the item
        at = np.repeat(self.indptr[chosen] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return self._with(
            indptr=indptr,
            annotator=self.annotator[at],
            label=self.label[at],
            time=None if self.time is None else self.time[at],
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
            time=None if self.time is None else self.time[kept],
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


def _rebuilt(
    indptr: Ints,
    annotator: Codes,
    label: Codes,
    items: Ids,
    annotators: Ids,
    classes: Ids,
    gold: Any,
    origin: Origin,
    time: Times | None = None,
) -> Annotations:
    names = {"items": items, "annotators": annotators, "classes": classes}
    return Annotations(indptr, annotator, label, **names, gold=gold, origin=origin, time=time)


def _spread(counts: Ints) -> dict[str, float]:
    return {
        "min": int(counts.min()) if counts.size else 0,
        "median": float(np.median(counts)) if counts.size else 0.0,
        "max": int(counts.max()) if counts.size else 0,
    }
