"""CoNLL columns: a line for each token, the word first, then a label by each annotator; a blank line ends a sequence.

::

    EU B-ORG O ?
    rejects O O ?

    Peter ? B-PER B-PER

* Annotators are named by their column: 1, 2, …; sequences and positions are counted from 0.
* ``?`` is a missing label, and so is an empty field between two tabs.
* Columns are separated by tabs if every line has one (a word may then contain spaces), otherwise by white space.
  White space also separates them if labels would contain spaces otherwise.
* Lines that begin with ``-DOCSTART-`` are left out and end a sequence.
* Where a sequence may begin, a line that begins with ``#`` and a space is a comment, unless it has as many columns as
  the others and only their labels: then it is the token #.

The text is cut with array operations: no Python code runs for each token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from consilience.data.annotations import Duplicates
from consilience.data.ids import Ids, encode, without_code
from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import DataError, FormatError
from consilience.io.documents import read_text
from consilience.io.export import assemble
from consilience.kernels._arrays import Bools, Codes, Ints

__all__ = ["Columns", "looks_like", "parse", "read"]

MISSING = "?"
_DOCUMENT = np.frombuffer(b"-DOCSTART-", np.uint8)
_TAB, _NEWLINE, _SPACE, _HASH = b"\t\n #"
_WHITE = np.isin(np.arange(256), np.frombuffer(b" \t\n\v\f\r", np.uint8))
_TAG = re.compile(r"(O|[BIESLUM]-\S+)\Z")


class Columns(NamedTuple):
    """The columns of a file: N tokens in S sequences, labelled by M annotators."""

    words: pa.Array  #: (N,)
    label: Codes  #: (N × M,) row by row, -1 where missing
    labels: Ids  #: the labels in use
    lengths: Ints  #: (S,)
    tabbed: bool  #: whether tabs separate the columns

    @property
    def n_annotators(self) -> int:
        """M."""
        return self.label.size // len(self.words)


def read(
    path: Path, encoding: str, classes: Sequence[Any] | None = None, duplicates: Duplicates = "last"
) -> SequenceAnnotations:
    """Read a file, gzipped or not."""
    columns = parse(read_text(path, encoding, path.name).encode(), path.name)
    M, N = columns.n_annotators, len(columns.words)
    said = np.flatnonzero(columns.label >= 0)
    if not said.size:
        raise DataError(f"{path.name} has no label: all its {N} tokens have {MISSING!r} from all {M} annotators")
    return assemble(
        sequences=Ids.range(columns.lengths.size),
        lengths=columns.lengths,
        words=columns.words,
        token=said // M,
        annotator=(said % M, Ids(np.arange(1, M + 1))),
        label=(columns.label[said], columns.labels),
        classes=classes,
        duplicates=duplicates,
        where=path.name,
        untyped=True,
    )


def parse(text: bytes, where: str) -> Columns:
    """Split UTF-8 text into columns; all lines must have as many columns as the first."""
    lines = _Lines(text)
    candidates = lines.begin_with_hash()
    token = lines.hold_tokens(candidates, np.zeros(0, np.int64))
    if not token.any():
        raise DataError(f"{where} has no tokens: all its lines are blank, comments or -DOCSTART-")
    columns = _table(lines, token, where)
    # some comments may be tokens: the word # at the beginning of a sequence
    known = {MISSING, "", *columns.labels}
    meant = [
        line
        for line in candidates[~token[candidates]]
        if len(fields := lines.fields_of(line, columns.tabbed)) == columns.n_annotators + 1
        and known.issuperset(fields[1:])
    ]
    return _table(lines, lines.hold_tokens(candidates, np.array(meant)), where) if meant else columns


class _Lines:
    """The positions of the lines of a text, and the number of fields of each between white space."""

    def __init__(self, text: bytes) -> None:
        self.text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + b"\n"
        self.characters = np.frombuffer(self.text, np.uint8)
        self.end = np.flatnonzero(self.characters == _NEWLINE) + 1
        self.begin = np.concatenate([[0], self.end[:-1]])
        starts, _ = _between_white_space(self.characters)
        first = np.searchsorted(starts, self.begin)
        self.width = np.diff(np.append(first, starts.size))
        #: where the first word of a line begins; its line end if there is none
        self.word = np.append(starts, self.characters.size - 1)[first]
        self.word = np.where(self.width > 0, self.word, self.end - 1)

    def fields_of(self, line: int, tabbed: bool) -> list[str]:
        fields = self.text[self.begin[line] : self.end[line]].split(b"\t" if tabbed else None)
        return [field.strip().decode() for field in fields]

    def begin_with_hash(self) -> Ints:
        """Lines that begin with ``#`` and a space."""
        # a word never begins at the last character, which is a line end
        after = self.characters[np.minimum(self.word + 1, self.characters.size - 1)]
        return np.flatnonzero((self.characters[self.word] == _HASH) & (after == _SPACE))

    def hold_tokens(self, candidates: Ints, meant: Ints) -> Bools:
        """Return which lines hold a token: not blank, not -DOCSTART-, and no candidate where a sequence may begin.

        Candidates that are ``meant`` always hold a token.
        """
        other: Bools = np.equal(self.width, 0)
        dash = np.flatnonzero(self.characters[self.word] == _DOCUMENT[0])
        dash = dash[self.end[dash] - self.word[dash] > _DOCUMENT.size]
        ten = self.characters[self.word[dash, None] + np.arange(_DOCUMENT.size)]
        other[dash[(ten == _DOCUMENT).all(axis=1)]] = True
        for line in np.setdiff1d(candidates, meant):
            other[line] = line == 0 or other[line - 1]
        return ~other

    def only(self, which: Bools) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Characters of some lines."""
        return self.characters[np.repeat(which, self.end - self.begin)]


def _between_white_space(characters: np.ndarray[Any, np.dtype[np.uint8]]) -> tuple[Ints, Ints]:
    changes = np.flatnonzero(np.diff(_WHITE[characters], prepend=True, append=True))
    return changes[::2], changes[1::2]


def _table(lines: _Lines, token: Bools, where: str) -> Columns:
    """Cut the lines that hold tokens into columns."""
    at = np.flatnonzero(token)
    characters = lines.only(token)
    line_ends = np.flatnonzero(characters == _NEWLINE)
    tabs = np.diff(np.searchsorted(np.flatnonzero(characters == _TAB), line_ends), prepend=0)
    lengths = np.diff(np.append(np.flatnonzero(np.diff(at, prepend=-2) > 1), at.size))
    width = lines.width[at]
    if (tabs > 0).all():
        _check_widths(tabs + 1, at, where)
        ends = np.flatnonzero((characters == _TAB) | (characters == _NEWLINE))
        starts = np.concatenate([[0], ends[:-1] + 1])
        columns = _columns(characters, starts, ends, int(tabs[0]) + 1, lengths, tabbed=True)
        spaces_decide = int(width[0]) > int(tabs[0]) + 1 and (width == width[0]).all()
        if not (spaces_decide and any(" " in str(label) for label in columns.labels)):
            return columns
    _check_widths(width, at, where)
    return _columns(characters, *_between_white_space(characters), int(width[0]), lengths, tabbed=False)


def _check_widths(width: Ints, line: Ints, where: str) -> None:
    if width[0] < 2:
        raise FormatError(
            f"{where}, line {line[0] + 1}: one column; expected a word and then a column of labels for each "
            "annotator, separated by white space"
        )
    wrong = np.flatnonzero(width != width[0])
    if wrong.size:
        raise FormatError(
            f"{where}, line {line[wrong[0]] + 1}: {_count(width[wrong[0]])} where line {line[0] + 1} has {width[0]}; "
            f"expected a word and {width[0] - 1} labels. Put {MISSING!r} where a label is missing"
        )


def _count(n: int) -> str:
    return "1 column" if n == 1 else f"{n} columns"


def _columns(
    characters: np.ndarray[Any, np.dtype[np.uint8]],
    starts: Ints,
    ends: Ints,
    width: int,
    lengths: Ints,
    *,
    tabbed: bool,
) -> Columns:
    """Return the columns from the fields between ``starts`` and ``ends``, ``width`` of them for each token."""
    if tabbed:
        inside = np.ones(characters.size, np.bool_)
        inside[ends] = False
    else:
        inside = ~_WHITE[characters]
    offsets = np.concatenate([[0], np.cumsum(ends - starts)])
    small = offsets[-1] < 1 << 31
    kind, offset_kind = (pa.StringArray, np.int32) if small else (pa.LargeStringArray, np.int64)
    fields = kind.from_buffers(starts.size, pa.py_buffer(offsets.astype(offset_kind)), pa.py_buffer(characters[inside]))
    if tabbed:
        import pyarrow.compute as pc

        fields = pc.ascii_trim_whitespace(fields)
    is_word = np.arange(starts.size) % width == 0
    codes, ids = encode(fields.filter(pa.array(~is_word)))
    missing = int(ids.codes_of([MISSING])[0])
    if missing >= 0:
        codes, ids = without_code(codes, ids, missing)
    return Columns(fields.filter(pa.array(is_word)), codes, ids, lengths, tabbed)


def looks_like(text: str) -> bool:
    """Return whether text, in whole lines, is in CoNLL columns and not a table with a header.

    All lines have the same number of columns, and no comma, semicolon or bar that could separate others is in all of
    them.  The labels are BIO tags; or blank lines divide the text and the first line has a label that occurs again,
    which the names of a header do not.
    """
    try:
        columns = parse(text.encode(), "")
    except DataError:
        return False
    told = [line for line in re.split(r"[\r\n]+", text) if line.strip() and not line.startswith(("# ", "-DOCSTART-"))]
    if any(all(mark in line for line in told) for mark in ",;|"):
        return False
    if len(columns.labels) and all(_TAG.match(str(label)) for label in columns.labels):
        return True
    M = columns.n_annotators
    return columns.lengths.size > 1 and bool(np.isin(columns.label[:M], columns.label[M:]).any())
