"""lm-evaluation-harness: ``samples_TASK_DATE.jsonl``, as written with ``--log_samples``.

========== =========================================================================
question   ``answer``; the filter, if there are several
item       ``doc_id``
annotator  the folder, which has the name of the model
label      ``filtered_resps``; of multiple choice, the likeliest choice: its number, or its text if that is the target
gold       ``target``
========== =========================================================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from consilience.io.export import Export
from consilience.io.logs import ANSWER, Verdict, read_logs
from consilience.io.source import Source, ending_of
from consilience.io.texts import text_in

__all__ = ["read", "recognise"]

_NAME = re.compile(r"samples_(.+?)_\d{4}-\d\d-\d\dT")


def recognise(source: Source) -> str | None:
    """Return why these are such samples, or None."""
    if source.shape in ("records", "object") and source.sample:
        first = source.sample[0]
        if {"doc_id", "target", "filtered_resps"} <= first.keys():
            return "records with 'doc_id', 'target' and 'filtered_resps'"
    return None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the answers."""
    return read_logs(source, question, recognise, _verdicts)


def _verdicts(source: Source) -> Iterator[Verdict]:
    named = _NAME.match(source.name)
    task = named[1] if named else ""
    model = source.path.resolve().parent.name or source.path.name.removesuffix(ending_of(source.path))
    records = list(source.records())
    several = len({str(record.get("filter")) for record in records}) > 1
    for record in records:
        question = str(record.get("filter")) if several else ANSWER
        target = record.get("target")
        gold = str(target).strip() if isinstance(target, str | int | float) else None
        answer = _answer(record.get("filtered_resps"))
        if gold is not None and not gold.lstrip("-").isdigit() and _is_choice(record.get("filtered_resps")):
            answer = _continuation(record.get("arguments"), answer)
        text = text_in(record.get("doc"), described=True)
        yield Verdict(question, str(record.get("doc_id")), model, answer, task=task, gold=gold, text=text)


def _answer(said: Any) -> str | None:
    """Return a text, or the number of the choice with the largest log-likelihood."""
    if isinstance(said, str):
        return said.strip() or None
    if not isinstance(said, list) or not said:
        return None
    if _is_choice(said):
        return str(max(range(len(said)), key=lambda number: float(said[number][0])))
    if _is_likelihood(said):  # of the target alone: no answer
        return None
    return _answer(said[0]) if isinstance(said[0], list) else str(said[0]).strip() or None


def _is_choice(said: Any) -> bool:
    return isinstance(said, list) and len(said) > 1 and all(map(_is_likelihood, said))


def _is_likelihood(said: Any) -> bool:
    """Return whether this is a log-likelihood, and whether the model would have said this text."""
    if not isinstance(said, list) or len(said) != 2 or str(said[1]) not in ("True", "False"):
        return False
    try:
        return not math.isnan(float(said[0]))
    except (TypeError, ValueError):
        return False


def _continuation(arguments: Any, number: str | None) -> str | None:
    """Return the text of a choice, the second argument of its request."""
    try:  # a list of pairs before version 0.4.3
        request = arguments[f"gen_args_{number}"] if isinstance(arguments, dict) else arguments[int(number or 0)]
        return str(request["arg_1"] if isinstance(request, dict) else request[1]).strip() or None
    except (KeyError, IndexError, TypeError):
        return number
