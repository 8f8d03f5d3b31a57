"""Token tables and what tells the kinds of file apart."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from consilience.data.sequences import SequenceAnnotations
from consilience.exceptions import (
    ColumnError,
    DataError,
    DataWarning,
    FormatError,
    IdError,
    ParameterError,
)
from consilience.io.sequences import read_sequence_truth, read_sequences

NAMES = ["sentence", "token", "worker", "label"]
ROWS = [
    ("s2", 10, "ann", "O"),
    ("s2", 9, "ann", "B-X"),
    ("s1", 0, "ann", "O"),
    ("s2", 9, "bob", "O"),
    ("s1", 0, "bob", "O"),
    ("s1", 2, "bob", "B-X"),
]
CONLL = "EU B-ORG O ?\nrejects O O ?\n\nPeter ? B-PER B-PER\n"


def delimited(rows: list[Any] = ROWS, delimiter: str = ",", header: list[str] = NAMES) -> str:
    return "".join(delimiter.join(map(str, row)) + "\n" for row in [header, *rows])


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write(folder: Path, kind: str) -> Path:
    """The same rows in one of the formats."""
    if kind == "parquet":
        path = folder / "labels.parquet"
        pq.write_table(pa.table(dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True))), path)
        return path
    if kind == "jsonl":
        return put(folder, "labels.jsonl", "".join(json.dumps(dict(zip(NAMES, r, strict=True))) + "\n" for r in ROWS))
    if kind == "tsv":
        return put(folder, "labels.tsv", delimited(delimiter="\t"))
    if kind == "csv.gz":
        return put(folder, "labels.csv.gz", gzip.compress(delimited().encode()))
    return put(folder, f"labels.{kind}", delimited())


def triples(data: SequenceAnnotations) -> set[tuple[Any, ...]]:
    frame = data.to_frame("pyarrow")
    return set(zip(*(column.to_pylist() for column in frame.columns), strict=True))


# ---- token tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "tsv", "txt", "jsonl", "parquet", "csv.gz"])
def test_every_kind_of_table(tmp_path: Path, kind: str) -> None:
    data = read_sequences(write(tmp_path, kind))
    assert data.sequences.tolist() == ["s2", "s1"]
    assert data.token_columns()["token"].to_pylist() == [9, 10, 0, 2]
    assert triples(data) == set(ROWS)
    assert data.words is None


def test_other_names_and_more_columns(tmp_path: Path) -> None:
    path = put(tmp_path, "labels.csv", "video,t,who,tag,label\n" + "v,0,a,x,1\nv,1,a,y,1\n")
    data = read_sequences(path, sequence="video", position="t", annotator="who", label="tag")
    assert triples(data) == {("v", 0, "a", "x"), ("v", 1, "a", "y")}
    assert (data.sequence_column, data.position_column, data.tokens.origin.label) == ("video", "t", "tag")


def test_names_of_columns_tell_a_table_from_conll(tmp_path: Path) -> None:
    path = put(tmp_path, "labels.txt", "v\tt\tw\ttag\n1\t1\tw\tx\n\n1\t2\tw\ty\n")
    assert read_sequences(path).words is not None  # for all that anyone can see
    data = read_sequences(path, sequence="v", position="t", annotator="w", label="tag")
    assert triples(data) == {(1, 1, "w", "x"), (1, 2, "w", "y")}


def test_a_row_without_a_label_makes_its_token_known(tmp_path: Path) -> None:
    path = put(tmp_path, "labels.csv", delimited([*ROWS, ("s1", 1, "bob", ""), ("s3", 0, "ann", "")]))
    with pytest.warns(DataWarning, match=r"labels.csv: 2 of 8 rows have no label"):
        data = read_sequences(path)
    assert data.lengths.tolist() == [2, 3, 1]
    assert data.tokens.labels_per_item.tolist() == [2, 1, 2, 0, 1, 0]


def test_repeated_answers_and_classes(tmp_path: Path) -> None:
    path = put(tmp_path, "labels.csv", delimited([*ROWS, ("s1", 0, "bob", "B-X")]))
    with pytest.warns(DataWarning, match="the first was kept"):
        assert triples(read_sequences(path, duplicates="first")) == set(ROWS)
    with pytest.raises(DataError, match=r"annotator 'bob' answers item 's1:0' in rows 5 and 7"):
        read_sequences(path, duplicates="error")
    data = read_sequences(write(tmp_path, "csv"), classes=["O", "B-X"])
    assert data.tokens.classes.tolist() == ["O", "B-X"]


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("labels.csv", "", FormatError, "labels.csv is empty"),
        ("labels.csv", "sequence,position,worker,label\n", DataError, "labels.csv has no rows"),
        ("labels.csv", "sequence,place,worker,label\n1,2,a,x\n", ColumnError, "labels.csv has no position column"),
        ("labels.txt", "sequence,place,worker,label\n1,2,a,x\n", ColumnError, "labels.txt has no position column"),
        ("labels.csv", "doc,time,user,answer\n1,2,a,\n", DataError, "labels.csv has no label in any of its 1 rows"),
        ("labels.csv", "doc,time,user,label\n1,,a,x\n", IdError, "labels.csv has no position in row 1"),
        ("labels.csv", "doc,time,user,label\n,1,a,x\n", IdError, "labels.csv has no sequence in row 1"),
        ("labels.csv", "doc,time,user,label\n1,1,,x\n", IdError, "labels.csv has no annotator in row 1"),
        ("labels.csv", b"doc,time,user,label\n1,1,a,\xff\n", FormatError, "labels.csv, line 2: byte 7 is not utf-8"),
        ("labels.jsonl", '{"doc": [1], "time": 1, "user": 2, "label": 3}\n', IdError, "labels.jsonl: column 'doc'"),
        ("labels.dat", "what is this\n", FormatError, r"labels.dat: format not recognised; .* Say which it is with"),
    ],
)
def test_bad_tables(tmp_path: Path, name: str, text: str | bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_sequences(put(tmp_path, name, text))


def test_one_column_in_two_roles(tmp_path: Path) -> None:
    with pytest.raises(ColumnError, match="sequence, position, annotator, label must be different columns"):
        read_sequences(write(tmp_path, "csv"), label="worker")


# ---- telling them apart -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.conll", "a.BIO", "a.iob", "a.txt", "a.dat", "a", "a.v2.conll.gz", "a.txt.gz"])
def test_conll_by_ending_or_content(tmp_path: Path, name: str) -> None:
    content = gzip.compress(CONLL.encode()) if name.endswith(".gz") else CONLL
    data = read_sequences(put(tmp_path, name, content))
    assert data.lengths.tolist() == [2, 1]


def test_conll_by_name(tmp_path: Path) -> None:
    assert read_sequences(put(tmp_path, "a.csv", CONLL), format="conll").n_tokens == 3
    # a sequence by itself, whose labels are no tags, is no proof
    path = put(tmp_path, "a.txt", "a x y\nb y x\n")
    assert read_sequences(path, format="conll").n_tokens == 2
    with pytest.raises(ColumnError, match="has no sequence column"):
        read_sequences(path)


def test_a_long_file_is_recognised_by_its_beginning(tmp_path: Path) -> None:
    assert read_sequences(put(tmp_path, "a.txt", CONLL * 5000)).n_tokens == 15000


def test_what_is_no_text_is_told_of_a_file_that_was_not_named(tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", CONLL.replace("Peter", "Pétér").encode("latin-1"))
    with pytest.raises(FormatError, match=r"a.txt, line 4: byte 2 is not utf-8; .* encoding='latin-1'"):
        read_sequences(path)
    words = read_sequences(path, encoding="latin-1").words
    assert words is not None
    assert words[2].as_py() == "Pétér"
    with pytest.raises(FormatError, match="is not text in klingon"):
        read_sequences(put(tmp_path, "a.conll", CONLL), encoding="klingon")


def test_parquet_by_content_and_folder(tmp_path: Path) -> None:
    path = write(tmp_path, "parquet")
    assert triples(read_sequences(tmp_path)) == set(ROWS)
    assert triples(read_sequences(path.rename(tmp_path / "labels"))) == set(ROWS)


def test_formats_that_do_not_fit(tmp_path: Path) -> None:
    path = put(tmp_path, "a.conll", CONLL)
    with pytest.raises(ParameterError, match=r"no format 'xml' for sequences\. The formats are csv, .*, conll, brat"):
        read_sequences(path, format="xml")
    with pytest.raises(FormatError, match=r"there is no file .*none.conll"):
        read_sequences(tmp_path / "none.conll")
    with pytest.raises(ParameterError, match=r"a.conll: sequence='doc' names a column of a table, but the format is"):
        read_sequences(path, sequence="doc")
    with pytest.raises(FormatError, match="format 'brat' is a folder"):
        read_sequences(path, format="brat")
    with pytest.raises(FormatError, match="format 'conll' is a file"):
        read_sequences(tmp_path, format="conll")
    with pytest.raises(FormatError, match=r"is a folder without .ann files \(brat\) and without .parquet files"):
        read_sequences(tmp_path)


# ---- truths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["sentence,token,label", "Sequence,Position,truth", "doc,time,what_it_is"])
def test_truth_from_a_table(tmp_path: Path, header: str) -> None:
    labels = read_sequences(write(tmp_path, "csv"))
    path = put(tmp_path, "truth.csv", f"{header}\ns1,2,B-X\ns2,9,O\ns1,0,\n")
    truth = read_sequence_truth(path, like=labels)
    assert truth.to_pydict() == {"sequence": ["s1", "s2", "s1"], "position": [2, 9, 0], "label": ["B-X", "O", None]}
    codes = labels.codes_of_truth(truth)
    assert codes.tolist() == [1, -1, -1, 0]  # tokens are (s2, 9), (s2, 10), (s1, 0), (s1, 2)


def test_truth_knows_the_names_of_the_labels(tmp_path: Path) -> None:
    labels = read_sequences(
        put(tmp_path, "l.csv", "v,t,worker,tag\n1,1,a,x\n"), sequence="v", position="t", label="tag"
    )
    path = put(tmp_path, "truth.csv", "other,v,t,tag\n7,1,1,x\n")
    assert read_sequence_truth(path, like=labels).to_pydict() == {"sequence": [1], "position": [1], "label": ["x"]}
    path = put(tmp_path, "truth.csv", "other,v,t,tag\n7,1,1,x\n")
    truth = read_sequence_truth(path, like=labels, sequence="t", position="v", label="other")
    assert truth["label"].to_pylist() == [7]


def test_truth_from_conll(tmp_path: Path) -> None:
    labels = read_sequences(put(tmp_path, "a.conll", CONLL))
    truth = read_sequence_truth(put(tmp_path, "t.conll", "EU B-ORG\nrejects ?\n\nPeter B-PER\n"), like=labels)
    assert truth.to_pydict() == {
        "sequence": [0, 0, 1],
        "position": [0, 1, 0],
        "label": ["B-ORG", None, "B-PER"],
    }
    assert [labels.tokens.classes[k] for k in labels.codes_of_truth(truth) if k >= 0] == ["B-ORG", "B-PER"]
    with pytest.raises(DataError, match=r"a.conll has labels of 3 annotators; expected one"):
        read_sequence_truth(tmp_path / "a.conll", like=labels)
    shifted = put(tmp_path, "t.conll", "-DOCSTART- O\n\nEU B-ORG\nPeter O\n\nrejects B-PER\n")
    with pytest.raises(DataError, match=r"sequence 0, position 1 is 'Peter', but 'rejects' among the labels"):
        read_sequence_truth(shifted, like=labels)


def test_truth_from_brat(tmp_path: Path) -> None:
    for annotator, kind in (("ann", "X"), ("bob", "Y")):
        folder = tmp_path / "labels" / annotator
        folder.mkdir(parents=True)
        put(folder, "d.ann", f"T1\t{kind} 0 1\ta\n")
        put(folder, "d.txt", "a b")
    labels = read_sequences(tmp_path / "labels")
    truth = read_sequence_truth(tmp_path / "labels" / "bob", like=labels)
    assert truth.to_pydict() == {"sequence": ["d", "d"], "position": [0, 1], "label": ["B-Y", "O"]}


def test_truth_without_rows(tmp_path: Path) -> None:
    labels = read_sequences(write(tmp_path, "csv"))
    with pytest.raises(DataError, match=r"truth.csv has no rows: it names no truth"):
        read_sequence_truth(put(tmp_path, "truth.csv", "sentence,token,label\n"), like=labels)


# ---- real data ----------------------------------------------------------------------------------------------


def test_crowd_of_named_entities(data_folder: Path) -> None:
    folder = data_folder / "conll_ner_amt"
    if not folder.is_dir():
        pytest.skip("the data set conll_ner_amt is not there")
    data = read_sequences(folder / "labels.csv.gz")
    published = json.loads((folder / "stats.json").read_text())
    assert (data.n_tokens, data.n_sequences) == (published["N"], published["sequences_with_labels"])
    assert (data.tokens.n_annotators, data.tokens.n_classes) == (published["M"], published["K"])
    assert data.tokens.n_labels == published["labels"]
    truth = read_sequence_truth(folder / "truth.csv.gz", like=data)
    assert truth.num_rows == published["truth"]
    with pytest.warns(DataWarning, match=f"{published['truth'] - published['N']} tokens are not among"):
        codes = data.codes_of_truth(truth)
    right = np.repeat(codes, data.tokens.labels_per_item) == data.tokens.label
    annotators = np.bincount(data.tokens.annotator, right) / data.tokens.labels_per_annotator
    assert 0.8 < annotators.mean() < 1.0
