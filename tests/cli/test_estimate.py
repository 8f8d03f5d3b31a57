"""``consilience estimate``: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run

import consilience as cs


@pytest.fixture
def files(tmp_path: Path) -> Path:
    crowd = cs.simulate(600, 8, 2, labels_per_item=4, seed=3)
    a = crowd.annotations
    rows = zip(a.item_of_label(), a.annotator, a.label, strict=True)
    lines = [f"{a.items[n]},{a.annotators[m]},{['no', 'yes'][k]}" for n, m, k in rows]
    (tmp_path / "labels.csv").write_text("task,worker,label\n" + "\n".join(lines))
    known = [f"{item},{['no', 'yes'][int(crowd.truth[n])]}" for n, item in enumerate(a.items) if n % 6 == 0]
    (tmp_path / "known.csv").write_text("task,label\n" + "\n".join(known))
    (tmp_path / "groups.csv").write_text("task,group\n" + "\n".join(f"{i},g{n % 2}" for n, i in enumerate(a.items)))
    (tmp_path / "share.txt").write_text(str(float((crowd.truth == 1).mean())))
    return tmp_path


def test_it_prints_the_interval_and_what_the_labels_are_worth(run: Run, files: Path) -> None:
    done = run("estimate", files / "labels.csv", "--gold", files / "known.csv", "--of", "yes", "--half-width", 0.05)
    assert done.status == 0, done.out + done.err
    first, humans, *rest = done.out.splitlines()
    assert first.startswith("share of yes: 0.")
    assert "95% interval from known answers" in first
    assert humans.startswith("The 100 known answers alone: 0.")
    assert "A half-width of 0.05 takes about" in rest[-1]


def test_json_has_the_figures_of_python(run: Run, files: Path) -> None:
    done = run(
        "estimate", files / "labels.csv", "--gold", files / "known.csv", "--of", "yes=1", "--of", "no=0",
        "--by", files / "groups.csv", "--json",
    )  # fmt: skip
    assert done.status == 0, done.out + done.err
    found = json.loads(done.out)
    share = float((files / "share.txt").read_text())
    assert found["low"] < share < found["high"]
    assert [row["group"] for row in found["groups"]] == ["g0", "g1"]
    same = cs.estimate(cs.read(files / "labels.csv"), gold=cs.read_truth(files / "known.csv"), of="yes")
    assert found["value"] == pytest.approx(same.value)


def test_without_known_answers_it_says_so_and_proposes_items(run: Run, files: Path) -> None:
    out = files / "ask.csv"
    done = run("estimate", files / "labels.csv", "--of", "yes", "--sample", 40, "--out", out)
    assert done.status == 0, done.out + done.err
    assert "This is a range, not an interval: add known answers with --gold." in done.out
    lines = out.read_text().splitlines()
    assert lines[0] == "item"
    assert 38 <= len(lines) - 1 <= 44


@pytest.mark.parametrize(
    ("options", "status", "sentence"),
    [
        (["--of", "maybe"], 2, "of='maybe' is not one of the classes. The classes are 'no', 'yes'"),
        ([], 2, "say what to estimate"),
        (["--of", "yes", "--sample", "40"], 2, "--sample and --out go together"),
        (["--of", "yes", "--half-width", "0.0001"], 1, "no number of known answers reaches a half-width"),
    ],
)
def test_mistakes_get_one_sentence(run: Run, files: Path, options: list[str], status: int, sentence: str) -> None:
    done = run("estimate", files / "labels.csv", "--gold", files / "known.csv", *options)
    assert done.status == status
    assert sentence in done.err
