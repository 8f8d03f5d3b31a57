"""Files in: every format gives the same annotations, and text means what was written."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.io.conftest import ROWS, delimited, frame_of, jsonl, put, table

import consilience as cs
from consilience.exceptions import ColumnError, DataError, DataWarning, FormatError, IdError, ParameterError
from consilience.io.source import Source

# ---- formats ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_csv_with_any_delimiter_line_end_and_mark(tmp_path: Path, delimiter: str, end: str, bom: bytes) -> None:
    path = put(tmp_path, "labels.csv", bom + delimited(ROWS, delimiter, end).encode())
    annotations = cs.read(path)
    assert annotations == frame_of(ROWS)
    assert annotations.origin.item == "task"
    assert cs.read(str(path)) == annotations


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.csv", delimited(ROWS)),
        ("LABELS.CSV", delimited(ROWS)),
        ("labels.txt", delimited(ROWS)),
        ("labels.v2.csv", delimited(ROWS)),
        ("labels.tsv", delimited(ROWS, "\t")),
        ("labels.tab", delimited(ROWS, "\t")),
        ("labels.jsonl", jsonl(ROWS)),
        ("labels.ndjson", jsonl(ROWS)),
        ("no-newline.csv", delimited(ROWS).rstrip("\n")),
        ("no-newline.jsonl", jsonl(ROWS).rstrip("\n")),
        ("blank-lines.csv", delimited(ROWS).replace("\n", "\n\n")),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_every_kind_of_text_plain_and_zipped(tmp_path: Path, name: str, text: str, zipped: bool) -> None:
    content = text.encode()
    path = put(tmp_path, name + ".gz" * zipped, gzip.compress(content) if zipped else content)
    assert cs.read(path) == frame_of(ROWS)


def test_quotes_protect_delimiters_and_quotes(tmp_path: Path) -> None:
    rows = [('a "quoted" one', "last, first", "x;y"), ("plain", "last, first", "z"), ('a "quoted" one', "b", "z")]
    quoted = ['"' + '","'.join(str(v).replace('"', '""') for v in row) + '"' for row in rows]
    path = put(tmp_path, "labels.csv", "\n".join(['"task","worker","label"', *quoted]) + "\n")
    assert cs.read(path) == frame_of(rows)


@pytest.mark.parametrize("n", [3, 30_000])
def test_line_breaks_within_quotes_in_files_of_any_size(tmp_path: Path, n: int) -> None:
    """The text that was labelled often stands beside the labels, with its line breaks."""
    lines = [f'{i // 3},"a comment, that\ngoes on and on and on\nand ends",w{i % 3},{i % 2}\n' for i in range(n)]
    path = put(tmp_path, "labels.csv", "task,comment,worker,label\n" + "".join(lines))
    annotations = cs.read(path)
    assert annotations == frame_of([(i // 3, f"w{i % 3}", i % 2) for i in range(n)])


def test_other_columns_do_not_matter(tmp_path: Path) -> None:
    lines = ["when,label,task,note,worker", *(f"x,{label},{item},,{who}" for item, who, label in ROWS)]
    assert cs.read(put(tmp_path, "labels.csv", "\n".join(lines) + "\n")) == frame_of(ROWS)


def test_other_encodings(tmp_path: Path) -> None:
    rows = [("café", "José", "naïve"), ("café", "Zoë", "ça"), ("thé", "José", "ça")]
    text = delimited(rows, header="task,worker,label")
    assert cs.read(put(tmp_path, "labels.csv", text.encode("latin-1")), encoding="latin-1") == frame_of(rows)
    assert cs.read(put(tmp_path, "utf8.csv", text)) == frame_of(rows)
    accented = text.replace("task", "tâche").encode("latin-1")
    assert cs.read(put(tmp_path, "accented.csv", accented), encoding="latin-1", item="tâche") == frame_of(rows)
    with pytest.raises(FormatError, match=r"labels\.csv.*nonsense"):
        cs.read(tmp_path / "labels.csv", encoding="nonsense")


def test_a_folder_with_one_file_stands_for_it(tmp_path: Path) -> None:
    (tmp_path / "unpacked").mkdir()
    file = tmp_path / "unpacked" / "result.csv"
    file.write_text("task,worker,label\n1,a,x\n1,b,y\n2,a,x\n")
    assert cs.read(tmp_path / "unpacked") == cs.read(file)
    (tmp_path / "unpacked" / "other.csv").write_text("task,worker,label\n3,a,x\n")
    with pytest.raises(cs.exceptions.FormatError, match="unpacked is a folder without"):
        cs.read(tmp_path / "unpacked")


def test_parquet_files_and_folders(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    pq.write_table(table(ROWS), path)
    assert cs.read(path) == frame_of(ROWS)
    folder = tmp_path / "parts"
    folder.mkdir()
    pq.write_table(table(ROWS[:20]), folder / "part-0.parquet", row_group_size=7)
    pq.write_table(table(ROWS[20:]), folder / "part-1.parquet")
    assert cs.read(folder) == frame_of(ROWS)
    named = tmp_path / "labels"
    named.write_bytes(path.read_bytes())
    assert cs.read(named) == frame_of(ROWS)
    categories = table(ROWS).set_column(2, "label", table(ROWS)["label"].dictionary_encode())
    pq.write_table(categories, tmp_path / "categories.pq")
    assert cs.read(tmp_path / "categories.pq") == frame_of(ROWS)


def test_parquet_and_jsonl_keep_types(tmp_path: Path) -> None:
    rows = [(1, "7", True), (2, "07", False), (1, "07", True)]
    pq.write_table(table(rows), tmp_path / "labels.parquet")
    put(tmp_path, "labels.jsonl", jsonl(rows))
    for name in ("labels.parquet", "labels.jsonl"):
        annotations = cs.read(tmp_path / name)
        assert annotations == frame_of(rows)
        assert annotations.annotators.tolist() == ["7", "07"]
        assert annotations.classes.tolist() == [False, True]


def test_the_format_can_be_named(tmp_path: Path) -> None:
    path = put(tmp_path, "labels.dat", delimited(ROWS, "\t"))
    assert cs.read(path, format="tsv") == frame_of(ROWS)
    assert cs.read(path, format="csv") == frame_of(ROWS)
    with pytest.raises(ParameterError, match=r"no format 'word'.*csv, tsv, jsonl, parquet"):
        cs.read(path, format="word")


def test_columns_are_found_or_named(tmp_path: Path) -> None:
    path = put(tmp_path, "labels.csv", delimited(ROWS, header="Question,RATER,answer"))
    annotations = cs.read(path)
    assert annotations == frame_of(ROWS)
    assert (annotations.origin.item, annotations.origin.annotator) == ("Question", "RATER")
    odd = put(tmp_path, "odd.csv", delimited(ROWS, header="picture,who,said"))
    annotations = cs.read(odd, item="picture", annotator="who", label="said")
    assert annotations == frame_of(ROWS)
    assert annotations.origin.label == "said"
    with pytest.raises(ColumnError, match=r"odd\.csv.*three different columns"):
        cs.read(odd, item="picture", annotator="who", label="who")


def test_options_reach_the_annotations(tmp_path: Path) -> None:
    path = put(tmp_path, "labels.csv", delimited([*ROWS, (*ROWS[0][:2], "maybe")]))
    with pytest.warns(DataWarning, match=r"labels\.csv: 1 labels repeat"):
        assert cs.read(path).classes.tolist() == ["maybe", "no", "yes"]
    kept = cs.read(path, duplicates="keep", gold={"item 0": "no"}, classes=["yes", "no", "maybe"])
    assert kept.n_labels == len(ROWS) + 1
    assert kept.classes.tolist() == ["yes", "no", "maybe"]
    assert kept.gold is not None
    assert kept.gold.tolist() == [1] + [-1] * 11
    with pytest.raises(DataError, match=r"labels\.csv has 1 repeated answers.*rows 1 and 49"):
        cs.read(path, duplicates="error")


# ---- what text means ----------------------------------------------------------------------------------------


def test_numbers_written_as_numbers_become_numbers(tmp_path: Path) -> None:
    annotations = cs.read(put(tmp_path, "labels.csv", delimited([(7, -3, 0), (8, 4, 1), (7, 4, 1)])))
    assert annotations.items.dtype.kind == "i"
    assert annotations.items.tolist() == [7, 8]
    assert annotations.annotators.tolist() == [-3, 4]
    assert annotations.classes.tolist() == [0, 1]
    halves = cs.read(put(tmp_path, "halves.csv", delimited([(1, "a", 0.5), (1, "b", 1.5)])))
    assert halves.classes.tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    "ids",
    [
        ["007", "7", "8"],
        ["7", "7.0", "8"],
        ["1", "2", "x"],
        ["+1", "1", "2"],
        ["1e3", "1000", "2"],
        ["٣", "3", "4"],
        [" 1", "1", "2"],
        ["0", "-0", "00"],
        ["1234567890123456789", "2234567890123456789", "3234567890123456789"],
        ["12345678901234567890123", "2", "3"],
        ["3.10", "3.20", "3.9"],
        ["0.1", "0.10000000000000000000001", "2.5"],
        ["True", "False", "true"],
    ],
    ids=lambda ids: ids[0],
)
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_ids_come_back_as_they_were_written(tmp_path: Path, ids: list[str], ending: str) -> None:
    """Whoever joins the result with their own file must find their own ids: nothing is rounded or trimmed."""
    rows = [(name, who, label) for name in ids for who, label in (("a", "x"), ("b", "y"))]
    annotations = cs.read(put(tmp_path, f"labels{ending}", delimited(rows, "\t" if ending == ".tsv" else ",")))
    assert [str(name) for name in annotations.items.tolist()] == ids


def test_columns_are_typed_one_by_one(tmp_path: Path) -> None:
    annotations = cs.read(put(tmp_path, "labels.csv", delimited([("1", "01", "x"), ("2", "2", "y")])))
    assert annotations.items.tolist() == [1, 2]
    assert annotations.annotators.tolist() == ["01", "2"]


def test_na_and_none_are_answers_but_nothing_is_not(tmp_path: Path) -> None:
    answers = ["NA", "None", "N/A", "none", "", "NaN", "null", "nan", "NULL", "  ", "x"]
    rows = [(f"i{n}", "a", answer) for n, answer in enumerate(answers)]
    path = put(tmp_path, "labels.csv", delimited(rows))
    with (
        pytest.warns(DataWarning, match=r"labels\.csv: 6 of 11 rows have no label"),
        pytest.warns(DataWarning, match=r"to merge them: cs\.read\('labels\.csv'\)\.relabel\({'none': 'None'}\)"),
    ):
        annotations = cs.read(path)
    assert annotations.classes.tolist() == ["N/A", "NA", "None", "none", "x"]
    assert annotations.n_items == 11
    assert annotations.labels_per_item.tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1]


def test_jsonl_null_and_absent_are_missing(tmp_path: Path) -> None:
    text = jsonl(ROWS[:4]) + '{"task": "item 9", "worker": "w", "label": null}\n{"task": "item 9", "worker": "v"}\n'
    with pytest.warns(DataWarning, match=r"labels\.jsonl: 2 of 6 rows have no label"):
        annotations = cs.read(put(tmp_path, "labels.jsonl", text))
    assert annotations.labels_per_item.tolist() == [4, 0]


# ---- truth files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["task,label", "item,truth", "id,gold", "question,whatever", "task,true_label"])
def test_truth_files(tmp_path: Path, header: str) -> None:
    path = put(tmp_path, "truth.csv", f"{header}\nitem 0,yes\nitem 1,no\nitem 2,\n")
    truth = cs.read_truth(path)
    annotations = frame_of(ROWS).with_gold(truth)
    assert annotations.gold is not None
    assert annotations.gold.tolist() == [1, 0] + [-1] * 10


def test_truth_of_numbers_meets_items_that_are_not_all_numbers(tmp_path: Path) -> None:
    labels = put(tmp_path, "labels.csv", delimited([(item, who, "x") for item in ("1", "2", "b") for who in "pqr"]))
    truth = put(tmp_path, "truth.csv", "task,label\n1,x\n2,x\n")
    gold = cs.read(labels).with_gold(cs.read_truth(truth)).gold
    assert gold is not None
    assert gold.tolist() == [0, 0, -1]
    labels = put(tmp_path, "labels.csv", delimited([(item, who, "x") for item in ("1.0", "2.0", "b") for who in "pqr"]))
    truth = put(tmp_path, "truth.csv", "task,label\n1.0,x\n2.0,x\n")
    gold = cs.read(labels).with_gold(cs.read_truth(truth)).gold
    assert gold is not None
    assert gold.tolist() == [0, 0, -1]


def test_truth_for_unknown_items(tmp_path: Path) -> None:
    consensus = cs.aggregate(frame_of(ROWS))
    partly = put(tmp_path, "truth.csv", "task,label\nitem 0,yes\nitem 99,no\nitem 98,no\n")
    with pytest.warns(DataWarning, match="2 items are not among the labelled items"):
        rate = consensus.error_rate(cs.read_truth(partly))
    assert rate in (0.0, 100.0)
    strange = put(tmp_path, "strange.csv", "task,label\n1,yes\n2,no\n")
    with pytest.raises(IdError, match=r"none of the 2 items.*are the ids the same"):
        consensus.error_rate(cs.read_truth(strange))


def test_bad_truth_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"truth\.csv has no rows"):
        cs.read_truth(put(tmp_path, "truth.csv", "task,label\n"))
    with pytest.raises(ColumnError, match=r"truth\.csv.*label="):
        cs.read_truth(put(tmp_path, "truth.csv", "task,a,b\n1,2,3\n"))
    with pytest.raises(FormatError, match=r"absent\.csv"):
        cs.read_truth(tmp_path / "absent.csv")
    with pytest.raises(DataError, match=r"gold gives item 'item 0' two different labels"):
        frame_of(ROWS).with_gold(cs.read_truth(put(tmp_path, "t.csv", "task,label\nitem 0,yes\nitem 0,no\n")))
    named = put(tmp_path, "named.csv", "picture,a,b\nitem 0,yes,no\n")
    truth = cs.read_truth(named, item="picture", label="b")
    gold = frame_of(ROWS).with_gold(truth).gold
    assert gold is not None
    assert gold.tolist()[0] == 0


def test_parquet_in_gzip(tmp_path: Path) -> None:
    table = pa.table(dict(zip(("task", "worker", "label"), map(list, zip(*ROWS, strict=True)), strict=True)))
    pq.write_table(table, tmp_path / "a.parquet")
    packed = tmp_path / "a.parquet.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert cs.read(packed) == cs.read(tmp_path / "a.parquet")
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(FormatError, match=r"a\.parquet\.gz"):
        cs.read(packed)


def test_a_missing_file_gets_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "labels.csv.gz").touch()
    with pytest.raises(FormatError, match=r"there is no file .*labels\.csv; did you mean 'labels\.csv\.gz'\?$"):
        cs.read(tmp_path / "labels.csv")
    with pytest.raises(FormatError, match=r"there is no file .*other$"):
        cs.read(tmp_path / "nowhere" / "other")


@pytest.mark.parametrize("target", ["nowhere.csv", "loop.csv"])
def test_a_symbolic_link_to_no_file_is_named(tmp_path: Path, target: str) -> None:
    link = tmp_path / "loop.csv"
    link.symlink_to(target)
    with pytest.raises(FormatError, match=f"is a symbolic link to {target}, which leads to no file"):
        cs.read(link)


def test_names_of_columns_are_collected_once(tmp_path: Path) -> None:
    """Every column is looked up by its name: with 50,000 of them, a new list each time took half a minute."""
    source = Source(put(tmp_path, "wide.csv", "item,a,b\np,x,y\n"))
    assert source.names is source.names
