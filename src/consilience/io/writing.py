"""Writing the labels of a run as a table, or as pre-annotations for Label Studio.

The endings ``.csv``, ``.parquet`` and ``.json`` stand for ``"csv"``, ``"parquet"`` and ``"label-studio"``.  A file is
written completely or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from consilience.exceptions import ParameterError
from consilience.files import atomic_file
from consilience.runs.consensus import Consensus
from consilience.runs.label_table import without_formulas

__all__ = ["WRITABLE", "write"]

#: Formats by name, with the endings that stand for them.
WRITABLE: Mapping[str, tuple[str, ...]] = {
    "csv": (".csv",),
    "parquet": (".parquet", ".pq"),
    "label-studio": (".json",),
}


def write(
    consensus: Consensus,
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
) -> None:
    """Write the labels of a run to a file.

    Parameters
    ----------
    consensus
        The run.
    path
        The file; it is written completely or not at all.
    format
        "csv" or "parquet" for the table :attr:`consilience.Consensus.labels`, "label-studio" for tasks with
        predictions, with the confidence as score.  By default the ending of the file decides.
    source
        For Label Studio: the JSON export that the labels came from, for the data of the tasks and the names of the
        controls.
    question
        The control that the labels belong to, if the source has several.
    from_name, to_name, kind
        For Label Studio without a source: the name of the control, the name of what it labels, and the kind of
        control ("choices" by default).  The data of a task is then its item, under ``to_name``.
    model_version
        The origin of the predictions in Label Studio; by default this library and the method.
    spreadsheet
        For CSV: put an apostrophe before text that a spreadsheet would take for a formula, which is what begins with
        ``=``, ``+``, ``-`` or ``@`` and is not a number.  Such ids can no longer be joined with those of the data.

    Examples
    --------
    >>> import consilience as cs
    >>> cs.write(consensus, "labels.parquet")  # doctest: +SKIP
    >>> cs.write(consensus, "predictions.json", source="export.json")  # doctest: +SKIP
    """
    place = Path(path)
    ending = place.suffix.lower()
    name = format or next((name for name, endings in WRITABLE.items() if ending in endings), None)
    if name is None or name not in WRITABLE:
        what = (
            f"there is no format {name!r} to write" if name else f"{place.name}: the ending {ending!r} names no format"
        )
        raise ParameterError(f"{what}; known are {', '.join(WRITABLE)}")
    controls: dict[str, Any] = {
        "source": source,
        "question": question,
        "from_name": from_name,
        "to_name": to_name,
        "kind": kind,
        "model_version": model_version,
    }
    if spreadsheet and name != "csv":
        raise ParameterError(f"spreadsheet: for the format 'csv' only, not for {name!r}")
    if name == "label-studio" and consensus.run.get("answers") == "numeric":
        raise ParameterError("numbers can be written as 'csv' or 'parquet', not as pre-annotations for Label Studio")
    if name == "label-studio":
        from consilience.io.documents import no_collection
        from consilience.io.predictions import write_predictions

        with no_collection():
            write_predictions(consensus, place, **controls)
        return
    if given := [key for key, value in controls.items() if value is not None]:
        raise ParameterError(f"{', '.join(given)}: for the format 'label-studio' only, not for {name!r}")
    _write_table(consensus, place, name, spreadsheet=spreadsheet)


def _write_table(consensus: Consensus, place: Path, name: str, *, spreadsheet: bool) -> None:
    import narwhals as nw
    import pyarrow.csv
    import pyarrow.parquet

    table: Any = nw.from_native(consensus.labels, eager_only=True).to_arrow()
    with atomic_file(place) as temporary:
        if name == "csv":
            table = without_formulas(table) if spreadsheet else table
            pyarrow.csv.write_csv(table, temporary)
        else:
            pyarrow.parquet.write_table(table, temporary)
