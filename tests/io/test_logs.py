"""Logs of evaluations: several files are one table, prompts are variants, questions are chosen by who answered."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.io.conftest import put
from tests.io.log_files import LOGS
from tests.io.test_exports import gold_of, quiet, rows_of

import consilience as cs
from consilience.exceptions import ColumnError, FormatError


def test_a_list_of_logs_is_one_table(tmp_path: Path) -> None:
    folder = LOGS["inspect-answers"].put(tmp_path)
    listed = quiet([folder / "one.json", folder / "two.json"])  # type: ignore[arg-type]
    assert listed == quiet(folder)
    assert listed.annotators.tolist() == ["openai/one", "two"]
    with pytest.raises(
        FormatError, match=r"labels\.csv and 0 more: several files can be read at once if they are logs"
    ):
        cs.read([put(tmp_path, "labels.csv", "item,judge,label\n1,a,x\n")])
    with pytest.raises(FormatError, match="the list of files is empty"):
        cs.read([])


def test_samples_of_several_tasks_do_not_mix(tmp_path: Path) -> None:
    record = {"doc_id": 0, "doc": {}, "target": "1", "filtered_resps": ["1"]}
    for model in ("a", "b"):
        for task in ("arc", "piqa"):
            (tmp_path / "out" / model).mkdir(parents=True, exist_ok=True)
            put(tmp_path / "out" / model, f"samples_{task}_2026-01-05T10-00-00.jsonl", json.dumps(record) + "\n")
    made = quiet(tmp_path / "out")
    assert made.items.tolist() == ["arc/0", "piqa/0"]
    assert made.annotators.tolist() == ["a", "b"]


def _results(*rows: tuple[str, str, str, str]) -> str:
    made = [
        {
            "provider": provider,
            "prompt": {"label": prompt},
            "vars": {"id": test},
            "response": {"output": output},
            "success": True,
        }
        for provider, prompt, test, output in rows
    ]
    return json.dumps({"results": made})  # as before version 2


def test_prompts_of_a_provider_are_pooled(tmp_path: Path) -> None:
    text = _results(
        ("a", "p1", "t1", "yes"), ("a", "p2", "t1", "no"), ("b", "p1", "t1", "yes"), ("a", "p1", "t2", "no")
    )
    made = quiet(put(tmp_path, "results.json", text))
    rows = [("t1", "a", "yes"), ("t1", "a", "no"), ("t1", "b", "yes"), ("t2", "a", "no")]
    assert sorted(rows_of(made)) == sorted(rows)
    assert "2 variants (prompts or orders) of 1 judges are pooled" in made.origin.notes[0]


def test_epochs_of_a_model_are_pooled_and_targets_stripped(tmp_path: Path) -> None:
    samples = [
        {"id": 1, "epoch": epoch, "input": "?", "target": " A", "scores": {"match": {"value": "C", "answer": said}}}
        for epoch, said in ((1, "A"), (2, "B"))
    ]
    log = {"version": 2, "eval": {"task": "t", "model": "m"}, "samples": samples}
    made = cs.read(put(tmp_path, "log.json", json.dumps(log)), question="answer")
    assert sorted(rows_of(made)) == [("1", "m", "A"), ("1", "m", "B")]
    assert gold_of(made) == {"1": "A"}
    assert "2 variants" in made.origin.notes[0]


def test_an_eval_file_in_zstd_is_unpacked(tmp_path: Path) -> None:
    """Python's zipfile cannot write zstd before 3.14: members are stored, and their headers then name zstd."""
    content = LOGS["inspect-eval"].content
    assert isinstance(content, bytes)
    path = tmp_path / "one.eval"
    with zipfile.ZipFile(io.BytesIO(content)) as plain, zipfile.ZipFile(path, "w") as archive:
        for name in plain.namelist():
            whole = plain.read(name)
            halves = whole[: len(whole) // 2], whole[len(whole) // 2 :]  # large members have several frames
            archive.writestr(name, b"".join(bytes(pa.compress(half, codec="zstd")) for half in halves))
            info = archive.getinfo(name)
            info.compress_type, info.file_size, info.CRC = 93, len(whole), zlib.crc32(whole)
    made = quiet(path, question="answer")
    assert rows_of(made) == LOGS["inspect-eval"].rows
    damaged = bytearray(path.read_bytes())
    at = damaged.index(b"\x28\xb5\x2f\xfd")
    damaged[at + 12 : at + 20] = b"########"
    path.write_bytes(damaged)
    with pytest.raises(FormatError, match=r"inspect log convert one\.eval"):
        cs.read(path)


def test_a_log_with_two_panels_asks_which(tmp_path: Path) -> None:
    path = LOGS["promptfoo-answers"].put(tmp_path)
    with pytest.raises(ColumnError, match="several questions: 'answer', 'score'"):
        cs.read(path)


def test_long_instructions_keep_apart(tmp_path: Path) -> None:
    def record(text: str) -> dict[str, Any]:
        return {"instruction": text, "generator_1": "r", "generator_2": "m", "preference": 2, "annotator": "j"}

    words = "Write about the sea and the wind and the rain and the sun and the moon and the stars, "
    path = put(tmp_path, "annotations.json", json.dumps([record(words + "one"), record(words + "two")]))
    made = quiet(path)
    assert made.n_items == 2
    assert all(len(item) < 110 for item in made.items)


def test_an_eval_file_that_cannot_be_unpacked_says_how(tmp_path: Path) -> None:
    content = LOGS["inspect-eval"].content
    assert isinstance(content, bytes)
    damaged = bytearray(content)
    at = content.index(b"question")
    damaged[at : at + 8] = b"########"  # the checksum no longer fits
    path = tmp_path / "one.eval"
    path.write_bytes(damaged)
    with pytest.raises(FormatError, match=r"inspect log convert one\.eval"):
        cs.read(path)


def test_systems_are_part_of_item_names_only_if_there_are_several(tmp_path: Path) -> None:
    """So logs of two systems on the same samples have the same items, and can be compared."""
    graded = json.loads(LOGS["inspect-scores"].content)  # type: ignore[arg-type]
    paths = []
    for model in ("one", "two"):
        graded["eval"]["model"] = model
        paths.append(put(tmp_path, f"{model}.json", json.dumps(graded)))
    assert [quiet(path, question="score").items.tolist() for path in paths] == [["s1", "s2"]] * 2
    both = quiet(paths, question="score")  # type: ignore[arg-type]
    assert both.items.tolist() == ["s1/one", "s2/one", "s1/two", "s2/two"]
