"""The command line, called in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from consilience.cli import main


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
