"""What answers mean: classes, levels of a scale, sets of options, numbers, or options that differ between items.

A label is nominal if it means the same for every item: then annotators have confusion matrices.  It is open if it only
has a meaning within its item: options of a multiple-choice question, free text.  It is numeric if a mean of it makes
sense; :mod:`consilience.answers.numeric.kind` has the rule.  ``"auto"`` takes answers as open in two cases only:

* *Free text.*  Confusion matrices make no sense: there are many different answers, a K × K table has several times as
  many cells as there are different answers to all items together, and annotators agree now and then (where nobody ever
  agrees, the column may be the wrong one).
* *Letters of options.*  The labels are the letters A, B, C, …, and no letter differs from another: annotators agree
  equally often on each, and where they differ, any two letters go together as often as their frequencies suggest.

Levels of a scale are classes in an order; :mod:`consilience.answers.ordinal_detection` finds them.

Labels such as ``food|travel`` name several options, if different labels combine the same options
(:mod:`consilience.data.option_sets`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

import numpy as np

from consilience.answers.numeric.kind import as_numbers, looks_numeric, numbers_in_matrix
from consilience.answers.ordinal_detection import looks_like_scale
from consilience.data.annotations import Annotations
from consilience.data.frames import is_frame
from consilience.data.ids import is_text
from consilience.data.option_sets import looks_like_sets
from consilience.data.scales import numbers_of
from consilience.data.set_labels import quiet_about_blanks, warn_of_blanks
from consilience.data.written import numbers_with_units, without_no_answers
from consilience.engine.place import fits, holds_parquet, on_disk
from consilience.exceptions import DataError, DataWarning, MethodError, ParameterError, warn
from consilience.io.coercion import as_annotations
from consilience.kernels.open_answers import candidates_of
from consilience.memory import room
from consilience.moments.label_pairs import item_pairs
from consilience.validation import one_of

if TYPE_CHECKING:
    from consilience.engine.scanned import Scanned

__all__ = [
    "KERNEL_METHOD",
    "MULTI_METHOD",
    "NUMERIC_METHOD",
    "OPEN_METHOD",
    "ORDINAL_METHOD",
    "Kind",
    "Taken",
    "examine_answers",
    "require_classes",
    "take_answers",
]

Kind = Literal["nominal", "ordinal", "multi", "open", "numeric"]
OPEN_METHOD, ORDINAL_METHOD, MULTI_METHOD, NUMERIC_METHOD = "open-answers", "ordinal", "multi", "numeric"
KERNEL_METHOD = "kernel-density"
#: The methods of each kind that has only its own beside "auto".
_METHOD = {"open": (OPEN_METHOD,), "multi": (MULTI_METHOD,), "numeric": (NUMERIC_METHOD, KERNEL_METHOD)}

#: What a file calls answers whose kind it states.
_STATED = {"ordinal": "ratings", "numeric": "numbers"}

#: Least number of different answers that can be open, how many cells of a K × K table there are at least for each
#: different answer to an item, and the least share of labels that repeat an answer of another annotator to the item.
#: origin: by design, so that no public set of classes is taken for open; alternatives: none; sensitivity: with 1,200
#: answers to 1,300 items by 44 annotators, a table has 15 or more cells for each.
_MANY, _CELLS, _REPEATED = 50, 4, 0.05


#: Letters of options: fewest letters and pairs of different answers; greatest standard deviation, between letters, of
#: the share of pairs that agree, and greatest distance (total variation) of pairs that differ from independence.
#: origin: llm_mmlu_pro has 0.017 and 0.030; of ten public sets with four or more classes, none is below 0.12 in the
#: first and 0.07 in the second at once; alternatives: none; sensitivity: none between these.
_LETTERS, _DIFFERENT, _AGREE_SPREAD, _DISTANCE = 4, 2000, 0.05, 0.06
#: Pairs of labels that are looked at; of labels on disk, labels.
_PAIRS = 400_000
#: Memory for a label whose answers have no classes.
_BYTES = 64


class Taken(NamedTuple):
    """What the answers were taken for."""

    kind: Kind
    reason: str = ""  #: why, if it was decided from the labels
    hint: str = ""  #: what else they may be


def examine_answers(annotations: Annotations) -> Taken:
    """Decide from the labels what they mean."""
    a = annotations
    if a.origin.answers in _STATED and a.n_classes > 2 and numbers_of(a.class_ids) is not None:
        kind = cast("Kind", a.origin.answers)
        return Taken(
            kind,
            f"the file calls the answers {_STATED[kind]} (answers={kind!r}); use answers='nominal' to treat them as "
            "names",
        )
    if looks_like_sets(a):
        return Taken(
            "multi",
            "labels name several options, joined by '|': each option is a question of its own, and an answer without a "
            "label ticks none (answers='multi'). If they are classes, say answers='nominal'",
        )
    K = int(a.used_classes.sum())
    if _are_letters(a) and _interchangeable(a):
        return Taken(
            "open",
            f"no letter from A to {a.classes[-1]} differs from another: they are taken for options that differ from "
            "item to item (answers='open'). If they are classes that all items share, say answers='nominal'",
        )
    if reason := looks_numeric(a):
        return Taken("numeric", reason)
    looks = looks_like_scale(a)
    if looks.scale:
        return Taken("ordinal", looks.reason)
    if K < _MANY:
        return Taken("nominal", hint=looks.hint)
    pairs = candidates_of(a.indptr, a.label, None, a.n_classes).answer.size
    if _CELLS * pairs > K * K or a.n_labels - pairs < _REPEATED * a.n_labels:
        return Taken("nominal")
    return Taken(
        "open",
        f"there are {K} different answers, each to {pairs / K:.1f} items on average: options are taken to differ from "
        "item to item (answers='open'). If the answers are classes that all items share, say answers='nominal'",
    )


def _are_letters(annotations: Annotations) -> bool:
    names = [str(name).upper() for name in annotations.classes[: len(ascii_uppercase) + 1]]
    return len(names) >= _LETTERS and names == list(ascii_uppercase[: len(names)])


def _interchangeable(annotations: Annotations) -> bool:
    """Whether no class differs from another in how often annotators agree on it, and in what it is confused with."""
    K = annotations.n_classes
    found = item_pairs(annotations, _PAIRS)
    cell = found.label[found.first] * K + found.label[found.second]
    pairs = np.bincount(cell, minlength=K * K).reshape(K, K).astype(float)
    pairs += pairs.T
    agree = np.diag(pairs) / np.maximum(pairs.sum(axis=1), 1.0)
    np.fill_diagonal(pairs, 0.0)
    if pairs.sum() < 2 * _DIFFERENT or agree.std() > _AGREE_SPREAD:
        return False
    # quasi-independence: pairs of i and j, i ≠ j, in proportion to r_i r_j
    r = pairs.sum(axis=1)
    for _ in range(100):
        r = np.sqrt(r * pairs.sum(axis=1) / np.maximum(r.sum() - r, 1e-300))
    expected = np.outer(r, r)
    np.fill_diagonal(expected, 0.0)
    expected *= pairs.sum() / expected.sum()
    return bool(0.5 * np.abs(pairs - expected).sum() / pairs.sum() <= _DISTANCE)


def take_answers(
    data: Any,
    answers: str,
    method: str,
    *,
    engine: Any = "local",
    reading: Any = None,
    order: Any = None,
    scan: Callable[[Any], Any] | None = None,
) -> tuple[Any, Taken]:
    """Return the data, read or scanned if need be, and what its answers are to be taken for.

    Parameters
    ----------
    data
        Labels of independent items, in any form that :func:`consilience.aggregate` takes.
    answers
        "auto" or a kind.
    method
        The method that was asked for; methods other than "auto" and those of a kind are for classes.
    engine, reading, order
        As for :func:`consilience.aggregate`.
    scan
        Returns labels that are to be streamed as :class:`consilience.Scanned`; without it they are read into memory.
    """
    one_of("answers", answers, ("auto", *get_args(Kind)))
    is_path = isinstance(data, str | os.PathLike)
    streamed = scan is not None and (engine == "stream" or (holds_parquet(data) if is_path else _is_scanned(data)))
    if answers == "auto":
        answers = next((kind for kind, own in _METHOD.items() if method in own), answers)
    if answers == "auto" and (order is not None or method.split("+")[0] == ORDINAL_METHOD):
        answers = "ordinal"
    if order is not None and answers != "ordinal":
        raise ParameterError(f"order=… is for answers='ordinal', not {answers!r}")
    if answers in ("ordinal", *_METHOD):
        if answers in _METHOD and method not in ("auto", *_METHOD[answers]):
            own = " or ".join(map(repr, _METHOD[answers]))
            raise ParameterError(f"answers={answers!r} is for the method 'auto' or {own}, not {method!r}")
    elif answers == "nominal" or method != "auto":
        return data, Taken("nominal")
    if scan is not None and streamed:
        scanned = scan(data)
        taken = _examine_sample(scanned) if answers == "auto" else Taken(cast("Kind", answers))
        if taken.kind == "nominal" or not _fits_in_memory(scanned, taken.kind):
            return scanned, taken
        if data is scanned and taken.kind == "multi":
            raise ParameterError(
                "answers='multi' cannot be scanned, which leaves out answers that tick nothing: pass the path, or read "
                "the labels with consilience.read"
            )
        if data is scanned:
            return scanned.annotations(), taken
        # read again: a scan leaves out answers that tick nothing
    with quiet_about_blanks():
        annotations = as_annotations(data, **((reading or {}) if is_path else {}))
    if not streamed:
        annotations, taken = _as_written(annotations, answers, order)
    if taken.kind != "multi" and annotations is not data:
        warn_of_blanks(annotations)
    if taken.kind == "numeric" and not (is_path or isinstance(data, Annotations) or is_frame(data)):
        annotations = numbers_in_matrix(data, annotations, asked=answers == "numeric")
    return annotations, taken


def _as_written(annotations: Annotations, answers: str, order: Any) -> tuple[Annotations, Taken]:
    """Return what answers are taken for, after answers such as "don't know" are left out, and numbers read."""
    taken = examine_answers(annotations) if answers == "auto" else Taken(cast("Kind", answers))
    if taken.kind not in ("ordinal", "numeric") and answers != "auto":
        return annotations, taken
    rest = None if order is not None else without_no_answers(annotations)
    some = annotations if rest is None else rest.annotations
    some, read = _numbers_as_written(some)
    if some is annotations:
        return annotations, taken
    if answers == "auto":
        found = examine_answers(some)
        if taken.kind not in ("nominal", "open") or found.kind not in ("ordinal", "numeric"):
            return annotations, taken
        taken = found
    if taken.kind == "ordinal" and read:  # levels keep their names
        some = annotations if rest is None else rest.annotations
        read = ""
    for sentence in ("" if rest is None else rest.sentence, read):
        if sentence:
            warn(sentence, DataWarning)
    return some, taken


def _numbers_as_written(annotations: Annotations) -> tuple[Annotations, str]:
    """Return labels such as "1,200 kg" as numbers, and a sentence that says so; the same labels if they are not."""
    a = annotations
    if not is_text(a.class_ids.to_arrow()) or as_numbers(a.class_ids) is not None:
        return a, ""
    found = numbers_with_units(a.class_ids)
    if found is None:
        return a, ""
    values, unit = found
    names = a.class_ids
    at = next(k for k, name in enumerate(names) if not re.fullmatch(r"\s*-?\d+(\.\d+)?\s*", str(name)))
    example = f"{names[at]!r} is {values[at]:.15g}"
    sentence = f"labels are read as numbers{f' without their unit {unit!r}' if unit else ''}: {example}"
    return a.relabel(dict(zip(names, values.tolist(), strict=True))), sentence


def require_classes(annotations: Annotations, what: str) -> None:
    """Raise an error if the labels are numbers, which have no classes."""
    if reason := looks_numeric(annotations):
        found = reason.partition(":")[0]
        raise DataError(f"{what} is for classes, and {found}; consilience aggregate treats them as numbers")


def _examine_sample(scanned: Scanned) -> Taken:
    return examine_answers(on_disk(scanned).sample(-(-scanned.n_labels // _PAIRS)))


def _fits_in_memory(scanned: Scanned, kind: Kind) -> bool:
    """Return whether labels on disk are to be read; raise if they have to be and do not fit."""
    if kind == "ordinal":
        return fits(scanned)
    if scanned.n_labels * _BYTES > room(scanned.memory):
        raise MethodError(
            f"answers={kind!r} needs all labels in memory, where these {scanned.n_labels} do not fit; only classes and "
            "scales can be streamed. Allow more memory (memory=…), or aggregate some of the items"
        )
    return True


def _is_scanned(data: Any) -> bool:
    if isinstance(data, Annotations):
        return False
    from consilience.engine.scanned import Scanned

    return isinstance(data, Scanned)
