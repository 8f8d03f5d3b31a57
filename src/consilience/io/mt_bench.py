"""Judgments of language models as in MT-Bench: JSON Lines or a table, an object or a row for each judgment.

=========== =========================================== ======================================================
question    ``score``                                   ``winner``
=========== =========================================== ======================================================
item        question, model and turn                    question, both models and turn
annotator   the judge; with the prompt, if it judged an item under several
label       ``score``                                   ``model_1``, ``model_2`` (or ``model_a``, …) or ``tie``
left out    scores of -1, which could not be read       games won by ``error``
=========== =========================================== ======================================================

The two games of a pair, in which the models change places, are one judgment: if they disagree it is a tie, as in
MT-Bench.  If one failed, the other counts.  Models are sorted by name, so that a pair in
either order is the same item.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from consilience.data.ids import Ids, numbers_where_all_are
from consilience.io.export import Export, choose, column_of, left_out
from consilience.io.source import Source

__all__ = ["read", "recognise"]

_SCORE, _WINNER = "score", "winner"
_PAIRS = (("model_1", "model_2"), ("model_a", "model_b"))
_FIELDS = ("question_id", "model", "judge", "turn", "score", "winner", "g1_winner", "g2_winner", *_PAIRS[0], *_PAIRS[1])
_TIES = ("tie", "inconsistent", "tie (inconsistent)")


def recognise(source: Source) -> str | None:
    """Return why these are such judgments, or None."""
    first = dict.fromkeys(source.names) if source.shape == "table" else next(iter(source.sample), {})
    if "judge" in first and "question_id" in first and _kind(first):
        return "records with 'question_id', 'judge' and a 'score' or the winner of a pair of models"
    return None


def _kind(record: dict[str, Any]) -> str | None:
    if any(first in record and second in record for first, second in _PAIRS):
        return _WINNER if "winner" in record or "g1_winner" in record or "g2_winner" in record else None
    return _SCORE if "score" in record and "model" in record else None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the judgments of one kind."""
    rows = [(kind, record) for record in _records(source) if (kind := _kind(record)) is not None]
    kinds = [kind for kind in (_SCORE, _WINNER) if any(found == kind for found, _ in rows)]
    wanted = choose(kinds, question, source.name)
    records = [record for kind, record in rows if kind == wanted]
    judged = [_scored(record) if wanted == _SCORE else _compared(record) for record in records]
    items = [name for name, _, _ in judged]
    labels = [label for _, label, _ in judged]
    failed = sum(bad for _, _, bad in judged)
    unread = np.array([label is None for label in labels], np.bool_)
    why = "score -1, which could not be read" if wanted == _SCORE else "no verdict in either game ('error')"
    notes = list(left_out(int(unread.sum()), len(records), "judgments", why))
    if failed := failed - int(unread.sum()):
        notes.append(f"{failed} of {len(records)} judgments have a verdict in one game only; it counts")
    return Export(
        column_of(items, "item", source.name),
        column_of(_judges(items, records), "judge", source.name),
        column_of(labels, "label", source.name),
        counts=~unread,
        names=("item", "judge", wanted),
        notes=tuple(notes),
        row="judgment",
        question=wanted,
    )


def _records(source: Source) -> Iterable[dict[str, Any]]:
    """Return the judgments of JSON, or of a table."""
    if source.shape != "table":
        return source.records()
    table = source.columns(name for name in source.names if name in _FIELDS)
    if _SCORE in table.column_names:
        numbers = numbers_where_all_are(Ids(table[_SCORE].combine_chunks())).to_arrow()
        table = table.set_column(table.column_names.index(_SCORE), _SCORE, numbers)
    records: list[dict[str, Any]] = table.to_pylist()
    return records


def _judges(items: list[str], records: list[dict[str, Any]]) -> list[Any]:
    """Return the names of the judges: the model, and also the prompt if a model judged an item under several."""
    pairs = [_parts(record.get("judge")) for record in records]
    met: dict[tuple[str, str], str] = {}
    several = any(
        met.setdefault((where, model), prompt) != prompt for where, (model, prompt) in zip(items, pairs, strict=True)
    )
    return [(f"{model}/{prompt}" if several and prompt else model) or None for model, prompt in pairs]


def _parts(judge: Any) -> tuple[str, str]:
    if isinstance(judge, list):
        return (str(judge[0]) if judge else "", "/".join(map(str, judge[1:])))
    return ("" if judge is None or isinstance(judge, dict) else str(judge), "")


def _place(record: dict[str, Any], what: str) -> str:
    turn = record.get("turn")
    return f"{record.get('question_id')}/{what}" + ("" if turn is None else f"/turn {turn}")


def _scored(record: dict[str, Any]) -> tuple[str, Any, bool]:
    score = record.get("score")
    bad = isinstance(score, bool) or not isinstance(score, int | float) or score == -1
    return _place(record, str(record.get("model"))), None if bad else score, bad


def _compared(record: dict[str, Any]) -> tuple[str, Any, bool]:
    first, second = next(pair for pair in _PAIRS if pair[0] in record and pair[1] in record)
    models = str(record[first]), str(record[second])
    swapped = models[1] < models[0]
    games = [record[key] for key in ("winner", "g1_winner", "g2_winner") if key in record]
    verdicts = [v for game in games if (v := "tie" if game in _TIES else game) in (first, second) or _is_tie(v)]
    verdict: Any = None
    if verdicts:
        verdict = verdicts[0] if len(set(verdicts)) == 1 else "tie"
    if swapped and verdict in (first, second):
        verdict = second if verdict == first else first
    name = _place(record, " vs ".join(sorted(models)))
    return name, verdict, len(verdicts) < len(games)


def _is_tie(verdict: Any) -> bool:
    return isinstance(verdict, str) and verdict.startswith("tie")
