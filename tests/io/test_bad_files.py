"""Bad files: a sentence that names the file, the row, and what to do."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.io.conftest import ROWS, Row, crowd, delimited, jsonl, put, table

import consilience as cs
from consilience.exceptions import ColumnError, ConsilienceError, DataError, FormatError, IdError

Maker = Callable[[Path], Path]


def _parquet(folder: Path, rows: Sequence[Row] = ROWS, name: str = "labels.parquet", **columns: Any) -> Path:
    data = table(rows)
    for column, values in columns.items():
        data = data.set_column(data.column_names.index(column), column, [values])
    pq.write_table(data, folder / name)
    return folder / name


def _cut(path: Path, keep: float) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    return path


def _folder(folder: Path, name: str, **files: pa.Table) -> Path:
    place = folder / name
    place.mkdir()
    for file, content in files.items():
        pq.write_table(content, place / f"{file}.parquet")
    return place


def _text(name: str, content: str | bytes) -> Maker:
    return lambda folder: put(folder, name, content)


NOISE = gzip.compress(delimited(crowd(3000, 4)).encode(), mtime=0)
FLIPPED = NOISE[: len(NOISE) // 2] + bytes(b ^ 0x5A for b in NOISE[len(NOISE) // 2 :])
STORED = gzip.compress(delimited(ROWS).encode(), compresslevel=0, mtime=0).replace(b"item 7", b"item 8", 1)

BAD: dict[str, tuple[Maker, type[ConsilienceError], list[str]]] = {
    "empty": (_text("labels.csv", ""), FormatError, [r"labels\.csv", "empty"]),
    "empty-tsv": (_text("labels.tsv", ""), FormatError, [r"labels\.tsv", "empty"]),
    "empty-jsonl": (_text("labels.jsonl", ""), FormatError, [r"labels\.jsonl", "empty"]),
    "empty-parquet": (_text("labels.parquet", ""), FormatError, [r"labels\.parquet", "empty"]),
    "empty-gz": (_text("labels.csv.gz", gzip.compress(b"")), DataError, [r"labels\.csv\.gz", "empty|no rows"]),
    "blank-csv": (_text("labels.csv", "\n\n\n"), DataError, [r"labels\.csv"]),
    "blank-jsonl": (_text("labels.jsonl", "\n\n"), DataError, [r"labels\.jsonl"]),
    "header-only": (_text("labels.csv", "task,worker,label\n"), DataError, [r"labels\.csv", "no rows"]),
    "header-no-end": (_text("labels.csv", "task,worker,label"), DataError, [r"labels\.csv", "no rows"]),
    "parquet-no-rows": (lambda d: _write(table(ROWS).slice(0, 0), d), DataError, [r"labels\.parquet", "no rows"]),
    "missing-column": (
        _text("labels.csv", delimited(ROWS, header="task,worker,verdict")),
        ColumnError,
        [r"labels\.csv", "label column", "'verdict'", "label="],
    ),
    "missing-column-jsonl": (
        _text("labels.jsonl", jsonl(ROWS).replace('"task"', '"picture"')),
        ColumnError,
        [r"labels\.jsonl", "item column", "'picture'", "item="],
    ),
    "missing-column-parquet": (
        lambda d: _write(table(ROWS).rename_columns(["task", "who", "label"]), d),
        ColumnError,
        [r"labels\.parquet", "annotator column", "'who'", "annotator="],
    ),
    "not-a-table": (_text("labels.csv", "just some words\nand more\n"), ColumnError, [r"labels\.csv", "item="]),
    "blank-item": (
        _text("labels.csv", delimited([*ROWS[:2], ("", "w", "yes"), ("  ", "w", "yes")])),
        IdError,
        [r"labels\.csv", "rows 3 and 4", "'task'", "remove the row"],
    ),
    "nan-annotator": (
        _text("labels.csv", delimited([*ROWS[:2], ("p", "NaN", "yes")])),
        IdError,
        [r"labels\.csv", "row 3", "'worker'", "remove the row"],
    ),
    "null-item-jsonl": (
        _text("labels.jsonl", jsonl([*ROWS[:2], (None, "w", "yes")])),
        IdError,
        [r"labels\.jsonl", "row 3", "'task'"],
    ),
    "null-item-parquet": (
        lambda d: _parquet(d, [*ROWS[:2], (None, "w", "yes")]),
        IdError,
        [r"labels\.parquet", "row 3", "'task'"],
    ),
    "nan-item-parquet": (
        lambda d: _parquet(d, [(1.0, "w", "yes"), (float("nan"), "w", "yes")]),
        IdError,
        [r"labels\.parquet", "row 2", "'task'"],
    ),
    "no-label-at-all": (
        _text("labels.csv", delimited([("p", "a", ""), ("q", "b", "")])),
        DataError,
        [r"labels\.csv", "no label", "'label'"],
    ),
    "mixed-ids": (
        _text("labels.jsonl", jsonl([(7, "a", "x"), (8, "a", "y"), ("7", "b", "x")])),
        IdError,
        [r"labels\.jsonl", "'task'", "row 3", "strings"],
    ),
    "mixed-labels": (
        _text("labels.jsonl", jsonl([(7, "a", "x"), (8, "a", 1)])),
        IdError,
        [r"labels\.jsonl", "'label'", "row 2"],
    ),
    "mixed-parquet-folder": (
        lambda d: _folder(d, "parts", a=table([("7", "a", "x")]), b=table([(8, "a", "x")])),
        DataError,
        ["parts"],
    ),
    "list-ids": (
        lambda d: _parquet(d, ROWS[:2], task=pa.array([[1], [2]])),
        IdError,
        [r"labels\.parquet", "'task'", "strings"],
    ),
    "nested-list-labels": (
        lambda d: _parquet(d, ROWS[:2], label=pa.array([[[1]], [[2]]])),
        DataError,
        ["a label is a list of lists", "list of texts"],
    ),
    "bytes-ids": (
        lambda d: _parquet(d, ROWS[:2], task=pa.array([b"\xff", b"b"])),
        IdError,
        [r"labels\.parquet", "'task'", "strings"],
    ),
    "nested-jsonl": (
        _text("labels.jsonl", '{"task": 1, "worker": {"name": "a"}, "label": 1}\n'),
        IdError,
        [r"labels\.jsonl", "'worker'"],
    ),
    "not-utf8": (
        _text("labels.csv", delimited(ROWS[:3]).encode() + "café,w,yes\n".encode("latin-1")),
        FormatError,
        [r"labels\.csv", "line 5", "encoding="],
    ),
    "not-utf8-zipped": (
        _text("labels.csv.gz", gzip.compress(delimited(ROWS[:3]).encode() + "café,w,yes\n".encode("latin-1"))),
        FormatError,
        [r"labels\.csv\.gz", "line 5", "encoding="],
    ),
    "not-utf8-header": (
        _text("labels.csv", delimited(ROWS).replace("task", "tâche").encode("latin-1")),
        FormatError,
        [r"labels\.csv", "header", "encod|utf-8"],
    ),
    "not-utf8-jsonl": (
        _text("labels.jsonl", jsonl([*ROWS[:2], ("café", "w", "yes")]).encode("latin-1")),
        FormatError,
        [r"labels\.jsonl", "UTF-8|utf-8|UTF8"],
    ),
    "utf16": (
        _text("labels.csv", delimited(ROWS).encode("utf-16")),
        FormatError,
        [r"labels\.csv"],
    ),
    "truncated-parquet": (lambda d: _cut(_parquet(d), 0.6), FormatError, [r"labels\.parquet", "whole Parquet file"]),
    "parquet-of-words": (_text("labels.parquet", "task,worker,label\n"), FormatError, [r"labels\.parquet"]),
    "truncated-gzip": (_text("labels.csv.gz", NOISE[: len(NOISE) // 2]), FormatError, [r"labels\.csv\.gz"]),
    "truncated-gzip-end": (_text("labels.csv.gz", NOISE[:-6]), FormatError, [r"labels\.csv\.gz"]),
    "truncated-gzip-start": (_text("labels.csv.gz", NOISE[:15]), FormatError, [r"labels\.csv\.gz"]),
    "truncated-gzip-jsonl": (
        _text("labels.jsonl.gz", gzip.compress(jsonl(crowd(300)).encode())[:-40]),
        FormatError,
        [r"labels\.jsonl\.gz"],
    ),
    "damaged-gzip": (_text("labels.csv.gz", FLIPPED), FormatError, [r"labels\.csv\.gz"]),
    "damaged-gzip-early": (
        _text("labels.csv.gz", NOISE[:12] + bytes(b ^ 0x5A for b in NOISE[12:])),
        FormatError,
        [r"labels\.csv\.gz"],
    ),
    "changed-gzip": (_text("labels.csv.gz", STORED), FormatError, [r"labels\.csv\.gz"]),
    "no-gzip": (_text("labels.csv.gz", delimited(ROWS)), FormatError, [r"labels\.csv\.gz"]),
    "short-row": (
        _text("labels.csv", delimited([*ROWS[:3]]) + "p,w\n"),
        FormatError,
        [r"labels\.csv", "line 5", "2 fields", "3"],
    ),
    "long-row": (
        _text("labels.csv", delimited([*ROWS[:3]]) + "p,Smith, John,yes\n"),
        FormatError,
        [r"labels\.csv", "line 5", "4 fields", "double quotes"],
    ),
    "long-row-tsv": (
        _text("labels.tsv", delimited(ROWS[:3], "\t") + "p\tq\tr\ts\n"),
        FormatError,
        [r"labels\.tsv", "line 5"],
    ),
    "broken-json": (
        _text("labels.jsonl", jsonl(ROWS[:2]) + '{"task": "p", "wor'),
        FormatError,
        [r"labels\.jsonl", "row 3"],
    ),
    "json-array": (_text("labels.jsonl", "[1, 2]\n"), FormatError, [r"labels\.jsonl", "one JSON object on each line"]),
    "unknown-ending": (_text("labels.xyz", delimited(ROWS)), FormatError, [r"labels\.xyz", r"\.csv", "format="]),
    "no-ending": (_text("labels", delimited(ROWS)), FormatError, ["labels", "format="]),
    "missing-file": (lambda d: d / "absent.csv", FormatError, [r"no file .*absent\.csv"]),
    "empty-folder": (lambda d: _folder(d, "parts"), FormatError, ["parts", r"\.parquet"]),
    "folder-of-others": (
        lambda d: put(put(_folder(d, "parts"), "1.csv", delimited(ROWS)).parent, "2.csv", delimited(ROWS)).parent,
        FormatError,
        ["parts", r"\.parquet"],
    ),
}


def _write(data: pa.Table, folder: Path) -> Path:
    pq.write_table(data, folder / "labels.parquet")
    return folder / "labels.parquet"


@pytest.mark.parametrize("case", BAD)
def test_bad_files_get_a_sentence(tmp_path: Path, case: str) -> None:
    maker, kind, patterns = BAD[case]
    path = maker(tmp_path)
    with pytest.raises(ConsilienceError) as caught:
        cs.read(path)
    assert isinstance(caught.value, kind), repr(caught.value)
    for pattern in patterns:
        assert caught.match(pattern)
    message = str(caught.value)
    assert len(message.splitlines()) == 1, "one sentence, not a dump"
    assert len(message) < 600


def test_a_folder_read_as_text_is_an_error_of_ours(tmp_path: Path) -> None:
    for name in ("csv", "tsv", "jsonl"):
        with pytest.raises(FormatError, match=tmp_path.name):
            cs.read(tmp_path, format=name)


@pytest.mark.parametrize("keep", np.linspace(0.02, 0.98, 9))
def test_parquet_cut_anywhere(tmp_path: Path, keep: float) -> None:
    with pytest.raises(FormatError, match=r"labels\.parquet"):
        cs.read(_cut(_parquet(tmp_path, crowd(400)), float(keep)))
