"""Excel workbooks: read like the same table in CSV, written with values only."""

from __future__ import annotations

import builtins
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from tests.conftest import quietly
from tests.io.conftest import ROWS, frame_of

import consilience as cs
from consilience.exceptions import ColumnError, DataError, DataWarning, FormatError

LONG = [("task", "worker", "label"), *((n // 3, f"w{n % 3}", "yes" if n % 4 else "no") for n in range(30))]


def _book(path: Path, *sheets: list[tuple[Any, ...]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet(f"Sheet {number + 1}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def _labels(annotations: cs.Annotations) -> set[tuple[Any, ...]]:
    frame = annotations.to_frame("pyarrow")
    return set(zip(*(frame[name].to_pylist() for name in frame.column_names), strict=True))


def test_a_long_table(tmp_path: Path) -> None:
    path = _book(tmp_path / "labels.xlsx", LONG)
    found = cs.recognise(path)
    assert (found.name, found.reason) == ("excel", "by its ending .xlsx")
    assert _labels(cs.read(path)) == set(LONG[1:])
    assert cs.read(path).items.tolist() == list(range(10)), "numbers stay numbers"
    other = _book(tmp_path / "other.xlsx", [("photo", "who", "verdict"), *LONG[1:]])
    assert _labels(cs.read(other, item="photo", annotator="who", label="verdict")) == set(LONG[1:])
    with pytest.raises(ColumnError, match="no column 'foto'; did you mean 'photo'"):
        cs.read(other, item="foto", annotator="who", label="verdict")


def test_missing_cells_dates_and_mixed_types(tmp_path: Path) -> None:
    rows = [
        ("item", "annotator", "label", "timestamp", None),
        (1, "a", "x", datetime(2026, 1, 2, 3, 4)),
        ("1b", "a", "#N/A", None),
        (1, "b", "  ", None),
        (None, None, None, None),
        ("1b", "b", "y", datetime(2026, 1, 3)),
    ]
    path = _book(tmp_path / "labels.xlsx", rows)
    with pytest.warns(DataWarning, match="2 of 4 rows have no label"):
        annotations = cs.read(path)
    assert _labels(annotations) == {("1", "a", "x"), ("1b", "b", "y")}
    assert annotations.time is not None


def test_exports_wide_tables_and_truths_in_workbooks(tmp_path: Path) -> None:
    header = ("HITId", "WorkerId", "AssignmentStatus", "Answer.kind")
    batch = [header, *((f"H{n // 3}", f"W{n % 3}", "Approved", "yes" if n % 4 else "no") for n in range(12))]
    path = _book(tmp_path / "batch.xlsx", batch)
    assert cs.recognise(path).name == "mturk"
    assert cs.read(path).n_labels == 12
    assert cs.read(path, format="mturk").n_annotators == 3
    wide = [("item", "ann", "bob", "cy"), ("p1", "cat", "cat", "dog"), ("p2", "dog", None, "dog")]
    path = _book(tmp_path / "wide.xlsx", wide)
    assert cs.recognise(path).name == "wide"
    assert cs.read(path).n_labels == 5
    truth = _book(tmp_path / "truth.xlsx", [("task", "truth"), *((n, "yes") for n in range(10))])
    known = cs.read_truth(truth)
    assert known["item"].to_pylist() == list(range(10))
    assert set(known["label"].to_pylist()) == {"yes"}


def test_the_first_sheet_counts(tmp_path: Path) -> None:
    path = _book(tmp_path / "labels.xlsx", LONG, [("other", "things")])
    with pytest.warns(DataWarning, match="labels.xlsx has 2 sheets; the first, 'Sheet 1', was read"):
        assert cs.read(path).n_labels == 30


def test_the_value_of_a_formula_counts(tmp_path: Path) -> None:
    path = _book(tmp_path / "labels.xlsx", [*LONG, ("=1+1", "w0", "yes")])
    with pytest.raises(DataError, match="no item in row 31"):  # openpyxl computes nothing, so there is no value
        cs.read(path)


@pytest.mark.parametrize(
    ("rows", "error", "match"),
    [
        ([], FormatError, "labels.xlsx is empty: its first sheet, 'Sheet 1', has not even a header"),
        ([LONG[0]], DataError, "labels.xlsx has no rows"),
        ([("task", "task", "label"), (1, 2, 3)], FormatError, "several columns named 'task'"),
        ([("task", "label"), (1, 2)], ColumnError, "no annotator column"),
    ],
)
def test_bad_sheets(tmp_path: Path, rows: list[tuple[Any, ...]], error: type[Exception], match: str) -> None:
    path = _book(tmp_path / "labels.xlsx", rows)
    with pytest.raises(error, match=match):
        cs.read(path)


def test_files_that_are_not_workbooks(tmp_path: Path) -> None:
    path = tmp_path / "labels.xlsx"
    whole = _book(tmp_path / "whole.xlsx", LONG).read_bytes()
    for content in (b"task,worker,label\n1,a,x\n", whole[: len(whole) // 2], b"PK\x03\x04 and then nothing"):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"cannot read labels\.xlsx: it is not a whole Excel workbook"):
            cs.read(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", "<a>")
    with pytest.raises(FormatError, match="not a whole Excel workbook"):
        cs.read(path)
    with pytest.raises(FormatError, match="expands to"):
        cs.read(_book(path, LONG), max_bytes=1000)


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _book(tmp_path / "labels.xlsx", LONG)
    run = quietly(frame_of(ROWS), "majority")
    real = builtins.__import__

    def without(name: str, *others: Any, **more: Any) -> Any:
        if name.startswith("openpyxl"):
            raise ImportError(name)
        return real(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    for work in (lambda: cs.read(path), lambda: cs.write(run, tmp_path / "out.xlsx")):
        with pytest.raises(DataError, match=r"pip install 'consilience\[excel\]'"):
            work()
    assert not (tmp_path / "out.xlsx").exists()


def test_written_labels_read_back_and_are_never_formulas(tmp_path: Path) -> None:
    odd = ["=SUM(A1)", "+1", "plain", "tab\tand \x1b[0m"]
    rows = [(n, f"w{m}", odd[n % 4]) for n in range(12) for m in range(3)]
    run = quietly(frame_of(rows), "majority")
    cs.write(run, tmp_path / "labels.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "labels.xlsx").active
    header, *body = sheet.iter_rows()
    assert [cell.value for cell in header] == list(run.labels.columns)
    assert not any(cell.data_type == "f" for row in body for cell in row)
    labels = [row[1].value for row in body]
    expected = [label.replace("\x1b", "\\x1b") for label in run.labels["label"]]
    assert labels == expected
    assert [row[2].value for row in body] == pytest.approx(run.labels["confidence"].tolist())


def test_a_sheet_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from consilience.io import excel

    monkeypatch.setattr(excel, "_MOST_ROWS", 5)
    with pytest.raises(DataError, match="items are too many for a sheet of 5 rows; write CSV or Parquet"):
        cs.write(quietly(frame_of(ROWS), "majority"), tmp_path / "labels.xlsx")
    assert not (tmp_path / "labels.xlsx").exists()
