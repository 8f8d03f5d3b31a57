"""Strings to codes against Python's own dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from consilience.kernels import strings


def coded(values: list[str], large: bool = False) -> tuple[list[int], list[str]]:
    array = pa.array(values, pa.large_string() if large else pa.string())
    _, offsets, data = array.buffers()
    window = np.frombuffer(offsets, np.int64 if large else np.int32)[: len(values) + 1]
    codes, first = strings.encode_bytes(window, np.frombuffer(data or b"", np.uint8))
    return codes.tolist(), [values[i] for i in first]


@pytest.mark.parametrize("large", [False, True])
def test_codes_are_those_of_a_dictionary(large: bool) -> None:
    rng = np.random.default_rng(0)
    stems = ["", "a", "é" * 9, "item-", "x" * 70, "\x00", "日本"]
    values = [stems[i % 7] + str(rng.integers(0, 4000)) for i in range(30_000)] + stems
    expected: dict[str, int] = {}
    for value in values:
        expected.setdefault(value, len(expected))
    codes, names = coded(values, large)
    assert codes == [expected[value] for value in values]
    assert names == list(expected)


def test_hashes_of_similar_names_differ() -> None:
    """A million names that differ in one digit or in their length: as many codes as names."""
    values = [f"item-{i:07d}" for i in range(500_000)] + ["x" * n + "\0" * m for n in range(300) for m in range(300)]
    codes, names = coded(values)
    assert codes == list(range(len(values)))
    assert names == values
