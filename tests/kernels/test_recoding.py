"""Codes to other codes against numpy's indexing."""

from __future__ import annotations

import numpy as np
import pytest

from consilience.kernels import blocks
from consilience.kernels.recoding import recode


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_codes_are_replaced_where_they_lie(dtype: type, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "thread_count", lambda: threads)
    rng = np.random.default_rng(0)
    codes: np.ndarray = rng.integers(-1, 100, 10_001).astype(dtype)
    table = rng.permutation(100)
    expected = np.append(table, -1)[codes]
    recode(codes, table)
    np.testing.assert_array_equal(codes, expected)
