"""Writing the labels of a run as a table, as predictions for an annotation tool, or as decisions on paid work.

A file is written completely or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from consilience.exceptions import ParameterError, did_you_mean
from consilience.files import atomic_file
from consilience.runs.consensus import Consensus
from consilience.runs.label_table import without_formulas

__all__ = ["WRITABLE", "write"]

#: Formats by name, with the endings that stand for them.
WRITABLE: Mapping[str, tuple[str, ...]] = {
    "csv": (".csv",),
    "parquet": (".parquet", ".pq"),
    "excel": (".xlsx",),
    "label-studio": (".json",),
    "argilla": (),
    "doccano": (),
    "prodigy": (),
    "mturk": (),
}

#: The options that each format takes.
_OPTIONS: Mapping[str, frozenset[str]] = {
    "csv": frozenset({"spreadsheet"}),
    "parquet": frozenset(),
    "excel": frozenset(),
    "label-studio": frozenset({"source", "question", "from_name", "to_name", "kind", "model_version"}),
    "argilla": frozenset({"source", "question", "from_name", "to_name", "model_version"}),
    "doccano": frozenset({"source"}),
    "prodigy": frozenset({"source", "question", "from_name", "to_name", "model_version"}),
    "mturk": frozenset({"source", "reject"}),
}


class Scored(Protocol):
    """A ranking: :class:`consilience.Ranking`."""

    @property
    def scores(self) -> Any:
        """Frame with a row for each item."""


def write(
    consensus: Consensus | Scored,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - as in read
    source: str | os.PathLike[str] | None = None,
    question: str | None = None,
    from_name: str | None = None,
    to_name: str | None = None,
    kind: str | None = None,
    model_version: str | None = None,
    spreadsheet: bool = False,
    reject: bool = False,
) -> None:
    """Write the labels of a run to a file.

    Parameters
    ----------
    consensus
        The run, or a ranking.
    path
        The file; it is written completely or not at all.
    format
        "csv", "parquet" or "excel" for the table :attr:`consilience.Consensus.labels`, or the scores of a ranking;
        "label-studio", "argilla", "doccano" or "prodigy" for tasks with predictions, with the confidence as score;
        "mturk" for the results of a batch with the columns Approve and Reject filled in.  By default the ending of the
        file decides, or the tool that the source comes from.
    source
        For tools: the export that the labels came from, for the data of the tasks and the names of the controls.
        Needed for "mturk".
    question
        The control or question that the labels belong to, if the source has several.
    from_name, to_name, kind
        Without a source: the name of the control (Argilla: the question; Prodigy: the label that applies or not), the
        name of what it labels, and for Label Studio the kind of control ("choices" by default).  The data of a task is
        then its item, under ``to_name``.
    model_version
        The origin of the predictions; by default this library and the method.
    spreadsheet
        For CSV: put an apostrophe before text that a spreadsheet would take for a formula, which is what begins with
        ``=``, ``+``, ``-`` or ``@`` and is not a number.  Such ids can no longer be joined with those of the data.
    reject
        For "mturk": reject the work of spammers and adversaries, with a reason, instead of leaving it open.

    Examples
    --------
    >>> import consilience as cs
    >>> cs.write(consensus, "labels.parquet")  # doctest: +SKIP
    >>> cs.write(consensus, "predictions.json", source="export.json")  # doctest: +SKIP
    """
    place = Path(path)
    name = _format(place, format, source)
    given = {
        "source": source,
        "question": question,
        "from_name": from_name,
        "to_name": to_name,
        "kind": kind,
        "model_version": model_version,
        "spreadsheet": spreadsheet or None,
        "reject": reject or None,
    }
    options: dict[str, Any] = {key: given[key] for key in given if key in _OPTIONS[name]}
    if foreign := [key for key, value in given.items() if value is not None and key not in options]:
        takers = [other for other, taken in _OPTIONS.items() if taken.issuperset(foreign)]
        raise ParameterError(f"{', '.join(foreign)}: for {_listed(takers)} only, not for the format {name!r}")
    if name in ("csv", "parquet", "excel"):
        frame = consensus.labels if isinstance(consensus, Consensus) else consensus.scores
        _write_table(frame, place, name, spreadsheet=spreadsheet)
    elif not isinstance(consensus, Consensus):
        raise ParameterError(f"a ranking can be written as 'csv', 'parquet' or 'excel', not as {name!r}")
    elif consensus.run.get("answers") == "numeric" and name != "label-studio":
        raise ParameterError(f"numbers can be written as 'csv', 'parquet', 'excel' or 'label-studio', not as {name!r}")
    elif name == "mturk":
        from consilience.io.mturk_review import write_review

        write_review(consensus, place, source=source, reject=reject)
    else:
        from consilience.io.documents import no_collection

        with no_collection():
            if name == "label-studio":
                from consilience.io.predictions import write_predictions

                write_predictions(consensus, place, **options)
            else:
                from consilience.io.suggestions import write_suggestions

                write_suggestions(consensus, place, name, **options)


def _format(place: Path, given: str | None, source: str | os.PathLike[str] | None) -> str:
    """Return the format: the one given, that of the tool that the source comes from, or by the ending."""
    ending = place.suffix.lower()
    if given is not None:
        if given not in WRITABLE:
            hint = did_you_mean(given, WRITABLE, f"The formats are {', '.join(WRITABLE)}")
            raise ParameterError(f"there is no format {given!r} to write{hint}")
        return given
    if source is not None and Path(source).exists() and ending in (".json", ".jsonl", ".csv"):
        from consilience.io.formats import recognise

        tool = recognise(source).name
        if tool in WRITABLE and WRITABLE[tool] in ((), (ending,)) and (tool == "mturk") == (ending == ".csv"):
            return tool
    name = next((name for name, endings in WRITABLE.items() if ending in endings), None)
    if name is None:
        raise ParameterError(
            f"{place.name}: the ending {ending!r} names no format; say which with format=… (--format …): "
            f"{', '.join(WRITABLE)}"
        )
    return name


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names)) or "different formats"


def _write_table(frame: Any, place: Path, name: str, *, spreadsheet: bool) -> None:
    import narwhals as nw
    import pyarrow.csv
    import pyarrow.parquet

    table: Any = nw.from_native(frame, eager_only=True).to_arrow()
    if name == "excel":
        from consilience.io.excel import write

        write(table, place)
        return
    with atomic_file(place) as temporary:
        if name == "csv":
            table = without_formulas(table) if spreadsheet else table
            pyarrow.csv.write_csv(table, temporary)
        else:
            pyarrow.parquet.write_table(table, temporary)
