"""Inspect: the log of an evaluation, as JSON or as an ``.eval`` file (a zip file of JSON, since 2026 in zstd).

========== ============================================= ==============================================
question   ``answer``                                     ``score``
========== ============================================= ==============================================
item       ``id`` of the sample                           ``id``, with the epoch and the model if there are several
annotator  ``eval.model``; epochs are its variants        the model that grades, if the log names it, else the scorer
label      ``answer`` of the first score that has one     ``value`` of the score
gold       ``target``, if it is one text                  none
========== ============================================= ==============================================

The model that grades is the argument ``model`` of the scorer, else the role ``grader`` of a model-graded scorer.  An
evaluation that was stopped has no ``header.json``; ``_journal/start.json`` then has the model.
"""

from __future__ import annotations

import re
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

_HEADERS = ("header.json", "_journal/start.json")
#: A sample is one file, or a large one a folder, where this file has everything but messages and events.
_SAMPLE = re.compile(r"samples/.+_epoch_\d+(/sample)?\.json")
#: Compression of a zip file that Python knows from 3.14 on.
_ZSTD = 93


def recognise(source: Source) -> str | None:
    """Return why this is such a log, or None."""
    if source.shape == "zip":
        fits = any(name in source.members for name in _HEADERS) and any(map(_SAMPLE.fullmatch, source.members))
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
    samples, graders = objects(samples), _graders(run)
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
        epoch = f"epoch {sample.get('epoch')}" if repeated else ""
        if scores or sample.get("error"):
            said = None if answer is None else answer.strip()
            gold = target.strip() or None if isinstance(target, str) else None
            yield Verdict(ANSWER, name, model, said, epoch, task=task, gold=gold, text=text, time=time)
        for scorer, score in scores.items():
            value = score.get("value") if isinstance(score, dict) else None
            value = None if isinstance(value, dict | list) or value != value else value  # NaN: not scored
            who, variant = (graders[scorer], scorer) if scorer in graders else (scorer, "")
            yield Verdict(SCORE, place(name, epoch), who, value, variant, task, None, text, time, model)


def _graders(run: dict[str, Any]) -> dict[str, str]:
    """Return the model behind every scorer that names one."""
    roles = run.get("model_roles")
    role = _model(roles.get("grader") if isinstance(roles, dict) else None)
    made: dict[str, str] = {}
    names: list[str] = []
    for scorer in objects(run.get("scorers")):
        # a second scorer of this name has the number 1, a third the number 2
        base, options = str(scorer.get("name")).rpartition("/")[2], scorer.get("options")
        alike = sum(name == base for name in names)
        names.append(base)
        model = _model(options.get("model") if isinstance(options, dict) else None)
        model = model or (role if base.startswith("model_graded") else None)
        if model is not None:
            made[f"{base}{alike or ''}"] = model
    return made


def _model(given: Any) -> str | None:
    """Return the name of a model, from that name or from the model's settings."""
    name = given.get("model") if isinstance(given, dict) else given
    return name if isinstance(name, str) and name else None


def _unpacked(source: Source) -> tuple[dict[str, Any], list[Any]]:
    """Return header and samples of an ``.eval`` file."""
    first = next(name for name in _HEADERS if name in source.members)
    names = [first, *sorted(filter(_SAMPLE.fullmatch, source.members))]
    documents, room = [], most_bytes()
    try:
        with zipfile.ZipFile(source.path) as archive:
            for name in names:
                content = _content(archive, name, room + 1)
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
        raise FormatError(f"{source.name}: {first} has no 'eval'")
    return run, samples


def _content(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Return at most so many bytes of a member of a zip file; zstd is unpacked by pyarrow, in every Python."""
    member = archive.getinfo(name)
    if member.compress_type != _ZSTD:
        with archive.open(member) as file:
            return up_to(file, most)
    import pyarrow as pa

    assert archive.fp is not None
    archive.fp.seek(member.header_offset)
    start = archive.fp.read(30)  # the local header, of which the last four bytes are lengths of name and extra field
    archive.fp.seek(int.from_bytes(start[26:28], "little") + int.from_bytes(start[28:30], "little"), 1)
    packed = archive.fp.read(member.compress_size)
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        content = up_to(stream, most)
    if len(content) < most and zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {name!r}")
    return content
