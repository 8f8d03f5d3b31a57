"""Files made to break a reader: deep nesting, packed bombs, other encodings, pipes, devices and damaged exports."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.exceptions import FormatError, ParameterError

_ROWS = "task,worker,label\n" + "".join(f"t{i},wé{j},{(i * j) % 3}\n" for i in range(20) for j in range(5))


def _refused(path: Path, **options: Any) -> str:
    with pytest.raises(FormatError) as caught:
        cs.read(path, **options)
    return str(caught.value)


# ---- nesting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["[" * 20_000 + "]" * 20_000, '{"a":' * 20_000 + "1" + "}" * 20_000, "[[]," * 9_999 + "1" + "]" * 9_999]
)
@pytest.mark.parametrize("packed", [False, True])
def test_deep_nesting_is_refused_before_it_is_parsed(tmp_path: Path, value: str, packed: bool) -> None:
    """In a process of its own: pyarrow overflows the stack."""
    lines = [f'{{"item": {i}, "annotator": 1, "label": 1}}' for i in range(3)]
    text = "\n".join([*lines, f'{{"item": 9, "annotator": 2, "label": {value}}}']).encode()
    path = tmp_path / ("deep.jsonl.gz" if packed else "deep.jsonl")
    path.write_bytes(gzip.compress(text) if packed else text)
    code = f"import consilience as cs\ntry: cs.read({str(path)!r})\nexcept cs.exceptions.FormatError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout == f"{path.name}, row 4: values are nested more than 100 levels deep\n"


def test_many_brackets_that_are_not_nested_are_read(tmp_path: Path) -> None:
    path = tmp_path / "wide.jsonl"
    rows = [
        {"item": i, "annotator": j, "label": (i + j) % 2, "note": "[" * 300 + '\\"{', "boxes": [[0]] * 200}
        for i in range(9)
        for j in range(3)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cs.read(path).n_labels == 27


# ---- encodings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "UTF_16", "utf-32", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("engine", ["local", "stream"])
def test_tables_in_other_encodings(tmp_path: Path, encoding: str, engine: str) -> None:
    path = tmp_path / "labels.csv"
    # ఊ is 0x0C0A: its bytes contain that of a line end
    rows = _ROWS if encoding == "latin-1" else _ROWS.replace("task", "ఊtask").replace("wé", "wఊ")
    path.write_bytes(rows.encode(encoding))
    item = None if encoding == "latin-1" else "ఊtask"
    read = cs.read(path, encoding=encoding, item=item)
    assert read == cs.read(_utf8(tmp_path, rows), item=item)
    if engine == "stream":
        reading = {"encoding": encoding, "item": item}
        assert cs.aggregate(path, "majority", engine="stream", reading=reading).run["labels"] == 100


def _utf8(folder: Path, rows: str) -> Path:
    path = folder / "utf8.csv"
    path.write_text(rows, "utf-8")
    return path


def test_a_bad_row_in_utf16_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(_ROWS + "a,b\n", "utf-16")
    assert "line 102: 2 fields where the header has 3" in _refused(path, encoding="utf-16")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["labels.csv", "labels.json"])
def test_utf16_without_saying_so_gets_a_hint(tmp_path: Path, encoding: str, name: str) -> None:
    path = tmp_path / name
    text = _ROWS if name.endswith("csv") else json.dumps([{"item": 1, "annotator": 2, "label": 3}] * 9)
    path.write_bytes(text.encode(encoding))
    assert "(--encoding utf-16)" in _refused(path, format=path.suffix[1:])


def test_latin1_without_saying_so_gets_its_own_hint(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(_ROWS.encode("latin-1"))
    assert "(--encoding latin-1)" in _refused(path)


# ---- bombs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bomb.csv.gz", _ROWS + "t,w,1\n" * 400_000),
        ("bomb.jsonl.gz", '{"item": 1, "annotator": 2, "label": 3}\n' * 60_000),
        ("bomb.json.gz", json.dumps([{"item": 1, "annotator": 2, "label": 3}] * 50_000)),
        ("bomb.conll.gz", "word O O\n" * 300_000),
        ("line.jsonl.gz", '{"item": "' + " " * 3_000_000),
    ],
)
def test_packed_files_expand_up_to_a_limit(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()))
    assert path.stat().st_size < 100_000
    message = _refused(path, max_bytes="2MB")
    assert "more than 0.002 GB" in message
    assert "--max-bytes" in message
    if name.startswith("bomb"):
        assert cs.read(path, max_bytes="20MB", duplicates="keep") is not None


def test_the_limit_is_a_size(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="max_bytes must be"):
        cs.read(_utf8(tmp_path, _ROWS), max_bytes="many")


def test_a_packed_parquet_file_expands_up_to_a_limit(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    zeros = np.zeros(400_000)
    pq.write_table(
        pa.table({"item": np.arange(400_000), "annotator": zeros, "label": zeros}),
        tmp_path / "a.parquet",
        compression="none",
        use_dictionary=False,
    )
    path = tmp_path / "a.parquet.gz"
    path.write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert "--max-bytes" in _refused(path, max_bytes=10**6)
    assert cs.read(path).n_labels == 400_000


# ---- what is not a file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["local", "stream"])
def test_pipes_and_devices_are_named(tmp_path: Path, engine: str) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for path, kind in ((tmp_path / "pipe.csv", "a pipe"), (Path("/dev/zero"), "a device")):
        with pytest.raises(FormatError, match=f"{path} is {kind}, not a file.*Save it to a file"):
            cs.aggregate(path, "majority", engine=engine)
        with pytest.raises(FormatError, match=f"is {kind}"):
            cs.read_truth(path)
        with pytest.raises(FormatError, match=f"is {kind}"):
            cs.read_sequences(path)


# ---- damaged exports ---------------------------------------------------------------------------------------------


def _tasks() -> list[dict[str, Any]]:
    def made(i: int, j: int) -> dict[str, Any]:
        value = {"choices": ["a" if (i * j) % 2 else "b"]}
        return {
            "completed_by": j,
            "result": [{"from_name": "q", "to_name": "t", "type": "choices", "value": value}],
        }

    return [{"id": i, "data": {"t": "x"}, "annotations": [made(i, j) for j in range(3)]} for i in range(9)]


def test_a_damaged_label_studio_file_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    tasks = _tasks()
    tasks[0]["annotations"] = {"completed_by": 1}
    path.write_text(json.dumps(tasks))
    assert _refused(path) == "export.json: the annotations of task 0 are not a list of objects"
    path.write_text(json.dumps([{"id": 1, "data": {}, "annotations": "none"}]))
    assert "the annotations of task 1 are not a list" in _refused(path)


@pytest.mark.parametrize("change", [{"data": None}, {"annotations": None}, {"annotations": []}])
def test_a_first_task_without_content_is_no_obstacle(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "export.json"
    tasks = _tasks()
    tasks[0] |= change
    path.write_text(json.dumps(tasks))
    assert cs.recognise(path).name == "label-studio"
    assert cs.read(path).n_labels == (27 if "data" in change else 24)


# ---- columns -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "frame", "stream"])
def test_two_columns_that_may_be_the_item_are_noted(tmp_path: Path, form: str) -> None:
    import pyarrow as pa

    columns: dict[str, Any] = {
        "task": np.arange(30) // 3 + 100,
        "item": np.repeat(np.arange(10), 3),
        "worker": ["x", "y", "z"] * 10,
        "label": np.arange(30) * 7 % 2,
    }
    path = tmp_path / "labels.csv"
    path.write_text(
        "\n".join(",".join(map(str, row)) for row in zip(*([k, *v] for k, v in columns.items()), strict=True))
    )
    note = "'task' is taken as the item, not 'item'; name the right column with item=… (--item …)"
    data = pa.table(columns) if form == "frame" else path
    engine = "stream" if form == "stream" else "local"
    with pytest.warns(cs.exceptions.DataWarning, match="'task' is taken"):
        run = cs.aggregate(data, "majority", engine=engine)
    assert any(note in warning for warning in run.warnings)
    assert not cs.read(path, item="item").origin.notes


# ---- byte order --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [">i2", ">i4", ">u8", ">f4", ">f8"])
def test_swapped_bytes_are_read(kind: str) -> None:
    import pandas as pd

    plain = np.arange(60).reshape(20, 3) * 7 % 3
    swapped = plain.astype(kind)
    assert (cs.Annotations.from_matrix(swapped).label == cs.Annotations.from_matrix(plain).label).all()
    n, m = np.indices(plain.shape)
    columns = {"task": n, "worker": m, "label": plain, "time": n + m}
    frame = pd.DataFrame({name: values.ravel().astype(kind) for name, values in columns.items()})
    read = cs.Annotations.from_frame(frame)
    assert (read.label == plain.ravel()).all()
    assert read.time is not None
    gold = cs.Annotations.from_matrix(plain, gold=plain[:, 0].astype(kind)).gold
    np.testing.assert_array_equal(gold, plain[:, 0])
