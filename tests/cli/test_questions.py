"""``consilience aggregate --question all``: one run and one report for all questions of an export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Run, strict_json, table, tree, write
from tests.report.conftest import parsed
from tests.report.test_page import check_page

import consilience as cs

TOPICS, MOODS = ("sport", "arts", "science"), ("good", "bad")


def truth_of(task: int) -> dict[str, str]:
    return {"topic": TOPICS[task % 3], "mood/tone": MOODS[task % 2]}


def result(control: str, kind: str, **value: Any) -> dict[str, Any]:
    return {"from_name": control, "to_name": "text", "type": kind, "value": value}


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Forty tasks with five controls: two to aggregate, two not supported, one answered only in cancelled work."""
    rng = np.random.default_rng(0)
    tasks = []
    for n in range(40):
        made: list[dict[str, Any]] = []
        for who in range(6):
            said = truth_of(n)
            if who == 5:  # guesses
                said = {"topic": str(rng.choice(TOPICS)), "mood/tone": str(rng.choice(MOODS))}
            results = [result(name, "choices", choices=[label]) for name, label in said.items()]
            results.append(result("comment", "textarea", text=["fine"]))
            results.append(result("box", "rectanglelabels", x=1, y=1, width=1, height=1, rectanglelabels=["car"]))
            made.append({"completed_by": {"id": who, "email": f"a{who}@example.org"}, "result": results})
        made.append({"completed_by": 9, "was_cancelled": True, "result": [result("late", "choices", choices=["x"])]})
        tasks.append({"id": n, "data": {"text": f"text <b>{n}</b>"}, "annotations": made})
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks), "utf-8")
    return path


def test_one_folder_holds_a_run_for_each_question(run: Run, tmp_path: Path, export: Path) -> None:
    done = run("aggregate", export, "--question", "all", "--annotator", "email", "--out", tmp_path / "all")
    assert done.status == 0
    names = ["checksums.json", "mood_tone", "report.html", "summary.json", "topic"]
    assert sorted(p.name for p in (tmp_path / "all").iterdir()) == names
    summary = strict_json((tmp_path / "all/summary.json").read_text("utf-8"))
    assert [(one["question"], one["folder"]) for one in summary["questions"]] == [
        ("topic", "topic"),
        ("mood/tone", "mood_tone"),
    ]
    assert summary["unsupported"] == {"comment": "textarea", "box": "rectanglelabels"}
    assert set(summary["failed"]) == {"late"}
    assert "has no label" in summary["failed"]["late"]
    for one in summary["questions"]:
        folder = tmp_path / "all" / one["folder"]
        found = {int(row["id"]): row["label"] for row in table(folder / "labels.csv")}
        assert found == {n: truth_of(n)[one["question"]] for n in range(40)}
        # the same as that question alone, and a run like any other
        alone = strict_json(run("aggregate", export, "--question", one["question"], "--json").out)
        assert one["log_likelihood"] == pytest.approx(alone["log_likelihood"])
        assert alone["question"] == cs.load(folder).question == one["question"]
    for name in ("comment", "box", "late"):
        assert name in done.err
    assert "a5@example.org" in done.out


def test_json_has_an_entry_for_each_question(run: Run, export: Path) -> None:
    done = run("aggregate", export, "--question", "all", "--json")
    summary = strict_json(done.out)
    assert [one["question"] for one in summary["questions"]] == ["topic", "mood/tone"]
    assert {"verdict", "estimated_error", "N", "M", "K", "warnings"} <= set(summary["questions"][0])
    assert summary["source"] == "export.json"


def test_one_report_has_a_section_for_each_question(run: Run, tmp_path: Path, export: Path) -> None:
    run("aggregate", export, "--question", "all", "--out", tmp_path / "all")
    page = (tmp_path / "all/report.html").read_text("utf-8")
    check_page(page)
    root = parsed(page)
    assert root.one("h1").text == "export.json"
    assert [article.all("h2")[0].text for article in root.all("article")] == ["topic", "mood/tone"]
    overview = root.one("section", id="questions")
    assert [row[0] for row in overview.one("table").rows()] == ["topic", "mood/tone"]
    assert "'comment' are of type 'textarea'" in overview.text
    assert "'late' was left out" in overview.text
    items = root.one("table", id="q2-items-table").rows()
    assert all(f"text <b>{row[0].split()[0]}</b>" in row[0] for row in items)
    # the verb writes it again, from the folder
    again = run("report", tmp_path / "all", "--out", tmp_path / "again.html")
    assert again.status == 0
    assert [a.all("h2")[0].text for a in parsed((tmp_path / "again.html").read_text("utf-8")).all("article")] == [
        "topic",
        "mood/tone",
    ]


def test_truths_have_a_column_for_each_question(run: Run, tmp_path: Path, export: Path) -> None:
    rows = [(n, "arts" if n < 10 else truth_of(n)["topic"]) for n in range(40)]
    truth = write(tmp_path / "truth.csv", rows, "task,topic")
    done = run("aggregate", export, "--question", "all", "--truth", truth, "--json", "--out", tmp_path / "all")
    topic, mood = strict_json(done.out)["questions"]
    wrong = sum(truth_of(n)["topic"] != "arts" for n in range(10))
    assert (topic["error_rate"], topic["error_items"]) == (pytest.approx(100 * wrong / 40), 40)
    assert "error_rate" not in mood
    gold = write(tmp_path / "gold.csv", [(0, "arts")], "task,topic")
    done = run("aggregate", export, "--question", "all", "--gold", gold, "--json")
    assert [one["gold_items"] for one in strict_json(done.out)["questions"]] == [1, 0]
    for option in ("--truth", "--gold"):
        strange = write(tmp_path / "strange.csv", [(0, "arts")], "task,tropic")
        done = run("aggregate", export, "--question", "all", option, strange, "--out", tmp_path / "none")
        assert done.status != 0
        assert "tropic" in done.err
        assert "'topic', 'mood/tone'" in done.err
    assert not (tmp_path / "none").exists()


def test_a_file_with_one_question_is_fine(run: Run, tmp_path: Path, labels: Path) -> None:
    done = run("aggregate", labels, "--question", "all", "--out", tmp_path / "all", "--json")
    assert done.status == 0
    assert [one["question"] for one in strict_json(done.out)["questions"]] == ["label"]
    assert (tmp_path / "all/label/labels.csv").is_file()


def test_an_export_that_fails_leaves_the_earlier_run(run: Run, tmp_path: Path, export: Path) -> None:
    run("aggregate", export, "--question", "all", "--out", tmp_path / "all")
    before = tree(tmp_path / "all")
    tasks = json.loads(export.read_text("utf-8"))
    for task in tasks:
        for made in task["annotations"]:
            made["was_cancelled"] = True
    export.write_text(json.dumps(tasks), "utf-8")
    done = run("aggregate", export, "--question", "all", "--out", tmp_path / "all")
    assert done.status == 1
    assert len(done.err.splitlines()) == 1
    assert "no question can be aggregated" in done.err
    assert tree(tmp_path / "all") == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all", "export.json"]


def test_wrong_names_are_answered_once(run: Run, export: Path) -> None:
    done = run("aggregate", export, "--question", "all", "--method", "no-such")
    assert done.status != 0
    assert done.err.count("no-such") == 1
    done = run("aggregate", export)
    assert "'topic', 'mood/tone'" in done.err
    assert "--question all" in done.err
    done = run("diagnose", export, "--question", "all")
    assert (done.status, "several questions" in done.err) == (1, True)


@pytest.mark.parametrize("columns", [80, 140])
def test_the_terminal_is_not_too_narrow(run: Run, export: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("aggregate", export, "--question", "all", "--annotator", "email", "--verbose").out.splitlines()
    assert max(map(len, lines)) <= columns
    heads = [line for line in lines if line.split()[:2] == ["id", "label"]]
    assert len(heads) == 2  # none is broken
    # a row of items is one line
    at = lines.index(heads[0])
    assert all(line.split()[0].isdigit() for line in lines[at + 1 : at + 11])
    assert all("text <b>" in line for line in lines[at + 1 : at + 11])


@pytest.mark.filterwarnings("ignore::consilience.exceptions.DataWarning")
def test_python_does_the_same(export: Path, tmp_path: Path) -> None:
    runs = cs.aggregate_questions(export, "ds-em", reading={"annotator": "email"}, gold={"topic": {0: "arts"}})
    assert list(runs) == ["topic", "mood/tone"]
    assert runs["topic"].run["gold_items"] == 1
    assert runs["mood/tone"].question == "mood/tone"
    assert runs["topic"].texts_of([3]) == ["text <b>3</b>"]
    runs.save(tmp_path / "runs")
    loaded = cs.QuestionRuns.load(tmp_path / "runs")
    assert dict(loaded.unsupported) == dict(runs.unsupported)
    assert loaded["topic"].texts_of([3]) == ["text <b>3</b>"]
    with pytest.raises(cs.exceptions.FormatError, match="several questions"):
        cs.load(tmp_path / "runs")
    with pytest.raises(cs.exceptions.ParameterError, match="no question 'tropic'"):
        cs.aggregate_questions(export, gold={"tropic": {}})


@pytest.mark.filterwarnings("ignore::consilience.exceptions.DataWarning")
def test_checkpoints_are_apart(export: Path, tmp_path: Path) -> None:
    first = cs.aggregate_questions(export, "ds-em", checkpoint=tmp_path / "kept", max_iter=50)
    assert {p.name for p in (tmp_path / "kept").iterdir()} <= {"topic", "mood_tone"}
    again = cs.aggregate_questions(export, "ds-em", checkpoint=tmp_path / "kept", max_iter=50)
    for name in first:
        np.testing.assert_array_equal(first[name].posterior, again[name].posterior)
