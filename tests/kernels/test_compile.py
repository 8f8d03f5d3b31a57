"""Whoever waits for a compilation is told: a kernel that is not in the cache calls the listeners, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilience.kernels import _compile


def test_listeners_hear_of_a_compilation_and_not_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    heard: list[str] = []
    monkeypatch.setattr(_compile, "listeners", [lambda: heard.append("compiled")])

    def add(x: int) -> int:
        return x + 1

    for _ in range(2):
        assert _compile.kernel(add, "int64", "int64")(2) == 3
        _compile._kernels.pop((add, "int64", "int64", ()))  # as in another process
    assert heard == ["compiled"]
