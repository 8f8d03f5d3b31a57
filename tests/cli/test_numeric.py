"""``consilience aggregate`` and the other verbs on numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.cli.conftest import FILES, Run, strict_json, tree

from consilience.datasets import simulate_numeric


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    crowd = simulate_numeric(80, 8, labels_per_item=5, slips=0.02, seed=1)
    labels, truth = tmp_path / "labels.csv", tmp_path / "truth.csv"
    crowd.annotations.to_frame("pandas").round(2).to_csv(labels, index=False)
    pd.DataFrame({"item": range(80), "label": crowd.truth}).to_csv(truth, index=False)
    return labels, truth


def test_numbers_from_the_command_line(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    labels, truth = files
    done = run("aggregate", labels, "--truth", truth, "--out", tmp_path / "run")
    assert done.status == 0
    assert "treated as numbers (answers='numeric'). If they are names of classes, say answers='nominal'" in done.err
    assert "The answers show who is near the truth." in done.out
    assert "Expected error: " in done.out
    assert "Against the truth given: mean absolute error " in done.out
    assert "Answers that were left out" in done.out
    assert "400 labels of 80 items by 8 annotators, numbers, read as" in done.out
    assert set(tree(tmp_path / "run")) >= {*FILES, "values.parquet", "weights.parquet", "report.html"}
    summary = strict_json((tmp_path / "run/summary.json").read_text("utf-8"))
    assert summary["answers"] == "numeric"
    assert summary["verdict"] == "identified"
    assert summary["estimated_error_low"] < summary["estimated_error"] < summary["estimated_error_high"]
    assert 0 < summary["mean_absolute_error"] < summary["root_mean_square_error"]
    assert "error_rate" not in summary
    header = (tmp_path / "run/labels.csv").read_text("utf-8").splitlines()[0]
    assert header == '"item","value","low","high","n_labels"'


def test_options_and_gold(run: Run, files: tuple[Path, Path]) -> None:
    labels, truth = files
    done = run("aggregate", labels, "--answers", "numeric", "--gold", truth, "--verbose")
    assert done.status == 0
    assert "treated as numbers" not in done.err
    assert "from 80 known values" in done.out
    assert "weights of the members: mean " in done.out
    assert "NaN" not in run("aggregate", labels, "--answers", "numeric", "--json").out
    assert run("aggregate", labels, "--answers", "numeric", "--method", "ds-em").status == 2


def test_other_verbs(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    labels, truth = files
    assert run("aggregate", labels, "--out", tmp_path / "run").status == 0
    assert run("report", tmp_path / "run", "--truth", truth).status == 0
    assert "Mean absolute error" in (tmp_path / "run/report.html").read_text("utf-8")
    assert run("export", tmp_path / "run", "--out", tmp_path / "values.csv").status == 0
    assert pd.read_csv(tmp_path / "values.csv").columns.tolist() == ["item", "value", "low", "high", "n_labels"]
    diagnosed = run("diagnose", labels)
    assert diagnosed.status == 0
    assert "Two answers to an item have a correlation of" in diagnosed.out
    assert strict_json(run("diagnose", labels, "--json").out)["format"] == "consilience.NumericDiagnosis"
    named = ("--from-name", "price", "--to-name", "text")
    assert run("export", tmp_path / "run", "--out", tmp_path / "tasks.json", *named).status == 0
    tasks: Any = strict_json((tmp_path / "tasks.json").read_text("utf-8"))
    made = tasks[0]["predictions"][0]
    assert made["result"][0]["type"] == "number"
    assert made["result"][0]["value"]["number"] == pytest.approx(pd.read_csv(tmp_path / "values.csv")["value"][0])
    assert 0.0 <= made["score"] <= 1.0
    planned = run("plan", labels, "--budget", "5")
    assert planned.status == 0
    assert "expected mean absolute error:" in planned.out
    assert "is off by about" in planned.out
    compared = run("compare", labels, "--truth", truth, "--csv", tmp_path / "compared.csv")
    assert compared.status == 0
    table = pd.read_csv(tmp_path / "compared.csv").set_index("method")
    plain = pd.read_csv(labels).groupby("item")["label"].mean()
    known = pd.read_csv(truth).set_index("item")["label"].reindex(plain.index)
    assert table.loc["mean", "mean_absolute"] == pytest.approx((plain - known).abs().mean())
    assert table.loc["numeric", "mean_absolute"] < table.loc["mean", "mean_absolute"]
    assert "at least 200 answers" in table.loc["kernel-density", "note"]
    assert run("compare", labels, "--truth", truth, "--markdown").status == 2
    for refused in (
        run("export", tmp_path / "run", "--out", tmp_path / "tasks.jsonl", "--format", "prodigy"),
        run("update", tmp_path / "run", labels),
    ):
        assert refused.status in (1, 2)
        assert refused.err.count("\n") == 1
        assert "numbers" in refused.err
