"""``consilience aggregate --answers ordinal``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from tests.cli.conftest import Run

from consilience.datasets import load, simulate_scale

LETTERS = "GPRX"


def write(folder: Path, names: Sequence[str], n_items: int = 150) -> Path:
    crowd = simulate_scale(n_items, 10, 4, seed=3)
    frame = crowd.annotations.to_frame("pandas")
    frame.columns = ["task", "worker", "label"]
    frame.assign(label=[names[k] for k in frame["label"]]).to_csv(folder / "labels.csv", index=False)
    truth = pd.DataFrame({"task": range(n_items), "label": [names[k] for k in crowd.truth]})
    truth.to_csv(folder / "truth.csv", index=False)
    return folder / "labels.csv"


def test_a_scale_from_the_command_line(run: Run, tmp_path: Path) -> None:
    labels = write(tmp_path, LETTERS)
    order = ("--order", "G, P,R,X")
    done = run("aggregate", labels, *order, "--truth", tmp_path / "truth.csv", "--out", tmp_path / "run")
    assert done.status == 0
    assert "4 levels" in done.out
    table = pd.read_csv(tmp_path / "run" / "labels.csv")
    assert list(table.columns)[-2:] == ["mean", "median"]
    assert table["mean"].between(1, 4).all()
    assert set(table["median"]) <= set(LETTERS)
    people = pd.read_csv(tmp_path / "run" / "annotators.csv")
    assert list(people.columns)[-2:] == ["severity", "spread"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["answers"], summary["scale"]) == ("ordinal", [1.0, 2.0, 3.0, 4.0])
    assert run("report", tmp_path / "run").status == 0


def test_an_unknown_order_is_refused(run: Run, tmp_path: Path) -> None:
    done = run("aggregate", write(tmp_path, LETTERS), "--answers", "ordinal", "--out", tmp_path / "run")
    assert done.status == 1
    assert "--order low,medium,high" in done.err
    assert not (tmp_path / "run").exists()


def test_a_possible_scale_is_mentioned(run: Run, tmp_path: Path) -> None:
    load("dawid_skene").annotations.to_frame("pandas").to_csv(tmp_path / "few.csv", index=False)
    done = run("aggregate", tmp_path / "few.csv")
    assert "labels may be a scale from 1 to 4: answers='ordinal'" in done.err


def test_levels_are_shown_as_they_are(run: Run, tmp_path: Path) -> None:
    done = run("aggregate", write(tmp_path, ["0.5", "1.0", "1.5", "2.0"], 600))
    assert "labels are treated as a scale from 0.5 to 2.0" in done.err
    assert " 1.5 " in done.out
    assert "1.500" not in done.out


def test_plan_and_diagnosis_know_the_order(run: Run, tmp_path: Path) -> None:
    labels = write(tmp_path, LETTERS)
    for verb in (("plan", labels, "--budget", 3), ("diagnose", labels, "--bootstrap", 0)):
        assert "--order low,medium,high" in run(*verb, "--answers", "ordinal").err
        assert run(*verb, "--order", "G,P,R,X").status == 0
