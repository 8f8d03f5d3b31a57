"""``consilience aggregate --answers open``."""

from __future__ import annotations

from pathlib import Path

from tests.answers.conftest import open_crowd
from tests.cli.conftest import FILES, Run, strict_json, tree


def test_open_answers_from_the_command_line(run: Run, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    open_crowd(50, 6, 4, seed=1).annotations.to_frame("pandas").to_csv(labels, index=False)
    done = run("aggregate", labels, "--answers", "open", "--out", tmp_path / "run")
    assert (done.status, done.err) == (0, "")
    assert "200 labels of 50 items by 6 annotators, " in done.out
    assert " different answers, read as" in done.out
    assert "Classes" not in done.out
    assert set(tree(tmp_path / "run")) >= {*FILES, "candidates.parquet", "report.html"}
    assert strict_json((tmp_path / "run/summary.json").read_text("utf-8"))["answers"] == "open"
    again = run("report", tmp_path / "run", "--out", tmp_path / "again.html")
    assert again.status == 0
    guessed = run("aggregate", labels)
    assert guessed.status == 0
    assert "options are taken to differ from item to item (answers='open')" in guessed.err
    assert run("aggregate", labels, "--answers", "ranked").status == 2
