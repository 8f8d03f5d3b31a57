"""The command line, called in this process or its own, and small files for it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

import consilience as cs
from consilience.cli import main

#: What a run leaves in its folder.
FILES = {"labels.csv", "annotators.csv", "model.npz", "summary.json"}

#: Twelve items, four annotators; the fourth errs on every third item.  Classes: even "cat", odd "dog".
ROWS = [
    (f"i{n}", f"w{m}", "cat" if (n % 2 == 0) != (m == 3 and n % 3 == 0) else "dog") for n in range(12) for m in range(4)
]
TRUTH = {f"i{n}": "cat" if n % 2 == 0 else "dog" for n in range(12)}


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call the command line in this process."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: Any) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        code = end.value.code
        return Result(code if isinstance(code, int) else 0 if code is None else 1, printed.out, printed.err)

    return call


def environment(**more: str) -> dict[str, str]:
    """The environment of a child that finds the same package as this process."""
    here = str(Path(cs.__file__).parents[1])
    path = os.pathsep.join(p for p in (here, os.environ.get("PYTHONPATH", "")) if p)
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", **more}


def child(*arguments: Any, **more: str) -> Result:
    command = [sys.executable, "-m", "consilience", *map(str, arguments)]
    done = subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=60, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def write(path: Path, rows: Any, header: str = "task,worker,label") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header.split(","))
        writer.writerows(rows)
    return path


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def strict_json(text: str) -> dict[str, Any]:
    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is not JSON")

    content: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return content


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return write(tmp_path / "labels.csv", ROWS)


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    return write(tmp_path / "truth.csv", TRUTH.items(), "task,label")
