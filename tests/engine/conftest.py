"""Steps so small that a few rows make many of them, and which way a scan went."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from consilience.engine import scattered
from consilience.io import batches


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches, partitions and blocks so small that a few rows make many of them."""
    monkeypatch.setattr(batches, "_ROWS", 5)
    monkeypatch.setattr(batches, "_BLOCK", 64)
    monkeypatch.setattr(scattered, "_AT_ONCE", 7)
    monkeypatch.setattr(scattered, "_SPAN", 8)
    monkeypatch.setattr(scattered, "_COUNTERS", 4)
    monkeypatch.setattr(scattered, "_LABEL", 1 << 20)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which ways were tried."""
    tried: list[str] = []
    module = import_module("consilience.engine.scan")
    for name in ("write_grouped", "write_scattered"):
        real = getattr(module, name)

        def told(*args: Any, name: str = name, real: Any = real) -> Any:
            tried.append(name.removeprefix("write_"))
            return real(*args)

        monkeypatch.setattr(module, name, told)
    return tried
