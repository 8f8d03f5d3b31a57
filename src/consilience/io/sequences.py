"""Labels of tokens from files: token tables, CoNLL columns and brat folders.

============ =========================== =========================================================
format       recognised by               holds
============ =========================== =========================================================
token table  as :func:`consilience.read` a row for each label: sequence, position, annotator, label
``"conll"``  .conll, .bio, .iob, or what a line for each token (:mod:`consilience.io.conll`)
             stands in it
``"brat"``   a folder with .ann files    spans over texts (:mod:`consilience.io.brat`)
============ =========================== =========================================================
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations, Duplicates, Origin
from consilience.data.ids import Ids, encode, numbers_where_all_are, to_column
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import ColumnError, DataError, FormatError, ParameterError
from consilience.io.formats import FORMATS
from consilience.kernels._arrays import Codes, Ints

__all__ = ["assemble", "holds_sequences", "read_sequence_truth", "read_sequences", "text_of"]

#: This much of a file is looked at to tell what it is.
_SAMPLE = 1 << 16


def read_sequences(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - as in read
    sequence: str | None = None,
    position: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    duplicates: Duplicates = "last",
    encoding: str = "utf-8",
) -> SequenceAnnotations:
    """Read labels of tokens: a token table (CSV, TSV, JSON Lines, Parquet), CoNLL columns or a brat folder.

    Parameters
    ----------
    path
        The file, gzipped or not, or the folder.
    format
        "csv", "tsv", "jsonl", "parquet", "conll" or "brat" where the name does not tell.
    sequence, position, annotator, label
        Names of a table's columns, where they are not recognised by themselves.
    classes, duplicates
        As for :meth:`consilience.Annotations.from_frame`.
    encoding
        Of text files.
    """
    given = {"sequence": sequence, "position": position, "annotator": annotator, "label": label}
    place = Path(path)
    kind = _recognise(place, format, given, encoding)
    if kind in FORMATS:
        return _read_table(place, kind, given, classes, duplicates, encoding)
    return _read_tokens(place, kind, encoding, classes, duplicates)


def read_sequence_truth(
    path: str | os.PathLike[str],
    *,
    like: SequenceAnnotations,
    format: str | None = None,  # noqa: A002 - as in read
    sequence: str | None = None,
    position: str | None = None,
    label: str | None = None,
    encoding: str = "utf-8",
) -> pa.Table:
    """Read known truths of tokens: a table with a sequence, a position and a label column.

    Parameters
    ----------
    path, format, encoding
        As for :func:`read_sequences`; CoNLL columns and brat folders must have one annotator.
    like
        Labels of the same tokens: their own column names are recognised too, and where both know the words, these must
        be the same.
    sequence, position, label
        Names of a table's columns, where they are not recognised by themselves.
    """
    place = Path(path)
    kind = _recognise(place, format, {"sequence": sequence, "position": position, "label": label}, encoding)
    if kind not in FORMATS:
        return _single(_read_tokens(place, kind, encoding, None, "last"), like, place.name)
    names: dict[str, str] = {}

    def pick(columns: list[str]) -> list[str]:
        for role, name, own in (
            ("sequence", sequence, like.sequence_column),
            ("position", position, like.position_column),
        ):
            names[role] = _frames.find_column(columns, role, name or (own if own in columns else None), place.name)
        others = [name for name in columns if name not in names.values()]
        own = like.tokens.origin.label
        names["label"] = _frames.find_truth_column(others, "", label or (own if own in others else None), place.name)
        return _different(names, place)

    table = FORMATS[kind].read(place, pick, encoding)
    if table.num_rows == 0:
        raise DataError(f"{place.name} has no rows: it names no truth")
    columns = {}
    for role, name in names.items():
        codes, ids = encode(_column(table, name, place))
        ids = numbers_where_all_are(ids) if FORMATS[kind].untyped else ids
        columns[role] = ids.to_arrow().take(pa.array(codes, mask=codes < 0))
    return pa.table(columns)


def holds_sequences(path: str | os.PathLike[str], format: str | None = None) -> bool:  # noqa: A002 - as in read
    """Tell whether a file can only be one of tokens in order: CoNLL columns or a brat folder, by name or by content."""
    place = Path(path)
    if format is not None:
        return format in ("conll", "brat")
    if not place.exists() or (place.is_file() and place.stat().st_size == 0):
        return False
    return _from_content(place, False, "utf-8") in ("conll", "brat")


def _recognise(place: Path, name: str | None, given: dict[str, str | None], encoding: str) -> str:
    """Tell the format, by the name given, the ending, or what stands in the file."""
    from consilience.io import conll

    known = (*FORMATS, "conll", "brat")
    named = any(column is not None for column in given.values())
    if name is not None and name not in known:
        raise ParameterError(f"there is no format {name!r} for sequences; known are {', '.join(known)}")
    if not place.exists():
        raise FormatError(f"there is no file {place}")
    found = name or _from_content(place, named, encoding)
    if found not in FORMATS and named:
        names = ", ".join(f"{role}={column!r}" for role, column in given.items() if column is not None)
        raise ParameterError(f"{place.name}: {names} names a column of a table, but the format is {found!r}")
    if place.is_dir() != (found == "brat") and found in ("brat", "conll"):
        raise FormatError(f"{place.name}: format {found!r} is a {'folder' if found == 'brat' else 'file'}")
    if found is not None:
        return found
    if place.is_dir():
        raise FormatError(f"{place.name} is a folder without .ann files (brat) and without .parquet files")
    endings = (*conll.ENDINGS, *(ending for form in FORMATS.values() for ending in form.endings))
    raise FormatError(
        f"{place.name}: format not recognised; looked for the endings {', '.join(endings)} (also with .gz), for CoNLL "
        "columns, and for a brat folder. Say which it is with format='conll' (--format conll)"
    )


def _from_content(place: Path, named: bool, encoding: str) -> str | None:
    from consilience.io import brat, conll

    if place.is_dir():
        return "brat" if brat.is_folder(place) else "parquet" if any(place.rglob("*.parquet")) else None
    if place.stat().st_size == 0:
        raise FormatError(f"{place.name} is empty")
    ending = next((e.lower() for e in reversed(place.suffixes) if e.lower() != ".gz"), "")
    if ending in conll.ENDINGS:
        return "conll"
    form = next((form.name for form in FORMATS.values() if ending in form.endings), None)
    if form is not None and ending != ".txt":
        return form
    sample = _bytes_of(place, place.name, _SAMPLE)
    if sample.startswith(b"PAR1"):
        return "parquet"
    if named:
        return form
    try:
        # what is not text is for the reader to complain about
        text = sample.decode(encoding, "replace").encode(errors="replace").decode().removeprefix("\ufeff")
    except (LookupError, UnicodeError):
        return form
    whole_lines = text if len(sample) < _SAMPLE else text[: max(text.rfind("\n"), 0)]
    return "conll" if conll.looks_like(whole_lines) else form


def _read_table(
    place: Path,
    kind: str,
    given: dict[str, str | None],
    classes: Sequence[Any] | None,
    duplicates: Duplicates,
    encoding: str,
) -> SequenceAnnotations:
    names: dict[str, str] = {}

    def pick(columns: list[str]) -> list[str]:
        for role, name in given.items():
            names[role] = _frames.find_column(columns, role, name, place.name)
        return _different(names, place)

    table = FORMATS[kind].read(place, pick, encoding)
    return SequenceAnnotations.from_columns(
        **{role: _column(table, name, place) for role, name in names.items()},
        classes=classes,
        duplicates=duplicates,
        origin=Origin("token", names["annotator"], names["label"]),
        sequence_column=names["sequence"],
        position_column=names["position"],
        where=place.name,
        untyped=FORMATS[kind].untyped,
    )


def _different(names: dict[str, str], place: Path) -> list[str]:
    if len(set(names.values())) < len(names):
        raise ColumnError(f"{place.name}: {', '.join(names)} must be different columns, got {names}")
    return list(names.values())


def _column(table: pa.Table, name: str, place: Path) -> pa.Array:
    try:
        return to_column(table[name], name)
    except DataError as error:
        raise type(error)(f"{place.name}: {error}") from error


def _read_tokens(
    place: Path, kind: str, encoding: str, classes: Sequence[Any] | None, duplicates: Duplicates
) -> SequenceAnnotations:
    from consilience.io import brat, conll

    return (brat.read if kind == "brat" else conll.read)(place, encoding, classes, duplicates)


def _single(truth: SequenceAnnotations, like: SequenceAnnotations, where: str) -> pa.Table:
    """Give what one annotator said as truths."""
    a = truth.tokens
    if a.n_annotators != 1:
        raise DataError(
            f"{where} has labels of {a.n_annotators} annotators; expected one: each token has one truth. "
            "Keep the column or the folder of the truth alone"
        )
    codes = np.full(truth.n_tokens, -1, np.int32)
    codes[a.item_of_label()] = a.label
    columns = truth.token_columns()
    place, order = columns[truth.sequence_column], columns[truth.position_column]
    token = like.token_of(place, order)
    met = np.flatnonzero(token >= 0)
    if like.words is not None and truth.words is not None:
        ours, theirs = like.words.take(pa.array(token[met])), truth.words.take(pa.array(met))
        other = np.flatnonzero(np.asarray(pc.not_equal(ours, theirs).fill_null(False)))
        if other.size:
            at = int(met[other[0]])
            raise DataError(
                f"{where}: sequence {place[at]}, position {order[at]} is {theirs[int(other[0])].as_py()!r}, but "
                f"{ours[int(other[0])].as_py()!r} among the labels; truth and labels must be of the same text"
            )
    label = a.class_ids.to_arrow().take(pa.array(codes, mask=codes < 0))
    return pa.table({"sequence": place, "position": order, "label": label})


# ---- what the formats of tokens share -----------------------------------------------------------------------


def assemble(
    *,
    sequences: Ids,
    lengths: Ints,
    words: pa.Array,
    token: Ints,
    annotator: tuple[Ints, Ids],
    label: tuple[Codes, Ids],
    classes: Sequence[Any] | None,
    duplicates: Duplicates,
    where: str,
    untyped: bool = False,
    notes: tuple[str, ...] = (),
) -> SequenceAnnotations:
    """Build from tokens that are already in order, N of them, and labels by number of token."""
    N = len(words)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = Annotations.from_codes(
        (token.astype(np.int32), Ids.range(N)),
        (annotator[0].astype(np.int32), annotator[1]),
        label,
        classes=classes,
        duplicates=duplicates,
        origin=Origin("token", notes=notes),
        where=where,
        untyped=untyped,
    )
    position = (np.arange(N) - np.repeat(indptr[:-1], lengths)).astype(np.int32)
    return SequenceAnnotations(tokens, indptr, sequences, position, Ids.range(int(lengths.max())), words)


def text_of(path: Path, encoding: str, name: str, *, with_mark: bool = False) -> str:
    """Read a whole text file, gzipped or not; a byte that is not text is an error that names its line.

    A byte order mark is left out unless wanted ``with_mark``.
    """
    content = _bytes_of(path, name)
    try:
        text = content.decode(encoding)
        text.encode()  # some encodings give halves of characters
    except UnicodeDecodeError as error:
        before = content[: error.start]
        raise FormatError(
            f"{name}, line {before.count(10) + 1}: byte {error.start - before.rfind(10)} is not {encoding}; "
            "say how the file is encoded, for example encoding='latin-1' (--encoding latin-1)"
        ) from error
    except (LookupError, UnicodeError) as error:
        raise FormatError(f"{name} is not text in {encoding}: {error}") from error
    return text if with_mark else text.removeprefix("\ufeff")


def _bytes_of(path: Path, name: str, most: int = -1) -> bytes:
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            return file.read(most)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"cannot read {name}: {error}") from error
