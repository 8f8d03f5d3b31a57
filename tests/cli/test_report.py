"""The verb report, and the report that every saved run has."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import TRUTH, Run, tree
from tests.report.conftest import parsed

import consilience as cs


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    place = tmp_path / "truth.csv"
    place.write_text("task,label\n" + "".join(f"{item},{label}\n" for item, label in TRUTH.items()))
    return place


def test_aggregate_writes_it(run: Run, tmp_path: Path, labels: Path, truth: Path) -> None:
    assert run("aggregate", labels, "--out", tmp_path / "run").status == 0
    page = parsed((tmp_path / "run/report.html").read_text("utf-8"))
    assert page.one("h1").text == labels.name
    assert not page.all("section", id="calibration")
    assert run("aggregate", labels, "--out", tmp_path / "run", "--truth", truth).status == 0
    page = parsed((tmp_path / "run/report.html").read_text("utf-8"))
    assert page.all("section", id="calibration")


def test_demo_writes_it(run: Run, tmp_path: Path) -> None:
    assert run("demo", "--out", tmp_path / "run").status == 0
    assert parsed((tmp_path / "run/report.html").read_text("utf-8")).one("h1").text == "Dawid & Skene (1979)"


def test_the_verb_writes_it_again(run: Run, tmp_path: Path, labels: Path, truth: Path) -> None:
    folder = tmp_path / "<i>run & co"
    cs.aggregate(cs.read(labels)).save(folder)
    done = run("report", folder)
    assert (done.status, done.err) == (0, "")
    assert "Written to" in done.out
    assert parsed((folder / "report.html").read_text("utf-8")).one("h1").text == "<i>run & co"
    before = tree(folder)
    out = tmp_path / "other.html"
    done = run("report", folder, "--out", out, "--truth", truth, "--title", "Cats", "--items", 3)
    assert done.status == 0
    page = parsed(out.read_text("utf-8"))
    assert page.one("h1").text == "Cats"
    assert page.all("section", id="calibration")
    assert tree(folder) == before


def test_what_cannot_be_reported(run: Run, tmp_path: Path, labels: Path) -> None:
    done = run("report", tmp_path / "absent")
    assert done.status == 1
    assert "absent" in done.err
    assert not (tmp_path / "absent").exists()
    cs.aggregate(cs.read(labels), "majority").save(tmp_path / "run")
    before = tree(tmp_path / "run")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("task,label\nnobody,cat\n")
    assert run("report", tmp_path / "run", "--truth", wrong).status == 1
    assert run("report", tmp_path / "run", "--items", -1).status == 2
    assert tree(tmp_path / "run") == before


def test_sequences(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "names.conll"
    place.write_text("Ann B-PER B-PER B-PER\nLee I-PER O I-PER\nsaw O O O\n\nBob B-PER B-PER ?\n")
    assert run("aggregate", place, "--method", "majority+hmm", "--out", tmp_path / "run").status == 0
    before = (tmp_path / "run/report.html").read_text("utf-8")
    assert run("report", tmp_path / "run", "--title", "names.conll").status == 0
    assert (tmp_path / "run/report.html").read_text("utf-8") == before
