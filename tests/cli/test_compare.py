"""``consilience compare``: what it prints, what it writes, how it ends."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Result, Run, strict_json, write

import consilience as cs
import consilience.cli
from consilience.compare import comparison_plot, supervise
from consilience.compare.trial import load_labels
from consilience.exceptions import DataWarning
from consilience.methods.base import registry


@pytest.fixture
def compared(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call the verb."""
    monkeypatch.setitem(consilience.cli.VERBS, "compare", "Compare methods.")
    return partial(run, "compare")


@pytest.fixture(scope="module")
def crowd() -> cs.datasets.Simulation:
    return cs.simulate(200, 8, 3, experts=0.3, seed=5)


@pytest.fixture
def files(tmp_path: Path, crowd: cs.datasets.Simulation) -> tuple[Path, Path]:
    labels, truth = tmp_path / "labels.csv", tmp_path / "truth.csv"
    rows = crowd.annotations.to_frame("pyarrow").to_pylist()
    write(labels, [row.values() for row in rows], "task,worker,label")
    write(truth, enumerate(crowd.truth.tolist()), "task,label")
    return labels, truth


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Methods that take no time: no process is started; what they were asked is noted."""
    asked: list[dict[str, Any]] = []
    figures = {"log_loss": 0.5, "brier": 0.25, "ece": 0.125, "confidence": 0.75, "seconds": 2.5, "memory_mb": 12.0}
    bins = [{"count": 20, "confidence": 15.0, "right": 14}] * 15

    def run(tasks: Any, labels: Path, **options: Any) -> Iterator[supervise.Event]:
        kind, classes = load_labels(labels)[2], load_labels(labels)[0].classes.tolist()
        asked.append({"methods": [task.method for task in tasks], "seeds": tasks[-1].seeds, **options})
        asked[-1] |= {"answers": kind, "classes": classes}
        for task in tasks:
            yield supervise.Event(task, "begun")
            for seed in task.seeds:
                row: dict[str, Any] = {"seed": seed, "status": "done", "note": "", "error": 5.0 + (seed or 0)}
                row |= figures | {"bins": bins}
                if task.method == "one-coin":
                    row = {"seed": seed, "status": "refused", "note": "one-coin needs [bold]two[/] classes"}
                yield supervise.Event(task, "run", row)
            yield supervise.Event(task, "ended")

    monkeypatch.setattr(supervise, "run", run)
    return asked


def test_tables_from_real_runs(compared: Run, files: tuple[Path, Path], crowd: cs.datasets.Simulation) -> None:
    labels, truth = files
    done = compared(labels, "--truth", truth, "--methods", "majority,ds-em")
    assert (done.status, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    assert done.out.startswith("1000 labels of 200 items by 8 annotators, 3 classes; 200 items judged\n")
    for name in ("majority", "ds-em"):
        error = cs.aggregate(crowd.annotations, name).error_rate(crowd.truth)
        assert [name, f"{error:.2f}", "0.00"] in [line[:3] for line in lines]
        costs = next(line for line in lines if line[:1] == [name] and line[-1] == "done")
        assert (costs[2], costs[-2]) == ("s", "1")
    assert "nan" not in done.out.lower()


@pytest.mark.usefixtures("supervised")
def test_a_method_that_refuses_is_a_row(compared: Run, files: tuple[Path, Path]) -> None:
    labels, truth = files
    done = compared(labels, "--truth", truth, "--methods", "one-coin,rob-symnmf", "--seeds", 3)
    assert (done.status, done.err) == (0, "")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "rob-symnmf 6.00 1.00 3.3 to 9.9 0.500 0.250 0.125 0.750" in lines
    assert "rob-symnmf 2.500 s 12.0 MB 3 done" in lines
    assert "one-coin - - 0 refused" in lines
    assert "- one-coin (refused): one-coin needs [bold]two[/] classes" in lines, "printed as it is"


def test_options_reach_the_comparison(
    compared: Run, files: tuple[Path, Path], supervised: list[dict[str, Any]]
) -> None:
    labels, truth = files
    assert compared(labels, "--truth", truth).status == 0
    options = ("--methods", "auto,symnmf+em", "--seeds", 2, "--jobs", 2, "--timeout", 1.5)
    done = compared(labels, "--truth", truth, *options)
    assert done.status == 0
    assert "Note: 2 methods ran at a time" in done.err
    first, second = supervised
    assert first["methods"] == list(registry.METHODS)
    assert (first["jobs"], first["timeout"]) == (1, None)
    told = {"methods": ["auto", "symnmf+em"], "seeds": (0, 1), "jobs": 2, "timeout": 1.5}
    assert second == {**told, "answers": "nominal", "classes": [0, 1, 2]}


def test_answers_are_treated_as_aggregate_does(compared: Run, supervised: list[dict[str, Any]], tmp_path: Path) -> None:
    drawn = cs.datasets.simulate_scale(300, 10, 5, seed=3)
    names = np.array(["very low", "low", "medium", "high", "very high"])
    labels, truth = tmp_path / "labels.csv", tmp_path / "truth.csv"
    frame = drawn.annotations.to_frame("pandas")
    frame.assign(label=names[frame["label"]]).to_csv(labels, index=False)
    write(truth, enumerate(names[drawn.truth].tolist()), "item,label")
    for answers, as_levels in (("auto", True), ("ordinal", True), ("nominal", False)):
        done = compared(labels, "--truth", truth, "--methods", "majority", "--answers", answers, "--json")
        assert done.status == 0
        assert ("labels are treated as a scale from very low to very high" in done.err) == (answers == "auto")
        kind, classes = ("ordinal", names.tolist()) if as_levels else ("nominal", sorted(names))
        assert (supervised[-1]["answers"], supervised[-1]["classes"]) == (kind, classes)
        assert strict_json(done.out)["answers"] == kind
    downwards = ("--order", ",".join(names[::-1]))
    assert compared(labels, "--truth", truth, "--methods", "majority", *downwards).status == 0
    assert supervised[-1]["classes"] == names[::-1].tolist()
    refused = compared(labels, "--truth", truth, "--answers", "open", *downwards)
    assert (refused.status, "order=… is for answers='ordinal'" in refused.err) == (2, True)


@pytest.mark.usefixtures("supervised")
def test_json_csv_folder_and_picture(compared: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    labels, truth = files
    places = ("--out", tmp_path / "run", "--csv", tmp_path / "table.csv", "--plot", tmp_path / "picture.svg")
    done = compared(labels, "--truth", truth, "--methods", "majority,one-coin,symnmf", "--json", *places)
    assert (done.status, done.err) == (0, "")
    content = strict_json(done.out)
    assert [row["method"] for row in content["methods"]] == ["majority", "symnmf", "one-coin"]
    assert [row["runs"] for row in content["methods"]] == [1, 5, 0]
    assert len(content["runs"]) == 7
    assert len(content["reliability"]) == 30
    assert strict_json((tmp_path / "run/summary.json").read_text("utf-8")) == content
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["done", "done", "refused"]
    assert rows[2]["error"] == ""
    assert "<svg" in (tmp_path / "picture.svg").read_text("utf-8")
    said = compared(labels, "--truth", truth, "--methods", "majority", *places).out
    assert said.splitlines()[-1].startswith("Written: ")
    assert all(name in said for name in ("run/comparison.csv", "run/runs.csv", "table.csv", "picture.svg"))


@pytest.mark.usefixtures("supervised")
def test_the_file_is_read_as_aggregate_reads_it(
    compared: Run, files: tuple[Path, Path], tmp_path: Path, crowd: cs.datasets.Simulation
) -> None:
    rows = [list(row.values()) for row in crowd.annotations.to_frame("pyarrow").to_pylist()]
    write(tmp_path / "answers.dat", [*rows, [0, "a0", 1], [0, "a0", 2], [1, "a0", ""]], "picture,who,said")
    write(tmp_path / "truth.csv", [(0, 1), (999, 2), (3, 77)], "picture,said")
    options = ("--format", "csv", "--item", "picture", "--annotator", "who", "--label", "said")
    done = compared(tmp_path / "answers.dat", "--truth", tmp_path / "truth.csv", *options, "--methods", "majority")
    assert done.status == 0, done.err
    for part in ("repeat an answer", "have no label", "1 item is not among", "has the label 77"):
        assert done.err.count(part) == 1, done.err
    assert "; 2 items judged" in done.out


def test_wrong_usage_and_data_that_cannot_be_used(
    compared: Run,
    files: tuple[Path, Path],
    tmp_path: Path,
    supervised: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels, truth = files
    strangers, foreign = tmp_path / "strangers.csv", tmp_path / "home"
    write(strangers, [("nobody", 1)], "task,label")
    foreign.mkdir()
    (foreign / "letter.txt").write_text("dear")

    def ends(status: int, *arguments: Any) -> Result:
        done = compared(*arguments)
        assert (done.status, done.out) == (status, "")
        assert "Error: " in done.err
        assert "Traceback" not in done.err
        return done

    ends(2, labels)
    ends(2)
    ends(1, tmp_path / "absent.csv", "--truth", truth)
    ends(1, labels, "--truth", tmp_path / "absent.csv")
    ends(1, labels, "--truth", strangers)
    ends(1, labels, "--truth", truth, "--out", foreign)
    for name, value in (("methods", "magic"), ("seeds", 0), ("jobs", 0), ("timeout", -1), ("plot", "a.jpeg")):
        ends(2, labels, "--truth", truth, f"--{name}", value)
    monkeypatch.setattr(comparison_plot, "find_spec", lambda _: None)
    done = ends(2, labels, "--truth", truth, "--plot", tmp_path / "a.png")
    assert "pip install 'consilience[plot]'" in done.err
    assert not supervised, "nothing ran"
    assert [path.name for path in foreign.iterdir()] == ["letter.txt"]


def test_help(compared: Run) -> None:
    done = compared("--help")
    assert (done.status, done.err) == (0, "")
    for option in (
        "--truth",
        "--methods",
        "--seeds",
        "--out",
        "--jobs",
        "--timeout",
        "--plot",
        "--csv",
        "--json",
        "--latex",
    ):
        assert option in done.out


def test_warnings_of_the_truth_are_warnings_in_python(crowd: cs.datasets.Simulation, supervised: Any) -> None:
    from consilience.compare.compare import compare

    with pytest.warns(DataWarning, match="not among the labelled items"):
        compare(crowd.annotations, {0: 1, 999: 2}, methods="majority")


@pytest.mark.parametrize(("option", "begins"), [("--markdown", "| method |"), ("--latex", "\\begin{tabular}")])
def test_tables_for_papers_are_all_that_is_printed(
    compared: Run, labels: Path, truth: Path, supervised: Any, option: str, begins: str
) -> None:
    done = compared(labels, "--truth", truth, "--methods", "majority,ds-em", option)
    assert done.status == 0
    assert done.out.startswith(begins)
    assert "majority" in done.out
    assert "What they cost" not in done.out
