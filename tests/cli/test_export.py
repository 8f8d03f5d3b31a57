"""``consilience export``, and what the command line says of the file it read."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv
from tests.cli.conftest import Run, write
from tests.io.export_files import EXAMPLES

import consilience as cs


def test_from_an_export_to_predictions(run: Run, tmp_path: Path) -> None:
    source = EXAMPLES["label-studio-json"].put(tmp_path)
    done = run("aggregate", str(source), "--out", str(tmp_path / "run"), "--method", "majority")
    assert done.status == 0
    said = " ".join(done.out.split())
    assert "read as Label Studio (JSON with tasks that have 'data' and 'annotations'); item 'id'" in said
    assert "1 of 5 annotations were left out: cancelled or skipped" in done.err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["read_as"].startswith("Label Studio")
    assert any("cancelled" in warning for warning in summary["warnings"])
    out = tmp_path / "predictions.json"
    done = run("export", str(tmp_path / "run"), "--out", str(out), "--source", str(source))
    assert done.status == 0
    assert "3 items" in done.out
    tasks = json.loads(out.read_text())
    assert tasks[1]["predictions"][0]["result"][0]["value"]["choices"] == ["stone"], "the gold of the file"
    done = run("export", str(tmp_path / "run"), "--out", str(tmp_path / "labels.parquet"))
    assert done.status == 0
    assert (tmp_path / "labels.parquet").exists()


def test_wrong_usage(run: Run, tmp_path: Path) -> None:
    with_run = tmp_path / "run"
    assert run("demo", "--out", str(with_run)).status == 0
    done = run("export", str(with_run), "--out", str(tmp_path / "p.json"))
    assert done.status == 2
    assert "--source" in done.err
    assert run("export", str(tmp_path), "--out", str(tmp_path / "p.csv")).status == 1
    assert not (tmp_path / "p.csv").exists()


def test_a_question_has_to_be_chosen(run: Run, tmp_path: Path) -> None:
    path = EXAMPLES["mt-bench-pairs"].put(tmp_path)
    done = run("aggregate", str(path))
    assert done.status == 1
    assert "'score', 'winner'" in done.err
    for verb in ("aggregate", "diagnose"):
        assert run(verb, str(path), "--question", "winner", "--json").status == 0
    assert run("aggregate", str(path), "--format", "csv").status == 1
    assert cs.recognise(path).name == "mt-bench"


def test_text_that_would_be_a_formula_is_quoted_for_spreadsheets(run: Run, tmp_path: Path) -> None:
    classes = ["=SUM(A1)", "-1", "+x"]
    rows = [(f"@{n}" if n % 2 else str(-n), f"w{m}", classes[(n + (m == 9)) % 3]) for n in range(12) for m in range(3)]
    labels = write(tmp_path / "labels.csv", rows)
    assert run("aggregate", labels, "--method", "majority", "--out", tmp_path / "run").status == 0
    options = ("export", tmp_path / "run", "--out", tmp_path / "safe.csv")
    assert run(*options, "--spreadsheet").status == 0
    safe = pyarrow.csv.read_csv(tmp_path / "safe.csv").to_pydict()
    expected = {item: label for item, _, label in rows}
    quote = {"=SUM(A1)": "'=SUM(A1)", "+x": "'+x"}
    assert len(safe["task"]) == 12
    for item, label in zip(safe["task"], safe["label"], strict=True):
        plain = item.removeprefix("'")
        assert item.startswith("'") == plain.startswith("@"), "numbers stay numbers"
        assert label == quote.get(expected[plain], expected[plain])
    assert run("export", tmp_path / "run", "--out", tmp_path / "a.parquet", "--spreadsheet").status == 2


def test_the_source_decides_the_tool(run: Run, tmp_path: Path) -> None:
    for name, out in (("argilla-nested", "out.json"), ("doccano-zip", "out.jsonl"), ("prodigy", "out.jsonl")):
        folder = tmp_path / name
        folder.mkdir()
        source = EXAMPLES[name].put(folder)
        assert run("aggregate", source, "--method", "majority", "--out", folder / "run").status == 0
        done = run("export", folder / "run", "--source", source, "--out", folder / out)
        assert (done.status, done.err) == (0, "")
        text = (folder / out).read_text()
        sign = {"argilla-nested": '"suggestions"', "doccano-zip": '"confidence"', "prodigy": '"accept"'}[name]
        assert sign in text
    done = run("export", folder / "run", "--out", tmp_path / "labels.jsonl")
    assert done.status == 2
    assert "say which with format=… (--format …)" in done.err
    done = run("export", folder / "run", "--out", tmp_path / "labels.csv", "--format", "argila")
    assert (done.status, done.err) == (2, "Error: there is no format 'argila' to write; did you mean 'argilla'?\n")


def test_decisions_on_a_batch(run: Run, tmp_path: Path) -> None:
    from tests.io.test_mturk_review import _batch, _rows

    batch = _batch(tmp_path)
    assert run("aggregate", batch, "--method", "ds-em", "--out", tmp_path / "run").status == 0
    done = run("export", tmp_path / "run", "--source", batch, "--out", tmp_path / "reviewed.csv")
    assert done.status == 0
    assert "Note: 118 assignments are left open, of W5 (spammer) and W6 (adversary)" in done.err
    assert {row["Reject"] for row in _rows(tmp_path / "reviewed.csv")} == {"", "by hand"}
    done = run("export", tmp_path / "run", "--source", batch, "--out", tmp_path / "hard.csv", "--reject-flagged")
    assert (done.status, done.err) == (0, "")
    assert {row["WorkerId"] for row in _rows(tmp_path / "hard.csv") if len(row["Reject"]) > 20} == {"W5", "W6"}


def test_excel_in_and_out(run: Run, tmp_path: Path) -> None:
    import openpyxl

    assert run("demo", "--out", tmp_path / "run").status == 0
    done = run("export", tmp_path / "run", "--out", tmp_path / "labels.xlsx")
    assert (done.status, done.out) == (0, f"Written to {tmp_path / 'labels.xlsx'}: 45 items\n")
    book = openpyxl.load_workbook(tmp_path / "labels.xlsx")
    assert book.active.max_row == 46
    rows = [("item", "annotator", "label"), *((n, f"w{m}", n % 2) for n in range(20) for m in range(3))]
    sheet = openpyxl.Workbook()
    for row in rows:
        sheet.active.append(row)
    sheet.save(tmp_path / "votes.xlsx")
    done = run("aggregate", tmp_path / "votes.xlsx", "--method", "majority", "--json")
    assert json.loads(done.out)["read_as"].startswith("Excel sheet (by its ending .xlsx)")
