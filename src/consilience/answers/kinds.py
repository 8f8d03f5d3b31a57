"""What answers mean: classes that all items share, or options that differ from item to item.

A label is nominal if it means the same for every item: then annotators have confusion matrices.  It is open if it only
has a meaning within its item: options of a multiple-choice question, free text.  Names cannot show which it is, and
letters A to D could be either, so ``"auto"`` takes answers as open only where confusion matrices make no sense: there
are many different answers, a K × K table has several times as many cells as there are different answers to all items
together, and annotators agree now and then (where nobody ever agrees, the column may be the wrong one).
"""

from __future__ import annotations

import os
from typing import Any, Literal, NamedTuple, get_args

from consilience.data.annotations import Annotations
from consilience.engine.place import holds_parquet
from consilience.exceptions import ParameterError
from consilience.io.coercion import as_annotations
from consilience.kernels.open_answers import candidates_of
from consilience.validation import one_of

__all__ = ["Kind", "Taken", "examine_answers", "take_answers"]

Kind = Literal["nominal", "open"]
OPEN_METHOD = "open-answers"

#: Least number of different answers that can be open, how many cells of a K × K table there are at least for each
#: different answer to an item, and the least share of labels that repeat an answer of another annotator to the item.
#: origin: by design, so that no public set of classes is taken for open; alternatives: none; sensitivity: with 1,200
#: answers to 1,300 items by 44 annotators, a table has 15 or more cells for each.
_MANY, _CELLS, _REPEATED = 50, 4, 0.05


class Taken(NamedTuple):
    """What the answers were taken for."""

    kind: Kind
    reason: str = ""  #: why, if it was decided from the labels


def examine_answers(annotations: Annotations) -> Taken:
    """Decide from the labels what they mean."""
    a = annotations
    K = int(a.used_classes.sum())
    if K < _MANY:
        return Taken("nominal")
    pairs = candidates_of(a.indptr, a.label, None, a.n_classes).answer.size
    if _CELLS * pairs > K * K or a.n_labels - pairs < _REPEATED * a.n_labels:
        return Taken("nominal")
    return Taken(
        "open",
        f"there are {K} different answers, each to {pairs / K:.1f} items on average: options are taken to differ from "
        "item to item (answers='open'). If the answers are classes that all items share, say answers='nominal'",
    )


def take_answers(
    data: Any, answers: str, method: str, *, engine: Any = "local", reading: Any = None
) -> tuple[Any, Taken]:
    """Return the data, read if need be, and what its answers are to be taken for.

    Parameters
    ----------
    data
        Labels of independent items, in any form that :func:`consilience.aggregate` takes.
    answers
        "auto" or a kind.
    method
        The method that was asked for; methods other than "auto" and "open-answers" are for classes.
    engine, reading
        As for :func:`consilience.aggregate`.  Labels that are streamed are taken as nominal.
    """
    one_of("answers", answers, ("auto", *get_args(Kind)))
    is_path = isinstance(data, str | os.PathLike)
    streamed = engine == "stream" or (holds_parquet(data) if is_path else _is_scanned(data))
    if method == OPEN_METHOD and answers == "auto":
        answers = "open"
    if answers == "open":
        if method not in ("auto", OPEN_METHOD):
            raise ParameterError(f"answers='open' is for the method 'auto' or {OPEN_METHOD!r}, not {method!r}")
        if streamed or engine != "local":
            raise ParameterError("answers='open' needs all labels in memory, on the engine 'local'")
    elif answers == "nominal" or method != "auto" or streamed:
        return data, Taken("nominal")
    annotations = as_annotations(data, **((reading or {}) if is_path else {}))
    return annotations, Taken("open") if answers == "open" else examine_answers(annotations)


def _is_scanned(data: Any) -> bool:
    if isinstance(data, Annotations):
        return False
    from consilience.engine.scanned import Scanned

    return isinstance(data, Scanned)
