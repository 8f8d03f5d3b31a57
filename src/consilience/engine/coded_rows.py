"""The rows of label files, coded as they come: annotators and labels as codes, items as keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from consilience._building import no_id
from consilience.engine.coder import Coder, item_keys
from consilience.exceptions import DataError
from consilience.io.batches import LabelFiles
from consilience.kernels._arrays import Codes, Ints

__all__ = ["CodedBatch", "CodedRows", "Repeats"]


class CodedBatch(NamedTuple):
    """Rows that follow each other."""

    row: int  #: the first of them, counted over all files
    file: Path
    row_of_file: int  #: the first of them, counted in its file
    items: pa.Array
    annotator: Codes  #: int32
    label: Codes  #: int32, -1 where there is none


class Repeats(NamedTuple):
    """Answers that repeat an earlier one, and an example where it was asked for."""

    n: int = 0
    item: int = -1  #: number of the first item with such an answer, or the row where it first stands
    annotator: int = -1

    def plus(self, n: int, indptr: Ints, annotator: Codes, items: Ints, example: bool) -> Repeats:
        """Add the ``n`` repeats of a block whose items have these numbers."""
        if not n or not example:
            return self._replace(n=self.n + n)
        item = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        order = np.lexsort((annotator, item))
        again = (np.diff(item[order]) == 0) & (np.diff(annotator[order].astype(np.int64)) == 0)
        at = order[int(np.argmax(again))]
        found = int(items[item[at]])
        if self.n and self.item < found:
            return self._replace(n=self.n + n)
        return Repeats(self.n + n, found, int(annotator[at]))


class CodedRows:
    """Reads all rows once; afterwards the vocabularies are complete.

    Attributes
    ----------
    annotators, labels
        The vocabularies, in order of first appearance.
    n_rows, unlabelled
        How many rows, and how many of them have no label, were read so far.
    kind
        Type of the item's names.
    """

    def __init__(self, files: LabelFiles, tell: Callable[[int], None] | None = None) -> None:
        self.files, self._tell = files, tell
        self.annotators = Coder(files.columns["annotator"])
        self.labels = Coder(files.columns["label"])
        self.n_rows = self.unlabelled = 0
        self.kind: pa.DataType | None = None

    def __iter__(self) -> Iterator[CodedBatch]:
        for file, row, (items, annotators, labels) in self.files.batches("item", "annotator", "label"):
            with _naming(file):
                annotator, label = self.annotators.encode(annotators), self.labels.encode(labels)
            if annotator.min() < 0:
                raise no_id(
                    file.name, "annotator", self.files.columns["annotator"], row + np.flatnonzero(annotator < 0)
                )
            self.kind = items.type.value_type if pa.types.is_dictionary(items.type) else items.type
            if label.min() < 0:
                self.unlabelled += int(np.count_nonzero(label < 0))
            yield CodedBatch(self.n_rows, file, row, items, annotator, label)
            self.n_rows += len(items)
            if self._tell is not None:
                self._tell(len(items))

    def keys(self, batch: CodedBatch, starts: Ints | None = None) -> Codes:
        """Give words by which the items of a batch, or those of some of its rows, are known: (rows,) or (rows, 2)."""
        with _naming(batch.file):
            keys, gone = item_keys(batch.items if starts is None else batch.items.take(pa.array(starts)))
        if gone is not None and gone.any():
            lacking = np.flatnonzero(gone) if starts is None else starts[gone]
            raise no_id(batch.file.name, "item", self.files.columns["item"], batch.row_of_file + lacking)
        return keys


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Put the file's name before what is said of its values."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"{file.name}: {error}") from error
