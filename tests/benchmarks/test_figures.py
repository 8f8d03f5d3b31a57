"""A figure without a target is neither met nor missed."""

from __future__ import annotations

import pytest
from benchmarks.figures import Figure, print_all


def test_only_figures_with_a_target_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    print_all(
        [
            Figure("seconds", 2.0, 1.0),
            Figure("error", 2.0, 2.0),
            Figure("speed", 3.0, 2.0, up=True),
            Figure("memory", 9.0),
        ]
    )
    lines = capsys.readouterr().out.splitlines()[-5:]
    assert [line[:4].strip() for line in lines[:4]] == ["MISS", "ok", "ok", ""]
    assert [line.split()[0] for line in lines[3:]] == ["memory", "2"]
    assert lines[-1] == "2 of 3 targets met"
