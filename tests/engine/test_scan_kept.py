"""What a scan keeps, finds again, and leaves behind: nothing, when it failed or was killed."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.engine.scans import crowd, put, quietly

import consilience as cs
from consilience.engine.fingerprint import fingerprint
from consilience.engine.store import Store
from consilience.engine.workplace import WorkFolder
from consilience.exceptions import (
    DataError,
    DataWarning,
    FolderError,
    IdError,
)
from consilience.io import batches

pytestmark = pytest.mark.usefixtures("small_steps")


def test_temporary_labels_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path / "labels", crowd("text"))
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with quietly(cs.scan, folder) as scanned:
        assert len(list(place.iterdir())) == 1
    assert list(place.iterdir()) == []
    with pytest.raises(DataError, match="closed"):
        scanned.annotations()
    scanned = quietly(cs.scan, folder)
    del scanned
    gc.collect()
    assert list(place.iterdir()) == []


def test_kept_labels_are_found_again(tmp_path: Path, ways: list[str]) -> None:
    folder, kept = put(tmp_path / "labels", crowd("numbers")), tmp_path / "kept"
    with pytest.warns(DataWarning, match="repeat an answer"):
        first = cs.scan(folder, spill=kept).annotations()
    ways.clear()
    with pytest.warns(DataWarning, match="repeat an answer"):
        assert cs.scan(folder, spill=kept).annotations() == first
    assert not ways
    # other options, other files, other truths: read anew
    assert quietly(cs.scan, folder, spill=kept, duplicates="keep").n_labels == 120
    assert ways
    ways.clear()
    put(folder, crowd("numbers", seed=1))
    assert quietly(cs.scan, folder, spill=kept).annotations() == quietly(cs.read, folder)
    assert ways
    ways.clear()
    truth = {0: 1}
    assert quietly(cs.scan, folder, spill=kept, gold=truth).annotations().gold is not None
    assert ways
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "labels"]
    store = Store(kept)
    assert fingerprint(store.annotations()) == store.fingerprint


def test_what_a_killed_scan_left_is_removed_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    folder = put(tmp_path / "labels", crowd("numbers"))
    script = f"""
import os, signal
import consilience as cs
from consilience.engine.store_writer import StoreWriter
StoreWriter.finish = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
cs.scan({str(folder)!r}, spill={str(tmp_path / "kept")!r})
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "kept").exists()
    assert len(list(tmp_path.glob(".consilience-*"))) == 1
    living = WorkFolder(tmp_path)
    quietly(cs.scan, folder, spill=tmp_path / "kept")
    assert list(tmp_path.glob(".consilience-*")) == [living.path]
    living.remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "labels"]


def test_a_damaged_store_is_made_anew(tmp_path: Path) -> None:
    folder, kept = put(tmp_path / "labels", crowd("numbers")), tmp_path / "kept"
    quietly(cs.scan, folder, spill=kept)
    (kept / "label.npy").write_bytes(b"")
    assert quietly(cs.scan, folder, spill=kept).annotations() == quietly(cs.read, folder)


def test_nothing_is_left_of_a_scan_that_failed(tmp_path: Path) -> None:
    folder = put(tmp_path / "labels", crowd("numbers"), {"item": [1], "annotator": [None], "label": [1]})
    kept = tmp_path / "kept"
    with pytest.raises(IdError):
        cs.scan(folder, spill=kept)
    assert [path.name for path in tmp_path.iterdir()] == ["labels"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(FolderError, match="choose another place"):
        cs.scan(put(tmp_path / "labels", crowd("numbers")), spill=tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


def test_files_that_change_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path / "labels", crowd("text"))
    real = batches.LabelFiles.batches

    def changing(self: batches.LabelFiles, *roles: str) -> Iterator[batches.Batch]:
        yield from real(self, *roles)
        os.utime(folder / "part-0.parquet", ns=(1, 1))

    monkeypatch.setattr(batches.LabelFiles, "batches", changing)
    with pytest.raises(DataError, match="labels was changed while it was read"):
        quietly(cs.scan, folder)


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(import_module("consilience.engine.scan"), "write_grouped", full)
    folder = put(tmp_path / "labels", crowd("numbers"))
    with pytest.raises(FolderError, match=r"is full: labels needs about 0\.1 GB there"):
        cs.scan(folder, spill=tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["labels"]
