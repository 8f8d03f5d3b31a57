"""Comparisons from files: tables, MT-Bench judgments, AlpacaEval annotations; :mod:`.exports` has annotation tools.

=========== ============================================= ====================================================
format      MT-Bench (``mt-bench``)                       AlpacaEval (``alpaca-eval``)
=========== ============================================= ====================================================
left, right the models, in the order shown to the judge   ``generator_1``, ``generator_2``
judge       the model, and its prompt                     ``annotator``
winner      ``winner``, or the two games ``g1_winner``    ``preference``: 1 is left, 2 is right, 1.5 or 0 a tie;
            and ``g2_winner``, each a comparison          a number between is cut at 1.5
task        question and turn                             ``instruction``
lengths     -                                             characters of ``output_1`` and ``output_2``
left out    games won by ``error``; scores of one answer  missing preferences
=========== ============================================= ====================================================

In the second game of MT-Bench the models change places.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data.ids import to_column
from consilience.exceptions import ConsilienceError, FormatError, ParameterError
from consilience.io import alpaca_eval
from consilience.io.export import column_of
from consilience.io.formats import FORMATS, check_format
from consilience.io.source import Source, parquet_table
from consilience.io.tables import naming, read_columns
from consilience.ranking.comparisons import ROLES, Comparisons, find_columns, from_columns
from consilience.ranking.exports import READERS, Row, Rows

__all__ = ["are_comparisons", "holds_comparisons", "read_comparisons"]

_ALPACA, _MT_BENCH = "alpaca-eval", "mt-bench"
_PAIRS = (("model_1", "model_2"), ("model_a", "model_b"))
_GAMES = ("g1_winner", "g2_winner")
_ERROR = "error"


def read_comparisons(
    path: str | os.PathLike[str],
    given: Mapping[str, str | None] | None = None,
    format: str | None = None,  # noqa: A002 - as in read
    encoding: str = "utf-8",
    question: str | None = None,
) -> Comparisons:
    """Read comparisons; ``given`` names columns that are not recognised, ``question`` one of several in an export."""
    place = Path(path)
    check_format(place, format, (*FORMATS, _ALPACA, _MT_BENCH, *READERS), " of comparisons")
    given = given or {}
    source = Source(place, encoding)
    if place.is_file() and place.stat().st_size == 0:
        raise FormatError(f"{place.name} is empty: it has not even a header")
    kind = format or (None if place.is_dir() else _recognised(source, named=any(given.values())))
    if kind in (_ALPACA, _MT_BENCH):
        return _of_rows(_records(Source(place, encoding, by_name=False), kind), place.name)
    if kind in READERS:
        others = [role for role, name in given.items() if name and role not in ("left", "right")]
        if others:
            raise ParameterError(f"{place.name}: {others[0]}=… names a column of a table, but the format is {kind!r}")
        return _of_rows(READERS[kind][1](Source(place, encoding, by_name=False), given, question), place.name)
    if question is not None:
        raise ParameterError(f"{place.name}: question={question!r} is for exports of annotation tools, not for tables")

    def find(columns: list[str]) -> dict[str, str]:
        return find_columns(columns, place.name, given)

    read = read_columns(path, format, encoding, find, "has no comparisons")
    with naming(place):
        columns = {role: to_column(read.table[name], name) for role, name in read.names.items()}
    return from_columns(columns, read.names, place.name, untyped=read.untyped)


def are_comparisons(columns: Iterable[str]) -> bool:
    """Return whether columns are those of comparisons: two sides and a winner, by their usual names."""
    called = {str(name).strip().lower() for name in columns}
    return all(called.intersection(ROLES[role]) for role in ("left", "right", "winner"))


def holds_comparisons(path: str | os.PathLike[str], encoding: str = "utf-8") -> bool:
    """Return whether a file is a table of comparisons; false if it cannot be read, which its reader explains."""
    place = Path(path)
    try:
        if place.is_dir():
            return False
        source = Source(place, encoding)
        source = (parquet_table(place, encoding) or source) if source.shape == "parquet" else source
        if source.shape == "records":
            return _recognised(source, named=False) is None and are_comparisons(source.fields())
        return source.shape == "table" and are_comparisons(source.names)
    except (ConsilienceError, OSError, ValueError):
        return False


def _recognised(source: Source, *, named: bool) -> str | None:
    """Return the format, None for a table; columns that are ``named`` can be those of a table in JSON."""
    if source.shape != "records":
        return None
    if tool := next((name for name, (recognise, _) in READERS.items() if recognise(source)), None):
        return tool
    if named:
        return None
    fields = source.fields()
    if fields >= alpaca_eval.FIELDS:
        return _ALPACA
    if "question_id" in fields and any(set(pair) <= fields for pair in _PAIRS) and {"winner", *_GAMES} & fields:
        return _MT_BENCH
    return None


def _records(source: Source, kind: str) -> Rows:
    rows: list[Row] = []
    others = 0
    for record in source.records():
        found = _alpaca(record) if kind == _ALPACA else _games(record)
        others += not found
        rows += found
    return Rows(rows, (f"{others} records are not comparisons and are left out",) if others else ())


def _of_rows(found: Rows, where: str) -> Comparisons:
    rows = found.rows
    if not rows:
        raise FormatError(f"{where} has no comparison of two items{''.join(f'; {note}' for note in found.notes)}")
    columns = dict(zip(Row._fields, zip(*rows, strict=True), strict=True))
    weight = np.array(columns.pop("weight"), np.float64)
    arrays = {
        role: column_of(list(values), role, where)
        for role, values in columns.items()
        if any(value is not None for value in values)
    }
    for role in ("left", "right", "winner"):
        arrays.setdefault(role, pa.nulls(len(rows), pa.string()))
    names = {role: role for role in arrays} | {"worker": "judge"}
    return from_columns(arrays, names, where, notes=found.notes, weight=weight)


def _games(record: Mapping[str, Any]) -> list[Row]:
    """Return the comparisons of an MT-Bench judgment."""
    pair = next((pair for pair in _PAIRS if pair[0] in record and pair[1] in record), None)
    if pair is None:
        return []
    one, two = (str(record[name]) for name in pair)
    judge = record.get("judge")
    judge = "/".join(map(str, judge)) if isinstance(judge, list) else judge
    turn = record.get("turn")
    task = f"{record.get('question_id')}" + ("" if turn is None else f"/turn {turn}")
    rows: list[Row] = []
    for game in ("winner", *_GAMES):
        if game in record:
            said = record[game]
            winner = None if said in (None, _ERROR) else {pair[0]: one, pair[1]: two}.get(said, said)
            shown = (two, one) if game == _GAMES[1] else (one, two)
            rows.append(Row(*shown, judge, winner, task))
    return rows


def _alpaca(record: Mapping[str, Any]) -> list[Row]:
    if "generator_1" not in record or "generator_2" not in record:
        return []
    number = alpaca_eval.preferred(record.get("preference"))
    winner = None if number is None else ("tie", "left", "right")[number]
    outputs = [record.get(name) for name in ("output_1", "output_2")]
    lengths = [len(text) if isinstance(text, str) else None for text in outputs]
    who = record.get("annotator") or "all"
    sides = record["generator_1"], record["generator_2"]
    return [Row(*sides, who, winner, record.get("instruction"), lengths[0], lengths[1])]
