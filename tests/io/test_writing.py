"""Files out: what is written is the labels, and what Label Studio gets can be read back as its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.conftest import quietly
from tests.io.conftest import ROWS, frame_of, put
from tests.io.export_files import EXAMPLES

import consilience as cs
from consilience.exceptions import DataError, DataWarning, FormatError, ParameterError


@pytest.fixture
def consensus() -> cs.Consensus:
    return quietly(frame_of(ROWS), "ds-em")


def _export(folder: Path) -> Path:
    """Twenty tasks of Label Studio with three annotators, one task without an answer."""
    tasks: list[dict[str, Any]] = []
    for n in range(20):
        made = []
        for who in range(3 if n < 19 else 0):
            choices = ["cat", "dog"] if n == 7 else ["cat" if (n + (who == n % 5)) % 2 else "dog"]
            result = {"from_name": "kind", "to_name": "img", "type": "choices", "value": {"choices": choices}}
            made.append({"completed_by": who, "result": [result]})
        tasks.append({"id": 100 + n, "data": {"image": f"http://x/{n}.jpg"}, "annotations": made})
    return put(folder, "export.json", json.dumps(tasks))


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet", "labels.pq"])
def test_tables_hold_the_labels(tmp_path: Path, consensus: cs.Consensus, name: str) -> None:
    cs.write(consensus, tmp_path / name)
    if name.endswith(".csv"):
        folder = tmp_path / "run"
        consensus.save(folder)
        assert (tmp_path / name).read_text() == (folder / "labels.csv").read_text()
    else:
        table = pq.read_table(tmp_path / name)
        assert table.column_names == list(consensus.labels.columns)
        assert table["label"].to_pylist() == consensus.labels["label"].tolist()
        assert table["confidence"].to_pylist() == consensus.labels["confidence"].tolist()


def test_predictions_take_names_and_data_from_the_source(tmp_path: Path) -> None:
    source = _export(tmp_path)
    consensus = quietly(cs.read(source), "majority")
    cs.write(consensus, tmp_path / "predictions.json", source=source)
    tasks = json.loads((tmp_path / "predictions.json").read_text())
    assert [task["id"] for task in tasks] == list(range(100, 120))
    assert [task["data"]["image"] for task in tasks] == [f"http://x/{n}.jpg" for n in range(20)]
    for task, label, confidence in zip(
        tasks, consensus.labels["label"].tolist(), consensus.labels["confidence"].tolist(), strict=True
    ):
        if task["id"] == 119:
            assert task["predictions"] == []
            continue
        (prediction,) = task["predictions"]
        assert prediction["score"] == pytest.approx(confidence, abs=1e-6)
        assert prediction["model_version"] == f"consilience {cs.__version__} majority"
        (result,) = prediction["result"]
        assert (result["from_name"], result["to_name"], result["type"]) == ("kind", "img", "choices")
        assert "|".join(sorted(result["value"]["choices"])) == label
    assert tasks[7]["predictions"][0]["result"][0]["value"] == {"choices": ["cat", "dog"]}, "a set, not one odd choice"


def test_predictions_taken_as_annotations_are_the_labels(tmp_path: Path) -> None:
    """What Label Studio does when a prediction is accepted, done here, gives the consensus back."""
    source = _export(tmp_path)
    consensus = quietly(cs.read(source), "majority")
    cs.write(consensus, tmp_path / "predictions.json", source=source, model_version="v1")
    tasks = json.loads((tmp_path / "predictions.json").read_text())
    for task in tasks:
        task["annotations"] = [{"completed_by": 1, "result": p["result"]} for p in task.pop("predictions")]
    back = cs.read(put(tmp_path, "accepted.json", json.dumps(tasks)))
    said = dict(zip(back.items[back.item_of_label()].tolist(), back.classes[back.label].tolist(), strict=True))
    expected = dict(zip(consensus.labels["id"].tolist(), consensus.labels["label"].tolist(), strict=True))
    assert said == {item: label for item, label in expected.items() if item != 119}


def test_predictions_without_a_source(tmp_path: Path, consensus: cs.Consensus) -> None:
    cs.write(consensus, tmp_path / "p.json", from_name="verdict", to_name="text")
    (task, *_) = json.loads((tmp_path / "p.json").read_text())
    assert task["data"] == {"text": "item 0"}
    assert task["predictions"][0]["result"][0]["value"]["choices"] == [consensus.labels["label"][0]]
    with pytest.raises(ParameterError, match=r"source=… \(--source …\), or .*from_name=… and to_name=…"):
        cs.write(consensus, tmp_path / "q.json")
    with pytest.raises(ParameterError, match="no control of kind 'brush'"):
        cs.write(consensus, tmp_path / "q.json", from_name="a", to_name="b", kind="brush")
    assert not (tmp_path / "q.json").exists()


def test_ratings_stay_numbers(tmp_path: Path) -> None:
    def task(n: int, *stars: int) -> dict[str, Any]:
        made = [
            {
                "completed_by": who,
                "result": [{"from_name": "stars", "to_name": "t", "type": "rating", "value": {"rating": star}}],
            }
            for who, star in enumerate(stars)
        ]
        return {"id": n, "data": {"t": "x"}, "annotations": made}

    source = put(tmp_path, "export.json", json.dumps([task(1, 3, 3, 4), task(2, 5, 5, 5)]))
    cs.write(quietly(cs.read(source), "majority"), tmp_path / "p.json", source=source)
    values = [t["predictions"][0]["result"][0]["value"] for t in json.loads((tmp_path / "p.json").read_text())]
    assert values == [{"rating": 3}, {"rating": 5}]


def test_a_source_that_does_not_fit(tmp_path: Path, consensus: cs.Consensus) -> None:
    with pytest.raises(DataError, match=r"none of the 20 tasks of export\.json is an item of this run"):
        cs.write(consensus, tmp_path / "p.json", source=_export(tmp_path))
    with pytest.raises(FormatError, match="is no JSON export of Label Studio"):
        cs.write(consensus, tmp_path / "p.json", source=EXAMPLES["peerannot"].put(tmp_path))
    run = quietly(cs.read(_export(tmp_path)), "majority")
    part = put(tmp_path, "part.json", json.dumps(json.loads((tmp_path / "export.json").read_text())[:5]))
    with pytest.warns(DataWarning, match=r"15 items are not among the tasks of part\.json and were left out"):
        cs.write(run, tmp_path / "p.json", source=part)


def test_what_cannot_be_written_is_said_and_leaves_nothing(tmp_path: Path, consensus: cs.Consensus) -> None:
    with pytest.raises(
        ParameterError, match=r"the ending '\.docx' names no format; say which with .*csv, parquet, excel"
    ):
        cs.write(consensus, tmp_path / "labels.docx")
    with pytest.raises(ParameterError, match="no format 'excell' to write; did you mean 'excel'"):
        cs.write(consensus, tmp_path / "labels.csv", format="excell")
    with pytest.raises(ParameterError, match="source, to_name: for 'label-studio', 'argilla', 'prodigy' only, not for"):
        cs.write(consensus, tmp_path / "labels.csv", source="x", to_name="y")
    with pytest.raises(ParameterError, match="reject: for 'mturk' only, not for the format 'csv'"):
        cs.write(consensus, tmp_path / "labels.csv", reject=True)
    with pytest.raises(ParameterError, match="spreadsheet: for 'csv' only"):
        cs.write(consensus, tmp_path / "labels.parquet", spreadsheet=True)
    with pytest.raises(ParameterError, match=r"the ending '\.jsonl' names no format"):
        cs.write(consensus, tmp_path / "labels.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, consensus: cs.Consensus, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, "labels.parquet", b"old")

    def broken(table: Any, where: Any) -> None:
        Path(where).write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(pq, "write_table", broken)
    with pytest.raises(OSError, match="no space"):
        cs.write(consensus, path)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["labels.parquet"]
