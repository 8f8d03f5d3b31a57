"""The command line: what it writes, what it prints, how it ends."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from tests.cli.conftest import Result, Run

import consilience as cs

VERBS = ("aggregate", "diagnose", "compare", "simulate", "datasets", "demo")
FILES = {"labels.csv", "annotators.csv", "model.npz", "summary.json"}
KEYS = {
    "method",
    "N",
    "M",
    "K",
    "labels",
    "seed",
    "seconds",
    "log_likelihood",
    "converged",
    "iterations",
    "warnings",
}

#: Twelve items, four annotators; the fourth errs on every third item.  Classes: even "cat", odd "dog".
ROWS = [
    (f"i{n}", f"w{m}", "cat" if (n % 2 == 0) != (m == 3 and n % 3 == 0) else "dog") for n in range(12) for m in range(4)
]
TRUTH = {f"i{n}": "cat" if n % 2 == 0 else "dog" for n in range(12)}


def environment(**more: str) -> dict[str, str]:
    """The environment of a child that finds the same package as this process."""
    here = str(Path(cs.__file__).parents[1])
    path = os.pathsep.join(p for p in (here, os.environ.get("PYTHONPATH", "")) if p)
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", **more}


def child(*arguments: Any, **more: str) -> Result:
    command = [sys.executable, "-m", "consilience", *map(str, arguments)]
    done = subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=60, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def write(path: Path, rows: Any, header: str = "task,worker,label") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header.split(","))
        writer.writerows(rows)
    return path


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def strict_json(text: str) -> dict[str, Any]:
    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is not JSON")

    content: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return content


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return write(tmp_path / "labels.csv", ROWS)


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    return write(tmp_path / "truth.csv", TRUTH.items(), "task,label")


# ---- aggregate ----------------------------------------------------------------------------------------------


def test_aggregate_end_to_end_in_its_own_process(tmp_path: Path, labels: Path, truth: Path) -> None:
    done = child("aggregate", labels, "--out", tmp_path / "run", "--truth", truth)
    assert (done.status, done.err) == (0, "")
    assert set(tree(tmp_path / "run")) >= FILES
    assert {row["task"]: row["label"] for row in table(tmp_path / "run/labels.csv")} == TRUTH
    assert "48 labels of 12 items by 4 annotators, 2 classes" in done.out
    assert "0.00 %" in done.out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["labels.csv", "run", "truth.csv"]


def test_aggregate_writes_the_folder(run: Run, tmp_path: Path, labels: Path) -> None:
    done = run("aggregate", labels, "--method", "ds-em", "--out", tmp_path / "deep/er/run")
    assert done.status == 0
    folder = tmp_path / "deep/er/run"
    rows = table(folder / "labels.csv")
    assert list(rows[0]) == ["task", "label", "confidence", "runner_up", "margin", "n_labels"]
    assert [row["task"] for row in rows] == [f"i{n}" for n in range(12)]
    assert all(row["n_labels"] == "4" for row in rows)
    people = table(folder / "annotators.csv")
    columns = ["worker", "n_labels", "accuracy", "information", "bias", "flags", "low", "high"]
    assert list(people[0]) == columns
    assert [person["worker"] for person in people] == ["w0", "w1", "w2", "w3"]
    assert float(people[3]["accuracy"]) == pytest.approx(8 / 12, abs=1e-3)
    with np.load(folder / "model.npz", allow_pickle=False) as model:
        assert model["prior"].shape == (2,)
        assert model["confusions"].shape == (4, 2, 2)
    summary = strict_json((folder / "summary.json").read_text("utf-8"))
    assert set(summary) >= KEYS
    assert cs.load(folder).run["log_likelihood"] == summary["log_likelihood"]
    assert folder.stat().st_mode & 0o700 == 0o700


def test_json_is_the_summary(run: Run, tmp_path: Path, labels: Path, truth: Path) -> None:
    wrong = {**TRUTH, "i0": "dog", "i1": "cat", "i2": "dog"}
    write(truth, wrong.items(), "task,label")
    options = ("--method", "one-coin", "--seed", 3, "--max-iter", 50, "--tol", "1e-9", "--smoothing", "0.5")
    done = run("aggregate", labels, "--json", "--truth", truth, "--out", tmp_path / "run", *options)
    assert done.status == 0
    summary = strict_json(done.out)
    assert set(summary) >= KEYS | {"error_rate"}
    assert summary["error_rate"] == pytest.approx(25.0)
    assert (summary["N"], summary["M"], summary["K"], summary["labels"]) == (12, 4, 2, 48)
    assert (summary["method"], summary["seed"], summary["converged"]) == ("one-coin", 3, True)
    assert isinstance(summary["iterations"], int)
    assert 0 < summary["iterations"] <= 50
    assert summary["seconds"] >= 0
    assert summary["log_likelihood"] < 0
    assert summary["warnings"] == []
    written = strict_json((tmp_path / "run/summary.json").read_text("utf-8"))
    assert {key: written[key] for key in KEYS} == {key: summary[key] for key in KEYS}
    assert written["error_rate"] == summary["error_rate"]


def test_error_rate_counts_items_that_have_a_truth_and_a_label(run: Run, tmp_path: Path, labels: Path) -> None:
    truths = [("i0", "cat"), ("i1", "cat"), ("i2", "cat"), ("unknown", "dog"), ("i3", "")]
    some = write(tmp_path / "some.csv", truths, "task,label")
    summary = strict_json(run("aggregate", labels, "--json", "--truth", some).out)
    assert summary["error_rate"] == pytest.approx(100 / 3)
    assert any("1 items are not among the labelled items" in w for w in summary["warnings"])


@pytest.mark.parametrize("method", ["auto", "majority", "ds-em", "one-coin", "majority+em", "ds-em+em", "one-coin+em"])
def test_every_method_runs(run: Run, labels: Path, truth: Path, method: str) -> None:
    done = run("aggregate", labels, "--method", method, "--json", "--truth", truth)
    assert done.status == 0
    summary = strict_json(done.out)
    assert summary["method"] == method
    assert summary["error_rate"] == 0


def test_warnings_are_notes_on_stderr_and_in_the_summary(run: Run, tmp_path: Path) -> None:
    rows = [*ROWS, ("i0", "w0", "dog"), ("i99", "w0", "")]
    done = run("aggregate", write(tmp_path / "labels.csv", rows), "--json")
    assert done.status == 0
    said = strict_json(done.out)["warnings"]
    assert any("1 labels repeat" in sentence for sentence in said)
    assert any("1 of 50 rows have no label" in sentence for sentence in said)
    assert any("1 items have no label" in sentence for sentence in said)
    assert len(done.err.splitlines()) == len(said)
    assert all(any(sentence in line for line in done.err.splitlines()) for sentence in said)


def test_a_run_that_does_not_converge_says_so(run: Run, tmp_path: Path) -> None:
    crowd = cs.simulate(300, 12, 3, accuracy=(0.4, 0.7), seed=2)
    rows = crowd.annotations.to_frame("pyarrow").to_pylist()
    path = write(tmp_path / "labels.csv", [tuple(row.values()) for row in rows])
    done = run("aggregate", path, "--max-iter", 3, "--json")
    summary = strict_json(done.out)
    assert (done.status, summary["converged"], summary["iterations"]) == (0, False, 3)
    assert any("did not converge" in sentence for sentence in summary["warnings"])
    assert "NOT converged" in run("aggregate", path, "--max-iter", 3).out


def test_gold_is_held_fixed(run: Run, tmp_path: Path, labels: Path) -> None:
    gold = write(tmp_path / "gold.csv", [("i0", "dog"), ("i5", "cat")], "task,label")
    assert run("aggregate", labels, "--gold", gold, "--out", tmp_path / "run", "--method", "ds-em").status == 0
    rows = {row["task"]: row for row in table(tmp_path / "run/labels.csv")}
    for item, label in (("i0", "dog"), ("i5", "cat")):
        assert rows[item]["label"] == label, "everybody said otherwise, but the gold is known"
        assert float(rows[item]["confidence"]) == 1.0
    assert rows["i1"]["label"] == "dog"


def test_columns_can_be_named(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "answers.dat", ROWS, "picture,who,said")
    options = ("--format", "csv", "--item", "picture", "--annotator", "who", "--label", "said")
    done = run("aggregate", path, *options, "--out", tmp_path / "run")
    assert done.status == 0, done.err
    assert next(iter(table(tmp_path / "run/labels.csv")[0])) == "picture"
    assert next(iter(table(tmp_path / "run/annotators.csv")[0])) == "who"


@pytest.mark.parametrize("option", ["--truth", "--gold"])
def test_truth_and_gold_may_use_the_names_given_for_the_labels(run: Run, tmp_path: Path, option: str) -> None:
    path = write(tmp_path / "answers.csv", ROWS, "picture,who,said")
    known = write(tmp_path / "known.csv", TRUTH.items(), "picture,said")
    options = ("--item", "picture", "--annotator", "who", "--label", "said")
    done = run("aggregate", path, *options, option, known, "--json")
    assert done.status == 0, done.err


def test_the_encoding_holds_for_the_truth_too(run: Run, tmp_path: Path) -> None:
    rows = [(f"é{item}", who, label) for item, who, label in ROWS]
    path = write(tmp_path / "labels.csv", rows)
    path.write_bytes(path.read_bytes().decode().encode("latin-1"))
    known = write(tmp_path / "truth.csv", [(f"é{item}", label) for item, label in TRUTH.items()], "task,label")
    known.write_bytes(known.read_bytes().decode().encode("latin-1"))
    assert run("aggregate", path).status == 1
    done = run("aggregate", path, "--encoding", "latin-1", "--truth", known, "--json")
    assert done.status == 0, done.err
    assert strict_json(done.out)["error_rate"] == 0


def test_duplicates_are_an_option(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "labels.csv", [*ROWS, ("i0", "w0", "dog")])
    assert strict_json(run("aggregate", path, "--json", "--duplicates", "keep").out)["labels"] == 49
    assert strict_json(run("aggregate", path, "--json", "--duplicates", "first").out)["labels"] == 48
    assert run("aggregate", path, "--duplicates", "error").status == 1
    assert run("aggregate", path, "--duplicates", "some").status == 2


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    crowd = cs.simulate(500, 20, 3, spammers=0.2, seed=4)
    rows = [tuple(row.values()) for row in crowd.annotations.to_frame("pyarrow").to_pylist()]
    path = write(tmp_path / "labels.csv", rows)
    for name, hashes in (("one", "1"), ("two", "2")):
        done = child("aggregate", path, "--seed", 5, "--out", tmp_path / name, PYTHONHASHSEED=hashes)
        assert done.status == 0, done.err
    for file in ("labels.csv", "annotators.csv"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.parametrize(
    "word",
    ["[red]x[/red]", "[/]", "[bold", "]", "x\\", "[/red]", ":smile:", "[link=http://x]y[/link]", "{x}", "%s", "日本"],
)
def test_names_are_printed_as_they_are(run: Run, tmp_path: Path, word: str) -> None:
    rows = [(f"{item}{word}", f"{who}{word}", word if label == "dog" else label) for item, who, label in ROWS]
    done = run("aggregate", write(tmp_path / "labels.csv", rows))
    assert done.status == 0, done.err
    assert f"i0{word} " in done.out
    assert f"w0{word} " in done.out
    assert re.search(rf"^\s*{re.escape(word)}\s+6 ", done.out, re.MULTILINE), "the class table"
    only = run("aggregate", write(tmp_path / "one.csv", [(1, m, word) for m in range(3)]))
    assert only.status == 0
    assert word.replace("\\", "\\\\") in only.err, "the note names the only class"


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
        ["aggregate", "LABELS", "--format", "excel"],
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


def _arguments(verb: str, labels: Path) -> list[Any]:
    """What a verb needs to run, besides --out."""
    if verb == "aggregate":
        return [labels]
    return ["--items", 20, "--annotators", 5] if verb == "simulate" else []


# ---- the folder ---------------------------------------------------------------------------------------------


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


#: Saves two different runs in turn, as fast as it can.
ALTERNATES = """
import itertools, sys, warnings
import consilience as cs
runs = [cs.aggregate(cs.read(sys.argv[1]), method) for method in ("majority", "one-coin")]
for turn in itertools.count():
    runs[turn % 2].save(sys.argv[2])
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
    seen = []
    begun = time.monotonic()
    for _ in range(8):
        command = [sys.executable, "-c", ALTERNATES, str(labels), str(place / "run")]
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
        seen.append(method)
        if time.monotonic() - begun > 15:
            break
    assert len(seen) >= 3


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
            assert re.search(rf"{key}\W+{value}", done.out)


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


def test_demo_reaches_the_known_likelihood(run: Run, tmp_path: Path) -> None:
    done = run("demo", "--out", tmp_path / "run")
    assert (done.status, done.err) == (0, "")
    assert "315 labels of 45 items by 5 annotators, 4 classes" in done.out
    assert "-192.8909" in done.out
    assert set(tree(tmp_path / "run")) >= FILES
    summary = strict_json(run("demo", "--json").out)
    assert summary["log_likelihood"] == pytest.approx(-192.8909, abs=5e-5)
    assert summary["converged"] is True


def test_demo_in_its_own_process() -> None:
    done = child("demo")
    assert (done.status, done.err) == (0, "")
    assert "-192.8909" in done.out


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
