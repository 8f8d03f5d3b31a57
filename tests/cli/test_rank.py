"""``consilience rank``: what it prints, writes, and how it ends."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from tests.cli.conftest import Run, strict_json

import consilience as cs
from consilience.datasets import simulate_comparisons


@pytest.fixture
def ranked(run: Run) -> Run:
    """Call the verb."""
    return partial(run, "rank")


@pytest.fixture
def comparisons(tmp_path: Path) -> Path:
    drawn = simulate_comparisons(6, 10, 1500, guessers=0.2, reliability_spread=0.1, spread=1.5, seed=2)
    drawn.comparisons.to_pandas().to_csv(tmp_path / "comparisons.csv", index=False)
    return tmp_path / "comparisons.csv"


def test_sentences_and_tables(ranked: Run, comparisons: Path) -> None:
    done = ranked(comparisons)
    assert done.status == 0
    assert done.out.startswith("1500 comparisons of 6 items by 10 judges")
    first = done.out.index("All 6 items are connected")
    parts = [done.out.index(text) for text in ("Items, best first", "Expected win rate", "Judges who need attention")]
    assert [first, *parts] == sorted([first, *parts])
    assert done.out.count("guesses") == 2


def test_files_and_json(ranked: Run, comparisons: Path, tmp_path: Path) -> None:
    done = ranked(comparisons, "--out", tmp_path / "run", "--json", "--seed", "3")
    summary = strict_json(done.out)
    assert summary["N"] == 6
    assert summary["groups"] == 1
    assert summary["seed"] == 3
    found = cs.Ranking.load(tmp_path / "run")
    assert summary["best"] == found.scores["item"][0]
    written = {file.name for file in (tmp_path / "run").iterdir()}
    assert {"scores.csv", "judges.csv", "pairs.csv", "win_rates.csv", "summary.json", "model.npz"} <= written


def test_report_and_export(ranked: Run, run: Run, comparisons: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ranked(comparisons, "--out", folder)
    assert "Win rates" in (folder / "report.html").read_text("utf-8")
    assert run("report", folder, "--out", tmp_path / "again.html").status == 0
    assert run("report", folder, "--truth", comparisons).status == 2
    assert run("export", folder, "--out", tmp_path / "scores.csv").out.endswith("6 items\n")
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert scores["item"].tolist() == cs.Ranking.load(folder).scores["item"].tolist()
    refused = run("export", folder, "--out", tmp_path / "scores.json")
    assert "a ranking can be written as 'csv', 'parquet' or 'excel'" in refused.err
    for verb in (("diagnose", folder), ("aggregate", folder)):
        done = run(*verb)
        assert done.status == 2
        assert "holds a ranking" in done.err
    with pytest.raises(cs.exceptions.FormatError, match=r"holds a ranking; load it with cs\.Ranking\.load"):
        cs.load(folder)


def test_options_reach_the_model(ranked: Run, comparisons: Path) -> None:
    done = ranked(comparisons, "--equal-judges", "--no-position", "--spread", "1", "--json")
    assert strict_json(done.out)["parameters"] == {"judges": False, "position": False, "spread": 1.0}


def test_bad_data_and_bad_usage(ranked: Run, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("left,right,worker,winner\na,b,x,d\n")
    done = ranked(tmp_path / "c.csv", "--out", tmp_path / "run")
    assert done.status == 1
    assert "the winner 'd' in row 1" in done.err
    assert not (tmp_path / "run").exists()
    assert ranked(tmp_path / "c.csv", "--spread", "-1").status == 2


def test_names_cannot_act_on_the_terminal(ranked: Run, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("left,right,worker,winner\n\x1b[31ma,[bold]b[/],x,left\n")
    done = ranked(tmp_path / "c.csv")
    assert done.status == 0
    assert "\x1b[31m" not in done.out
    assert "[bold]b[/]" in done.out


def test_plan(ranked: Run, run: Run, comparisons: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "run", tmp_path / "plan.csv"
    ranked(comparisons, "--out", folder)
    done = run("plan", comparisons, "--budget", 4, "--out", out)
    assert "expected pairs in the wrong order" in done.out
    expected = cs.plan(cs.Ranking.load(folder), 4).table
    assert pd.read_csv(out)["left"].tolist() == expected["left"].tolist()
    assert [row["right"] for row in strict_json(run("plan", folder, "--budget", 4, "--json").out)["plan"]] == (
        expected["right"].tolist()
    )
    assert run("plan", folder, "--budget", 4, "--costs", 2).status == 2
