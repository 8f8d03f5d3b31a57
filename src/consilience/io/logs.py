"""Logs of evaluations of language models, in one or several files: what a module of a tool returns, and how it is read.

A log has up to two questions that a panel can be asked:

========== ============================================= ==============================================
question   ``answer``: what models say about samples      ``score``: what graders say about their answers
========== ============================================= ==============================================
item       the sample                                     the sample; with the model that answered, if there are several
annotator  the model                                      the grader
gold       the target, if the log has it                  none
========== ============================================= ==============================================

Without a name, the question is the one that has at least two annotators.  A folder, a zip file or a list of files with
the logs of several models over the same samples is one table; other files in it are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from consilience.exceptions import DataError, FormatError
from consilience.io.export import Export, choose, column_of, left_out, time_column
from consilience.io.source import Source, ending_of
from consilience.io.texts import texts_of

__all__ = [
    "ANSWER",
    "SCORE",
    "Verdict",
    "logs_in",
    "numbered_names",
    "objects",
    "passed",
    "place",
    "read_logs",
    "short",
]

ANSWER, SCORE = "answer", "score"
_ENDINGS = (".json", ".jsonl", ".ndjson", ".eval", "")
#: Longest part of a text that is the name of an item.
_LONGEST = 80


class Verdict(NamedTuple):
    """One answer or score."""

    question: str
    item: str
    judge: str
    label: Any  #: None if it could not be read, was refused or failed
    variant: str = ""  #: such as the prompt; part of the annotator's name if a judge has several
    task: str = ""  #: part of the item's name if there are several
    gold: Any = None
    text: str | None = None
    time: Any = None
    system: str = ""  #: whose answer is judged; part of the item's name if there are several


def logs_in(source: Source, recognise: Callable[[Source], str | None]) -> Iterator[Source]:
    """Yield the logs of one format in a file, a folder or a list of files; folders are searched."""
    if source.shape != "folder":
        yield source
        return
    for file in source.files:
        if ending_of(file.path) in _ENDINGS:
            try:
                fits = file.shape in ("records", "object", "zip") and recognise(file) is not None
            except FormatError:  # another file in the folder
                continue
            if fits:
                yield file


def read_logs(
    source: Source,
    question: str | None,
    recognise: Callable[[Source], str | None],
    verdicts: Callable[[Source], Iterable[Verdict]],
) -> Export:
    """Read the verdicts of one question from all logs of a source."""
    logs = list(logs_in(source, recognise))
    if not logs or (source.shape != "folder" and recognise(source) is None):
        raise FormatError(f"{source.name} does not have the fields of such a log")
    found = [verdict for log in logs for verdict in verdicts(log)]
    if not found:
        raise DataError(f"{source.name} has no answers and no scores in it; was the evaluation finished?")
    wanted = choose(_offered(found) if question is None else _questions(found), question, source.name)
    rows = [verdict for verdict in found if verdict.question == wanted]
    failed = np.array([verdict.label is None for verdict in rows], np.bool_)
    what = f"{wanted}s" if wanted in (ANSWER, SCORE) else "verdicts"
    notes = left_out(int(failed.sum()), len(rows), what, "missing, refused or unparsable")
    if source.shape == "folder":
        notes = (*notes, *left_out(len(source.members) - len(logs), len(source.members), "files", "other contents"))
    golds = [verdict.gold for verdict in rows]
    tasks, systems = len({verdict.task for verdict in rows}), len({verdict.system for verdict in rows})
    items = [place(v.task if tasks > 1 else "", v.item, v.system if systems > 1 else "") for v in rows]
    judges, variants = variants_of((verdict.judge, verdict.variant) for verdict in rows)
    return Export(
        column_of(items, "item", source.name),
        column_of(judges, "judge", source.name),
        column_of([verdict.label for verdict in rows], "label", source.name),
        counts=~failed,
        gold=column_of(golds, "gold", source.name) if any(gold is not None for gold in golds) else None,
        names=("item", "judge", wanted),
        notes=notes,
        row="verdict",
        time=time_column(verdict.time for verdict in rows),
        text=texts_of(verdict.text for verdict in rows),
        question=wanted,
        variants=variants or None,
    )


def variants_of(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], dict[str, str]]:
    """Return the annotator of every (judge, variant), and the judge of those that are one of several variants."""
    pairs = list(pairs)
    by_judge: dict[str, set[str]] = {}
    for judge, variant in pairs:
        by_judge.setdefault(judge, set()).add(variant)
    several = {judge for judge, known in by_judge.items() if len(known) > 1}
    names = {pair: place(*pair) if pair[0] in several else pair[0] for pair in dict.fromkeys(pairs)}
    return [names[pair] for pair in pairs], {name: pair[0] for pair, name in names.items() if pair[0] in several}


def _questions(found: list[Verdict]) -> list[str]:
    return list(dict.fromkeys(verdict.question for verdict in found))


def _offered(found: list[Verdict]) -> list[str]:
    """Return the questions with at least two annotators, or all if none has."""
    judges: dict[str, set[str]] = {question: set() for question in _questions(found)}
    for verdict in found:
        judges[verdict.question].add(verdict.judge)
    return [question for question, who in judges.items() if len(who) > 1] or list(judges)


# ---- values -----------------------------------------------------------------------------------------------------


def place(*parts: Any) -> str:
    """Return the name of an item from what identifies it; parts that are missing are left out."""
    return "/".join(str(part) for part in parts if part not in (None, ""))


def objects(values: Any) -> list[dict[str, Any]]:
    """Return the objects of a JSON array; none if it is something else."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def short(text: Any) -> str:
    """Return a text as the name of an item: its beginning, and a digest of what is cut."""
    from hashlib import blake2s

    whole = " ".join(str(text).split())
    if len(whole) <= _LONGEST:
        return whole
    return f"{whole[:_LONGEST]}… {blake2s(whole.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"


def passed(value: Any) -> str | None:
    """Return a verdict of a test as a class."""
    return None if not isinstance(value, bool) else "pass" if value else "fail"


def numbered_names(names: Iterable[str]) -> list[str]:
    """Return names with a number where one repeats: two graders of one kind are two annotators."""
    names = list(names)
    often, seen = Counter(names), {name: count(1) for name in names}
    return [f"{name} {next(seen[name])}" if often[name] > 1 else name for name in names]
