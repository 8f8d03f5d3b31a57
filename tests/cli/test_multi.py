"""``consilience aggregate --answers multi``, and what other verbs do with such runs and labels."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from tests.cli.conftest import FILES, Run, strict_json, tree

from consilience.data.set_labels import as_sets
from consilience.datasets import simulate_multi


def test_several_options_from_the_command_line(run: Run, tmp_path: Path) -> None:
    drawn = simulate_multi(60, 6, 4, seed=1)
    labels, truth = tmp_path / "labels.csv", tmp_path / "truth.csv"
    as_sets(drawn.annotations).to_frame("pandas").to_csv(labels, index=False)
    pd.DataFrame({"item": list(drawn.truth), "label": list(drawn.truth.values())}).to_csv(truth, index=False)
    done = run("aggregate", labels, "--answers", "multi", "--truth", truth, "--out", tmp_path / "run", "--verbose")
    assert (done.status, done.err) == (0, "")
    assert "300 labels of 60 items by 6 annotators, 4 options, read as" in done.out
    assert "of the decisions on options" in done.out
    assert "Options against the truth given: precision" in done.out
    assert "sensitivity" in done.out
    assert set(tree(tmp_path / "run")) >= {*FILES, "options.parquet", "report.html"}
    summary = strict_json((tmp_path / "run/summary.json").read_text("utf-8"))
    assert summary["answers"] == "multi"
    assert 0 < summary["option_scores"]["error_rate"] < summary["error_rate"] < 60
    assert run("report", tmp_path / "run", "--out", tmp_path / "again.html").status == 0
    guessed = run("aggregate", labels)
    assert guessed.status == 0
    assert "labels name several options, joined by '|'" in guessed.err
    found = run("diagnose", labels)
    assert found.status == 0
    assert "Identified: annotators agree on options" in found.out
    assert strict_json(run("diagnose", labels, "--json").out)["format"] == "consilience.MultiDiagnosis"
    planned = run("plan", labels, "--budget", 10)
    assert planned.status == 0
    assert "labels name several options, joined by '|'" in planned.err
    assert "expected wrong decisions on options:" in planned.out
    assert "% of options" in planned.out
    compared = strict_json(run("compare", labels, "--truth", truth, "--json").out)
    rows = {row["method"]: row for row in compared["methods"]}
    assert {*rows} == {"votes", "multi"}
    assert rows["multi"]["error"] == pytest.approx(summary["option_scores"]["error_rate"])
    assert rows["votes"]["log_loss"] > rows["multi"]["log_loss"]


def test_label_studio_and_back(run: Run, tmp_path: Path) -> None:
    drawn = simulate_multi(30, 5, 3, labels_per_item=4, seed=2)
    frame = as_sets(drawn.annotations).to_frame("pandas")
    tasks = []
    for n, rows in frame.groupby("item"):
        made = []
        for who, text in zip(rows["annotator"], rows["label"], strict=True):
            control = {"from_name": "topic", "to_name": "text", "type": "choices"}
            value = {"value": {"choices": text.split("|")}}
            made.append({"completed_by": who, "result": [{**control, **value}] if text else []})
        tasks.append({"id": n, "data": {"text": f"text {n}"}, "annotations": made})
    source = tmp_path / "export.json"
    source.write_text(json.dumps(tasks), "utf-8")
    done = run("aggregate", source, "--out", tmp_path / "run", "--json")
    assert done.status == 0
    assert strict_json(done.out)["labels"] == 120
    assert run("export", tmp_path / "run", "--out", tmp_path / "back.json", "--source", source).status == 0
    labels = pd.read_csv(tmp_path / "run/labels.csv", keep_default_na=False).set_index("id")["label"]
    for task in json.loads((tmp_path / "back.json").read_text("utf-8")):
        (prediction,) = task["predictions"]
        choices = prediction["result"][0]["value"]["choices"]
        assert "|".join(choices) == labels[task["id"]]
    assert (labels == "").any()
    assert labels.str.contains("|", regex=False).any()


def test_argilla_questions_with_several_labels(run: Run, tmp_path: Path) -> None:
    records = [
        {
            "id": n,
            "topic.responses": [["a", "b"], ["b"] if n % 2 else ["a", "c"], []],
            "topic.responses.users": ["u1", "u2", "u3"],
            "topic.responses.status": ["submitted", "submitted", "submitted" if n else "discarded"],
        }
        for n in range(6)
    ]
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), "utf-8")
    done = run("aggregate", path, "--json")
    assert done.status == 0
    summary = strict_json(done.out)
    assert (summary["answers"], summary["labels"], summary["options"]) == ("multi", 17, 3)
