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
    result = strings.encode_bytes(window, np.frombuffer(data or b"", np.uint8))
    assert result is not None
    codes, first = result
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


def test_equal_hashes_of_different_strings_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collision cannot be found by search, so the table is told a lie: the check must see through it."""
    grow, fill, check = strings._kernels("int32")

    def lying_fill(*arguments: object) -> object:
        size = fill(*arguments)
        codes = arguments[8]
        assert isinstance(codes, np.ndarray)
        codes[1] = 0
        return size

    monkeypatch.setattr(strings, "_kernels", lambda _: (grow, lying_fill, check))
    array = pa.array(["one", "two", "one"])
    _, offsets, data = array.buffers()
    assert strings.encode_bytes(np.frombuffer(offsets, np.int32)[:4], np.frombuffer(data, np.uint8)) is None
