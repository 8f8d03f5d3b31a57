"""``consilience plan --ceiling`` and ``consilience audit`` of a table that says how judges were asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from tests.cli.conftest import Run


def files_in(folder: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 300)
    skill = {"small 1": 0.75, "small 2": 0.8, "large": 0.95}
    rows = [
        (judge, n, ("no", "yes")[truth[n] if rng.random() < right else 1 - truth[n]], 10.0 if judge == "large" else 1.0)
        for judge, right in skill.items()
        for n in range(300)
    ]
    table = pd.DataFrame(rows, columns=["judge", "item", "answer", "cost"])
    table.to_csv(folder / "labels.csv", index=False)
    pd.DataFrame({"item": range(200), "label": np.array(["no", "yes"])[truth[:200]]}).to_csv(
        folder / "gold.csv", index=False
    )
    return folder / "labels.csv", folder / "gold.csv"


def test_a_ceiling_is_planned_and_written(run: Run, tmp_path: Path) -> None:
    labels, gold = files_in(tmp_path)
    (tmp_path / "costs.csv").write_text("judge,cost\nsmall 1,1\nsmall 2,1\nlarge,10\n")
    options = ("--gold", gold, "--costs", tmp_path / "costs.csv", "--person", 100, "--ceiling", 0.1)
    done = run("plan", labels, *options, "--out", tmp_path / "stages.csv", "--json")
    assert done.status == 0, done.out + done.err
    found = json.loads(done.out)
    assert found["verified"]
    assert found["stages"] == [["small 1", "small 2"], ["large"]]
    assert found["cost"] < 100
    assert len((tmp_path / "stages.csv").read_text().splitlines()) == 4
    assert "give either --budget or --ceiling" in run("plan", labels).err
    assert "--delta and --person need --ceiling" in run("plan", labels, "--budget", 5, "--person", 3).err


def test_columns_of_a_table_reach_the_audit(run: Run, tmp_path: Path) -> None:
    labels, gold = files_in(tmp_path)
    picture = tmp_path / "panels.svg"
    done = run("audit", labels, "--gold", gold, "--no-without", "--refusals", "missing", "--plot", picture)
    assert done.status == 0, done.out + done.err
    assert "No answer was refused or unparsable." in done.out
    assert "of all judges 12" in done.out
    assert picture.read_text().startswith("<?xml")
