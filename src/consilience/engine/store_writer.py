"""Writing a :class:`consilience.engine.store.Store` block by block, atomically."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa

from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids, numbers_where_all_are
from consilience.engine.fingerprint import PARTS, digest_of_array, digest_of_names, fingerprint_of_digests
from consilience.engine.store import FORMAT, META, Store
from consilience.files import atomic_folder
from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Ints, code_dtype

__all__ = ["StoreWriter", "write_store"]

#: Items in a block of names, and values rewritten at a time.
_NAMES = 1 << 18
_PIECE = 1 << 22


def write_store(annotations: Annotations, folder: str | os.PathLike[str]) -> Store:
    """Write labels in memory to a folder, and open it."""
    with StoreWriter(folder, annotations.origin) as writer:
        writer.append(
            annotations.labels_per_item, annotations.annotator, annotations.label, annotations.item_ids.to_arrow()
        )
        known = None
        if annotations.gold is not None:
            items = np.flatnonzero(annotations.gold >= 0)
            known = items, annotations.gold[items]
        writer.finish(annotations.annotator_ids, annotations.class_ids, gold=known)
    return Store(folder)


class StoreWriter:
    """Writes a store from blocks of complete items.

    >>> with StoreWriter(folder) as writer:  # doctest: +SKIP
    ...     writer.append(lengths, annotator, label, names)
    ...     writer.finish(annotators, classes)

    The folder appears when the ``with`` ends after :meth:`finish`.  Until then, and after an error, what was there
    before stays.

    Parameters
    ----------
    folder
        Folder of the store.
    origin
        Names of the columns, and notes.
    lasting
        Whether the store outlives this process; a temporary one is not forced to disk.
    """

    def __init__(self, folder: str | os.PathLike[str], origin: Origin | None = None, *, lasting: bool = True) -> None:
        self._folder, self._origin, self._lasting = Path(folder), origin or Origin(), lasting
        self._stack = ExitStack()
        self._finished = False

    def __enter__(self) -> Self:
        if self._lasting:
            self._fresh = self._stack.enter_context(atomic_folder(self._folder, META))
        else:
            self._fresh = self._folder
            self._fresh.mkdir()
            self._stack.push(self._drop_unfinished)
        self._stack.callback(self._close)
        self._indptr = _Column(self._fresh / "indptr.npy", np.dtype(np.int64))
        self._annotator = _Column(self._fresh / "annotator.npy", np.dtype(np.uint8))
        self._label = _Column(self._fresh / "label.npy", np.dtype(np.uint8))
        self._names: Any = None
        self._n_labels = self._n_items = 0
        self._indptr.write(np.zeros(1, np.int64))
        return self

    def append(self, lengths: Ints, annotator: Codes, label: Codes, names: pa.Array) -> None:
        """Add items: the number of labels of each, the codes of all their labels in order, their names."""
        self._indptr.write(self._n_labels + np.cumsum(lengths, dtype=np.int64))
        self._annotator.write(annotator)
        self._label.write(label)
        if self._names is None:
            self._schema = pa.schema([pa.field("item", names.type, nullable=False)])
            self._names = pa.ipc.new_file(str(self._fresh / "items.arrow"), self._schema)
        self._names.write_table(pa.table([names], schema=self._schema), max_chunksize=_NAMES)
        self._n_labels += annotator.size
        self._n_items += len(names)

    def end_items(self, *, untyped: bool = False) -> None:
        """Close the names; ``untyped`` names become numbers if all of them are written as numbers."""
        if self._names is None:
            return
        self._names.close()
        self._names = None
        kinds = {numbers_where_all_are(Ids(names)).to_arrow().type for names in self.names()} if untyped else set()
        if len(kinds) == 1 and (kind := kinds.pop()) != self._schema.field(0).type:
            schema = pa.schema([pa.field("item", kind, nullable=False)])
            with pa.ipc.new_file(str(self._fresh / "items.new"), schema) as file:
                for names in self.names():
                    file.write_table(pa.table([names.cast(kind)], schema=schema))
            (self._fresh / "items.new").replace(self._fresh / "items.arrow")

    def names(self) -> Iterator[pa.Array]:
        """Yield the names of the items in blocks, once they are closed."""
        with pa.OSFile(str(self._fresh / "items.arrow")) as file, pa.ipc.open_file(file) as content:
            for at in range(content.num_record_batches):
                yield content.get_batch(at).column(0)

    def finish(
        self,
        annotators: Ids,
        classes: Ids,
        *,
        rank: Codes | None = None,
        gold: tuple[Ints, Codes] | None = None,
        notes: tuple[str, ...] = (),
        source: dict[str, Any] | None = None,
    ) -> None:
        """Close the files and write the names.

        Parameters
        ----------
        annotators, classes
            The vocabularies.
        rank
            The code in ``classes`` of each appended label code, if they differ.
        gold
            Items of known truth, in ascending order, and their classes.
        notes
            What was left out when labels were read.
        source
            Files and options that the labels came from, in plain values.
        """
        self.end_items()
        has_gold = gold is not None and len(gold[0]) > 0
        if gold is not None and has_gold:
            self._write_gold(*gold)
        origin = self._origin
        meta = {
            **FORMAT,
            "n_items": self._n_items,
            "n_annotators": len(annotators),
            "n_classes": len(classes),
            "n_labels": self._n_labels,
            "columns": {"item": origin.item, "annotator": origin.annotator, "label": origin.label},
            "notes": [*origin.notes, *notes],
            "gold": has_gold,
            "fingerprint": self._fingerprint(annotators, classes, rank, has_gold),
            "source": source,
        }
        for name, ids in (("annotators", annotators), ("classes", classes)):
            batch = pa.record_batch([ids.to_arrow()], [name])
            with pa.ipc.new_file(str(self._fresh / f"{name}.arrow"), batch.schema) as file:
                file.write_batch(batch)
        (self._fresh / META).write_text(json.dumps(meta, ensure_ascii=False), "utf-8")
        self._finished = True

    def _write_gold(self, items: Ints, classes: Codes) -> None:
        column = _Column(self._fresh / "gold.npy", np.dtype(np.int32))
        for low in range(0, self._n_items, _PIECE):
            high = min(low + _PIECE, self._n_items)
            a, b = np.searchsorted(items, (low, high)).tolist()
            values = np.full(high - low, -1, np.int32)
            values[items[a:b] - low] = classes[a:b]
            column.write(values)
        column.close(column.dtype)

    def _fingerprint(self, annotators: Ids, classes: Ids, rank: Codes | None, has_gold: bool) -> str:
        """Close the columns in parallel and return the fingerprint of all parts."""
        close: dict[str, Callable[[], None]] = {
            "indptr": lambda: self._indptr.close(np.dtype(np.int64)),
            "annotator": lambda: self._annotator.close(code_dtype(len(annotators))),
            "label": lambda: self._label.close(code_dtype(len(classes)), rank),
        }

        def digest(at: int, _: int) -> bytes:
            part = PARTS[at]
            if part in close:
                close[part]()
            if part == "items":
                return digest_of_names(self.names())
            if part in ("annotators", "classes"):
                return digest_of_names([(annotators if part == "annotators" else classes).to_arrow()])
            if part == "gold" and not has_gold:
                return digest_of_array(None)
            return _digest_of_file(self._fresh / f"{part}.npy")

        digests = blocks.run(digest, [(at, at + 1) for at in range(len(PARTS))])
        return fingerprint_of_digests(dict(zip(PARTS, digests, strict=True)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._finished:
            kind, error = RuntimeError, RuntimeError("the store was not finished")
            self._stack.__exit__(kind, error, None)
            raise error
        self._stack.__exit__(kind, error, trace)

    def _drop_unfinished(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            shutil.rmtree(self._fresh)

    def _close(self) -> None:
        for column in (self._indptr, self._annotator, self._label):
            column.file.close()
        if self._names is not None:
            self._names.close()


class _Column:
    """A one-dimensional ``.npy`` file that grows; its type widens with its values."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.path, self.dtype, self.size = path, dtype, 0
        self.file: IO[bytes] = path.open("w+b")
        self._write_header()
        self._begin = self.file.tell()

    def write(self, values: Codes) -> None:
        if self.dtype.kind == "u" and self.dtype.itemsize < values.dtype.itemsize and values.size:
            needed = np.min_scalar_type(values.max())
            if needed.itemsize > self.dtype.itemsize:
                self._rewrite(needed)
        self.file.write(np.ascontiguousarray(values, self.dtype).data)
        self.size += values.size

    def close(self, dtype: np.dtype[Any], rank: Codes | None = None) -> None:
        """Write the header, after converting to ``dtype`` and replacing each value by ``rank[value]``."""
        if dtype != self.dtype or (rank is not None and (rank != np.arange(rank.size)).any()):
            self._rewrite(dtype, rank)
        self.file.seek(0)
        self._write_header()
        self.file.close()

    def _write_header(self) -> None:
        # numpy reserves space for any size, so the length of the header does not depend on it
        content = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.size,)}
        np.lib.format.write_array_header_1_0(self.file, content)

    def _rewrite(self, dtype: np.dtype[Any], rank: Codes | None = None) -> None:
        new = _Column(self.path.with_suffix(".new"), dtype)
        self.file.seek(self._begin)
        table = None if rank is None else np.ascontiguousarray(rank, dtype)
        for low in range(0, self.size, _PIECE):
            piece = np.frombuffer(self.file.read(min(_PIECE, self.size - low) * self.dtype.itemsize), self.dtype)
            new.write(piece.astype(dtype) if table is None else _looked_up(table, piece))
        self.file.close()
        new.path.replace(self.path)
        self.file, self.dtype = new.file, dtype


def _looked_up(table: Codes, codes: Codes) -> Codes:
    if table.dtype == codes.dtype == np.uint8:  # several times faster than indexing
        whole = np.zeros(256, np.uint8)
        whole[: table.size] = table
        return np.frombuffer(codes.tobytes().translate(whole.tobytes()), np.uint8)
    return np.asarray(table[codes])


def _digest_of_file(path: Path) -> bytes:
    """Return the :func:`digest_of_array` of a file without mapping it: mapped pages count as memory."""
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        header = file.read(int.from_bytes(file.read(2), "little")).decode("latin-1")
        # numpy parses headers as Python, which two threads at once cannot do in Python 3.11 (SystemError)
        descr = re.search("'descr': '([^']+)'", header)
        assert descr is not None
        made = hashlib.sha256(np.dtype(descr[1]).str.encode())
        while piece := file.read(1 << 22):
            made.update(piece)
    return made.digest()
