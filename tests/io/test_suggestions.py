"""Predictions for Argilla, doccano and Prodigy: accepted as they are, they read back as the consensus."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import quietly
from tests.io.conftest import ROWS, frame_of
from tests.io.export_files import EXAMPLES
from tests.io.export_making import as_lines

import consilience as cs
from consilience.exceptions import DataError, DataWarning, FormatError, ParameterError

#: Labels of twenty items by three annotators; the last item has none, and item 7 has two of them.
SAID = {
    n: [["cat", "dog"] if n == 7 else ["cat" if (n + (who == n % 5)) % 2 else "dog"] for who in range(3)]
    for n in range(19)
} | {19: []}


def _argilla(nested: bool) -> list[dict[str, Any]]:
    records = []
    for n, said in SAID.items():
        values = [one if n == 7 or nested else one[0] for one in said]
        if nested:
            made = [{"value": value, "user_id": f"u{who}", "status": "submitted"} for who, value in enumerate(values)]
            other = {"mood": {"value": "good", "score": None, "agent": "x"}}
            shown = {"fields": {"text": f"t{n}"}, "metadata": {"page": n}, "suggestions": other}
            records.append({"id": f"r{n}", **shown, "responses": {"kind": made}, "vectors": {}})
        else:
            who = [f"u{m}" for m in range(len(values))]
            states = ["submitted"] * len(values)
            flat = {"kind.responses": values, "kind.responses.users": who, "kind.responses.status": states}
            records.append({"id": f"r{n}", "text": f"t{n}", **flat})
    return records


def _prodigy() -> list[dict[str, Any]]:
    options = [{"id": "cat", "text": "a cat"}, {"id": "dog", "text": "a dog"}]
    return [
        {
            "text": f"t{n}",
            "options": options,
            "accept": one,
            "answer": "accept",
            "_input_hash": 100 + n,
            "_task_hash": n,
            "_annotator_id": f"ds-{who}",
            "_view_id": "choice",
        }
        for n, said in SAID.items()
        for who, one in enumerate(said)
    ]


def _doccano(folder: Path) -> Path:
    place = folder / "doccano"
    place.mkdir()
    for who in range(3):
        made = [{"id": n, "text": f"t{n}", "label": said[who], "page": n} for n, said in SAID.items() if said]
        (place / f"person{who}.jsonl").write_bytes(as_lines(*made))
    return place


def _consensus(source: Path) -> tuple[cs.Consensus, dict[str, tuple[Any, float]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        run = quietly(cs.read(source), "majority")
    labels = run.labels
    columns = (labels[name].tolist() for name in (labels.columns[0], "label", "confidence"))
    return run, {str(item): (label, confidence) for item, label, confidence in zip(*columns, strict=True)}


def _read_back(path: Path) -> dict[str, Any]:
    back = cs.read(path)
    said = zip(back.items[back.item_of_label()].tolist(), back.classes[back.label].tolist(), strict=True)
    return {str(item): label for item, label in said}


@pytest.mark.parametrize("nested", [True, False])
def test_suggestions_of_argilla(tmp_path: Path, nested: bool) -> None:
    source = tmp_path / "records.json"
    source.write_text(json.dumps(_argilla(nested)))
    run, expected = _consensus(source)
    cs.write(run, tmp_path / "suggested.json", source=source)
    records = json.loads((tmp_path / "suggested.json").read_text())
    assert [record["id"] for record in records] == [f"r{n}" for n in range(20)]
    for n, record in enumerate(records):
        assert set(record) == {"id", "fields", "metadata", "suggestions", "responses", "vectors"}
        assert record["fields"] == ({"text": f"t{n}"} if nested else {}), "a flat export does not say what a field is"
        made = record["suggestions"].get("kind")
        assert (record["suggestions"].get("mood") is not None) == nested, "other suggestions are kept"
        if n == 19:
            assert made is None
            continue
        label, confidence = expected[f"r{n}"]
        several = nested or n == 7
        score = (
            [pytest.approx(confidence, abs=1e-6)] * len(SAID[n][0]) if several else pytest.approx(confidence, abs=1e-6)
        )
        assert made["score"] == score, "a list of values needs a list of scores"
        assert made["value"] == (label.split("|") if several else label)
        assert re.fullmatch(r"[a-zA-Z0-9\-_:./ ]+", made["agent"])
    for record in records:  # what Argilla does when a suggestion is accepted
        made = {name: one for name, one in record["suggestions"].items() if name == "kind"}
        record["responses"] = {
            name: [{"value": one["value"], "user_id": "me", "status": "submitted"}] for name, one in made.items()
        }
    (tmp_path / "accepted.json").write_text(json.dumps(records))
    assert _read_back(tmp_path / "accepted.json") == {k: v for k, (v, _) in expected.items() if k != "r19"}


def test_documents_of_doccano(tmp_path: Path) -> None:
    source = _doccano(tmp_path)
    run, expected = _consensus(source)
    cs.write(run, tmp_path / "documents.jsonl", source=source)
    documents = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text().splitlines()]
    assert [one["text"] for one in documents] == [f"t{n}" for n in range(19)]
    assert documents[7]["label"] == ["cat", "dog"]
    assert documents[3]["page"] == 3, "other columns stay"
    for one in documents:
        assert one["confidence"] == pytest.approx(expected[str(one["id"])][1], abs=1e-6)
    assert _read_back(tmp_path / "documents.jsonl") == {item: label for item, (label, _) in expected.items()}
    cs.write(run, tmp_path / "documents.json", source=source, format="doccano")
    assert json.loads((tmp_path / "documents.json").read_text()) == documents


def test_documents_of_a_zip_file_of_tables(tmp_path: Path) -> None:
    source = EXAMPLES["doccano-zip"].put(tmp_path)
    run, _ = _consensus(source)
    cs.write(run, tmp_path / "out.jsonl", source=source)
    first, second = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert (first["id"], first["text"]) == ("1", "x")
    assert second["label"] == ["neg", "pos"], "doccano joins several labels by #"


def test_tasks_of_prodigy(tmp_path: Path) -> None:
    source = tmp_path / "answers.jsonl"
    source.write_bytes(as_lines(*_prodigy()))
    run, expected = _consensus(source)
    cs.write(run, tmp_path / "tasks.jsonl", source=source, model_version="v1")
    tasks = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    assert [task["_input_hash"] for task in tasks] == [100 + n for n in range(19)], "a task for each input"
    for task in tasks:
        assert task["options"] == _prodigy()[0]["options"]
        assert not {"answer", "_annotator_id", "_task_hash", "_view_id"} & set(task)
        assert task["meta"] == {"score": pytest.approx(expected[str(task["_input_hash"])][1], abs=1e-6), "source": "v1"}
    assert tasks[7]["accept"] == ["cat", "dog"]
    accepted = [{**task, "answer": "accept", "_annotator_id": "me"} for task in tasks]
    (tmp_path / "accepted.jsonl").write_bytes(as_lines(*accepted))
    assert _read_back(tmp_path / "accepted.jsonl") == {item: label for item, (label, _) in expected.items()}


def test_a_label_that_applies_or_not(tmp_path: Path) -> None:
    source = EXAMPLES["prodigy-binary"].put(tmp_path)
    run, expected = _consensus(source)
    cs.write(run, tmp_path / "tasks.jsonl", source=source)
    (task,) = (json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines())
    assert (task["text"], task["label"], task["answer"]) == ("t11", "INSULT", expected["11"][0])
    assert not {"options", "accept"} & set(task)


def test_without_a_source(tmp_path: Path) -> None:
    run = quietly(frame_of(ROWS), "ds-em")
    label, item = run.labels["label"][0], run.labels["task"][0]
    cs.write(run, tmp_path / "a.json", format="argilla", from_name="kind", to_name="body")
    first = json.loads((tmp_path / "a.json").read_text())[0]
    assert (first["id"], first["fields"]) == (item, {"body": item})
    assert first["suggestions"]["kind"]["value"] == label
    cs.write(run, tmp_path / "d.jsonl", format="doccano")
    assert json.loads((tmp_path / "d.jsonl").read_text().splitlines()[0])["label"] == [label]
    cs.write(run, tmp_path / "p.jsonl", format="prodigy")
    task = json.loads((tmp_path / "p.jsonl").read_text().splitlines()[0])
    assert task["accept"] == [label]
    assert [option["id"] for option in task["options"]] == list(run.model.classes)
    with pytest.raises(ParameterError, match="to write suggestions for Argilla, name the export"):
        cs.write(run, tmp_path / "b.json", format="argilla")
    with pytest.raises(ParameterError, match="kind: for 'label-studio' only, not for the format 'argilla'"):
        cs.write(run, tmp_path / "b.json", format="argilla", from_name="a", kind="choices")
    assert not (tmp_path / "b.json").exists()


def test_a_source_that_does_not_fit(tmp_path: Path) -> None:
    run = quietly(frame_of(ROWS), "ds-em")
    source = _doccano(tmp_path)
    with pytest.raises(FormatError, match="doccano is no export of Prodigy: it looks like doccano"):
        cs.write(run, tmp_path / "p.jsonl", format="prodigy", source=source)
    with pytest.raises(DataError, match="none of the 57 records of doccano is an item of this run"):
        cs.write(run, tmp_path / "p.jsonl", source=source)
    own, _ = _consensus(source)
    (source / "person0.jsonl").write_bytes(as_lines({"id": 3, "text": "t3", "label": ["cat"]}))
    for other in ("person1", "person2"):
        (source / f"{other}.jsonl").write_bytes(as_lines({"id": 3, "text": "t3", "label": ["dog"]}))
    with pytest.warns(DataWarning, match="18 items are not among the records of doccano and were left out"):
        cs.write(own, tmp_path / "p.jsonl", source=source)
    tokens = cs.aggregate(cs.read_sequences(_conll(tmp_path)), "majority+hmm")
    with pytest.raises(ParameterError, match="labels of tokens cannot be written as predictions"):
        cs.write(tokens, tmp_path / "q.jsonl", format="doccano")
    assert not (tmp_path / "q.jsonl").exists()


def _conll(folder: Path) -> Path:
    path = folder / "names.conll"
    path.write_text("Ann B-PER B-PER B-PER\nLee I-PER O I-PER\nsaw O O O\n")
    return path
