"""A run written block by block equals the run written at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.conftest import quietly

import consilience as cs
from consilience.datasets import load
from consilience.exceptions import FolderError, ParameterError


@pytest.fixture(scope="module")
def labels() -> cs.Annotations:
    """Fifty items: the last five have no label, and one of these has a known truth."""
    annotations = load("dawid_skene").annotations
    matrix = np.full((50, 5), np.nan)
    for n in range(45):
        for at in range(annotations.indptr[n], annotations.indptr[n + 1]):
            matrix[n, annotations.annotator[at]] = annotations.label[at]
    return cs.Annotations.from_matrix(matrix, gold={47: 2.0})


@pytest.fixture(scope="module")
def run(labels: cs.Annotations) -> cs.Consensus:
    return quietly(labels, "ds-em")


@pytest.fixture(scope="module")
def streamed(labels: cs.Annotations) -> cs.Consensus:
    return quietly(labels, "ds-em", engine="stream")


@pytest.mark.parametrize("size", [1, 30, 1000])
def test_blocks_write_the_files_of_the_whole(
    run: cs.Consensus, streamed: cs.Consensus, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consilience.engine.streamed._BLOCK", size)
    run.save(tmp_path / "whole")
    monkeypatch.setattr("consilience.runs.label_table._ROWS", max(size // 2, 1))
    streamed.save(tmp_path / "blocks")
    assert (tmp_path / "blocks" / "labels.csv").read_bytes() == (tmp_path / "whole" / "labels.csv").read_bytes()
    whole, blocks = (pq.read_table(tmp_path / name / "posterior.parquet") for name in ("whole", "blocks"))
    assert whole.equals(blocks)
    loaded = cs.load(tmp_path / "blocks")
    assert loaded.labels.equals(run.labels)
    assert np.array_equal(loaded.posterior, run.posterior)
    assert np.array_equal(loaded.model.confusions, run.model.confusions)


def test_an_item_of_known_truth_has_a_label_and_an_empty_one_has_none(streamed: cs.Consensus, tmp_path: Path) -> None:
    streamed.save(tmp_path / "run")
    rows = pyarrow.csv.read_csv(tmp_path / "run" / "labels.csv").to_pylist()
    assert [row["label"] for row in rows[45:]] == [None, None, 2.0, None, None]
    assert [row["confidence"] for row in rows[45:]] == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_parquet_holds_what_csv_holds(run: cs.Consensus, streamed: cs.Consensus, tmp_path: Path) -> None:
    streamed.save(tmp_path / "run", labels="parquet")
    assert not (tmp_path / "run" / "labels.csv").exists()
    expected = cs.Consensus.load(tmp_path / "run").label_columns
    assert pq.read_table(tmp_path / "run" / "labels.parquet").to_pydict() == {
        name: column.to_pylist() for name, column in expected.items()
    }
    run.save(tmp_path / "saved", labels="parquet")
    saved = pq.read_table(tmp_path / "saved" / "labels.parquet")
    assert saved.equals(pq.read_table(tmp_path / "run" / "labels.parquet"))


def test_many_items_are_written_as_parquet(
    streamed: cs.Consensus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consilience.runs.label_table._LARGE", 49)
    streamed.save(tmp_path / "run")
    assert (tmp_path / "run" / "labels.parquet").exists()
    streamed.save(tmp_path / "run", labels="csv")
    assert sorted(path.name for path in (tmp_path / "run").glob("labels.*")) == ["labels.csv"]


def test_nothing_is_half_written(streamed: cs.Consensus, tmp_path: Path) -> None:
    streamed.save(tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}

    def fail(_: Path) -> None:
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        streamed.save(tmp_path / "run", add=fail)
    with pytest.raises(ParameterError, match="'csv' or 'parquet'"):
        streamed.save(tmp_path / "run", labels="xlsx")  # type: ignore[arg-type]
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(FolderError):
        streamed.save(tmp_path / "mine")
