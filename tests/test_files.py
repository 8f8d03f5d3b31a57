"""Atomic files and folders: symbolic links, devices, and what killed processes leave behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from consilience.exceptions import FolderError
from consilience.files import atomic_file, atomic_folder

_MARKER = '{"format": "consilience.Test"}'


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _fill(folder: Path, text: str) -> None:
    with atomic_folder(folder, "marker.json") as fresh:
        (fresh / "marker.json").write_text(_MARKER)
        (fresh / "text").write_text(text)


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "run").symlink_to("disk/run")  # leads nowhere yet
    for text in ("first", "second"):
        _fill(tmp_path / "run", text)
        assert (tmp_path / "run").is_symlink()
        assert (disk / "run" / "text").read_text() == text
    assert sorted(_names(tmp_path)) == ["disk", "run"]
    assert _names(disk) == {"run"}


def test_a_link_to_a_folder_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("ten years")
    (tmp_path / "run").symlink_to("home")
    with pytest.raises(FolderError):
        _fill(tmp_path / "run", "x")
    assert (tmp_path / "home" / "thesis.txt").read_text() == "ten years"


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    with atomic_file(tmp_path / "link.csv") as path:
        path.write_text("new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    code = "from consilience.files import atomic_file\nwith atomic_file('/dev/stdout') as f: f.write_text('abc')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "abc", done.stderr
    with pytest.raises(OSError, match="No space left"), atomic_file("/dev/full") as path:
        path.write_text("x" * 10_000)
    assert not Path("/dev/full").is_file()


def _left_by_a_killed_process(target: Path, kind: str) -> subprocess.Popen[bytes]:
    """Start a process that begins to write, and return when it has begun."""
    code = (
        "import sys, time\nfrom consilience.files import atomic_file, atomic_folder\n"
        f"with atomic_{kind}({str(target)!r}{', chr(109)' if kind == 'folder' else ''}) as p:\n"
        "    (p / 'half' if p.is_dir() else p).write_text('half')\n    print(1, flush=True)\n    time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"
    return process


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_leftovers_of_killed_processes_are_removed_and_live_ones_kept(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    killed, live = (_left_by_a_killed_process(target, kind) for _ in range(2))
    try:
        assert len(_names(tmp_path)) == 2
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        # names that look similar, but are not ours
        (tmp_path / ".out.12345678").mkdir()
        (tmp_path / ".other.consilience-12345678").mkdir()
        if kind == "file":
            with atomic_file(target) as path:
                path.write_text("whole")
        else:
            _fill(target, "whole")
        left = _names(tmp_path) - {"out", ".out.12345678", ".other.consilience-12345678"}
        assert len(left) == 1, "only that of the live process"
    finally:
        live.kill()
        live.wait()
    if kind == "file":
        with atomic_file(target) as path:
            path.write_text("again")
    else:
        _fill(target, "again")
    assert _names(tmp_path) == {"out", ".out.12345678", ".other.consilience-12345678"}


def test_the_only_copy_of_a_retired_folder_is_kept(tmp_path: Path) -> None:
    """Without renameat2, a process can be killed after the old folder was moved away."""
    retired = tmp_path / ".out.consilience-12345678.old"
    retired.mkdir()
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "out", "marker.json"):
        raise ZeroDivisionError
    assert retired.is_dir()
    _fill(tmp_path / "out", "new")
    _fill(tmp_path / "out", "newer")
    assert _names(tmp_path) == {"out"}


def test_long_names_are_possible(tmp_path: Path) -> None:
    _fill(tmp_path / ("ü" * 127), "x")
    with atomic_file(tmp_path / ("n" * 255)) as path:
        path.write_text("x")
