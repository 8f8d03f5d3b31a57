"""What an item shows: its text, images, sounds and links, and the spans and boxes that annotators drew.

Fields come from the file of labels, if it is the export of a tool, or from a file of their own.  Records are joined to
items by the field whose values are ids of items.  Files are only served from below the folder of the task data.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from consilience.data.texts import is_link
from consilience.exceptions import DataError
from consilience.io.formats import EXPORTS, recognise, table_format
from consilience.io.texts import text_name
from consilience.web.material import Material

__all__ = ["MEDIA", "Block", "Box", "Span", "TaskData", "blocks_of", "file_behind", "read_task_data"]

#: Endings that are shown, with the types they are served as; SVG is left out, since it can hold scripts.
MEDIA = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
    ".bmp": "image/bmp", ".avif": "image/avif", ".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg",
    ".flac": "audio/flac", ".m4a": "audio/mp4", ".opus": "audio/ogg",
}  # fmt: skip
#: Fields of records that hold answers or bookkeeping, not what is shown.
_ANSWERS = frozenset(
    (
        *("annotations", "completions", "predictions", "drafts", "label", "labels", "entities", "relations", "spans"),
        *("boxes", "answer", "accept", "responses", "suggestions", "options", "annotator", "completed_by", "id"),
    )
)
#: Prefixes of the columns that describe the item in exports of Mechanical Turk and Toloka.
_INPUTS = ("Input.", "INPUT:")
#: Parts of the names of columns with answers in exports of Argilla, which also have a column ``status``.
_RESPONSES = (".responses", ".suggestion")
#: Limits on the fields of an item, and the characters of each.
_MOST_FIELDS, _MOST_TEXT = 20, 20_000


class Span(NamedTuple):
    """A marked part of a text."""

    start: int
    end: int
    label: str
    who: str


class Box(NamedTuple):
    """A marked part of an image, in percent of its size."""

    x: float
    y: float
    width: float
    height: float
    label: str
    who: str


@dataclass(frozen=True)
class TaskData:
    """Fields, spans and boxes by number of the item, and the folder that files are served from."""

    fields: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    spans: Mapping[int, list[Span]] = field(default_factory=dict)
    boxes: Mapping[int, list[Box]] = field(default_factory=dict)
    folder: Path | None = None


class Block(NamedTuple):
    """A field as it is shown."""

    kind: str  #: "text", "image", "audio", "link" or "field"
    name: str
    value: str
    address: str = ""  #: of an image, a sound or a link
    parts: tuple[tuple[str, str], ...] = ()  #: of a text: pieces, and what they are marked as
    boxes: tuple[Box, ...] = ()


def read_task_data(path: str | os.PathLike[str], material: Material, *, required: bool = True) -> TaskData:
    """Read the fields of a file; unless ``required``, a file that has none is no error."""
    place = Path(path)
    records = list(_records(place))
    key = _key(records, material)
    if key is None:
        if required:
            ids = ", ".join(repr(material.key(n)) for n in range(min(3, material.labels.n_items)))
            raise DataError(f"{place.name} has no field that holds ids of items, such as {ids}")
        return TaskData(folder=place.parent)
    fields: dict[int, Mapping[str, str]] = {}
    spans: dict[int, list[Span]] = {}
    boxes: dict[int, list[Box]] = {}
    for record in records:
        n = material.find(str(_flat(record).get(key, "")))
        if n is None:
            continue
        fields.setdefault(n, {name: text for name, text in _shown(record, material) if name != key})
        for mark in _marks(record, material):
            if isinstance(mark, Span):
                spans.setdefault(n, []).append(mark)
            else:
                boxes.setdefault(n, []).append(mark)
    return TaskData(fields, spans, boxes, place.parent)


def _records(place: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of JSON, or the rows of a table."""
    found = recognise(place)
    if found.source.shape in ("records", "object"):
        yield from found.source.records()
        return
    source, form = (found.source, None) if found.name in EXPORTS else table_format(place, None, "utf-8")
    table = source.columns(source.names) if form is None else form.read(source, list)
    yield from table.to_pylist()


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values of a record, with those of the objects that tools keep them in."""
    found = {name: value for name, value in record.items() if isinstance(value, str | int | float)}
    for inside in ("data", "fields", "meta", "metadata"):
        if isinstance(record.get(inside), dict):
            found |= {name: v for name, v in record[inside].items() if isinstance(v, str | int | float)}
    return found


def _key(records: list[dict[str, Any]], material: Material) -> str | None:
    """Return the field that names items in most of the first records."""
    hits: dict[str, int] = {}
    for record in records[:100]:
        for name, value in _flat(record).items():
            hits[name] = hits.get(name, 0) + (material.find(str(value)) is not None)
    best = max(hits, key=lambda name: (hits[name], name == material.labels.origin.item), default=None)
    return best if best is not None and hits[best] else None


def _shown(record: Mapping[str, Any], material: Material) -> Iterator[tuple[str, str]]:
    """Yield the fields to show, the most telling first."""
    inside = next((record[name] for name in ("data", "fields") if isinstance(record.get(name), dict)), None)
    source = _described(record, material) if inside is None else inside
    plain = {
        name: str(value)[:_MOST_TEXT]
        for name, value in source.items()
        if isinstance(value, str | int | float) and not name.startswith("_") and str(value).strip()
    }
    first = text_name(plain)
    names = sorted(plain, key=lambda name: name != first)
    yield from ((name, plain[name]) for name in names[:_MOST_FIELDS])


def _described(record: Mapping[str, Any], material: Material) -> dict[str, Any]:
    """Return the columns of a flat record that describe the item, without those on workers and their answers."""
    inputs = {name.removeprefix(p): value for p in _INPUTS for name, value in record.items() if name.startswith(p)}
    if inputs:
        return inputs
    question = material.labels.origin.question
    of_argilla = any(part in name for name in record for part in _RESPONSES)

    def is_answer(name: str) -> bool:
        return (
            name.lower() in _ANSWERS
            or name in material.annotator_code  # a column for each annotator
            or (bool(question) and name in (question, f"{question}_gold", f"{question}:confidence"))
            or (of_argilla and (name == "status" or any(part in name for part in _RESPONSES)))
        )

    return {name: value for name, value in record.items() if not is_answer(name)}


def _marks(record: Mapping[str, Any], material: Material) -> Iterator[Span | Box]:
    """Yield spans and boxes: of Label Studio, Prodigy and doccano, or fields ``spans`` and ``boxes``."""
    for made in _lists(record, "annotations", "completions"):
        if isinstance(made, dict):
            who = made.get("completed_by")
            given = [who.get(key) for key in ("id", "email", "username")] if isinstance(who, dict) else [who]
            names = [str(each) for each in given if isinstance(each, str | int)]
            # as the labels of the item name them
            name = next((each for each in names if each in material.annotator_code), names[0] if names else "")
            for result in _lists(made, "result"):
                if isinstance(result, dict) and isinstance(result.get("value"), dict):
                    yield from _mark(result["value"], name)
    who = str(record.get("_annotator_id") or record.get("annotator") or "")
    for each in _lists(record, "spans", "boxes", "entities", "label", "labels"):
        if isinstance(each, dict):
            yield from _mark(each, who)
        elif isinstance(each, list) and len(each) == 3:
            yield from _mark({"start": each[0], "end": each[1], "label": each[2]}, who)


def _lists(record: Mapping[str, Any], *names: str) -> Iterator[Any]:
    for name in names:
        if isinstance(record.get(name), list):
            yield from record[name]


def _mark(value: Mapping[str, Any], who: str) -> Iterator[Span | Box]:
    named = next((value[name] for name in ("labels", "rectanglelabels", "label") if value.get(name)), "")
    label = ", ".join(map(str, named)) if isinstance(named, list) else str(named)
    who = str(value.get("annotator", who))
    start, end = (value.get(name, value.get(f"{name}_offset")) for name in ("start", "end"))
    if isinstance(start, int) and isinstance(end, int) and 0 <= start < end:
        yield Span(start, end, label, who)
    place = [value.get(name) for name in ("x", "y", "width", "height")]
    if all(isinstance(each, int | float) and -100 <= each <= 200 for each in place):
        x, y, width, height = (float(each) for each in place if each is not None)
        yield Box(x, y, width, height, label, who)


# ---- showing them ----------------------------------------------------------------------------------------------


def blocks_of(data: TaskData, n: int, key: str, text: str | None, *, remote: bool) -> list[Block]:
    """Return what to show of item n; images and sounds from the web only if ``remote``."""
    fields = dict(data.fields.get(n, {}))
    if not fields:
        fields = {"text": text} if text else {"": key} if is_link(key) else {}
    spans, boxes = data.spans.get(n, []), tuple(data.boxes.get(n, ()))
    return [
        _block(data, n, at, name, value, spans, boxes, remote=remote) for at, (name, value) in enumerate(fields.items())
    ]


def _block(
    data: TaskData, n: int, at: int, name: str, value: str, spans: list[Span], boxes: tuple[Box, ...], *, remote: bool
) -> Block:
    kind = MEDIA.get(Path(urlsplit(value).path).suffix.lower() if is_link(value) else Path(value).suffix.lower())
    if kind is not None and not is_link(value) and file_behind(data, n, at) is not None:
        return Block(kind.split("/")[0], name, value, f"/media/{n}/{at}", boxes=boxes)
    if is_link(value):
        shown = kind.split("/")[0] if kind is not None and remote else "link"
        return Block(shown, name, value, value, boxes=boxes if shown == "image" else ())
    if at == 0 or len(value) > 80:
        return Block("text", name, value, parts=tuple(_parts(value, spans if at == 0 else [])))
    return Block("field", name, value)


def file_behind(data: TaskData, n: int, at: int) -> Path | None:
    """Return the file that a field names, if it may be served: of a known type, below the folder of the task data."""
    values = list(data.fields.get(n, {}).values())
    if data.folder is None or not 0 <= at < len(values) or "\0" in values[at] or len(values[at]) > 1000:
        return None
    folder = data.folder.resolve()
    try:
        place = (folder / values[at].removeprefix("file://")).resolve()
        inside = place.is_relative_to(folder) and place.suffix.lower() in MEDIA and place.is_file()
    except (OSError, ValueError):
        return None
    return place if inside else None


def _parts(text: str, spans: Iterable[Span]) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a text between the ends of spans, each with the labels that cover it."""
    spans = [span for span in spans if span.end <= len(text)]
    ends = sorted({0, len(text), *(span.start for span in spans), *(span.end for span in spans)})
    for start, end in pairwise(ends):
        over: dict[str, list[str]] = {}
        for span in spans:
            if span.start <= start and end <= span.end:
                over.setdefault(span.label, []).append(span.who)
        marks = (
            label + (f" ({', '.join(dict.fromkeys(filter(None, who)))})" if any(who) else "")
            for label, who in over.items()
        )
        yield text[start:end], "; ".join(marks)
