"""Labels that may be larger than memory: read once in batches, coded, grouped by item, and kept on disk.

>>> import consilience as cs
>>> labels = cs.scan("labels/", memory="2GiB")  # doctest: +SKIP
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from consilience.data.annotations import Origin
from consilience.data.building import (
    KEPT,
    Duplicates,
    check_duplicates,
    code_classes,
    notes_on_repeats,
    notes_on_rows,
)
from consilience.data.ids import Ids, numbers_where_all_are, to_column
from consilience.engine.coded_rows import CodedRows, Repeats
from consilience.engine.gold import digest_of_truth, gold_of_items
from consilience.engine.grouped import write_grouped
from consilience.engine.progress import Callback
from consilience.engine.scanned import Scanned
from consilience.engine.scattered import name_of_row, write_scattered
from consilience.engine.store import META, Store
from consilience.engine.store_writer import StoreWriter
from consilience.engine.workplace import WorkFolder
from consilience.exceptions import DataError, DataWarning, FolderError, FormatError, warn
from consilience.files import atomic_folder, check_replaceable
from consilience.io.batches import LabelFiles, label_files
from consilience.memory import memory_bytes, room

__all__ = ["scan"]


def scan(
    path: str | os.PathLike[str],
    *,
    memory: int | str | None = None,
    spill: str | os.PathLike[str] | None = None,
    format: str | None = None,  # noqa: A002 - as in read
    item: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    duplicates: Duplicates = "last",
    gold: Any = None,
    encoding: str = "utf-8",
    callback: Callback | None = None,
) -> Scanned:
    """Read labels that may be larger than memory: a Parquet file, a folder of them, or a CSV file.

    Rows are read once, in batches, and kept on disk in coded form.  Items, annotators and classes have the same codes
    as with :func:`consilience.read`.

    Parameters
    ----------
    path
        The file, or the folder of Parquet files, which are read in the order of their names.
    memory
        Memory of the process, in bytes or as text such as "2GiB"; by default half of what the machine or container has.
    spill
        A folder for the coded labels.  They stay there, and a second scan of the same files with the same options
        reuses them.  By default they go to a temporary folder that is removed with the result.
    format, item, annotator, label, classes, duplicates, gold, encoding
        As for :func:`consilience.read`.
    callback
        Progress callback, for large files.
    """
    check_duplicates(duplicates)
    limit = memory_bytes(memory)
    files = label_files(
        path, format=format, given={"item": item, "annotator": annotator, "label": label}, encoding=encoding
    )
    source = {
        "files": files.state(),
        "columns": files.columns,
        "classes": None if classes is None else Ids(to_column(list(classes), "classes")).to_json(),
        "duplicates": duplicates,
        "gold": digest_of_truth(gold, files.columns["item"]),
        "encoding": encoding,
    }
    if spill is not None:
        if (kept := _kept(spill, source)) is not None:
            for note in kept.origin.notes:
                warn(f"{files.where}: {note}", DataWarning)
            return Scanned(kept, limit)
        check_replaceable(spill, META)
        Path(spill).absolute().parent.mkdir(parents=True, exist_ok=True)
    place = None if spill is None else Path(spill).absolute().parent
    work = WorkFolder(place)
    try:
        _Ingest(files, source, classes, duplicates, gold, callback).run(work.path, room(limit))
        if spill is None:
            return Scanned(Store(work.path / "store"), limit, work)
        _move(work.path / "store", Path(spill))
    except OSError as error:
        work.remove()
        if error.errno != errno.ENOSPC:
            raise
        raise FolderError(
            f"the disk of {work.path.parent} is full: {files.where} needs about {_needed(files)} there while it is "
            "read; choose another place with spill=… or the environment variable TMPDIR"
        ) from error
    except BaseException:
        work.remove()
        raise
    work.remove()
    return Scanned(Store(spill), limit)


def _move(store: Path, spill: Path) -> None:
    """Move a store to its place atomically."""
    with atomic_folder(spill, META) as fresh:
        for file in store.iterdir():
            file.rename(fresh / file.name)


def _needed(files: LabelFiles) -> str:
    """Estimate the disk space of rows in any order: records of 32 bytes, sorted partitions and store of 8 each."""
    return f"{max(files.n_rows * 48 / 1e9, 0.1):.1f} GB"


def _kept(folder: str | os.PathLike[str], source: dict[str, Any]) -> Store | None:
    """Return the store of an earlier scan of the same files with the same options; None if there is none."""
    try:
        store = Store(folder)
    except FormatError:
        return None
    return store if store.source == source else None


class _Ingest:
    """Reads files into a store."""

    def __init__(
        self,
        files: LabelFiles,
        source: dict[str, Any],
        classes: Sequence[Any] | None,
        duplicates: Duplicates,
        gold: Any,
        callback: Callback | None,
    ) -> None:
        self.files, self.source, self.classes, self.gold = files, source, classes, gold
        self.duplicates, self.callback = duplicates, callback
        self.origin = Origin(
            files.columns["item"], files.columns["annotator"], files.columns["label"], notes=files.notes
        )

    def run(self, work: Path, space: int) -> None:
        """Write rows in their order; if items turn out to be scattered, start again."""
        for write in (write_grouped, write_scattered):
            rows = CodedRows(self.files, self.callback)
            try:
                with StoreWriter(work / "store", self.origin, lasting=False) as writer:
                    repeats = write(rows, writer, KEPT[self.duplicates], work, space)
                    if repeats is None:
                        raise _Scattered
                    self._finish(rows, writer, repeats)
                return
            except _Scattered:
                continue

    def _finish(self, rows: CodedRows, writer: StoreWriter, repeats: Repeats) -> None:
        """Finish the store, after all rows have been read."""
        files = self.files
        if not rows.n_rows:
            raise DataError(f"{files.where} has no rows: there is nothing to aggregate")
        notes = notes_on_rows(rows.unlabelled, rows.n_rows, files.where, self.origin.label)
        if repeats.n and self.duplicates == "error":
            raise self._repeated(repeats, rows)
        notes += notes_on_repeats(repeats.n, self.duplicates)
        annotators, labels = rows.annotators.ids, rows.labels.ids
        if files.untyped:
            annotators, labels = numbers_where_all_are(annotators), numbers_where_all_are(labels)
        class_ids, rank = code_classes(labels, np.arange(len(labels), dtype=np.int32), self.classes, files.where)
        writer.end_items(untyped=files.untyped)
        known = None if self.gold is None else gold_of_items(self.gold, writer.names(), class_ids, self.origin.item)
        if files.state() != self.source["files"]:
            raise DataError(f"{files.where} was changed while it was read; scan it again")
        for note in (*self.origin.notes, *notes):
            warn(f"{files.where}: {note}", DataWarning)
        writer.finish(annotators, class_ids, rank=rank, gold=known, notes=tuple(notes), source=self.source)

    def _repeated(self, repeats: Repeats, rows: CodedRows) -> DataError:
        annotator, item = rows.annotators.ids[repeats.annotator], name_of_row(self.files, repeats.row)
        return DataError(
            f"{self.files.where} has {repeats.n} repeated answers; for example annotator {annotator!r} answers item "
            f"{item!r} more than once. Remove them, or choose duplicates='last', 'first' or 'keep'"
        )


class _Scattered(Exception):  # noqa: N818 - not an error
    """The rows of an item are not consecutive."""
