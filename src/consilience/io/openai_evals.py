"""OpenAI evals: the JSON Lines log of ``oaieval``, a ``spec`` and then an event on each line.

========== ============================================= ==============================================
question   ``answer`` (events ``match``)                  ``score`` (events ``metrics`` with a ``choice``)
========== ============================================= ==============================================
item       ``sample_id``                                  ``sample_id``, with the model if there are several
annotator  the first of ``completion_fns``                the last of ``completion_fns``, which grades
label      ``picked``, or ``sampled``                     ``choice``
gold       ``expected``, if it is one text                none
left out   nothing picked                                 choice ``__invalid__``
========== ============================================= ==============================================

Without options of its own, an evaluation picks the expected answer or nothing; what the model said is then ``sampled``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from consilience.io.export import Export
from consilience.io.logs import ANSWER, SCORE, Verdict, read_logs
from consilience.io.source import Source

__all__ = ["read", "recognise"]

_INVALID = "__invalid__"


def recognise(source: Source) -> str | None:
    """Return why this is such a log, or None."""
    if source.sample and isinstance(spec := source.sample[0].get("spec"), dict) and "completion_fns" in spec:
        return "a line with 'spec' and 'completion_fns', then events"
    return None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read answers or scores."""
    return read_logs(source, question, recognise, _verdicts)


def _verdicts(source: Source) -> Iterator[Verdict]:
    models = ["model"]
    for record in source.records():
        spec, data = record.get("spec"), record.get("data")
        if isinstance(spec, dict):
            given = spec.get("completion_fns")
            models = [str(name) for name in given] if isinstance(given, list) and given else models
        if not isinstance(data, dict):
            continue
        sample, time = str(record.get("sample_id")), record.get("created_at")
        if record.get("type") == "match":
            picked, gold = data.get("picked"), data.get("expected")
            gold = gold[0] if isinstance(gold, list) and len(gold) == 1 else gold
            picked = picked[0] if isinstance(picked, list) and len(picked) == 1 else picked
            if picked in (None, "", []) and _listed(data.get("options")) == _listed(data.get("expected")):
                picked = data.get("sampled")
                picked = picked.strip() if isinstance(picked, str) else None
            yield Verdict(ANSWER, sample, models[0], _plain(picked), gold=_plain(gold), time=time)
        elif record.get("type") == "metrics" and "choice" in data:
            choice = data["choice"]
            label = None if choice == _INVALID else _plain(choice)
            yield Verdict(SCORE, sample, models[-1], label, time=time, system=models[0])


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _plain(value: Any) -> str | None:
    """Return a text; None for lists and what is empty."""
    return None if value is None or value == "" or isinstance(value, list | dict) else str(value)
