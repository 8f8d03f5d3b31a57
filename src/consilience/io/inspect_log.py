"""Inspect: the log of an evaluation, as JSON or as an ``.eval`` file (a zip file of JSON).

========== ============================================= ==============================================
question   ``answer``                                     ``score``
========== ============================================= ==============================================
item       ``id`` of the sample                           ``id``, the model, and the epoch if there are several
annotator  ``eval.model``                                 the scorer
label      ``answer`` of the first score that has one     ``value`` of the score
gold       ``target``, if it is one text                  none
========== ============================================= ==============================================
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from consilience.exceptions import FormatError
from consilience.io.documents import most_bytes, parse, up_to
from consilience.io.export import Export
from consilience.io.logs import ANSWER, SCORE, Verdict, objects, place, read_logs
from consilience.io.source import Source

__all__ = ["read", "recognise"]

_HEADER, _SAMPLES = "header.json", "samples/"


def recognise(source: Source) -> str | None:
    """Return why this is such a log, or None."""
    if source.shape == "zip":
        fits = _HEADER in source.members and any(name.startswith(_SAMPLES) for name in source.members)
        return "a zip file with 'header.json' and 'samples'" if fits else None
    document = source.document
    if isinstance(document, dict) and isinstance(document.get("samples"), list):
        run = document.get("eval")
        if isinstance(run, dict) and "task" in run and "model" in run:
            return "an object with 'eval' (a task and a model) and 'samples'"
    return None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read answers or scores."""
    return read_logs(source, question, recognise, _verdicts)


def _verdicts(source: Source) -> Iterator[Verdict]:
    run, samples = _unpacked(source) if source.shape == "zip" else (source.document["eval"], source.document["samples"])
    model, task = str(run.get("model")), str(run.get("task"))
    samples = objects(samples)
    repeated = len({str(sample.get("epoch", 1)) for sample in samples}) > 1
    for sample in samples:
        scores = sample.get("scores")
        scores = scores if isinstance(scores, dict) else {}
        target = sample.get("target")
        target = target[0] if isinstance(target, list) and len(target) == 1 else target
        text = sample.get("input")
        answers = [score.get("answer") for score in scores.values() if isinstance(score, dict)]
        answer = next((said for said in answers if isinstance(said, str) and said.strip()), None)
        name, time = str(sample.get("id")), sample.get("completed_at")
        if scores or sample.get("error"):
            said = None if answer is None else answer.strip()
            gold = target if isinstance(target, str) and target else None
            yield Verdict(ANSWER, name, model, said, task=task, gold=gold, text=text, time=time)
        epoch = f"epoch {sample.get('epoch')}" if repeated else None
        for scorer, score in scores.items():
            value = score.get("value") if isinstance(score, dict) else None
            value = None if isinstance(value, dict | list) else value
            yield Verdict(SCORE, place(name, model, epoch), scorer, value, task=task, text=text, time=time)


def _unpacked(source: Source) -> tuple[dict[str, Any], list[Any]]:
    """Return header and samples of an ``.eval`` file."""
    names = [_HEADER, *sorted(name for name in source.members if name.startswith(_SAMPLES) and name.endswith(".json"))]
    documents, room = [], most_bytes()
    try:
        with zipfile.ZipFile(source.path) as archive:
            for name in names:
                with archive.open(name) as file:
                    content = up_to(file, room + 1)
                room -= len(content)
                if room < 0:
                    raise FormatError(f"{source.name} is too large for memory when it is unpacked")
                documents.append(parse(content, "utf-8", f"{source.name}, {name}"))
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise FormatError(
            f"cannot unpack {source.name} ({error}); convert it first: inspect log convert {source.name} --to json "
            "--output-dir DIR"
        ) from error
    header, *samples = documents
    run = header.get("eval") if isinstance(header, dict) else None
    if not isinstance(run, dict):
        raise FormatError(f"{source.name}: header.json has no 'eval'")
    return run, samples
