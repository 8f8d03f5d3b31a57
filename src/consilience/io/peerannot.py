"""peerannot: ``answers.json``, an object of tasks, each an object of workers and their labels.

``{"0": {"w1": 2, "w2": 2}, "1": {"w1": 0}}``
"""

from __future__ import annotations

from itertools import chain

import numpy as np

from consilience.data.ids import Ids
from consilience.exceptions import FormatError
from consilience.io.export import Export, column_of, numbered, refuse_question
from consilience.io.source import Source

__all__ = ["read", "recognise"]


def recognise(source: Source) -> str | None:
    """Return why this is such a file, or None."""
    if not source.document:
        return None
    entries = list(source.document.values())[:50]
    plain = all(
        isinstance(entry, dict) and not any(isinstance(label, list | dict) for label in entry.values())
        for entry in entries
    )
    return "a JSON object of tasks, each an object of workers and labels" if plain and any(entries) else None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read all labels."""
    refuse_question(question, source.name, "a file of peerannot")
    tasks = source.document if isinstance(source.document, dict) else {}
    if wrong := next((key for key, given in tasks.items() if not isinstance(given, dict)), None):
        raise FormatError(f"{source.name}: task {wrong!r} has no object of workers and labels")
    _, items = numbered(list(tasks), source.name)
    if len(items) != len(tasks):
        raise FormatError(f"{source.name} has a task without a name")
    lengths = np.fromiter(map(len, tasks.values()), np.int64, len(tasks))
    codes, workers = numbered(list(chain.from_iterable(tasks.values())), source.name)
    labels = list(chain.from_iterable(given.values() for given in tasks.values()))
    return Export(
        (np.repeat(np.arange(len(tasks), dtype=np.int32), lengths), Ids(items.to_arrow())),
        (codes, workers),
        column_of(labels, "label", source.name),
        names=("task", "worker", "label"),
        row="answer",
    )
