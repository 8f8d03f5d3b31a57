"""``consilience audit``: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.audit import panel
from tests.cli.conftest import Run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    made = panel(0, "position", 0.1, n=400)
    made.annotations.to_frame("pandas").to_csv(tmp_path / "labels.csv", index=False)
    for name in ("order", "length", "author"):
        getattr(made, name).to_csv(tmp_path / f"{name}.csv", index=False)
    known = [f"{item},{label}" for item, label in made.truth.items() if item % 4 == 0]
    (tmp_path / "known.csv").write_text("item,label\n" + "\n".join(known))
    (tmp_path / "judges.csv").write_text("annotator,judge\njudge 0,zero\n")
    return tmp_path


def test_it_prints_the_page(run: Run, files: Path) -> None:
    done = run("audit", files / "labels.csv", "--no-without")
    assert done.status == 0, done.out + done.err
    assert done.out.startswith("8 judges, 400 items, 0 known answers.\nWithout known answers,")


def test_json_has_all_tables(run: Run, files: Path) -> None:
    options = [part for name in ("order", "length", "author") for part in (f"--{name}", files / f"{name}.csv")]
    done = run(
        "audit", files / "labels.csv", "--gold", files / "known.csv", *options, "--judges", files / "judges.csv",
        "--good", "A", "--json",
    )  # fmt: skip
    assert done.status == 0, done.out + done.err
    found = json.loads(done.out)
    assert found["known"] == 100
    assert {row["effect"] for row in found["effects"]} == {"leniency", "position", "length", "self-preference"}
    position = next(row for row in found["effects"] if row["effect"] == "position" and row["judge"] == "all judges")
    assert position["low"] < 10 < position["high"]
    assert any(row["judge"] == "zero" for row in found["effects"])
    assert len(found["panels"]) == len(found["judges"]) == 8


def test_a_table_of_judges_needs_two_columns(run: Run, files: Path) -> None:
    done = run("audit", files / "labels.csv", "--judges", files / "order.csv")
    assert done.status == 1
    assert "must have two columns, annotator and judge, not 3" in done.err
