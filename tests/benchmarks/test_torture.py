"""The table of bad inputs: exit status and message of every one, in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.torture.calls import Done, fault
from benchmarks.torture.inputs import CASES, Case
from tests.cli.conftest import Run, run

__all__ = ["run"]


@pytest.mark.parametrize("case", [case for case in CASES if "deep" not in case.name], ids=lambda case: case.name)
def test_bad_inputs_get_their_answer(run: Run, tmp_path: Path, case: Case) -> None:
    done = run(*case.put(tmp_path))
    assert fault(Done(*done), case.status, case.says) is None
