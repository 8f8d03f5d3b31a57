"""Every reader, given anything: annotations or one clear error, at once and in little memory."""

from __future__ import annotations

import gzip
import json
import tempfile
import time
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.io.export_files import EXAMPLES, TOKENS
from tests.io.export_making import Example

import consilience as cs
from consilience.exceptions import ConsilienceError
from consilience.io.formats import EXPORTS

ALL = {**EXAMPLES, **TOKENS}
FILES = {name: example for name, example in ALL.items() if isinstance(example.content, bytes)}
JSON = [name for name, example in FILES.items() if bytes(example.content[:1]) in (b"{", b"[")]  # type: ignore[index]
QUICK = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def read(path: Path, **options: Any) -> None:
    """Read, and let nothing through but an error of ours, in one sentence."""
    said = "nothing"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cs.read(path, **options)
    except ConsilienceError as error:
        said = str(error)
    assert said.strip()
    assert len(said) < 1500


def read_bytes(content: bytes, example: Example, **options: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / example.file
        path.write_bytes(content)
        read(path, **options)
        read(path, format=example.name, question=example.question)


@pytest.mark.parametrize("name", FILES)
@QUICK
@given(content=st.binary(max_size=400))
def test_any_bytes(name: str, content: bytes) -> None:
    read_bytes(content, FILES[name])


@pytest.mark.parametrize("name", FILES)
@QUICK
@given(data=st.data())
def test_an_example_with_bytes_changed(name: str, data: st.DataObject) -> None:
    content = bytearray(FILES[name].content)  # type: ignore[arg-type]
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, max(len(content) - 1, 0)))
        what = data.draw(st.sampled_from(["flip", "cut", "insert", "repeat"]))
        if what == "flip" and content:
            content[at] ^= data.draw(st.integers(1, 255))
        elif what == "cut":
            del content[at : at + data.draw(st.integers(1, 40))]
        elif what == "insert":
            content[at:at] = data.draw(
                st.binary(max_size=8) | st.sampled_from([b'"', b",", b"\n", b"[", b"null", b"\xff"])
            )
        else:
            content[at:at] = content[at : at + 60]
    read_bytes(bytes(content), FILES[name])


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        [],
        {},
        [[]],
        {"a": {}},
        "",
        " ",
        "\ud800",
        1e308,
        -1,
        10**30,
        0.5,
        float("nan"),
        float("inf"),
        "x" * 300,
    ]
)


def _changed(value: Any, data: st.DataObject, depth: int = 0) -> Any:
    """Put something odd in one place of a document."""
    inside = isinstance(value, dict | list) and value and (depth == 0 or data.draw(st.integers(0, 5)))
    if not inside:
        return data.draw(ODD)
    if isinstance(value, dict):
        key = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.booleans()) and depth:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: _changed(value[key], data, depth + 1)}
    at = data.draw(st.integers(0, len(value) - 1))
    return [*value[:at], _changed(value[at], data, depth + 1), *value[at + 1 :]]


@pytest.mark.parametrize("name", JSON)
@settings(QUICK, max_examples=60)
@given(data=st.data())
def test_json_of_another_structure(name: str, data: st.DataObject) -> None:
    example = FILES[name]
    lines = example.file.endswith((".jsonl", ".manifest"))
    text = bytes(example.content).decode()  # type: ignore[arg-type]
    parts = [json.loads(line) for line in text.splitlines()] if lines else [json.loads(text)]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(parts) - 1))
        parts[at] = _changed(parts[at], data)
    read_bytes("".join(json.dumps(part) + "\n" for part in parts).encode(), example)


@pytest.mark.parametrize("name", ["conll", "brat"])
@QUICK
@given(content=st.binary(max_size=300))
def test_tokens_of_any_bytes(name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = TOKENS[name].put(Path(folder))
        (place / "alice/d1.ann" if place.is_dir() else place).write_bytes(content)
        read(place)
        read(place, format=name)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'[{"id": 1, "data": {}, "annotations": ' + b"[" * 50_000,
        b"[" + b"9" * 100_000 + b"]",
        b'{"1": {"w": ' + b"9" * 5000 + b"}}",
        b'{"1": {"w": 1e999999999}}',
        b'{"1": {"w": ' + b"9" * 4000 + b"}}",
        b'{"1": {"\\ud800": 1}}',
    ],
    ids=["arrays", "objects", "annotations", "digits", "label", "exponent", "large", "half"],
)
@pytest.mark.parametrize("ending", [".json", ".jsonl", ".manifest", ""])
def test_deep_nesting_and_huge_numbers(tmp_path: Path, content: bytes, ending: str) -> None:
    path = tmp_path / f"deep{ending}"
    path.write_bytes(content)
    read(path)


def test_files_that_say_to_be_larger_than_they_are(tmp_path: Path) -> None:
    """An array of a petabyte, and an archive that unpacks to a gigabyte, take no memory to speak of."""
    array = bytes(EXAMPLES["snorkel-npy"].content)  # type: ignore[arg-type]
    (tmp_path / "L.npy").write_bytes(array.replace(b"(2, 3)", b"(9999999, 99999999)")[: len(array)])
    with zipfile.ZipFile(tmp_path / "L.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("L.npy", array.replace(b"(2, 3)", b"(8, 9)"))
    (tmp_path / "L.json").write_bytes(b'{"1": {"w": 1}}')
    begun = time.process_time()
    tracemalloc.start()
    read(tmp_path / "L.npy")
    read(tmp_path / "L.npz")
    read(tmp_path / "L.json")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 26
    assert time.process_time() - begun < 5


def test_an_archive_is_not_unpacked_beyond_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from consilience.io import doccano, documents

    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jsonl", b'{"id": 1, "text": "x", "label": ["a"]}\n' + b" " * (1 << 24))
        archive.writestr("b.jsonl", b'{"id": 1, "text": "x", "label": ["a"]}\n' + b" " * (1 << 24))
    monkeypatch.setattr(doccano, "most_bytes", lambda: 1 << 24)
    with pytest.raises(ConsilienceError, match="too much for the memory"):
        cs.read(tmp_path / "bomb.zip", format="doccano")
    monkeypatch.setattr(documents, "most_bytes", lambda: 1 << 10)
    (tmp_path / "large.json").write_bytes(b'{"1": {"w": 1}}' + b" " * 2000)
    with pytest.raises(ConsilienceError, match=r"large\.json has more than .* GB, too much for the memory"):
        cs.read(tmp_path / "large.json")


def test_names_in_an_archive_lead_nowhere(tmp_path: Path) -> None:
    """A name such as ../../x is only the name of an annotator."""
    place = tmp_path / "a" / "b" / "slip.zip"
    place.parent.mkdir(parents=True)
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("../../ann.jsonl", '{"id": 1, "text": "x", "label": ["a"]}\n')
        archive.writestr("/etc/bob.jsonl", '{"id": 1, "text": "x", "label": ["b"]}\n')
    annotations = cs.read(place)
    assert annotations.annotators.tolist() == ["ann", "bob"]
    assert [path.name for path in tmp_path.rglob("*.*")] == ["slip.zip"]


def _of(name: str, old: bytes, new: bytes) -> tuple[str, bytes]:
    content = bytes(FILES[name].content)  # type: ignore[arg-type]
    assert old in content
    return FILES[name].file, content.replace(old, new)


def _damaged() -> bytes:
    """A Parquet file in which two bytes have changed: the codes of a column point beyond its dictionary."""
    content = bytearray(FILES["parquet-table"].content)  # type: ignore[arg-type]
    content[108], content[912] = 108, 8
    return bytes(content)


#: What earlier runs of ``make fuzz`` came upon.
FOUND = {
    "more states than answers": _of("argilla", b'["submitted", "discarded", "draft"]', b'["a", "b", "c", "d", "e"]'),
    "a header of an array that breaks off": _of("snorkel-npy", b"(2, 3)", b"(2, 3 "),
    "a field whose name is no text": _of("jsonl-table", b'"task"', b'"t\x80sk"'),
    "nothing on the first line": ("labels.jsonl", b' null\n{"task": 1, "worker": "a", "label": "x"}\n'),
    "nothing where a block begins": (
        "labels.jsonl",
        b'{"task": 1, "worker": "a", "label": "x"}\n' + b"null\n" * 300_000,
    ),
    "nothing, zipped": ("labels.jsonl.gz", gzip.compress(b'{"task": 1}\n' + b"\t null\n" * 300_000)),
    "codes beyond a dictionary": ("labels.parquet", _damaged()),
    "a column whose name is no text": _of("parquet-table", b"task", b"t\xe1sk"),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_before(tmp_path: Path, name: str) -> None:
    file, content = FOUND[name]
    (tmp_path / file).write_bytes(content)
    read(tmp_path / file)


@pytest.mark.parametrize("name", EXPORTS)
def test_a_header_without_names_before_bytes_that_are_no_text(tmp_path: Path, name: str) -> None:
    (tmp_path / "judgments.csv").write_bytes(b"\n\x00\x00;\x00\x001\x01e\x01;\x00\xcd\n\x00\x00;\x00")
    with pytest.raises(ConsilienceError):
        cs.read(tmp_path / "judgments.csv", format=name)
