"""A run keeps what annotators said, and more files can be added to its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import consilience as cs
from consilience.exceptions import DataError, FormatError


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
