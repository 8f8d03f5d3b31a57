"""Damaged files of runs of every kind: loading refuses them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.torture.damage import KINDS, damaged


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_refused(tmp_path: Path, kind: str) -> None:
    tried = list(damaged(tmp_path, kind, random.Random(0), tries=3))
    assert len(tried) >= 15
    assert [wrong for wrong in tried if wrong] == []
