"""``consilience update``: new labels come into a run's folder, or the folder stays as it was."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import FILES, ROWS, Run, environment, strict_json, table, tree, write
from tests.cli.test_folders import HANGS

import consilience as cs

EARLY, LATE = [row for row in ROWS if row[0] < "i5"], [row for row in ROWS if row[0] >= "i5"]


@pytest.fixture
def early(tmp_path: Path) -> Path:
    return write(tmp_path / "early.csv", EARLY)


@pytest.fixture
def late(tmp_path: Path) -> Path:
    return write(tmp_path / "late.csv", LATE)


@pytest.fixture
def folder(run: Run, tmp_path: Path, early: Path) -> Path:
    assert run("aggregate", early, "--method", "ds-em", "--out", tmp_path / "run").status == 0
    return tmp_path / "run"


@pytest.mark.parametrize("method", ["auto", "ds-em", "majority", "rob-symnmf+em"])
def test_a_run_that_is_updated_is_the_run_of_all_labels(
    run: Run, tmp_path: Path, early: Path, late: Path, labels: Path, method: str
) -> None:
    for name, file in (("parts", early), ("whole", labels)):
        assert run("aggregate", file, "--method", method, "--out", tmp_path / name).status == 0
    done = run("update", tmp_path / "parts", late)
    assert done.status == 0, done.err
    assert "48 labels of 12 items by 4 annotators, 2 classes" in done.out
    assert {*FILES, "stream.npz", "report.html"} <= {file.name for file in (tmp_path / "parts").iterdir()}
    assert "48" in (tmp_path / "parts" / "report.html").read_text("utf-8")
    parts, whole = ({row["task"]: row for row in table(tmp_path / name / "labels.csv")} for name in ("parts", "whole"))
    assert parts == whole
    assert cs.load(tmp_path / "parts").run["updates"] == 1


def test_updates_go_on_and_on_in_place_or_elsewhere(run: Run, tmp_path: Path, folder: Path, truth: Path) -> None:
    before = tree(folder)
    for turn in range(3):
        new = write(tmp_path / f"{turn}.csv", LATE[turn * 5 : (turn + 1) * 5])
        place = tmp_path / f"to{turn}"
        done = run("update", folder if not turn else tmp_path / f"to{turn - 1}", new, "--out", place, "--json")
        summary = strict_json(done.out)
        assert (summary["updates"], summary["labels"]) == (turn + 1, len(EARLY) + 5 * (turn + 1))
    assert tree(folder) == before
    last = run("update", tmp_path / "to2", write(tmp_path / "more.csv", LATE[15:]), "--truth", truth, "--json")
    assert strict_json(last.out)["error_rate"] == 0.0
    assert cs.load(tmp_path / "to2").run["error_rate"] == 0.0


def test_forgetting_is_said_once_and_kept(run: Run, tmp_path: Path, folder: Path) -> None:
    assert run("update", folder, write(tmp_path / "a.csv", LATE[:14]), "--forget", 0.25).status == 0
    done = run("update", folder, write(tmp_path / "b.csv", LATE[14:]), "--json")
    summary = strict_json(done.out)
    assert (summary["forget"], summary["held"], summary["labels"]) == (0.25, 0, len(ROWS))
    counts = cs.load(folder).counts.sum(axis=(1, 2))
    n = [[sum(who == f"w{m}" for _, who, _ in part) for part in (EARLY, LATE[:14], LATE[14:])] for m in range(4)]
    assert counts.tolist() == pytest.approx([0.75**2 * a + 0.75 * b + c for a, b, c in n])


def test_gold_and_names_of_columns(run: Run, tmp_path: Path, late: Path) -> None:
    odd = write(tmp_path / "odd.csv", EARLY, "page,who,label")
    run("aggregate", odd, "--item", "page", "--annotator", "who", "--method", "ds-em", "--out", tmp_path / "run")
    again = write(tmp_path / "again.csv", LATE, "page,who,label")
    gold = write(tmp_path / "gold.csv", [("i7", "cat")], "task,label")
    assert run("update", tmp_path / "run", again, "--gold", gold).status == 0
    rows = {row["page"]: row for row in table(tmp_path / "run/labels.csv")}
    assert (rows["i7"]["label"], rows["i7"]["confidence"]) == ("cat", "1")
    done = run("update", tmp_path / "run", late)
    assert done.status == 1
    assert "no column 'page'" in done.err
    assert run("update", tmp_path / "run", late, "--item", "task", "--annotator", "worker").status == 0
    assert "page" in table(tmp_path / "run/labels.csv")[0]


def refused(run: Run, folder: Path, status: int, words: str, *arguments: Any) -> None:
    before = tree(folder.parent)
    done = run("update", *arguments)
    assert (done.status, tree(folder.parent)) == (status, before)
    assert words in done.err
    assert len(done.err.splitlines()) == 1


def test_what_fails_leaves_the_folder_as_it_was(run: Run, tmp_path: Path, folder: Path, late: Path) -> None:
    bad = write(tmp_path / "bad.csv", LATE, "task,who,label")
    refused(run, folder, 1, "bad.csv has no annotator column", folder, bad)
    refused(run, folder, 1, "absent.csv", folder, tmp_path / "absent.csv")
    blank = write(tmp_path / "blank.csv", [("i1", "", "cat")])
    refused(run, folder, 1, "blank.csv has no annotator in row 1", folder, blank)
    refused(run, folder, 2, "forget must be a number from 0", folder, late, "--forget", 1.5)
    refused(run, folder, 2, "exclude each other", folder, late, "--forget", 0.5, "--window", 5)
    refused(run, folder, 1, "absent is not the folder of a run", tmp_path / "absent", late)
    gold = write(tmp_path / "gold.csv", [("i7", "fish")], "task,label")
    refused(run, folder, 1, "gold has the label 'fish'", folder, late, "--gold", gold)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.txt").write_text("ten years of work")
    refused(run, folder, 1, "home", folder, late, "--out", tmp_path / "home")
    shutil.rmtree(folder)
    assert run("aggregate", tmp_path / "early.csv", "--method", "glad", "--out", folder).status == 0
    refused(run, folder, 1, "made by glad, which needs all labels at once", folder, late)
    assert run("update", folder, late, "--method", "ds-em").status == 0


def test_a_file_without_rows_changes_nothing(run: Run, tmp_path: Path, folder: Path) -> None:
    before = tree(folder)
    done = run("update", folder, write(tmp_path / "none.csv", []))
    assert done.status == 0
    assert "has no rows: nothing is new" in done.err
    assert "Written" not in done.out
    assert tree(folder) == before


def test_an_update_killed_while_it_writes_leaves_the_old_folder(
    run: Run, tmp_path: Path, folder: Path, late: Path
) -> None:
    before = tree(folder)
    command = [sys.executable, "-c", HANGS, "update", str(folder), str(late)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait(20) == -signal.SIGKILL
    assert tree(folder) == before
    assert run("update", folder, late).status == 0
    assert cs.load(folder).run["labels"] == len(ROWS)
