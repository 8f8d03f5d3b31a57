"""Consensus in a folder: it comes back as it was, and what is not a run is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conftest import quietly
from tests.tables import columns_of, rows_of

import consilience as cs
from consilience.exceptions import DataError, FormatError


def assert_equal(one: cs.Consensus, other: cs.Consensus) -> None:
    assert one.model == other.model
    assert one.posterior.tobytes() == other.posterior.tobytes()
    assert np.array_equal(one.counts, other.counts)
    assert np.array_equal(one.n_labels, other.n_labels)
    assert all(np.array_equal(a, b) for a, b in zip(one.choice, other.choice, strict=True))
    assert list(one.item_ids) == list(other.item_ids)
    assert dict(one.run) == dict(other.run)
    assert one.summary() == other.summary()
    for name in ("labels", "annotators"):
        a, b = columns_of(getattr(one, name)), columns_of(getattr(other, name))
        assert list(a) == list(b)
        for column in a:
            assert [type(v) for v in a[column]] == [type(v) for v in b[column]]
            assert str(a[column]) == str(b[column])


VALUES: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    "str": (["p", "q"], ["a", "b", "c"], ["x", "y"]),
    "int": ([7, 8], [1, 2, 3], [0, 1]),
    "digits": (["7", "007"], ["1", "01", "2"], ["0", "00"]),
    "mixed": ([2**60 + 1, 5], ["a", "b", "c"], [True, False]),
    "float": ([0.5, 1.5], [1, 2, 3], [0.1, 0.2]),
    "unicode": (["日本", "é\n\t,\"'"], ["😀", "b;c", "[x]"], ["ß", "ø"]),
    "date": (
        [pd.Timestamp("2024-01-01").date(), pd.Timestamp("2024-01-02").date()],
        ["a", "b", "c"],
        [pd.Timestamp("2023-01-01").date(), pd.Timestamp("2023-01-02").date()],
    ),
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("method", ["majority", "ds-em"])
def test_round_trip_through_a_folder(tmp_path: Path, values: str, method: str) -> None:
    items, annotators, classes = VALUES[values]
    rows = [
        (item, who, classes[(n + (m == 2)) % 2]) for n, item in enumerate(items) for m, who in enumerate(annotators)
    ]
    consensus = quietly(pd.DataFrame(rows, columns=["task", "worker", "label"]), method)
    consensus.save(tmp_path / "run")
    again = cs.load(tmp_path / "run")
    assert_equal(consensus, again)
    for ids, wanted in (
        (again.item_ids, items),
        (again.model.annotators, annotators),
        (again.model.classes, sorted(classes)),
    ):
        assert list(ids) == wanted
        assert [type(v) for v in ids] == [type(v) for v in wanted]
    again.save(tmp_path / "again")
    assert_equal(cs.load(tmp_path / "again"), consensus)


def test_numpys_numbers_are_numbers(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {"seed": np.int64(3), "max_iter": np.int64(50), "tol": np.float64(1e-6)}
    consensus = cs.aggregate(pd.DataFrame(rows_of()), "ds-em", smoothing=np.float32(0.5), **numbers)
    consensus.save(tmp_path / "run")
    summary = json.loads((tmp_path / "run/summary.json").read_text("utf-8"))
    assert summary["seed"] == 3
    assert_equal(cs.load(tmp_path / "run"), consensus)


def test_no_file_needs_pickle(tmp_path: Path) -> None:
    cs.aggregate(pd.DataFrame(rows_of())).save(tmp_path / "run")
    archives = list((tmp_path / "run").rglob("*.np[yz]"))
    assert (tmp_path / "run/model.npz") in archives
    for archive in archives:
        with np.load(archive, allow_pickle=False) as file:
            for name in file.files:
                assert file[name].dtype != object
    assert not list((tmp_path / "run").rglob("*.pkl"))


def test_saving_over_an_earlier_run_and_over_something_else(tmp_path: Path) -> None:
    consensus = cs.aggregate(pd.DataFrame(rows_of()))
    consensus.save(tmp_path / "run")
    majority = cs.aggregate(pd.DataFrame(rows_of()), "majority")
    majority.save(str(tmp_path / "run"))
    assert_equal(cs.load(tmp_path / "run"), majority)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.txt").write_text("ten years of work")
    with pytest.raises(FileExistsError, match="home"):
        consensus.save(tmp_path / "home")
    assert [p.name for p in (tmp_path / "home").iterdir()] == ["thesis.txt"]


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="absent"):
        cs.load(tmp_path / "absent")
    with pytest.raises(FormatError, match=tmp_path.name):
        cs.load(tmp_path)
    for text in ("", "{", "[]", "null", '{"mine": 1}', '{"format": "other", "version": 1}'):
        (tmp_path / "summary.json").write_text(text)
        with pytest.raises(FormatError, match="not the folder of a run"):
            cs.load(tmp_path)


@pytest.mark.parametrize("version", [2, 99, "1", None, "absent"])
def test_other_versions_are_refused(tmp_path: Path, version: Any) -> None:
    cs.aggregate(pd.DataFrame(rows_of())).save(tmp_path / "run")
    place = tmp_path / "run/summary.json"
    summary = json.loads(place.read_text("utf-8"))
    assert summary["version"] == 1
    summary["version"] = version
    if version == "absent":
        del summary["version"]
    place.write_text(json.dumps(summary), "utf-8")
    (tmp_path / "run/checksums.json").unlink()
    with pytest.raises(FormatError, match=r"format version|not the folder of a run"):
        cs.load(tmp_path / "run")


@pytest.mark.parametrize("damage", ["absent", "empty", "cut", "words"])
@pytest.mark.parametrize("file", ["model.npz", "posterior.parquet", "evidence.npz"])
def test_a_damaged_run_is_refused(tmp_path: Path, file: str, damage: str) -> None:
    cs.aggregate(pd.DataFrame(rows_of())).save(tmp_path / "run")
    place = tmp_path / "run" / file
    content = place.read_bytes()
    place.write_bytes({"absent": b"", "empty": b"", "cut": content[: len(content) // 2], "words": b"words"}[damage])
    if damage == "absent":
        place.unlink()
    with pytest.raises(FormatError, match="run"):
        cs.load(tmp_path / "run")


# ---- labels of the annotators ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run() -> cs.Consensus:
    crowd = cs.simulate(60, 6, 3, labels_per_item=4, seed=1)
    return cs.aggregate(crowd.annotations, gold={0: int(crowd.truth[0])})


def test_labels_and_gold_come_back(run: cs.Consensus, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    again = cs.load(tmp_path / "run")
    assert again.annotations == run.annotations
    assert again.annotations is not None
    assert again.annotations.gold is not None
    assert cs.diagnose(again.annotations, consensus=again).verdict == run.diagnosis.verdict
    with pytest.raises(DataError, match=r"diagnose\(run\.annotations"):
        again.diagnosis  # noqa: B018


def test_repeated_answers_come_back() -> None:
    annotations = cs.datasets.load("dawid_skene").annotations  # the first annotator answered thrice
    assert cs.aggregate(annotations, "majority").annotations == annotations


def test_sequences_come_back_with_their_labels(tmp_path: Path) -> None:
    crowd = cs.datasets.simulate_sequences(10, 6, 4, 3, seed=0).annotations
    cs.aggregate(crowd, "ds-em+hmm").save(tmp_path / "run")
    again = cs.load(tmp_path / "run")
    assert isinstance(again, cs.SequenceRun)
    assert again.sequences.tokens.n_labels == crowd.tokens.n_labels
    assert (again.sequences.tokens.label == crowd.tokens.label).all()


def test_a_run_without_labels_is_saved_without_them(run: cs.Consensus, tmp_path: Path) -> None:
    replace(run, annotations=None).save(tmp_path / "run")
    assert not (tmp_path / "run/answers.parquet").exists()
    assert cs.load(tmp_path / "run").annotations is None


@pytest.mark.parametrize(
    "table",
    [
        {"annotator": [0], "label": [0]},
        {"annotator": [6] * 240, "label": [0] * 240},
        {"annotator": [-1] * 240, "label": [0] * 240},
        {"annotator": ["a"] * 240, "label": [0] * 240},
        {"annotator": [0] * 240},
        None,
    ],
    ids=["few", "unknown", "negative", "text", "column", "bytes"],
)
def test_damaged_labels_are_refused(run: cs.Consensus, tmp_path: Path, table: dict[str, list[int]] | None) -> None:
    run.save(tmp_path / "run")
    place = tmp_path / "run/answers.parquet"
    if table is None:
        place.write_bytes(b"PAR1")
    else:
        pq.write_table(pa.table(table), place)
    with pytest.raises(FormatError, match="damaged"):
        cs.load(tmp_path / "run")


def test_files_are_added_before_the_folder_takes_its_place(run: cs.Consensus, tmp_path: Path) -> None:
    run.save(tmp_path / "run")

    def fails(folder: Path) -> None:
        (folder / "more.txt").write_text("half")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        run.save(tmp_path / "run", add=fails)
    assert not (tmp_path / "run/more.txt").exists()
    run.save(tmp_path / "run", add=lambda folder: (folder / "more.txt").write_text("whole"))
    assert (tmp_path / "run/more.txt").read_text() == "whole"
    assert [place.name for place in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("change", ["flip", "cut", "grow", "delete", "swap"])
def test_every_damaged_file_is_noticed(tmp_path: Path, change: str) -> None:
    """One bit anywhere, a file cut short, lengthened, removed or taken from another run."""
    crowd = cs.simulate(60, 5, 3, labels_per_item=3, seed=1)
    gold = crowd.annotations.with_gold(crowd.truth)
    cs.aggregate(gold, "ds-em").save(tmp_path / "run")
    cs.aggregate(gold, "majority").save(tmp_path / "other")
    rng = np.random.default_rng(0)
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert {"answers.parquet", "gold.parquet", "checksums.json", "labels.csv", "summary.json"} <= set(files)
    for name in files:
        path = tmp_path / "run" / name
        whole = path.read_bytes()
        for _ in range(5 if change == "flip" else 1):
            raw = bytearray(whole)
            if change == "flip":
                raw[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))
            elif change == "swap":
                raw = bytearray((tmp_path / "other" / name).read_bytes())
                if raw == whole:
                    continue
            path.write_bytes({"cut": whole[: len(whole) // 2], "grow": whole + b" "}.get(change, bytes(raw)))
            if change == "delete":
                path.unlink()
            if (name, change) in {("checksums.json", "delete"), ("checksums.json", "grow")}:
                continue  # without checksums there is a note; white space at the end says the same
            with pytest.raises(FormatError, match=r"run is damaged|run is not"):
                cs.load(tmp_path / "run")
        path.write_bytes(whole)
    cs.load(tmp_path / "run")


def test_a_run_without_checksums_is_read_with_a_note(tmp_path: Path) -> None:
    run = quietly(cs.simulate(60, 5, 3, labels_per_item=3, seed=1).annotations)
    run.save(tmp_path / "run")
    (tmp_path / "run" / "checksums.json").unlink()
    with pytest.warns(cs.exceptions.DataWarning, match="has no checksums.json"):
        assert_equal(cs.load(tmp_path / "run"), run)


def test_a_report_may_be_written_again(tmp_path: Path) -> None:
    run = quietly(cs.simulate(60, 5, 3, labels_per_item=3, seed=1).annotations)
    run.save(tmp_path / "run", add=lambda folder: (folder / "report.html").write_text("one"))
    (tmp_path / "run" / "report.html").write_text("another")
    cs.load(tmp_path / "run")
