"""``consilience plan``: what it prints, what it writes, and how it ends."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from tests.cli.conftest import Run, strict_json
from tests.cli.test_diagnose import write

import consilience as cs


@pytest.fixture
def planned(run: Run) -> Run:
    """Call the verb."""
    return partial(run, "plan")


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return write(tmp_path / "labels.csv", cs.simulate(200, 8, 3, labels_per_item=2, seed=2).annotations)


def test_tables(planned: Run, labels: Path) -> None:
    done = planned(labels, "--budget", 30)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("30 labels of ")
    assert lines[0].endswith(" annotators, 30 of 30 spent")
    assert lines[1].startswith("expected wrong labels: ")
    assert "Labels to buy (12 of 30)" in done.out
    assert "Items whose truth is worth knowing" in done.out
    assert "% of the time" in done.out
    assert "Who is asked" in done.out
    assert "bits" not in done.out
    assert "gain" not in done.out


def test_json_is_what_python_gives(planned: Run, labels: Path) -> None:
    done = planned(labels, "--budget", 20, "--capacity", 5, "--questions", 3, "--json")
    assert (done.status, done.err) == (0, "")
    assert strict_json(done.out) == cs.plan(labels, 20, capacity=5, gold=3).to_dict()


def test_costs_and_capacities_from_files(planned: Run, labels: Path, tmp_path: Path) -> None:
    costs, capacity, out = (tmp_path / name for name in ("costs.csv", "capacity.csv", "tomorrow.csv"))
    costs.write_text("worker,cost\n" + "".join(f"a{m},{1 + m % 2}\n" for m in range(8)))
    capacity.write_text("worker,team,capacity\na1,x,100\na2,y,5\n")
    done = planned(labels, "--budget", 25, "--costs", costs, "--capacity", capacity, "--out", out)
    assert done.status == 0, done.err
    table = pd.read_csv(out)
    assert list(table.columns) == ["task", "worker", "reason", "gain", "cost"]
    assert table.groupby("worker").size().to_dict() == {"a1": 10, "a2": 5}
    assert table["cost"].sum() == 25
    assert done.out.splitlines()[-1] == f"Written to {out}: 15 labels"


def test_known_answers_are_not_bought(planned: Run, labels: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.csv"
    gold.write_text("task,label\n" + "".join(f"{n},0\n" for n in range(150)))
    done = planned(labels, "--budget", 20, "--gold", gold, "--json")
    assert done.status == 0, done.err
    assert min(row["task"] for row in strict_json(done.out)["plan"]) >= 150


@pytest.mark.parametrize("word", ["[bold]", "{x}", "日本"])
def test_names_are_printed_as_they_are(planned: Run, tmp_path: Path, word: str) -> None:
    path = write(tmp_path / "labels.csv", cs.simulate(50, 4, 2, labels_per_item=2, seed=1).annotations, mark=word)
    done = planned(path, "--budget", 5)
    assert done.status == 0, done.err
    assert f"0{word} (" in done.out
    assert f"1{word} (" in done.out


def test_wrong_usage_and_data_that_cannot_be_used(planned: Run, tmp_path: Path, labels: Path) -> None:
    empty, words = tmp_path / "empty.csv", tmp_path / "words.csv"
    empty.write_text("worker,cost\n")
    words.write_text("worker,cost\na0,cheap\n")
    tokens = tmp_path / "names.conll"
    tokens.write_text("Ann B-PER B-PER O\nLee I-PER O O\n")
    for arguments, status in (
        ((labels,), 2),
        ((labels, "--budget", "many"), 2),
        ((labels, "--budget", -3), 2),
        ((labels, "--budget", 3, "--costs", 0), 2),
        ((labels, "--budget", 3, "--costs", tmp_path / "absent.csv"), 1),
        ((labels, "--budget", 3, "--costs", empty), 1),
        ((labels, "--budget", 3, "--costs", words), 1),
        ((tmp_path / "absent.csv", "--budget", 3), 1),
        ((tokens, "--budget", 3), 1),
    ):
        done = planned(*arguments)
        assert (done.status, done.out) == (status, ""), arguments
        assert "Error: " in done.err
        assert "Traceback" not in done.err
