"""A run written block by block is the run written at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.conftest import quietly

import consilience as cs
from consilience.datasets import load
from consilience.engine.outputs import RunWriter
from consilience.exceptions import FolderError, ParameterError


@pytest.fixture(scope="module")
def run() -> cs.Consensus:
    annotations = load("dawid_skene").annotations
    matrix = np.full((50, 5), np.nan)
    for n in range(45):
        for at in range(annotations.indptr[n], annotations.indptr[n + 1]):
            matrix[n, annotations.annotator[at]] = annotations.label[at]
    # the last five items have no label, and one of them a known truth
    return quietly(cs.Annotations.from_matrix(matrix, gold={47: 2.0}), "ds-em")


def write(run: cs.Consensus, folder: Path, size: int, **options: object) -> None:
    gold = bool(run.run["gold_items"])
    with RunWriter(folder, run.model, 50, origin=run.origin, gold=gold, **options) as writer:  # type: ignore[arg-type]
        for low in range(0, 50, size):
            part = slice(low, low + size)
            writer.append(run.item_ids[part], run.n_labels[part], run.posterior[part])
        writer.finish(run.counts, run.run)


@pytest.mark.parametrize("size", [1, 7, 50])
def test_blocks_give_the_files_of_the_whole(run: cs.Consensus, tmp_path: Path, size: int) -> None:
    run.save(tmp_path / "whole")
    write(run, tmp_path / "blocks", size)
    assert (tmp_path / "blocks" / "labels.csv").read_bytes() == (tmp_path / "whole" / "labels.csv").read_bytes()
    whole, blocks = (pq.read_table(tmp_path / name / "posterior.parquet") for name in ("whole", "blocks"))
    assert whole.equals(blocks)
    loaded = cs.load(tmp_path / "blocks")
    assert loaded.labels.equals(run.labels)
    assert np.array_equal(loaded.posterior, run.posterior)
    assert np.array_equal(loaded.model.confusions, run.model.confusions)


def test_an_item_of_known_truth_has_a_label_and_one_without_anything_has_none(
    run: cs.Consensus, tmp_path: Path
) -> None:
    write(run, tmp_path / "run", 3)
    rows = pyarrow.csv.read_csv(tmp_path / "run" / "labels.csv").to_pylist()
    assert [row["label"] for row in rows[45:]] == [None, None, 2.0, None, None]
    assert [row["confidence"] for row in rows[45:]] == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_parquet_holds_what_csv_holds(run: cs.Consensus, tmp_path: Path) -> None:
    write(run, tmp_path / "run", 9, labels="parquet")
    assert not (tmp_path / "run" / "labels.csv").exists()
    expected = cs.Consensus.load(tmp_path / "run")._label_columns()
    assert pq.read_table(tmp_path / "run" / "labels.parquet").to_pydict() == {
        name: column.to_pylist() for name, column in expected.items()
    }
    run.save(tmp_path / "saved", labels="parquet")
    saved = pq.read_table(tmp_path / "saved" / "labels.parquet")
    assert saved.equals(pq.read_table(tmp_path / "run" / "labels.parquet"))


def test_many_items_become_parquet_by_themselves(
    run: cs.Consensus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consilience.runs.label_table._LARGE", 49)
    write(run, tmp_path / "run", 25)
    assert (tmp_path / "run" / "labels.parquet").exists()
    write(run, tmp_path / "run", 25, labels="csv")
    assert sorted(path.name for path in (tmp_path / "run").glob("labels.*")) == ["labels.csv"]


def test_nothing_half_written(run: cs.Consensus, tmp_path: Path) -> None:
    write(run, tmp_path / "run", 25)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(RuntimeError, match="not finished"), RunWriter(tmp_path / "run", run.model, 50) as writer:
        writer.append(run.item_ids[:5], run.n_labels[:5], run.posterior[:5])
    with pytest.raises(ParameterError, match="'csv' or 'parquet'"):
        write(run, tmp_path / "run", 25, labels="xlsx")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(FolderError):
        write(run, tmp_path / "mine", 25)
