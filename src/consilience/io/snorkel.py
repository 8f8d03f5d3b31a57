"""Label matrices as in Snorkel: a row for each item, a column for each labelling function, -1 where it abstains.

``.npy``, ``.npz`` (with a question for each matrix in it), or text without a header, separated by commas or white
space.  Items and annotators are numbered from 0.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
import zlib
from typing import Any

import numpy as np

from consilience.data.ids import Ids
from consilience.exceptions import DataError, FormatError
from consilience.io.documents import decode, most_bytes, read_bytes, up_to
from consilience.io.export import Export, choose, refuse_question
from consilience.io.source import Source

__all__ = ["read", "recognise"]

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?|nan")
_TRIES = 50


def recognise(source: Source) -> str | None:
    """Return why this is such a matrix, or None."""
    if source.shape == "array":
        return "a numpy array"
    if source.shape == "zip":
        arrays = bool(source.members) and all(name.endswith(".npy") for name in source.members)
        return "numpy arrays" if arrays else None
    if not all(_NUMBER.fullmatch(field) for field in _fields(source.delimiter.join(source.names))):
        return None
    rows = [_fields(line) for line in source.text().splitlines()[:_TRIES] if line.strip()]
    if not rows or len(rows[0]) < 2 or any(len(row) != len(rows[0]) for row in rows):
        return None
    if not all(_NUMBER.fullmatch(field) for row in rows for field in row):
        return None
    abstain = any(float(field) == -1 for row in rows for field in row)
    # three columns of numbers could as well be item, annotator and label
    return "numbers without a header, -1 among them" if abstain else None


def _fields(line: str) -> list[str]:
    return re.split(r"\s*,\s*|\s+", line.strip())


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read a matrix."""
    if source.shape == "zip":
        matrix = _from_archive(source, question)
    else:
        refuse_question(question, source.name, "a matrix")
        matrix = _from_array(source) if source.shape == "array" else _from_text(source)
    if matrix.ndim != 2 or not matrix.size:
        raise DataError(f"{source.name}: expected a matrix of items × annotators, got the shape {matrix.shape}")
    if matrix.dtype.kind not in "iufb":
        raise DataError(f"{source.name}: expected a matrix of class numbers, got values of type {matrix.dtype}")
    if matrix.dtype.kind == "f":
        gaps = np.isnan(matrix)
        whole = np.where(gaps, -1, matrix)
        if (strange := np.flatnonzero((whole != np.rint(whole)) | (np.abs(whole) > 1 << 53))).size:
            value = float(whole.ravel()[strange[0]])
            raise DataError(f"{source.name}: expected class numbers, and -1 for none; {value!r} is neither")
        matrix = whole
    values = np.clip(matrix, -1, None).astype(np.int64) if matrix.dtype.kind == "u" else matrix.astype(np.int64)
    n, m = np.nonzero(values != -1)
    names, codes = np.unique(values[n, m], return_inverse=True)
    return Export(
        (n.astype(np.int32), Ids.range(values.shape[0])),
        (m.astype(np.int32), Ids.range(values.shape[1])),
        (codes.astype(np.int32), Ids(names)),
        row="label",
    )


def _from_array(source: Source) -> Any:
    content = read_bytes(source.path)
    return _array(io.BytesIO(content), len(content), source.name)


def _from_archive(source: Source, question: str | None) -> Any:
    names = [name.removesuffix(".npy") for name in source.members if name.endswith(".npy")]
    if {"indptr", "indices", "data"}.issubset(names):
        raise DataError(f"{source.name} holds a sparse matrix, in which 0 is ambiguous; save it with numpy.save")
    wanted = choose(names, question, source.name) + ".npy"
    try:
        with zipfile.ZipFile(source.path) as archive, archive.open(wanted) as packed:
            content = up_to(packed, most_bytes() + 1)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, KeyError, ValueError) as error:
        raise FormatError(f"cannot read {source.name}: it is not a whole .npz file ({error})") from error
    if len(content) > most_bytes():
        raise FormatError(f"{source.name} is too much for the memory of this machine when unpacked")
    return _array(io.BytesIO(content), len(content), source.name)


def _array(file: io.BytesIO, size: int, where: str) -> Any:
    """Load an array; one that claims to be larger than its file is refused before memory is allocated."""
    try:
        version = np.lib.format.read_magic(file)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, _, dtype = read_header.get(version, np.lib.format.read_array_header_2_0)(file)
        if dtype.hasobject:
            raise ValueError("it holds Python objects, which are not read")
        if any(n < 0 for n in shape) or float(np.prod(shape, dtype=float)) * dtype.itemsize > size:
            raise ValueError("it breaks off")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # numpy passes on whatever its parser of headers raises
        raise FormatError(f"cannot read {where}: it is not a whole .npy file ({error})") from error


def _from_text(source: Source) -> Any:
    text = decode(read_bytes(source.path), source.encoding, source.name).removeprefix("\ufeff")
    delimiter = "," if "," in text[: text.find("\n")] else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.loadtxt(io.StringIO(text), dtype=np.float64, delimiter=delimiter, comments=None, ndmin=2)
        except ValueError as error:
            raise FormatError(f"{source.name} is not a matrix of numbers: {str(error).splitlines()[0]}") from error
