"""Labels on disk: the arrays of :class:`consilience.Annotations` in a folder, opened as memory maps.

==================== ================================================ ==========================
file                 content                                          shape, type
==================== ================================================ ==========================
``indptr.npy``       where the labels of each item begin              (N + 1,) int64
``annotator.npy``    annotator of each label                          (labels,) smallest unsigned
``label.npy``        class that they chose                            (labels,) smallest unsigned
``gold.npy``         class of items whose truth is known, or -1       (N,) int32; may be absent
``items.arrow``      names of the items, an Arrow file of many blocks (N,)
``annotators.arrow`` names of the annotators                          (M,)
``classes.arrow``    names of the classes                             (K,)
``meta.json``        sizes, names of the columns, notes, fingerprint
==================== ================================================ ==========================

A map takes no memory of its own: pages are loaded when they are read, and :meth:`Store.release` drops them.
"""

from __future__ import annotations

import json
import mmap
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.exceptions import FormatError
from consilience.kernels._arrays import Codes, Ints, code_dtype

__all__ = ["FORMAT", "META", "Store", "drop_pages"]

FORMAT = {"format": "consilience.Store", "version": 1}
META = "meta.json"

#: Text of this many bytes does not fit an array of strings with offsets of 32 bits.
_WIDE = 1 << 31


class Store:
    """Coded labels in a folder; :meth:`annotations` returns any block of items as ordinary Annotations.

    Parameters
    ----------
    folder
        The folder of a finished store.

    Attributes
    ----------
    indptr, annotator, label, gold
        The arrays, mapped; ``gold`` may be None.
    annotator_ids, class_ids
        The vocabularies of annotators and classes.
    origin
        Names of the columns, and notes on what was left out when labels were read.
    fingerprint
        The same as :func:`consilience.engine.fingerprint.fingerprint` of these labels in memory.
    source
        Files and options that the store was made from, in plain values, or None.
    """

    indptr: Ints
    annotator: Codes
    label: Codes
    gold: Codes | None

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        meta = self._meta()
        try:
            self.n_items, self.n_labels = int(meta["n_items"]), int(meta["n_labels"])
            self.annotator_ids, self.class_ids = (self._names(name) for name in ("annotators", "classes"))
            self.origin = Origin(**meta["columns"], notes=tuple(meta["notes"]))
            self.fingerprint = str(meta["fingerprint"])
            self.source: dict[str, Any] | None = meta.get("source")
            self.indptr = self._mapped("indptr", self.n_items + 1, np.dtype(np.int64))
            self.annotator = self._mapped("annotator", self.n_labels, code_dtype(self.n_annotators))
            self.label = self._mapped("label", self.n_labels, code_dtype(self.n_classes))
            self.gold = self._mapped("gold", self.n_items, np.dtype(np.int32)) if meta["gold"] else None
            with (self.folder / "items.arrow").open("rb") as file:
                self._items_map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._items = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(self._items_map)))
            sizes = [self._items.get_batch(i).num_rows for i in range(self._items.num_record_batches)]
        except (KeyError, TypeError, ValueError, OSError, EOFError, pa.ArrowException) as error:
            raise self._damaged(str(error)) from error
        self._batch_edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        expected = meta["n_annotators"], meta["n_classes"], self.n_items, 0, self.n_labels
        ends = self._batch_edges[-1], self.indptr[0], self.indptr[-1]
        if (self.n_annotators, self.n_classes, *ends) != expected:
            raise self._damaged("its files do not belong together")

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.folder,)

    @property
    def n_annotators(self) -> int:
        """M."""
        return len(self.annotator_ids)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.class_ids)

    # ---- blocks of items --------------------------------------------------------------------------------

    def annotations(self, first: int = 0, stop: int | None = None) -> Annotations:
        """Return the items from ``first`` to before ``stop`` as Annotations, with all annotators and classes."""
        stop = self.n_items if stop is None else stop
        indptr = self.indptr[first : stop + 1]
        low, high = int(indptr[0]), int(indptr[-1])
        return Annotations(
            indptr - low if low else indptr,
            self.annotator[low:high],
            self.label[low:high],
            items=self.item_ids(first, stop),
            annotators=self.annotator_ids,
            classes=self.class_ids,
            gold=None if self.gold is None else self.gold[first:stop],
            origin=self.origin,
        )

    def item_ids(self, first: int = 0, stop: int | None = None) -> Ids:
        """Return the names of the items from ``first`` to before ``stop``, which are read when needed."""
        stop = self.n_items if stop is None else stop
        return Ids.lazily(stop - first, lambda: self._item_names(first, stop))

    def _item_names(self, first: int, stop: int) -> pa.Array:
        low = max(int(np.searchsorted(self._batch_edges, first, "right")) - 1, 0)
        parts: list[pa.Array] = []
        for at in range(low, len(self._batch_edges) - 1):
            begin = int(self._batch_edges[at])
            if begin >= stop and parts:
                break
            names = self._items.get_batch(at).column(0)
            parts.append(names[max(first - begin, 0) : max(stop - begin, 0)])
        if sum(names.nbytes for names in parts) >= _WIDE and pa.types.is_string(parts[0].type):
            parts = [names.cast(pa.large_string()) for names in parts]
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def cut(self, labels: int) -> list[tuple[int, int]]:
        """Cut the items into ranges ``(first, stop)`` of at most about ``labels`` labels, all about equally many."""
        n_blocks = max(1, -(-self.n_labels // max(labels, 1)))
        aims = np.arange(1, n_blocks) * (self.n_labels / n_blocks)
        edges = [0, *np.searchsorted(self.indptr, aims).tolist(), self.n_items]
        return [(a, b) for a, b in pairwise(edges) if b > a]

    def release(self, first: int = 0, stop: int | None = None) -> None:
        """Drop the pages of these items from memory; they are loaded again when they are read."""
        stop = self.n_items if stop is None else stop
        low, high = int(self.indptr[first]), int(self.indptr[stop])
        for array, begin, end in (
            (self.annotator, low, high),
            (self.label, low, high),
            (self.indptr, first, stop + 1),
            (self.gold, first, stop),
        ):
            if array is not None:
                drop_pages(array, begin, end)
        if hasattr(mmap, "MADV_DONTNEED"):
            self._items_map.madvise(mmap.MADV_DONTNEED)

    def __repr__(self) -> str:
        return (
            f"<Store: {self.n_labels} labels, {self.n_items} items, {self.n_annotators} annotators, "
            f"{self.n_classes} classes in {self.folder}>"
        )

    # ---- files ------------------------------------------------------------------------------------------

    def _meta(self) -> dict[str, Any]:
        try:
            meta = json.loads((self.folder / META).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise FormatError(f"{self.folder} is not a store of labels: cannot read its {META}") from error
        if not isinstance(meta, dict) or meta.get("format") != FORMAT["format"]:
            raise FormatError(f"{self.folder} is not a store of labels")
        if meta.get("version") != FORMAT["version"]:
            raise FormatError(f"{self.folder} has format version {meta.get('version')}; this release reads 1")
        return meta

    def _names(self, name: str) -> Ids:
        with pa.OSFile(str(self.folder / f"{name}.arrow")) as file, pa.ipc.open_file(file) as content:
            return Ids(content.get_batch(0).column(0))

    def _mapped(self, name: str, size: int, dtype: np.dtype[Any]) -> Any:
        array = np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        if array.shape != (size,) or array.dtype != dtype:
            raise ValueError(f"{name}.npy holds {array.dtype}{array.shape}, expected {dtype}({size},)")
        return array

    def _damaged(self, why: str) -> FormatError:
        return FormatError(f"the store of labels in {self.folder} is damaged: {why}. Remove it and scan the data again")


def drop_pages(array: Any, begin: int, end: int) -> None:
    """Drop the pages of ``array[begin:end]``, those at its edges included, from this process."""
    if not hasattr(mmap, "MADV_DONTNEED") or begin >= end:
        return
    size, page = array.dtype.itemsize, mmap.PAGESIZE
    low = (array.offset + begin * size) // page * page
    array._mmap.madvise(mmap.MADV_DONTNEED, low, array.offset + end * size - low)
