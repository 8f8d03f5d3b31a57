"""The registry of formats: which modules a file loads, and how often it is opened."""

from __future__ import annotations

import gzip
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.io.conftest import ROWS, delimited, put
from tests.io.export_files import EXAMPLES

import consilience as cs
from consilience.io import documents
from consilience.io.formats import EXPORTS, FORMATS, SEQUENCES, holds_sequences
from consilience.io.source import SHAPES

LOADED = """
import sys, consilience as cs
from consilience.io.formats import holds_sequences
holds_sequences(sys.argv[1]), cs.read(sys.argv[1])
print(*sorted(name.removeprefix("consilience.io.") for name in sys.modules if name.startswith("consilience.io")))
"""


def loaded(path: Path) -> set[str]:
    """The modules of formats that a fresh process loads to read a file."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", LOADED, str(path)], capture_output=True, check=True)
    return set(done.stdout.decode().split())


def test_a_plain_table_loads_no_module_of_an_export(tmp_path: Path) -> None:
    modules = loaded(put(tmp_path, "labels.csv", delimited(ROWS)))
    assert len(modules) <= 9
    assert modules.isdisjoint({module for tool in EXPORTS.values() for module in tool.modules})
    assert modules.isdisjoint({"conll", "brat", "sequences", "jsonl", "records", "parquet"})


def test_an_export_loads_its_own_module(tmp_path: Path) -> None:
    modules = loaded(EXAMPLES["mturk"].put(tmp_path))
    assert modules & {module for tool in EXPORTS.values() for module in tool.modules} == {"mturk"}


@pytest.mark.parametrize("name", ["labels.csv", "labels.tsv", "labels.txt", "labels.csv.gz"])
def test_the_head_of_a_table_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    text = delimited(ROWS, "\t" if name == "labels.tsv" else ",").encode()
    path = put(tmp_path, name, gzip.compress(text) if name.endswith(".gz") else text)
    opened: list[Path] = []
    real = documents.open_bytes

    def counting(file: Path) -> object:
        opened.append(file)
        return real(file)

    monkeypatch.setattr(documents, "open_bytes", counting)
    cs.read(path)
    assert opened == [path] * (2 if path.suffix == ".gz" else 1)  # gzipped content is opened in the same way


def test_every_row_names_a_module_that_can_read() -> None:
    names = {form.module for form in (*FORMATS.values(), *SEQUENCES.values())}
    for tool in EXPORTS.values():
        for reader in tool.readers:
            assert set(reader.shapes) <= set(SHAPES)
            module = import_module(f"consilience.io.{reader.module}")
            # without a function that recognises a file, the columns must decide
            assert hasattr(module, "recognise") or (reader.columns and reader.shapes == ("table",))
            names.add(reader.module)
    for name in names:
        assert callable(import_module(f"consilience.io.{name}").read)


def test_whether_a_file_holds_sequences(tmp_path: Path) -> None:
    tokens = "EU B-ORG O\nrejects O O\n\nPeter B-PER ?\n"
    assert holds_sequences(put(tmp_path, "a.conll", tokens))
    assert holds_sequences(put(tmp_path, "a.txt", tokens))
    assert not holds_sequences(put(tmp_path, "a.csv", tokens))
    assert not holds_sequences(put(tmp_path, "empty.txt", ""))
    assert not holds_sequences(tmp_path / "absent.conll")
    assert holds_sequences(tmp_path / "a.csv", "conll")
