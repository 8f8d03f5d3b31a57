"""Delimited text to codes against Python's own csv reader."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

import numpy as np
import pytest

from consilience.kernels import blocks, delimited
from consilience.kernels.delimited import encode_text


def coded(text: str, n_fields: int, wanted: list[int], delimiter: str = ",") -> list[list[str]] | None:
    """The wanted columns, decoded again."""
    columns = encode_text(np.frombuffer(text.encode(), np.uint8), 0, n_fields, wanted, delimiter)
    if columns is None:
        return None
    result = []
    for column in columns:
        raw = column.name_bytes.tobytes()
        ends = column.name_offsets.tolist()
        names = [raw[a:b].decode() for a, b in pairwise(ends)]
        assert len(set(names)) == len(names)
        first = [column.codes.tolist().index(code) for code in range(len(names))]
        assert first == sorted(first)
        result.append([names[code] for code in column.codes])
    return result


def by_csv(text: str, wanted: list[int], delimiter: str = ",") -> list[list[str]]:
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    return [[row[c] for row in rows] for c in wanted]


TEXTS = [
    "a,b,c\n1,2,3\n",
    "a,b,c\r\n1,2,3\r\n",
    "a,b,c\n1,2,3",
    '"a","b","c"\n1,"2",3\n',
    "a,,c\n,,\n",
    '"",b,\n',
    "\n\na,b,c\n\n\n1,2,3\n\n",
    "日本,é,ü\nx y, z ,\t\n",
    '"with, comma",b,c\n',
    "a,b,exactly8\nexactly8,exactly16bytes!!,c\n",
    "long" * 50 + ",b," + "tail" * 70 + "\n",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("wanted", [[0, 1, 2], [2, 0], [1]])
def test_plain_text_is_read_as_csv_reads_it(text: str, wanted: list[int]) -> None:
    assert coded(text, 3, wanted) == by_csv(text, wanted)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters(delimiter: str) -> None:
    text = delimiter.join("abc") + "\n" + delimiter.join(["1,5", "2", "3"]) + "\n"
    assert coded(text, 3, [0, 2], delimiter) == by_csv(text, [0, 2], delimiter)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n",  # too few fields
        "a,b,c,d\n",  # too many
        '"a ""quoted"" word",b,c\n',  # a quote inside quotes
        '"a\nb",b,c\n',  # a line end inside quotes
        'a "quote" inside,b,c\n',
        '"a"x,b,c\n',
        '"a,b,c',
        "a,b,c\n1,2\n3,4,5\n",
        "a\rb,c,d\n",
    ],
)
def test_what_is_not_plain_is_left_to_the_general_reader(text: str) -> None:
    assert coded(text, 3, [0, 1, 2]) is None


def test_any_cut_and_any_number_of_threads_give_the_same_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    lines = [f'item-{i},"w{w}",{label}' for i, w, label in rng.integers(0, (20_000, 300, 4), (120_000, 3)).tolist()]
    text = "\n".join(lines) + "\n"
    expected = by_csv(text, [0, 1, 2])
    for threads, chunk, rows in ((1, 1 << 20, 1 << 16), (2, 1 << 16, 1 << 16), (5, 10_000, 100), (3, 7, 1 << 10)):
        if chunk == 7:
            text, expected = "\n".join(lines[:500]), [column[:500] for column in expected]
        monkeypatch.setattr(blocks, "thread_count", lambda t=threads: t)
        monkeypatch.setattr(delimited, "_CHUNK", chunk)
        monkeypatch.setattr(delimited, "_ROWS", rows)
        columns = encode_text(np.frombuffer(text.encode(), np.uint8), 0, 3, [0, 1, 2], ",")
        assert columns is not None
        for column, names in zip(columns, expected, strict=True):
            codes: dict[str, int] = {}
            assert column.codes.tolist() == [codes.setdefault(name, len(codes)) for name in names]
            assert column.name_offsets.size == len(codes) + 1


def test_a_fault_in_any_chunk_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_CHUNK", 1000)
    lines = ["a,b,c"] * 2000
    for bad in (0, 999, 1999):
        text = "\n".join([*lines[:bad], "a,b", *lines[bad:]]) + "\n"
        assert coded(text, 3, [0, 1, 2]) is None
