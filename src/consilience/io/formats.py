"""The formats that can be read, and how a file is recognised: by its name, and by what stands in it.

Tables with a row for each label are read by column (:data:`FORMATS`), exports of annotation tools by a module each
(:data:`EXPORTS`), labels of tokens by :func:`consilience.read_sequences`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.ids import Ids
from consilience.exceptions import FormatError, ParameterError
from consilience.io import delimited, jsonl, parquet, records
from consilience.io.export import Export
from consilience.io.source import SHAPES, TABLE_ENDINGS, Source, ending_of, look, look_at_parquet, the_file
from consilience.kernels._arrays import Codes

__all__ = [
    "EXPORTS",
    "FORMATS",
    "SEQUENCES",
    "Format",
    "Pick",
    "Recognised",
    "read_export",
    "recognise",
    "table_format",
]

_log = logging.getLogger("consilience")

#: Told the columns of a file, says which to read; raises when one is missing.
Pick = Callable[[list[str]], list[str]]


@dataclass(frozen=True)
class Format:
    """A way to read a table."""

    name: str
    endings: tuple[str, ...]
    read: Callable[[Path, Pick, str], pa.Table]
    untyped: bool = False  #: text without types: numbers are found afterwards
    #: a shorter way to codes for large files, or None where it does not apply to a file
    encode: Callable[[Path, Pick, str], list[tuple[Codes, Ids]] | None] = lambda *_: None


FORMATS: Mapping[str, Format] = {
    form.name: form
    for form in (
        Format("csv", (".csv", ".txt"), delimited.read_csv, True, delimited.encode_csv),
        Format("tsv", (".tsv", ".tab"), delimited.read_tsv, True, delimited.encode_tsv),
        Format("jsonl", (".jsonl", ".ndjson"), jsonl.read),
        Format("parquet", (".parquet", ".pq"), parquet.read),
        Format("json", (".json",), records.read),
    )
}


class Tool(NamedTuple):
    """Where exports come from, and the modules that know them."""

    title: str
    modules: tuple[str, ...]


#: Exports by name, those that are recognised by the most particular signs first.
EXPORTS: Mapping[str, Tool] = {
    "label-studio": Tool("Label Studio", ("label_studio", "label_studio_flat")),
    "mturk": Tool("Mechanical Turk batch results", ("mturk",)),
    "toloka": Tool("Toloka assignments", ("toloka",)),
    "appen": Tool("Appen full report", ("appen",)),
    "prodigy": Tool("Prodigy", ("prodigy",)),
    "argilla": Tool("Argilla records", ("argilla",)),
    "ground-truth": Tool("SageMaker Ground Truth manifest", ("ground_truth",)),
    "mt-bench": Tool("MT-Bench judgments", ("mt_bench",)),
    "lewidi": Tool("LeWiDi", ("lewidi",)),
    "peerannot": Tool("peerannot answers", ("peerannot",)),
    "doccano": Tool("doccano", ("doccano",)),
    "snorkel": Tool("Snorkel matrix", ("snorkel",)),
    "wide": Tool("wide table", ("wide",)),
}

#: Labels of tokens in order.
SEQUENCES: Mapping[str, str] = {"conll": "CoNLL columns", "brat": "brat folder"}

_TITLES = {
    "csv": "CSV table",
    "tsv": "TSV table",
    "jsonl": "JSON Lines table",
    "parquet": "Parquet table",
    "json": "JSON table",
}


@dataclass(frozen=True)
class Recognised:
    """What a file was taken for.

    Attributes
    ----------
    name
        Name of the format, as ``format=…`` takes it.
    title
        The same in words.
    reason
        Why.
    """

    name: str
    title: str
    reason: str
    source: Source | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.title} ({self.reason})"


def recognise(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 - as in read
    *,
    encoding: str = "utf-8",
    columns: bool = False,
) -> Recognised:
    """Tell the format of a file, and why it is taken for that.

    Parameters
    ----------
    path
        A file or a folder; a folder with one file stands for that file.
    format
        Its name, where it is known.
    encoding
        Of a text file.
    columns
        Whether columns are named, so that it must be a table with a row for each label.

    Examples
    --------
    >>> import consilience as cs
    >>> print(cs.recognise("batch.csv"))  # doctest: +SKIP
    Mechanical Turk batch results (its header has 'HITId', 'WorkerId' and 'AssignmentStatus')
    """
    place = the_file(path)
    known = (*FORMATS, *EXPORTS, *SEQUENCES)
    if format is not None and format not in known:
        raise ParameterError(f"there is no format {format!r}; known are {', '.join(known)}")
    if not place.exists():
        raise FormatError(f"there is no file {place}")
    found = _named(place, format, encoding) if format is not None else _found(place, encoding, columns)
    _log.info("%s: %s", place.name, found)
    return found


def _named(place: Path, name: str, encoding: str) -> Recognised:
    title = _title(name)
    source = look(place, encoding, by_name=False) if name in EXPORTS else None
    if source is not None and source.shape == "parquet":
        source = look_at_parquet(place, encoding) or source
    return Recognised(name, title, f"by format={name!r}", source)


def _title(name: str) -> str:
    return EXPORTS[name].title if name in EXPORTS else SEQUENCES.get(name) or _TITLES[name]


def _found(place: Path, encoding: str, columns: bool) -> Recognised:
    if not place.is_dir() and place.stat().st_size == 0:
        raise FormatError(f"{place.name} is empty: it has not even a header")
    ending, by_name = f"by its ending {ending_of(place)}", _by_ending(place)
    if by_name == "parquet" and not columns:
        return _parquet(place, encoding, ending)
    if by_name == "conll" or (columns and by_name is not None):
        return Recognised(by_name, _title(by_name), ending)
    source = look(place, encoding)
    if source.shape == "parquet":
        return _parquet(place, encoding, "by its first bytes")
    if source.shape == "folder":
        return _folder(place, source)
    if not columns and (found := _by_content(source)) is not None:
        return found
    if by_name is None or (source.document is not None and not _is_table(source)):
        raise _unknown(place)
    return Recognised(by_name, _title(by_name), ending, source)


def _parquet(place: Path, encoding: str, why: str) -> Recognised:
    """Recognise an export or a wide table in Parquet, where columns of annotators and labels are missing."""
    source = None if place.suffix.lower() == ".gz" else look_at_parquet(place, encoding)
    if source is not None:
        called = {name.strip().lower() for name in source.names}
        roles = [called.intersection(_frames.ALIASES[role]) for role in ("annotator", "label")]
        if not all(roles) and (found := _by_content(source)) is not None:
            return found
    return Recognised("parquet", _title("parquet"), why)


def _by_content(source: Source) -> Recognised | None:
    """Recognise what stands in a file; tables of any columns come last."""
    for name in EXPORTS:
        if name == "wide" and (tokens := _tokens(source)) is not None:
            return tokens
        if (reason := _reason(name, source)) is not None:
            return Recognised(name, _title(name), reason, source)
    return None


def _is_table(source: Source) -> bool:
    """Tell whether JSON has a field of at least one of the three roles."""
    called = {name.strip().lower() for name in source.fields()}
    return source.shape == "records" and any(
        called.intersection(_frames.ALIASES[role]) for role in ("item", "annotator", "label")
    )


def _by_ending(place: Path) -> str | None:
    """Name the format that an ending stands for."""
    from consilience.io import conll

    ending = "" if place.is_dir() else ending_of(place)
    if ending in conll.ENDINGS:
        return "conll"
    return next((form.name for form in FORMATS.values() if ending in form.endings), None)


def _reason(name: str, source: Source) -> str | None:
    for module in EXPORTS[name].modules:
        reason: str | None = import_module(f"consilience.io.{module}").recognise(source)
        if reason is not None:
            return reason
    return None


def _folder(place: Path, source: Source) -> Recognised:
    from consilience.io import brat

    if brat.is_folder(place):
        return Recognised("brat", _title("brat"), "it has .ann files", source)
    if any(name.lower().endswith(".parquet") for name in source.members):
        return Recognised("parquet", _title("parquet"), "a folder with .parquet files", source)
    if (reason := _reason("doccano", source)) is not None:
        return Recognised("doccano", _title("doccano"), reason, source)
    raise FormatError(
        f"{place.name} is a folder without .parquet files, without .ann files (brat), and not one of .jsonl, .json or "
        ".csv files by annotator (doccano)"
    )


def _tokens(source: Source) -> Recognised | None:
    """Recognise CoNLL columns, in text that has no other ending."""
    from consilience.io import conll

    ending = ending_of(source.path)
    if source.shape != "table" or (ending in TABLE_ENDINGS and ending != ".txt"):
        return None
    if not conll.looks_like(source.text().encode(errors="replace").decode()):
        return None
    return Recognised("conll", _title("conll"), "a line for each token, the word and then its labels", source)


def _unknown(place: Path) -> FormatError:
    endings = ", ".join(ending for form in FORMATS.values() for ending in form.endings)
    tools = ", ".join(tool.title for tool in EXPORTS.values())
    return FormatError(
        f"{place.name}: format not recognised; looked for the endings {endings} (also with .gz), and inside for "
        f"{tools}, {', '.join(SEQUENCES.values())}. Say which it is with format='csv' (--format csv)"
    )


def read_export(found: Recognised, item: str | None, question: str | None) -> Export:
    """Read the export of a tool."""
    source = found.source
    if source is None:
        raise ParameterError(f"{found.name!r} is not the export of a tool")
    modules = [import_module(f"consilience.io.{name}") for name in EXPORTS[found.name].modules]
    # of the shapes that a tool exports, the one that this is
    module = next((one for one in modules[1:] if one.recognise(source) is not None), modules[0])
    if source.shape not in module.SHAPES:
        raise FormatError(
            f"{source.name} cannot be read as {found.title}: expected {_shapes(module.SHAPES)}, got "
            f"{SHAPES[source.shape]}"
        )
    export: Export = module.read(source, item, question)
    return export


def _shapes(shapes: tuple[str, ...]) -> str:
    return " or ".join(SHAPES[shape] for shape in shapes)


def table_format(path: str | os.PathLike[str], name: str | None) -> Format:
    """Tell how a table is read, such as one of truths or of edges: by the name given, the ending or the first bytes."""
    place = Path(path)
    if name is not None and name not in FORMATS:
        raise ParameterError(f"there is no format {name!r}; known are {', '.join(FORMATS)}")
    if not place.exists():
        raise FormatError(f"there is no file {place}")
    if name is not None:
        return FORMATS[name]
    found = _found(place, "utf-8", columns=True)
    if found.name not in FORMATS:
        raise FormatError(f"{place.name}: expected a table, but it looks like {found}")
    return FORMATS[found.name]
