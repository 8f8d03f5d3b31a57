"""``consilience diagnose``: what it prints and how it ends."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run, strict_json

import consilience as cs
from consilience.diagnose import diagnose


@pytest.fixture
def diagnosed(run: Run) -> Run:
    """Call the verb."""
    return partial(run, "diagnose")


def write(path: Path, annotations: cs.Annotations, header: str = "task,worker,label", mark: str = "") -> Path:
    rows = annotations.to_frame("pyarrow").to_pylist()
    lines = [",".join(f"{value}{mark}" for value in row.values()) for row in rows]
    path.write_text("\n".join([header, *lines]) + "\n", "utf-8")
    return path


@pytest.fixture(scope="module")
def crowd() -> cs.Annotations:
    return cs.simulate(300, 8, 3, experts=0.4, seed=2).annotations


@pytest.fixture
def labels(tmp_path: Path, crowd: cs.Annotations) -> Path:
    return write(tmp_path / "labels.csv", crowd)


def test_sentences_numbers_and_tables(diagnosed: Run, labels: Path) -> None:
    short = diagnosed(labels).out
    assert short.endswith("\n\n--verbose shows the figures behind this.\n")
    done = diagnosed(labels, "--verbose")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(short.partition("--verbose")[0])
    lines = done.out.splitlines()
    assert lines[0] == "1,500 labels of 300 items by 8 annotators, 3 classes"
    assert lines[2] == "Identified: the labels show how good the annotators are, and so who is right."
    for heading in ("Why", "In numbers", "Classes, and who comes nearest to knowing each"):
        assert heading in [line.strip() for line in lines]
    assert "- annotators with common items: 1 group; every pair of annotators has items in common" in lines
    assert "Annotators, least certain first" in done.out
    assert "- agreement: observed agreement 0." in done.out
    assert "What to do" not in done.out
    assert "nan" not in done.out


def test_json_is_what_python_gives(diagnosed: Run, labels: Path) -> None:
    done = diagnosed(labels, "--json", "--seed", 3, "--bootstrap", 5)
    assert (done.status, done.err) == (0, "")
    assert strict_json(done.out) == diagnose(labels, seed=3, bootstrap=5).to_dict()
    assert strict_json(diagnosed(labels, "--json", "--method", "one-coin").out)["method"] == "one-coin"


def test_a_scale_is_diagnosed_by_its_own_model(diagnosed: Run, tmp_path: Path) -> None:
    annotations = cs.datasets.simulate_scale(150, 10, 4, labels_per_item=6, seed=1).annotations
    path = tmp_path / "scale.csv"
    annotations.to_frame("pandas").to_csv(path, index=False)
    done = diagnosed(path, "--json", "--bootstrap", 0)
    assert "labels are treated as a scale from 0 to 3" in done.err
    run = cs.aggregate(cs.read(path), answers="ordinal")
    assert strict_json(done.out) == diagnose(run.annotations, consensus=run, bootstrap=0).to_dict()
    reverse = strict_json(diagnosed(path, "--json", "--bootstrap", 0, "--order", "3,2,1,0").out)
    assert reverse["verdict"] == run.verdict


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"n_annotators": 2}, "There are only two annotators, a1 and a0"),
        ({"n_annotators": 1}, "All labels come from one annotator, a0"),
        ({"n_annotators": 9, "spammers": 1.0}, "they agree hardly more than they would by guessing"),
        ({"n_annotators": 9, "labels_per_item": 1}, "No item was labelled by two annotators"),
    ],
    ids=["two", "one", "spammers", "single"],
)
def test_a_diagnosis_was_made_whatever_it_is(
    diagnosed: Run, tmp_path: Path, how: dict[str, Any], sentence: str
) -> None:
    done = diagnosed(write(tmp_path / "labels.csv", cs.simulate(200, n_classes=2, seed=1, **how).annotations))
    assert (done.status, done.err) == (0, "")
    assert "Not identified: " in done.out
    assert sentence in done.out
    assert "What to do" in done.out
    assert "nan" not in done.out


def test_the_file_is_read_as_aggregate_reads_it(diagnosed: Run, tmp_path: Path, crowd: cs.Annotations) -> None:
    path = write(tmp_path / "answers.dat", crowd, "picture,who,said")
    options = ("--format", "csv", "--item", "picture", "--annotator", "who", "--label", "said", "--encoding", "latin-1")
    done = diagnosed(path, *options, "--verbose")
    assert done.status == 0, done.err
    assert any(line.split()[:2] == ["who", "n"] for line in done.out.splitlines())
    with path.open("a", encoding="utf-8") as file:
        file.write("0,a0,1\n0,a0,2\n1,a0,\n")
    noted = diagnosed(path, *options)
    assert noted.status == 0
    assert "repeat an answer" in noted.err
    assert "have no label" in noted.err
    assert diagnosed(path, *options, "--duplicates", "error").status == 1


@pytest.mark.parametrize("word", ["[bold]", "[/]", "<script>", ":smile:", "x\\", "{x}", "日本"])
def test_names_are_printed_as_they_are(diagnosed: Run, tmp_path: Path, word: str) -> None:
    a = cs.simulate(200, 2, 2, seed=1).annotations
    done = diagnosed(write(tmp_path / "labels.csv", a, mark=word), "--verbose")
    assert done.status == 0, done.err
    assert f"There are only two annotators, a1{word} and a0{word}: where" in done.out
    assert done.out.count(f"a0{word} ") >= 2, "in a sentence and in a table"


def test_wrong_usage_and_data_that_cannot_be_used(diagnosed: Run, tmp_path: Path, labels: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("task,worker,label\n")
    for arguments, status in (
        ((tmp_path / "absent.csv",), 1),
        ((empty,), 1),
        ((labels, "--method", "magic"), 2),
        ((labels, "--bootstrap", 1), 2),
        ((labels, "--bootstrap", "many"), 2),
        ((), 2),
    ):
        done = diagnosed(*arguments)
        assert (done.status, done.out) == (status, "")
        assert "Error: " in done.err
        assert "Traceback" not in done.err


def test_help(diagnosed: Run) -> None:
    done = diagnosed("--help")
    assert (done.status, done.err) == (0, "")
    assert "diagnose" in done.out.splitlines()[0]
    for option in ("--json", "--seed", "--bootstrap", "--method", "--format", "--duplicates"):
        assert option in done.out
