"""Files of a review: final labels in every format of :func:`consilience.write`, decisions as gold, the audit log."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from consilience.exceptions import ParameterError
from consilience.io.formats import EXPORTS, recognise
from consilience.io.writing import WRITABLE, write
from consilience.runs.consensus import Consensus
from consilience.runs.label_table import Choice, without_formulas
from consilience.web.session import Review

__all__ = ["AUDIT", "audit_table", "csv_of", "final", "formats_of", "gold_table", "labels_file"]

AUDIT = ("id", "at", "reviewer", "kind", "item", "answer", "note", "ref", "undone", "seen")
#: Endings of the files, and seconds to wait for a fit where decisions cannot be filled in without.
_ENDINGS = {"csv": "csv", "parquet": "parquet", "excel": "xlsx", "label-studio": "json", "mturk": "csv"}
_PATIENCE = 600.0


def final(review: Review) -> Consensus:
    """Return the consensus with every decision and every accepted label in it."""
    now = review.now
    if now.run is None or now.posterior is None:
        review.live.wait(_PATIENCE)
        now = review.now
    if now.run is None:
        raise ParameterError(review.live.failure or "the first fit is still running; try again in a moment")
    answers = {item: kept.answer for item, kept in review.ledger.accepted.items()} | review.ledger.answers()
    if now.posterior is None:
        if not review.live.current:
            raise ParameterError(review.live.failure or "the fit is still running; try again in a moment")
        return now.run
    places = [(n, review.material.class_code.get(answer, -1)) for item, answer in answers.items()
              if (n := review.material.find(item)) is not None]  # fmt: skip
    run = now.run
    if not places:
        return run
    at, code = np.asarray([place for place in places if place[1] >= 0], np.int64).reshape(-1, 2).T
    posterior, best, second = run.posterior.copy(), run.choice.best.copy(), run.choice.second.copy()
    margin = run.choice.margin.copy()
    # a label that an answer replaces becomes the runner-up
    second[at] = np.where(best[at] != code, best[at], second[at])
    best[at], margin[at] = code, 1.0
    posterior[at] = np.arange(posterior.shape[1]) == code[:, None]
    kept: Any = {"gold_items": int(run.run.get("gold_items") or 0) or int(at.size)}
    return replace(run, posterior=posterior, choice=Choice(best, second, margin), run={**run.run, **kept})


def _tool(review: Review) -> str | None:
    """Return the name of the tool that the labels come from, if there is a file of it."""
    name = recognise(review.source).name if review.source is not None and review.source.exists() else ""
    return name if name in EXPORTS else None


def formats_of(review: Review) -> list[str]:
    """Return the formats that final labels can be written in."""
    tables = ["csv", "parquet", "excel"]
    if review.material.sequences is not None:
        return tables
    if review.now.numbers is not None:
        return [*tables, "label-studio"]
    tool = _tool(review)
    return [name for name in WRITABLE if name != "mturk" or tool == name]


def labels_file(review: Review, name: str) -> tuple[str, bytes]:
    """Return the name and the content of the file of final labels in a format."""
    if name not in formats_of(review):
        raise ParameterError(f"these labels cannot be written as {name!r}, but as {', '.join(formats_of(review))}")
    options: dict[str, Any] = {}
    if name == _tool(review):
        options = {"source": review.source}
        if review.question is not None and name not in ("doccano", "mturk"):
            options["question"] = review.question
    elif name in ("label-studio", "argilla"):  # tasks of their own, with the item as their text
        options = {"from_name": review.material.labels.origin.question or "label", "to_name": "text"}
    with TemporaryDirectory(prefix="consilience-") as folder:
        place = Path(folder, f"labels.{_ENDINGS.get(name, 'jsonl')}")
        write(final(review), place, format=name, **options)
        return place.name, place.read_bytes()


def gold_table(review: Review) -> pa.Table:
    """Return the decisions as known answers, to be given to ``aggregate`` as gold."""
    answers = review.ledger.answers()
    return review.material.answer_table(
        {n: answer for item, answer in answers.items() if (n := review.material.find(item)) is not None}
    )


def audit_table(review: Review) -> pa.Table:
    """Return the audit log: every event, also those that were taken back, and every label that was accepted in bulk."""
    rows: list[tuple[Any, ...]] = []
    for e in review.ledger.events():
        pairs = review.store.accepted(e.id) if e.kind == "accept" else [(e.item, e.answer)]
        undone = e.id in review.ledger.undone
        rows += [(e.id, e.at, e.reviewer, e.kind, *pair, e.note, e.ref, undone, e.seen) for pair in pairs]
    columns = zip(*rows, strict=True) if rows else ((),) * len(AUDIT)
    kinds = {"id": pa.int64(), "ref": pa.int64(), "undone": pa.bool_()}
    return pa.table({n: pa.array(c, kinds.get(n, pa.string())) for n, c in zip(AUDIT, columns, strict=True)})


def csv_of(table: pa.Table, *, spreadsheet: bool = False) -> bytes:
    """Return a table as CSV; for a spreadsheet, text that it would take for a formula gets an apostrophe."""
    buffer = io.BytesIO()
    pyarrow.csv.write_csv(without_formulas(table) if spreadsheet else table, buffer)
    return buffer.getvalue()
