"""Checkpoints: a run may be killed at any moment, and what is not of this run is refused."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.engine.checkpoint import Checkpoint, Keeper
from consilience.engine.passes import InMemory
from consilience.exceptions import EngineWarning, FolderError, FormatError

#: One block of labels: a pass starts no threads, which a forked child would not have.
LABELS = cs.simulate(1500, 12, 3, labels_per_item=6, accuracy=(0.35, 0.5), seed=0).annotations
OPTIONS: dict[str, Any] = {"tol": 0.0, "max_iter": 40}


def run(kept: Path | None, out: Path, data: Any = LABELS, **options: Any) -> cs.Consensus:
    consensus = cs.aggregate(data, "ds-em", checkpoint=kept, **{**OPTIONS, **options})
    consensus.save(out)
    return consensus


def contents(folder: Path) -> dict[str, Any]:
    """Return the bytes of a run's files, without the seconds in its summary and what follows from them."""
    files: dict[str, Any] = {file.name: file.read_bytes() for file in folder.iterdir()}
    summary = json.loads(files.pop("summary.json"))
    del files["checksums.json"]
    return {**files, "summary": {name: value for name, value in summary.items() if name != "seconds"}}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("engine", ["local", "stream"])
def test_runs_killed_at_any_moment_end_with_the_same_bytes(engine: str, tmp_path: Path) -> None:
    assert InMemory(LABELS).part.share.n == 1
    expected = run(None, tmp_path / "expected", engine=engine)
    begun = time.monotonic()
    run(tmp_path / "timed", tmp_path / "out", engine=engine)
    seconds = time.monotonic() - begun
    rng = np.random.default_rng(0)
    killed = 0
    for attempt in range(6):
        kept, out = tmp_path / f"kept{attempt}", tmp_path / f"out{attempt}"
        for _ in range(2):
            child = os.fork()
            if not child:
                run(kept, out, engine=engine)
                os._exit(0)
            time.sleep(rng.uniform(0.0, 1.1 * seconds))
            os.kill(child, signal.SIGKILL)
            killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        again = run(kept, out, engine=engine)
        assert again.model == expected.model
        assert contents(out) == contents(tmp_path / "expected")
    assert killed > 2


@pytest.fixture
def at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a state whenever there is one."""
    monkeypatch.setattr("consilience.engine.checkpoint._PATIENCE", 0.0)


@pytest.mark.usefixtures("at_every_step")
def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    def stop(state: Any) -> None:
        if state.iteration == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "kept", tmp_path / "out", callback=stop)
    passes: list[int] = []
    run(tmp_path / "kept", tmp_path / "out", callback=lambda state: passes.append(state.iteration))
    assert 22 < passes[0] <= 26
    assert passes[-1] == 40


@pytest.mark.parametrize("method", ["ds-em", "one-coin", "class-one-coin", "rob-symnmf", "rob-symnmf+em"])
def test_every_method_ends_the_same_with_and_without(method: str, tmp_path: Path) -> None:
    plain = cs.aggregate(LABELS, method)
    for _ in range(2):
        kept = cs.aggregate(LABELS, method, checkpoint=tmp_path / "kept")
        assert kept.model == plain.model
        assert kept.run["history"] == plain.run["history"]


@pytest.mark.usefixtures("at_every_step")
def test_sequences_resume(tmp_path: Path) -> None:
    crowd = cs.datasets.simulate_sequences(40, 15, 5, 3, seed=0).annotations
    options: dict[str, Any] = {"tol": 0.0, "max_iter": 30, "checkpoint": tmp_path / "kept"}

    def stop(state: Any) -> None:
        if state.iteration == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cs.aggregate(crowd, "ds-em+hmm+em", callback=stop, **options)
    passes: list[int] = []
    again = cs.aggregate(crowd, "ds-em+hmm+em", callback=lambda state: passes.append(state.iteration), **options)
    assert passes[0] == 20
    whole = cs.aggregate(crowd, "ds-em+hmm+em", tol=0.0, max_iter=30)
    assert again.run["history"] == whole.run["history"]
    np.testing.assert_array_equal(again.posterior, whole.posterior)
    with pytest.raises(FolderError, match="of other labels"):
        cs.aggregate(cs.datasets.simulate_sequences(40, 15, 5, 3, seed=1).annotations, "ds-em+hmm+em", **options)


def test_the_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    cs.aggregate(LABELS, "ds-em", checkpoint=kept)
    before = {file.name: file.read_bytes() for file in kept.iterdir()}
    other = cs.simulate(1500, 12, 3, labels_per_item=6, seed=1).annotations
    for data, method, options, message in (
        (other, "ds-em", {}, "of other labels"),
        (LABELS.with_gold({0: 1}), "ds-em", {}, "of other labels"),
        (LABELS, "one-coin", {}, "with method 'ds-em', not 'one-coin'"),
        (LABELS, "ds-em", {"smoothing": 1.0}, r"with parameters {}, not {'smoothing': 1.0}"),
        (LABELS, "ds-em", {"seed": 1}, "with seed 0, not 1"),
    ):
        with pytest.raises(FolderError, match=f"checkpoint of a run {message}; choose another folder, or remove"):
            cs.aggregate(data, method, checkpoint=kept, **options)
    assert {file.name: file.read_bytes() for file in kept.iterdir()} == before


def test_other_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / ".git").mkdir()
    with pytest.raises(FolderError, match="not a folder of an earlier run"):
        cs.aggregate(LABELS, "ds-em", checkpoint=tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"thesis.txt", ".git"}
    (tmp_path / "thesis.txt").unlink()
    with pytest.raises(FolderError, match="not a folder of an earlier run"):
        cs.aggregate(LABELS, "ds-em", checkpoint=tmp_path)


def test_damage_is_named(tmp_path: Path) -> None:
    cs.aggregate(LABELS, "ds-em", checkpoint=tmp_path / "kept")
    (tmp_path / "kept" / "em.npz").write_bytes(b"PK")
    with pytest.raises(FormatError, match=r"is damaged.*remove it to start over"):
        cs.aggregate(LABELS, "ds-em", checkpoint=tmp_path / "kept")


def test_methods_without_checkpoint_warn(tmp_path: Path) -> None:
    with pytest.warns(EngineWarning, match="ibcc keeps no checkpoint"):
        cs.aggregate(LABELS, "ibcc", checkpoint=tmp_path / "kept")


def test_unfinished_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path / "kept", {"method": "ds-em"})
    (kept.folder / ".em.npz.abc").write_bytes(b"half")
    (kept.folder / ".consilience-xyz").mkdir()
    Checkpoint(tmp_path / "kept", {"method": "ds-em"})
    assert [file.name for file in kept.folder.iterdir()] == ["checkpoint.json"]


def test_writing_takes_a_small_part_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that takes a second to write is written again after ten."""
    kept = Checkpoint(tmp_path / "kept", {})
    now = [100.0]
    written: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def save(*_: Any) -> None:
        written.append(now[0])
        now[0] += 1.0

    monkeypatch.setattr(kept, "save", save)
    keeper = Keeper(kept, "em")
    for _ in range(40):
        keeper.save({}, [])
        now[0] += 1.0
    assert written == [100.0, 111.0, 122.0, 133.0]
