"""Mechanical Turk: the results of a batch with decisions, to be uploaded for approval.

The file is the one that was downloaded, with an ``X`` in the column ``Approve`` or a reason in ``Reject``.  Only
assignments that wait for a decision get one, and nobody is rejected unless asked for:

==================================== ==================================================================
annotator                            assignment
==================================== ==================================================================
not flagged                          approved
spammer or adversary                 left open; with ``reject`` rejected, with the reason
copies others                        left open, as it cannot be seen who copied from whom
not in the run                       left open
==================================== ==================================================================
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from io import StringIO
from pathlib import Path

from consilience.exceptions import ColumnError, DataError, DataWarning, FormatError, ParameterError, warn
from consilience.files import atomic_file
from consilience.io.documents import read_text
from consilience.runs.consensus import Consensus

__all__ = ["write_review"]

_COLUMNS = ("WorkerId", "AssignmentStatus")
_APPROVE, _REJECT = "Approve", "Reject"
#: What a rejected annotator is told, by flag.
_REASONS = {
    "spammer": "Your answers agree with those of the other workers no more often than random answers would.",
    "adversary": "Most of your answers contradict those on which the other workers agree.",
}
_MOST_NAMED = 10


def write_review(
    consensus: Consensus, path: Path, *, source: str | os.PathLike[str] | None, reject: bool = False
) -> None:
    """Write the results of a batch with decisions; the parameters are those of :func:`consilience.write`."""
    if source is None:
        raise ParameterError("to approve assignments, name the results of the batch with source=… (--source …)")
    if reject and consensus.verdict == "not":
        raise DataError("the labels do not show who is right, so nobody can be rejected; approve or decide by hand")
    place = Path(source)
    header, rows = _results(place)
    worker, status = (header.index(name) for name in _COLUMNS)
    header += [name for name in (_APPROVE, _REJECT) if name not in header]
    approve, refuse = header.index(_APPROVE), header.index(_REJECT)
    flags = _flags(consensus)
    known = {str(name) for name in consensus.model.annotators}
    left_open: dict[str, int] = {}
    for row in rows:
        row += [""] * (len(header) - len(row))
        who = row[worker].strip()
        if row[status].strip().lower() != "submitted" or row[approve].strip() or row[refuse].strip():
            continue
        flag = flags.get(who)
        if reject and flag in _REASONS:
            row[refuse] = _REASONS[flag]
        elif flag is not None or who not in known:
            left_open[who] = left_open.get(who, 0) + 1
        else:
            row[approve] = "X"
    if left_open:
        warn(_note(left_open, flags), DataWarning)
    text = StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([header, *rows])
    with atomic_file(path) as temporary:
        temporary.write_text(text.getvalue(), "utf-8", newline="")


def _results(place: Path) -> tuple[list[str], list[list[str]]]:
    """Read the results of a batch, every cell as it is."""
    if not place.is_file():
        raise FormatError(f"there is no file {place}")
    try:
        header, *rows = csv.reader(StringIO(read_text(place, "utf-8", place.name), newline=""), strict=True)
    except (csv.Error, ValueError) as error:
        raise FormatError(f"{place.name} cannot be read as results of Mechanical Turk: {error}") from error
    if missing := [name for name in _COLUMNS if name not in header]:
        raise ColumnError(f"{place.name} has no column {missing[0]!r}, which results of Mechanical Turk have")
    if any(len(row) > len(header) for row in rows):
        raise FormatError(f"{place.name} has rows with more fields than its header; put values with commas in quotes")
    return header, [row for row in rows if row]


def _flags(consensus: Consensus) -> dict[str, str]:
    """Return the serious flag of every annotator who has one."""
    names, said = consensus.model.annotators, consensus.annotator_columns["flags"].to_pylist()
    found = {str(names[m]): "copies" for group in consensus.health.copies for m in group}
    # these are the first flags; others have names of classes in them
    first = {str(name): flags.split(";")[0] for name, flags in zip(names, said, strict=True)}
    return found | {name: flag for name, flag in first.items() if flag in _REASONS}


def _note(left_open: dict[str, int], flags: dict[str, str]) -> str:
    names = sorted(left_open, key=lambda who: (who not in flags, -left_open[who], who))
    listed = [f"{who} ({flags.get(who, 'not in the run')})" for who in names[:_MOST_NAMED]]
    listed += [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return (
        f"{sum(left_open.values())} assignments are left open, of {_joined(listed)}. Decide yourself; reject=True "
        "(--reject-flagged) rejects the work of spammers and adversaries, with a reason"
    )


def _joined(parts: Iterable[str]) -> str:
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last
