"""Prodigy: JSON Lines, an object for each answered task.

========== ============================================================================================
item       ``_input_hash``, which identifies the input
annotator  ``_annotator_id``, in older versions ``_session_id``
label      of a choice the accepted options; of one ``label`` to be accepted or rejected, the answer
left out   answers ``ignore``; a choice that was rejected
========== ============================================================================================

Tasks about one ``label`` ask whether it applies: accept or reject.  In a file that also has choices, an accepted label
is a choice; a rejected one says only what the item is not, and is left out.  A file about several labels has a
question for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.exceptions import DataError
from consilience.io.export import ALL, Export, choose, column_of, joined, left_out, seconds_column
from consilience.io.source import Source
from consilience.io.texts import text_in, texts_of

__all__ = ["CHOICE", "OF_AN_ANSWER", "question_of", "read", "recognise", "tasks", "values_by_label"]

#: The question of tasks with options.
CHOICE = "accept"
#: Fields that belong to an answer, not to the task.
OF_AN_ANSWER = ("answer", "accept", "_annotator_id", "_session_id", "_timestamp", "_view_id", "_task_hash")


def recognise(source: Source) -> str | None:
    """Return why this is such a file, or None."""
    if source.sample and {"_input_hash", "answer"}.issubset(source.sample[0]):
        return "records with '_input_hash' and 'answer'"
    return None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the answers to one question."""
    items: list[Any] = []
    annotators: list[Any] = []
    answers: list[Any] = []
    chosen: list[Any] = []
    about: list[Any] = []
    times: list[Any] = []
    shown: list[str | None] = []
    spans = False
    for record in source.records():
        items.append(record.get(item or "_input_hash"))
        annotators.append(record.get("_annotator_id") or record.get("_session_id"))
        answers.append(record.get("answer"))
        times.append(record.get("_timestamp"))
        shown.append(text_in(record))
        options, label = _said(record)
        chosen.append(options)
        about.append(label)
        spans = spans or _is_marked(record)
    if spans and not any(told is not None for told in (*chosen, *about)):
        raise DataError(f"{source.name} has spans of text, which are not labels of whole items; use read_sequences")
    wanted = _question(question, chosen, about, answers, source.name)
    labels: list[Any] = []
    ignored, refused, other = (np.zeros(len(items), np.bool_) for _ in range(3))
    for n, (answer, options, label) in enumerate(zip(answers, chosen, about, strict=True)):
        said = None
        if answer not in ("accept", "reject"):
            ignored[n] = True
        elif wanted == CHOICE:
            refused[n] = answer == "reject" or not (options or label)
            said = None if refused[n] else joined(options) if options else label
        else:
            other[n] = label != wanted
            said = None if other[n] else answer
        labels.append(said)
    total = len(items)
    notes = (
        *left_out(int(ignored.sum()), total, "answers", "ignored"),
        *left_out(int(refused.sum()), total, "answers", "rejected, or nothing chosen"),
    )
    return Export(
        column_of(items, "_input_hash", source.name),
        column_of(annotators, "annotator", source.name),
        column_of(labels, "label", source.name),
        counts=~(ignored | refused | other),
        names=("_input_hash" if item is None else item, "_annotator_id", wanted or "answer"),
        notes=notes,
        row="answer",
        time=seconds_column(times),
        text=texts_of(shown),
        question="" if wanted == CHOICE else wanted,
    )


def _said(record: dict[str, Any]) -> tuple[list[Any] | None, str | None]:
    """Return the options that were accepted, if there were any, or the one label that the task is about."""
    accepted, label = record.get("accept"), record.get("label")
    if isinstance(record.get("options"), list) or isinstance(accepted, list):
        return accepted if isinstance(accepted, list) else [], None
    if _is_marked(record) or isinstance(label, list | dict):
        return None, None
    return None, "" if label is None else str(label)


def _is_marked(record: dict[str, Any]) -> bool:
    return record.get("label") is None and isinstance(record.get("spans"), list)


def tasks(source: Source) -> list[dict[str, Any]]:
    """Return the answered tasks; those without options get the options of all others."""
    records = list(source.records())
    listed = [option for record in records if isinstance(record.get("options"), list) for option in record["options"]]
    options = {str(option.get("id")): option for option in listed if isinstance(option, dict)}
    return [record if record.get("options") else {**record, "options": [*options.values()]} for record in records]


def question_of(source: Source, records: list[dict[str, Any]], question: str | None) -> str:
    """Return the question that is meant."""
    # all tasks have options now: those of choices have an "accept"
    said = [_said({**record, "options": None}) for record in records]
    answers = [record.get("answer") for record in records]
    return _question(question, [options for options, _ in said], [label for _, label in said], answers, source.name)


def values_by_label(records: list[dict[str, Any]], question: str) -> dict[Any, Any]:
    """Return how each label is written in an export: the accepted options."""
    if question != CHOICE:
        return {}
    accepted = (record.get("accept") for record in records)
    return {joined(options): options for options in accepted if isinstance(options, list) and options}


def _question(question: str | None, chosen: list[Any], about: list[Any], answers: list[Any], where: str) -> str:
    """Return the question: a choice, or whether a label applies."""
    told = [answer in ("accept", "reject") for answer in answers]
    choices = any(options is not None and ok for options, ok in zip(chosen, told, strict=True))
    labels = sorted({label for label, ok in zip(about, told, strict=True) if label is not None and ok})
    if choices and question is None:
        return CHOICE
    if choices and question == ALL:
        labels = []  # accepted labels are choices
    return choose([CHOICE, *labels] if choices else labels, question, where)
