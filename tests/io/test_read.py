"""Files in: every format gives the same annotations, and every bad file a sentence that names it."""

from __future__ import annotations

import gzip
import json
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import consilience as cs
from consilience.exceptions import (
    ColumnError,
    ConsilienceError,
    ConsilienceWarning,
    DataError,
    DataWarning,
    FewLabelsWarning,
    FormatError,
    IdError,
    MethodError,
    ParameterError,
)

Row = tuple[Any, Any, Any]

METHODS = ("majority", "ds-em", "one-coin", "majority+em", "ds-em+em", "one-coin+em")


def crowd(n_items: int = 12, n_annotators: int = 4) -> list[Row]:
    """A small crowd that agrees most of the time; all ids are words."""
    return [
        (f"item {n}", f"annotator-{m}", ("yes", "no")[(n + (n * 3 + m * 5) % 7 // 6) % 2])
        for n in range(n_items)
        for m in range(n_annotators)
    ]


ROWS = crowd()


def delimited(rows: Sequence[Row], delimiter: str = ",", end: str = "\n", header: str = "task,worker,label") -> str:
    lines = [header.replace(",", delimiter), *(delimiter.join(map(str, row)) for row in rows)]
    return end.join(lines) + end


def jsonl(rows: Sequence[Row]) -> str:
    return "".join(
        json.dumps({"task": item, "worker": who, "label": label}, ensure_ascii=False) + "\n"
        for item, who, label in rows
    )


def table(rows: Sequence[Row]) -> pa.Table:
    items, annotators, labels = zip(*rows, strict=True)
    return pa.table({"task": list(items), "worker": list(annotators), "label": list(labels)})


def frame_of(rows: Sequence[Row]) -> cs.Annotations:
    return cs.Annotations.from_frame(pd.DataFrame(list(rows), columns=["task", "worker", "label"]))


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def assert_sound(consensus: cs.Consensus) -> None:
    posterior = consensus.posterior
    assert np.isfinite(posterior).all()
    assert ((posterior >= 0) & (posterior <= 1)).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0, atol=1e-9)
    assert np.isfinite(consensus.run["log_likelihood"])
    assert np.isfinite(consensus.model.prior).all()
    assert np.isfinite(consensus.model.confusions).all()
    np.testing.assert_allclose(consensus.model.confusions.sum(axis=1), 1.0, atol=1e-9)


# ---- formats ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_csv_with_any_delimiter_line_end_and_mark(tmp_path: Path, delimiter: str, end: str, bom: bytes) -> None:
    path = put(tmp_path, "labels.csv", bom + delimited(ROWS, delimiter, end).encode())
    annotations = cs.read(path)
    assert annotations == frame_of(ROWS)
    assert annotations.origin.item == "task"
    assert cs.read(str(path)) == annotations


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.csv", delimited(ROWS)),
        ("LABELS.CSV", delimited(ROWS)),
        ("labels.txt", delimited(ROWS)),
        ("labels.v2.csv", delimited(ROWS)),
        ("labels.tsv", delimited(ROWS, "\t")),
        ("labels.tab", delimited(ROWS, "\t")),
        ("labels.jsonl", jsonl(ROWS)),
        ("labels.ndjson", jsonl(ROWS)),
        ("no-newline.csv", delimited(ROWS).rstrip("\n")),
        ("no-newline.jsonl", jsonl(ROWS).rstrip("\n")),
        ("blank-lines.csv", delimited(ROWS).replace("\n", "\n\n")),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_every_kind_of_text_plain_and_zipped(tmp_path: Path, name: str, text: str, zipped: bool) -> None:
    content = text.encode()
    path = put(tmp_path, name + ".gz" * zipped, gzip.compress(content) if zipped else content)
    assert cs.read(path) == frame_of(ROWS)


def test_quotes_protect_delimiters_and_quotes(tmp_path: Path) -> None:
    rows = [('a "quoted" one', "last, first", "x;y"), ("plain", "last, first", "z"), ('a "quoted" one', "b", "z")]
    quoted = ['"' + '","'.join(str(v).replace('"', '""') for v in row) + '"' for row in rows]
    path = put(tmp_path, "labels.csv", "\n".join(['"task","worker","label"', *quoted]) + "\n")
    assert cs.read(path) == frame_of(rows)


@pytest.mark.parametrize("n", [3, 30_000])
def test_line_breaks_within_quotes_in_files_of_any_size(tmp_path: Path, n: int) -> None:
    """The text that was labelled often stands beside the labels, with its line breaks."""
    lines = [f'{i // 3},"a comment, that\ngoes on and on and on\nand ends",w{i % 3},{i % 2}\n' for i in range(n)]
    path = put(tmp_path, "labels.csv", "task,comment,worker,label\n" + "".join(lines))
    annotations = cs.read(path)
    assert annotations == frame_of([(i // 3, f"w{i % 3}", i % 2) for i in range(n)])


def test_other_columns_do_not_matter(tmp_path: Path) -> None:
    lines = ["when,label,task,note,worker", *(f"x,{label},{item},,{who}" for item, who, label in ROWS)]
    assert cs.read(put(tmp_path, "labels.csv", "\n".join(lines) + "\n")) == frame_of(ROWS)


def test_other_encodings(tmp_path: Path) -> None:
    rows = [("café", "José", "naïve"), ("café", "Zoë", "ça"), ("thé", "José", "ça")]
    text = delimited(rows, header="task,worker,label")
    assert cs.read(put(tmp_path, "labels.csv", text.encode("latin-1")), encoding="latin-1") == frame_of(rows)
    assert cs.read(put(tmp_path, "utf8.csv", text)) == frame_of(rows)
    accented = text.replace("task", "tâche").encode("latin-1")
    assert cs.read(put(tmp_path, "accented.csv", accented), encoding="latin-1", item="tâche") == frame_of(rows)
    with pytest.raises(FormatError, match=r"labels\.csv.*nonsense"):
        cs.read(tmp_path / "labels.csv", encoding="nonsense")


def test_parquet_files_and_folders(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    pq.write_table(table(ROWS), path)
    assert cs.read(path) == frame_of(ROWS)
    folder = tmp_path / "parts"
    folder.mkdir()
    pq.write_table(table(ROWS[:20]), folder / "part-0.parquet", row_group_size=7)
    pq.write_table(table(ROWS[20:]), folder / "part-1.parquet")
    assert cs.read(folder) == frame_of(ROWS)
    named = tmp_path / "labels"
    named.write_bytes(path.read_bytes())
    assert cs.read(named) == frame_of(ROWS)
    categories = table(ROWS).set_column(2, "label", table(ROWS)["label"].dictionary_encode())
    pq.write_table(categories, tmp_path / "categories.pq")
    assert cs.read(tmp_path / "categories.pq") == frame_of(ROWS)


def test_parquet_and_jsonl_keep_types(tmp_path: Path) -> None:
    rows = [(1, "7", True), (2, "07", False), (1, "07", True)]
    pq.write_table(table(rows), tmp_path / "labels.parquet")
    put(tmp_path, "labels.jsonl", jsonl(rows))
    for name in ("labels.parquet", "labels.jsonl"):
        annotations = cs.read(tmp_path / name)
        assert annotations == frame_of(rows)
        assert annotations.annotators.tolist() == ["7", "07"]
        assert annotations.classes.tolist() == [False, True]


def test_the_format_can_be_named(tmp_path: Path) -> None:
    path = put(tmp_path, "labels.dat", delimited(ROWS, "\t"))
    assert cs.read(path, format="tsv") == frame_of(ROWS)
    assert cs.read(path, format="csv") == frame_of(ROWS)
    with pytest.raises(ParameterError, match=r"no format 'excel'.*csv, tsv, jsonl, parquet"):
        cs.read(path, format="excel")


def test_columns_are_found_or_named(tmp_path: Path) -> None:
    path = put(tmp_path, "labels.csv", delimited(ROWS, header="Question,RATER,answer"))
    annotations = cs.read(path)
    assert annotations == frame_of(ROWS)
    assert (annotations.origin.item, annotations.origin.annotator) == ("Question", "RATER")
    odd = put(tmp_path, "odd.csv", delimited(ROWS, header="picture,who,said"))
    annotations = cs.read(odd, item="picture", annotator="who", label="said")
    assert annotations == frame_of(ROWS)
    assert annotations.origin.label == "said"
    with pytest.raises(ColumnError, match=r"odd\.csv.*three different columns"):
        cs.read(odd, item="picture", annotator="who", label="who")


def test_options_reach_the_annotations(tmp_path: Path) -> None:
    path = put(tmp_path, "labels.csv", delimited([*ROWS, (*ROWS[0][:2], "maybe")]))
    with pytest.warns(DataWarning, match=r"labels\.csv: 1 labels repeat"):
        assert cs.read(path).classes.tolist() == ["maybe", "no", "yes"]
    kept = cs.read(path, duplicates="keep", gold={"item 0": "no"}, classes=["yes", "no", "maybe"])
    assert kept.n_labels == len(ROWS) + 1
    assert kept.classes.tolist() == ["yes", "no", "maybe"]
    assert kept.gold is not None
    assert kept.gold.tolist() == [1] + [-1] * 11
    with pytest.raises(DataError, match=r"labels\.csv has 1 repeated answers.*rows 1 and 49"):
        cs.read(path, duplicates="error")


# ---- what text means ----------------------------------------------------------------------------------------


def test_numbers_written_as_numbers_become_numbers(tmp_path: Path) -> None:
    annotations = cs.read(put(tmp_path, "labels.csv", delimited([(7, -3, 0), (8, 4, 1), (7, 4, 1)])))
    assert annotations.items.dtype.kind == "i"
    assert annotations.items.tolist() == [7, 8]
    assert annotations.annotators.tolist() == [-3, 4]
    assert annotations.classes.tolist() == [0, 1]
    halves = cs.read(put(tmp_path, "halves.csv", delimited([(1, "a", 0.5), (1, "b", 1.5)])))
    assert halves.classes.tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    "ids",
    [
        ["007", "7", "8"],
        ["7", "7.0", "8"],
        ["1", "2", "x"],
        ["+1", "1", "2"],
        ["1e3", "1000", "2"],
        ["٣", "3", "4"],
        [" 1", "1", "2"],
        ["0", "-0", "00"],
        ["1234567890123456789", "2234567890123456789", "3234567890123456789"],
        ["12345678901234567890123", "2", "3"],
        ["3.10", "3.20", "3.9"],
        ["0.1", "0.10000000000000000000001", "2.5"],
        ["True", "False", "true"],
    ],
    ids=lambda ids: ids[0],
)
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_ids_come_back_as_they_were_written(tmp_path: Path, ids: list[str], ending: str) -> None:
    """Whoever joins the result with their own file must find their own ids: nothing is rounded or trimmed."""
    rows = [(name, who, label) for name in ids for who, label in (("a", "x"), ("b", "y"))]
    annotations = cs.read(put(tmp_path, f"labels{ending}", delimited(rows, "\t" if ending == ".tsv" else ",")))
    assert [str(name) for name in annotations.items.tolist()] == ids


def test_columns_are_typed_one_by_one(tmp_path: Path) -> None:
    annotations = cs.read(put(tmp_path, "labels.csv", delimited([("1", "01", "x"), ("2", "2", "y")])))
    assert annotations.items.tolist() == [1, 2]
    assert annotations.annotators.tolist() == ["01", "2"]


def test_na_and_none_are_answers_but_nothing_is_not(tmp_path: Path) -> None:
    answers = ["NA", "None", "N/A", "none", "", "NaN", "null", "nan", "NULL", "  ", "x"]
    rows = [(f"i{n}", "a", answer) for n, answer in enumerate(answers)]
    with pytest.warns(DataWarning, match=r"labels\.csv: 6 of 11 rows have no label"):
        annotations = cs.read(put(tmp_path, "labels.csv", delimited(rows)))
    assert annotations.classes.tolist() == ["N/A", "NA", "None", "none", "x"]
    assert annotations.n_items == 11
    assert annotations.labels_per_item.tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1]


def test_jsonl_null_and_absent_are_missing(tmp_path: Path) -> None:
    text = jsonl(ROWS[:4]) + '{"task": "item 9", "worker": "w", "label": null}\n{"task": "item 9", "worker": "v"}\n'
    with pytest.warns(DataWarning, match=r"labels\.jsonl: 2 of 6 rows have no label"):
        annotations = cs.read(put(tmp_path, "labels.jsonl", text))
    assert annotations.labels_per_item.tolist() == [4, 0]


# ---- bad files: a sentence that names the file, the row, and what to do -------------------------------------

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
    "list-labels": (
        lambda d: _parquet(d, ROWS[:2], label=pa.array([[1], [2]])),
        IdError,
        [r"labels\.parquet", "'label'", "strings"],
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
        lambda d: put(_folder(d, "parts"), "labels.csv", delimited(ROWS)).parent,
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


# ---- poor data: a sound result and a warning ----------------------------------------------------------------

POOR: dict[str, tuple[list[Row], str]] = {
    "one-annotator": ([(n, "a", n % 2) for n in range(6)], "only one annotator"),
    "two-annotators": ([(n, m, (n * m) % 2) for n in range(6) for m in range(2)], "only two annotators"),
    "one-class": ([(n, m, "yes") for n in range(6) for m in range(3)], "every label is 'yes'"),
    "one-label-each": ([(n, n, n % 2) for n in range(6)], "no item has two labels"),
    "one-row": ([("p", "a", "x")], "only one annotator"),
    "two-crowds": (
        [(f"{g}{n}", f"{g}{m}", "xy"[n % 2]) for g in "gh" for n in range(6) for m in range(3)],
        r"2 groups that share no item.*in common",
    ),
    "annotator-with-one-label": ([*ROWS, ("item 3", "newcomer", "yes")], "label"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", POOR)
def test_poor_data_gives_a_sound_result_and_a_warning(tmp_path: Path, case: str, method: str) -> None:
    rows, pattern = POOR[case]
    path = put(tmp_path, "labels.csv", delimited(rows))
    with pytest.warns(ConsilienceWarning) as caught:
        consensus = cs.aggregate(cs.read(path), method)
    assert_sound(consensus)
    assert consensus.posterior.shape[0] == len({item for item, _, _ in rows})
    for told in ([str(w.message) for w in caught], consensus.warnings):
        assert any(re.search(pattern, sentence) for sentence in told), told


def test_an_annotator_with_one_label_is_flagged(tmp_path: Path) -> None:
    path = put(tmp_path, "labels.csv", delimited([*ROWS, ("item 3", "newcomer", "yes")]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        consensus = cs.aggregate(path)
    flags = dict(zip(consensus.annotators["worker"], consensus.annotators["flags"], strict=True))
    assert "few labels" in flags["newcomer"]
    assert "few labels" not in flags["annotator-0"]


@pytest.mark.parametrize("method", METHODS)
def test_an_item_without_a_label_stays_and_is_counted(tmp_path: Path, method: str) -> None:
    path = put(tmp_path, "labels.csv", delimited([*ROWS, ("nobody", "annotator-1", "")]))
    with pytest.warns(DataWarning, match=r"labels\.csv: 1 of 49 rows have no label"):
        annotations = cs.read(path)
    with pytest.warns(FewLabelsWarning, match="1 items have no label and stay unlabelled"):
        consensus = cs.aggregate(annotations, method)
    assert_sound(consensus)
    last = consensus.labels.iloc[-1]
    assert last["task"] == "nobody"
    assert pd.isna(last["label"])
    assert (last["confidence"], last["margin"], last["n_labels"]) == (0, 0, 0)
    assert consensus.labels["label"].iloc[:-1].isin(["yes", "no"]).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_class_that_nobody_used_is_kept_with_a_warning(tmp_path: Path, method: str) -> None:
    path = put(tmp_path, "labels.csv", delimited(ROWS))
    with pytest.warns(DataWarning, match="nobody used 'perhaps'"):
        annotations = cs.read(path, classes=["yes", "no", "perhaps"])
    consensus = cs.aggregate(annotations, method)
    assert_sound(consensus)
    assert consensus.posterior.shape == (12, 3)
    assert not (consensus.labels["label"] == "perhaps").any()
    assert (consensus.posterior[:, 2] < 1e-6).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_hundred_thousand_classes_are_refused_with_a_reason(tmp_path: Path, method: str) -> None:
    K = 100_000
    text = "task,worker,label\n" + "".join(f"i{i // 4},w{i % 4},text {i}\n" for i in range(K))
    annotations = cs.read(put(tmp_path, "labels.csv", text))
    assert annotations.n_classes == K
    with pytest.raises(MethodError, match=r"100000 classes.*label column.*'label'.*merge") as caught:
        cs.aggregate(annotations, method)
    assert "GB" in str(caught.value)


# ---- truth files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["task,label", "item,truth", "id,gold", "question,whatever", "task,true_label"])
def test_truth_files(tmp_path: Path, header: str) -> None:
    path = put(tmp_path, "truth.csv", f"{header}\nitem 0,yes\nitem 1,no\nitem 2,\n")
    truth = cs.read_truth(path)
    annotations = frame_of(ROWS).with_gold(truth)
    assert annotations.gold is not None
    assert annotations.gold.tolist() == [1, 0] + [-1] * 10


def test_truth_of_numbers_meets_items_that_are_not_all_numbers(tmp_path: Path) -> None:
    labels = put(tmp_path, "labels.csv", delimited([(item, who, "x") for item in ("1", "2", "b") for who in "pqr"]))
    truth = put(tmp_path, "truth.csv", "task,label\n1,x\n2,x\n")
    gold = cs.read(labels).with_gold(cs.read_truth(truth)).gold
    assert gold is not None
    assert gold.tolist() == [0, 0, -1]
    labels = put(tmp_path, "labels.csv", delimited([(item, who, "x") for item in ("1.0", "2.0", "b") for who in "pqr"]))
    truth = put(tmp_path, "truth.csv", "task,label\n1.0,x\n2.0,x\n")
    gold = cs.read(labels).with_gold(cs.read_truth(truth)).gold
    assert gold is not None
    assert gold.tolist() == [0, 0, -1]


def test_truth_for_unknown_items(tmp_path: Path) -> None:
    consensus = cs.aggregate(frame_of(ROWS))
    partly = put(tmp_path, "truth.csv", "task,label\nitem 0,yes\nitem 99,no\nitem 98,no\n")
    with pytest.warns(DataWarning, match="2 items are not among the labelled items"):
        rate = consensus.error_rate(cs.read_truth(partly))
    assert rate in (0.0, 100.0)
    strange = put(tmp_path, "strange.csv", "task,label\n1,yes\n2,no\n")
    with pytest.raises(IdError, match=r"none of the 2 items.*are the ids the same"):
        consensus.error_rate(cs.read_truth(strange))


def test_bad_truth_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"truth\.csv has no rows"):
        cs.read_truth(put(tmp_path, "truth.csv", "task,label\n"))
    with pytest.raises(ColumnError, match=r"truth\.csv.*label="):
        cs.read_truth(put(tmp_path, "truth.csv", "task,a,b\n1,2,3\n"))
    with pytest.raises(FormatError, match=r"absent\.csv"):
        cs.read_truth(tmp_path / "absent.csv")
    with pytest.raises(DataError, match=r"gold gives item 'item 0' two different labels"):
        frame_of(ROWS).with_gold(cs.read_truth(put(tmp_path, "t.csv", "task,label\nitem 0,yes\nitem 0,no\n")))
    named = put(tmp_path, "named.csv", "picture,a,b\nitem 0,yes,no\n")
    truth = cs.read_truth(named, item="picture", label="b")
    gold = frame_of(ROWS).with_gold(truth).gold
    assert gold is not None
    assert gold.tolist()[0] == 0


def test_parquet_in_gzip(tmp_path: Path) -> None:
    table = pa.table(dict(zip(("task", "worker", "label"), map(list, zip(*ROWS, strict=True)), strict=True)))
    pq.write_table(table, tmp_path / "a.parquet")
    packed = tmp_path / "a.parquet.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert cs.read(packed) == cs.read(tmp_path / "a.parquet")
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(FormatError, match=r"a\.parquet\.gz"):
        cs.read(packed)
