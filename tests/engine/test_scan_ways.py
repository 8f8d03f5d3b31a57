"""Items that stand together are passed through; only scattered ones are brought together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.engine.scans import crowd, put, quietly

import consilience as cs
from consilience.engine import grouped, scattered
from consilience.io import batches
from consilience.kernels.names import SEEDS
from consilience.kernels.rows import Words

pytestmark = pytest.mark.usefixtures("small_steps")


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
