"""The argument LABELS from standard input, misspelt names, and what a terminal shows while a file is read."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import openpyxl
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.cli.conftest import ROWS, Run, environment, strict_json, write
from tests.io.export_files import EXAMPLES


def _pipe(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def _forms(labels: Path) -> dict[str, bytes]:
    """The same table in several formats."""
    table = pyarrow.csv.read_csv(labels)
    parquet = io.BytesIO()
    pyarrow.parquet.write_table(table, parquet)
    rows = [json.dumps(row) for row in table.to_pylist()]
    book, sheet = openpyxl.Workbook(), io.BytesIO()
    for cells in (table.column_names, *(row.values() for row in table.to_pylist())):
        book.active.append(list(cells))
    book.save(sheet)
    plain = labels.read_bytes()
    return {
        "csv": plain,
        "tsv": plain.replace(b",", b"\t"),
        "gz": gzip.compress(plain),
        "jsonl": "\n".join(rows).encode() + b"\n",
        "json": f"[{', '.join(rows)}]".encode(),
        "parquet": parquet.getvalue(),
        "xlsx": sheet.getvalue(),
    }


@pytest.mark.parametrize("form", ["csv", "tsv", "gz", "jsonl", "json", "parquet", "xlsx"])
def test_standard_input_is_read_like_the_file(
    run: Run, labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    expected = strict_json(run("aggregate", labels, "--method", "ds-em", "--json").out)
    _pipe(monkeypatch, _forms(labels)[form])
    done = run("aggregate", "-", "--method", "ds-em", "--json")
    assert done.status == 0, done.err
    found = strict_json(done.out)
    for name in ("N", "M", "K", "labels", "log_likelihood", "estimated_error"):
        assert found[name] == expected[name]
    assert list(place.iterdir()) == [], "the copy is removed"


def test_every_verb_on_labels_reads_standard_input(
    run: Run, labels: Path, truth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("aggregate", labels, "--method", "ds-em", "--out", tmp_path / "run").status == 0
    more = labels.read_bytes().replace(b"i", b"new")
    for arguments in (
        ["diagnose", "-", "--bootstrap", "0"],
        ["plan", "-", "--budget", "5"],
        ["compare", "-", "--truth", truth, "--methods", "majority"],
    ):
        _pipe(monkeypatch, labels.read_bytes())
        done = run(*arguments)
        assert done.status == 0, done.err
        assert done.out
    _pipe(monkeypatch, more)
    assert strict_json(run("update", tmp_path / "run", "-", "--json").out)["N"] == 24


def test_exports_and_nothing_on_standard_input(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pipe(monkeypatch, EXAMPLES["label-studio-json"].put(tmp_path).read_bytes())
    done = run("aggregate", "-", "--method", "majority", "--json")
    assert strict_json(done.out)["read_as"].startswith("Label Studio")
    _pipe(monkeypatch, b"")
    done = run("aggregate", "-")
    assert (done.status, done.err) == (1, "Error: stdin.txt is empty: it has not even a header\n")
    _pipe(monkeypatch, b"task,worker,label\n1,a,x\n1,b\n")
    done = run("aggregate", "-")
    assert done.status == 1
    assert done.err.startswith("Error: stdin.txt, line 3: 2 fields where the header has 3")


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["agregate", "{labels}"], 2, "there is no verb 'agregate'; did you mean 'aggregate'?"),
        (["datasets", "lists"], 2, "there is no verb 'lists'; did you mean 'list'?"),
        (["aggregate", "{labels}", "--method", "ds-me"], 2, "there is no method 'ds-me'; did you mean 'ds-em'?"),
        (["diagnose", "{labels}", "--method", "ebc"], 2, "there is no method 'ebc'; did you mean 'ebcc'?"),
        (
            ["compare", "{labels}", "--truth", "{labels}", "--methods", "majority,ibc+em"],
            2,
            "there is no method 'ibc+em'; did you mean 'ibcc'?",
        ),
        (["aggregate", "{labels}", "--item", "Tasks"], 1, "labels.csv has no column 'Tasks'; did you mean 'task'?"),
        (
            ["plan", "{labels}", "--budget", "1", "--label", "lable"],
            1,
            "labels.csv has no column 'lable'; did you mean",
        ),
        (["datasets", "info", "bluebrid"], 2, "there is no data set 'bluebrid'; did you mean 'bluebird'?"),
        (["datasets", "path", "RTE"], 2, "there is no data set 'RTE'; did you mean 'rte'?"),
        (["aggregate", "{labels}", "--format", "cvs"], 2, "there is no format 'cvs'; did you mean 'csv'?"),
        (
            ["zzz"],
            2,
            "there is no verb 'zzz'. The verbs are aggregate, update, diagnose, plan, estimate, audit, rank,",
        ),
    ],
    ids=lambda value: "-".join(value[:1]) if isinstance(value, list) else None,
)
def test_misspelt_names_get_one_sentence(
    run: Run, labels: Path, arguments: list[str], status: int, sentence: str
) -> None:
    done = run(*(each.format(labels=labels) for each in arguments))
    assert done.status == status
    assert done.out == ""
    assert done.err.startswith(f"Error: {sentence}")
    assert done.err.count("\n") == 1


def test_a_misspelt_question_or_option(run: Run, tmp_path: Path) -> None:
    path = EXAMPLES["mt-bench-pairs"].put(tmp_path)
    done = run("aggregate", path, "--question", "winer")
    assert (done.status, "no question 'winer'; did you mean 'winner'?" in done.err) == (1, True)
    done = run("aggregate", path, "--metod", "auto")
    assert done.status == 2
    assert "--method" in done.err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_shows_that_a_file_is_read_and_a_pipe_does_not(run: Run, labels: Path) -> None:
    import pty

    command = [sys.executable, "-m", "consilience", "aggregate", str(labels), "--method", "majority"]
    begun = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.execve(command[0], command, environment(TERM="xterm"))
    shown, first = b"", 0.0
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # the end, on Linux
            break
        if not part:
            break
        shown += part
        if not first and b"reading labels.csv" in shown:
            first = time.monotonic() - begun
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert 0 < first < 10, "half a second on an idle machine"
    assert b"reading labels.csv" not in shown.split(b"\x1b[?25h")[-1], "it disappears"
    assert "reading" not in run("aggregate", labels, "--method", "majority").err


def test_the_folder_of_a_run_is_not_a_file_of_labels(run: Run, tmp_path: Path) -> None:
    labels = write(tmp_path / "labels.csv", ROWS)
    assert run("aggregate", labels, "--method", "majority", "--out", tmp_path / "run").status == 0
    for verb in ("aggregate", "diagnose"):
        done = run(verb, tmp_path / "run")
        assert done.status == 2
        assert "run is the folder of a run. Name the file of labels" in done.err
