"""SageMaker Ground Truth: an output manifest, an object on each line, with the answers of all workers.

========== ============================================================================================
item       ``source-ref`` or ``source``
annotator  ``workerId``
label      one field of ``annotationData``, in the ``annotationsFromAllWorkers`` of one labelling job
left out   the label that Ground Truth computed from the answers; personal data of the workers
========== ============================================================================================
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from consilience.exceptions import DataError
from consilience.io import answers
from consilience.io.export import Export, choose, column_of, columns_of
from consilience.io.source import Source

__all__ = ["read", "recognise"]

_ALL, _METADATA, _SOURCES = "annotationsFromAllWorkers", "-metadata", ("source-ref", "source")


def recognise(source: Source) -> str | None:
    """Return why this is such a manifest, or None."""
    first = source.sample[0] if source.sample else {}
    if any(name in first for name in _SOURCES) and any(name.endswith(_METADATA) for name in first):
        return "records with 'source-ref' or 'source', and '…-metadata'"
    return None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the answers to one question."""
    given = _answers(source, item)
    if not given:
        raise DataError(
            f"{source.name} has no {_ALL!r}, only the label that Ground Truth computed from them. The answers of the "
            "workers are beside it in annotations/worker-response; let the job's post-processing keep them"
        )
    found: dict[str, tuple[str, pa.Array]] = {}
    for job, rows in given.items():
        texts = column_of([text if isinstance(text, str) else None for _, _, text in rows], "content", source.name)
        for name, column in answers.with_options_joined(answers.from_json(texts, source.name)).items():
            found[f"{job}/{name}" if len(given) > 1 else name] = (job, column)
    wanted = choose(list(found), question, source.name)
    job, labels = found[wanted]
    items, workers = columns_of(given[job], ("source", "workerId"), source.name)
    return Export(
        items,
        workers,
        labels,
        names=(item or "source-ref", "workerId", wanted),
        row="answer",
        question=wanted,
    )


def _answers(source: Source, item: str | None) -> dict[str, list[tuple[Any, Any, Any]]]:
    """Return the answers of the workers in each job: item, worker, content."""
    given: dict[str, list[tuple[Any, Any, Any]]] = {}
    for record in source.records():
        place = record.get(item) if item else next((record[name] for name in _SOURCES if name in record), None)
        for job, value in record.items():
            everybody = value.get(_ALL) if isinstance(value, dict) else None
            for one in everybody if isinstance(everybody, list) else ():
                data = one.get("annotationData") if isinstance(one, dict) else None
                if isinstance(data, dict):
                    given.setdefault(job, []).append((place, one.get("workerId"), data.get("content")))
    return given
