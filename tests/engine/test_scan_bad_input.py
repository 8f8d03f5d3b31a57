"""A scan of bad input says what reading everything at once says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.engine.scans import Table, crowd, put, quietly

import consilience as cs
from consilience.exceptions import (
    ColumnError,
    DataError,
    FormatError,
    IdError,
    ParameterError,
)
from consilience.memory import memory_bytes

pytestmark = pytest.mark.usefixtures("small_steps")


def row(item: Any = 1, annotator: Any = 1, label: Any = 1) -> Table:
    return {"item": [item], "annotator": [annotator], "label": [label]}


ELEVEN = {"item": list(range(11)), "annotator": [1] * 11, "label": [1] * 11}
BAD: dict[str, tuple[list[Table], type[DataError], str]] = {
    "no item": (
        [row(), {**ELEVEN, "item": [*range(7), None, *range(3)]}],
        IdError,
        r"part-1.parquet has no item in row 8",
    ),
    "blank item": ([row("a"), row("b"), row(" \u3000")], IdError, r"part-2.parquet has no item in row 1 "),
    "NaN item": ([row(float("nan"))], IdError, r"part-0.parquet has no item in row 1"),
    "no annotator": ([{**ELEVEN, "annotator": [None] * 11}], IdError, r"part-0.parquet has no annotator in rows 1, 2"),
    "blank annotator": (
        [row(1, "w"), row(2, "")],
        IdError,
        r"part-1.parquet has no annotator in row 1 \(column 'annot",
    ),
    "mixed items": ([row(7), row("7")], IdError, r"'item'.*int64 in part-0.parquet, string in part-1.parquet"),
    "mixed labels": ([row(), row(label=1.5)], IdError, r"'label'.*int64 in part-0.parquet, double in part-1.parquet"),
    "lists": ([row(label=[1])], IdError, r"part-0.parquet: column 'label' holds values of type list"),
    "no label at all": (
        [row(label=None), row(2, label=None)],
        DataError,
        r"no label in any of its 2 rows \(column 'la",
    ),
    "no rows": ([{"item": [], "annotator": [], "label": []}], DataError, "labels has no rows"),
    "no column": ([row(), {"item": [1], "label": [1]}], ColumnError, r"part-1.parquet has no column 'annotator'"),
    "other columns": ([{"a": [1], "b": [2], "c": [3]}], ColumnError, "no item, annotator or label column"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_sentence(tmp_path: Path, case: str) -> None:
    tables, kind, said = BAD[case]
    with pytest.raises(kind, match=said):
        cs.scan(put(tmp_path / "labels", *tables))


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    folder = put(tmp_path / "labels", crowd("text"), crowd("text"))
    whole = (folder / "part-1.parquet").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"PAR1"):
        (folder / "part-1.parquet").write_bytes(content)
        for function in (cs.scan, cs.read):
            with pytest.raises(FormatError, match=r"part-1\.parquet: it is not a whole Parquet file"):
                function(folder)
    # the footer is whole and a page is not
    broken = bytearray(whole)
    broken[4:200] = bytes(196)
    (folder / "part-1.parquet").write_bytes(broken)
    with pytest.raises(FormatError, match=r"part-1\.parquet"):
        quietly(cs.scan, folder)


def test_repeated_answers_can_be_an_error(tmp_path: Path) -> None:
    table: Table = {"item": ["a", "a", "b", "b", "b"], "annotator": list("xyxyx"), "label": [1, 1, 1, 0, 1]}
    said = r"labels has 1 repeated answers; for example annotator 'x' answers item 'b'"
    for rows in ([0, 1, 2, 3, 4], [2, 0, 1, 3, 4]):
        folder = put(tmp_path / "labels", {name: [column[r] for r in rows] for name, column in table.items()})
        with pytest.raises(DataError, match=said):
            cs.scan(folder, duplicates="error")


def test_what_cannot_be_scanned(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text(json.dumps({"item": 1, "annotator": 1, "label": 1}) + "\n")
    with pytest.raises(FormatError, match=r"labels\.jsonl cannot be read in batches"):
        cs.scan(tmp_path / "labels.jsonl")
    (tmp_path / "labels.csv").write_text("item,annotator,label\n1,2,3\n1,2\n")
    with pytest.raises(FormatError, match=r"labels\.csv, line 3: 2 fields where the header has 3"):
        cs.scan(tmp_path / "labels.csv")
    (tmp_path / "labels.csv").write_text('item,annotator,label\n1,2,3\n1,2,"3\n2,3,4\n')
    with pytest.raises(FormatError, match=r"labels\.csv"):
        cs.scan(tmp_path / "labels.csv")
    (tmp_path / "labels.csv").write_text("item,annotator,label\n")
    with pytest.raises(DataError, match=r"labels\.csv has no rows"):
        cs.scan(tmp_path / "labels.csv")
    with pytest.raises(ParameterError, match="duplicates must be"):
        cs.scan(tmp_path / "labels.csv", duplicates="sum")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"), [("2GiB", 2**31), ("500MB", 5 * 10**8), ("1.5 gib", 3 * 2**29), ("123", 123), (7, 7)]
)
def test_amounts_of_memory(text: Any, expected: int) -> None:
    assert memory_bytes(text) == expected


def test_no_amounts_of_memory() -> None:
    half = memory_bytes(None)
    assert 0 < half <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    for wrong in ("2 apples", "", 0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="2GiB"):
            memory_bytes(wrong)  # type: ignore[arg-type]
