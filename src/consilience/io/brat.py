"""brat folders: a folder for each annotator, with the text of each document and the spans marked in it.

::

    labels/alice/d1.txt    EU rejects German call
    labels/alice/d1.ann    T1<TAB>ORG 0 2<TAB>EU
    labels/bob/d1.ann      (empty: nothing to mark)

* A **document** is named by its file without the ending.  An annotator without an .ann file of it did not label it; an
  empty .ann file labels every token O.  Its text may be in any of the folders, but must be the same in all.
* A **token** is a run of word characters (letters, digits, ``_``) or any other single character that is not space.
* A **sequence** is a line of a document that has tokens: ``"d1:3"`` is line 3 of d1, counted from 1; a document with
  one such line is ``"d1"``.
* A **label** is B-TYPE for the first token of a span, I-TYPE for the others, O outside.  Offsets count characters of
  the text from 0, the end excluded.  A span that cuts a token is widened to it.  A span of several fragments, or over
  several lines, begins again with B- after each gap and on each line, because I- continues the token before.
* Of **overlapping spans** of one annotator the longest in tokens is kept (of equal ones the first in the text, then in
  the file); the others are left out with a warning.

A folder that holds .ann files itself is that of one annotator.  Only text-bound annotations (T) count; relations,
events, attributes, normalisations, notes and hidden files are ignored.  Nothing outside the folder is read.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from consilience.data.annotations import Duplicates
from consilience.data.ids import Ids
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import DataError, DataWarning, FormatError, warn
from consilience.io.documents import read_text
from consilience.io.export import assemble
from consilience.io.source import files_below
from consilience.kernels._arrays import Codes, Ints

__all__ = ["Span", "parse_spans", "read", "tokenise"]

#: A byte order mark counts in offsets, but is no token.
_TOKEN = re.compile(r"\w+|[^\w\s\ufeff]")
_LINE_END = re.compile(r"\r\n|\r|\n")
_SPAN = re.compile(r"T\S*\t(\S+)[ \t]+([0-9]{1,18} [0-9]{1,18}(?:;[0-9]{1,18} [0-9]{1,18})*)[ ]*(?:\t(.*))?\Z")
#: Relations, equivalences, events, attributes, modifications, normalisations and notes.
_IGNORED = re.compile(r"[REAMN][0-9]+\s|[*#]|\s*\Z")


class Span(NamedTuple):
    """A text-bound annotation."""

    kind: str
    fragments: tuple[tuple[int, int], ...]
    quoted: str | None  #: the text that it claims to cover
    line: int  #: of the file, from 1


class Document(NamedTuple):
    """A text and its T tokens."""

    name: str
    text: str
    start: Ints  #: (T,) where each token begins
    end: Ints  #: (T,)
    line: Ints  #: (T,) from 0

    @property
    def first_of_line(self) -> Ints:
        """Tokens that begin a line."""
        return np.flatnonzero(np.diff(self.line, prepend=-1))

    def sequences(self) -> list[str]:
        """Names of the lines that have tokens."""
        lines = self.line[self.first_of_line]
        return [self.name] if lines.size == 1 else [f"{self.name}:{line + 1}" for line in lines]

    def words(self) -> list[str]:
        """Text of each token."""
        return [self.text[a:b] for a, b in zip(self.start.tolist(), self.end.tolist(), strict=True)]


@dataclass
class _Labels:
    """The tags so far, and problems with the spans."""

    codes: dict[str, int] = field(default_factory=lambda: {"O": 0})
    overlapping: int = 0
    without_token: int = 0
    misquoted: list[str] = field(default_factory=list)

    def code(self, tag: str) -> int:
        return self.codes.setdefault(tag, len(self.codes))

    def notes(self) -> Iterator[str]:
        if self.overlapping:
            yield f"spans that overlap a longer one of the same annotator and were left out: {self.overlapping}"
        if self.without_token:
            yield f"spans that cover no token and were left out: {self.without_token}"
        if self.misquoted:
            yield (
                f"spans that quote another text than the document has: {len(self.misquoted)}, the first in "
                f"{self.misquoted[0]}; are the offsets counted in characters?"
            )


def read(
    folder: Path, encoding: str, classes: Sequence[Any] | None = None, duplicates: Duplicates = "last"
) -> SequenceAnnotations:
    """Read the folders of all annotators."""
    folder = folder if folder.name not in ("", "..") else folder.resolve()  # it names things
    spans_of, texts_of = _find(folder)
    if not spans_of:
        raise FormatError(f"{folder.name} has no .ann files, neither itself nor in the folders of annotators")
    annotators = sorted({annotator for files in spans_of.values() for annotator in files})
    labels = _Labels()
    words: list[str] = []
    sequences: list[str] = []
    lengths: list[Ints] = []
    tokens: list[Ints] = []
    by: list[Ints] = []
    said: list[Codes] = []
    for name in sorted(spans_of):
        document = tokenise(name, _text(texts_of[name], spans_of[name], folder, encoding))
        T = document.start.size
        for annotator, path in sorted(spans_of[name].items()):
            where = _relative(path, folder)
            spans = parse_spans(read_text(path, encoding, where), where, len(document.text))
            said.append(_tag(document, spans, labels, where))
            tokens.append(len(words) + np.arange(T))
            by.append(np.full(T, annotators.index(annotator)))
        words += document.words()
        sequences += document.sequences()
        lengths.append(np.diff(np.append(document.first_of_line, T)))
    if not words:
        raise DataError(f"{folder.name} has no tokens: the texts of its {len(spans_of)} documents are blank")
    if len(set(sequences)) < len(sequences):
        twice = next(name for name in sequences if sequences.count(name) > 1)
        raise FormatError(
            f"{folder.name}: {twice!r} would name two sequences; rename the document with ':' in its name"
        )
    notes = tuple(labels.notes())
    for note in notes:
        warn(f"{folder.name}: {note}", DataWarning)
    return assemble(
        sequences=Ids(pa.array(sequences, pa.string())),
        lengths=np.concatenate(lengths),
        words=pa.array(words, pa.string()),
        token=np.concatenate(tokens),
        annotator=(np.concatenate(by), Ids(pa.array(annotators, pa.string()))),
        label=_used(np.concatenate(said), list(labels.codes)),
        classes=classes,
        duplicates=duplicates,
        where=folder.name,
        notes=notes,
    )


def _used(codes: Codes, tags: list[str]) -> tuple[Codes, Ids]:
    """Leave out tags that no token has: spans of one token have no I-."""
    used = np.bincount(codes, minlength=len(tags)) > 0
    new = (np.cumsum(used) - 1).astype(np.int32)
    return new[codes], Ids(pa.array([tag for tag, kept in zip(tags, used, strict=True) if kept], pa.string()))


# ---- finding files ------------------------------------------------------------------------------------------


def _find(folder: Path) -> tuple[dict[str, dict[str, Path]], dict[str, list[Path]]]:
    """Return the files of spans, by document and annotator, and of texts, by document."""
    root = folder.resolve()
    spans: dict[str, dict[str, Path]] = defaultdict(dict)
    texts: dict[str, list[Path]] = defaultdict(list)
    flat: dict[bool, Path] = {}
    for path in files_below(folder):
        if path.suffix not in (".ann", ".txt") or (path.exists() and not path.is_file()):
            continue
        if path.is_symlink():
            _refuse_link_out(path, root, folder)
        parts = path.relative_to(folder).with_suffix("").parts
        document = "/".join(parts[1:] or parts)
        if path.suffix == ".txt":
            texts[document].append(path)
        else:
            flat.setdefault(len(parts) == 1, path)
            spans[document][parts[0] if len(parts) > 1 else root.name] = path
    if len(flat) == 2:
        raise FormatError(
            f"{folder.name} holds both {_relative(flat[True], folder)} and {_relative(flat[False], folder)}; expected "
            ".ann files of one annotator, or a folder for each annotator, not both"
        )
    for place, names, _ in os.walk(folder):
        for name in names:
            if spans and not name.startswith(".") and (linked := Path(place, name)).is_symlink():
                raise FormatError(f"{_relative(linked, folder)} is a link, which is not followed; put the folder there")
    return dict(spans), texts


def _refuse_link_out(path: Path, root: Path, folder: Path) -> None:
    try:
        inside = path.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError) as error:
        raise FormatError(f"{_relative(path, folder)} is a link that leads nowhere") from error
    if not inside:
        raise FormatError(
            f"{_relative(path, folder)} is a link out of the folder, which is not followed; copy the file"
        )


def _relative(path: Path, folder: Path) -> str:
    return f"{folder.name}/{path.relative_to(folder).as_posix()}"


def _text(paths: list[Path], spans: dict[str, Path], folder: Path, encoding: str) -> str:
    """Return the text of a document, which must be the same in all folders."""
    if not paths:
        path = next(iter(spans.values()))
        raise FormatError(
            f"{_relative(path, folder)} has no text; expected {path.with_suffix('.txt').name} beside it or in the "
            "folder of another annotator"
        )
    names = [_relative(path, folder) for path in paths]
    texts = [read_text(path, encoding, name, with_mark=True) for path, name in zip(paths, names, strict=True)]
    for name, text in zip(names, texts, strict=True):
        if text != texts[0]:
            pairs = enumerate(zip(text, texts[0], strict=False))
            at = next((i for i, (one, other) in pairs if one != other), min(len(text), len(texts[0])))
            raise FormatError(
                f"{names[0]} and {name} differ from character {at} on ({texts[0][at : at + 20]!r} and "
                f"{text[at : at + 20]!r}); annotators must have labelled the same text"
            )
    return texts[0]


# ---- reading them -------------------------------------------------------------------------------------------


def tokenise(name: str, text: str) -> Document:
    """Split a text into tokens: runs of word characters, and any other character that is not space."""
    places = np.array([match.span() for match in _TOKEN.finditer(text)], np.int64).reshape(-1, 2)
    breaks = np.array([match.start() for match in _LINE_END.finditer(text)], np.int64)
    return Document(name, text, places[:, 0], places[:, 1], np.searchsorted(breaks, places[:, 0]))


def parse_spans(content: str, where: str, length: int) -> list[Span]:
    """Read the text-bound annotations of a document of so many characters."""
    spans = []
    for number, line in enumerate(content.split("\n"), 1):
        line = line.rstrip("\r")
        if _IGNORED.match(line):
            continue
        match = _SPAN.match(line)
        if match is None:
            raise FormatError(
                f"{where}, line {number}: expected T1<TAB>TYPE START END<TAB>TEXT, or an annotation of another kind "
                f"(R, E, A, M, N, * or #), got {line[:60]!r}"
            )
        fragments = [tuple(map(int, fragment.split(" "))) for fragment in match[2].split(";")]
        for start, end in fragments:
            if start > end or end > length:
                raise FormatError(
                    f"{where}, line {number}: span {start} {end} does not lie in the text, which has {length} "
                    "characters. Offsets are counted in characters, the smaller first"
                )
        spans.append(Span(match[1], tuple(sorted((a, b) for a, b in fragments)), match[3], number))
    return spans


def _tag(document: Document, spans: list[Span], labels: _Labels, where: str) -> Codes:
    """Return the tag of every token of a document: longest spans first, what overlaps them is left out."""
    different = {(span.kind, span.fragments): None for span in spans}
    chosen = []
    for (kind, _), runs in zip(different, _runs(document, [fragments for _, fragments in different]), strict=True):
        if runs:
            chosen.append((-sum(b - a for a, b in runs), runs, kind))
        else:
            labels.without_token += 1
    labels.misquoted += [f"{where}, line {span.line}" for span in spans if not _quotes(document.text, span)]
    codes = [0] * document.start.size  # a list: spans are short, and arrays slow for short slices
    opening = document.first_of_line.tolist()
    for _, runs, kind in sorted(chosen, key=lambda known: known[:2]):
        if any(any(codes[a:b]) for a, b in runs):
            labels.overlapping += 1
            continue
        begin, inside = labels.code(f"B-{kind}"), labels.code(f"I-{kind}")
        for a, b in runs:
            codes[a:b] = [begin] + [inside] * (b - a - 1)
            for first in opening[bisect_left(opening, a) : bisect_left(opening, b)]:
                codes[first] = begin
    return np.array(codes, np.int32)


def _runs(document: Document, spans: list[tuple[tuple[int, int], ...]]) -> Iterator[list[tuple[int, int]]]:
    """Yield the tokens of each span as (first, after last), a pair for each part after a gap."""
    places = np.array([place for fragments in spans for place in fragments], np.int64).reshape(-1, 2)
    # a token is covered if it ends after the fragment begins and begins before the fragment ends
    first = np.searchsorted(document.end, places[:, 0], "right")
    after = np.searchsorted(document.start, places[:, 1], "left")
    covered = iter(zip(first.tolist(), np.where(places[:, 0] < places[:, 1], after, 0).tolist(), strict=True))
    for fragments in spans:
        runs: list[tuple[int, int]] = []
        for a, b in islice(covered, len(fragments)):
            if a < b and runs and a <= runs[-1][1]:
                runs[-1] = (runs[-1][0], max(b, runs[-1][1]))
            elif a < b:
                runs.append((a, b))
        yield runs


def _quotes(text: str, span: Span) -> bool:
    """Return whether a span quotes the text at its place, up to white space."""
    if span.quoted is None:
        return True
    covered = "".join("".join(text[a:b].split()) for a, b in span.fragments)
    return "".join(span.quoted.split()) == covered
