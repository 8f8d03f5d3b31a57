"""``consilience aggregate``: what it prints and what it writes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import FILES, ROWS, TRUTH, Run, child, strict_json, table, tree, write

import consilience as cs

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


def test_aggregate_end_to_end_in_its_own_process(tmp_path: Path, labels: Path, truth: Path) -> None:
    done = child("aggregate", labels, "--out", tmp_path / "run", "--truth", truth)
    assert (done.status, done.err) == (0, "")
    assert set(tree(tmp_path / "run")) >= FILES
    assert {row["task"]: row["label"] for row in table(tmp_path / "run/labels.csv")} == TRUTH
    assert "48 labels of 12 items by 4 annotators, 2 classes" in done.out
    assert "0.00%" in done.out
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
    assert any("1 item is not among the labelled items" in w for w in summary["warnings"])


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
    assert any("1 item has no label" in sentence for sentence in said)
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
    done = run("aggregate", write(tmp_path / "labels.csv", rows), "--verbose")
    assert done.status == 0, done.err
    assert f"i0{word} " in done.out
    assert f"w0{word} " in done.out
    assert re.search(rf"^\s*{re.escape(word)}\s+6 ", done.out, re.MULTILINE), "the class table"
    only = run("aggregate", write(tmp_path / "one.csv", [(1, m, word) for m in range(3)]))
    assert only.status == 0
    assert f"Every label is {word}: " in only.out, "the verdict names the only class"
    assert "every label is" not in only.err, "a note does not repeat the verdict"


def test_labels_that_show_nothing_are_not_to_be_accepted(run: Run, tmp_path: Path) -> None:
    done = run("aggregate", write(tmp_path / "one.csv", [(n, "w", "cat" if n % 2 else "dog") for n in range(12)]))
    assert done.out.splitlines()[0] == "The labels do not show who is right."
    assert "Check all 12 labels (about 20% wrong)." in done.out
    assert "Accept" not in done.out
    assert "12 labels of 12 items by 1 annotator, 2 classes" in done.out


# ---- hostile names -----------------------------------------------------------------------------------------------


def _hostile(path: Path) -> Path:
    names = ["\x1b[2J\x1b]0;owned\x07", "\x9b31m", "\u202egnp.exe", "a\rb", "=1+cmd|' /C calc'!A0"]
    rows = [
        (f"{names[n % 5]}{n}", f"{names[m % 5]}w{m}", f"{names[(n * m) % 3]}c") for n in range(20) for m in range(5)
    ]
    return write(path, rows)


@pytest.mark.parametrize("options", [[], ["--json"], ["--method", "nonsense\x1b[2J"]])
@pytest.mark.parametrize("verb", ["aggregate", "diagnose", "plan"])
def test_names_cannot_act_on_the_terminal(run: Run, tmp_path: Path, verb: str, options: list[str]) -> None:
    labels = _hostile(tmp_path / "a\x1b[31m.csv")
    more = {"aggregate": ["--out", tmp_path / "run"], "plan": ["--budget", 5], "diagnose": []}[verb]
    done = run(verb, labels, *more, *options)
    assert done.status == (2 if "--method" in options else 0)
    shown = done.out + done.err
    acting = {c for c in shown if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c == "\u202e"}
    assert not acting, acting
    if options == ["--json"]:
        strict_json(done.out)


def test_formulas_are_noted_and_kept_for_joins(run: Run, tmp_path: Path) -> None:
    labels = _hostile(tmp_path / "labels.csv")
    done = run("aggregate", labels, "--out", tmp_path / "run")
    assert "would be a formula in a spreadsheet" in done.err
    kept = (tmp_path / "run/labels.csv").read_text("utf-8")
    assert "\"=1+cmd|' /C calc'!A04\"" in kept
    numbers = write(
        tmp_path / "numbers.csv", [(-n, f"w{m}", ["-1", "+0.5", "1"][n * m % 3]) for n in range(9) for m in range(3)]
    )
    assert "formula" not in run("aggregate", numbers, "--out", tmp_path / "other").err


@pytest.mark.parametrize("seed", ["-1", "4294967296", "1.5", "x"])
@pytest.mark.parametrize("verb", ["aggregate", "diagnose", "plan", "simulate"])
def test_a_seed_that_cannot_be_one_is_wrong_usage(run: Run, labels: Path, verb: str, seed: str) -> None:
    arguments = {"simulate": ["--items", 9, "--annotators", 3], "plan": [labels, "--budget", 5]}.get(verb, [labels])
    done = run(verb, *arguments, "--seed", seed)
    assert done.status == 2
    assert "--seed" in done.err
    assert "Traceback" not in done.err


def test_a_link_is_written_through(run: Run, labels: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk" / "run")
    for _ in range(2):
        assert run("aggregate", labels, "--out", tmp_path / "run").status == 0
        assert (tmp_path / "run").is_symlink()
        assert (tmp_path / "disk" / "run" / "summary.json").is_file()


def test_running_out_of_memory_is_a_sentence_with_a_remedy(
    run: Run, labels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 80.0 GiB")

    monkeypatch.setattr(cs, "aggregate", full)
    done = run("aggregate", labels)
    assert done.status == 1
    assert done.err.startswith("Error: there is not enough memory. ")
    assert "--engine stream" in done.err
    assert "80.0 GiB" in done.err
