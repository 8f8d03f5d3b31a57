"""The command line: how it ends, its other verbs, its help."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import FILES, ROWS, Run, child, environment, strict_json, table, tree, write

import consilience as cs
from consilience.cli.aggregate import command as aggregate

VERBS = ("aggregate", "diagnose", "compare", "simulate", "datasets", "demo")


# ---- how it ends --------------------------------------------------------------------------------------------


BAD = (
    "missing",
    "empty",
    "ragged",
    "bytes",
    "blank id",
    "columns",
    "cut",
    "folder",
    "truth missing",
    "truth strange",
    "truth twice",
    "truth empty",
    "gold strange",
    "gold of no class",
    "gold twice",
)


def _bad_inputs(folder: Path) -> dict[str, list[Any]]:
    good = write(folder / "good.csv", ROWS)
    empty = folder / "empty.csv"
    empty.write_text("")
    ragged = folder / "ragged.csv"
    ragged.write_text("task,worker,label\na,b,c\na,b\n")
    bytes_ = folder / "bytes.csv"
    bytes_.write_bytes(b"task,worker,label\na,b,\xff\n")
    blank = write(folder / "blank.csv", [("", "w", "x")])
    strange = write(folder / "strange.csv", [("nobody", "cat")], "task,label")
    bird = write(folder / "bird.csv", [("i0", "bird")], "task,label")
    two = write(folder / "two.csv", [("i0", "cat"), ("i0", "dog")], "task,label")
    columns = write(folder / "columns.csv", ROWS, "a,b,c")
    cut = folder / "cut.parquet"
    cut.write_bytes(b"PAR1 and then nothing")
    return {
        "missing": [folder / "absent.csv"],
        "empty": [empty],
        "ragged": [ragged],
        "bytes": [bytes_],
        "blank id": [blank],
        "columns": [columns],
        "cut": [cut],
        "folder": [folder],
        "truth missing": [good, "--truth", folder / "absent.csv"],
        "truth strange": [good, "--truth", strange],
        "truth twice": [good, "--truth", two],
        "truth empty": [good, "--truth", empty],
        "gold strange": [good, "--gold", strange],
        "gold of no class": [good, "--gold", bird],
        "gold twice": [good, "--gold", two],
    }


@pytest.mark.parametrize("case", BAD)
def test_data_that_cannot_be_used_ends_with_one_line_and_nothing_written(run: Run, tmp_path: Path, case: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    arguments = _bad_inputs(data)[case]
    before = tree(tmp_path)
    done = run("aggregate", *arguments, "--out", tmp_path / "out" / "run")
    assert done.status == 1
    assert done.out == ""
    assert len(done.err.splitlines()) == 1, done.err
    assert done.err.startswith("Error: ")
    assert "Traceback" not in done.err
    assert tree(tmp_path) == before
    assert not (tmp_path / "out").exists()


def test_a_failed_run_leaves_the_earlier_one(run: Run, tmp_path: Path, labels: Path) -> None:
    assert run("aggregate", labels, "--out", tmp_path / "run").status == 0
    before = tree(tmp_path / "run")
    labels.write_text("task,worker,label\n")
    assert run("aggregate", labels, "--out", tmp_path / "run").status == 1
    assert tree(tmp_path / "run") == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["labels.csv", "run"]


def test_a_data_error_in_its_own_process_is_one_line(tmp_path: Path) -> None:
    done = child("aggregate", tmp_path / "absent.csv")
    assert done.status == 1
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert "absent.csv" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["aggregate"],
        ["aggregate", "LABELS", "--nonsense"],
        ["aggregate", "LABELS", "--method", "ds-en"],
        ["aggregate", "LABELS", "--engine", "moon"],
        ["aggregate", "LABELS", "--format", "word"],
        ["aggregate", "LABELS", "--tol", "5"],
        ["aggregate", "LABELS", "--tol", "many"],
        ["aggregate", "LABELS", "--tol", "nan"],
        ["aggregate", "LABELS", "--max-iter", "-1"],
        ["aggregate", "LABELS", "--smoothing", "-1"],
        ["aggregate", "LABELS", "--smoothing", "inf"],
        ["aggregate", "LABELS", "--seed", "x"],
        ["simulate"],
        ["simulate", "--out", "OUT", "--items", "0"],
        ["simulate", "--out", "OUT", "--prior", "a,b"],
        ["simulate", "--out", "OUT", "--prior", "0.5,0.6"],
        ["simulate", "--out", "OUT", "--experts", "2"],
        ["simulate", "--out", "OUT", "--label-probability", "3"],
        ["simulate", "--out", "OUT", "--labels-per-item", "2", "--label-probability", "0.5"],
        ["datasets", "info", "nonsense"],
        ["datasets", "path", "nonsense"],
        ["demo", "--nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_two(run: Run, tmp_path: Path, labels: Path, arguments: list[str]) -> None:
    out = tmp_path / "out"
    places = {"LABELS": labels, "OUT": out}
    extra = ["--out", out] if arguments[:2] == ["aggregate", "LABELS"] else []
    done = run(*[places.get(argument, argument) for argument in arguments], *extra)
    assert done.status == 2
    assert done.err.strip()
    assert "Traceback" not in done.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["labels.csv"]


def test_a_slip_in_the_methods_name_is_answered(run: Run, labels: Path) -> None:
    assert "did you mean 'one-coin'" in run("aggregate", labels, "--method", "one-coyn").err


# ---- simulate -----------------------------------------------------------------------------------------------


def test_simulate_then_aggregate(run: Run, tmp_path: Path) -> None:
    crowd = tmp_path / "crowd"
    sizes = ("--items", 400, "--annotators", 20, "--classes", 3, "--labels-per-item", 7)
    done = run("simulate", *sizes, "--experts", 0.2, "--spammers", 0.2, "--prior", "0.5,0.3,0.2", "--out", crowd)
    assert done.status == 0, done.err
    assert set(tree(crowd)) >= {"labels.csv", "truth.csv", "model.npz"}
    assert len(table(crowd / "labels.csv")) == 400 * 7
    assert list(table(crowd / "truth.csv")[0]) == ["task", "label"]
    done = run("aggregate", crowd / "labels.csv", "--truth", crowd / "truth.csv", "--json")
    summary = strict_json(done.out)
    assert (summary["N"], summary["M"], summary["K"], summary["labels"]) == (400, 20, 3, 2800)
    assert 0 < summary["error_rate"] < 12
    model = cs.DawidSkene.load(crowd / "model.npz")
    assert model.confusions.shape == (20, 3, 3)
    assert model.prior == pytest.approx([0.5, 0.3, 0.2])
    assert run("simulate", *sizes, "--out", tmp_path / "one", "--seed", 9).status == 0
    assert run("simulate", *sizes, "--out", tmp_path / "two", "--seed", 9).status == 0
    assert tree(tmp_path / "one")["labels.csv"] == tree(tmp_path / "two")["labels.csv"]
    assert tree(tmp_path / "one")["labels.csv"] != tree(crowd)["labels.csv"]


# ---- datasets and demo --------------------------------------------------------------------------------------


def test_datasets_list(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSILIENCE_DATA", str(tmp_path))
    done = run("datasets", "list")
    assert (done.status, done.err) == (0, "")
    lines = {line.split()[0]: line.split() for line in done.out.splitlines() if line.strip()}
    assert set(cs.datasets.names()) <= set(lines)
    assert "yes" in lines["dawid_skene"]
    assert "no" in lines["bluebird"]


def test_datasets_info(run: Run) -> None:
    for name in cs.datasets.names():
        about = cs.datasets.info(name)
        done = run("datasets", "info", name)
        assert (done.status, done.err) == (0, "")
        for part in (name, about.repository, about.commit, about.licence, *about.paths):
            assert str(part) in done.out
        for key, value in about.counts.items():
            written = {"N": "items", "M": "annotators", "K": "classes"}.get(key, "")
            assert re.search(rf"^{written}.*: {value}$", done.out, re.MULTILINE)


def test_datasets_path(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONSILIENCE_DATA", raising=False)
    done = run("datasets", "path", "dawid_skene")
    assert done.status == 0
    assert Path(done.out.strip()).is_dir()
    absent = run("datasets", "path", "bluebird")
    assert (absent.status, absent.out) == (1, "")
    assert "CONSILIENCE_DATA" in absent.err
    assert cs.datasets.info("bluebird").repository in absent.err
    assert len(absent.err.splitlines()) == 1
    (tmp_path / "bluebird").mkdir()
    monkeypatch.setenv("CONSILIENCE_DATA", str(tmp_path))
    assert run("datasets", "path", "bluebird").out.strip() == str(tmp_path / "bluebird")


#: The only note about the table of 1979.
SCALE = "Note: labels may be a scale from 1 to 4: answers='ordinal' would use their order\n"


def test_demo_prints_the_verdict_first_and_writes_a_run(run: Run, tmp_path: Path) -> None:
    done = run("demo", "--out", tmp_path / "run")
    assert (done.status, done.err) == (0, SCALE)
    assert "315 labels of 45 items by 5 annotators, 4 classes" in done.out
    assert done.out.splitlines()[0] == "The labels show who is right only in part."
    assert "Estimated error: " in done.out.splitlines()[3]
    assert set(tree(tmp_path / "run")) >= FILES
    summary = strict_json(run("demo", "--json").out)
    assert (summary["method"], summary["verdict"]) == ("auto", "weakly")
    assert summary["converged"] is True


def test_demo_in_its_own_process() -> None:
    done = child("demo")
    assert (done.status, done.err) == (0, SCALE)
    assert "315 labels of 45 items by 5 annotators" in done.out


# ---- help ---------------------------------------------------------------------------------------------------


def test_help_names_every_verb(run: Run) -> None:
    for option in ("--help", "-h"):
        done = run(option)
        assert done.status == 0
        assert all(verb in done.out for verb in VERBS)


@pytest.mark.parametrize(
    "words", [*((verb,) for verb in VERBS), *(("datasets", part) for part in ("list", "info", "path"))], ids=" ".join
)
def test_every_verb_has_help(run: Run, words: tuple[str, ...]) -> None:
    done = run(*words, "--help")
    assert (done.status, done.err) == (0, "")
    assert "Usage: " in done.out
    assert " ".join(words) in done.out.splitlines()[0]


def test_options_are_in_sections_each_once(run: Run) -> None:
    told = run("aggregate", "--help").out
    sections = re.findall(r"^([A-Z].*):$", told, re.MULTILINE)
    assert sections[:2] == ["Options", "Reading the file"]
    assert {"Large data", "Fitting"} < set(sections)
    options = re.findall(r"^  (--[a-z-]+)", told.partition("Options:")[2], re.MULTILINE)
    assert len(options) == len(set(options)) == len(aggregate.params) - 1, "all but LABELS"


def test_the_options_of_the_contract_are_there(run: Run) -> None:
    told = run("aggregate", "--help").out
    for option in ("--method", "--truth", "--gold", "--out", "--seed", "--engine", "--json"):
        assert option in told
    assert "LABELS" in told


def test_version(run: Run) -> None:
    assert cs.__version__ in run("--version").out


HEAVY = ("numpy", "numba", "pyarrow", "sklearn", "scipy", "rich", "pandas", "polars", "narwhals")


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from consilience.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.splitlines()[-1] == "HEAVY []"


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="the system cannot tell the time of one child")
def test_help_takes_less_than_a_quarter_second_of_cpu() -> None:
    times = []
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-m", "consilience", "--help"], env=environment(), stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        times.append(usage.ru_utime + usage.ru_stime)
    assert min(times) < 0.25, times
