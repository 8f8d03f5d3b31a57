"""A scan gives the labels that reading everything at once gives, or the same error."""

from __future__ import annotations

import datetime as dt
import errno
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import consilience as cs
from consilience.engine import coder, grouped, scattered
from consilience.engine.fingerprint import fingerprint
from consilience.engine.memory import memory_bytes
from consilience.engine.store import Store
from consilience.engine.workplace import WorkFolder
from consilience.exceptions import (
    ColumnError,
    ConsilienceWarning,
    DataError,
    DataWarning,
    FolderError,
    FormatError,
    IdError,
    ParameterError,
)
from consilience.io import batches
from consilience.kernels.names import SEEDS
from consilience.kernels.rows import Words

Table = Mapping[str, Any]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches, partitions and blocks so small that a few rows make many of them."""
    monkeypatch.setattr(batches, "_ROWS", 5)
    monkeypatch.setattr(batches, "_BLOCK", 64)
    monkeypatch.setattr(scattered, "_AT_ONCE", 7)
    monkeypatch.setattr(scattered, "_SPAN", 8)
    monkeypatch.setattr(scattered, "_COUNTERS", 4)
    monkeypatch.setattr(scattered, "_LABEL", 1 << 20)


def put(folder: Path, *tables: Table, group: int = 4) -> Path:
    folder.mkdir(exist_ok=True)
    for at, table in enumerate(tables):
        pq.write_table(pa.table(table), folder / f"part-{at}.parquet", row_group_size=group)
    return folder


def quietly(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        return function(*args, **options)


def assert_same(path: Path, **options: Any) -> None:
    """Whole and in batches: the same labels, warnings and notes."""
    with warnings.catch_warnings(record=True) as at_once:
        warnings.simplefilter("always")
        expected = cs.read(path, **options)
    with warnings.catch_warnings(record=True) as in_batches:
        warnings.simplefilter("always")
        scanned = cs.scan(path, **options)
    assert scanned.annotations() == expected
    assert [str(one.message) for one in in_batches] == [str(one.message) for one in at_once]
    assert scanned.origin.notes == expected.origin.notes
    assert scanned.fingerprint == fingerprint(expected)
    assert scanned.describe() == expected.describe()
    scanned.close()


# ---- the same labels --------------------------------------------------------------------------------------------


def crowd(kind: str, n_items: int = 30, seed: int = 0, scattered_rows: bool = True) -> Table:
    rng = np.random.default_rng(seed)
    item = np.repeat(rng.permutation(n_items), 4)
    if scattered_rows:
        item = rng.permutation(item)
    annotator, label = rng.integers(0, 40, item.size), rng.integers(0, 3, item.size)
    if kind == "numbers":
        return {"item": item * 1_000_003, "annotator": annotator - 20, "label": label}
    return {
        "item": [f"item {n}" if n % 3 else f"größe-{n}" for n in item],
        "annotator": [f"w{m}" * (1 + m % 9) for m in annotator],
        "label": [("yes", "no", "perhaps")[k] for k in label],
    }


@pytest.mark.parametrize("duplicates", ["last", "first", "keep"])
@pytest.mark.parametrize("scattered_rows", [True, False])
@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_a_folder(tmp_path: Path, kind: str, scattered_rows: bool, duplicates: str) -> None:
    whole = pa.table(crowd(kind, scattered_rows=scattered_rows))
    folder = tmp_path / "labels"
    folder.mkdir()
    for at, (low, high) in enumerate([(0, 17), (17, 18), (18, 90), (90, 120)]):
        pq.write_table(whole[low:high], folder / f"{at}.parquet", row_group_size=13)
    assert_same(folder, duplicates=duplicates)


def values() -> st.SearchStrategy[Any]:
    """Names of one type: text that may be blank or missing, numbers near each other or not, floats, dates, truths."""
    text = st.one_of(st.none(), st.text(st.sampled_from("aé \u3000b"), max_size=3))
    number = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**62, -(2**62)]))
    real = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")]))
    date = st.one_of(st.none(), st.dates(dt.date(2020, 1, 1), dt.date(2020, 1, 3)))
    kinds = [
        (text, pa.string()),
        (text, pa.large_string()),
        (text, pa.dictionary(pa.int8(), pa.string())),
        (number, pa.int64()),
        (st.one_of(st.none(), st.integers(0, 5)), pa.uint8()),
        (st.sampled_from([0, 5, 2**64 - 1]), pa.uint64()),
        (real, pa.float64()),
        (date, pa.date32()),
        (st.booleans(), pa.bool_()),
        (st.none(), pa.null()),
    ]
    return st.sampled_from(kinds)


def is_name(value: Any) -> bool:
    return value is not None and value == value and (not isinstance(value, str) or value.strip() != "")


@st.composite
def folders(draw: st.DrawFn) -> list[pa.Table]:
    n_rows, columns = draw(st.integers(1, 30)), {}
    for name in ("item", "annotator", "label"):
        value, kind = draw(values())
        # nearly always there are ids, or nothing but errors would be compared
        if name != "label" and draw(st.integers(0, 19)):
            value, kind = (value, kind) if kind != pa.null() else (st.integers(0, 1), pa.int64())
            value = value.filter(is_name)
        few = draw(st.lists(value, min_size=1, max_size=6))
        drawn = draw(st.lists(st.sampled_from(few), min_size=n_rows, max_size=n_rows))
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        columns[name] = pa.array([None] * n_rows if pa.types.is_null(kind) else drawn, plain).cast(kind)
    table = pa.table(columns)
    if draw(st.booleans()):
        table = table.sort_by("item") if not pa.types.is_dictionary(table["item"].type) else table
    cuts = sorted(draw(st.lists(st.integers(0, n_rows), max_size=3)))
    return [table[low:high] for low, high in zip([0, *cuts], [*cuts, n_rows], strict=True)]


def outcome(function: Callable[..., Any], path: Path, duplicates: str) -> Any:
    try:
        return quietly(function, path, duplicates=duplicates)
    except DataError as error:
        return type(error)


@settings(max_examples=80, deadline=None, database=None, derandomize=True)
@given(folders(), st.sampled_from(["last", "first", "keep", "last", "first", "keep", "error"]))
def test_any_folder(parts: list[pa.Table], duplicates: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        for at, table in enumerate(parts):
            pq.write_table(table, Path(place) / f"{at}.parquet", row_group_size=3)
        expected, made = outcome(cs.read, Path(place), duplicates), outcome(cs.scan, Path(place), duplicates)
        if isinstance(made, cs.Scanned):
            with made:
                assert made.annotations() == expected
                assert made.fingerprint == fingerprint(expected)
        else:
            assert made == expected


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz"])
@pytest.mark.parametrize("scattered_rows", [True, False])
@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_text_files(tmp_path: Path, kind: str, scattered_rows: bool, ending: str) -> None:
    options = pyarrow.csv.WriteOptions(delimiter="\t" if ending == ".tsv" else ",")
    path = tmp_path / f"labels{ending}"
    with pa.output_stream(str(path)) as file:
        pyarrow.csv.write_csv(pa.table(crowd(kind, scattered_rows=scattered_rows)), file, options)
    assert_same(path)


def test_text_is_numbers_where_all_of_it_is(tmp_path: Path) -> None:
    for name, items in (("all", "7 8 9 8"), ("none", "7 08 9 8"), ("real", "1.5 2.5 1.5 3.0"), ("both", "1 2.5 2 1")):
        rows = [f"{item},{who},{who}" for who, item in enumerate(items.split())]
        (tmp_path / f"{name}.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
        assert_same(tmp_path / f"{name}.csv")


def test_one_item_over_many_batches(tmp_path: Path) -> None:
    item = [1] * 23 + [2] + [3] * 17
    table = {"item": item, "annotator": list(range(41)), "label": [k % 2 for k in range(41)]}
    assert_same(put(tmp_path / "labels", table))


def test_missing_labels_are_counted_and_their_items_kept(tmp_path: Path) -> None:
    table: Table = {"item": ["a", "b", "b", "c"], "annotator": ["x", "y", "x", "z"], "label": [None, 1, None, None]}
    for rows in ([0, 1, 2, 3], [1, 0, 2, 3, 0, 1]):
        folder = put(tmp_path / "labels", {name: [column[r] for r in rows] for name, column in table.items()})
        assert_same(folder)
        scanned = quietly(cs.scan, folder)
        assert scanned.items.tolist() == [table["item"][r] for r in dict.fromkeys(rows) if r != 2]
        assert scanned.annotators.tolist() == list(dict.fromkeys(table["annotator"][r] for r in rows))
        assert scanned.describe()["unlabelled_items"] == 2


@pytest.mark.parametrize("ids", [[3, 1, 2], ["c", "a", "b"], [2**63, 1, 2]])
def test_the_known_truth(tmp_path: Path, ids: list[Any]) -> None:
    item = pa.array(ids * 3, pa.uint64() if ids[0] == 2**63 else None)
    folder = put(tmp_path / "labels", {"item": item, "annotator": list(range(9)), "label": ["x", "y", "y"] * 3})
    for gold in ({ids[1]: "x"}, {ids[2]: "y", ids[0]: "x"}, np.array(["x", None, "y"], object), {}):
        assert_same(folder, gold=gold)
    with pytest.raises(IdError, match="'z', which no annotator used"):
        cs.scan(folder, gold={ids[1]: "z"})
    with pytest.raises(IdError, match="none of the 1 items"):
        cs.scan(folder, gold={"no such item": "x"})


def test_named_classes_and_columns(tmp_path: Path) -> None:
    folder = put(tmp_path / "labels", {"q": [1, 2, 1], "who": [1, 1, 2], "what": ["b", "a", "b"], "more": [0, 0, 0]})
    assert_same(folder, item="q", annotator="who", label="what", classes=["b", "c", "a"])


def test_numbers_far_apart_come_after_numbers_that_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coder, "_SPAN", 16)
    annotator = [3, 1, 2, 9, -5, 3, 1, 100, 2, 3, 100, 2**40, -5, 7]
    item = list(range(14))
    assert_same(put(tmp_path / "labels", {"item": item, "annotator": annotator, "label": [0, 1] * 7}))


def test_the_files_are_taken_in_the_order_of_their_names(tmp_path: Path) -> None:
    row = {"annotator": ["x"], "label": [1]}
    folder = put(tmp_path / "labels", {"item": ["second"], **row})
    (folder / "a").mkdir()
    for name in ("a/first.parquet", "_left.parquet", ".out.parquet"):
        pq.write_table(pa.table({"item": [name[:-8]], **row}), folder / name)
    (folder / "README.md").write_text("not a table")
    assert cs.scan(folder).items.tolist() == ["a/first", "second"]
    assert_same(folder)


# ---- two ways through -------------------------------------------------------------------------------------------


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which ways were tried."""
    tried: list[str] = []
    module = import_module("consilience.engine.scan")
    for name in ("write_grouped", "write_scattered"):
        real = getattr(module, name)

        def told(*args: Any, name: str = name, real: Any = real) -> Any:
            tried.append(name.removeprefix("write_"))
            return real(*args)

        monkeypatch.setattr(module, name, told)
    return tried


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([1, 1, 2, 3, 3, 3, 4, 8, 8, 9], ["grouped"]),
        ([9, 9, 1, 7, 7, 7, 2, 3, 3, 8], ["grouped"]),
        (["b", "b", "a", "c", "c", "z", "y", "y", "x", "d"], ["grouped"]),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 1], ["grouped", "scattered"]),
        (["b", "b", "a", "c", "c", "z", "y", "y", "x", "b"], ["grouped", "scattered"]),
    ],
)
def test_only_scattered_items_are_brought_together(
    tmp_path: Path, ways: list[str], items: list[Any], expected: list[str]
) -> None:
    folder = put(tmp_path / "labels", {"item": items, "annotator": list(range(10)), "label": [0, 1] * 5})
    assert cs.scan(folder).annotations() == cs.read(folder)
    assert ways == expected


def test_rows_that_stand_alone_are_not_waited_for(
    tmp_path: Path, ways: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouped, "_ALONE", 8)
    folder = put(tmp_path / "labels", {"item": list(range(40)), "annotator": [1, 2] * 20, "label": [0, 1] * 20})
    assert cs.scan(folder).annotations() == cs.read(folder)
    assert ways == ["grouped", "scattered"]


def test_items_that_come_back_are_found_by_shares_of_memory(tmp_path: Path) -> None:
    words = np.random.default_rng(0).permutation(5000).astype(np.int64)
    for last, distinct in ((-1, True), (17, False)):
        seen = grouped._Seen(tmp_path / "begun", room=30_000)
        for part in np.split(words, 5):
            assert seen.add(part)
        assert seen.add(np.array([last]))
        shares = [grouped._share(piece, share, 3) for share in range(3) for piece in seen._pieces()]
        assert sorted(np.concatenate(shares)) == sorted([*words, last])
        assert min(map(len, shares)) > 1000
        assert seen.distinct() == distinct
        seen.close()


def test_a_set_of_words() -> None:
    rng = np.random.default_rng(0)
    words = np.unique(rng.integers(-(2**63), 2**63 - 1, 50_000))
    known = Words()
    assert all(known.add(part) for part in np.array_split(rng.permutation(words), 7))
    assert len(known) == words.size
    assert not any(known.add(words[at : at + 1]) for at in range(0, words.size, 997))
    # the one word whose scrambled bits are those of a free slot
    free = np.array([SEEDS[0]]).view(np.int64)
    assert known.add(free)
    assert not known.add(free)
    assert not Words().add(np.concatenate([free, free]))


def test_more_labels_of_few_items_than_a_block_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scattered, "_LABEL", (16 << 20) // 20)
    rng = np.random.default_rng(0)
    table = {"item": rng.integers(0, 6, 400), "annotator": np.arange(400), "label": rng.integers(0, 2, 400)}
    folder = put(tmp_path / "labels", table)
    assert cs.scan(folder, memory=1).annotations() == cs.read(folder)


def test_more_partitions_than_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scattered, "_OPEN", 3)
    folder = put(tmp_path / "labels", crowd("text"))
    assert quietly(cs.scan, folder).annotations() == quietly(cs.read, folder)


def test_a_group_of_rows_need_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_ROWS", 1 << 14)
    column = np.random.default_rng(0).permutation(1 << 20)
    table = pa.table({"item": column, "annotator": column, "label": column})
    path = tmp_path / "labels.parquet"
    pq.write_table(table, path, row_group_size=1 << 20, use_dictionary=False, compression="none")
    names = ("item", "annotator", "label")
    files = batches.label_files(path, format=None, given=dict.fromkeys(names), encoding="utf-8")
    before, most, n_rows = pa.total_allocated_bytes(), 0, 0
    for batch in files.batches(*names):
        most, n_rows = max(most, pa.total_allocated_bytes() - before), n_rows + len(batch.columns[0])
    assert n_rows == 1 << 20
    assert most < table.nbytes / 2


# ---- keeping it -------------------------------------------------------------------------------------------------


def test_temporary_labels_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path / "labels", crowd("text"))
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with quietly(cs.scan, folder) as scanned:
        assert len(list(place.iterdir())) == 1
    assert list(place.iterdir()) == []
    with pytest.raises(DataError, match="closed"):
        scanned.annotations()
    scanned = quietly(cs.scan, folder)
    del scanned
    gc.collect()
    assert list(place.iterdir()) == []


def test_kept_labels_are_found_again(tmp_path: Path, ways: list[str]) -> None:
    folder, kept = put(tmp_path / "labels", crowd("numbers")), tmp_path / "kept"
    with pytest.warns(DataWarning, match="repeat an answer"):
        first = cs.scan(folder, spill=kept).annotations()
    ways.clear()
    with pytest.warns(DataWarning, match="repeat an answer"):
        assert cs.scan(folder, spill=kept).annotations() == first
    assert not ways
    # other options, other files, other truths: read anew
    assert quietly(cs.scan, folder, spill=kept, duplicates="keep").n_labels == 120
    assert ways
    ways.clear()
    put(folder, crowd("numbers", seed=1))
    assert quietly(cs.scan, folder, spill=kept).annotations() == quietly(cs.read, folder)
    assert ways
    ways.clear()
    truth = {0: 1}
    assert quietly(cs.scan, folder, spill=kept, gold=truth).annotations().gold is not None
    assert ways
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "labels"]
    Store.open(kept).verify()


def test_what_a_killed_scan_left_is_removed_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    folder = put(tmp_path / "labels", crowd("numbers"))
    script = f"""
import os, signal
import consilience as cs
from consilience.engine.store_writer import StoreWriter
StoreWriter.finish = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
cs.scan({str(folder)!r}, spill={str(tmp_path / "kept")!r})
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "kept").exists()
    assert len(list(tmp_path.glob(".consilience-*"))) == 1
    living = WorkFolder(tmp_path)
    quietly(cs.scan, folder, spill=tmp_path / "kept")
    assert list(tmp_path.glob(".consilience-*")) == [living.path]
    living.remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "labels"]


def test_a_damaged_store_is_made_anew(tmp_path: Path) -> None:
    folder, kept = put(tmp_path / "labels", crowd("numbers")), tmp_path / "kept"
    quietly(cs.scan, folder, spill=kept)
    (kept / "label.npy").write_bytes(b"")
    assert quietly(cs.scan, folder, spill=kept).annotations() == quietly(cs.read, folder)


def test_nothing_is_left_of_a_scan_that_failed(tmp_path: Path) -> None:
    folder = put(tmp_path / "labels", crowd("numbers"), {"item": [1], "annotator": [None], "label": [1]})
    kept = tmp_path / "kept"
    with pytest.raises(IdError):
        cs.scan(folder, spill=kept)
    assert [path.name for path in tmp_path.iterdir()] == ["labels"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(FolderError, match="choose another place"):
        cs.scan(put(tmp_path / "labels", crowd("numbers")), spill=tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


def test_files_that_change_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path / "labels", crowd("text"))
    real = batches.LabelFiles.batches

    def changing(self: batches.LabelFiles, *roles: str) -> Iterator[batches.Batch]:
        yield from real(self, *roles)
        os.utime(folder / "part-0.parquet", ns=(1, 1))

    monkeypatch.setattr(batches.LabelFiles, "batches", changing)
    with pytest.raises(DataError, match="labels was changed while it was read"):
        quietly(cs.scan, folder)


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(import_module("consilience.engine.scan"), "write_grouped", full)
    folder = put(tmp_path / "labels", crowd("numbers"))
    with pytest.raises(FolderError, match=r"is full: labels needs about 0\.1 GB there"):
        cs.scan(folder, spill=tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["labels"]


# ---- bad input --------------------------------------------------------------------------------------------------


def row(item: Any = 1, annotator: Any = 1, label: Any = 1) -> Table:
    return {"item": [item], "annotator": [annotator], "label": [label]}


ELEVEN = {"item": list(range(11)), "annotator": [1] * 11, "label": [1] * 11}
BAD: dict[str, tuple[list[Table], type[DataError], str]] = {
    "no item": (
        [row(), {**ELEVEN, "item": [*range(7), None, *range(3)]}],
        IdError,
        r"part-1.parquet has no item in row 8",
    ),
    "blank item": ([row("a"), row("b"), row(" \u3000")], IdError, r"part-2.parquet has no item in row 1 "),
    "NaN item": ([row(float("nan"))], IdError, r"part-0.parquet has no item in row 1"),
    "no annotator": ([{**ELEVEN, "annotator": [None] * 11}], IdError, r"part-0.parquet has no annotator in rows 1, 2"),
    "blank annotator": (
        [row(1, "w"), row(2, "")],
        IdError,
        r"part-1.parquet has no annotator in row 1 \(column 'annot",
    ),
    "mixed items": ([row(7), row("7")], IdError, r"'item'.*int64 in part-0.parquet, string in part-1.parquet"),
    "mixed labels": ([row(), row(label=1.5)], IdError, r"'label'.*int64 in part-0.parquet, double in part-1.parquet"),
    "lists": ([row(label=[1])], IdError, r"part-0.parquet: column 'label' holds values of type list"),
    "no label at all": (
        [row(label=None), row(2, label=None)],
        DataError,
        r"no label in any of its 2 rows \(column 'la",
    ),
    "no rows": ([{"item": [], "annotator": [], "label": []}], DataError, "labels has no rows"),
    "no column": ([row(), {"item": [1], "label": [1]}], ColumnError, r"part-1.parquet has no column 'annotator'"),
    "other columns": ([{"a": [1], "b": [2], "c": [3]}], ColumnError, "no item column"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_sentence(tmp_path: Path, case: str) -> None:
    tables, kind, said = BAD[case]
    with pytest.raises(kind, match=said):
        cs.scan(put(tmp_path / "labels", *tables))


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    folder = put(tmp_path / "labels", crowd("text"), crowd("text"))
    whole = (folder / "part-1.parquet").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"PAR1"):
        (folder / "part-1.parquet").write_bytes(content)
        for function in (cs.scan, cs.read):
            with pytest.raises(FormatError, match=r"part-1\.parquet: it is not a whole Parquet file"):
                function(folder)
    # the footer is whole and a page is not
    broken = bytearray(whole)
    broken[4:200] = bytes(196)
    (folder / "part-1.parquet").write_bytes(broken)
    with pytest.raises(FormatError, match=r"part-1\.parquet"):
        quietly(cs.scan, folder)


def test_repeated_answers_can_be_an_error(tmp_path: Path) -> None:
    table: Table = {"item": ["a", "a", "b", "b", "b"], "annotator": list("xyxyx"), "label": [1, 1, 1, 0, 1]}
    said = r"labels has 1 repeated answers; for example annotator 'x' answers item 'b'"
    for rows in ([0, 1, 2, 3, 4], [2, 0, 1, 3, 4]):
        folder = put(tmp_path / "labels", {name: [column[r] for r in rows] for name, column in table.items()})
        with pytest.raises(DataError, match=said):
            cs.scan(folder, duplicates="error")


def test_what_cannot_be_scanned(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text(json.dumps({"item": 1, "annotator": 1, "label": 1}) + "\n")
    with pytest.raises(FormatError, match=r"labels\.jsonl cannot be read in batches"):
        cs.scan(tmp_path / "labels.jsonl")
    (tmp_path / "labels.csv").write_text("item,annotator,label\n1,2,3\n1,2\n")
    with pytest.raises(FormatError, match=r"labels\.csv, line 3: 2 fields where the header has 3"):
        cs.scan(tmp_path / "labels.csv")
    (tmp_path / "labels.csv").write_text('item,annotator,label\n1,2,3\n1,2,"3\n2,3,4\n')
    with pytest.raises(FormatError, match=r"labels\.csv"):
        cs.scan(tmp_path / "labels.csv")
    (tmp_path / "labels.csv").write_text("item,annotator,label\n")
    with pytest.raises(DataError, match=r"labels\.csv has no rows"):
        cs.scan(tmp_path / "labels.csv")
    with pytest.raises(ParameterError, match="duplicates must be"):
        cs.scan(tmp_path / "labels.csv", duplicates="sum")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"), [("2GiB", 2**31), ("500MB", 5 * 10**8), ("1.5 gib", 3 * 2**29), ("123", 123), (7, 7)]
)
def test_amounts_of_memory(text: Any, expected: int) -> None:
    assert memory_bytes(text) == expected


def test_no_amounts_of_memory() -> None:
    half = memory_bytes(None)
    assert 0 < half <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    for wrong in ("2 apples", "", 0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="2GiB"):
            memory_bytes(wrong)  # type: ignore[arg-type]
