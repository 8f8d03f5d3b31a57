"""Folders that are written: refused where they are not ours, whole or not there at all."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import FILES, Run, environment, strict_json, tree, write

import consilience as cs


def _arguments(verb: str, labels: Path) -> list[Any]:
    """What a verb needs to run, besides --out."""
    if verb == "aggregate":
        return [labels]
    return ["--items", 20, "--annotators", 5] if verb == "simulate" else []


@pytest.mark.parametrize(
    "content",
    [
        {"thesis.txt": "ten years of work"},
        {"labels.csv": "task,worker,label\n1,2,3\n", "truth.csv": "task,label\n1,2\n"},
        {"summary.json": '{"mine": true}', "thesis.txt": "ten years of work"},
        {"summary.json": "not even JSON", "thesis.txt": "ten years of work"},
        {"sub/thesis.txt": "ten years of work"},
    ],
    ids=["text", "data", "other-summary", "broken-summary", "nested"],
)
@pytest.mark.parametrize("verb", ["aggregate", "simulate", "demo"])
def test_a_folder_that_is_not_ours_is_refused_and_untouched(
    run: Run, tmp_path: Path, labels: Path, content: dict[str, str], verb: str
) -> None:
    home = tmp_path / "home"
    for name, text in content.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    before = tree(tmp_path)
    arguments = _arguments(verb, labels)
    done = run(verb, *arguments, "--out", home)
    assert tree(tmp_path) == before
    assert done.status in (1, 2)
    assert "home" in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("verb", ["aggregate", "simulate", "demo"])
def test_a_file_in_the_way_is_refused_and_untouched(run: Run, tmp_path: Path, labels: Path, verb: str) -> None:
    (tmp_path / "home").write_text("a file")
    before = tree(tmp_path)
    arguments = _arguments(verb, labels)
    assert run(verb, *arguments, "--out", tmp_path / "home").status in (1, 2)
    assert tree(tmp_path) == before


def test_an_earlier_run_is_replaced_and_an_empty_folder_filled(run: Run, tmp_path: Path, labels: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    assert run("aggregate", labels, "--out", folder).status == 0
    first = tree(folder)
    other = write(tmp_path / "other.csv", [(f"x{n}", f"y{m}", n % 3) for n in range(9) for m in range(3)])
    assert run("aggregate", other, "--out", folder, "--method", "majority").status == 0
    second = tree(folder)
    assert set(second) == set(first)
    assert all(second[name] != first[name] for name in FILES)
    assert cs.load(folder).run["K"] == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["labels.csv", "other.csv", "run"]


def test_an_earlier_simulation_is_replaced(run: Run, tmp_path: Path) -> None:
    options = ("--items", 30, "--annotators", 4, "--out", tmp_path / "crowd")
    assert run("simulate", *options).status == 0
    before = tree(tmp_path / "crowd")
    assert run("simulate", *options, "--seed", 1).status == 0
    after = tree(tmp_path / "crowd")
    assert set(after) == set(before)
    assert after["labels.csv"] != before["labels.csv"]


#: Stops for good once the first files of the new folder are written.
HANGS = """
import sys, time
import numpy as np
from consilience.cli import main
def hang(*arguments, **more):
    print("writing", flush=True)
    time.sleep(60)
np.savez = hang
main(sys.argv[1:])
"""


@pytest.mark.parametrize("there", [True, False])
def test_a_run_killed_while_it_writes_leaves_the_old_folder(
    run: Run, tmp_path: Path, labels: Path, there: bool
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    if there:
        assert run("aggregate", labels, "--out", place / "run").status == 0
    before = tree(place)
    command = [
        sys.executable,
        "-c",
        HANGS,
        "aggregate",
        str(labels),
        "--method",
        "majority",
        "--out",
        str(place / "run"),
    ]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait(20) == -signal.SIGKILL
    if there:
        assert {name: tree(place)[name] for name in before} == before
        assert cs.load(place / "run").run["method"] == "auto"
    else:
        assert not (place / "run").exists()
    # what the dead left behind is hidden, and in nobody's way
    assert [p.name for p in place.iterdir() if not p.name.startswith(".")] == (["run"] if there else [])
    assert run("aggregate", labels, "--out", place / "run", "--method", "majority").status == 0
    assert cs.load(place / "run").run["method"] == "majority"


#: Saves two runs in turn, as fast as it can.
ALTERNATES = """
import itertools, sys
import consilience as cs
*runs, place = sys.argv[1:]
runs = [cs.load(run) for run in runs]
for turn in itertools.count():
    runs[turn % 2].save(place)
    if turn == 1:
        print("ready", flush=True)
"""


def test_runs_killed_at_random_never_leave_a_mixture(tmp_path: Path, labels: Path) -> None:
    wanted: dict[str, dict[str, bytes]] = {}
    for method in ("majority", "one-coin"):
        cs.aggregate(cs.read(labels), method).save(tmp_path / method)
        wanted[method] = tree(tmp_path / method)
    compared = ("labels.csv", "annotators.csv", "posterior.parquet")
    place = tmp_path / "place"
    place.mkdir()
    chance = random.Random(0)
    for _ in range(4):
        command = [sys.executable, "-c", ALTERNATES, *(str(tmp_path / method) for method in wanted), str(place / "run")]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0, 0.05))
            process.kill()
            process.wait(20)
        left = tree(place / "run")
        method = strict_json(left["summary.json"].decode())["method"]
        assert set(left) == set(wanted[method])
        assert [name for name in compared if left[name] != wanted[method][name]] == []
        assert cs.load(place / "run").model == cs.load(tmp_path / method).model
