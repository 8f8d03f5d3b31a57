"""Fields of delimited text against a regular expression that says what plain text is."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from consilience.kernels.delimited import encode_text
from consilience.kernels.fields import BLOCK, find_fields

FIELD = rb'(?:"[^"\n]*"|[^",\r\n]*)'


def by_pattern(text: bytes, n_fields: int) -> list[list[bytes]] | None:
    """The rows of plain text, None if it is not plain."""
    line = rb"(?=[^\r\n])" + rb",".join([rb"(" + FIELD + rb")"] * n_fields) + rb"(?:\r?\n|\r?\Z)"
    if not re.fullmatch(rb"(?:[\r\n]|" + line + rb")*", text):
        return None
    rows = (match.groups() for match in re.finditer(rb"[\r\n]|" + line, text) if match[1] is not None)
    return [[field[1:-1] if field[:1] == b'"' else field for field in row] for row in rows]


def by_kernel(text: bytes, n_fields: int) -> list[list[bytes]] | None:
    columns = encode_text(np.frombuffer(text, np.uint8), 0, n_fields, list(range(n_fields)), ",")
    if columns is None:
        return None
    decoded = []
    for codes, offsets, raw in columns:
        names = [raw.tobytes()[a:b] for a, b in itertools.pairwise(offsets.tolist())]
        decoded.append([names[code] for code in codes])
    return [list(row) for row in zip(*decoded, strict=True)]


# what comes before puts the text at the end of a block, across two, and at the beginning of one
@pytest.mark.parametrize("before", [0, BLOCK - 5, BLOCK - 3, BLOCK - 1])
def test_every_short_text(before: int) -> None:
    begin = b"x" * (before - 3) + b",y\n" if before else b""
    plain = 0
    for n in range(6 if before == 0 else 5):
        for letters in itertools.product(b'a,"\r\n', repeat=n):
            text = begin + bytes(letters)
            if text:
                expected = by_pattern(text, 2)
                assert by_kernel(text, 2) == expected, text
                plain += expected is not None
    assert plain > 100


@pytest.mark.parametrize("n_fields", [1, 3, 7])
def test_long_texts(n_fields: int) -> None:
    rng = np.random.default_rng(n_fields)
    for _ in range(100):
        lines = []
        for _ in range(rng.integers(1, 60)):
            fields = ["é" * length if length % 5 else " a," * length for length in rng.integers(0, 30, n_fields)]
            quotes = rng.random(n_fields) < 0.5
            row = ",".join(
                f'"{field}"' if q or "," in field else field for field, q in zip(fields, quotes, strict=True)
            )
            lines.append(row + "\n" * (rng.random() < 0.1))
        text = ("\r\n" if rng.random() < 0.5 else "\n").join(lines).encode() + b"\n" * rng.integers(0, 2)
        if text:
            expected = by_pattern(text, n_fields)
            assert expected is not None
            assert by_kernel(text, n_fields) == expected
        # a quote too many, anywhere, is either noticed or part of another plain text
        at = int(rng.integers(0, len(text) + 1))
        broken = text[:at] + b'"' + text[at:]
        assert by_kernel(broken, n_fields) == by_pattern(broken, n_fields)


def test_every_byte_can_end_a_field() -> None:
    """More than eight fields in a block."""
    text = np.frombuffer(b"," * 200 + b"\n" + b"\n" * BLOCK, np.uint8)
    begins, ends = np.empty(300, np.uint32), np.empty(300, np.uint32)
    assert find_fields(text, 201, ord(","), begins, ends) == (201, 1)
    np.testing.assert_array_equal(begins[:201], np.arange(201))
    np.testing.assert_array_equal(ends[:201], np.arange(201))
