from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from consilience.data.annotations import Annotations
from consilience.exceptions import ColumnError, DataError, FormatError, IdError
from consilience.io.edges import read_edges


def test_source_and_target_or_the_first_two(tmp_path: Path) -> None:
    named, plain = tmp_path / "a.csv", tmp_path / "b.tsv"
    named.write_text("note,Target,Source\nx,2,1\ny,3,1\n")
    plain.write_text("one\tother\n1\t2\n1\t3\n")
    expected = {"source": [1, 1], "target": [2, 3]}
    assert read_edges(named).to_pydict() == expected
    assert read_edges(plain).to_pydict() == expected


def test_other_formats(tmp_path: Path) -> None:
    table = pa.table({"source": ["a", "b"], "target": ["b", "c"], "weight": [1.0, 0.5]})
    pq.write_table(table, tmp_path / "e.parquet")
    with gzip.open(tmp_path / "e.csv.gz", "wt") as file:
        file.write("source,target,weight\na,b,1\nb,c,0.5\n")
    (tmp_path / "e.jsonl").write_text(
        '{"source": "a", "target": "b", "weight": 1.0}\n{"source": "b", "target": "c", "weight": 0.5}\n'
    )
    for name in ("e.parquet", "e.csv.gz", "e.jsonl"):
        assert read_edges(tmp_path / name).equals(table), name


def test_ids_stay_text_where_the_items_are(tmp_path: Path) -> None:
    place = tmp_path / "e.csv"
    place.write_text("source,target\n7,8\n")
    like = Annotations.from_matrix([[0], [1]], items=["7", "x8"])
    assert read_edges(place, like=like).to_pydict() == {"source": ["7"], "target": ["8"]}
    assert read_edges(place).to_pydict() == {"source": [7], "target": [8]}


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("", FormatError, "empty"),
        ("source,target\n", DataError, "has no rows: it joins no items"),
        ("source\n1\n", ColumnError, "e.csv must say which columns join items"),
        ("weight,a\n1,2\n", ColumnError, "which columns join items"),
        ("a,b,c\n1,2,3\n", ColumnError, "call them source and target"),
        ("source,target\n1,2\n1,\n", IdError, "no item in row 2"),
        ("source,target,weight\n1,2,heavy\n", DataError, "must be numbers"),
        ("source,target,weight\n1,2,1\n1,3,\n", DataError, "no weight in row 2"),
    ],
)
def test_what_bad_files_get(content: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    place = tmp_path / "e.csv"
    place.write_text(content)
    with pytest.raises(error, match=message):
        read_edges(place)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no file"):
        read_edges(tmp_path / "none.csv")
