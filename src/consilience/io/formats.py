"""The formats that can be read, and how a file is recognised: by its name and its content.

Tables with a row for each label are read by column (:data:`FORMATS`), exports of annotation tools by a module each
(:data:`EXPORTS`), labels of tokens by :func:`consilience.read_sequences` (:data:`SEQUENCES`).  A module is imported
only if its row here fits the file.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from consilience.data.frames import ALIASES
from consilience.exceptions import FormatError, ParameterError, did_you_mean
from consilience.io.documents import Pick, check_is_file
from consilience.io.logs import logs_in
from consilience.io.source import (
    SHAPES,
    TABLE_ENDINGS,
    Source,
    ending_of,
    files_below,
    parquet_table,
    several_files,
    the_file,
)

__all__ = [
    "EXPORTS",
    "FORMATS",
    "LOGS",
    "SEQUENCES",
    "Format",
    "Reader",
    "Recognised",
    "Tool",
    "annotators_of",
    "holds_sequences",
    "read_export",
    "recognise",
    "recognise_files",
    "table_format",
    "token_format",
]

#: Names of a folder that are looked at when a file is not found.
_MOST_NAMES = 10_000

_log = logging.getLogger("consilience")


class Format(NamedTuple):
    """A kind of table with a row for each label."""

    title: str
    endings: tuple[str, ...]
    module: str  #: it has ``read(source, pick, *arguments)``
    untyped: bool = False  #: text without types: numbers are found afterwards
    arguments: tuple[str, ...] = ()

    def read(self, source: Source, pick: Pick) -> pa.Table:
        """Read the picked columns."""
        return import_module(f"consilience.io.{self.module}").read(source, pick, *self.arguments)


FORMATS: Mapping[str, Format] = {
    "csv": Format("CSV table", (".csv", ".txt"), "delimited", untyped=True),
    "tsv": Format("TSV table", (".tsv", ".tab"), "delimited", untyped=True, arguments=("\t",)),
    "jsonl": Format("JSON Lines table", (".jsonl", ".ndjson"), "jsonl"),
    "parquet": Format("Parquet table", (".parquet", ".pq"), "parquet"),
    "json": Format("JSON table", (".json",), "records"),
    "excel": Format("Excel sheet", (".xlsx",), "excel"),
}


class Reader(NamedTuple):
    """A module that reads one kind of export: ``read(source, item, question)``.

    A table is offered to it if its header has ``columns`` ("OUTPUT:…" is any name that begins so); if there are none,
    only a table without a column of annotators or labels.  The module's ``recognise(source)`` then decides and returns
    the reason; without such a function the columns decide.
    """

    module: str
    shapes: tuple[str, ...]  #: of :data:`consilience.io.source.SHAPES`
    columns: tuple[str, ...] = ()
    annotators: tuple[str, ...] = ()  #: what annotators can be shown by; then ``read`` takes one of them too

    def reason(self, source: Source) -> str | None:
        """Return why a file is of this kind; None if it is not."""
        if source.shape not in self.shapes or (source.shape == "table" and not self._fits(source.names)):
            return None
        module: Any = import_module(f"consilience.io.{self.module}")
        if hasattr(module, "recognise"):
            reason: str | None = module.recognise(source)
            return reason
        *others, last = map(repr, self.columns)
        return f"its header has {', '.join(others)} and {last}"

    def _fits(self, names: tuple[str, ...]) -> bool:
        if not self.columns:
            return not _roles(names) & {"annotator", "label"}
        return all(
            any(name.startswith(sign[:-1]) for name in names) if sign.endswith("…") else sign in names
            for sign in self.columns
        )


class Tool(NamedTuple):
    """What exports come from, and the modules that read them."""

    title: str
    readers: tuple[Reader, ...]

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of the modules."""
        return tuple(reader.module for reader in self.readers)


_JSON = ("records", "object")

#: Exports by name, those with the most specific signs first.
EXPORTS: Mapping[str, Tool] = {
    "label-studio": Tool(
        "Label Studio",
        (
            Reader("label_studio", _JSON, annotators=("id", "email", "name", "username")),
            Reader("label_studio_flat", ("table", *_JSON), ("id", "annotator", "annotation_id", "lead_time")),
        ),
    ),
    "mturk": Tool(
        "Mechanical Turk batch results", (Reader("mturk", ("table",), ("HITId", "WorkerId", "AssignmentStatus")),)
    ),
    "toloka": Tool("Toloka assignments", (Reader("toloka", ("table",), ("ASSIGNMENT:worker_id", "OUTPUT:…")),)),
    "appen": Tool("Appen full report", (Reader("appen", ("table",), ("_unit_id", "_worker_id")),)),
    "prodigy": Tool("Prodigy", (Reader("prodigy", _JSON),)),
    "argilla": Tool("Argilla records", (Reader("argilla", _JSON),)),
    "ground-truth": Tool("SageMaker Ground Truth manifest", (Reader("ground_truth", _JSON),)),
    "mt-bench": Tool("MT-Bench judgments", (Reader("mt_bench", (*_JSON, "table"), ("question_id", "judge")),)),
    "inspect": Tool("Inspect log", (Reader("inspect_log", ("object", "zip", "folder")),)),
    "promptfoo": Tool("promptfoo results", (Reader("promptfoo", ("object", "records", "folder")),)),
    "deepeval": Tool("DeepEval results", (Reader("deepeval", ("object", "folder")),)),
    "lm-eval": Tool("lm-evaluation-harness samples", (Reader("lm_eval", (*_JSON, "folder")),)),
    "openai-evals": Tool("OpenAI evals log", (Reader("openai_evals", (*_JSON, "folder")),)),
    "alpaca-eval": Tool("AlpacaEval annotations", (Reader("alpaca_eval", ("records", "folder")),)),
    "lewidi": Tool("LeWiDi", (Reader("lewidi", ("object",)),)),
    "peerannot": Tool("peerannot answers", (Reader("peerannot", ("object",)),)),
    "doccano": Tool("doccano", (Reader("doccano", ("folder", "zip", *_JSON, "table")),)),
    "snorkel": Tool("Snorkel matrix", (Reader("snorkel", ("array", "zip", "table")),)),
    "wide": Tool("wide table", (Reader("wide", ("table",)),)),
}


#: Labels of tokens in order; the modules have ``read(path, encoding, classes, duplicates)``.
SEQUENCES: Mapping[str, Format] = {
    "conll": Format("CoNLL columns", (".conll", ".bio", ".iob"), "conll"),
    "brat": Format("brat folder", (), "brat"),
}

#: Exports of which several, in a folder or a list, are one table: logs of one model or judge each.
LOGS = ("inspect", "promptfoo", "deepeval", "lm-eval", "openai-evals", "alpaca-eval")

_TITLES = {name: form.title for name, form in (*FORMATS.items(), *SEQUENCES.items())}
_TITLES |= {name: tool.title for name, tool in EXPORTS.items()}


@dataclass(frozen=True)
class Recognised:
    """The format of a file.

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
    source: Source = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.title} ({self.reason})"


def recognise(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 - as in read
    *,
    encoding: str = "utf-8",
    columns: bool = False,
) -> Recognised:
    """Return the format of a file, and the reason.

    Parameters
    ----------
    path
        A file or a folder; a folder with one file stands for that file.
    format
        Its name, if it is known.
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
    check_format(place, format, (*FORMATS, *EXPORTS, *SEQUENCES))
    if format is None:
        found = _found(Source(place, encoding), columns)
    else:
        source = Source(place, encoding, by_name=False)
        if format in EXPORTS and source.shape == "parquet":
            source = parquet_table(place, encoding) or source
        elif format in EXPORTS and _by_ending(place) == "excel":
            source = _excel(source, "", True).source
        found = _recognised(format, f"by format={format!r}", source)
    _log.info("%s: %s", place.name, found)
    return found


def check_format(place: Path, name: str | None, known: tuple[str, ...], what: str = "") -> None:
    """Raise if the format named is not among those known, or the file does not exist."""
    if name is not None and name not in known:
        hint = did_you_mean(name, known, f"The formats are {', '.join(known)}")
        raise ParameterError(f"there is no format {name!r}{what}{hint}")
    if not place.exists():
        if place.is_symlink():
            raise FormatError(f"{place} is a symbolic link to {place.readlink()}, which leads to no file")
        raise FormatError(f"there is no file {place}{_similar(place)}")
    check_is_file(place)


def _similar(place: Path) -> str:
    """Return a question about a file of the same folder whose name is similar, or ""."""
    try:
        names = [each.name for each in islice(place.parent.iterdir(), _MOST_NAMES)]
    except OSError:
        return ""
    return did_you_mean(place.name, names, "").removesuffix(". ")


def _recognised(name: str, reason: str, source: Source) -> Recognised:
    return Recognised(name, _TITLES[name], reason, source)


def _found(source: Source, columns: bool) -> Recognised:
    place = source.path
    if not place.is_dir() and place.stat().st_size == 0:
        raise FormatError(f"{place.name} is empty: it has not even a header")
    ending, by_name = f"by its ending {ending_of(place)}", _by_ending(place)
    if by_name == "json" and source.shape == "records" and source.has_json_lines:
        by_name, ending = "jsonl", "an object on each line"
    if by_name == "parquet" and not columns:
        return _parquet(source, ending)
    if by_name == "excel":
        return _excel(source, ending, columns)
    if by_name == "conll" or (columns and by_name is not None):
        return _recognised(by_name, ending, source)
    if source.shape == "parquet":
        return _parquet(source, "by its first bytes")
    if source.shape == "folder":
        return _folder(source)
    if not columns and (found := _by_content(source)) is not None:
        return found
    if by_name is None or (source.document is not None and not _is_table(source)):
        endings = ", ".join(ending for form in FORMATS.values() for ending in form.endings)
        titles = ", ".join(_TITLES[name] for name in (*EXPORTS, *SEQUENCES))
        raise FormatError(
            f"{place.name}: format not recognised; looked for the endings {endings} (also with .gz), and inside for "
            f"{titles}. Say which it is with format='csv' (--format csv)"
        )
    return _recognised(by_name, ending, source)


def _by_ending(place: Path) -> str | None:
    """Return the format that an ending stands for."""
    ending = "" if place.is_dir() else ending_of(place)
    return next((name for name, form in (*SEQUENCES.items(), *FORMATS.items()) if ending in form.endings), None)


def _parquet(source: Source, reason: str) -> Recognised:
    """Recognise an export or a wide table in Parquet if there is no column of annotators or none of labels."""
    table = None if source.path.suffix.lower() == ".gz" else parquet_table(source.path, source.encoding)
    if table is not None and not {"annotator", "label"} <= _roles(table.names):
        found = _by_content(table)
        if found is not None:
            return found
    return _recognised("parquet", reason, source)


def _excel(source: Source, reason: str, columns: bool) -> Recognised:
    """Recognise an export or a wide table in a workbook, as for Parquet."""
    from consilience.io.excel import Sheet

    sheet = Sheet(source.path, source.encoding)
    if not columns and not {"annotator", "label"} <= _roles(sheet.names):
        found = _by_content(sheet)
        if found is not None:
            return found
    return _recognised("excel", reason, sheet)


def _by_content(source: Source) -> Recognised | None:
    """Recognise an export or tokens by the content; tables of any columns come last."""
    for name, tool in EXPORTS.items():
        if name == "wide" and source.shape == "table" and _may_hold_tokens(source) and _has_tokens(source):
            return _recognised("conll", "a line for each token, the word and then its labels", source)
        for reader in tool.readers:
            if (reason := reader.reason(source)) is not None:
                return _recognised(name, reason, source)
    return None


def _roles(names: tuple[str, ...]) -> set[str]:
    """Return the roles that have a column of a recognised name."""
    called = {name.strip().lower() for name in names}
    return {role for role in ("item", "annotator", "label") if called.intersection(ALIASES[role])}


def _is_table(source: Source) -> bool:
    """Return whether JSON has a field of at least one of the three roles."""
    return source.shape == "records" and bool(_roles(tuple(source.fields())))


def _folder(source: Source) -> Recognised:
    if _has_spans(source.path):
        return _recognised("brat", "it has .ann files", source)
    if any(name.lower().endswith(".parquet") for name in source.members):
        return _recognised("parquet", "a folder with .parquet files", source)
    if (found := _logs(source)) is not None:
        return found
    if (reason := EXPORTS["doccano"].readers[0].reason(source)) is not None:
        return _recognised("doccano", reason, source)
    raise FormatError(
        f"{source.name} is a folder without .parquet files, without .ann files (brat), without logs of evaluations "
        f"({', '.join(LOGS)}), and not one of .jsonl, .json or .csv files by annotator (doccano)"
    )


def _logs(source: Source) -> Recognised | None:
    """Recognise several files by the first that is a log."""
    for name in LOGS:
        module: Any = import_module(f"consilience.io.{EXPORTS[name].readers[0].module}")
        if (first := next(logs_in(source, module.recognise), None)) is not None:
            return _recognised(name, f"{first.name} has {module.recognise(first)}", source)
    return None


def recognise_files(paths: Sequence[str | os.PathLike[str]], format: str | None, encoding: str) -> Recognised:  # noqa: A002
    """Return the format of several logs; ``format`` is its name, if it is known."""
    places = [Path(path) for path in paths]
    for place in places:
        check_format(place, format, LOGS, " of several files")
    if not places:
        raise FormatError("the list of files is empty")
    source = several_files(places, encoding)
    found = _logs(source) if format is None else _recognised(format, f"by format={format!r}", source)
    if found is None:
        raise FormatError(
            f"{source.name}: several files can be read at once if they are logs of evaluations ({', '.join(LOGS)}), "
            "and none of these is; read them one by one"
        )
    return found


def _has_spans(folder: Path) -> bool:
    return any(file.suffix == ".ann" for file in files_below(folder))


def _may_hold_tokens(source: Source) -> bool:
    ending = ending_of(source.path)
    return ending == ".txt" or ending not in TABLE_ENDINGS


def _has_tokens(source: Source) -> bool:
    from consilience.io import conll

    return conll.looks_like(source.text().encode(errors="replace").decode())


def _reader(found: Recognised) -> Reader:
    """Return the reader of an export: a tool may export several kinds of file."""
    readers = EXPORTS[found.name].readers
    return next((reader for reader in readers[1:] if reader.reason(found.source) is not None), readers[0])


def annotators_of(found: Recognised) -> tuple[str, ...]:
    """Return what the annotators of an export can be shown by, such as their email."""
    return _reader(found).annotators if found.name in EXPORTS else ()


def read_export(found: Recognised, item: str | None, question: str | None, annotator: str | None = None) -> Any:
    """Read the export of a tool, as :class:`consilience.io.export.Export`."""
    source, reader = found.source, _reader(found)
    if source.shape not in reader.shapes:
        expected = " or ".join(SHAPES[shape] for shape in reader.shapes)
        raise FormatError(
            f"{source.name} cannot be read as {found.title}: expected {expected}, got {SHAPES[source.shape]}"
        )
    more = () if annotator is None else (annotator,)
    return import_module(f"consilience.io.{reader.module}").read(source, item, question, *more)


def table_format(path: str | os.PathLike[str], name: str | None, encoding: str) -> tuple[Source, Format]:
    """Return how a table is read, such as one of truths or of edges: by the name given, the ending or the content."""
    source = Source(Path(path), encoding)
    check_format(source.path, name, tuple(FORMATS))
    if name is None:
        found = _found(source, columns=True)
        if found.name not in FORMATS:
            raise FormatError(f"{source.name}: expected a table, but it looks like {found}")
        name = found.name
    return source, FORMATS[name]


# ---- tokens -----------------------------------------------------------------------------------------------------


def holds_sequences(path: str | os.PathLike[str], format: str | None = None) -> bool:  # noqa: A002 - as in read
    """Return whether a file can only hold tokens in order: CoNLL columns or a brat folder, by name or by content."""
    place = Path(path)
    if format is not None:
        return format in SEQUENCES
    if not place.exists() or (place.is_file() and place.stat().st_size == 0):
        return False
    return token_format(Source(place), named=False) in SEQUENCES


def token_format(source: Source, *, named: bool) -> str | None:
    """Return the format of labels of tokens, or None; ``named`` columns are those of a table."""
    place = source.path
    check_is_file(place)
    if place.is_dir():
        return "brat" if _has_spans(place) else "parquet" if any(place.rglob("*.parquet")) else None
    if place.stat().st_size == 0:
        raise FormatError(f"{place.name} is empty")
    form = _by_ending(place)
    if form == "conll" or (form is not None and ending_of(place) != ".txt"):
        return form
    if source.head(512).startswith(b"PAR1"):
        return "parquet"
    return "conll" if not named and _has_tokens(source) else form
