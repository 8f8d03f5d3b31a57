"""Runs of other kinds are not continued as if their answers were classes."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from benchmarks.torture.damage import KINDS

from consilience.exceptions import ConsilienceWarning, MethodError
from consilience.streams.stream import Stream


@pytest.mark.parametrize("kind", ["numeric", "multi", "ordinal", "open", "sequences", "network", "questions"])
def test_a_run_of_another_kind_is_refused(tmp_path: Path, kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        KINDS[kind][0](tmp_path / kind)
    with pytest.raises(MethodError, match="cannot continue from sums; aggregate all labels again"):
        Stream.load(tmp_path / kind)
