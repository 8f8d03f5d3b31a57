"""The rows of label files, coded in batches: annotators and labels as codes, items as keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from consilience.data.building import no_id
from consilience.engine.coder import Coder, item_keys
from consilience.engine.progress import Callback, steps
from consilience.exceptions import DataError
from consilience.io.batches import LabelFiles, ahead
from consilience.kernels._arrays import Codes, Ints

__all__ = ["CodedBatch", "CodedRows", "Repeats"]


class CodedBatch(NamedTuple):
    """Consecutive rows."""

    row: int  #: index of the first, over all files
    file: Path
    row_of_file: int  #: index of the first in its file
    items: pa.Array
    annotator: Codes  #: int32
    label: Codes  #: int32, -1 where missing


class Repeats(NamedTuple):
    """Repeated answers: their number and, where asked for, an example."""

    n: int = 0
    row: int = -1  #: first row of the first item with such an answer
    annotator: int = -1

    @classmethod
    def in_block(cls, n: int, indptr: Ints, annotator: Codes, first: Ints, example: bool) -> Repeats:
        """Return the ``n`` repeats of a block whose items first appear in the rows ``first``."""
        if not n or not example:
            return cls(n)
        item = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        order = np.lexsort((annotator, item))
        again = (np.diff(item[order]) == 0) & (np.diff(annotator[order].astype(np.int64)) == 0)
        at = order[int(np.argmax(again))]
        return cls(n, int(first[item[at]]), int(annotator[at]))

    def plus(self, other: Repeats) -> Repeats:
        """Add the repeats of another block; the example is the earlier one."""
        first = min((one for one in (self, other) if one.row >= 0), key=lambda one: one.row, default=self)
        return first._replace(n=self.n + other.n)


class CodedRows:
    """Reads all rows once; afterwards the vocabularies are complete.

    Attributes
    ----------
    annotators, labels
        The vocabularies, in order of first appearance.
    n_rows, unlabelled
        Rows read so far, and how many of them have no label.
    kind
        Type of the names of items.
    """

    def __init__(self, files: LabelFiles, callback: Callback | None = None) -> None:
        self.files, self._callback = files, callback
        self.annotators = Coder(files.columns["annotator"])
        self.labels = Coder(files.columns["label"])
        self.n_rows = self.unlabelled = 0
        self.kind: pa.DataType | None = None

    def __iter__(self) -> Iterator[CodedBatch]:
        """Yield the batches; each is coded while the previous one is in use."""
        return ahead(self._batches())

    def steps(self, what: str, n_rows: int) -> Callable[[int], None]:
        """Return a function that reports the number of rows just done."""
        return steps(self._callback, what, n_rows) or (lambda _: None)

    def _batches(self) -> Iterator[CodedBatch]:
        tell = self.steps(f"reading {self.files.where}", self.files.n_rows)
        for file, row, (items, annotators, labels) in self.files.batches("item", "annotator", "label"):
            with _naming(file):
                annotator, label = self.annotators.encode(annotators), self.labels.encode(labels)
            if annotator.min() < 0:
                nobody = annotator < 0
                if (wrong := np.flatnonzero(nobody & (label >= 0))).size:
                    raise no_id(file.name, "annotator", self.files.columns["annotator"], row + wrong)
                annotator[nobody] = 0  # without a label too: the row declares its item
            self.kind = items.type.value_type if pa.types.is_dictionary(items.type) else items.type
            if label.min() < 0:
                self.unlabelled += int(np.count_nonzero(label < 0))
            yield CodedBatch(self.n_rows, file, row, items, annotator, label)
            self.n_rows += len(items)
            tell(len(items))

    def keys(self, batch: CodedBatch, items: pa.Array | None = None, rows: Ints | None = None) -> Codes:
        """Return words that identify the items of a batch, or of some of its rows: (rows,) or (rows, 2)."""
        with _naming(batch.file):
            keys, gone = item_keys(batch.items if items is None else items)
        if gone is not None and gone.any():
            lacking = np.flatnonzero(gone) if rows is None else rows[gone]
            raise no_id(batch.file.name, "item", self.files.columns["item"], batch.row_of_file + lacking)
        return keys


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Prefix errors about values with the name of the file."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"{file.name}: {error}") from error
