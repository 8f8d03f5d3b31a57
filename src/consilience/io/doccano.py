"""doccano: a file for each annotator (JSON Lines, JSON or CSV) in a zip file or a folder; or one file.

========== ============================================================================================
item       ``id``
annotator  the name of the file without its ending; in exports of old versions ``user``
label      ``label``; several are one, joined by ``|`` (in CSV by ``#``, as doccano does)
left out   documents without a label of the annotator
========== ============================================================================================
"""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from consilience.data.frames import ALIASES
from consilience.exceptions import DataError, FormatError
from consilience.io.documents import most_bytes, up_to
from consilience.io.export import Export, columns_of, joined, refuse_question
from consilience.io.source import Source
from consilience.io.texts import text_in, text_name, texts_of

__all__ = ["documents", "question_of", "read", "recognise", "values_by_label"]

_ENDINGS = (".jsonl", ".json", ".csv")
_MOST_FILES = 10_000
_NO_LABELS = "which are not labels of whole items; export them as CoNLL or brat and use read_sequences"


def recognise(source: Source) -> str | None:
    """Return why this is such an export, or None."""
    if source.shape in ("folder", "zip"):
        return _recognise_files(source)
    if source.sample and all(_is_record(record) for record in source.sample):
        return "records with 'id', 'text' or 'data', and a list of labels"
    return None


def _recognise_files(source: Source) -> str | None:
    files = _files(source)
    if not files:
        return None
    try:
        with _unpacked(source, files[:1]) as found:
            first = Source(next(iter(found.values())), source.encoding)
            records = first.sample
            fits = all(_is_record(record) for record in records) if records else _is_header(first.names)
    except FormatError:
        return None
    if not fits:
        return None
    what = "folder" if source.shape == "folder" else "zip file"
    return f"a {what} with {len(files)} files of documents and labels, one for each annotator"


def _files(source: Source) -> list[str]:
    inside = [name for name in source.members if not name.endswith("/")]
    paths = [PurePosixPath(name) for name in inside]
    kept = [path for path in paths if not path.name.startswith(".") and "__MACOSX" not in path.parts]
    if not kept or any(path.suffix.lower() not in _ENDINGS for path in kept):
        return []
    return [str(path) for path in kept]


def _is_header(names: tuple[str, ...]) -> bool:
    called = {name.lower() for name in names}
    return (
        {"id", "label"}.issubset(called) and bool(called & {"text", "data"}) and called.isdisjoint(ALIASES["annotator"])
    )


def _is_record(record: dict[str, Any]) -> bool:
    shown = "id" in record and ("text" in record or "data" in record)
    if any(name.lower() in ALIASES["annotator"] for name in record):
        return False  # a table that names its annotators
    made = record.get("annotations")
    old = isinstance(made, list) and all(isinstance(one, dict) and "user" in one and "label" in one for one in made)
    return shown and (isinstance(record.get("label"), list) or (old and not isinstance(record.get("data"), dict)))


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the labels of all annotators."""
    refuse_question(question, source.name, "a doccano export")
    place = item or "id"
    rows: list[tuple[Any, Any, Any, Any]] = []
    if source.shape not in ("folder", "zip"):
        shapes = {source.shape}
        rows += _rows(source, source.path.name.split(".")[0], place)
    else:
        files = _files(source)
        if not files:
            raise FormatError(f"{source.name} has other files than .jsonl, .json and .csv, or none")
        with _unpacked(source, files) as found:
            inside = {name: Source(path, source.encoding) for name, path in found.items()}
            shapes = {file.shape for file in inside.values()}
            for name, file in inside.items():
                rows += _rows(file, PurePosixPath(name).stem, place)
    items, annotators, labels = columns_of(rows, ("id", "annotator", "label"), source.name)
    return Export(
        items,
        annotators,
        labels,
        names=(place, "annotator", "label"),
        untyped=shapes == {"table"},
        text=texts_of(text for *_, text in rows),
    )


def _rows(source: Source, who: str, place: str) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield item, annotator, label and text from one file."""
    if source.shape == "table":
        wanted = {name.lower(): name for name in source.names}
        if place not in source.names and place in wanted:
            place = wanted[place]
        if place not in source.names or "label" not in wanted:
            raise FormatError(f"{source.name} has no columns {place!r} and 'label'")
        shown = wanted.get("data") or text_name(name for name in source.names if name != place)
        table = source.columns([place, wanted["label"], *([shown] if shown else [])])
        columns = [column.to_pylist() for column in table.columns]
        yield from ((item, who, label, text[0] if text else None) for item, label, *text in zip(*columns, strict=True))
        return
    for record in source.records():
        made = record.get("annotations")
        said: dict[Any, Any] = {}
        if "label" not in record and isinstance(made, list):
            for one in made:
                if not isinstance(one, dict) or isinstance(one.get("user"), list | dict):
                    raise FormatError(f"{source.name}: {str(one)[:60]!r} is not an annotation with a user and a label")
                if "start_offset" in one:
                    raise DataError(f"{source.name} has spans of text, {_NO_LABELS}")
                said.setdefault(one.get("user", who), []).append(one.get("label"))
        else:
            said[who] = record.get("label")
        text = text_in(record) or text_in({"text": record.get("data")})
        yield from ((record.get(place), user, _label(given, source.name), text) for user, given in said.items())


def documents(source: Source) -> list[dict[str, Any]]:
    """Return the documents of an export, those of all annotators."""
    if source.shape in ("folder", "zip"):
        with _unpacked(source, _files(source)) as found:
            return [one for path in found.values() for one in documents(Source(path, source.encoding))]
    if source.shape != "table":
        return list(source.records())
    names = {name: name.lower() if name.lower() in ("id", "text", "data", "label") else name for name in source.names}
    rows: list[dict[str, Any]] = source.columns(source.names).rename_columns(list(names.values())).to_pylist()
    return rows


def question_of(source: Source, records: list[dict[str, Any]], question: str | None) -> str:
    """Return the name of the labels; there is no other question."""
    refuse_question(question, source.name, "a doccano export")
    return "label"


def values_by_label(records: list[dict[str, Any]], question: str) -> dict[Any, Any]:
    """Return how each label is written in an export: a list, or text that joins several by ``#``."""
    lists = (record.get(question) for record in records)
    found = {_label(given, "label"): given for given in lists if isinstance(given, list) and given}
    texts = (record.get(question) for record in records)
    return found | {given: given.split("#") for given in texts if isinstance(given, str) and "#" in given}


def _label(given: Any, where: str) -> Any:
    if not isinstance(given, list):
        return given
    if any(isinstance(one, list | dict) for one in given):
        raise DataError(f"{where} has spans of text or relations, {_NO_LABELS}")
    return given[0] if len(given) == 1 else joined(given)


@contextmanager
def _unpacked(source: Source, names: list[str]) -> Iterator[dict[str, Path]]:
    """Yield the files of a folder, or those of a zip file unpacked, by their names."""
    if source.shape == "folder":
        yield {name: source.path / name for name in names}
        return
    if len(names) > _MOST_FILES:
        raise FormatError(f"{source.name} holds {len(names)} files; expected one for each annotator")
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Path] = {}
        left = most_bytes()
        try:
            with zipfile.ZipFile(source.path) as archive:
                for number, name in enumerate(names):
                    # under a new name: one from an archive can point anywhere
                    path = Path(folder) / f"{number}{PurePosixPath(name).suffix.lower()}"
                    with archive.open(name) as packed:
                        content = up_to(packed, left + 1)
                    left -= len(content)
                    if left < 0:
                        raise FormatError(f"{source.name} is too much for the memory of this machine when unpacked")
                    path.write_bytes(content)
                    found[name] = path
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError, KeyError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"cannot read {source.name}: it is not a whole zip file ({error})") from error
        yield found
