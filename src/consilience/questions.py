"""All questions of an export at once: a consensus for each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from consilience.api import aggregate
from consilience.exceptions import DataError, MethodError, ParameterError
from consilience.io import read_questions
from consilience.runs.consensus import Consensus
from consilience.runs.numeric_run import NumericRun
from consilience.runs.question_runs import QuestionRuns, folder_names

__all__ = ["aggregate_questions"]


def aggregate_questions(
    path: str | os.PathLike[str],
    method: str = "auto",
    *,
    gold: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    reading: Mapping[str, Any] | None = None,
    **options: Any,
) -> QuestionRuns:
    """Aggregate the answers to every question of an export, each on its own.

    A question with answers that are not labels of whole items (boxes, free text), or with labels that cannot be used,
    is named in the result, and the others go on.

    Parameters
    ----------
    path
        The export of an annotation tool; a file with one question is fine.
    method
        As for :func:`consilience.aggregate`, for every question.
    gold
        Known truths by question, each in a form that :func:`consilience.aggregate` takes.
    checkpoint
        Folder for intermediate results, with a folder for each question inside.
    reading
        Options of :func:`consilience.read` other than ``question``, such as ``annotator``.
    **options
        Others of :func:`consilience.aggregate`.

    Returns
    -------
    QuestionRuns
        A mapping from question to :class:`consilience.Consensus`, with ``unsupported`` and ``failed``.
    """
    found = read_questions(path, **(reading or {}))
    names = [*found.annotations, *found.failed]
    where = Path(path).name
    if unknown := [name for name in gold or {} if name not in names]:
        listed = ", ".join(map(repr, names))
        raise ParameterError(f"{where} has no question {unknown[0]!r}, which gold=… names; its questions are {listed}")
    runs: dict[str, Consensus] = {}
    failed = dict(found.failed)
    folders = folder_names(names)
    for name, labels in found.annotations.items():
        own = None if checkpoint is None else Path(checkpoint) / folders[name]
        try:
            run = aggregate(labels, method, gold=(gold or {}).get(name), checkpoint=own, **options)
            if isinstance(run, NumericRun):
                raise DataError("its answers are numbers; aggregate it by itself, with question=… (--question …)")
            runs[name] = run
        except (DataError, MethodError) as error:
            failed[name] = str(error)
    if not runs:
        sentences = "; ".join(f"{name!r}: {why}" for name, why in failed.items())
        raise DataError(f"{where}: no question can be aggregated; {sentences}")
    return QuestionRuns(runs, where, found.unsupported, failed)
