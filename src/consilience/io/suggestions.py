"""Predictions for Argilla, doccano and Prodigy: the records of an export with the consensus, ready to be imported.

========== ================================================================== =====================================
tool       a record                                                           imported with
========== ================================================================== =====================================
Argilla    ``"suggestions": {question: {"value", "score", "agent"}}``         ``dataset.records.from_json(path)``
doccano    ``"text"``, ``"label": [label]``; ``id`` and ``confidence`` are    Import dataset, JSONL, column ``label``
           kept as metadata
Prodigy    ``"options"``, ``"accept": [label]``; of a label that applies or   a stream of the interface ``choice``,
           not, the ``"answer"``; ``"meta": {"score", "source"}``             or ``prodigy db-in``
========== ================================================================== =====================================

A record of Argilla without fields, as from a flat export, updates the one that has its id.  An item without a label
has no suggestion.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from consilience.exceptions import FormatError, ParameterError
from consilience.files import atomic_file
from consilience.io import argilla, doccano, prodigy
from consilience.io.formats import recognise
from consilience.io.predictions import labels_of, matched, version_of
from consilience.io.source import Source
from consilience.runs.consensus import Consensus
from consilience.runs.open_run import OpenRun

__all__ = ["write_suggestions"]

Record = dict[str, Any]

_NOT_IN_AGENTS = re.compile(r"[^a-zA-Z0-9\-_:./ ]")


class _Tool(NamedTuple):
    """What a module knows of its export, and how a record with a prediction looks."""

    title: str
    records: Callable[[Source], Iterable[Record]]
    question: Callable[[Source, list[Record], str | None], str]  #: the question that the labels answer
    values: Callable[[list[Record], str], dict[Any, Any]]  #: how each label is written in the export
    item: str  #: the field that identifies an item, unless the run was read with another
    #: Returns a record with its prediction, or None to leave it out: record, question, value, score, version.
    write: Callable[[Record, str, Any, float, str], Record | None]


def write_suggestions(
    consensus: Consensus,
    path: Path,
    tool: str,
    *,
    source: str | os.PathLike[str] | None,
    question: str | None = None,
    from_name: str | None = None,
    to_name: str | None = None,
    model_version: str | None = None,
) -> None:
    """Write records with predictions; the parameters are those of :func:`consilience.write`."""
    form, labels = _TOOLS[tool], labels_of(consensus)
    known: Mapping[Any, Any] = {}
    if source is not None:
        found = recognise(source)
        if found.name != tool:
            raise FormatError(f"{found.source.name} is no export of {form.title}: it looks like {found}")
        records = list(form.records(found.source))
        asked = form.question(found.source, records, question)
        known = form.values(records, asked)
        own = consensus.origin.item
        place = own if any(own in record for record in records[:100]) else form.item
        rows = matched(consensus, records, [record.get(place) for record in records], f"records of {found.source.name}")
    else:
        if tool == "argilla" and from_name is None:
            raise ParameterError(
                "to write suggestions for Argilla, name the export that the labels came from with source=… "
                "(--source …), or the question with from_name=… (--from-name …)"
            )
        asked = from_name or question or prodigy.CHOICE
        items = consensus.item_ids.to_arrow().to_pylist()
        key = to_name or "text"
        rows = [(code, _fresh(tool, item, key, consensus)) for code, item in enumerate(items)]
    version = model_version or version_of(consensus)
    written = []
    for code, record in rows:
        label, score = labels[code]
        if (made := form.write(record, asked, known.get(label, label), score, version)) is not None:
            written.append(made)
    as_lines = tool != "argilla" and path.suffix.lower() != ".json"
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        texts = (json.dumps(record, ensure_ascii=False, default=str) for record in written)
        file.write("".join(f"{text}\n" for text in texts) if as_lines else f"[{', '.join(texts)}]\n")


def _fresh(tool: str, item: Any, key: str, consensus: Consensus) -> Record:
    """Return the record of an item that no export describes."""
    if tool == "argilla":
        return {"id": item, "fields": {key: str(item)}}
    if tool == "doccano":
        return {"id": item, "text": str(item)}
    if isinstance(consensus, OpenRun):  # options differ from item to item
        return {key: str(item)}
    return {key: str(item), "options": _options(map(str, consensus.model.classes))}


def _options(names: Iterable[str]) -> list[dict[str, str]]:
    return [{"id": name, "text": name} for name in names]


def _for_argilla(record: Record, question: str, value: Any, score: float, version: str) -> Record:
    kept = {name: record.get(name) or {} for name in ("fields", "metadata", "suggestions")}
    if value is not None:
        # the server takes as many scores as values, and only some characters in the name of the agent
        scores = [score] * len(value) if isinstance(value, list) else score
        agent = _NOT_IN_AGENTS.sub("-", version)[:200]
        kept["suggestions"] = {**kept["suggestions"], question: {"value": value, "score": scores, "agent": agent}}
    return {"id": str(record["id"]), **kept, "responses": {}, "vectors": {}}


def _for_doccano(record: Record, question: str, value: Any, score: float, version: str) -> Record:
    shown = {name: given for name, given in record.items() if name not in ("label", "annotations", "data", "text")}
    names = [] if value is None else value if isinstance(value, list) else [value]
    text = record["text"] if "text" in record else record.get("data")
    return {**shown, "text": text, "label": [str(name) for name in names], "confidence": score}


def _for_prodigy(record: Record, question: str, value: Any, score: float, version: str) -> Record | None:
    task = {name: given for name, given in record.items() if name not in prodigy.OF_AN_ANSWER}
    task["meta"] = {**(task.get("meta") or {}), "score": score, "source": version}
    if question != prodigy.CHOICE:
        task.pop("options", None)
        # without an answer, db-in would take the label as accepted
        return None if value is None else {**task, "label": question, "answer": value}
    task.pop("label", None)
    names = [] if value is None else [str(name) for name in (value if isinstance(value, list) else [value])]
    return {**task, "options": task.get("options") or _options(names), "accept": names}


_TOOLS: Mapping[str, _Tool] = {
    "argilla": _Tool("Argilla", Source.records, argilla.question_of, argilla.values_by_label, "id", _for_argilla),
    "doccano": _Tool("doccano", doccano.documents, doccano.question_of, doccano.values_by_label, "id", _for_doccano),
    "prodigy": _Tool(
        "Prodigy", prodigy.tasks, prodigy.question_of, prodigy.values_by_label, "_input_hash", _for_prodigy
    ),
}
