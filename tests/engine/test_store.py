"""Labels on disk are the labels that were in memory, or a clear error."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.engine.fingerprint import fingerprint
from consilience.engine.store import Store
from consilience.engine.store_writer import StoreWriter, write_store
from consilience.exceptions import FolderError, FormatError


def labels(n_items: int = 23, M: int = 9, K: int = 3, seed: int = 0, names: str = "text") -> Annotations:
    rng = np.random.default_rng(seed)
    matrix = np.where(rng.random((n_items, M)) < 0.5, rng.integers(0, K, (n_items, M)), -1)
    items: list[Any] = [f"ø{n}" if names == "text" else n + 7 for n in range(n_items)]
    return Annotations.from_matrix(matrix, items=items, gold={items[2]: 1})


@pytest.mark.parametrize("names", ["text", "int"])
def test_round_trip_whole_and_by_blocks(tmp_path: Path, names: str) -> None:
    made = labels(names=names)
    store = write_store(made, tmp_path / "store")
    assert store.annotations() == made
    assert store.annotations().origin == made.origin
    assert store.fingerprint == fingerprint(made)
    assert (store.n_items, store.n_annotators, store.n_classes) == (23, 9, 3)
    for first, stop in [(0, 5), (5, 6), (5, 23), (4, 4)]:
        assert store.annotations(first, stop) == made.select_items(slice(first, stop))
        store.release(first, stop)
    assert store.annotations() == made
    assert pickle.loads(pickle.dumps(store)).annotations() == made
    assert fingerprint(store.annotations()) == store.fingerprint


def test_blocks_are_the_whole(tmp_path: Path) -> None:
    made = labels(n_items=200)
    store = write_store(made, tmp_path / "store")
    for aim in (1, 10, 77, 10_000):
        ranges = store.cut(aim)
        assert [first for first, _ in ranges] == [0, *[stop for _, stop in ranges[:-1]]]
        assert ranges[-1][1] == 200
        longest = made.labels_per_item.max()
        assert max(made.indptr[b] - made.indptr[a] for a, b in ranges) <= aim + longest


def test_written_in_any_blocks_it_is_the_same(tmp_path: Path) -> None:
    made = labels(n_items=50)
    for size in (1, 7, 50):
        with StoreWriter(tmp_path / "store", made.origin) as writer:
            for low in range(0, 50, size):
                part = made.select_items(slice(low, low + size))
                writer.append(part.labels_per_item, part.annotator, part.label, part.item_ids.to_arrow())
            writer.finish(made.annotator_ids, made.class_ids, gold=(np.array([2]), np.array([1])))
        store = Store(tmp_path / "store")
        assert store.annotations() == made
        assert [store.item_ids(a, a + 9) for a in range(40)] == [made.item_ids[a : a + 9] for a in range(40)]
        assert store.fingerprint == fingerprint(made)


def test_names_of_more_text_than_offsets_of_32_bits_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = labels()
    store = write_store(made, tmp_path / "store")
    monkeypatch.setattr("consilience.engine.store._WIDE", 50)
    assert store.item_ids().to_arrow().type == pa.large_string()
    assert list(store.item_ids()) == list(made.item_ids)
    assert store.item_ids(0, 2) == made.item_ids[:2]


def test_codes_grow_as_annotators_come(tmp_path: Path) -> None:
    code = np.array([0, 255, 256, 65_535, 65_536], np.int32)
    with StoreWriter(tmp_path / "store") as writer:
        for n, m in enumerate(code):
            writer.append(np.ones(1, np.int64), np.array([m]), np.array([n % 2]), pa.array([n]))
        writer.finish(Ids.range(65_537), Ids(["a", "b"]), rank=np.array([1, 0]))
    store = Store(tmp_path / "store")
    assert store.annotator.dtype == np.uint32
    assert store.annotator.tolist() == code.tolist()
    assert store.label.tolist() == [1, 0, 1, 0, 1]


def test_fingerprints_tell_labels_apart() -> None:
    made = labels()
    others = [
        made.with_gold(None),
        made.with_items(Ids([f"x{n}" for n in range(23)])),
        made.select_items(slice(0, 22)),
        made.select_items([1, 0, *range(2, 23)]),
        labels(seed=1),
    ]
    assert len({fingerprint(other) for other in [made, *others]}) == 6
    # the same bytes, cut elsewhere
    one, two = (made.with_items(Ids([*head, *[f"x{n}" for n in range(21)]])) for head in (["ab", "c"], ["a", "bc"]))
    assert fingerprint(one) != fingerprint(two)
    assert fingerprint(labels()) == fingerprint(made)


def test_what_fails_leaves_the_old(tmp_path: Path) -> None:
    made = labels()
    write_store(made, tmp_path / "store")
    with pytest.raises(AttributeError), StoreWriter(tmp_path / "store") as writer:
        writer.append(np.ones(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int32), None)
    with pytest.raises(RuntimeError, match="not finished"), StoreWriter(tmp_path / "store"):
        pass
    assert Store(tmp_path / "store").annotations() == made
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_killed_writer_leaves_no_store(tmp_path: Path) -> None:
    script = f"""
import os, signal
import numpy as np, pyarrow as pa
from consilience.data.ids import Ids
from consilience.engine.store_writer import StoreWriter, write_store
with StoreWriter({str(tmp_path / "store")!r}) as writer:
    writer.append(np.ones(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int32), pa.array([1]))
    writer.finish(Ids(["a"]), Ids([0]))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "store").exists()


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FolderError, match="choose another place"):
        write_store(labels(), tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


ARRAYS = ["indptr.npy", "annotator.npy", "label.npy", "gold.npy"]
FILES = [*ARRAYS, "items.arrow", "annotators.arrow", "classes.arrow", "meta.json"]


@pytest.mark.parametrize("name", FILES)
def test_damage_is_named(tmp_path: Path, name: str) -> None:
    store = write_store(labels(), tmp_path / "store")
    file = store.folder / name
    whole = file.read_bytes()
    for content in (whole[: len(whole) // 2], b"", whole[:100]):
        file.write_bytes(content)
        with pytest.raises(FormatError, match="store"):
            Store(tmp_path / "store")
    file.unlink()
    with pytest.raises(FormatError, match="store"):
        Store(tmp_path / "store")


def test_files_of_two_stores_do_not_open(tmp_path: Path) -> None:
    one = write_store(labels(), tmp_path / "one")
    two = write_store(labels(n_items=24), tmp_path / "two")
    (one.folder / "items.arrow").write_bytes((two.folder / "items.arrow").read_bytes())
    with pytest.raises(FormatError, match="damaged"):
        Store(tmp_path / "one")


def test_other_formats_and_versions_are_refused(tmp_path: Path) -> None:
    store = write_store(labels(), tmp_path / "store")
    meta = json.loads((store.folder / "meta.json").read_text())
    for change, said in (({"version": 2}, "version 2"), ({"format": "consilience.Consensus"}, "not a store")):
        (store.folder / "meta.json").write_text(json.dumps({**meta, **change}))
        with pytest.raises(FormatError, match=said):
            Store(tmp_path / "store")
